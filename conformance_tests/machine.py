"""The skips that a class of machines may have: ``machines/NAME.yaml``. A skip that is not listed fails."""

from __future__ import annotations

from pathlib import Path

from tutti_hal.conformance_tests.errors import MachineUnknown
from tutti_hal.conformance_tests.terms import ExpectedSkip
from tutti_hal.conformance_tests.verdict import DECLARED_REASONS, SkipReason
from tutti_hal.paths import package_file
from tutti_hal.spec.nodes import Problems, near_miss, read
from tutti_hal.spec.schema import BAD, Int, ListOf, Struct, Text

_REASONS = tuple(str(reason) for reason in SkipReason if reason not in DECLARED_REASONS)

_SCHEMA = Struct(
    {
        "version": Int(1, 1),
        "title": Text(),
        "skips": ListOf(
            Struct(
                {
                    "cases": Text(pattern=r"[a-z*?\[][^\s]*", noun="glob of instance ids"),
                    "reason": Text(known=_REASONS, noun="reason"),
                    "why": Text(pattern=r"(?s).*\.\s*", noun="sentence"),
                }
            )
        ),
    }
)


def machines(folder: Path | None = None) -> tuple[str, ...]:
    """The names of all classes of machines."""
    return tuple(sorted(path.stem for path in (folder or _installed()).glob("*.yaml")))


def load_machine(name: str, folder: Path | None = None) -> tuple[ExpectedSkip, ...]:
    """The skips that a class of machines may have.

    Args:
        name: of the class; ``default`` for a machine of which nothing is known.
        folder: where the lists lie; the installed ones when None.

    Raises:
        MachineUnknown: there is no such class; the near miss is named.
        SpecError: the list is wrong; everything wrong is listed with file, line and key.
    """
    known = machines(folder)
    if name not in known:
        raise MachineUnknown(
            f"look up what a machine of class '{name}' may skip",
            f"there is no such class{near_miss(name, known)}",
            f"Name one of: {', '.join(known)}.",
        )
    file = (folder or _installed()) / f"{name}.yaml"
    problems = Problems()
    table = _SCHEMA.check(read(file), problems)
    problems.raise_if_any(f"load the list of expected skips {file}")
    if table is BAD:
        return ()
    return tuple(
        ExpectedSkip(one["cases"], SkipReason(one["reason"]), " ".join(one["why"].split())) for one in table["skips"]
    )


def _installed() -> Path:
    return package_file("conformance_tests", "machines")

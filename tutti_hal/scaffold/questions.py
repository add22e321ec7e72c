"""What a vendor has to find out for each fact of its record, and where that is checked."""

from __future__ import annotations

import functools
import textwrap
from collections.abc import Mapping
from importlib.resources import files
from types import MappingProxyType

from tutti_hal.scaffold.model import Path_
from tutti_hal.spec import Spec, load_spec

#: How a marker begins.
MARK = "#?"

#: Facts that say where other facts are from: their question is the same everywhere.
_PROOF: Mapping[str, str] = MappingProxyType(
    {
        "source": "where you read it",
        "evidence": "hardware, header, binary, vendor-source, vendor-doc, third-party, inferred or unknown",
    }
)

#: Facts that nobody has to answer.
_GIVEN = ("schema", "vendor")


@functools.cache
def _asked() -> Mapping[str, tuple[str, str]]:
    import yaml

    text = files("tutti_hal").joinpath("scaffold", "questions.yaml").read_text(encoding="utf-8")
    return MappingProxyType({place: (row["ask"], row["check"]) for place, row in yaml.safe_load(text).items()})


def question(path: Path_, spec: Spec | None = None) -> tuple[str, str]:
    """What to find out for a fact, and the clause that checks it; two empty texts where nothing is to be answered.

    Args:
        path: where the fact lies; the name of an arch is ``*``.
        spec: the contract; the installed one when None.
    """
    contract = spec or load_spec()
    if path[0] in _GIVEN:
        return "", ""
    if path[-1] in _PROOF:
        return _PROOF[path[-1]], "record.fact.has_source"
    if path[-2:-1] == ("capabilities",) and path[-1] in contract.capabilities:
        return _short(contract.capabilities[path[-1]].meaning), "record.capability.true_is_shown"
    if path[0] == "primitives" and path[1] in contract.families:
        first = contract.families[path[1]][0]
        return _short(first.contract), first.clauses[0]
    for length in range(len(path), 0, -1):
        known = _asked().get(".".join(path[:length]))
        if known is not None:
            return known
    return "whether this is so with you", "record.schema.valid"


def _short(text: str) -> str:
    return textwrap.shorten(text.rstrip("."), 96, placeholder=" ...")


def marker(path: Path_, spec: Spec | None = None) -> str:
    """The end of a fact's line; empty where nothing is to be answered."""
    ask, check = question(path, spec)
    return f"  {MARK} {ask} [{check}]" if ask else ""


def open_lines(text: str) -> int:
    """How many lines of a text are still marked."""
    return sum(f"{MARK} " in line for line in text.splitlines())

"""The tables beside the operators: which cases should notice what, what was made by hand, what cannot be noticed."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any

from tutti_hal.conformance_tests.errors import MutantsInvalid
from tutti_hal.conformance_tests.mutants.mutant import Mutant
from tutti_hal.paths import package_file

#: At most this part of all mutants may be listed as equivalent.
EQUIVALENT_LIMIT = 0.05


@dataclass(frozen=True)
class HandMade:
    """An entry of ``registry.yaml``.

    Attributes:
        name: its id is ``hand/<name>``.
        file: a template below the root.
        pattern: a regular expression that occurs once in it; a dot matches line ends.
        instead: what stands there instead; it may use the pattern's groups.
        about: the fault, in a sentence.
        cases: globs of the cases that must notice.
        origin: the file that it was read from.
    """

    name: str
    file: str
    pattern: str
    instead: str
    about: str
    cases: tuple[str, ...]
    origin: str = "registry.yaml"


@dataclass(frozen=True)
class Target:
    """A row of ``targets.yaml``: which cases should notice mutants of some places.

    Attributes:
        places: globs over :attr:`Mutant.place`.
        operators: values of operators; empty for all.
        texts: globs over :attr:`Mutant.before`; empty for all.
        clauses: whether the cases that claim a clause of the mutant's primitive or host function are meant.
        cases: globs of case names, in the order in which they are tried.
        awaits: the level whose cases are the ones to notice it, where that level has none yet.
    """

    places: tuple[str, ...]
    operators: tuple[str, ...]
    texts: tuple[str, ...]
    clauses: bool
    cases: tuple[str, ...]
    awaits: str

    def fits(self, mutant: Mutant) -> bool:
        """Whether the row is about a mutant."""
        if self.operators and mutant.operator not in self.operators:
            return False
        if self.texts and not any(fnmatchcase(mutant.before, glob) for glob in self.texts):
            return False
        return any(fnmatchcase(mutant.place, glob) for glob in self.places)


@dataclass(frozen=True)
class Tables:
    """All of them.

    Attributes:
        templates: globs of the templates that are the product's; ``!`` excludes.
        constants: groups of constants that are exchanged with each other.
        tuning: constants that only tune -> why any number near theirs is as right; where they are defined is no site.
        targets: rows, the first that fits a mutant decides.
        hand_made: of ``registry.yaml``.
        equivalents: mutant id -> why nothing can notice it.
        survivors: mutant id -> which case is missing. They are open faults of the suite, and count as not killed.
        macros: C name of a capability, without ``TT_HAS_`` -> capability.
    """

    templates: tuple[str, ...] = ()
    constants: tuple[tuple[str, ...], ...] = ()
    tuning: Mapping[str, str] = field(default_factory=dict)
    targets: tuple[Target, ...] = ()
    hand_made: tuple[HandMade, ...] = ()
    equivalents: Mapping[str, str] = field(default_factory=dict)
    survivors: Mapping[str, str] = field(default_factory=dict)
    macros: Mapping[str, str] = field(default_factory=dict)

    def target_of(self, mutant: Mutant) -> Target | None:
        """The first row that fits; for a mutant made by hand, the cases that it names itself."""
        if mutant.cases:
            return Target((), (), (), False, mutant.cases, "")
        return next((row for row in self.targets if row.fits(mutant)), None)


def load_tables(folder: Path | None = None) -> Tables:
    """Read ``targets.yaml``, ``registry.yaml``, ``equivalents.yaml`` and, where it is there, ``survivors.yaml``.

    Args:
        folder: where they lie; beside this module when None.

    Raises:
        MutantsInvalid: an entry lacks a key, has a strange one, or is of the wrong kind.
    """
    from tutti_hal.codegen.headers import capability_macro
    from tutti_hal.spec import load_spec

    where = folder or package_file("conformance_tests", "mutants")
    targets = _read(where / "targets.yaml", {"templates": list, "constants": dict, "tuning": dict, "targets": list})
    registry = _read(where / "registry.yaml", {"mutants": dict})
    equivalents = _read(where / "equivalents.yaml", {"equivalents": dict})
    file = where / "survivors.yaml"
    survivors = _read(file, {"survivors": dict})["survivors"] if file.exists() else {}
    macros = {capability_macro(name).removeprefix("TT_HAS_"): name for name in load_spec().capabilities}
    return Tables(
        templates=tuple(targets["templates"]),
        constants=tuple(tuple(names) for names in targets["constants"].values()),
        tuning={str(name): _sentence(name, text, where / "targets.yaml") for name, text in targets["tuning"].items()},
        targets=tuple(_target(row, where / "targets.yaml") for row in targets["targets"]),
        hand_made=tuple(_hand_made(name, row, where / "registry.yaml") for name, row in registry["mutants"].items()),
        equivalents={str(name): _sentence(name, text, where) for name, text in equivalents["equivalents"].items()},
        survivors={str(name): _sentence(name, text, file) for name, text in survivors.items()},
        macros=macros,
    )


def _record_of(name: str) -> str:
    """Whose record a mutant is of, by its id; empty where it is of no record."""
    kind, _, rest = name.partition("/")
    return rest.partition("/")[0] if kind == "record" else ""


def check_equivalents(tables: Tables, mutants: Sequence[Mutant]) -> None:
    """Check the lists of equivalents and survivors against all mutants.

    Raises:
        MutantsInvalid: one of them does not exist or is in both lists, or the equivalents are too many.
    """
    known = {one.id for one in mutants}
    records = {_record_of(name) for name in known} - {""}
    # Mutants of another vendor's record are not among these, and are nothing that this run can say is gone.
    known |= {name for name in (*tables.survivors, *tables.equivalents) if _record_of(name) not in {"", *records}}
    strange = [name for name in tables.survivors if name not in known or name in tables.equivalents]
    if strange:
        raise MutantsInvalid(
            "read the mutants that survive",
            f"these do not exist (any more), or are equivalents, too: {', '.join(strange)}",
            "Take them off survivors.yaml; a changed line is a new mutant, to be looked at again.",
        )
    unknown = [name for name in tables.equivalents if name not in known]
    if unknown:
        raise MutantsInvalid(
            "read the equivalent mutants",
            f"these do not exist (any more): {', '.join(unknown)}",
            "Take them off equivalents.yaml; a changed line is a new mutant, to be looked at again.",
        )
    if len(tables.equivalents) > EQUIVALENT_LIMIT * len(mutants):
        raise MutantsInvalid(
            "read the equivalent mutants",
            f"{len(tables.equivalents)} of {len(mutants)} are listed, more than {EQUIVALENT_LIMIT:.0%}",
            "Write cases for some of them.",
        )


def _read(path: Path, keys: Mapping[str, type]) -> dict[str, Any]:
    import yaml

    table = yaml.safe_load(path.read_text(encoding="utf-8"))
    wanted = {"version": int, **keys}
    if not isinstance(table, dict) or set(table) != set(wanted):
        raise MutantsInvalid(f"read {path}", f"its keys are not {', '.join(wanted)}", "Mend the file.")
    for key, kind in wanted.items():
        if not isinstance(table[key] if table[key] is not None else kind(), kind):
            raise MutantsInvalid(f"read {path}", f"{key} is not a {kind.__name__}", "Mend the file.")
    return {key: table[key] if table[key] is not None else keys[key]() for key in keys}


def _target(row: Mapping[str, Any], path: Path) -> Target:
    known = {"places", "operators", "texts", "clauses", "cases", "awaits"}
    if not isinstance(row, Mapping) or not row.get("places") or set(row) - known:
        raise MutantsInvalid(f"read {path}", f"a row is not made of {', '.join(sorted(known))}: {row}", "Mend the row.")
    return Target(
        places=tuple(row["places"]),
        operators=tuple(row.get("operators", ())),
        texts=tuple(row.get("texts", ())),
        clauses=bool(row.get("clauses", False)),
        cases=tuple(row.get("cases", ())),
        awaits=str(row.get("awaits", "")),
    )


def _hand_made(name: str, row: Mapping[str, Any], path: Path) -> HandMade:
    keys = {"file", "pattern", "instead", "about", "cases"}
    if not isinstance(row, Mapping) or set(row) != keys:
        raise MutantsInvalid(f"read {path}", f"'{name}' is not made of {', '.join(sorted(keys))}", "Mend the entry.")
    return HandMade(
        name=str(name),
        file=str(row["file"]),
        pattern=str(row["pattern"]),
        instead=str(row["instead"]),
        about=_sentence(name, row["about"], path),
        cases=tuple(row["cases"]),
        origin=path.name,
    )


def _sentence(name: object, text: object, path: Path) -> str:
    sentence = " ".join(str(text or "").split())
    if not sentence.endswith("."):
        raise MutantsInvalid(f"read {path}", f"'{name}' has no sentence", "Say why, in a sentence that ends in a stop.")
    return sentence

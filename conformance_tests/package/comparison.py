"""Two packages side by side: what was run, on what, and which verdicts got better or worse."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tutti_hal.conformance_tests.errors import NotAPackage
from tutti_hal.conformance_tests.package import layout
from tutti_hal.conformance_tests.package.findings import Findings
from tutti_hal.conformance_tests.package.folder import is_package, read_folder
from tutti_hal.conformance_tests.package.manifest import check_manifest
from tutti_hal.conformance_tests.package.packing import unpacked
from tutti_hal.conformance_tests.package.parsed import Parsed, parse_files
from tutti_hal.conformance_tests.verdict import Verdict

#: A duration is told when it changed by this factor, and by so many seconds.
NOTABLE_FACTOR = 2.0
NOTABLE_SECONDS = 0.1

_RANK = {verdict.value: rank for rank, verdict in enumerate(Verdict)}


@dataclass(frozen=True)
class Change:
    """A verdict that is another in the second package.

    Attributes:
        name: an instance, or a clause.
        before: its verdict in the first; empty: it is not there.
        after: likewise in the second.
        reason: why it is what it is in the second.
    """

    name: str
    before: str
    after: str
    reason: str = ""

    @property
    def kind(self) -> str:
        """``worse``, ``better``, ``new`` or ``gone``."""
        if not self.before:
            return "new"
        if not self.after:
            return "gone"
        return "worse" if _RANK[self.after] < _RANK[self.before] else "better"


@dataclass(frozen=True)
class Difference:
    """A value that is another: where, and both."""

    name: str
    before: Any
    after: Any


@dataclass(frozen=True)
class Comparison:
    """Everything in which two packages differ; options, product, record and environment as dotted names."""

    options: tuple[Difference, ...]
    product: tuple[Difference, ...]
    record: tuple[Difference, ...]
    environment: tuple[Difference, ...]
    levels: tuple[Difference, ...]
    cases: tuple[Change, ...]
    clauses: tuple[Change, ...]
    durations: tuple[Difference, ...]

    @property
    def worse(self) -> tuple[Change, ...]:
        """The instances and clauses whose verdict got worse."""
        return tuple(change for change in (*self.cases, *self.clauses) if change.kind == "worse")

    def to_json(self) -> dict[str, Any]:
        """As ``compare --json`` prints it."""
        named = ("options", "product", "record", "environment", "levels", "durations")
        differences = {
            name: [{"name": d.name, "before": d.before, "after": d.after} for d in getattr(self, name)]
            for name in named
        }
        changes = {
            name: [
                {"name": c.name, "kind": c.kind, "before": c.before, "after": c.after, "reason": c.reason}
                for c in getattr(self, name)
            ]
            for name in ("cases", "clauses")
        }
        return {"schema": 1, "worse": len(self.worse), **differences, **changes}


def compare(before: Path, after: Path) -> Comparison:
    """Compare two packages. What they say is taken as it stands; ``verify`` tells whether it is true.

    Raises:
        NotAPackage: a folder is no package, or a damaged one; what is wrong is listed.
    """
    a, b = read_package(before), read_package(after)
    one, two = (parsed.documents for parsed in (a, b))
    return Comparison(
        options=tuple(_differences(one[layout.RUN]["options"], two[layout.RUN]["options"])),
        product=tuple(_differences(one[layout.PRODUCT], two[layout.PRODUCT])),
        record=tuple(_record(a.record, b.record)),
        environment=tuple(_differences(one[layout.ENVIRONMENT]["facts"], two[layout.ENVIRONMENT]["facts"])),
        levels=tuple(_differences(_levels(a), _levels(b))),
        cases=tuple(_changes(_verdicts(a), _verdicts(b), _reasons(b))),
        clauses=tuple(_changes(_clauses(a), _clauses(b), {})),
        durations=tuple(_durations(a, b)),
    )


def read_package(folder: Path) -> Parsed:
    """Read a package that is whole; what it says is taken as it stands.

    Raises:
        NotAPackage: it is none, or damaged; what is wrong is listed.
    """
    findings = Findings()
    if not folder.is_dir() or not is_package(folder):
        found = "there is no run.json or manifest.sha256 in it" if folder.is_dir() else "there is no such folder"
        raise NotAPackage(f"compare {folder}", found, "Name a folder that certify --out wrote.")
    files = read_folder(folder, findings)
    if layout.MANIFEST in files:
        check_manifest(files, findings)
    parsed = parse_files(unpacked(files, findings), findings)
    if findings.refusals or parsed is None:
        listing = "".join(f"\n  {refusal}" for refusal in findings.refusals[:20])
        raise NotAPackage(f"compare {folder}", f"it is damaged:{listing}\n", "tutti-hal verify tells all of it.")
    return parsed


def _differences(before: Any, after: Any, name: str = "") -> Iterator[Difference]:
    if isinstance(before, dict) and isinstance(after, dict):
        for key in [*before, *(key for key in after if key not in before)]:
            inner = f"{name}.{key}" if name else str(key)
            yield from _differences(before.get(key), after.get(key), inner)
    elif before != after:
        yield Difference(name, before, after)


def _record(before: Mapping[str, bytes], after: Mapping[str, bytes]) -> Iterator[Difference]:
    """The files of the record that differ, with their first differing line."""
    for name in sorted({*before, *after}):
        a, b = before.get(name), after.get(name)
        if a == b:
            continue
        if a is None or b is None:
            yield Difference(name, a is not None, b is not None)
            continue
        ours, theirs = (data.decode("utf-8", "replace").split("\n") for data in (a, b))
        pairs = zip([*ours, ""], [*theirs, ""], strict=False)
        number, one, two = next(
            ((n, x, y) for n, (x, y) in enumerate(pairs, 1) if x != y), (min(len(ours), len(theirs)), "", "")
        )
        yield Difference(f"{name}:{number}", one.strip(), two.strip())


def _levels(parsed: Parsed) -> dict[str, str]:
    levels = parsed.documents[layout.RUN]["ladder"]["levels"]
    return {level["level"]: level["state"] for level in levels}


def _verdicts(parsed: Parsed) -> dict[str, str]:
    return {row["id"]: row["verdict"] for _, row in parsed.lines[layout.VERDICTS]}


def _reasons(parsed: Parsed) -> dict[str, str]:
    return {row["id"]: row["reason"] for _, row in parsed.lines[layout.VERDICTS]}


def _clauses(parsed: Parsed) -> dict[str, str]:
    clauses: dict[str, str] = parsed.documents[layout.RUN]["ladder"]["clauses"]
    return clauses


def _changes(before: Mapping[str, str], after: Mapping[str, str], reasons: Mapping[str, str]) -> Iterator[Change]:
    for name in [*before, *(name for name in after if name not in before)]:
        a, b = before.get(name, ""), after.get(name, "")
        if a != b:
            yield Change(name, a, b, reasons.get(name, ""))


def _durations(a: Parsed, b: Parsed) -> Iterator[Difference]:
    seconds = [{row["id"]: row["seconds"] for _, row in one.lines[layout.OBSERVATIONS]} for one in (a, b)]
    for name, before in seconds[0].items():
        after = seconds[1].get(name)
        if after is None or abs(after - before) < NOTABLE_SECONDS:
            continue
        if max(before, after) >= NOTABLE_FACTOR * min(before, after):
            yield Difference(name, before, after)

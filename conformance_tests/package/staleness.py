"""How far the installed product has moved since a package was made, and what of the package can still be judged by it.

A package of an older product is judged by the product of today: its cases, its clauses, its record, its rules. What
counts is what today's product says of the old observations, and only where the case's own words are the same as then;
whatever else is *not judged again*, stands as NOT_TESTED, and keeps its level from being passed. So to say that a file
was another one then never gains anything: it can only take verdicts away.
"""

from __future__ import annotations

import ast
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cached_property
from hashlib import sha256
from pathlib import Path
from typing import Any

from tutti_hal.conformance_tests.case import Case, Instance
from tutti_hal.conformance_tests.package import layout
from tutti_hal.conformance_tests.package.findings import printable
from tutti_hal.conformance_tests.package.history import Known
from tutti_hal.paths import package_file
from tutti_hal.spec.tables import Clause

#: Kinds of product files, in the order in which they are told, and what their names begin with. Whatever has none of
#: these beginnings is *runtime*.
KINDS: tuple[tuple[str, tuple[str, ...]], ...] = (
    ("contract", ("spec/",)),
    ("templates", ("kernels_templates/", "codegen/")),
    ("record", ("backends/", "backend/", "conformance_tests/simulated/")),
    ("native", ("lib/", "include/", "aot/", "pinned.json")),
    ("cases", ("conformance_tests/cases/", "conformance_tests/oracle/", "conformance_tests/mustpass/")),
    ("rules", ("conformance_tests/",)),
)
RUNTIME = "runtime"

#: Modules that judge and run what a case says, and say nothing of their own. Those of today are used for every package.
_FRAME = frozenset(
    f"tutti_hal.conformance_tests.{name}"
    for name in (
        *(
            "case",
            "catalogue",
            "drawn",
            "errors",
            "judgement",
            "ladder",
            "machine",
            "observation",
            "outcome",
            "run",
            "seen",
        ),
        *("session", "subject", "terms", "verdict"),
    )
)
_SUITE = "tutti_hal.conformance_tests"

#: Kinds on which a verdict rests beside its own case: where none of them has changed, another verdict is a forged one.
_JUDGING = frozenset({"contract", "record", "rules", RUNTIME})


@dataclass(frozen=True)
class Moved:
    """A product file that is not as it was: its kind, and ``changed``, ``new`` (there was none) or ``gone``."""

    name: str
    kind: str
    how: str


@dataclass(frozen=True)
class Stale:
    """What a package of an older product can still show.

    Attributes:
        files: product files that differ, in order of kind and name.
        known: whether its product is a commit of the history at hand, and what is known of it.
        version: of its product, as it says.
        certified: what it says that it certified then, as far as that follows from its own verdicts.
        not_judged: instance id -> why what was seen then is not judged by today's cases.
        gone: ids that it has and today's suite has not.
        unchecked: its files that only its own product could make again.
    """

    files: tuple[Moved, ...]
    known: Known
    version: str
    certified: str
    not_judged: Mapping[str, str]
    gone: tuple[str, ...]
    unchecked: tuple[str, ...]

    @property
    def counts(self) -> dict[str, int]:
        """Kind -> files that differ, in the order of :data:`KINDS`."""
        kinds = [name for name, _ in KINDS] + [RUNTIME]
        found = {kind: sum(one.kind == kind for one in self.files) for kind in kinds}
        return {kind: number for kind, number in found.items() if number}

    @property
    def how_far(self) -> str:
        """The counts as words."""
        number = len(self.files)
        said = ", ".join(f"{kind} {count}" for kind, count in self.counts.items())
        return f"{number} product file{'' if number == 1 else 's'} changed since ({said})"

    def to_json(self) -> dict[str, Any]:
        """As ``verify --json`` prints it."""
        return {
            "version": self.version,
            "commit": self.known.commit,
            "product_known": self.known.sure,
            "product": self.known.said,
            "stated_then": self.certified,
            "counts": self.counts,
            "files": [{"name": one.name, "kind": one.kind, "how": one.how} for one in self.files],
            "not_judged": dict(self.not_judged),
            "gone": list(self.gone),
            "unchecked": list(self.unchecked),
        }


def kind_of(name: str) -> str:
    """The kind of a product file."""
    return next((kind for kind, starts in KINDS if name.startswith(starts)), RUNTIME)


def moved(theirs: Mapping[str, str], ours: Mapping[str, str]) -> tuple[Moved, ...]:
    """What differs between the files of a package's product and those that are installed (name -> SHA-256)."""
    order = [name for name, _ in KINDS] + [RUNTIME]
    found = [
        Moved(name, kind_of(name), "new" if name not in theirs else "gone" if name not in ours else "changed")
        for name in {*theirs, *ours}
        if theirs.get(name) != ours.get(name)
    ]
    return tuple(sorted(found, key=lambda one: (order.index(one.kind), one.name)))


def clause_sum(clause: Clause) -> str:
    """SHA-256 of a clause's level and text: what a case was to show."""
    return sha256(f"{clause.level}\0{clause.text}".encode()).hexdigest()


def clause_sums(clauses: Mapping[str, Clause]) -> dict[str, str]:
    """Clause -> sum, as ``mustpass.json`` holds them."""
    return {name: clause_sum(clause) for name, clause in clauses.items()}


class Since:
    """What a package's product was, against the installed one: answers by file, case, clause and kind.

    Args:
        files: what differs.
        clauses: clause -> sum, as the package says.
        now: the clauses of today.
    """

    def __init__(self, files: Iterable[Moved], clauses: Mapping[str, str], now: Mapping[str, Clause]) -> None:
        self.files = tuple(files)
        self._names = {one.name for one in self.files}
        self._kinds = {one.kind for one in self.files}
        self._clauses, self._now = clauses, now
        self._imports: dict[str, frozenset[str]] = {}
        self._of_case: dict[str, str] = {}

    def any_of(self, *kinds: str) -> bool:
        """Whether a file of one of these kinds differs."""
        return not self._kinds.isdisjoint(kinds)

    def file(self, name: str) -> bool:
        """Whether this file differs."""
        return name in self._names

    def clause(self, name: str) -> bool:
        """Whether a clause is not what the package says that it was."""
        return self._clauses.get(name) != clause_sum(self._now[name])

    @property
    def may_judge_otherwise(self) -> bool:
        """Whether an unchanged case may have another verdict today without anybody having lied."""
        return self.any_of(*_JUDGING)

    @property
    def may_have_other_instances(self) -> bool:
        """Whether today's run may have other instances without anybody having left one out."""
        return self.any_of("cases", *_JUDGING)

    def why_not(self, instance: Instance) -> str:
        """Why what an instance saw is not judged by its case of today; empty where it is."""
        file = self._case(instance.case)
        if file:
            return f"its case changed since ({file})"
        other = [one for one in instance.clauses if self.clause(one)]
        return f"its clause {other[0]} changed since" if other else ""

    def _case(self, case: Case) -> str:
        """The first file that differs of those that a case is made of; empty where none does."""
        if case.module not in self._of_case:
            names = sorted(f"{one.removeprefix('tutti_hal.').replace('.', '/')}.py" for one in self._made_of(case))
            self._of_case[case.module] = next((name for name in names if name in self._names), "")
        return self._of_case[case.module]

    def _made_of(self, case: Case) -> set[str]:
        """The modules of the suite that a case's own imports, and theirs; the frame is not among them."""
        if not case.module.startswith(f"{_SUITE}."):
            return set()  # an extra case: its sum must be the same anyway
        found: set[str] = set()
        due = [case.module]
        while due:
            name = due.pop()
            if name not in found:
                found.add(name)
                due += self._imported(name)
        return found

    def _imported(self, module: str) -> frozenset[str]:
        if module not in self._imports:
            path = _source(module)
            tree = ast.parse(path.read_text(encoding="utf-8")) if path else ast.Module([], [])
            named: set[str] = set()
            for node in ast.walk(tree):
                if isinstance(node, ast.Import):
                    named |= {alias.name for alias in node.names}
                elif isinstance(node, ast.ImportFrom) and node.module:
                    named |= {node.module, *(f"{node.module}.{alias.name}" for alias in node.names)}
            own = (name for name in named if name.startswith(f"{_SUITE}.") and name not in _FRAME)
            self._imports[module] = frozenset(name for name in own if _source(name) is not None)
        return self._imports[module]

    @cached_property
    def kinds(self) -> str:
        """The kinds on which verdicts rest that have changed, as words."""
        return ", ".join(kind for kind in (*(name for name, _ in KINDS), RUNTIME) if kind in self._kinds & _JUDGING)


def _source(module: str) -> Path | None:
    below = module.removeprefix(f"{_SUITE}.").split(".")
    root = package_file("conformance_tests")
    path = root.joinpath(*below[:-1], f"{below[-1]}.py")
    return path if path.is_file() else None


def describe(stale: Stale, total: int) -> list[str]:
    """What a reader must know of a stale package, a line each."""
    lines = [f"{layout.PRODUCT}: {stale.how_far}", f"its product: {stale.known.said}"]
    if stale.not_judged:
        reasons: dict[str, list[str]] = {}
        for one, why in stale.not_judged.items():
            reasons.setdefault(why, []).append(one)
        lines.append(f"not judged again: {len(stale.not_judged)} of {total}")
        lines += [
            f"not judged again: {own[0]}{f' and {len(own) - 1} more' if len(own) > 1 else ''}: {why}"
            for why, own in list(reasons.items())[:_TOLD]
        ]
        if len(reasons) > _TOLD:
            lines.append(f"not judged again: ... for {len(reasons) - _TOLD} more reasons (--json has them)")
    if stale.gone:
        lines.append(f"gone since: {stale.gone[0]}{f' and {len(stale.gone) - 1} more' if stale.gone[1:] else ''}")
    if stale.unchecked:
        lines.append(f"not checked, for only its own product makes them: {', '.join(stale.unchecked)}")
    return [printable(line) for line in lines]


#: Reasons that are told one by one.
_TOLD = 10

"""Clause × verdict: every clause of the contract, what came of it on each arch, and which cases tested it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from tutti_hal.conformance_tests.case import Case, Instance
from tutti_hal.conformance_tests.catalogue import catalogue
from tutti_hal.conformance_tests.ladder import Rung
from tutti_hal.conformance_tests.report.words import LEVEL_TITLES, clipped
from tutti_hal.conformance_tests.session import Session
from tutti_hal.conformance_tests.verdict import Verdict, worst
from tutti_hal.spec.tables import Clause

_WHY_LIMIT = 240


@dataclass(frozen=True)
class Cell:
    """A clause on one arch.

    Attributes:
        column: heading of its column.
        verdict: the worst there; None where no instance of the run tests the clause there.
        target: anchor of the first failure behind it; empty where there is none.
    """

    column: str
    verdict: Verdict | None
    target: str


@dataclass(frozen=True)
class Row:
    """A clause: its verdict over all archs, a cell for each column, and (case, instances) that test it.

    ``why`` says why nothing tested it, where that is so.
    """

    clause: Clause
    verdict: Verdict
    target: str
    cells: tuple[Cell, ...]
    cases: tuple[tuple[str, int], ...]
    why: str


@dataclass(frozen=True)
class Group:
    """The clauses of one level; ``open`` where a reader should see them at once."""

    level: str
    title: str
    state: Rung
    counts: tuple[tuple[Verdict, int], ...]
    rows: tuple[Row, ...]
    open: bool


@dataclass(frozen=True)
class Matrix:
    """All levels that have a clause, under the same columns."""

    columns: tuple[str, ...]
    groups: tuple[Group, ...]


def matrix(session: Session, targets: Mapping[str, str]) -> Matrix:
    """The matrix of a run.

    Args:
        session: the run.
        targets: instance id -> anchor of its failure on the page.
    """
    known = catalogue().clauses()
    archs = [""] if any(not one.arch for one in session.instances) else []
    archs += session.options.archs
    testing: dict[str, list[Instance]] = {clause: [] for clause in session.terms.spec.clauses}
    for instance in session.instances:
        for clause in instance.clauses:
            testing[clause].append(instance)

    def row(clause: Clause) -> Row:
        own = testing[clause.id]
        cells = tuple(_cell(session, clause.id, arch, [i for i in own if i.arch == arch], targets) for arch in archs)
        whole = _cell(session, clause.id, "", own, targets)
        cases = Counter(instance.case.name for instance in own)
        verdict = session.ladder.clauses[clause.id]
        why = _why_untested(session, clause, own, known.get(clause.id, [])) if verdict is Verdict.NOT_TESTED else ""
        return Row(clause, verdict, whole.target, cells, tuple(sorted(cases.items())), why)

    groups = []
    for level in session.ladder.levels:
        rows = tuple(row(clause) for clause in session.terms.spec.clauses.values() if clause.level == level.name)
        if rows:
            found = Counter(one.verdict for one in rows)
            counts = tuple((verdict, found[verdict]) for verdict in Verdict if found[verdict])
            seen = level.state is Rung.FAILED or (level.state is Rung.INCOMPLETE and any(one.cases for one in rows))
            groups.append(Group(level.name, LEVEL_TITLES[level.name], level.state, counts, rows, seen))
    return Matrix(tuple(arch or "vendor" for arch in archs), tuple(groups))


def _why_untested(session: Session, clause: Clause, own: Sequence[Instance], known: Sequence[Case]) -> str:
    """Why a clause is NOT_TESTED: nothing of this run tests it, or what should was not run."""
    options = session.options
    waiting = [one for one in own if session.judgements[one.id].clauses[clause.id] is Verdict.NOT_TESTED]
    if waiting:
        return clipped(session.judgements[waiting[0].id].reason, _WHY_LIMIT)
    if not known:
        return "no case of the suite tests it"
    names = ", ".join(sorted({one.name for one in known}))
    if not {one.level for one in known} & set(options.levels):
        said = f"the run ended at {options.level}"
    elif options.quick or options.cases or options.shard[1] > 1:
        said = "the run was a part of the suite"
    else:
        said = "on these archs it has no instance"
    return clipped(f"{said}; {names} would test it", _WHY_LIMIT)


def _cell(session: Session, clause: str, arch: str, own: list[Instance], targets: Mapping[str, str]) -> Cell:
    verdicts = {one.id: session.judgements[one.id].clauses[clause] for one in own}
    verdict = worst(verdicts.values()) if verdicts else None
    target = next((targets[one] for one, found in verdicts.items() if found is verdict and one in targets), "")
    return Cell(arch or "vendor", verdict, target)

"""From the verdicts of instances to the ladder: which levels were passed, and which is the first red rung."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum

from tutti_hal.conformance_tests.case import Instance
from tutti_hal.conformance_tests.judgement import Judgement
from tutti_hal.conformance_tests.verdict import OPEN, Verdict, worst
from tutti_hal.spec import Spec
from tutti_hal.spec.tables import LEVELS


class Rung(StrEnum):
    """How a level stands."""

    #: Every clause of the level was tested, and nothing blocks it.
    PASSED = "passed"
    #: Nothing failed, but a clause of the level has no case, all that there is was skipped, or an instance was
    #: not run or is inconclusive.
    INCOMPLETE = "incomplete"
    #: Something that must pass did not.
    FAILED = "failed"
    #: Nothing of the level was asked for.
    NOT_RUN = "not run"


@dataclass(frozen=True)
class Level:
    """One rung.

    Attributes:
        name: ``L0`` to ``L8``.
        state: how it stands.
        counts: verdict -> instances of the level.
        untested: clauses of the level that nothing tested.
        blocking: ids of the instances that keep it from being passed, in order.
    """

    name: str
    state: Rung
    counts: Mapping[Verdict, int]
    untested: tuple[str, ...]
    blocking: tuple[str, ...]

    @property
    def waits_for(self) -> str:
        """What keeps it open, as numbers of verdicts; empty where only clauses without a case do."""
        return ", ".join(f"{number} {one}" for one, number in self.counts.items() if one in OPEN and number)


@dataclass(frozen=True)
class Ladder:
    """All rungs, and the verdict of every clause."""

    levels: tuple[Level, ...]
    clauses: Mapping[str, Verdict]

    @property
    def reached(self) -> str:
        """The highest level that was passed with all below it; empty where not even L0 was."""
        best = ""
        for level in self.levels:
            if level.state is not Rung.PASSED:
                break
            best = level.name
        return best

    @property
    def first_red(self) -> Level | None:
        """The lowest level that failed, None where none did."""
        return next((level for level in self.levels if level.state is Rung.FAILED), None)

    @property
    def first_open(self) -> Level | None:
        """The lowest level that is incomplete because an instance blocks it, None where none is."""
        return next((level for level in self.levels if level.state is Rung.INCOMPLETE and level.blocking), None)


def state_of(asked: bool, blocking: Collection[Verdict], waiting: bool) -> Rung:
    """How a level stands.

    Args:
        asked: whether the run was to judge it.
        blocking: the verdicts that block it.
        waiting: whether a clause has no case, an instance was not run, or there is none.
    """
    if not asked:
        return Rung.NOT_RUN
    if not OPEN.issuperset(blocking):
        return Rung.FAILED
    return Rung.INCOMPLETE if blocking or waiting else Rung.PASSED


def ladder(
    instances: Sequence[Instance], judgements: Mapping[str, Judgement], spec: Spec, levels: Iterable[str] = LEVELS
) -> Ladder:
    """The ladder of a run.

    Args:
        instances: everything that the run should have judged.
        judgements: instance id -> judgement; one that is missing counts as not tested.
        spec: the contract.
        levels: the levels that were asked for; the others are *not run*.
    """
    asked = set(levels)
    per_clause: dict[str, list[Verdict]] = {clause: [] for clause in spec.clauses}
    for instance in instances:
        judgement = judgements.get(instance.id)
        for clause in instance.clauses:
            per_clause[clause].append(judgement.clauses[clause] if judgement else Verdict.NOT_TESTED)
    clauses = {clause: worst(found) for clause, found in per_clause.items()}
    rungs = []
    for name in LEVELS:
        own = [instance for instance in instances if instance.case.level == name]
        counts = dict.fromkeys(Verdict, 0)
        for instance in own:
            judgement = judgements.get(instance.id)
            counts[judgement.verdict if judgement else Verdict.NOT_TESTED] += 1
        blocking = tuple(
            instance.id for instance in own if (found := judgements.get(instance.id)) is not None and found.blocks
        )
        untested = tuple(
            clause
            for clause, verdict in clauses.items()
            if spec.clauses[clause].level == name and verdict is Verdict.NOT_TESTED
        )
        shown = counts[Verdict.PASS] + counts[Verdict.WAIVED]
        waiting = bool(untested or counts[Verdict.NOT_TESTED] or not shown)
        state = state_of(name in asked, [judgements[one].verdict for one in blocking], waiting)
        rungs.append(Level(name, state, counts, untested, blocking))
    return Ladder(tuple(rungs), clauses)

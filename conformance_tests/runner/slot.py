"""One place of work: a worker at a time, the instances that it has had, and what a failure is compared with."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from tutti_hal.conformance_tests.case import Instance
from tutti_hal.conformance_tests.judgement import judge
from tutti_hal.conformance_tests.outcome import End, Outcome
from tutti_hal.conformance_tests.runner.process import WorkerProcess
from tutti_hal.conformance_tests.runner.shop import Shop
from tutti_hal.conformance_tests.seen import Facts
from tutti_hal.conformance_tests.session import RunOptions
from tutti_hal.conformance_tests.terms import Terms
from tutti_hal.conformance_tests.verdict import Verdict

#: How many of a worker's instances before a failure are run again with it.
PREDECESSORS = 50

#: Ends after which a worker goes on.
_SOUND = (End.OBSERVED, End.SKIPPED)

#: Verdicts of which it is asked whether they depend on what ran before, or on luck.
_BAD = (Verdict.FAIL, Verdict.ERROR, Verdict.TIMEOUT, Verdict.DEVICE_LOST)


@dataclass(frozen=True)
class Question:
    """By what a slot runs and judges.

    Attributes:
        options: of the run.
        facts: arch -> what is declared of it.
        terms: on what terms it is judged.
    """

    options: RunOptions
    facts: Mapping[str, Facts]
    terms: Terms

    def fails(self, instance: Instance, outcome: Outcome) -> bool:
        """Whether the verdict is one to look into."""
        return judge(instance, outcome, self.facts[instance.arch], self.terms).verdict in _BAD


@dataclass(frozen=True)
class _Pending:
    """An instance that has ended while its worker lives on.

    Attributes:
        instance: which.
        outcome: as far as it is known.
        ran: whether the case itself was started.
        before: the instances that its worker had had.
        mark: of the kernel's log when it started.
    """

    instance: Instance
    outcome: Outcome
    ran: bool
    before: tuple[Instance, ...]
    mark: int


class Slot:
    """Runs instances one after another. For one thread; :meth:`leave` ends it.

    A worker goes on only after an instance that ended as a case should, or that was never started. Everything between
    the start of an instance and the start of the next in the same worker belongs to the first: log lines, and the
    worker's death. So an outcome is final when the next instance is due, or when the worker has left.

    Args:
        shop: where workers come from.
        question: by what it runs and judges.
        on_start: gets each instance when it starts.
        on_end: gets each instance with its final outcome.
    """

    def __init__(
        self,
        shop: Shop,
        question: Question,
        on_start: Callable[[Instance], None],
        on_end: Callable[[Instance, Outcome], None],
    ) -> None:
        self._shop = shop
        self._question = question
        self._on_start = on_start
        self._on_end = on_end
        self._worker: WorkerProcess | None = None
        self._arch = ""
        self._had: list[Instance] = []
        self._pending: _Pending | None = None

    def run(self, instance: Instance) -> None:
        """Run an instance. Blocks until the case has ended; a worker of another arch leaves first.

        The outcome is given back by the next call of :meth:`run`, :meth:`settle` or :meth:`leave`.

        Raises:
            Stopped: the run is over.
        """
        if self._worker is not None and self._arch != instance.arch:
            self.leave()
        self.settle()
        self._on_start(instance)
        if self._worker is None:
            self._arch, self._had = instance.arch, []
            self._worker = self._shop.start(self._question.options.subject_of(instance.arch))
        before, mark = tuple(self._had), self._shop.kernel_log.mark()
        ended = self._worker.run(instance, self._seed(instance))
        self._shop.check()
        self._pending = _Pending(instance, ended.outcome, ended.ran, before, mark)
        if ended.ran:
            self._had.append(instance)
        if _spoils(ended.outcome):
            self.settle()

    def settle(self) -> None:
        """Give back the outcome of the last instance, if that is still due. Blocks while a failure is run again.

        Raises:
            Stopped: the run is over.
        """
        if self._pending is None:
            return
        pending, self._pending = self._pending, None
        outcome = pending.outcome
        if self._worker is not None:
            if not self._worker.alive():
                outcome = _blamed(outcome, self._worker.leave())
            outcome = self._with_log(self._worker, outcome, pending.mark)
            spoiled = pending.ran and _spoils(outcome)
            if spoiled or not self._worker.alive():
                self._drop()
        self._on_end(pending.instance, self._compared(pending, outcome))

    def leave(self) -> None:
        """Let the worker end, and give back the last outcome: how the worker leaves is part of it.

        Raises:
            Stopped: the run is over.
        """
        if self._worker is not None:
            said = self._worker.leave()
            self._shop.check()
            if self._pending is not None:
                self._pending = replace(self._pending, outcome=_blamed(self._pending.outcome, said))
        self.settle()
        self._drop()

    def _drop(self) -> None:
        if self._worker is not None:
            self._shop.end(self._worker)
            self._worker = None

    def _seed(self, instance: Instance) -> int:
        return instance.seed(self._question.options.seed)

    def _with_log(self, worker: WorkerProcess, outcome: Outcome, mark: int) -> Outcome:
        return replace(outcome, log=(*outcome.log, *worker.lines(), *self._shop.kernel_log.since(mark)))

    def _compared(self, pending: _Pending, outcome: Outcome) -> Outcome:
        """The outcome, and for a failure what came of running it again alone, and after the same instances."""
        instance = pending.instance
        told = not pending.ran and outcome.end in (End.REFUSED, End.RAISED)  # it does not compile: nothing ran
        if told or not self._question.fails(instance, outcome):
            return outcome
        if not self._shop.may_rerun():
            return replace(outcome, alone={"left_out": "as many failures were run again as a run may"})
        found: dict[str, Any] = {"failed_alone": self._fails_after((), instance), "failed_again": False, "after": []}
        if not found["failed_alone"] and pending.before:
            before = pending.before[-PREDECESSORS:]
            found["failed_again"] = self._fails_after(before, instance)
            found["after"] = [one.id for one in before]
            if len(before) < len(pending.before):
                found["left_out"] = f"{len(pending.before) - len(before)} instances before these were not run again"
        return replace(outcome, alone=found)

    def _fails_after(self, before: Sequence[Instance], instance: Instance) -> bool:
        """Whether an instance fails in a fresh worker after these; False where they do not get so far."""
        worker = self._shop.start(self._question.options.subject_of(instance.arch))
        try:
            for one in before:
                spoilt = _spoils(worker.run(one, self._seed(one)).outcome)
                self._shop.check()
                if spoilt:
                    return False
            worker.lines()
            mark = self._shop.kernel_log.mark()
            outcome = worker.run(instance, self._seed(instance)).outcome
            outcome = _blamed(outcome, worker.leave())
            self._shop.check()
            return self._question.fails(instance, self._with_log(worker, outcome, mark))
        finally:
            self._shop.end(worker)


def _spoils(outcome: Outcome) -> bool:
    """Whether a worker has to leave after it."""
    return outcome.end not in _SOUND or "spent" in outcome.detail


def _blamed(outcome: Outcome, said: tuple[End, dict[str, Any]] | None) -> Outcome:
    """An outcome that stood, unless its worker then died of something."""
    if said is None or outcome.end not in _SOUND:
        return outcome
    return replace(outcome, end=said[0], detail=said[1])

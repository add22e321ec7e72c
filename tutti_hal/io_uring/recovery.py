"""Making failed queues work again: abort, else delete and create again, else reset the drive; each in its own time.

A command whose end is not known may still move data. Each step ends such commands for certain, the next one by a
stronger means. A step that fails, or takes too long, is followed by the next.

The two steps before a reset take a completion queue and all submission queues that complete to it, which mostly is one.
No kernel may use them meanwhile. Kernels that use others may run.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from enum import Enum
from typing import TYPE_CHECKING

from tutti_hal.errors import ControllerError, ControllerGone, RecoveryFailed, RingBusy, RingError, TuttiError
from tutti_hal.io_uring.completion_taker import CompletionTaker
from tutti_hal.io_uring.layout import COMMAND_ENDED_LATE, COMMAND_OPEN
from tutti_hal.io_uring.setup import find_targets
from tutti_hal.io_uring.statistics import QueueStatistics
from tutti_hal.io_uring.tables import first_places

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from tutti_hal.io_uring.batch import Target
    from tutti_hal.io_uring.device_tables import DeviceTables, QueueWords
    from tutti_hal.io_uring.options import Drive, RingOptions
    from tutti_hal.nvme.queues import QueuePair

_SECOND_NS = 1_000_000_000


class Step(Enum):
    """What ended a queue's commands and made it work again; the later, the more it costs."""

    #: Every command was aborted or had completed late; the queue goes on where it stood.
    ABORT = "abort"
    #: The queue pair, and those that share its completion queue, were deleted and created again; counters start anew.
    RECREATE = "recreate"
    #: The drive was disabled and enabled; all its queue pairs were created again.
    RESET = "reset"


@dataclass(frozen=True, kw_only=True)
class RecoveryLimits:
    """How long the steps may take, in nanoseconds of the clock of the drive's registers.

    Args:
        abort_ns: for all aborts of the queues of one completion queue, and the completions that they bring.
        recreate_ns: for deleting and creating one completion queue with its submission queues.
        reset_ns: for resetting one drive and creating its queue pairs. Less than the drive asks for (CAP.TO) may end
            a reset that would have come to its end.

    Raises:
        RingError: a limit below 1.
    """

    abort_ns: int = _SECOND_NS
    recreate_ns: int = 5 * _SECOND_NS
    reset_ns: int = 60 * _SECOND_NS

    def __post_init__(self) -> None:
        for name in ("abort_ns", "recreate_ns", "reset_ns"):
            if getattr(self, name) < 1:
                raise RingError(f"recover with {name}={getattr(self, name)}", "no time at all", "Use 1 or more.")


@dataclass(frozen=True, slots=True)
class StepFailure:
    """A step that did not help, and why."""

    step: Step
    error: TuttiError


@dataclass(frozen=True, slots=True, kw_only=True)
class QueueRecovery:
    """What became of one queue.

    Attributes:
        row: the ring's number of the queue.
        before: what it had counted until then, its health among it.
        unknown: commands whose end was not known.
        aborted: how many of them the drive says it aborted.
        step: the one after which the queue works; None when none helped.
        failures: the steps before, in order.
        took_ns: of all steps together, in the clock of the drive's registers.
    """

    row: int
    before: QueueStatistics
    unknown: int
    aborted: int
    step: Step | None
    failures: tuple[StepFailure, ...]
    took_ns: int

    @property
    def drive(self) -> int:
        """Number of the drive."""
        return self.before.drive

    @property
    def works(self) -> bool:
        """Whether it takes commands again."""
        return self.step is not None


@dataclass
class _Patient:
    """A queue on its way through the steps."""

    row: int
    before: QueueStatistics
    words: QueueWords
    began_ns: int
    aborted: int = 0
    step: Step | None = None
    failures: list[StepFailure] = field(default_factory=list)
    ended_ns: int = 0

    @property
    def open(self) -> list[int]:
        """Identifiers of commands whose end is not known."""
        return _flagged(self.words, COMMAND_OPEN)

    def result(self) -> QueueRecovery:
        return QueueRecovery(
            row=self.row,
            before=self.before,
            unknown=len(self.open),
            aborted=self.aborted,
            step=self.step,
            failures=tuple(self.failures),
            took_ns=self.ended_ns - self.began_ns,
        )


class Recovery:
    """The steps, over the queues of one ring; ``pairs`` is the ring's own list and is kept up to date."""

    def __init__(
        self,
        drives: Sequence[Drive],
        options: RingOptions,
        targets: Sequence[Target],
        pairs: list[QueuePair],
        tables: DeviceTables,
    ) -> None:
        self._drives, self._options, self._targets = drives, options, targets
        self._pairs, self._tables = pairs, tables

    def run(self, busy: frozenset[int], limits: RecoveryLimits, drive: int | None) -> tuple[QueueRecovery, ...]:
        """See `Ring.recover`; ``busy`` are the rows that batches in flight use."""
        found = {row: self._tables.read_words(row) for row in range(len(self._pairs))}
        sick = [row for row, words in found.items() if _is_sick(words, row in busy)]
        if drive is not None:
            sick = [row for row in sick if self._drive_of(row) == drive]
        held = [row for row in sick if row in busy]
        if held:
            raise RingBusy(
                "recover queues",
                f"batches in flight have requests for queue {', '.join(map(str, held))}, which is to be recovered",
                "Wait for them: wait_cqe. They end in bounded time.",
            )
        results: list[QueueRecovery] = []
        for number in sorted({self._drive_of(row) for row in sick}):
            rows = [row for row in sick if self._drive_of(row) == number]
            results += self._recover_drive(number, {row: found[row] for row in rows}, busy, limits)
        self._require_works(tuple(results))
        return tuple(results)

    def _require_works(self, results: tuple[QueueRecovery, ...]) -> None:
        bad = [one for one in results if not one.works]
        if bad:
            last = bad[0].failures[-1].error
            raise RecoveryFailed(
                f"recover {len(results)} queues",
                f"{len(bad)} do not work, the first ({bad[0].row}, of drive {bad[0].drive}) because: {last}",
                "Leave their drives out: others go on. Buffers stay registered until the ring is closed.",
                results,
            ) from last

    # ---- one drive ----

    def _drive_of(self, row: int) -> int:
        return row // self._options.queues_per_drive

    def _recover_drive(
        self, number: int, found: dict[int, QueueWords], busy: frozenset[int], limits: RecoveryLimits
    ) -> list[QueueRecovery]:
        patients = [self._patient(row, words) for row, words in found.items()]
        for first in sorted({self._options.sharing(row).start for row in found}):
            together = self._options.sharing(first)
            group = [patient for patient in patients if patient.row in together]
            self._try(Step.ABORT, group, limits)
            if group[0].step is None and not _is_gone(group[0]):
                beside = [self._patient(row, self._tables.read_words(row)) for row in together if row not in found]
                patients += beside
                self._try(Step.RECREATE, group + beside, limits)
        if any(patient.step is None for patient in patients) and not any(map(_is_gone, patients)):
            rows = self._rows_of(number)
            if busy & set(rows):
                error = RingBusy(
                    f"reset drive {number}", "batches in flight use its other queues", "Wait for them, then try again."
                )
                for patient in patients:
                    if patient.step is None:
                        patient.failures.append(StepFailure(Step.RESET, error))
            else:
                known = {patient.row for patient in patients}
                patients += [self._patient(row, self._tables.read_words(row)) for row in rows if row not in known]
                self._try(Step.RESET, patients, limits)
        return [patient.result() for patient in sorted(patients, key=lambda one: one.row)]

    def _rows_of(self, number: int) -> range:
        per = self._options.queues_per_drive
        return range(number * per, (number + 1) * per)

    def _patient(self, row: int, words: QueueWords) -> _Patient:
        number, options = self._drive_of(row), self._options
        now = self._drives[number].handle.now_ns
        first, _ = first_places(options.first_ticket, options.depth, options.completion_depth)
        before = QueueStatistics.of(words.state, number, self._pairs[row].qid, first)
        return _Patient(row, before, words, now, ended_ns=now)

    def _try(self, step: Step, patients: Sequence[_Patient], limits: RecoveryLimits) -> None:
        """One step for the queues of one completion queue, or of a drive; what it raises is written down."""
        handle = self._drives[self._drive_of(patients[0].row)].handle
        try:
            if step is Step.ABORT:
                with handle.within(limits.abort_ns):
                    self._abort(patients)
            elif step is Step.RECREATE:
                with handle.within(limits.recreate_ns):
                    self._recreate(patients)
            else:
                with handle.within(limits.reset_ns):
                    self._reset(patients)
        except TuttiError as error:
            for patient in patients:
                patient.step = None
                patient.failures.append(StepFailure(step, error))
        else:
            for patient in patients:
                patient.step = step
        for patient in patients:
            patient.ended_ns = handle.now_ns

    # ---- the steps ----

    def _abort(self, patients: Sequence[_Patient]) -> None:
        """Aborts what has no end and takes the completions, one command at a time: ACL allows one on every drive."""
        together = self._options.sharing(patients[0].row)
        handle = self._drives[self._drive_of(together.start)].handle
        tried = f"abort commands of queue {', '.join(str(patient.row) for patient in patients)}"
        words = {row: self._tables.read_words(row) for row in together}
        for found in words.values():
            _require_at_rest(found, tried)
        taker = CompletionTaker(
            handle,
            [self._pairs[row] for row in together],
            words[together.start],
            [(self._pairs[patient.row].qid, identifier) for patient in patients for identifier in patient.open],
        )
        taker.take()
        refused = False
        for patient in patients:
            qid = self._pairs[patient.row].qid
            for identifier in patient.open:
                if (qid, identifier) in taker.open:
                    done = handle.abort(qid, identifier)
                    patient.aborted += done
                    taker.take()
                    refused = refused or (not done and (qid, identifier) in taker.open)
        deadline_ns = handle.deadline_ns
        while taker.open:
            if refused or handle.now_ns >= deadline_ns:
                raise ControllerError(
                    tried, f"{len(taker.open)} neither completed nor were aborted", "Their queue must be deleted."
                )
            handle.pause()
            taker.take()
        for row, found in words.items():
            qid = self._pairs[row].qid
            self._tables.go_on(row, found, taker.head, lates=taker.lates[qid], strays=taker.strays[qid])

    def _recreate(self, patients: Sequence[_Patient]) -> None:
        """Makes a completion queue and all its submission queues anew."""
        handle = self._drives[self._drive_of(patients[0].row)].handle
        for patient in patients:
            # From here on its memory may go, should the drive refuse.
            self._tables.close_queue(patient.row, patient.words)
        fresh = handle.recreate_queue_pairs([self._pairs[patient.row] for patient in patients])
        for patient, pair in zip(patients, fresh, strict=True):
            self._pairs[patient.row] = pair
            self._tables.renew_queue(patient.row, pair, patient.words)

    def _reset(self, patients: Sequence[_Patient]) -> None:
        """Resets a drive and creates all its queue pairs again. None of them has a kernel that uses it."""
        number = self._drive_of(patients[0].row)
        drive = self._drives[number]
        handle = drive.handle
        before = {row: self._pairs[row] for row in sorted(patient.row for patient in patients)}
        for patient in patients:
            # The memory of queues that the handle placed goes with the reset.
            self._tables.close_queue(patient.row, patient.words)
        handle.reset()
        wanted = max(pair.qid for pair in before.values())
        handle.grant_queues(wanted, minimum=wanted)
        for row, pair in before.items():
            first = self._options.sharing(row).start
            self._pairs[row] = handle.create_queue_pair(
                pair.depth,
                qid=pair.qid,
                cq_depth=pair.cq_depth,
                sq_memory=None if drive.sq_dma is None else pair.sq_memory,
                cq_memory=None if drive.cq_dma is None or row != first else pair.cq_memory,
                priority=pair.priority,
                completes_to=None if row == first else self._pairs[first],
            )
        self._require_same_namespaces(number)
        for patient in patients:
            self._tables.renew_queue(patient.row, self._pairs[patient.row], patient.words)

    def _require_same_namespaces(self, number: int) -> None:
        was = [_shape(target) for target in self._targets if target.drive == number]
        now = [_shape(target) for target in find_targets([self._drives[number]])]
        if was != now:
            raise RingError(
                f"go on with drive {number} after its reset",
                f"its namespaces are {now}, and were {was} (id, block bytes, blocks, most blocks)",
                "Make the ring anew.",
            )


def _shape(target: Target) -> tuple[int, int, int, int]:
    return target.nsid, target.block_bytes, target.blocks, target.max_blocks


def _is_gone(patient: _Patient) -> bool:
    """Whether a step found the drive gone: then no other one can help."""
    return any(isinstance(failure.error, ControllerGone) for failure in patient.failures)


def _is_sick(words: QueueWords, in_use: bool) -> bool:
    """Whether a queue needs help: it is marked; or nobody uses it, and it has commands without an end all the same."""
    state = words.state
    return bool(state["health"]) or (not in_use and int(state["ticket"]) != int(state["retired"]))


def _flagged(words: QueueWords, flags: int) -> list[int]:
    """Identifiers whose command word has one of the flags."""
    import numpy as np

    found = words.commands[(words.commands & np.uint64(flags)) != 0]
    return [int(word) & 0xFFFF for word in found]


def _require_at_rest(words: QueueWords, tried: str) -> None:
    """Refuses a queue whose words do not add up: a kernel that ended badly, or a step that failed, left them so.

    Raises:
        RingError: a word is held, an entry was not told to the drive, or a command is in no record.
    """
    state = words.state
    doorbell, completion = int(state["doorbell"]), int(state["completion"])
    outstanding = int(state["ticket"]) - int(state["retired"])
    recorded = len(_flagged(words, COMMAND_OPEN | COMMAND_ENDED_LATE))
    if doorbell & 1 or completion & 1 or doorbell >> 1 != int(state["ticket"]) or outstanding != recorded:
        raise RingError(
            tried,
            f"doorbell {doorbell:#x}, completion {completion:#x}, {outstanding} outstanding, {recorded} recorded",
            "Its queue must be made anew.",
        )


def rows_in_use(requests: NDArray[np.void], targets: Sequence[Target], options: RingOptions) -> set[int]:
    """The queues that a kernel over these packed requests may use."""
    import numpy as np

    rows: set[int] = set()
    per = options.queues_per_drive
    for target, queue_class in np.unique(requests[["target", "queue_class"]]).tolist():
        first = targets[target].drive * per + sum(options.queues[:queue_class])
        rows.update(range(first, first + options.queues[queue_class]))
    return rows

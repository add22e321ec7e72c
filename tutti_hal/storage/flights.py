"""Batches on their way: from judged requests to the ring, until their results are released."""

from __future__ import annotations

import time
from contextlib import AbstractContextManager
from typing import TYPE_CHECKING

from tutti_hal.errors import RingBusy, StorageBusy, StorageError, StorageTimeout, TuttiError
from tutti_hal.io_uring.iocb import Stage
from tutti_hal.storage.handles import Kind, SlotTable
from tutti_hal.storage.operations import InFlight, Operation, results_of, statuses
from tutti_hal.storage.planning import Plan, Planner
from tutti_hal.storage.records import Flags, initial_dtype
from tutti_hal.storage.records import Operation as Verb
from tutti_hal.storage.status import Reason, Status

if TYPE_CHECKING:
    from collections.abc import Sequence

    import numpy as np
    from numpy.typing import NDArray

    from tutti_hal.io_uring import Iocb, QueueRecovery, RecoveryLimits, Ring
    from tutti_hal.shim import Stream
    from tutti_hal.storage.memory import MemoryTable
    from tutti_hal.storage.options import RuntimeOptions
    from tutti_hal.storage.targets import TargetTable

#: Between two looks at a batch, in seconds: the first, and the longest.
_FIRST_PAUSE_S, _LONGEST_PAUSE_S = 0.000_02, 0.001


class Flights:
    """All batches of a runtime. The runtime's lock guards every method; `wait` and `drain` take it by themselves.

    Args:
        runtime: its number.
        ring: what carries the batches.
        options: of the runtime.
        memory, targets: its tables; users of their slots are counted there.
        streams: one for each batch of the ring.
        simulated: time goes on in blocking calls only.
        lock: the runtime's.
    """

    def __init__(
        self,
        runtime: int,
        ring: Ring,
        options: RuntimeOptions,
        memory: MemoryTable,
        targets: TargetTable,
        streams: Sequence[Stream],
        simulated: bool,
        lock: AbstractContextManager[bool],
    ) -> None:
        self._ring, self._options, self._streams = ring, options, streams
        self._memory, self._targets = memory, targets
        self._simulated, self._lock = simulated, lock
        self._planner = Planner(memory.slots, targets, ring.targets, options.ring.queues)
        self._ios = SlotTable(Kind.IO, runtime, {})
        self._operations: dict[int, Operation] = {}
        #: Those that have not ended, oldest first.
        self._flying: dict[int, InFlight] = {}
        self._abandoned: set[int] = set()
        self._drives, self._blocks = _columns(ring)

    def __len__(self) -> int:
        return len(self._flying)

    # ---- out ----

    def submit(self, rows: NDArray[np.void], stream: Stream | None) -> tuple[int | None, NDArray[np.void]]:
        """See `StorageRuntime.submit`. Returns the handle, if any, and how each request stands."""
        import numpy as np

        self.progress(None)
        initial = np.zeros(len(rows), initial_dtype())
        why_not = self._why_not_now()
        if why_not or not len(rows):
            initial["reason"] = why_not
            initial["status"] = statuses()[why_not]
            return None, initial
        plan = self._planner.plan(rows, self._options.ring.batch_limit, self._targets.moved, self._memory.closed)
        initial["reason"] = plan.reasons
        initial["status"] = np.where(plan.reasons == 0, np.uint8(Status.PENDING), statuses()[plan.reasons])
        if plan.reasons.all():
            return None, initial
        return self._issue(rows, plan, initial, stream), initial

    def _why_not_now(self) -> Reason:
        if len(self._flying) >= self._options.ring.batches:
            return Reason.BATCHES_TAKEN
        if len(self._operations) >= self._options.max_results:
            return Reason.RESULTS_HELD
        return Reason.NONE

    def _issue(self, rows: NDArray[np.void], plan: Plan, initial: NDArray[np.void], stream: Stream | None) -> int:
        import numpy as np

        iocb = self._ring.get_iocb()
        where = stream or self._streams[iocb.number]
        try:
            owner, nbytes, drive = self._fill(iocb, rows, plan)
            slots = self._ios.take(1, "submit requests")
        except BaseException:
            self._ring.put_iocb(iocb)
            raise
        slot = int(slots[0])
        accepted = plan.reasons == 0
        moving = accepted & (rows["operation"] != Verb.FLUSH)
        memory, targets = np.unique(plan.memory[moving]), np.unique(plan.target[accepted])
        flight = InFlight(iocb, where, owner, nbytes, drive, memory, targets)
        self._operations[slot] = Operation(initial, rows["tag"].copy())
        self._flying[slot] = flight
        self._count(flight, +1)
        try:
            self._ring.issue_io(iocb, where)
        except BaseException:
            # Launched or not: its stream tells when it is over, whether its event was recorded or not.
            if iocb.stage is Stage.IN_FLIGHT:
                flight.torn = True
            else:
                self._end(slot)
                self._forget(slot)
                self._ring.put_iocb(iocb)
            raise
        return int(self._ios.handles(slots)[0])

    def _fill(
        self, iocb: Iocb, rows: NDArray[np.void], plan: Plan
    ) -> tuple[NDArray[np.int64], NDArray[np.uint64], NDArray[np.uint32]]:
        """Packs a plan. Returns, for each of the ring's requests, the caller's request, its bytes and its drive."""
        import numpy as np

        pieces, options = plan.pieces, self._options
        # Column by column: whole records would be copied otherwise.
        held, memory, owner = self._memory.slots.rows, plan.memory[pieces.owner], pieces.owner
        chosen = rows["queue_class"].astype(np.int64)[owner]
        writes = (rows["operation"] == Verb.WRITE)[owner]
        usual = np.where(writes, options.write_class, options.read_class)
        classes = np.where(chosen == 0, usual, chosen - 1)
        offsets = held["offset"][memory] + rows["memory_offset"][owner] + pieces.skip
        blocks = self._blocks[pieces.row]
        durable = ((rows["flags"] & np.uint8(Flags.DURABLE)) != 0)[owner]
        # Requests that one call packs; nearly always one group or two.
        pool_of = held["pool"][memory].astype(np.int64)
        groups = ((pool_of << 4 | classes) << 2) | writes.astype(np.int64) << 1 | durable
        owners, lengths, drives = [], [], []
        for group in np.unique(groups):
            which = np.flatnonzero(groups == group)
            pool = self._memory.pools[int(group) >> 6]
            assert pool is not None
            target, lba = pieces.row[which], pieces.physical[which] // blocks[which]
            nbytes, offset, queue_class = pieces.nbytes[which], offsets[which], int(group) >> 2 & 15
            if group & 2:
                iocb.write(
                    target,
                    lba,
                    nbytes,
                    pool.registered,
                    offset,
                    queue_class=queue_class,
                    force_unit_access=bool(group & 1),
                )
            else:
                iocb.read(target, lba, nbytes, pool.registered, offset, queue_class=queue_class)
            owners.append(pieces.owner[which])
            lengths.append(nbytes)
            drives.append(self._drives[target])
        for request, row in plan.flushes:
            named = int(rows["queue_class"][request])
            iocb.flush(self._ring.targets[row], queue_class=named - 1 if named else options.write_class)
            owners.append(np.array([request]))
            lengths.append(np.zeros(1, np.uint64))
            drives.append(self._drives[[row]])
        return np.concatenate(owners), np.concatenate(lengths), np.concatenate(drives)

    def _count(self, flight: InFlight, change: int) -> None:
        import numpy as np

        for rows, slots in ((self._memory.slots.rows, flight.memory), (self._targets.slots.rows, flight.targets)):
            rows["users"][slots] = rows["users"][slots].astype(np.int64) + change

    def _end(self, slot: int) -> InFlight:
        flight = self._flying.pop(slot)
        self._count(flight, -1)
        return flight

    # ---- back ----

    def progress(self, limit: int | None) -> int:
        """Takes the results of batches that ended, oldest first, of ``limit`` at most. Returns of how many."""
        ended = 0
        for slot in list(self._flying):
            if limit is not None and ended >= limit:
                break
            ended += self._take(slot)
        return ended

    def _take(self, slot: int) -> bool:
        """Takes a batch's results if it has ended; says whether."""
        flight = self._flying[slot]
        over = flight.stream.query() if flight.torn else self._ring.query(flight.iocb)
        if not over:
            return False
        count = flight.iocb.command_count
        try:
            done = self._ring.wait_cqe(flight.iocb)
        except TuttiError:
            # The launch failed. What a lane wrote before holds; the rest says that it was not run.
            done = flight.iocb.completions(flight.iocb.results[:count])
        operation = self._operations[slot]
        operation.results = results_of(operation, flight, done)
        self._end(slot)
        if slot in self._abandoned:
            self._abandoned.remove(slot)
            self._forget(slot)
        return True

    def _forget(self, slot: int) -> None:
        import numpy as np

        del self._operations[slot]
        self._ios.give(np.array([slot], np.int64))

    def look(self, handle: int) -> Operation:
        """A submit, after one look at whether it has ended.

        Raises:
            HandleInvalid: no such submit, or it is released.
        """
        slot = self._ios.require(handle, "look at a submit")
        if slot in self._flying:
            self._take(slot)
        return self._operations[slot]

    def release(self, handle: int) -> None:
        """See `StorageRuntime.release`."""
        slot = self._ios.require(handle, "release a submit")
        if slot in self._flying and not self._take(slot):
            raise StorageBusy("release a submit", "it is in flight", "Wait for it first.")
        self._forget(slot)

    def abandon(self, handle: int) -> None:
        """See `StorageRuntime.abandon`."""
        slot = self._ios.require(handle, "abandon a submit")
        if slot in self._flying and not self._take(slot):
            self._abandoned.add(slot)
        else:
            self.release(handle)

    def wait(self, handle: int, timeout_s: float | None) -> NDArray[np.void]:
        """See `StorageRuntime.wait`. Takes the lock for moments only."""
        deadline = None if timeout_s is None else time.monotonic() + timeout_s
        pause = _FIRST_PAUSE_S
        while True:
            with self._lock:
                found = self.look(handle)
                if found.results is not None:
                    return found.results
                if self._simulated:
                    self._run_world(handle)
                    continue
            if deadline is not None and time.monotonic() >= deadline:
                raise StorageTimeout(
                    "wait for a submit", f"it did not end within {timeout_s} s", "Wait again, or cancel."
                )
            time.sleep(pause)
            pause = min(2 * pause, _LONGEST_PAUSE_S)

    def _run_world(self, handle: int) -> None:
        flight = self._flying[self._ios.require(handle, "wait for a submit")]
        (flight.stream if flight.torn else flight.iocb.done).synchronize()

    def drain(self, timeout_s: float | None) -> None:
        """Waits until nothing is in flight.

        Raises:
            StorageTimeout: something still is.
        """
        deadline = None if timeout_s is None else time.monotonic() + timeout_s
        pause = _FIRST_PAUSE_S
        while True:
            with self._lock:
                if self._simulated:
                    for flight in list(self._flying.values()):
                        (flight.stream if flight.torn else flight.iocb.done).synchronize()
                self.progress(None)
                left = len(self._flying)
            if not left:
                return
            if deadline is not None and time.monotonic() >= deadline:
                raise StorageTimeout(
                    "wait for all submits", f"{left} did not end within {timeout_s} s", "Try again, or cancel."
                )
            time.sleep(pause)
            pause = min(2 * pause, _LONGEST_PAUSE_S)

    # ---- trouble ----

    def cancel(self, limits: RecoveryLimits | None) -> int:
        """See `StorageRuntime.cancel`."""
        count = len(self._flying)
        if count:
            self._ring.stop()
            for flight in list(self._flying.values()):
                (flight.stream if flight.torn else flight.iocb.done).synchronize()
            self.progress(None)
        if self._flying:
            raise StorageError(
                "cancel submits", f"{len(self._flying)} did not end when the ring was stopped", "Shut the runtime down."
            )
        # Also after an earlier try was interrupted: with nothing in flight these two change nothing that is well.
        self._ring.resume()
        self.recover(limits, None)
        return count

    def recover(self, limits: RecoveryLimits | None, drive: int | None) -> tuple[QueueRecovery, ...]:
        """See `StorageRuntime.recover`."""
        self.progress(None)
        try:
            return self._ring.recover(limits, drive=drive)
        except RingBusy as error:
            raise StorageBusy("recover drives", error.found, error.fix) from error


def _columns(ring: Ring) -> tuple[NDArray[np.uint32], NDArray[np.uint64]]:
    """The drive, and the bytes of a block, of each row of the ring's targets."""
    import numpy as np

    drives = np.array([target.drive for target in ring.targets], np.uint32)
    return drives, np.array([target.block_bytes for target in ring.targets], np.uint64)

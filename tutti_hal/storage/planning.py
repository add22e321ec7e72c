"""From requests to commands: every request judged, cut at stripes, extents and the drive's limit. Pure arithmetic.

Nothing here has an effect on anything: a batch that is refused, or refused in part, leaves no trace.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from tutti_hal.io_uring.layout import Access
from tutti_hal.storage.extents import Pieces, join
from tutti_hal.storage.records import Flags, Operation
from tutti_hal.storage.status import Reason

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    import numpy as np
    from numpy.typing import NDArray

    from tutti_hal.io_uring import Target
    from tutti_hal.storage.handles import SlotTable
    from tutti_hal.storage.targets import TargetTable


@dataclass(frozen=True)
class Plan:
    """Requests as the ring takes them.

    Attributes:
        reasons: a `Reason` for each request; NONE where it is accepted.
        memory, target: their slots; 0 where they have none.
        pieces: of the accepted transfers, ordered by drive.
        flushes: (request, row of the ring's targets) of the accepted flushes.
    """

    reasons: NDArray[np.uint8]
    memory: NDArray[np.int64]
    target: NDArray[np.int64]
    pieces: Pieces
    flushes: tuple[tuple[int, int], ...]


class Planner:
    """Judges and cuts requests against the tables of a runtime."""

    def __init__(self, memory: SlotTable, targets: TargetTable, rows: Sequence[Target], classes: Sequence[int]) -> None:
        import numpy as np

        self._memory, self._targets = memory, targets
        #: Bytes of the largest command, by row of the ring's targets.
        self._most = np.array([row.max_blocks * row.block_bytes for row in rows], np.uint64)
        self._classes = np.array([count > 0 for count in classes], bool)

    def plan(
        self,
        requests: NDArray[np.void],
        limit: int,
        moved: Callable[[NDArray[np.int64]], NDArray[np.bool_]],
        closed: Callable[[NDArray[np.int64]], NDArray[np.bool_]],
    ) -> Plan:
        """Judges requests; those that a batch of ``limit`` commands has no room for are refused for the moment.

        Args:
            requests: of `request_dtype`, one dimension.
            limit: commands of a batch.
            moved: called with the distinct target slots in use; says which of them moved.
            closed: likewise with memory slots; says which are of memory that was closed behind the runtime's back.
        """
        import numpy as np

        reasons = np.zeros(len(requests), np.uint8)
        memory, target = self._judge(requests, reasons)
        moving = requests["operation"] != Operation.FLUSH
        _refuse_some(reasons, target, np.ones(len(requests), bool), moved, Reason.TARGET_MOVED)
        _refuse_some(reasons, memory, moving, closed, Reason.MEMORY_CLOSED)
        pieces = self._place(requests, target, reasons == 0)
        flushes = self._flushes(requests, target, reasons)
        pieces, flushes = self._bound(reasons, pieces, flushes, limit)
        if len(pieces.row) and bool((pieces.row != pieces.row[0]).any()):
            # Neighbouring lanes take neighbouring requests: of one queue, they share its doorbell.
            pieces = _select(pieces, np.argsort(pieces.row, kind="stable"))
        return Plan(reasons, memory, target, pieces, tuple(flushes))

    def _judge(
        self, requests: NDArray[np.void], reasons: NDArray[np.uint8]
    ) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        import numpy as np

        operation, flags = requests["operation"], requests["flags"]
        flush, write = operation == Operation.FLUSH, operation == Operation.WRITE
        known = (operation >= min(Operation)) & (operation <= max(Operation))
        _refuse(reasons, ~known, Reason.OPERATION_UNKNOWN)
        _refuse(reasons, (flags & ~np.uint8(Flags.DURABLE)) != 0, Reason.FLAGS_UNKNOWN)
        _refuse(reasons, (flags != 0) & ~write, Reason.FLAGS_UNKNOWN)
        chosen = requests["queue_class"].astype(np.int64)
        there = np.concatenate([[True], self._classes])
        _refuse(reasons, (chosen >= len(there)) | ~there[np.minimum(chosen, len(there) - 1)], Reason.QUEUE_CLASS_ABSENT)

        memory, good = self._memory.find(requests["memory"])
        memory[flush] = 0
        _refuse(reasons, ~good & ~flush, Reason.MEMORY_HANDLE)
        target, good = self._targets.slots.find(requests["target"])
        _refuse(reasons, ~good, Reason.TARGET_HANDLE)

        ok = reasons == 0
        if not ok.any():
            return memory, target
        # Column by column: whole records would be copied otherwise.
        bounds = self._targets.slots.rows
        nbytes, block = requests["nbytes"], np.maximum(bounds["block"][target], 1).astype(np.uint64)
        moving = ~flush
        _refuse(reasons, moving & (nbytes == 0), Reason.LENGTH_ZERO)
        _refuse(reasons, moving & (nbytes % block != 0), Reason.LENGTH_UNALIGNED)
        _refuse(reasons, moving & (requests["target_offset"] % block != 0), Reason.TARGET_UNALIGNED)
        _refuse(reasons, moving & (requests["memory_offset"] % np.uint64(4) != 0), Reason.MEMORY_UNALIGNED)
        _refuse(
            reasons, moving & _outside(requests["target_offset"], nbytes, bounds["size"][target]), Reason.TARGET_BOUNDS
        )
        _refuse(reasons, write & ~bounds["writable"][target], Reason.TARGET_READ_ONLY)
        if len(self._memory.rows):
            held = self._memory.rows
            room = held["nbytes"][memory]
            _refuse(reasons, moving & _outside(requests["memory_offset"], nbytes, room), Reason.MEMORY_BOUNDS)
            needs = np.where(write, np.uint8(Access.DRIVE_READS), np.uint8(Access.DRIVE_WRITES))
            _refuse(reasons, moving & ((held["access"][memory] & needs) == 0), Reason.MEMORY_ACCESS)
        return memory, target

    def _place(self, requests: NDArray[np.void], target: NDArray[np.int64], ok: NDArray[np.bool_]) -> Pieces:
        """The pieces of good transfers: cut at stripe units, then at extents."""
        import numpy as np

        moving = np.flatnonzero(ok & (requests["operation"] != Operation.FLUSH))
        rows, slots = self._targets.slots.rows, target[moving]
        at = rows["base"][slots] + requests["target_offset"][moving]
        nbytes = requests["nbytes"][moving]
        striped = rows["striped"][slots]
        if not striped.any():
            found = self._targets.extents.look_up(at, nbytes)
            return join(Pieces(moving[found.owner], found.skip, found.nbytes, found.row, found.physical))
        spread = self._targets.stripes.spread(at[striped], nbytes[striped])
        # Positions of leaves, of plain targets and of stripe units alike, in the order of the requests.
        plain = np.flatnonzero(~striped)
        owner = np.concatenate([plain, np.flatnonzero(striped)[spread.owner]])
        skip = np.concatenate([np.zeros(len(plain), np.uint64), spread.skip])
        position = np.concatenate([at[plain], spread.physical])
        length = np.concatenate([nbytes[plain], spread.nbytes])
        order = np.argsort(owner, kind="stable")
        owner, skip, position, length = owner[order], skip[order], position[order], length[order]
        found = self._targets.extents.look_up(position, length)
        return join(
            Pieces(
                owner=moving[owner[found.owner]],
                skip=skip[found.owner] + found.skip,
                nbytes=found.nbytes,
                row=found.row,
                physical=found.physical,
            )
        )

    def _flushes(
        self, requests: NDArray[np.void], target: NDArray[np.int64], reasons: NDArray[np.uint8]
    ) -> list[tuple[int, int]]:
        import numpy as np

        which = np.flatnonzero((reasons == 0) & (requests["operation"] == Operation.FLUSH))
        return [(int(i), row) for i in which for row in self._targets.opened(int(target[i])).rows]

    def _bound(
        self, reasons: NDArray[np.uint8], pieces: Pieces, flushes: list[tuple[int, int]], limit: int
    ) -> tuple[Pieces, list[tuple[int, int]]]:
        """Refuses what a batch has no room for: always, or behind what comes before it."""
        import numpy as np

        most = self._most[pieces.row]
        parts = (pieces.nbytes + most - np.uint64(1)) // most
        commands = np.bincount(pieces.owner, parts, minlength=len(reasons)).astype(np.uint64)
        for request, _ in flushes:
            commands[request] += np.uint64(1)
        _refuse(reasons, commands > np.uint64(limit), Reason.COMMANDS_TOO_MANY)
        commands[reasons != 0] = 0
        _refuse(reasons, np.cumsum(commands) > np.uint64(limit), Reason.BATCH_FULL)
        kept = reasons[pieces.owner] == 0
        return (
            pieces if kept.all() else _select(pieces, np.flatnonzero(kept)),
            [(request, row) for request, row in flushes if reasons[request] == 0],
        )


def _refuse(reasons: NDArray[np.uint8], bad: NDArray[np.bool_], reason: Reason) -> None:
    """The first reason found stays."""
    reasons[bad & (reasons == 0)] = reason


def _refuse_some(
    reasons: NDArray[np.uint8],
    slots: NDArray[np.int64],
    concerned: NDArray[np.bool_],
    bad: Callable[[NDArray[np.int64]], NDArray[np.bool_]],
    reason: Reason,
) -> None:
    """Refuses requests of slots that are bad; asks once for each slot that is in use."""
    import numpy as np

    used = np.unique(slots[(reasons == 0) & concerned])
    if len(used):
        _refuse(reasons, concerned & np.isin(slots, used[bad(used)]), reason)


def _outside(offset: NDArray[np.uint64], nbytes: NDArray[np.uint64], size: NDArray[np.uint64]) -> NDArray[np.bool_]:
    import numpy as np

    outside: NDArray[np.bool_] = (nbytes > size) | (offset > size - np.minimum(nbytes, size))
    return outside


def _select(pieces: Pieces, which: NDArray[np.int64]) -> Pieces:
    return Pieces(
        owner=pieces.owner[which],
        skip=pieces.skip[which],
        nbytes=pieces.nbytes[which],
        row=pieces.row[which],
        physical=pieces.physical[which],
    )

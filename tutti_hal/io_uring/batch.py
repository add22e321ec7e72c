"""Packed requests: what a caller asks for, checked, split at the drive's limit, and laid out for the device.

Everything here is arithmetic on arrays: the work of the CPU does not grow by calls when a batch grows by requests.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import IntEnum
from typing import TYPE_CHECKING, Any

from tutti_hal.errors import BatchFull, BufferInvalid, LbaOutOfRange, NamespaceAbsent, RequestInvalid
from tutti_hal.io_uring.layout import STATE_SHIFT, Access, State, dtype

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import ArrayLike, NDArray

#: Force unit access, in dword 12 of reads and writes.
FUA = 1 << 30


class Operation(IntEnum):
    """I/O commands of the NVM command set that the ring packs; the values are the opcodes."""

    FLUSH = 0x00
    WRITE = 0x01
    READ = 0x02
    COMPARE = 0x05
    WRITE_ZEROES = 0x08


@dataclass(frozen=True)
class Target:
    """A namespace as the ring reaches it: row of the device's table, and what bounds a request."""

    row: int
    drive: int
    nsid: int
    block_bytes: int
    blocks: int
    max_blocks: int


@dataclass(frozen=True)
class RegisteredBuffer:
    """Memory that drives may move data to and from; ``row`` names it in requests.

    The address is the caller's memory: it must live, and stay registered, until no request uses it.
    """

    row: int
    address: int
    nbytes: int
    access: Access


class Batch:
    """Requests to be handed over together. Not thread safe.

    A batch is obtained from ``Ring.get_iocb``, filled by ``read``, ``write``, ``compare`` and ``flush``, and handed to
    ``Ring.issue_io``. Requests of a batch run in any order: a batch that needs the outcome of another is issued after
    that one was waited for.

    Args:
        targets: by row.
        buffers: registered buffers by row; the ring's own table, None where a row is free.
        requests: where packed requests are written, one element each; its length is the limit.
        classes: queues of each class.
    """

    def __init__(
        self,
        targets: Sequence[Target],
        buffers: Sequence[RegisteredBuffer | None],
        requests: NDArray[np.void],
        classes: Sequence[int] = (1,),
    ) -> None:
        self._targets = targets
        self._classes = classes
        self._buffers = buffers
        self._requests = requests
        self._owners: list[NDArray[np.uint32]] = []
        self.request_count = 0
        self.command_count = 0

    def __len__(self) -> int:
        return self.request_count

    @property
    def limit(self) -> int:
        """Commands that the batch holds; a request above the drive's limit becomes several."""
        return len(self._requests)

    def clear(self) -> None:
        """Forget all requests."""
        self._owners.clear()
        self.request_count = self.command_count = 0

    def read(
        self,
        target: Target,
        lba: ArrayLike,
        nbytes: ArrayLike,
        buffer: RegisteredBuffer,
        offset: ArrayLike,
        *,
        queue_class: int = 0,
    ) -> range:
        """Add reads: ``nbytes`` from block ``lba`` of the namespace into the buffer at ``offset`` bytes.

        The three arrays broadcast against each other; scalars add one request. ``queue_class`` is a place in
        ``RingOptions.queues``.

        Returns:
            The numbers of the requests in this batch, in order: rows of what ``Ring.wait_cqe`` returns.

        Raises:
            RequestInvalid: a length of 0 or no multiple of the block; an offset that is no multiple of 4; a class
                without queues.
            LbaOutOfRange: blocks past the end of the namespace.
            BufferInvalid: not a live registration, too small, or not registered for this direction.
            NamespaceAbsent: not a target of this ring.
            BatchFull: the batch cannot hold so many; nothing was added.
        """
        return self._transfer(Operation.READ, target, lba, nbytes, buffer, offset, Access.DRIVE_WRITES, 0, queue_class)

    def write(
        self,
        target: Target,
        lba: ArrayLike,
        nbytes: ArrayLike,
        buffer: RegisteredBuffer,
        offset: ArrayLike,
        *,
        queue_class: int = 0,
        force_unit_access: bool = False,
    ) -> range:
        """Add writes, from buffer to namespace; ``force_unit_access`` goes past the drive's cache. As `read`."""
        bits = FUA if force_unit_access else 0
        return self._transfer(
            Operation.WRITE, target, lba, nbytes, buffer, offset, Access.DRIVE_READS, bits, queue_class
        )

    def compare(
        self,
        target: Target,
        lba: ArrayLike,
        nbytes: ArrayLike,
        buffer: RegisteredBuffer,
        offset: ArrayLike,
        *,
        queue_class: int = 0,
    ) -> range:
        """Add compares of the buffer with the namespace; a difference is a status of the drive's. As `read`."""
        return self._transfer(
            Operation.COMPARE, target, lba, nbytes, buffer, offset, Access.DRIVE_READS, 0, queue_class
        )

    def write_zeroes(self, target: Target, lba: ArrayLike, nbytes: ArrayLike, *, queue_class: int = 0) -> range:
        """Add commands that zero blocks without moving data. As `read`."""
        return self._transfer(Operation.WRITE_ZEROES, target, lba, nbytes, None, 0, Access(0), 0, queue_class)

    def flush(self, target: Target, *, queue_class: int = 0) -> range:
        """Add one flush of the namespace: what completed before it was submitted is durable when it completes."""
        import numpy as np

        self._check_target(target, queue_class)
        rows = self._reserve("pack a flush", np.ones(1, np.uint32))
        rows["opcode"] = Operation.FLUSH
        rows["queue_class"] = queue_class
        rows["target"] = target.row
        return range(self.request_count - 1, self.request_count)

    def _check_target(self, target: Target, queue_class: int) -> None:
        if not (0 <= target.row < len(self._targets)) or self._targets[target.row] is not target:
            raise NamespaceAbsent(
                f"use namespace {target.nsid} of drive {target.drive}",
                "it is not a target of this ring",
                "Take targets from Ring.target(drive, nsid).",
            )
        if not (0 <= queue_class < len(self._classes)) or self._classes[queue_class] == 0:
            raise RequestInvalid(
                f"use queue class {queue_class}",
                f"the ring has queues={tuple(self._classes)}",
                "Name a class that has queues.",
            )

    def _check_buffer(self, what: str, buffer: RegisteredBuffer, access: Access) -> None:
        live = 0 <= buffer.row < len(self._buffers) and self._buffers[buffer.row] is buffer
        if not live:
            raise BufferInvalid(what, f"buffer {buffer.row} is not registered", "Register it: ring.register(...).")
        if access not in buffer.access:
            raise BufferInvalid(
                what,
                f"buffer {buffer.row} is registered for {buffer.access!r} alone",
                f"Register it with {access!r}.",
            )

    def _transfer(
        self,
        operation: Operation,
        target: Target,
        lba: ArrayLike,
        nbytes: ArrayLike,
        buffer: RegisteredBuffer | None,
        offset: ArrayLike,
        access: Access,
        bits: int,
        queue_class: int,
    ) -> range:
        import numpy as np

        what = f"pack {operation.name.lower()} requests for namespace {target.nsid} of drive {target.drive}"
        self._check_target(target, queue_class)
        if buffer is not None:
            self._check_buffer(what, buffer, access)
        whole = [_whole(what, name, value) for name, value in (("lba", lba), ("nbytes", nbytes), ("offset", offset))]
        try:
            lbas, sizes, offsets = np.broadcast_arrays(*whole)
        except ValueError as error:
            shapes = ", ".join(str(each.shape) for each in whole)
            raise RequestInvalid(
                what, f"lba, nbytes and offset have the shapes {shapes}", "Pass arrays of one length, or scalars."
            ) from error
        lbas, sizes, offsets = lbas.ravel(), sizes.ravel(), offsets.ravel()
        _refuse_any(
            RequestInvalid,
            what,
            (sizes == 0) | (sizes % np.uint64(target.block_bytes) != 0),
            lambda i: f"request {i} has {int(sizes[i])} bytes",
            f"Use a positive multiple of the block, {target.block_bytes} bytes.",
        )
        _refuse_any(
            RequestInvalid,
            what,
            offsets % np.uint64(4) != 0,
            lambda i: f"request {i} has offset {int(offsets[i])} in its buffer",
            "Use a multiple of 4: a drive addresses dwords.",
        )
        counts = sizes // np.uint64(target.block_bytes)
        end = np.uint64(target.blocks)
        _refuse_any(
            LbaOutOfRange,
            what,
            (counts > end) | (lbas > end - np.minimum(counts, end)),
            lambda i: f"request {i} takes {int(counts[i])} blocks from {int(lbas[i])}",
            f"The namespace has {target.blocks} blocks.",
        )
        if buffer is not None:
            room = np.uint64(buffer.nbytes)
            _refuse_any(
                BufferInvalid,
                what,
                (sizes > room) | (offsets > room - np.minimum(sizes, room)),
                lambda i: (
                    f"request {i} takes {int(sizes[i])} bytes at {int(offsets[i])} of a buffer of {buffer.nbytes}"
                ),
                "Stay inside the buffer.",
            )
        most = np.uint64(target.max_blocks)
        parts = ((counts + most - np.uint64(1)) // most).astype(np.uint32)
        rows = self._reserve(what, parts)
        # Number of each part within its request.
        part = np.arange(len(rows), dtype=np.uint64) - np.repeat(np.cumsum(parts) - parts, parts).astype(np.uint64)
        skipped = part * most
        rows["opcode"] = operation
        rows["target"] = target.row
        rows["block_count"] = np.minimum(np.repeat(counts, parts) - skipped, most)
        rows["first_lba"] = np.repeat(lbas, parts) + skipped
        rows["queue_class"] = queue_class
        rows["buffer"] = 0 if buffer is None else buffer.row
        rows["command_bits"] = bits
        rows["buffer_offset"] = np.repeat(offsets, parts) + skipped * np.uint64(target.block_bytes)
        return range(self.request_count - len(parts), self.request_count)

    def _reserve(self, what: str, parts: NDArray[np.uint32]) -> NDArray[np.void]:
        """Rows for requests of so many parts each, zeroed."""
        import numpy as np

        needed = int(parts.sum(dtype=np.uint64))
        first = self.command_count
        if first + needed > self.limit:
            raise BatchFull(
                what,
                f"{needed} commands, and {self.limit - first} of {self.limit} are left in the batch",
                "Issue this batch and take another, or raise RingOptions.batch_limit.",
            )
        numbers = np.arange(self.request_count, self.request_count + len(parts), dtype=np.uint32)
        self._owners.append(np.repeat(numbers, parts))
        self.request_count += len(parts)
        self.command_count += needed
        rows = self._requests[first : first + needed]
        rows[...] = np.zeros((), self._requests.dtype)
        return rows

    def completions(self, results: NDArray[np.void]) -> NDArray[np.void]:
        """One completion for each request, from one ``ring_status`` for each command.

        A request of several commands is as bad as its worst: one that was not completed, before one that failed, before
        one that succeeded. ``submitted_ns`` is its first command's, ``completed_ns`` its last one's.
        """
        import numpy as np

        owners = np.concatenate(self._owners) if self._owners else np.empty(0, np.uint32)
        codes = results["code"]
        states = (codes >> STATE_SHIFT).astype(np.uint8)
        fields = np.where(states == State.COMPLETED, codes & 0x7FFF, 0).astype(np.uint16)
        # DNR, M and CRD say what to do about a failure; they do not make one.
        failed = (fields & 0x7FF) != 0
        badness = np.where(states != State.COMPLETED, 2, failed.astype(np.uint8))
        # Last wins below: the worst command of each request, and of equals the first.
        order = np.lexsort((-np.arange(len(owners)), badness))
        worst = np.zeros(self.request_count, np.int64)
        worst[owners[order]] = order
        done = np.zeros(self.request_count, completion_dtype())
        done["state"] = states[worst]
        done["why"] = np.where(states[worst] == State.NOT_RUN, codes[worst] & 0xFFFF, 0)
        field = fields[worst]
        done["sc"] = field & 0xFF
        done["sct"] = (field >> 8) & 7
        done["crd"] = (field >> 11) & 3
        done["more"] = (field >> 13) & 1
        done["dnr"] = (field >> 14) & 1
        done["result"] = results["result"][worst]
        done["queue"] = results["queue"][worst]
        done["commands"] = np.bincount(owners, minlength=self.request_count)
        first = np.full(self.request_count, np.iinfo(np.uint64).max, np.uint64)
        np.minimum.at(first, owners, results["submitted_ns"])
        last = np.zeros(self.request_count, np.uint64)
        np.maximum.at(last, owners, results["completed_ns"])
        done["submitted_ns"], done["completed_ns"] = first, last
        return done


def completion_dtype() -> np.dtype[Any]:
    """The record of one request's end, as ``Ring.wait_cqe`` returns them.

    ``state`` is a `State`; ``why`` a `Why` when it is NOT_RUN; ``sct``, ``sc``, ``crd``, ``more``, ``dnr`` the status
    of the drive when it is COMPLETED; times are in nanoseconds of the device's clock; ``queue`` is the ring's number
    of the queue; ``commands`` tells into how many the request was split.
    """
    import numpy as np

    return np.dtype(
        [
            ("state", "u1"),
            ("sct", "u1"),
            ("sc", "u1"),
            ("crd", "u1"),
            ("more", "?"),
            ("dnr", "?"),
            ("why", "<u2"),
            ("result", "<u4"),
            ("queue", "<u4"),
            ("commands", "<u4"),
            ("submitted_ns", "<u8"),
            ("completed_ns", "<u8"),
        ]
    )


def request_array(buffer: memoryview[int] | bytearray, count: int) -> NDArray[np.void]:
    """``count`` packed requests over memory that the caller owns."""
    import numpy as np

    return np.frombuffer(buffer, dtype("ring_request"), count)


def succeeded(completions: NDArray[np.void]) -> NDArray[np.bool_]:
    """Which requests were completed by the drive without an error."""
    good: NDArray[np.bool_] = (
        (completions["state"] == State.COMPLETED) & (completions["sct"] == 0) & (completions["sc"] == 0)
    )
    return good


def _whole(what: str, name: str, value: ArrayLike) -> NDArray[np.uint64]:
    """The value as unsigned 64-bit numbers; refuses what is not a whole number >= 0."""
    import numpy as np

    array = np.asarray(value)
    fix = "Pass whole numbers from 0 to 2^64 - 1."
    if array.dtype.kind == "O":
        # Python integers above 2^63 arrive so.
        try:
            return np.array([int(v) for v in array.ravel()], np.uint64).reshape(array.shape)
        except (OverflowError, TypeError, ValueError) as error:
            raise RequestInvalid(what, f"{name} is {value!r}", fix) from error
    if array.dtype.kind not in "iu":
        raise RequestInvalid(what, f"{name} has type {array.dtype}", fix)
    if array.dtype.kind == "i" and bool((array < 0).any()):
        raise RequestInvalid(what, f"{name} has {int(array.min())}", fix)
    return array.astype(np.uint64)


def _refuse_any(error: type[Any], what: str, bad: NDArray[np.bool_], found: Any, fix: str) -> None:
    """Raise for the first request that is bad."""
    if bad.any():
        raise error(what, found(int(bad.argmax())), fix)

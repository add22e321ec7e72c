"""Packed requests: what a caller asks for, checked, split at the drive's limit, and laid out for the device.

Everything here is arithmetic on arrays: the work of the CPU does not grow by calls when a batch grows by requests.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import IntEnum
from typing import TYPE_CHECKING

from tutti_hal.errors import BatchFull, BufferInvalid, LbaOutOfRange, NamespaceAbsent, RequestInvalid
from tutti_hal.io_uring.checks import (
    broadcast,
    check_metadata,
    check_protection,
    refuse_any,
    split_at_pieces,
    whole,
)
from tutti_hal.io_uring.completion import merge
from tutti_hal.io_uring.layout import Access, Protect

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import ArrayLike, NDArray

#: Force unit access, in dword 12 of reads and writes.
FUA = 1 << 30

_UNPROTECTED = Protect(0)


class Operation(IntEnum):
    """I/O commands of the NVM command set that the ring packs; the values are the opcodes."""

    FLUSH = 0x00
    WRITE = 0x01
    READ = 0x02
    COMPARE = 0x05
    WRITE_ZEROES = 0x08


@dataclass(frozen=True)
class Target:
    """A namespace as the ring reaches it: row of the device's table, and what bounds a request.

    Attributes:
        row: of the device's table.
        drive: the ring's number of it.
        nsid: the namespace.
        block_bytes: that one block takes in the buffer; metadata counted where they are inline.
        blocks: of the namespace.
        max_blocks: of one command.
        lba_bytes: data bytes of a block; 0 stands for `block_bytes`.
        action_block_bytes: as `block_bytes`, with `Protect.ACTION`; 0 stands for `block_bytes`.
        metadata_bytes: that one block takes in metadata memory of its own.
        action_metadata_bytes: likewise, with `Protect.ACTION`.
        protection: type of protection information, 0 for none.
        application_tag, application_mask: of `Drive`.
    """

    row: int
    drive: int
    nsid: int
    block_bytes: int
    blocks: int
    max_blocks: int
    lba_bytes: int = 0
    action_block_bytes: int = 0
    metadata_bytes: int = 0
    action_metadata_bytes: int = 0
    protection: int = 0
    application_tag: int = 0
    application_mask: int = 0

    def __post_init__(self) -> None:
        for name in ("lba_bytes", "action_block_bytes"):
            if not getattr(self, name):
                object.__setattr__(self, name, self.block_bytes)


@dataclass(frozen=True)
class RegisteredBuffer:
    """Memory that drives may move data to and from; ``row`` names it in requests.

    The address is the caller's memory: it must live, and stay registered, until no request uses it.

    Attributes:
        row: in requests.
        address, nbytes: of the data.
        access: what the drives may do with it.
        metadata_address, metadata_nbytes: of the metadata memory; 0 where there is none.
        piece: bytes of which no command crosses a multiple; 0 for none.
        descriptor_bytes: retained for it, of all drives: lists, tables, records, and what allocation rounds up.
    """

    row: int
    address: int
    nbytes: int
    access: Access
    metadata_address: int = 0
    metadata_nbytes: int = 0
    piece: int = 0
    descriptor_bytes: int = 0


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
        import numpy as np

        self._targets = targets
        # What bounds requests, by target: a call may name another target in each request.
        self._bounds = {
            name: np.array([getattr(target, name) for target in targets], np.uint64)
            for name in (
                *("block_bytes", "action_block_bytes", "blocks", "max_blocks", "protection"),
                *("lba_bytes", "metadata_bytes", "action_metadata_bytes"),
            )
        }
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
        target: Target | ArrayLike,
        lba: ArrayLike,
        nbytes: ArrayLike,
        buffer: RegisteredBuffer,
        offset: ArrayLike,
        *,
        queue_class: int = 0,
        protect: Protect = _UNPROTECTED,
    ) -> range:
        """Add reads: ``nbytes`` from block ``lba`` of the namespace into the buffer at ``offset`` bytes.

        ``target`` is one namespace for all, or an array with the ``Target.row`` of each request's: requests for many
        drives cost one call. The arrays broadcast against each other; scalars add one request. ``queue_class`` is a
        place in ``RingOptions.queues``. ``protect`` is for namespaces with protection information.

        Inline metadata count in ``nbytes``, unless `Protect.ACTION` keeps them away. Metadata apart move to and from
        the buffer's metadata memory, and the offset is that of a block. A request above the drive's limit, or over
        several pieces of the buffer, becomes several commands and has one completion.

        Returns:
            The numbers of the requests in this batch, in order: rows of what ``Ring.wait_cqe`` returns.

        Raises:
            RequestInvalid: a length of 0 or no multiple of the block; an offset that is no multiple of 4, of the block
                where metadata are apart, or of the piece where it must be; a class without queues; protection that the
                namespace does not have; numbers that are not whole, or arrays that do not broadcast.
            LbaOutOfRange: blocks past the end of the namespace.
            BufferInvalid: not a live registration, too small, without metadata memory that the namespace needs, or not
                registered for this direction.
            NamespaceAbsent: not a target of this ring, or not the row of one.
            BatchFull: the batch cannot hold so many; nothing was added.
        """
        access, bits = Access.DRIVE_WRITES, 0
        return self._transfer(Operation.READ, target, lba, nbytes, buffer, offset, access, bits, queue_class, protect)

    def write(
        self,
        target: Target | ArrayLike,
        lba: ArrayLike,
        nbytes: ArrayLike,
        buffer: RegisteredBuffer,
        offset: ArrayLike,
        *,
        queue_class: int = 0,
        force_unit_access: bool = False,
        protect: Protect = _UNPROTECTED,
    ) -> range:
        """Add writes, from buffer to namespace; ``force_unit_access`` goes past the drive's cache. As `read`."""
        access, bits = Access.DRIVE_READS, FUA if force_unit_access else 0
        return self._transfer(Operation.WRITE, target, lba, nbytes, buffer, offset, access, bits, queue_class, protect)

    def compare(
        self,
        target: Target | ArrayLike,
        lba: ArrayLike,
        nbytes: ArrayLike,
        buffer: RegisteredBuffer,
        offset: ArrayLike,
        *,
        queue_class: int = 0,
        protect: Protect = _UNPROTECTED,
    ) -> range:
        """Add compares of the buffer with the namespace; a difference is a status of the drive's. As `read`."""
        access, bits = Access.DRIVE_READS, 0
        return self._transfer(
            Operation.COMPARE, target, lba, nbytes, buffer, offset, access, bits, queue_class, protect
        )

    def write_zeroes(
        self,
        target: Target | ArrayLike,
        lba: ArrayLike,
        nbytes: ArrayLike,
        *,
        queue_class: int = 0,
        protect: Protect = _UNPROTECTED,
    ) -> range:
        """Add commands that zero blocks without moving data. As `read`."""
        access = Access(0)
        return self._transfer(Operation.WRITE_ZEROES, target, lba, nbytes, None, 0, access, 0, queue_class, protect)

    def flush(self, target: Target, *, queue_class: int = 0) -> range:
        """Add one flush of the namespace: what completed before it was submitted is durable when it completes."""
        import numpy as np

        self._check_target(target)
        self._check_class(queue_class)
        rows = self._reserve("pack a flush", np.ones(1, np.uint32))
        rows["opcode"] = Operation.FLUSH
        rows["queue_class"] = queue_class
        rows["target"] = target.row
        return range(self.request_count - 1, self.request_count)

    def _check_target(self, target: Target) -> None:
        if not (0 <= target.row < len(self._targets)) or self._targets[target.row] is not target:
            raise NamespaceAbsent(
                f"use namespace {target.nsid} of drive {target.drive}",
                "it is not a target of this ring",
                "Take targets from Ring.target(drive, nsid).",
            )

    def _check_class(self, queue_class: int) -> None:
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

    def _target_rows(self, what: str, target: Target | ArrayLike) -> NDArray[np.uint64]:
        import numpy as np

        if isinstance(target, Target):
            self._check_target(target)
            return np.array(target.row, np.uint64)
        rows = whole(what, "target", target)
        refuse_any(
            NamespaceAbsent,
            what,
            np.atleast_1d(rows >= np.uint64(len(self._targets))),
            lambda i: f"request {i} names target {int(rows.flat[i])} of a ring that has {len(self._targets)}",
            lambda _: "Take rows from Ring.target(drive, nsid).row.",
        )
        return rows

    def _transfer(
        self,
        operation: Operation,
        target: Target | ArrayLike,
        lba: ArrayLike,
        nbytes: ArrayLike,
        buffer: RegisteredBuffer | None,
        offset: ArrayLike,
        access: Access,
        bits: int,
        queue_class: int,
        protect: Protect,
    ) -> range:
        import numpy as np

        what = f"pack {operation.name.lower()} requests"
        self._check_class(queue_class)
        targets, lbas, sizes, offsets = broadcast(
            what, self._target_rows(what, target), lba=lba, nbytes=nbytes, offset=offset
        )
        if buffer is not None:
            self._check_buffer(what, buffer, access)
        bounds = {name: column[targets] for name, column in self._bounds.items()}
        action = Protect.ACTION in protect
        block_bytes = bounds["action_block_bytes" if action else "block_bytes"]
        ends, most = bounds["blocks"], bounds["max_blocks"]

        def of(i: int) -> str:
            to = self._targets[int(targets[i])]
            return f"request {i}, for namespace {to.nsid} of drive {to.drive},"

        refuse_any(
            RequestInvalid,
            what,
            (sizes == 0) | (sizes % block_bytes != 0),
            lambda i: f"{of(i)} has {int(sizes[i])} bytes",
            lambda i: f"Use a positive multiple of the block, {int(block_bytes[i])} bytes.",
        )
        refuse_any(
            RequestInvalid,
            what,
            offsets % np.uint64(4) != 0,
            lambda i: f"{of(i)} has offset {int(offsets[i])} in its buffer",
            lambda _: "Use a multiple of 4: a drive addresses dwords.",
        )
        counts = sizes // block_bytes
        refuse_any(
            LbaOutOfRange,
            what,
            (counts > ends) | (lbas > ends - np.minimum(counts, ends)),
            lambda i: f"{of(i)} takes {int(counts[i])} blocks from {int(lbas[i])}",
            lambda i: f"The namespace has {int(ends[i])} blocks.",
        )
        if buffer is not None:
            room = np.uint64(buffer.nbytes)
            refuse_any(
                BufferInvalid,
                what,
                (sizes > room) | (offsets > room - np.minimum(sizes, room)),
                lambda i: f"{of(i)} takes {int(sizes[i])} bytes at {int(offsets[i])} of a buffer of {buffer.nbytes}",
                lambda _: "Stay inside the buffer.",
            )
            beside = bounds["action_metadata_bytes" if action else "metadata_bytes"]
            check_metadata(what, of, offsets, counts, bounds["lba_bytes"], beside, buffer.metadata_nbytes)
            if buffer.piece:
                most = split_at_pieces(what, of, offsets, sizes, block_bytes, most, buffer.piece)
        check_protection(what, of, bounds["protection"], protect)
        parts = ((counts + most - np.uint64(1)) // most).astype(np.uint32)
        rows = self._reserve(what, parts)
        if len(rows) > len(parts):
            targets, lbas, counts, offsets, block_bytes, most = (
                np.repeat(column, parts) for column in (targets, lbas, counts, offsets, block_bytes, most)
            )
            # Blocks of the same request that earlier parts take.
            part = np.arange(len(rows), dtype=np.uint64) - np.repeat(np.cumsum(parts) - parts, parts).astype(np.uint64)
            skipped = part * most
            counts = np.minimum(counts - skipped, most)
            lbas = lbas + skipped
            offsets = offsets + skipped * block_bytes
        rows["opcode"] = operation
        rows["target"] = targets
        rows["block_count"] = counts
        rows["first_lba"] = lbas
        rows["queue_class"] = queue_class
        rows["buffer"] = 0 if buffer is None else buffer.row
        rows["command_bits"] = bits | protect
        rows["buffer_offset"] = offsets
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
        rows.view(np.uint8)[:] = 0
        return rows

    def completions(self, results: NDArray[np.void]) -> NDArray[np.void]:
        """One completion for each request, in order, from one ``ring_status`` for each command: see `merge`."""
        import numpy as np

        owners = np.concatenate(self._owners) if self._owners else np.empty(0, np.uint32)
        return merge(owners, self.request_count, results)

"""The log: transactions of records in segments, each made durable by one commit.

The order of a transaction is the store's rule of durability in three lines: headers and payloads are written; they are
flushed; then the commit is written so that it is durable by itself. Nobody is told of it earlier, and whoever scans the
log later believes no record without its commit. So a commit that can be read vouches for payloads that need not be.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from tutti_hal.store import format as fmt
from tutti_hal.store.device import BlockDevice, Piece
from tutti_hal.store.records import Commit, EntryRow, ObjectHeader, Op, Reason, SegmentHeader, Superblock

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray


@dataclass
class Segment:
    """A segment as the store knows it now.

    Attributes:
        number: place on the device.
        sequence: of its present use, or of its last one when it is free; 0: never used.
        in_use: whether records may lie in it.
        end: first block behind its log.
        live_blocks: blocks of records that are the newest of their key.
    """

    number: int
    sequence: int = 0
    in_use: bool = False
    end: int = 1
    live_blocks: int = 0


@dataclass(frozen=True)
class Record:
    """What is to be appended.

    Attributes:
        op: put, delete or evict.
        key: whose.
        payload: bytes of a put; None otherwise.
        payload_crc: CRC-32C of the payload.
        moved: the record of which this one is a copy; None for a new one.
        reason: of an eviction.
    """

    op: Op
    key: bytes
    payload: NDArray[np.uint8] | None = None
    payload_crc: int = 0
    moved: EntryRow | None = None
    reason: Reason = Reason.NONE


class Log:
    """The segments and their head. It writes; it does not know which records are live.

    Args:
        device: where they lie.
        superblock: how they lie there.
        segments: by number, as recovery found them.
        next_transaction, next_segment: the first numbers that were never used.
    """

    def __init__(
        self,
        device: BlockDevice,
        superblock: Superblock,
        segments: list[Segment],
        next_transaction: int,
        next_segment: int,
    ) -> None:
        self.device, self.superblock, self.segments = device, superblock, segments
        self.next_transaction, self.next_segment = next_transaction, next_segment
        self.head: Segment | None = None
        self._head_written = False

    # ---- room ----

    def record_blocks(self, key_bytes: int, payload_bytes: int) -> int:
        """Blocks that a record takes."""
        size = self.superblock.block_bytes
        return fmt.header_blocks(key_bytes, size) + fmt.payload_blocks(payload_bytes, size)

    def entry_blocks(self, entry: EntryRow) -> int:
        """Blocks that an entry's record takes."""
        return self.record_blocks(len(entry.key), entry.payload_bytes)

    @property
    def segment_room(self) -> int:
        """Blocks of records that one transaction can have: a segment without its header and the commit."""
        return self.superblock.segment_blocks - 2

    @property
    def head_room(self) -> int:
        """Blocks of records for which the head has room, beside their commit."""
        return max(0, self.superblock.segment_blocks - self.head.end - 1) if self.head is not None else 0

    def free_segments(self) -> list[Segment]:
        """Segments without records, the one first that was free the longest."""
        return sorted((s for s in self.segments if not s.in_use), key=lambda s: (s.sequence, s.number))

    def open_segment(self) -> None:
        """Takes a free segment as the head; what was the head gets no more records.

        Its header is written with the first transaction, which makes both durable.
        """
        segment = self.free_segments()[0]
        segment.sequence, segment.in_use, segment.end, segment.live_blocks = self.next_segment, True, 1, 0
        self.next_segment += 1
        self.head, self._head_written = segment, False

    # ---- appending ----

    def append(self, records: Sequence[Record]) -> list[EntryRow]:
        """Writes one transaction to the head, which has room for it; it is durable when this returns.

        Returns:
            Where each record is now, in order.

        Raises:
            StoreDeviceError: then nobody knows whether the transaction is durable.
        """
        assert self.head is not None
        head, transaction = self.head, self.next_transaction
        first = at = head.end
        headers: list[Piece] = []
        payloads: list[Piece] = []
        crcs: list[int] = []
        entries: list[EntryRow] = []
        if not self._head_written:
            block = fmt.seal_segment(self.superblock, SegmentHeader(head.sequence, head.number, True))
            headers.append(self._piece(head, 0, block))
        for record in records:
            header = self._header(record, head.sequence, transaction)
            sealed, crc = fmt.seal_object(self.superblock, header)
            headers.append(self._piece(head, at, sealed))
            entries.append(
                EntryRow(
                    key=record.key,
                    op=record.op,
                    version=header.version,
                    segment=head.number,
                    block=at,
                    payload_bytes=header.payload_bytes,
                    payload_crc=header.payload_crc,
                    birth=header.birth,
                    reason=header.reason,
                )
            )
            crcs.append(crc)
            at += fmt.header_blocks(len(header.key), self.superblock.block_bytes)
            if record.payload is not None and record.payload.nbytes:
                payloads += self._payload(head, at, record.payload)
                at += fmt.payload_blocks(record.payload.nbytes, self.superblock.block_bytes)
        commit = Commit(head.sequence, transaction, len(records), first, fmt.chain(crcs))
        self._make_durable(headers, payloads, self._piece(head, at, fmt.seal_commit(self.superblock, commit)))
        self._head_written = True
        head.end = at + 1
        self.next_transaction += 1
        return entries

    def _make_durable(self, headers: list[Piece], payloads: list[Piece], commit: Piece) -> None:
        """The rule: what the commit vouches for is durable before the commit is written."""
        self.device.write(headers + payloads)
        if self.device.volatile:
            self.device.flush()
        self.device.write_durable(commit)

    def _header(self, record: Record, sequence: int, transaction: int) -> ObjectHeader:
        moved = record.moved
        if moved is not None:
            version, birth, reason = moved.version, moved.birth, moved.reason
        else:
            # The head has the highest number in use: no older record of this key lies in a later segment.
            version, birth = transaction, 0 if record.op is Op.PUT else sequence
            reason = record.reason
        return ObjectHeader(
            op=record.op,
            key=record.key,
            sequence=sequence,
            transaction=transaction,
            version=version,
            payload_bytes=0 if record.payload is None else record.payload.nbytes,
            payload_crc=record.payload_crc,
            birth=birth,
            reason=reason,
        )

    def _piece(self, segment: Segment, block: int, data: bytes) -> Piece:
        import numpy as np

        return Piece(self.superblock.segment_lba(segment.number) + block, np.frombuffer(data, np.uint8))

    def _payload(self, segment: Segment, block: int, payload: NDArray[np.uint8]) -> list[Piece]:
        """A payload's whole blocks as they are, and its last part filled up with zeroes."""
        import numpy as np

        size = self.superblock.block_bytes
        lba = self.superblock.segment_lba(segment.number) + block
        whole = payload.nbytes // size * size
        pieces = [Piece(lba, payload[:whole])] if whole else []
        if whole < payload.nbytes:
            last = np.zeros(size, np.uint8)
            last[: payload.nbytes - whole] = payload[whole:]
            pieces.append(Piece(lba + whole // size, last))
        return pieces

    # ---- freeing ----

    def free(self, segment: Segment) -> None:
        """Marks a segment free, durably: none of its records counts any more.

        Raises:
            StoreDeviceError: then nobody knows whether it is free.
        """
        header = SegmentHeader(segment.sequence, segment.number, False)
        self.device.write_durable(self._piece(segment, 0, fmt.seal_segment(self.superblock, header)))
        segment.in_use, segment.end, segment.live_blocks = False, 1, 0

    # ---- reading ----

    def payload_pieces(self, entry: EntryRow, into: NDArray[np.uint8]) -> list[Piece]:
        """What to read so that ``into``, of whole blocks, holds an object's payload."""
        if not entry.payload_bytes:
            return []
        size = self.superblock.block_bytes
        lba = self.superblock.segment_lba(entry.segment) + entry.block + fmt.header_blocks(len(entry.key), size)
        return [Piece(lba, into)]


def moved_record(entry: EntryRow, payload: NDArray[np.uint8] | None) -> Record:
    """The record that says the same as an entry, to be written elsewhere."""
    return Record(entry.op, entry.key, payload, entry.payload_crc, moved=replace(entry))

"""What a store keeps on its device, as values: `format` knows their bytes."""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum


class Op(IntEnum):
    """What a record of the log says of its key."""

    #: The key has these bytes.
    PUT = 1
    #: The key was deleted.
    DELETE = 2
    #: The key was evicted.
    EVICT = 3


class Reason(IntEnum):
    """Why a key was evicted."""

    NONE = 0
    #: The quota was reached.
    QUOTA = 1
    #: The device was full.
    SPACE = 2
    #: The caller asked for it.
    ASKED = 3


@dataclass(frozen=True)
class Superblock:
    """What never changes in the life of a store. Two copies: block 0 and the last block.

    Attributes:
        store_id: 16 random bytes.
        block_bytes, blocks: of the device when the store was made.
        segment_first: block of segment 0.
        segment_blocks: blocks of each segment, its header among them.
        segments: how many.
        checkpoint_first: block of checkpoint slot 0.
        checkpoint_blocks: blocks of each of the two slots.
        key_limit: bytes of a key, at most.
    """

    store_id: bytes
    block_bytes: int
    blocks: int
    segment_first: int
    segment_blocks: int
    segments: int
    checkpoint_first: int
    checkpoint_blocks: int
    key_limit: int

    @property
    def tag(self) -> int:
        """What every other block carries of the store's id."""
        return int.from_bytes(self.store_id[:8], "little")

    def segment_lba(self, number: int) -> int:
        """First block of a segment."""
        return self.segment_first + number * self.segment_blocks

    def checkpoint_lba(self, slot: int) -> int:
        """First block of a checkpoint slot."""
        return self.checkpoint_first + slot * self.checkpoint_blocks

    @property
    def copies(self) -> tuple[int, int]:
        """Blocks of the two copies."""
        return 0, self.blocks - 1


@dataclass(frozen=True)
class SegmentHeader:
    """First block of a segment: in use under a sequence number, or free since that number."""

    sequence: int
    number: int
    in_use: bool


@dataclass(frozen=True)
class ObjectHeader:
    """A record of the log: what became of a key.

    Attributes:
        op: what.
        key: whose.
        sequence: of the segment that the record lies in.
        transaction: that wrote the record; a move of an old object is a new record.
        version: transaction that put, deleted or evicted the key.
        payload_bytes, payload_crc: of the bytes that follow; 0 unless `op` is PUT.
        birth: sequence of the segment in which a deletion or eviction was first written.
        reason: of an eviction.
    """

    op: Op
    key: bytes
    sequence: int
    transaction: int
    version: int
    payload_bytes: int = 0
    payload_crc: int = 0
    birth: int = 0
    reason: Reason = Reason.NONE


@dataclass(frozen=True)
class Commit:
    """The one block whose durability makes a transaction.

    Attributes:
        sequence, transaction: as in its records.
        count: how many records it has.
        first_block: where in the segment they begin; they end at this block.
        chain: CRC-32C over their headers' CRCs, in order.
    """

    sequence: int
    transaction: int
    count: int
    first_block: int
    chain: int


@dataclass(frozen=True)
class CheckpointHeader:
    """First block of a checkpoint slot; rows follow it without a gap."""

    sequence: int
    next_transaction: int
    next_segment: int
    rows_bytes: int
    rows_crc: int
    segments: int
    entries: int


@dataclass(frozen=True)
class SegmentRow:
    """A segment in a checkpoint: its sequence number, and the block up to which the checkpoint knows its log."""

    number: int
    sequence: int
    end: int
    in_use: bool


@dataclass(frozen=True)
class EntryRow:
    """A key in a checkpoint: the newest record of it, and where that lies."""

    key: bytes
    op: Op
    version: int
    segment: int
    block: int
    payload_bytes: int
    payload_crc: int
    birth: int
    reason: Reason

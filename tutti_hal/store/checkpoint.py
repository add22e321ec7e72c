"""Writing a checkpoint: the sum of the log, in the slot that the newest one is not in."""

from __future__ import annotations

from collections.abc import Sequence

from tutti_hal.store import format as fmt
from tutti_hal.store.checksum import crc32c
from tutti_hal.store.device import BlockDevice, Piece
from tutti_hal.store.log import Segment
from tutti_hal.store.records import CheckpointHeader, EntryRow, SegmentRow, Superblock


def slot_of(sequence: int) -> int:
    """The slot of a checkpoint: never that of the one before it, which must stay until this one is durable."""
    return sequence % 2


def write_checkpoint(
    device: BlockDevice,
    superblock: Superblock,
    sequence: int,
    segments: Sequence[Segment],
    entries: Sequence[EntryRow],
    *,
    next_transaction: int,
    next_segment: int,
) -> None:
    """Writes it; it is durable when this returns. What it sums up is durable already.

    One flush is enough: a checkpoint that is broken in the middle has a wrong CRC, and the other slot is as it was.

    Raises:
        StoreDeviceError: then nobody knows whether it is durable.
    """
    import numpy as np

    rows = fmt.seal_rows([SegmentRow(s.number, s.sequence, s.end, s.in_use) for s in segments], list(entries))
    header = CheckpointHeader(
        sequence=sequence,
        next_transaction=next_transaction,
        next_segment=next_segment,
        rows_bytes=len(rows),
        rows_crc=crc32c(rows),
        segments=len(segments),
        entries=len(entries),
    )
    size = superblock.block_bytes
    text = fmt.seal_checkpoint(superblock, header) + rows
    data = np.frombuffer(text.ljust(-(-len(text) // size) * size, b"\0"), np.uint8)
    device.write([Piece(superblock.checkpoint_lba(slot_of(sequence)), data)])
    device.flush()

"""What a device holds, found without help: by the newest checkpoint and what was logged since, or by all of the log.

Both ways find the same. A checkpoint is the sum of the segments that it saw; a segment that has another sequence number
by now was freed since, and what the checkpoint says of it does not count. Everything else is read from the log. Of
several records of a key the one of the highest version counts, and of one version the one in the newest segment: the
others are older copies that a compaction left behind.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import Enum
from typing import TYPE_CHECKING

from tutti_hal.errors import StoreAbsent, StoreDamaged, StoreOptionInvalid, StoreVersionUnknown
from tutti_hal.store import format as fmt
from tutti_hal.store.checksum import crc32c
from tutti_hal.store.device import BlockDevice, Piece
from tutti_hal.store.log import Segment
from tutti_hal.store.records import CheckpointHeader, EntryRow, ObjectHeader, SegmentRow, Superblock

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

#: Blocks that a scan reads at once.
_WINDOW = 16


class Way(Enum):
    """How a store is recovered."""

    #: By the newest checkpoint and what follows it.
    CHECKPOINT = "checkpoint"
    #: By the log alone.
    SCAN = "scan"


@dataclass
class Recovered:
    """What was found.

    Attributes:
        superblock: how the store lies on its device.
        way: how it was found.
        entries: the newest record of each key; deletions and evictions as well, while they must be remembered.
        segments: by number.
        next_transaction, next_segment: the first numbers that were never used.
        checkpoint: sequence number of the newest checkpoint; 0 where there is none.
        scanned: records that were read from the log.
        notes: what was broken and could be done without.
    """

    superblock: Superblock
    way: Way
    entries: dict[bytes, EntryRow] = field(default_factory=dict)
    segments: list[Segment] = field(default_factory=list)
    next_transaction: int = 1
    next_segment: int = 1
    checkpoint: int = 0
    scanned: int = 0
    notes: list[str] = field(default_factory=list)


def read_superblock(device: BlockDevice, notes: list[str] | None = None) -> Superblock:
    """The superblock, from whichever copy is whole.

    Raises:
        StoreVersionUnknown: the store has another version of the format.
        StoreAbsent: there is none.
        StoreDamaged: there was one, and no copy is whole.
        StoreOptionInvalid: the device has other blocks than the store was made on.
    """
    found: list[Superblock | None] = []
    blocks: list[bytes] = []
    newer: StoreVersionUnknown | None = None
    last = device.blocks - 1
    for lba in (0, None):
        # A device may have grown since: the first copy, where it is whole, knows where the second one is.
        block = _read(device, last if lba is None else lba)
        blocks.append(block)
        try:
            found.append(fmt.open_superblock(block))
        except StoreVersionUnknown as error:
            newer = error
            found.append(None)
        if found[0] is not None:
            last = min(found[0].blocks, device.blocks) - 1
    if newer is not None and not any(found):
        raise newer
    whole = [one for one in found if one is not None]
    if not whole:
        if any(block[:8] == blocks[0][:8] and fmt.peek_block_bytes(block) for block in blocks):
            raise StoreDamaged(
                "open the store", "no copy of its superblock is whole", "Restore the device from a copy of it."
            )
        raise StoreAbsent("open the store", "the device holds none", "Make one first: Store.format.")
    if notes is not None and len(whole) < len(blocks):
        notes.append(f"the {'first' if found[0] is None else 'second'} copy of the superblock is broken")
    superblock = whole[0]
    if superblock.block_bytes != device.block_bytes or superblock.blocks > device.blocks:
        raise StoreOptionInvalid(
            "open the store",
            f"it was made on {superblock.blocks} blocks of {superblock.block_bytes} bytes, and the device has "
            f"{device.blocks} of {device.block_bytes}",
            "Open it on a device like the one it was made on.",
        )
    return superblock


def _read(device: BlockDevice, lba: int, count: int = 1) -> bytes:
    import numpy as np

    data = np.empty(count * device.block_bytes, np.uint8)
    device.read([Piece(lba, data)])
    return data.tobytes()


def recover(device: BlockDevice, way: Way = Way.CHECKPOINT) -> Recovered:
    """Finds a store's state. The caller has flushed the device, so that what is found stays found.

    Raises:
        StoreVersionUnknown, StoreAbsent, StoreDamaged, StoreOptionInvalid: as `read_superblock`; and StoreDamaged where
            no checkpoint is whole, unless ``way`` is SCAN.
    """
    notes: list[str] = []
    superblock = read_superblock(device, notes)
    state = Recovered(superblock, way, notes=notes)
    state.segments = _read_segments(device, superblock, None if way is Way.CHECKPOINT else notes)
    covered: dict[int, SegmentRow] = {}
    if way is Way.CHECKPOINT:
        header, rows, entries = newest_checkpoint(device, superblock)
        state.checkpoint = header.sequence
        state.next_transaction, state.next_segment = header.next_transaction, header.next_segment
        same = {
            row.number: row
            for row in rows
            if row.in_use and state.segments[row.number].in_use and state.segments[row.number].sequence == row.sequence
        }
        covered.update(same)
        for entry in entries:
            if entry.segment in same:
                state.entries[entry.key] = entry
    else:
        for slot in range(2):
            whole = read_checkpoint(device, superblock, slot)
            if whole is not None:
                state.checkpoint = max(state.checkpoint, whole[0].sequence)
                state.next_transaction = max(state.next_transaction, whole[0].next_transaction)
                state.next_segment = max(state.next_segment, whole[0].next_segment)
    for segment in sorted(state.segments, key=lambda one: one.sequence):
        state.next_segment = max(state.next_segment, segment.sequence + 1)
        if segment.in_use:
            segment.end = covered[segment.number].end if segment.number in covered else 1
            _scan(device, state, segment)
    for entry in state.entries.values():
        state.segments[entry.segment].live_blocks += _entry_blocks(superblock, entry)
    return state


def _entry_blocks(superblock: Superblock, entry: EntryRow) -> int:
    size = superblock.block_bytes
    return fmt.header_blocks(len(entry.key), size) + fmt.payload_blocks(entry.payload_bytes, size)


def _read_segments(device: BlockDevice, superblock: Superblock, notes: list[str] | None) -> list[Segment]:
    """Every segment by its header. It is one block, so always the old or the new: a broken one is noted, or refused."""
    import numpy as np

    size = superblock.block_bytes
    blocks = np.empty((superblock.segments, size), np.uint8)
    device.read([Piece(superblock.segment_lba(n), blocks[n]) for n in range(superblock.segments)])
    segments = []
    for number in range(superblock.segments):
        header = fmt.open_segment(superblock, blocks[number].tobytes())
        if header is None or header.number != number:
            found = f"the header of segment {number} is broken"
            if notes is None:
                raise StoreDamaged(
                    "open the store",
                    f"{found}, which no loss of power does",
                    "Recover what the other segments hold, and look at the device: Store.open(..., way=Way.SCAN).",
                )
            notes.append(found)
            segments.append(Segment(number))
        else:
            segments.append(Segment(number, header.sequence, header.in_use))
    return segments


# ---- checkpoints ----

Checkpoint = tuple[CheckpointHeader, list[SegmentRow], list[EntryRow]]


def read_checkpoint(device: BlockDevice, superblock: Superblock, slot: int) -> Checkpoint | None:
    """The checkpoint in a slot; None where none is whole."""
    lba = superblock.checkpoint_lba(slot)
    header = fmt.open_checkpoint(superblock, _read(device, lba))
    size = superblock.block_bytes
    if header is None or header.rows_bytes > (superblock.checkpoint_blocks - 1) * size:
        return None
    rows = b""
    if header.rows_bytes:
        rows = _read(device, lba + 1, -(-header.rows_bytes // size))[: header.rows_bytes]
    if crc32c(rows) != header.rows_crc:
        return None
    opened = fmt.open_rows(header, rows)
    if opened is None:
        return None
    segments, entries = opened
    if any(row.number >= superblock.segments or row.end > superblock.segment_blocks for row in segments):
        return None
    if any(entry.segment >= superblock.segments for entry in entries):
        return None
    return header, segments, entries


def newest_checkpoint(device: BlockDevice, superblock: Superblock) -> Checkpoint:
    """The newer of the two checkpoints that is whole.

    Raises:
        StoreDamaged: none is.
    """
    found = [read_checkpoint(device, superblock, slot) for slot in range(2)]
    whole = [one for one in found if one is not None]
    if not whole:
        raise StoreDamaged(
            "open the store",
            "neither checkpoint is whole, which no loss of power does",
            "Recover from the log alone, and look at the device: Store.open(..., way=Way.SCAN), or store fsck --scan.",
        )
    return max(whole, key=lambda one: one[0].sequence)


# ---- the log ----


class _Reader:
    """Blocks of one segment, a window at a time."""

    def __init__(self, device: BlockDevice, superblock: Superblock, segment: Segment) -> None:
        import numpy as np

        self._device, self._limit = device, superblock.segment_blocks
        self._base = superblock.segment_lba(segment.number)
        self._size = superblock.block_bytes
        self._data: NDArray[np.uint8] = np.empty(0, np.uint8)
        self._first = 0

    def blocks(self, first: int, count: int = 1) -> bytes | None:
        """Blocks of the segment; None past its end."""
        import numpy as np

        if first + count > self._limit:
            return None
        at = (first - self._first) * self._size
        if at < 0 or at + count * self._size > self._data.nbytes:
            window = min(max(_WINDOW, count), self._limit - first)
            self._data = np.empty(window * self._size, np.uint8)
            self._device.read([Piece(self._base + first, self._data)])
            self._first, at = first, 0
        return self._data[at : at + count * self._size].tobytes()


def _scan(device: BlockDevice, state: Recovered, segment: Segment) -> None:
    """Takes in the committed transactions of a segment from its end on, and moves the end behind them."""
    superblock = state.superblock
    reader = _Reader(device, superblock, segment)
    at = segment.end
    pending: list[EntryRow] = []
    crcs: list[int] = []
    transaction = 0
    while (block := reader.blocks(at)) is not None:
        commit = fmt.open_commit(superblock, block)
        if commit is not None:
            holds = (
                commit.sequence == segment.sequence
                and commit.transaction == transaction
                and commit.count == len(pending)
                and commit.first_block == segment.end
                and commit.chain == fmt.chain(crcs)
            )
            if not holds:
                break
            at += 1
            segment.end = at
            _take(state, pending, segment)
            state.next_transaction = max(state.next_transaction, transaction + 1)
            pending, crcs = [], []
            continue
        found = _record(reader, superblock, at, block)
        if found is None:
            break
        header, crc = found
        if header.sequence != segment.sequence or (pending and header.transaction != transaction):
            break
        transaction = header.transaction
        crcs.append(crc)
        pending.append(_entry(header, segment.number, at))
        at += _entry_blocks(superblock, pending[-1])


def _record(reader: _Reader, superblock: Superblock, at: int, block: bytes) -> tuple[ObjectHeader, int] | None:
    key_bytes = fmt.object_key_bytes(block)
    if key_bytes is None:
        return None
    count = fmt.header_blocks(key_bytes, superblock.block_bytes)
    blocks = block if count == 1 else reader.blocks(at, count)
    return fmt.open_object(superblock, blocks) if blocks is not None else None


def _entry(header: ObjectHeader, segment: int, block: int) -> EntryRow:
    return EntryRow(
        key=header.key,
        op=header.op,
        version=header.version,
        segment=segment,
        block=block,
        payload_bytes=header.payload_bytes,
        payload_crc=header.payload_crc,
        birth=header.birth,
        reason=header.reason,
    )


def _take(state: Recovered, entries: list[EntryRow], segment: Segment) -> None:
    """Segments come in the order of their numbers, records in theirs: of one version the later one counts."""
    for entry in entries:
        state.scanned += 1
        known = state.entries.get(entry.key)
        if known is None or entry.version >= known.version:
            state.entries[entry.key] = entry
    assert segment.in_use

"""What a store looks like on its device: one module knows the bytes. ``docs/store_format.md`` draws them.

Every control block begins with the same prologue: magic, version, CRC, length. All numbers are little-endian. A block
that breaks any rule is *no block of this store* to whoever reads it, never an error in itself: where that matters, the
reader says what is missing.
"""

from __future__ import annotations

import struct

from tutti_hal.errors import StoreOptionInvalid, StoreVersionUnknown
from tutti_hal.store.checksum import crc32c
from tutti_hal.store.records import (
    CheckpointHeader,
    Commit,
    EntryRow,
    ObjectHeader,
    Op,
    Reason,
    SegmentHeader,
    SegmentRow,
    Superblock,
)

#: Version of the format that this build writes, and the only one that it reads.
FORMAT_VERSION = 1
#: Bytes of a key, at most; a store may allow fewer.
KEY_LIMIT = 4096

# magic, version, CRC-32C of the record with this field 0, bytes of the record, reserved, tag of the store
_PROLOGUE = struct.Struct("<8sIIIIQ")
_SUPERBLOCK = struct.Struct("<16sIIQQIIQII")
_SEGMENT = struct.Struct("<QIBxxx")
_OBJECT = struct.Struct("<QQQQQIIHBB")
_COMMIT = struct.Struct("<QQIIII")
_CHECKPOINT = struct.Struct("<QQQQIIII")
_ROW_SEGMENT = struct.Struct("<QIIB")
_ROW_ENTRY = struct.Struct("<QQQIIIHBB")

_MAGIC_SUPERBLOCK = b"TTSTORE\x1a"
_MAGIC_SEGMENT = b"TTSEGMNT"
_MAGIC_OBJECT = b"TTOBJECT"
_MAGIC_COMMIT = b"TTCOMMIT"
_MAGIC_CHECKPOINT = b"TTCHKPNT"

#: Bytes before the key in an object's header.
OBJECT_BYTES = _PROLOGUE.size + _OBJECT.size


_OPS = frozenset(Op)
_REASONS = frozenset(Reason)


def header_blocks(key_bytes: int, block_bytes: int) -> int:
    """Blocks that a record's header and key take."""
    return -(-(OBJECT_BYTES + key_bytes) // block_bytes)


def payload_blocks(payload_bytes: int, block_bytes: int) -> int:
    """Blocks that a payload takes."""
    return -(-payload_bytes // block_bytes)


# ---- sealing and opening ----


def _seal(magic: bytes, tag: int, body: bytes, total: int) -> tuple[bytes, int]:
    """A record in whole blocks (``total`` bytes), and its CRC."""
    length = _PROLOGUE.size + len(body)
    bare = _PROLOGUE.pack(magic, FORMAT_VERSION, 0, length, 0, tag) + body
    crc = crc32c(bare)
    sealed = _PROLOGUE.pack(magic, FORMAT_VERSION, crc, length, 0, tag) + body
    return sealed.ljust(total, b"\0"), crc


def _open(magic: bytes, tag: int | None, block: bytes | memoryview) -> tuple[bytes, int] | None:
    """The body of a record and its CRC; None where the block is none of ours."""
    if len(block) < _PROLOGUE.size or block[:8] != magic:
        return None
    view = bytes(block)
    _, version, crc, length, _, owner = _PROLOGUE.unpack_from(view)
    if version != FORMAT_VERSION or (tag is not None and owner != tag):
        return None
    if not _PROLOGUE.size <= length <= len(view):
        return None
    if crc32c(view[:12] + b"\0\0\0\0" + view[16:length]) != crc:
        return None
    return view[_PROLOGUE.size : length], crc


def _body(layout: struct.Struct, magic: bytes, tag: int | None, block: bytes | memoryview) -> tuple[int, ...] | None:
    opened = _open(magic, tag, block)
    if opened is None or len(opened[0]) < layout.size:
        return None
    return layout.unpack_from(opened[0])


# ---- superblock ----


def seal_superblock(superblock: Superblock) -> bytes:
    """The superblock as one block."""
    s = superblock
    body = _SUPERBLOCK.pack(
        s.store_id,
        s.block_bytes,
        s.segment_blocks,
        s.blocks,
        s.segment_first,
        s.segments,
        s.checkpoint_blocks,
        s.checkpoint_first,
        s.key_limit,
        0,
    )
    return _seal(_MAGIC_SUPERBLOCK, s.tag, body, s.block_bytes)[0]


def open_superblock(block: bytes) -> Superblock | None:
    """The superblock in a block; None where there is none, or a broken one.

    Raises:
        StoreVersionUnknown: there is one of another version. Its other fields are not looked at.
    """
    if len(block) < _PROLOGUE.size or block[:8] != _MAGIC_SUPERBLOCK:
        return None
    version = int.from_bytes(block[8:12], "little")
    if version != FORMAT_VERSION:
        raise StoreVersionUnknown(
            "open the store",
            f"it has format version {version}, and this build reads version {FORMAT_VERSION}",
            "Use a release that reads it; nothing was changed.",
        )
    opened = _open(_MAGIC_SUPERBLOCK, None, block)
    if opened is None or len(opened[0]) < _SUPERBLOCK.size:
        return None
    fields = _SUPERBLOCK.unpack_from(opened[0])
    store_id, block_bytes, segment_blocks, blocks, segment_first, segments, ckpt_blocks, ckpt_first, key_limit, _ = (
        fields
    )
    return Superblock(
        store_id=store_id,
        block_bytes=block_bytes,
        blocks=blocks,
        segment_first=segment_first,
        segment_blocks=segment_blocks,
        segments=segments,
        checkpoint_first=ckpt_first,
        checkpoint_blocks=ckpt_blocks,
        key_limit=key_limit,
    )


def peek_block_bytes(first: bytes) -> int:
    """The block size that the first bytes of a device claim, before anything is verified; 0 for none."""
    if len(first) < _PROLOGUE.size + _SUPERBLOCK.size or first[:8] != _MAGIC_SUPERBLOCK:
        return 0
    size = int(_SUPERBLOCK.unpack_from(first, _PROLOGUE.size)[1])
    return size if 512 <= size <= 65536 and size & (size - 1) == 0 else 0


def plan(
    store_id: bytes, block_bytes: int, blocks: int, *, segment_blocks: int, objects: int, key_limit: int
) -> Superblock:
    """Where everything goes on a device.

    Args:
        store_id: 16 bytes.
        block_bytes: of the device.
        blocks: of the device.
        segment_blocks: of each segment.
        objects: for how many, of keys of 64 bytes, a checkpoint has room; deleted ones count for a while.
        key_limit: bytes of a key, at most.

    Raises:
        StoreOptionInvalid: a number that cannot be, or a device with room for fewer than four segments.
    """
    tried = f"lay out a store on {blocks} blocks of {block_bytes} bytes"
    for name, value, low, high in (
        ("block_bytes", block_bytes, 512, 65536),
        ("segment_blocks", segment_blocks, 8, 1 << 24),
        ("objects", objects, 1, 1 << 32),
        ("key_limit", key_limit, 1, min(KEY_LIMIT, (segment_blocks // 2) * block_bytes)),
    ):
        if not low <= value <= high:
            raise StoreOptionInvalid(tried, f"{name} is {value}", f"Give {low} to {high}.")
    if block_bytes & (block_bytes - 1):
        raise StoreOptionInvalid(tried, f"block_bytes is {block_bytes}", "Give a power of two.")
    rows = objects * (_ROW_ENTRY.size + 64)
    room = blocks - 2
    # Rows of segments depend on the number of segments: bounded by what would fit without checkpoints.
    rows += max(0, room // segment_blocks) * _ROW_SEGMENT.size
    checkpoint_blocks = 1 + -(-rows // block_bytes)
    segments = (room - 2 * checkpoint_blocks) // segment_blocks
    if segments < 4:
        raise StoreOptionInvalid(
            tried,
            f"there is room for {max(segments, 0)} segments of {segment_blocks} blocks beside two checkpoints of "
            f"{checkpoint_blocks}",
            "Give smaller segments, fewer objects or a larger device: four segments at least.",
        )
    return Superblock(
        store_id=store_id,
        block_bytes=block_bytes,
        blocks=blocks,
        segment_first=1 + 2 * checkpoint_blocks,
        segment_blocks=segment_blocks,
        segments=segments,
        checkpoint_first=1,
        checkpoint_blocks=checkpoint_blocks,
        key_limit=key_limit,
    )


# ---- segments, records, commits ----


def seal_segment(superblock: Superblock, header: SegmentHeader) -> bytes:
    """A segment's first block."""
    body = _SEGMENT.pack(header.sequence, header.number, header.in_use)
    return _seal(_MAGIC_SEGMENT, superblock.tag, body, superblock.block_bytes)[0]


def open_segment(superblock: Superblock, block: bytes | memoryview) -> SegmentHeader | None:
    """A segment's header; None where there is none."""
    fields = _body(_SEGMENT, _MAGIC_SEGMENT, superblock.tag, block)
    return SegmentHeader(fields[0], fields[1], bool(fields[2])) if fields is not None else None


def seal_object(superblock: Superblock, header: ObjectHeader) -> tuple[bytes, int]:
    """A record's header and key in whole blocks, and its CRC."""
    body = _OBJECT.pack(
        header.sequence,
        header.transaction,
        header.version,
        header.birth,
        header.payload_bytes,
        header.payload_crc,
        0,
        len(header.key),
        header.op,
        header.reason,
    )
    total = header_blocks(len(header.key), superblock.block_bytes) * superblock.block_bytes
    return _seal(_MAGIC_OBJECT, superblock.tag, body + header.key, total)


def object_key_bytes(block: bytes | memoryview) -> int | None:
    """Bytes of the key that the first block of a record claims, before anything is verified; None: it is no record."""
    if len(block) < OBJECT_BYTES or block[:8] != _MAGIC_OBJECT:
        return None
    return int(_OBJECT.unpack_from(block, _PROLOGUE.size)[7])


def open_object(superblock: Superblock, blocks: bytes | memoryview) -> tuple[ObjectHeader, int] | None:
    """A record's header and its CRC; None where the blocks hold none."""
    opened = _open(_MAGIC_OBJECT, superblock.tag, blocks)
    if opened is None or len(opened[0]) < _OBJECT.size:
        return None
    body, crc = opened
    sequence, transaction, version, birth, nbytes, payload_crc, _, key_bytes, op, reason = _OBJECT.unpack_from(body)
    key = body[_OBJECT.size :]
    if len(key) != key_bytes or op not in _OPS or reason not in _REASONS:
        return None
    header = ObjectHeader(
        op=Op(op),
        key=key,
        sequence=sequence,
        transaction=transaction,
        version=version,
        payload_bytes=nbytes,
        payload_crc=payload_crc,
        birth=birth,
        reason=Reason(reason),
    )
    return header, crc


def chain(crcs: list[int]) -> int:
    """CRC-32C over the CRCs of a transaction's headers."""
    return crc32c(b"".join(crc.to_bytes(4, "little") for crc in crcs))


def seal_commit(superblock: Superblock, commit: Commit) -> bytes:
    """A commit as one block."""
    body = _COMMIT.pack(commit.sequence, commit.transaction, commit.count, commit.first_block, commit.chain, 0)
    return _seal(_MAGIC_COMMIT, superblock.tag, body, superblock.block_bytes)[0]


def open_commit(superblock: Superblock, block: bytes | memoryview) -> Commit | None:
    """A commit; None where the block is none."""
    fields = _body(_COMMIT, _MAGIC_COMMIT, superblock.tag, block)
    return Commit(*fields[:5]) if fields is not None else None


# ---- checkpoints ----


def entry_row_bytes(key_bytes: int) -> int:
    """Bytes that a key takes in a checkpoint."""
    return _ROW_ENTRY.size + key_bytes


def segment_row_bytes() -> int:
    """Bytes that a segment takes in a checkpoint."""
    return _ROW_SEGMENT.size


def seal_rows(segments: list[SegmentRow], entries: list[EntryRow]) -> bytes:
    """The rows of a checkpoint, segments first."""
    parts = [_ROW_SEGMENT.pack(s.sequence, s.number, s.end, s.in_use) for s in segments]
    for e in entries:
        row = _ROW_ENTRY.pack(
            e.version, e.birth, e.payload_bytes, e.segment, e.block, e.payload_crc, len(e.key), e.op, e.reason
        )
        parts += [row, e.key]
    return b"".join(parts)


def open_rows(header: CheckpointHeader, rows: bytes) -> tuple[list[SegmentRow], list[EntryRow]] | None:
    """The rows of a checkpoint; None where they do not add up."""
    at = 0
    segments: list[SegmentRow] = []
    entries: list[EntryRow] = []
    try:
        for _ in range(header.segments):
            sequence, number, end, in_use = _ROW_SEGMENT.unpack_from(rows, at)
            at += _ROW_SEGMENT.size
            segments.append(SegmentRow(number, sequence, end, bool(in_use)))
        for _ in range(header.entries):
            version, birth, nbytes, segment, block, crc, key_bytes, op, reason = _ROW_ENTRY.unpack_from(rows, at)
            at += _ROW_ENTRY.size
            key = rows[at : at + key_bytes]
            at += key_bytes
            entries.append(EntryRow(key, Op(op), version, segment, block, nbytes, crc, birth, Reason(reason)))
    except (struct.error, ValueError):
        return None
    return (segments, entries) if at == len(rows) else None


def seal_checkpoint(superblock: Superblock, header: CheckpointHeader) -> bytes:
    """A checkpoint's first block."""
    h = header
    body = _CHECKPOINT.pack(
        h.sequence, h.next_transaction, h.next_segment, h.rows_bytes, h.rows_crc, h.segments, h.entries, 0
    )
    return _seal(_MAGIC_CHECKPOINT, superblock.tag, body, superblock.block_bytes)[0]


def open_checkpoint(superblock: Superblock, block: bytes | memoryview) -> CheckpointHeader | None:
    """A checkpoint's header; None where there is none."""
    fields = _body(_CHECKPOINT, _MAGIC_CHECKPOINT, superblock.tag, block)
    return CheckpointHeader(*fields[:7]) if fields is not None else None

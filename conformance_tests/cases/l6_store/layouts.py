"""The records of the store's kernels, written down by hand: little-endian, no padding without a name."""

from __future__ import annotations

import numpy as np

#: A place of the table: 56 bytes. The first word is 0 where it was never taken.
SLOT_BYTES = 56

KEY = np.dtype([("low", "<u8"), ("high", "<u8")])
CHANGE = np.dtype(
    [
        ("low", "<u8"),
        ("high", "<u8"),
        ("version", "<u8"),
        ("lba", "<u8"),
        ("bytes", "<u8"),
        ("crc", "<u4"),
        ("present", "<u4"),
    ]
)
PLACE = np.dtype([("version", "<u8"), ("lba", "<u8"), ("bytes", "<u8"), ("crc", "<u4"), ("found", "<u4")])
PAGES = np.dtype(
    [
        ("cache", "<u8"),
        ("side_stride", "<u8"),
        ("block_stride", "<u8"),
        ("token_stride", "<u8"),
        ("head_stride", "<u8"),
        ("head_bytes", "<u4"),
        ("heads", "<u4"),
        ("block_tokens", "<u4"),
        ("blocks", "<u4"),
    ]
)
TENSOR = np.dtype([("offset", "<u8"), ("block_first", "<u4"), ("tokens", "<u4"), ("side", "<u4"), ("reserved", "<u4")])
RANGE = np.dtype([("offset", "<u8"), ("bytes", "<u8")])


def raw(rows: np.ndarray) -> np.ndarray:
    """The bytes of records, as observations keep them."""
    return np.ascontiguousarray(rows).view(np.uint8)


def keys_of(rows: np.ndarray) -> np.ndarray:
    """The keys of changes."""
    keys = np.zeros(len(rows), KEY)
    keys["low"], keys["high"] = rows["low"], rows["high"]
    return keys


def draw_changes(random: np.random.Generator, count: int, slots: int) -> np.ndarray:
    """Changes of different keys that crowd a part of the table, so that places must be looked for; all are present."""
    rows = np.zeros(count, CHANGE)
    # Different low halves, and many that begin at the same place.
    crowded = random.integers(0, slots // 4 or 1, count, np.uint64)
    rows["low"] = np.arange(1, count + 1, dtype=np.uint64) << np.uint64(32) | crowded
    for name in ("high", "lba", "bytes"):
        rows[name] = random.integers(1, 1 << 62, count)
    rows["crc"] = random.integers(0, 1 << 32, count)
    rows["version"], rows["present"] = 10, 1
    return rows

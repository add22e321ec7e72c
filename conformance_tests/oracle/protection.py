"""Protection information of a block with a 16-bit guard, from the text of the NVM command set specification.

Eight bytes in each block's metadata, big-endian: guard, application tag, reference tag. The guard is the CRC-16 of T10
DIF (polynomial 8BB7h, initial value 0, not reflected, no final inversion; "123456789" gives D0DBh) of the block's data,
and of the metadata that lie before the eight bytes. It imports nothing of the product.
"""

from __future__ import annotations

import struct
from functools import cache
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import numpy as np

#: Bits of dword 12.
PRACT, CHECK_GUARD, CHECK_APPLICATION, CHECK_REFERENCE = 1 << 29, 1 << 28, 1 << 27, 1 << 26

#: Statuses as (SCT, SC).
INVALID_PROTECTION = (1, 0x81)
GUARD_CHECK, APPLICATION_CHECK, REFERENCE_CHECK = (2, 0x82), (2, 0x83), (2, 0x84)

#: Bytes of the tuple.
TUPLE_BYTES = 8

_POLYNOMIAL = 0x8BB7


@cache
def _table() -> tuple[int, ...]:
    table = []
    for byte in range(256):
        crc = byte << 8
        for _ in range(8):
            crc = (crc << 1 ^ _POLYNOMIAL) & 0xFFFF if crc & 0x8000 else crc << 1
        table.append(crc)
    return tuple(table)


def guard_of(data: bytes, crc: int = 0) -> int:
    """CRC-16 T10 DIF."""
    table = _table()
    for byte in data:
        crc = (crc << 8 & 0xFFFF) ^ table[crc >> 8 ^ byte]
    return crc


def guards_of(blocks: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    """The same of each row of bytes, all rows at once."""
    import numpy as np

    table, crc = np.array(_table(), np.uint16), np.zeros(len(blocks), np.uint16)
    for column in blocks.T:
        crc = (crc << 8) ^ table[crc >> 8 ^ column]
    return crc


def tuple_of(data: bytes, before: bytes, application: int, reference: int) -> bytes:
    """The eight bytes for a block: its data, and the metadata that lie before them."""
    return struct.pack(">HHI", guard_of(data + before), application, reference & 0xFFFFFFFF)


def metadata_of(data: bytes, other: bytes, application: int, reference: int, *, first: bool = False) -> bytes:
    """All metadata of a block: the tuple in the last eight bytes, or in the first; ``other`` is the rest."""
    made = tuple_of(data, b"" if first else other, application, reference)
    return made + other if first else other + made


def reference_of(kind: int, lba: int) -> int:
    """The reference tag of a block: the low 32 bits of its number; with type 3 what a ring's commands say, 0."""
    return 0 if kind == 3 else lba & 0xFFFFFFFF

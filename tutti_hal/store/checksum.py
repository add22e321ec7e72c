"""CRC-32C of the host: for headers, and for payloads that no kernel has summed."""

from __future__ import annotations

from functools import cache
from typing import Any

from tutti_hal.native import ffi_and_library


@cache
def _bound() -> tuple[Any, Any]:
    ffi, library = ffi_and_library()
    return ffi.from_buffer, library.tt_crc32c_bytes


def crc32c(data: Any, crc: int = 0) -> int:
    """CRC-32C (Castagnoli) of a contiguous buffer, continued from ``crc``, which is 0 for the first piece."""
    from_buffer, step = _bound()
    pointer = from_buffer(data)
    return int(step(crc, pointer, len(pointer)))

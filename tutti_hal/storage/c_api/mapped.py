"""Which memory this process may write."""

from __future__ import annotations

from pathlib import Path


def writable(address: int, nbytes: int) -> bool:
    """Whether every byte lies in mappings of this process that can be read and written, as the system lists them.

    A look: another thread may unmap it a moment later.
    """
    if address <= 0 or nbytes <= 0:
        return False
    reached, end = address, address + nbytes
    for line in Path("/proc/self/maps").read_text(encoding="utf-8", errors="replace").splitlines():
        span, rights = line.split(maxsplit=2)[:2]
        first, last = (int(number, 16) for number in span.split("-"))
        if last <= reached:
            continue
        if first > reached or not rights.startswith("rw"):
            return False
        reached = last
        if reached >= end:
            return True
    return False

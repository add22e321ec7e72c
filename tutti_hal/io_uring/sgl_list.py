"""The SGL descriptors of a registered buffer: one for each piece, built once and looked up by every request.

A piece in one run on the bus has a data block descriptor: the device names any part of it by adding to the address. A
piece in several runs has the descriptor of its segment: one last segment, or a chain of segments where the piece's
descriptors lie in several list pages, which need not be neighbours on the bus. Such a descriptor names the whole piece.
Segments lie behind the table of pieces, packed.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

#: Bytes of a descriptor.
DESCRIPTOR_BYTES = 16
#: SGL descriptor types, in the top four bits of a descriptor's second word.
_SEGMENT, _LAST_SEGMENT = 2 << 60, 3 << 60


@dataclass(frozen=True)
class _Chunk:
    """Descriptors of a piece that lie in one list page: runs of the piece, and one of the next chunk unless last."""

    slot: int
    first: int
    count: int


@dataclass(frozen=True)
class SglPlan:
    """Where descriptors lie.

    Attributes:
        pieces: how many there are.
        runs: (page of the buffer, pages) of each contiguous run, cut at pieces.
        first_run: of each piece, and the end.
        chunks: of each piece in several runs.
        slots: descriptors that all of them take.
    """

    pieces: int
    runs: NDArray[np.int64]
    first_run: NDArray[np.int64]
    chunks: dict[int, list[_Chunk]]
    slots: int

    @property
    def nbytes(self) -> int:
        """Of table and segments."""
        return self.slots * DESCRIPTOR_BYTES

    @property
    def whole_pieces_only(self) -> bool:
        """True when parts of some piece cannot be named."""
        return bool(self.chunks)


def plan(pages: NDArray[np.uint64], page_bytes: int, piece_bytes: int) -> SglPlan:
    """Finds the runs of each piece and places their descriptors.

    Args:
        pages: bus address of each page of the buffer.
        page_bytes: of the controller's page.
        piece_bytes: of a piece, a multiple of that; the last one may be shorter.
    """
    import numpy as np

    each = piece_bytes // page_bytes
    starts = np.ones(len(pages), np.bool_)
    starts[1:] = np.diff(pages) != page_bytes
    starts[::each] = True
    first = np.flatnonzero(starts)
    runs = np.stack([first, np.diff(np.append(first, len(pages)))], axis=1)
    pieces = -(-len(pages) // each)
    first_run = np.searchsorted(first, np.arange(pieces + 1) * each)
    first_run[pieces] = len(first)
    per_page = page_bytes // DESCRIPTOR_BYTES
    slot = pieces
    chunks: dict[int, list[_Chunk]] = {}
    for piece in np.flatnonzero(np.diff(first_run) > 1):
        at, end = int(first_run[piece]), int(first_run[piece + 1])
        placed = chunks[int(piece)] = []
        while at < end:
            room = per_page - slot % per_page
            if room < 2:  # nothing but the descriptor of the next
                slot += room
                continue
            count = end - at if end - at <= room else room - 1
            placed.append(_Chunk(slot, at, count))
            slot += count if at + count == end else room
            at += count
    return SglPlan(pieces, runs, first_run, chunks, slot)


def fill(layout: SglPlan, pages: NDArray[np.uint64], page_bytes: int, space: NDArray[np.uint64]) -> NDArray[np.uint64]:
    """The contents of the descriptors' memory.

    Args:
        layout: of ``plan``.
        pages: bus address of each page of the buffer.
        page_bytes: of the controller's page.
        space: bus address of each page of the descriptors' memory.

    Returns:
        ``(layout.slots, 2)`` words: address, then length and type.
    """
    import numpy as np

    words = np.zeros((layout.slots, 2), np.uint64)
    data = np.stack([pages[layout.runs[:, 0]], (layout.runs[:, 1] * page_bytes).astype(np.uint64)], axis=1)
    words[: layout.pieces] = data[layout.first_run[:-1]]
    per_page = page_bytes // DESCRIPTOR_BYTES

    def segment(placed: list[_Chunk], number: int) -> tuple[int, int]:
        chunk, last = placed[number], number == len(placed) - 1
        address = int(space[chunk.slot // per_page]) + chunk.slot % per_page * DESCRIPTOR_BYTES
        length = (chunk.count + (0 if last else 1)) * DESCRIPTOR_BYTES
        return address, length | (_LAST_SEGMENT if last else _SEGMENT)

    for piece, placed in layout.chunks.items():
        words[piece] = segment(placed, 0)
        for number, chunk in enumerate(placed):
            words[chunk.slot : chunk.slot + chunk.count] = data[chunk.first : chunk.first + chunk.count]
            if number + 1 < len(placed):
                words[chunk.slot + chunk.count] = segment(placed, number + 1)
    return words

"""Where the bytes of targets lie: pieces of many targets in one sorted table, looked up for whole batches at once.

A *leaf* is a range of bytes that lies on one drive in extents: a file, a range of a namespace, a member of a striped
set.
Leaves follow one another in one space of positions; a leaf's base is the position of its first byte. So one binary
search over all extents finds the places of all requests of a batch, whatever targets they name.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Sequence

    import numpy as np
    from numpy.typing import NDArray


@cache
def extent_dtype() -> np.dtype[Any]:
    """An extent.

    Fields: ``position`` of its first byte (in its leaf, or in the table), ``row`` of the ring's table of targets,
    ``physical`` byte of that namespace, ``nbytes``.
    """
    import numpy as np

    return np.dtype([("position", "<u8"), ("physical", "<u8"), ("nbytes", "<u8"), ("row", "<u4"), ("pad", "<u4")])


def make_extents(pieces: Sequence[tuple[int, int, int]], row: int) -> NDArray[np.void]:
    """Extents of a leaf on one namespace, from (position, physical, nbytes)."""
    import numpy as np

    extents = np.zeros(len(pieces), extent_dtype())
    if len(pieces):
        columns = np.array(pieces, np.uint64).reshape(-1, 3)
        for index, name in enumerate(("position", "physical", "nbytes")):
            extents[name] = columns[:, index]
    extents["row"] = row
    return extents


@dataclass(frozen=True)
class Pieces:
    """Parts of ranges, each in one place; arrays of one length, in the order of the ranges.

    Attributes:
        owner: which range each is of.
        skip: bytes of that range before it.
        nbytes: its length.
        row, physical: where it lies. Before the extents are looked up: its position, and no row.
    """

    owner: NDArray[np.int64]
    skip: NDArray[np.uint64]
    nbytes: NDArray[np.uint64]
    row: NDArray[np.uint32]
    physical: NDArray[np.uint64]


def cut(positions: NDArray[np.uint64], nbytes: NDArray[np.uint64], starts: NDArray[np.uint64]) -> tuple[Any, ...]:
    """Cuts ranges at ``starts``, which ascend and have one at or before each range's begin.

    Returns:
        (owner, index of the start below, first position, end position), each an array with an element a piece.
    """
    import numpy as np

    ends = positions + nbytes
    low = np.searchsorted(starts, positions, "right") - 1
    high = np.searchsorted(starts, ends - np.uint64(1), "right") - 1
    counts = high - low + 1
    owner = np.repeat(np.arange(len(positions)), counts)
    within = np.arange(len(owner)) - np.repeat(np.cumsum(counts) - counts, counts)
    index = low[owner] + within
    first = np.maximum(positions[owner], starts[index])
    following = np.minimum(index + 1, len(starts) - 1)
    last = np.where(index + 1 < len(starts), np.minimum(starts[following], ends[owner]), ends[owner])
    return owner, index, first, last


class ExtentTable:
    """The extents of all leaves. Not thread safe: the runtime's lock guards it."""

    def __init__(self) -> None:
        import numpy as np

        self._rows = np.zeros(0, extent_dtype())
        self._count = 0
        self._end = 0
        #: (base, end) of leaves that are gone, some at a time.
        self._dead: list[NDArray[np.uint64]] = []
        self._dead_rows = 0

    def __len__(self) -> int:
        """Extents in the table, of open leaves and of some that were closed."""
        return self._count

    def add(self, leaves: Sequence[NDArray[np.void]]) -> list[int]:
        """Adds leaves, each given by its extents from position 0 without a gap. Returns the base of each."""
        import numpy as np

        if not leaves:
            return []
        flat, counts = _flat(leaves)
        if self._count + len(flat) > len(self._rows):
            rows = np.zeros(max(2 * len(self._rows), self._count + len(flat), 64), self._rows.dtype)
            rows[: self._count] = self._rows[: self._count]
            self._rows = rows
        nbytes = _lengths(flat, counts)
        ends = np.cumsum(nbytes) + np.uint64(self._end)
        bases = ends - nbytes
        flat["position"] += np.repeat(bases, counts)
        self._rows[self._count : self._count + len(flat)] = flat
        self._count += len(flat)
        self._end = int(ends[-1])
        return [int(base) for base in bases.tolist()]

    def remove(self, bases: Sequence[int], leaves: Sequence[NDArray[np.void]]) -> None:
        """Forgets leaves, given as they were added. Their extents go with those of others, once they are half of it."""
        import numpy as np

        if not leaves:
            return
        flat, counts = _flat(leaves)
        first = np.array(bases, np.uint64)
        self._dead.append(np.stack([first, first + _lengths(flat, counts)], 1))
        self._dead_rows += len(flat)
        if 2 * self._dead_rows <= self._count:
            return
        positions = self._rows["position"][: self._count]
        dead = np.concatenate(self._dead)
        dead = dead[np.argsort(dead[:, 0])]
        place = np.searchsorted(dead[:, 0], positions, "right") - 1
        gone = (place >= 0) & (positions < dead[np.maximum(place, 0), 1])
        self._rows = self._rows[: self._count][~gone].copy()
        self._count = len(self._rows)
        self._dead, self._dead_rows = [], 0

    def look_up(self, positions: NDArray[np.uint64], nbytes: NDArray[np.uint64]) -> Pieces:
        """Where ranges of open leaves lie; ranges do not cross the end of their leaf, and none is empty."""
        import numpy as np

        rows = self._rows[: self._count]
        if not len(positions):
            none = np.zeros(0, np.uint64)
            return Pieces(np.zeros(0, np.int64), none, none, np.zeros(0, np.uint32), none)
        owner, index, first, last = cut(positions, nbytes, rows["position"])
        return Pieces(
            owner=owner,
            skip=first - positions[owner],
            nbytes=last - first,
            row=rows["row"][index],
            physical=rows["physical"][index] + (first - rows["position"][index]),
        )


def _flat(leaves: Sequence[NDArray[np.void]]) -> tuple[NDArray[np.void], NDArray[np.int64]]:
    """Extents of leaves one after the other, copied, and how many each has."""
    import numpy as np

    # np.concatenate looks for a common type of each two records, which takes thirty times as long.
    together = np.frombuffer(bytearray().join(map(np.ascontiguousarray, leaves)), extent_dtype())  # type: ignore[arg-type]
    return together, np.fromiter(map(len, leaves), np.int64, len(leaves))


def _lengths(flat: NDArray[np.void], counts: NDArray[np.int64]) -> NDArray[np.uint64]:
    """Bytes of each leaf."""
    import numpy as np

    ends = np.concatenate([np.zeros(1, np.uint64), np.cumsum(flat["nbytes"], dtype=np.uint64)])
    last = np.cumsum(counts)
    lengths: NDArray[np.uint64] = ends[last] - ends[last - counts]
    return lengths


def join(pieces: Pieces) -> Pieces:
    """The pieces with neighbours made one that touch in their range and on the drive: fewer commands for the ring."""
    import numpy as np

    if len(pieces.owner) < 2:
        return pieces
    touches = (
        (pieces.owner[1:] == pieces.owner[:-1])
        & (pieces.row[1:] == pieces.row[:-1])
        & (pieces.skip[1:] == pieces.skip[:-1] + pieces.nbytes[:-1])
        & (pieces.physical[1:] == pieces.physical[:-1] + pieces.nbytes[:-1])
    )
    if not touches.any():
        return pieces
    first = np.flatnonzero(np.concatenate([[True], ~touches]))
    return Pieces(
        owner=pieces.owner[first],
        skip=pieces.skip[first],
        nbytes=np.add.reduceat(pieces.nbytes, first),
        row=pieces.row[first],
        physical=pieces.physical[first],
    )

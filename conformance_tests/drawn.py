"""Bytes that a case drew from its own random source, kept as places in that source instead of as bytes.

A case that moves data draws it from ``run.random`` and sees it again in memory, on the drive and back. It is random, so
no packer makes it small; but who knows the seed can make it again. What is told here is exact: an array is taken apart
into pieces that are equal, byte for byte, to a piece of the source, and a rest. So whoever judges has the same array as
ever, and a block in the wrong place is another piece.

The source is the raw output of NumPy's PCG64, which NumPy promises never to change; what its generators make of it
(words, bytes, whole ranges of integers) are its bytes in their order.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import numpy as np

#: Generators take four bytes at a time.
WORD = 4

#: Pieces that are shorter are left in the rest: a piece costs about so many bytes.
SHORTEST_BYTES = 64

#: As far into a source as a piece may reach.
LIMIT_BYTES = 64 << 20

#: How far beyond what was looked for a piece is looked for.
_AHEAD_BYTES = 64 << 10

#: Words from one mark of a source to the next: a piece of this length and a little more has one.
_STRIDE = SHORTEST_BYTES // WORD

#: (place in the array, place in the source, bytes).
Piece = tuple[int, int, int]


class Source:
    """The bytes of one instance's random source, made as they are asked for. ``seed`` is the instance's own."""

    def __init__(self, seed: int) -> None:
        self._seed = seed
        self._bytes = b""
        self._asked = 0
        #: Sorted marks, and the word at which each begins.
        self._marks: tuple[Any, Any] = ((), ())

    def take(self, start: int, nbytes: int) -> bytes:
        """A piece of it.

        Raises:
            ValueError: it reaches beyond :data:`LIMIT_BYTES`.
        """
        if start + nbytes > LIMIT_BYTES:
            raise ValueError(f"a piece that ends beyond {LIMIT_BYTES} bytes of its source")
        self._make(start + nbytes)
        return self._bytes[start : start + nbytes]

    def pieces(self, data: bytes) -> list[Piece]:
        """The pieces of ``data`` that come from the source, in order; found where both lie on words, and long enough.

        How far the source is searched grows with what was asked: data is drawn before it is seen.
        """
        import numpy as np

        if len(data) < SHORTEST_BYTES:
            return []
        self._asked += len(data)
        words = np.frombuffer(data, "<u4", len(data) // WORD)
        source = self._index(min(2 * self._asked + _AHEAD_BYTES, LIMIT_BYTES))
        marks, places = self._marks
        mine = _grams(words)
        found = np.minimum(np.searchsorted(marks, mine), len(marks) - 1)
        hits = np.flatnonzero(marks[found] == mine)
        pieces: list[Piece] = []
        free = last = 0
        for hit, start in zip(hits.tolist(), places[found[hits]].tolist(), strict=True):
            if hit < last:
                continue  # inside the piece before
            back = min(hit - free, start, _STRIDE)
            first = hit - _same(words[hit - back : hit][::-1], source[start - back : start][::-1])
            reach = min(len(words) - hit, len(source) - start)
            last = hit + _same(words[hit : hit + reach], source[start : start + reach])
            if (last - first) * WORD >= SHORTEST_BYTES:
                pieces.append((first * WORD, (start - hit + first) * WORD, (last - first) * WORD))
                free = last
        return pieces

    def _index(self, nbytes: int) -> np.ndarray[Any, Any]:
        """The words of the source, so many bytes or more; two of every :data:`_STRIDE` are marks to find it by."""
        import numpy as np

        if not len(self._marks[0]) or len(self._bytes) < nbytes:
            self._make(min(1 << (nbytes - 1).bit_length(), LIMIT_BYTES))
            grams = _grams(np.frombuffer(self._bytes, "<u4"))[::_STRIDE]
            order = np.argsort(grams)
            self._marks = grams[order], order * _STRIDE
        return np.frombuffer(self._bytes, "<u4")

    def _make(self, nbytes: int) -> None:
        import numpy as np

        if len(self._bytes) < nbytes:
            self._bytes = np.random.PCG64(self._seed).random_raw(-(-nbytes // 8)).astype("<u8").tobytes()


def without(data: bytes, pieces: Sequence[Piece]) -> bytes:
    """The rest of some bytes once these pieces are taken out."""
    edges = [0, *(edge for at, _, nbytes in pieces for edge in (at, at + nbytes)), len(data)]
    return b"".join(data[a:b] for a, b in zip(edges[::2], edges[1::2], strict=True))


def restored(rest: bytes, pieces: Any, source: Source) -> bytes:
    """The reverse of :func:`without`, of what a stranger may have written.

    Raises:
        ValueError: these are no pieces, or they overlap, or are not in order, or reach too far.
    """
    if not isinstance(pieces, list):
        raise ValueError("its pieces are no list")
    parts: list[bytes] = []
    done = used = 0
    for piece in pieces:
        if not isinstance(piece, list) or len(piece) != 3 or not all(type(one) is int and one >= 0 for one in piece):
            raise ValueError("a piece that is not a place, a place in the source, and a length")
        at, start, nbytes = piece
        if at < done or nbytes < SHORTEST_BYTES or at - done > len(rest) - used:
            raise ValueError("pieces that overlap, are not in order, or leave a gap")
        parts += [rest[used : used + at - done], source.take(start, nbytes)]
        used, done = used + at - done, at + nbytes
    return b"".join([*parts, rest[used:]])


def _same(a: np.ndarray[Any, Any], b: np.ndarray[Any, Any]) -> int:
    """How many words are equal from the beginning on."""
    import numpy as np

    differ = np.flatnonzero(a != b)
    return int(differ[0]) if len(differ) else len(a)


def _grams(words: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    import numpy as np

    wide = words.astype(np.uint64)
    pairs: np.ndarray[Any, Any] = wide[:-1] | wide[1:] << np.uint64(32)
    return pairs

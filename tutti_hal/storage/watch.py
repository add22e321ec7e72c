"""Open files that must stay where they are.

A file on a file system stays open while it is a target, and its extents are read again before each use: a truncate, a
defragmentation or a reflink between shows itself, and requests are refused. What happens between that look and the
drive's own access is not seen: the file system knows nothing of them. No stat would do instead: the kernel moves ext4
extents without a change of any time (`EXT4_IOC_MOVE_EXT`).
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import TYPE_CHECKING

from tutti_hal.errors import TargetError
from tutti_hal.storage import fiemap
from tutti_hal.storage.open_files import Stage, read_extents

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray


class FileWatch:
    """An open file, and the places that it had when it was opened.

    Args:
        fd: of the file; the watch closes it.
        size: of the file.
        block: for `fiemap.judge`.
        raw: its extents as the kernel told them: the signature.
    """

    __slots__ = ("block", "fd", "gone", "raw", "size")

    def __init__(self, fd: int, size: int, block: int, raw: bytes) -> None:
        self.fd, self.size, self.block, self.raw = fd, size, block, raw
        self.gone = False

    def compare(self, raw: bytes | None) -> None:
        """Takes what the kernel tells now; None when it tells nothing. What has moved stays so."""
        try:
            if raw is None:
                self.gone = True
            elif raw != self.raw:
                # Told in other pieces, or grown behind its end: that is no move.
                was, now = (_places(fiemap.judge("use a file", one, self.size, self.block)) for one in (self.raw, raw))
                self.gone, self.raw = now != was, raw
        except TargetError:
            self.gone = True

    def close(self) -> None:
        """Closes the file. The second call does nothing."""
        fd, self.fd = self.fd, -1
        if fd >= 0:
            os.close(fd)


def look_again(watches: Sequence[FileWatch]) -> None:
    """Reads the extents of open files again, all by one call; what has moved, or may not be used any more, is gone."""
    looked = [watch for watch in watches if not watch.gone]
    if not looked:
        return
    rows, extents = read_extents([one.fd for one in looked], [one.size for one in looked], sync=False)
    for watch, stage, raw in zip(looked, rows["stage"].tolist(), pieces(extents, rows), strict=True):
        watch.compare(raw if stage == Stage.READY else None)


def pieces(extents: NDArray[np.void], rows: NDArray[np.void]) -> list[bytes]:
    """The extents of each file, as the kernel told them: its signature."""
    import numpy as np

    raw = extents.tobytes()
    first = rows["first_extent"].astype(np.int64) * extents.itemsize
    end = first + rows["extents"].astype(np.int64) * extents.itemsize
    return [raw[low:high] for low, high in zip(first.tolist(), end.tolist(), strict=True)]


def _places(extents: list[tuple[int, int, int]]) -> list[tuple[int, int, int]]:
    """Extents with those made one that follow on each other."""
    places: list[tuple[int, int, int]] = []
    for logical, physical, length in extents:
        if places and sum(places[-1][1:]) == physical:
            places[-1] = (places[-1][0], places[-1][1], places[-1][2] + length)
        else:
            places.append((logical, physical, length))
    return places

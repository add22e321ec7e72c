"""Many files opened and looked at by one native call, whose threads share them out."""

from __future__ import annotations

import os
from collections.abc import Collection, Sequence
from enum import IntEnum
from functools import cache
from typing import TYPE_CHECKING, Any, Self

from tutti_hal.native import ffi_and_library
from tutti_hal.storage.fiemap import fiemap_dtype

if TYPE_CHECKING:
    from types import TracebackType

    import numpy as np
    from numpy.typing import NDArray

#: Threads of a call at most: they wait in system calls, for a medium too.
_THREADS = 8


class Stage(IntEnum):
    """Where a file's way ended: ``TT_FILE_*`` of ``files.h``."""

    READY = 0
    LOOK = 1
    OTHER = 2
    OPEN = 3
    DIRECT = 4
    EXTENTS = 5
    STUCK = 6


@cache
def file_dtype() -> np.dtype[Any]:
    """``tt_file``, 80 bytes."""
    import numpy as np

    return np.dtype(
        [
            ("path", "<u8"),
            ("writable", "<u4"),
            ("stage", "<u4"),
            ("error", "<i4"),
            ("fd", "<i4"),
            ("mode", "<u4"),
            ("attributes", "<u4"),
            ("extended", "<u4"),
            ("extents", "<u4"),
            ("first_extent", "<u8"),
            ("device", "<u8"),
            ("special", "<u8"),
            ("inode", "<u8"),
            ("size", "<u8"),
        ]
    )


def _extents(ffi: Any, library: Any, kept: Any) -> NDArray[np.void]:
    """The extents of a list, copied."""
    import numpy as np

    count = ffi.new("uint64_t *")
    data = library.tt_extent_list_data(kept, count)
    nbytes = count[0] * fiemap_dtype().itemsize
    return np.frombuffer(ffi.buffer(data, nbytes)[:] if nbytes else b"", fiemap_dtype())


def _new_list(ffi: Any, library: Any) -> Any:
    made = library.tt_extent_list_new()
    if made == ffi.NULL:
        raise MemoryError
    return ffi.gc(made, library.tt_extent_list_free)


class OpenFiles:
    """Files that are opened together; leaving it closes those that nobody took.

    Attributes:
        rows: of each file what was found, by `file_dtype`.
        extents: of all files one after the other, by `fiemap_dtype`.
    """

    rows: NDArray[np.void]
    extents: NDArray[np.void]

    def __init__(self) -> None:
        import numpy as np

        self.rows = np.zeros(0, file_dtype())
        self.extents = np.zeros(0, fiemap_dtype())

    def open(self, paths: Sequence[str], writable: Sequence[bool], known: Collection[tuple[int, int]]) -> None:
        """Opens files past the page cache and reads their extents, dirty pages written back first.

        Each for itself: `Stage` says how far it came. Blocks as long as the medium takes.

        Args:
            paths: which.
            writable: for reading and writing, or only for reading.
            known: st_dev and st_ino of files that are not to be opened.
        """
        import numpy as np

        ffi, library = ffi_and_library()
        kept = _new_list(ffi, library)
        names = [os.fsencode(path) for path in paths]
        rows = np.zeros(len(names), file_dtype())
        rows["fd"] = -1
        rows["writable"] = writable
        rows["path"][1:] = np.cumsum([len(name) + 1 for name in names[:-1]])
        skipped = np.array([number for one in known for number in one], np.uint64)
        # From here on whoever leaves closes what is open, an interrupt too.
        self.rows = rows
        error = library.tt_files_open(
            ffi.from_buffer(b"\0".join(names)),
            ffi.from_buffer("tt_file[]", rows, require_writable=True),
            len(rows),
            ffi.from_buffer("tt_file_id[]", skipped),
            len(known),
            _THREADS,
            kept,
        )
        if error:
            raise MemoryError
        self.extents = _extents(ffi, library, kept)

    def take(self, indices: NDArray[np.intp]) -> list[int]:
        """The descriptors of files, which are the caller's from now on."""
        fds: list[int] = self.rows["fd"][indices].tolist()
        self.rows["fd"][indices] = -1
        return fds

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for fd in self.rows["fd"][self.rows["fd"] >= 0].tolist():
            os.close(fd)
        self.rows["fd"] = -1


def read_extents(
    fds: Sequence[int], sizes: Sequence[int], *, sync: bool, call: Any = None
) -> tuple[NDArray[np.void], NDArray[np.void]]:
    """The extents of the first bytes of open files, in as many calls as it takes.

    Args:
        fds: the files.
        sizes: how many bytes of each.
        sync: whether dirty pages are written back first.
        call: a ``tt_fiemap_call`` that is asked in place of the kernel.

    Returns:
        (by `file_dtype`: what was found; by `fiemap_dtype`: the extents of all, one file after the other).
    """
    import numpy as np

    ffi, library = ffi_and_library()
    kept = _new_list(ffi, library)
    rows = np.zeros(len(fds), file_dtype())
    rows["fd"], rows["size"] = fds, sizes
    files = ffi.from_buffer("tt_file[]", rows, require_writable=True)
    error = library.tt_files_read_extents(files, len(rows), sync, _THREADS, call or ffi.NULL, ffi.NULL, kept)
    if error:
        raise MemoryError
    return rows, _extents(ffi, library, kept)

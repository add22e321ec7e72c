"""Making files that can be targets."""

from __future__ import annotations

import errno
import fcntl
import mmap
import os
from pathlib import Path

from tutti_hal.errors import TargetSizeWrong
from tutti_hal.storage.refusals import direct_dropped, open_refusal, system_refusal


def _open_direct(doing: str, path: str) -> int:
    """Opens a file for writing past the page cache, and verifies that it is."""
    try:
        fd = os.open(path, os.O_RDWR | os.O_DIRECT | os.O_CLOEXEC)
    except OSError as error:
        raise open_refusal(doing, path, error) from None
    if not fcntl.fcntl(fd, fcntl.F_GETFL) & os.O_DIRECT:
        os.close(fd)
        raise direct_dropped(doing, path)
    return fd


def prepare_file(path: Path, nbytes: int) -> None:
    """Makes a file that can be a target: real zeroes in every block, on the medium when this returns.

    Allocating alone would not do: blocks that were never written read as zeroes through the file system, whatever a
    drive was given. An existing file is left alone. Blocks for as long as the medium takes.

    Args:
        path: the file, which must not exist.
        nbytes: a positive multiple of 4096.

    Raises:
        TargetSizeWrong: another length.
        NotDirect: its file system does no direct I/O.
        TargetError: the system refuses; no room is left, for one. Then there is no file.
    """
    doing = f"prepare {path}"
    if nbytes <= 0 or nbytes % mmap.PAGESIZE:
        raise TargetSizeWrong(doing, f"{nbytes} bytes", f"Use a positive multiple of {mmap.PAGESIZE}.")
    chunk = 1 << 20
    try:
        os.close(os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o644))
        try:
            fd = _open_direct(doing, str(path))
            try:
                # In one piece where there is room for one.
                os.posix_fallocate(fd, 0, nbytes)
                with mmap.mmap(-1, chunk) as zeroes:
                    for at in range(0, nbytes, chunk):
                        with memoryview(zeroes)[: nbytes - at] as some:
                            if os.pwritev(fd, [some], at) != len(some):
                                raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
                os.fsync(fd)
            finally:
                os.close(fd)
            folder = os.open(path.parent, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
            try:
                os.fsync(folder)
            finally:
                os.close(folder)
        except BaseException:
            path.unlink(missing_ok=True)
            raise
    except OSError as error:
        raise system_refusal(doing, str(path), error) from None

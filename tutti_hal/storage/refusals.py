"""What the system's refusals of a path are called here."""

from __future__ import annotations

import errno
import os
import stat

from tutti_hal.errors import NotDirect, TargetDenied, TargetError, TargetKindWrong, TargetMissing

_KINDS = (
    (stat.S_ISDIR, "a directory"),
    (stat.S_ISFIFO, "a pipe"),
    (stat.S_ISSOCK, "a socket"),
    (stat.S_ISCHR, "a character device"),
)


def system_error(number: int) -> OSError:
    """An errno as the exception that Python has for it."""
    return OSError(number, os.strerror(number))


def system_refusal(doing: str, path: str, error: OSError) -> TargetError:
    """The system refuses to open or look at a file."""
    said = f"{path}: {error.strerror or error}"
    if isinstance(error, (FileNotFoundError, NotADirectoryError)):
        return TargetMissing(doing, said, "Create the file first (storage.prepare_file).")
    if isinstance(error, PermissionError) or error.errno == errno.EROFS:
        return TargetDenied(doing, said, "Give this process the right to it, or open it with mode=r.")
    return TargetError(doing, said, "See what the system says.")


def open_refusal(doing: str, path: str, error: OSError) -> TargetError:
    """The system refuses to open a file past the page cache."""
    if error.errno == errno.EINVAL:
        return NotDirect(doing, f"{path}: no direct I/O on this file system", "Put the file on ext4 or xfs.")
    return system_refusal(doing, path, error)


def direct_dropped(doing: str, path: str) -> NotDirect:
    """A file was opened, and not past the page cache."""
    return NotDirect(doing, f"{path}: O_DIRECT was taken and dropped", "Put the file on ext4 or xfs.")


def check_kind(doing: str, path: str, mode: int) -> None:
    """Refuses what is neither a regular file nor a block device.

    Raises:
        TargetKindWrong: it is something else.
    """
    for is_kind, noun in _KINDS:
        if is_kind(mode):
            raise TargetKindWrong(doing, f"{path} is {noun}", "Name a regular file, or the block device of a drive.")

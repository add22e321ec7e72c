"""A file as a target: the image of a drive, as it is, or a file on a file system whose device a drive serves."""

from __future__ import annotations

import os
import stat
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from tutti_hal.errors import (
    DeviceUnserved,
    TargetDenied,
    TargetError,
    TargetKindWrong,
    TargetMissing,
    TargetSizeWrong,
)
from tutti_hal.storage.drives import BlockSource
from tutti_hal.storage.extents import make_extents

if TYPE_CHECKING:
    from tutti_hal.storage.resolve import Leaf, Place

_KINDS = (
    (stat.S_ISDIR, "a directory"),
    (stat.S_ISFIFO, "a pipe"),
    (stat.S_ISSOCK, "a socket"),
    (stat.S_ISCHR, "a character device"),
)


def resolve_file(doing: str, path: str, sources: Mapping[BlockSource, Place]) -> Leaf:
    """The extents of a file, on the drive that has its bytes.

    Raises:
        TargetError: its subclass says why the file cannot be used.
    """
    try:
        found = Path(path).stat()
    except OSError as error:
        raise system_refusal(doing, path, error) from None
    check_kind(doing, path, found)
    device = found.st_rdev if stat.S_ISBLK(found.st_mode) else found.st_dev
    kind = "device" if stat.S_ISBLK(found.st_mode) else "file"
    inode = 0 if kind == "device" else found.st_ino
    place = sources.get(BlockSource(kind, os.major(device), os.minor(device), inode))
    if place is not None:
        return _image(doing, path, place)
    raise DeviceUnserved(doing, f"no drive has the bytes of {path}", "Name the drive's image, or its device.")


def _image(doing: str, path: str, place: Place) -> Leaf:
    """A file or device that is the whole namespace of a drive: the drive itself keeps it open."""
    from tutti_hal.storage.resolve import Leaf

    block = place.target.block_bytes
    if block != place.target.lba_bytes:
        raise TargetSizeWrong(doing, f"blocks of {path} have metadata inline", "Use a format without them.")
    return Leaf(make_extents([(0, 0, place.nbytes)], place.target.row), place.nbytes, block)


def check_kind(doing: str, path: str, found: os.stat_result) -> None:
    """Refuses what is neither a regular file nor a block device.

    Raises:
        TargetKindWrong: it is something else.
    """
    for is_kind, noun in _KINDS:
        if is_kind(found.st_mode):
            raise TargetKindWrong(doing, f"{path} is {noun}", "Name a regular file, or the block device of a drive.")


def system_refusal(doing: str, path: str, error: OSError) -> TargetError:
    """What the system's refusal to open or look at a file is called here."""
    said = f"{path}: {error.strerror or error}"
    if isinstance(error, (FileNotFoundError, NotADirectoryError)):
        return TargetMissing(doing, said, "Create the file first.")
    if isinstance(error, PermissionError):
        return TargetDenied(doing, said, "Give this process the right to it, or open it with mode=r.")
    if isinstance(error, IsADirectoryError):
        return TargetKindWrong(doing, said, "Name a regular file.")
    return TargetError(doing, said, "See what the system says.")

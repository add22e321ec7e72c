"""On which file systems a file's physical offsets are offsets of the device below, and on which they mean nothing."""

from __future__ import annotations

import ctypes
import os
import struct
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from tutti_hal.errors import FilesystemRefused

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

_FS_JOURNAL_DATA, _FS_XFLAG_REALTIME = 0x4000, 0x1
_MOVE = "Put the file on ext4 or xfs, on a partition or a whole drive."


@dataclass(frozen=True)
class Verdict:
    """What is known of a file system.

    Attributes:
        name: of it.
        refusal: why its files cannot be reached past it; empty where they can.
    """

    name: str
    refusal: str = ""


#: By ``f_type`` of statfs (``magic.h``). What is not here is refused as unknown.
VERDICTS: dict[int, Verdict] = {
    0xEF53: Verdict("ext4"),
    0x5846_5342: Verdict("xfs"),
    0x9123_683E: Verdict("btrfs", "its offsets are of a space of its own, spread over devices by its chunk map"),
    0x2FC1_2FC1: Verdict("zfs", "its blocks lie in a pool, compressed and never overwritten in place"),
    0xCA45_1A4E: Verdict("bcachefs", "it moves data whenever it likes, and checks them by sums of its own"),
    0xF2F5_2010: Verdict("f2fs", "it is a log, and its cleaner moves blocks"),
    0x3434: Verdict("nilfs2", "it is a log, and its cleaner moves blocks"),
    0x794C_7630: Verdict("overlay", "the file lies on another file system below; open it there"),
    0x0102_1994: Verdict("tmpfs", "the file is memory"),
    0x8584_58F6: Verdict("ramfs", "the file is memory"),
    0x9584_58F6: Verdict("hugetlbfs", "the file is memory"),
    0x6969: Verdict("nfs", "the file is on another machine"),
    0xFF53_4D42: Verdict("cifs", "the file is on another machine"),
    0xFE53_4D42: Verdict("smb2", "the file is on another machine"),
    0x0102_1997: Verdict("9p", "the file is on another machine, or of a host"),
    0x00C3_6400: Verdict("ceph", "the file is on other machines"),
    0x6573_5546: Verdict("fuse", "a program answers for it, and may do anything"),
    0xF15F: Verdict("ecryptfs", "what lies on the device is encrypted"),
    0x7371_7368: Verdict("squashfs", "it is compressed and read-only"),
    0xE0F5_E1E2: Verdict("erofs", "it may be compressed, and is read-only"),
    0x4D44: Verdict("vfat", "it does not tell extents"),
    0x2011_BAB0: Verdict("exfat", "it does not tell extents"),
    0x0116_1970: Verdict("gfs2", "other machines write to its device"),
    0x7461_636F: Verdict("ocfs2", "other machines write to its device"),
    0x9FA0: Verdict("proc", "it has no device"),
    0x6265_6572: Verdict("sysfs", "it has no device"),
}


def filesystem_type(fd: int) -> int:
    """``f_type`` of the file system of an open file.

    Raises:
        OSError: it cannot be asked.
    """
    # struct statfs is 120 bytes on 64-bit Linux, and begins with f_type, a long.
    buffer = ctypes.create_string_buffer(256)
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.fstatfs(fd, buffer) != 0:
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number))
    (magic,) = struct.unpack_from("=q", buffer.raw)
    return int(magic) & 0xFFFF_FFFF


def check_filesystem(doing: str, magic: int) -> Verdict:
    """Refuses a file system on which physical offsets mean nothing for a drive.

    Raises:
        FilesystemRefused: it is such, or it is not known.
    """
    verdict = VERDICTS.get(magic)
    if verdict is None:
        raise FilesystemRefused(doing, f"a file system of type {magic:#x}, which is not known here", _MOVE)
    if verdict.refusal:
        raise FilesystemRefused(doing, f"the file is on {verdict.name}: {verdict.refusal}", _MOVE)
    return verdict


def check_mount(doing: str, device: tuple[int, int], mountinfo: str | None = None) -> None:
    """Refuses a mount whose journal holds data: it would write old bytes over a drive's new ones.

    Args:
        doing: for errors.
        device: major and minor.
        mountinfo: text of ``/proc/self/mountinfo``; None reads it.

    Raises:
        FilesystemRefused: mounted with ``data=journal``.
    """
    text = Path("/proc/self/mountinfo").read_text(encoding="utf-8") if mountinfo is None else mountinfo
    for line in text.splitlines():
        fields = line.split()
        if len(fields) > 2 and fields[2] == f"{device[0]}:{device[1]}" and "data=journal" in fields[-1].split(","):
            raise FilesystemRefused(
                doing, f"{fields[4]} is mounted with data=journal: its journal holds data too", "Mount it without."
            )


def attributes_refused(attributes: NDArray[np.uint32], extended: NDArray[np.uint32]) -> NDArray[np.bool_]:
    """Which files are not what their extents say.

    Args:
        attributes: of ``FS_IOC_GETFLAGS``: data go through the journal.
        extended: ``fsx_xflags`` of ``FS_IOC_FSGETXATTR``: an xfs realtime file.
    """
    refused: NDArray[np.bool_] = ((attributes & _FS_JOURNAL_DATA) != 0) | ((extended & _FS_XFLAG_REALTIME) != 0)
    return refused


def attribute_refusal(doing: str, attributes: int) -> FilesystemRefused:
    """Why a file of `attributes_refused` is refused: its data go through the journal, or else lie on another device."""
    if attributes & _FS_JOURNAL_DATA:
        return FilesystemRefused(doing, "its data go through the journal (chattr +j)", "Take the attribute away.")
    return FilesystemRefused(
        doing, "it is a realtime file: its extents are of another device", "Use a folder without that attribute."
    )

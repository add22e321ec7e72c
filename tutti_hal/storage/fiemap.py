"""Where a file's bytes lie, as its file system tells (FIEMAP), and whether they may be read and written there.

Numbers and names are those of the kernel's ``fiemap.h``. Every flag that the kernel knows has a judgement; a flag that
it may learn later has none, and is refused for that.
"""

from __future__ import annotations

import fcntl
import struct
from collections.abc import Callable
from dataclasses import dataclass
from enum import IntFlag
from typing import TYPE_CHECKING, Any

from tutti_hal.errors import ExtentRefused, FilesystemRefused, TargetSizeWrong

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

#: _IOWR('f', 11, struct fiemap).
FS_IOC_FIEMAP = 0xC020_660B
#: Write dirty pages back first: without it what was just written has no place yet.
FIEMAP_FLAG_SYNC = 1
_HEAD = struct.Struct("=QQLLLL")
_EXTENT = struct.Struct("=QQQ16xL12x")
_EXTENT_BYTES = 56
#: Extents of the first call; files of the store have few. Then of each further call: 28 KiB.
_FEW, _MANY = 16, 512
_MAPPED_AT = 20


class ExtentFlag(IntFlag):
    """``FIEMAP_EXTENT_*``."""

    LAST = 0x1
    UNKNOWN = 0x2
    DELALLOC = 0x4
    ENCODED = 0x8
    DATA_ENCRYPTED = 0x80
    NOT_ALIGNED = 0x100
    DATA_INLINE = 0x200
    DATA_TAIL = 0x400
    UNWRITTEN = 0x800
    MERGED = 0x1000
    SHARED = 0x2000


@dataclass(frozen=True)
class Judgement:
    """Whether an extent with a flag may be used past the file system.

    Attributes:
        usable: whether it may.
        why: the reason, for whoever reads the refusal.
        fix: what to do about it.
    """

    usable: bool
    why: str
    fix: str = ""


_REWRITE = "Write the file whole, with real bytes (storage.prepare_file), and open it again."

JUDGEMENTS: dict[ExtentFlag, Judgement] = {
    ExtentFlag.LAST: Judgement(True, "it is the file's last one, and says nothing of its place"),
    ExtentFlag.MERGED: Judgement(True, "several pieces of one file system block each are told as one: the place holds"),
    ExtentFlag.UNKNOWN: Judgement(False, "its place is not known", _REWRITE),
    ExtentFlag.DELALLOC: Judgement(False, "it has no place yet: its bytes are in the page cache", _REWRITE),
    ExtentFlag.ENCODED: Judgement(
        False, "what lies there is not the file's bytes but a form of them, such as compressed", "Turn that off for it."
    ),
    ExtentFlag.DATA_ENCRYPTED: Judgement(
        False, "what lies there is encrypted by the file system", "Use a folder without encryption."
    ),
    ExtentFlag.NOT_ALIGNED: Judgement(False, "its place or length is not whole blocks", _REWRITE),
    ExtentFlag.DATA_INLINE: Judgement(
        False, "it lies inside the file system's own records, which a write would destroy", _REWRITE
    ),
    ExtentFlag.DATA_TAIL: Judgement(False, "it shares a block with ends of other files", _REWRITE),
    ExtentFlag.UNWRITTEN: Judgement(
        False,
        "it is allocated and not written: the file system would go on to read zeroes, whatever a drive was given",
        _REWRITE,
    ),
    ExtentFlag.SHARED: Judgement(
        False,
        "other files share it (reflink, snapshot, deduplication), and a write would change them",
        "Copy the file.",
    ),
}


#: What an extent may be marked with.
_USABLE = int(ExtentFlag.LAST | ExtentFlag.MERGED)


def fiemap_dtype() -> np.dtype[Any]:
    """``struct fiemap_extent``, 56 bytes."""
    import numpy as np

    return np.dtype(
        [
            ("logical", "<u8"),
            ("physical", "<u8"),
            ("length", "<u8"),
            ("reserved64", "<u8", (2,)),
            ("flags", "<u4"),
            ("reserved", "<u4", (3,)),
        ]
    )


Ioctl = Callable[[int, int, bytearray], int]


def _call(fd: int, number: int, buffer: bytearray) -> int:
    # Mutable, so that the kernel writes into it; the GIL is released meanwhile.
    return int(fcntl.ioctl(fd, number, buffer))


def read_raw(fd: int, size: int, *, sync: bool, ioctl: Ioctl = _call) -> bytes:
    """The extents of a file's first ``size`` bytes as the kernel tells them: ``struct fiemap_extent``, any number.

    One call tells a bounded number, so the call is made again behind the last extent until the size is reached, one is
    marked LAST, or none is left. Equal bytes, equal places.

    Raises:
        OSError: the file system does not tell, or the descriptor is wrong.
        ExtentRefused: it tells extents that do not advance.
    """
    parts: list[bytes] = []
    start, room = 0, _FEW
    while start < size:
        buffer = bytearray(_HEAD.size + room * _EXTENT_BYTES)
        # Sync once: later calls look at the same state.
        flags = FIEMAP_FLAG_SYNC if sync and not parts else 0
        _HEAD.pack_into(buffer, 0, start, size - start, flags, 0, room, 0)
        ioctl(fd, FS_IOC_FIEMAP, buffer)
        (count,) = struct.unpack_from("=L", buffer, _MAPPED_AT)
        if not count:
            break
        parts.append(bytes(buffer[_HEAD.size : _HEAD.size + count * _EXTENT_BYTES]))
        logical, _, length = struct.unpack_from("=QQQ", parts[-1], (count - 1) * _EXTENT_BYTES)
        (last,) = struct.unpack_from("=L", parts[-1], (count - 1) * _EXTENT_BYTES + 40)
        if last & ExtentFlag.LAST:
            break
        if logical + length <= start:
            raise ExtentRefused(
                "read a file's extents", f"after byte {start} the next ends at {logical + length}", "Check the disk."
            )
        start, room = logical + length, _MANY
    return b"".join(parts)


def judge(doing: str, raw: bytes, size: int, block: int) -> list[tuple[int, int, int]]:
    """The extents that hold the file's ``size`` bytes, judged: each may be used, and together they have no gap.

    Args:
        doing: for errors.
        raw: of `read_raw`.
        size: of the file.
        block: bytes of a drive's block, of which everything must be a multiple.

    Returns:
        (logical, physical, length) of each, in order, the last one cut at the file's end.

    Raises:
        TargetSizeWrong: the file is empty, or ends inside a block.
        ExtentRefused: a flag that is not usable or not known, a hole, an overlap, or a place inside a block.
    """
    if (simple := _all_simple(raw, size, block)) is not None:
        return simple
    import numpy as np

    if size <= 0:
        raise TargetSizeWrong(doing, "the file is empty", "Give it its bytes first (storage.prepare_file).")
    if size % block:
        raise TargetSizeWrong(
            doing, f"it has {size} bytes, which end inside a block of {block}", "Pad it to whole blocks."
        )
    extents = np.frombuffer(raw, fiemap_dtype())
    # What lies behind the end of the file is allocated for later, and nobody's business.
    extents = extents[extents["logical"] < size].copy()
    _refuse_flags(doing, extents["flags"], extents["logical"])
    if not len(extents):
        raise ExtentRefused(doing, "it has no extents at all: all of it is a hole", _REWRITE)
    ends = extents["logical"] + extents["length"]
    expected = np.concatenate([np.zeros(1, np.uint64), ends[:-1]])
    wrong = extents["logical"] != expected
    if wrong.any():
        at = int(wrong.argmax())
        found, due = int(extents["logical"][at]), int(expected[at])
        said = f"a hole from byte {due} to {found}" if found > due else f"extents overlap at byte {found}"
        raise ExtentRefused(doing, said, _REWRITE)
    if int(ends[-1]) < size:
        raise ExtentRefused(doing, f"a hole from byte {int(ends[-1])} to its end at {size}", _REWRITE)
    extents["length"][-1] = size - int(extents["logical"][-1])
    inside = (extents["physical"] % block != 0) | (extents["length"] % block != 0)
    if inside.any():
        one = extents[int(inside.argmax())]
        raise ExtentRefused(
            doing,
            f"{int(one['length'])} bytes at byte {int(one['physical'])} of the device, and blocks of {block}",
            "Use a drive with blocks no larger than the file system's.",
        )
    names = ("logical", "physical", "length")
    return list(zip(*(extents[name].tolist() for name in names), strict=True))


def _all_simple(raw: bytes, size: int, block: int) -> list[tuple[int, int, int]] | None:
    """The same where nothing is wrong and the extents are few, as those of thousands of files are; else None."""
    if size <= 0 or size % block or len(raw) > _FEW * _EXTENT_BYTES:
        return None
    found, due = [], 0
    for logical, physical, length, flags in _EXTENT.iter_unpack(raw):
        if logical >= size:
            break
        take = min(length, size - logical)
        if logical != due or flags & ~_USABLE or physical % block or take % block:
            return None
        found.append((logical, physical, take))
        due = logical + take
    return found if due == size else None


def _refuse_flags(doing: str, flags: NDArray[np.uint32], logical: NDArray[np.uint64]) -> None:
    import numpy as np

    bad = (flags & np.uint32(~_USABLE & 0xFFFF_FFFF)) != 0
    if not bad.any():
        return
    at = int(bad.argmax())
    found = int(flags[at])
    known = [flag for flag, judgement in JUDGEMENTS.items() if found & flag and not judgement.usable]
    unknown = found & ~sum(JUDGEMENTS)
    said = [f"FIEMAP_EXTENT_{flag.name}: {JUDGEMENTS[flag].why}" for flag in known]
    if unknown:
        said.append(f"flag {unknown:#x}, which is not known here")
    # SHARED, ENCODED and the like say more of the cause than what comes with them.
    fix = JUDGEMENTS[known[-1]].fix if known else "Use a file system whose flags are known: ext4 or xfs."
    raise ExtentRefused(doing, f"the extent at byte {int(logical[at])} is {'; '.join(said)}", fix)


def read_extents(doing: str, fd: int, size: int, block: int) -> tuple[bytes, list[tuple[int, int, int]]]:
    """A file's extents, dirty pages written back first: as the kernel tells them, and judged.

    Raises:
        FilesystemRefused: the file system does not tell.
        TargetSizeWrong, ExtentRefused: as `judge`.
    """
    try:
        raw = read_raw(fd, size, sync=True)
    except OSError as error:
        raise FilesystemRefused(
            doing, f"the file system does not tell extents ({error.strerror})", "Put the file on ext4 or xfs."
        ) from None
    return raw, judge(doing, raw, size, block)

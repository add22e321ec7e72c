"""Where a file's bytes lie, as its file system tells (FIEMAP), and whether they may be read and written there.

Numbers and names are those of the kernel's ``fiemap.h``. Every flag that the kernel knows has a judgement; a flag that
it may learn later has none, and is refused for that.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntFlag
from typing import TYPE_CHECKING, Any

from tutti_hal.errors import ExtentRefused, TargetSizeWrong

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray


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


class Judged:
    """Extents of several files: which hold a file's bytes, and which files may not be used, each with its reason.

    Args:
        extents: by `fiemap_dtype`, as the kernel tells them: of one file after the other.
        counts: of each file.
        sizes: of each file, in bytes.
        block: bytes of a drive's block, of which everything must be a multiple.

    Attributes:
        logical, physical, length: of the extents that hold bytes of their file, the last one cut at its end. Nothing
            is to be done with those of a refused file.
        owner: the file of each.
        counts: of each file.
        refused: files that may not be used, ascending.
    """

    def __init__(
        self, extents: NDArray[np.void], counts: NDArray[np.int64], sizes: NDArray[np.uint64], block: int
    ) -> None:
        import numpy as np

        owner = np.repeat(np.arange(len(counts)), counts)
        # What lies behind the end of the file is allocated for later, and nobody's business.
        used = extents["logical"] < sizes[owner]
        self.owner = owner = owner[used]
        self.logical, self.physical = extents["logical"][used], extents["physical"][used]
        self._flags = extents["flags"][used]
        self.counts = np.bincount(owner, minlength=len(counts))
        self._first = np.cumsum(self.counts) - self.counts
        self._sizes, self._block = sizes, block
        told = extents["length"][used]
        self._ends = self.logical + told
        self._due = np.zeros(len(owner), np.uint64)
        self._due[1:] = self._ends[:-1]
        self._due[self._first[self.counts > 0]] = 0
        self.length = np.minimum(told, sizes[owner] - self.logical)
        # The rules, extent by extent and file by file; `refusal` says them in this order.
        self._bad_flags = (self._flags & np.uint32(~_USABLE & 0xFFFF_FFFF)) != 0
        self._astray = self.logical != self._due
        self._inside = (self.physical % np.uint64(block) != 0) | (self.length % np.uint64(block) != 0)
        self._uneven = (sizes == 0) | (sizes % np.uint64(block) != 0)
        self._none = self.counts == 0
        held = np.zeros(len(counts), np.uint64)
        held[~self._none] = self._ends[(self._first + self.counts - 1)[~self._none]]
        self._short = held < sizes
        wrong = self._uneven | self._none | self._short
        wrong[owner[self._bad_flags | self._astray | self._inside]] = True
        self.refused = np.flatnonzero(wrong)

    def refusal(self, file: int, doing: str) -> TargetSizeWrong | ExtentRefused:
        """Why one of `refused` may not be used."""
        part = slice(int(self._first[file]), int(self._first[file] + self.counts[file]))
        size, block = int(self._sizes[file]), self._block
        if self._uneven[file] and not size:
            return TargetSizeWrong(doing, "the file is empty", "Give it its bytes first (storage.prepare_file).")
        if self._uneven[file]:
            return TargetSizeWrong(
                doing, f"it has {size} bytes, which end inside a block of {block}", "Pad it to whole blocks."
            )
        if self._bad_flags[part].any():
            at = part.start + int(self._bad_flags[part].argmax())
            return _flags_refused(doing, int(self._flags[at]), int(self.logical[at]))
        if self._none[file]:
            return ExtentRefused(doing, "it has no extents at all: all of it is a hole", _REWRITE)
        if self._astray[part].any():
            at = part.start + int(self._astray[part].argmax())
            found, due = int(self.logical[at]), int(self._due[at])
            said = f"a hole from byte {due} to {found}" if found > due else f"extents overlap at byte {found}"
            return ExtentRefused(doing, said, _REWRITE)
        if self._short[file]:
            return ExtentRefused(
                doing, f"a hole from byte {int(self._ends[part.stop - 1])} to its end at {size}", _REWRITE
            )
        at = part.start + int(self._inside[part].argmax())
        return ExtentRefused(
            doing,
            f"{int(self.length[at])} bytes at byte {int(self.physical[at])} of the device, and blocks of {block}",
            "Use a drive with blocks no larger than the file system's.",
        )


def judge(doing: str, raw: bytes, size: int, block: int) -> list[tuple[int, int, int]]:
    """The extents that hold one file's ``size`` bytes, judged: each may be used, and together they have no gap.

    Args:
        doing: for errors.
        raw: ``struct fiemap_extent``, any number.
        size: of the file.
        block: bytes of a drive's block, of which everything must be a multiple.

    Returns:
        (logical, physical, length) of each, in order, the last one cut at the file's end.

    Raises:
        TargetSizeWrong: the file is empty, or ends inside a block.
        ExtentRefused: a flag that is not usable or not known, a hole, an overlap, or a place inside a block.
    """
    import numpy as np

    extents = np.frombuffer(raw, fiemap_dtype())
    judged = Judged(extents, np.array([len(extents)]), np.array([size], np.uint64), block)
    if len(judged.refused):
        raise judged.refusal(0, doing)
    columns = (judged.logical, judged.physical, judged.length)
    return list(zip(*(column.tolist() for column in columns), strict=True))


def _flags_refused(doing: str, found: int, logical: int) -> ExtentRefused:
    known = [flag for flag, judgement in JUDGEMENTS.items() if found & flag and not judgement.usable]
    unknown = found & ~sum(JUDGEMENTS)
    said = [f"FIEMAP_EXTENT_{flag.name}: {JUDGEMENTS[flag].why}" for flag in known]
    if unknown:
        said.append(f"flag {unknown:#x}, which is not known here")
    # SHARED, ENCODED and the like say more of the cause than what comes with them.
    fix = JUDGEMENTS[known[-1]].fix if known else "Use a file system whose flags are known: ext4 or xfs."
    return ExtentRefused(doing, f"the extent at byte {logical} is {'; '.join(said)}", fix)


def extents_stuck(doing: str, extents: NDArray[np.void]) -> ExtentRefused:
    """The kernel tells extents that do not advance, the last of these."""
    ends = (extents["logical"] + extents["length"]).tolist()
    return ExtentRefused(
        doing, f"after byte {max(ends[:-1], default=0)} the next ends at {ends[-1]}", "Check the disk."
    )

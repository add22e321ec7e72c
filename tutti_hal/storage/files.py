"""Files as targets: the image of a drive as it is, or a file on a file system whose device a drive serves."""

from __future__ import annotations

import mmap
import os
import stat
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, NamedTuple

from tutti_hal.errors import ExtentRefused, FilesystemRefused, NotDirect, TargetError, TargetSizeWrong
from tutti_hal.storage.block_stack import BlockStack, Stretch
from tutti_hal.storage.drives import BlockSource
from tutti_hal.storage.extents import cut, extent_dtype, make_extents
from tutti_hal.storage.fiemap import Judged, extents_stuck
from tutti_hal.storage.filesystems import (
    attribute_refusal,
    attributes_refused,
    check_filesystem,
    check_mount,
    filesystem_type,
)
from tutti_hal.storage.open_files import OpenFiles, Stage
from tutti_hal.storage.places import Leaf, Place
from tutti_hal.storage.refusals import check_kind, direct_dropped, open_refusal, system_error, system_refusal
from tutti_hal.storage.watch import FileWatch, pieces

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from tutti_hal.storage.uri import Uri


class Wanted(NamedTuple):
    """A file that is to be found.

    Attributes:
        path: of it.
        uri: which names it, for errors.
        writable: whether writes are asked for.
    """

    path: str
    uri: Uri
    writable: bool


class FileResolver:
    """Finds files on drives: those of a batch of opens.

    Args:
        served: drives by whose bytes they have.
        stack: what tells of devices below devices.
        direct: file systems (st_dev, type) on which a read past the page cache has been seen to work; grows. Whether a
            file is open past it is looked at each time.
    """

    def __init__(
        self,
        served: Mapping[BlockSource, Place],
        stack: BlockStack | None = None,
        direct: set[tuple[int, int]] | None = None,
    ) -> None:
        self._served, self._stack = served, stack or BlockStack()
        self._direct = set() if direct is None else direct

    def resolve_all(self, wanted: Sequence[Wanted]) -> list[Leaf | TargetError]:
        """The extents of files, each on the drives that have its bytes; or why that file cannot be used.

        All are opened and looked at by one native call, then judged together. The caller closes the watches.
        """
        import numpy as np

        outcome: list[Leaf | TargetError | None] = [None] * len(wanted)
        images = [(os.makedev(one.major, one.minor), one.inode) for one in self._served if one.kind == "file"]
        with OpenFiles() as files:
            if wanted:
                files.open([one.path for one in wanted], [one.writable for one in wanted], images)
            try:
                rows = files.rows
                for index in np.flatnonzero(rows["fd"] < 0).tolist():
                    outcome[index] = self._not_opened(wanted[index], rows[index])
                for device in np.unique(rows["device"][rows["fd"] >= 0]).tolist():
                    members = np.flatnonzero((rows["fd"] >= 0) & (rows["device"] == device))
                    self._on_device(device, members, wanted, files, outcome)
            except BaseException:
                close_all(outcome)
                raise
        return [one for one in outcome if one is not None]

    def _not_opened(self, wanted: Wanted, row: NDArray[np.void]) -> Leaf | TargetError:
        """What was not opened: an image of a drive, a device, or what cannot be."""
        doing, path = wanted.uri.doing, wanted.path
        error, mode = system_error(int(row["error"])), int(row["mode"])
        match Stage(int(row["stage"])):
            case Stage.LOOK:
                return system_refusal(doing, path, error)
            case Stage.OPEN:
                return open_refusal(doing, path, error)
            case Stage.DIRECT:
                return direct_dropped(doing, path)
        try:
            check_kind(doing, path, mode)
            identity = _identity(mode, int(row["device"]), int(row["special"]), int(row["inode"]))
            place = self._served.get(identity)
            if place is not None:
                return _whole(doing, [Stretch(0, place.nbytes, place, 0)])
            return _whole(doing, self._stack.route(doing, identity, self._served))
        except TargetError as refusal:
            return refusal

    def _on_device(
        self,
        device: int,
        members: NDArray[np.intp],
        wanted: Sequence[Wanted],
        files: OpenFiles,
        outcome: list[Leaf | TargetError | None],
    ) -> None:
        """The open files of one file system."""
        import numpy as np

        stretches = None
        for skip, index in enumerate(members.tolist()):
            try:
                stretches = self._look_at_filesystem(wanted[index], int(files.rows["fd"][index]), device)
            except TargetError as error:
                outcome[index] = error
                continue
            members = members[skip:]
            break
        if stretches is None:
            return
        rows = files.rows[members]
        told = (rows["stage"] == Stage.READY) & ~attributes_refused(rows["attributes"], rows["extended"])
        for index, row in zip(members[~told].tolist(), rows[~told], strict=True):
            outcome[index] = _extents_refusal(wanted[index].uri.doing, row, files.extents)
        members, rows = members[told], rows[told]
        if (why := _unaligned(stretches)) is not None:
            for index in members.tolist():
                outcome[index] = TargetSizeWrong(wanted[index].uri.doing, *why)
            return
        block = max(one.place.target.block_bytes for one in stretches)
        counts = rows["extents"].astype(np.int64)
        judged = Judged(_of_files(files.extents, rows), counts, rows["size"], block)
        found = _OnDrives(judged, stretches)
        refused = np.union1d(judged.refused, found.refused)
        for file in np.flatnonzero(np.bincount(refused, minlength=len(members))).tolist():
            doing = wanted[members[file]].uri.doing
            outcome[members[file]] = (
                judged.refusal(file, doing) if file in judged.refused else found.refusal(file, doing)
            )
        good = np.ones(len(members), bool)
        good[refused] = False
        fds = iter(files.take(members[good]))
        ends = np.cumsum(found.counts)
        for index, size, raw, first, end in zip(
            members[good].tolist(),
            rows["size"][good].tolist(),
            pieces(files.extents, rows[good]),
            (ends - found.counts)[good].tolist(),
            ends[good].tolist(),
            strict=True,
        ):
            outcome[index] = Leaf(found.rows[first:end], size, block, FileWatch(next(fds), size, block, raw))

    def _look_at_filesystem(self, wanted: Wanted, fd: int, device: int) -> list[Stretch]:
        doing = wanted.uri.doing
        magic = filesystem_type(fd)
        check_filesystem(doing, magic)
        number = os.major(device), os.minor(device)
        check_mount(doing, number)
        stretches = self._stack.route(doing, BlockSource("device", *number), self._served)
        if (device, magic) not in self._direct:
            _check_direct(doing, wanted.path, fd)
            self._direct.add((device, magic))
        return stretches


def close_all(outcome: Sequence[Leaf | TargetError | None]) -> None:
    """Lets the files of what was found go."""
    for one in outcome:
        if isinstance(one, Leaf) and one.watch is not None:
            one.watch.close()


class _OnDrives:
    """Extents on a file system's device as extents on drives.

    Attributes:
        rows: by `extent_dtype`.
        counts: of each file.
        refused: files with bytes where no drive has the device's, ascending.
    """

    def __init__(self, judged: Judged, stretches: Sequence[Stretch]) -> None:
        import numpy as np

        # One of no bytes at the device's beginning, so that every place has a stretch at or before it.
        table = sorted(
            [(one.start, one.nbytes, one.offset, one.place.target.row) for one in stretches] + [(0, 0, 0, 0)]
        )
        start, nbytes, offset, row = (np.array(column, np.uint64) for column in zip(*table, strict=True))
        whole = judged.length > 0
        whole &= ~np.isin(judged.owner, judged.refused)
        physical, logical = judged.physical[whole], judged.logical[whole]
        piece, stretch, first, last = cut(physical, judged.length[whole], start)
        self._end = start[stretch] + nbytes[stretch]
        self._first, self._most = first, int((start + nbytes).max())
        self._file = judged.owner[whole][piece]
        self._astray = last > self._end
        self.rows = np.zeros(len(piece), extent_dtype())
        self.rows["position"] = logical[piece] + (first - physical[piece])
        self.rows["physical"] = offset[stretch] + (first - start[stretch])
        self.rows["nbytes"] = last - first
        self.rows["row"] = row[stretch]
        self.counts = np.bincount(self._file, minlength=len(judged.counts))
        self.refused = np.unique(self._file[self._astray])

    def refusal(self, file: int, doing: str) -> ExtentRefused:
        """Why one of `refused` may not be used."""
        import numpy as np

        piece = int(np.flatnonzero(self._astray & (self._file == file))[0])
        at = max(int(self._first[piece]), int(self._end[piece]))
        return ExtentRefused(
            doing,
            f"it lies at byte {at} of its device, which is on no drive; drives have it up to byte {self._most}",
            "Give the runtime drives with all of the device.",
        )


def _of_files(extents: NDArray[np.void], rows: NDArray[np.void]) -> NDArray[np.void]:
    """The extents of some of the files."""
    import numpy as np

    counts = rows["extents"].astype(np.int64)
    first = np.cumsum(counts) - counts
    chosen: NDArray[np.void] = extents[
        np.arange(int(counts.sum())) + np.repeat(rows["first_extent"].astype(np.int64) - first, counts)
    ]
    return chosen


def _extents_refusal(doing: str, row: NDArray[np.void], extents: NDArray[np.void]) -> TargetError:
    """Why the extents of an open file mean nothing, or are not told."""
    if attributes_refused(row["attributes"], row["extended"]):
        return attribute_refusal(doing, int(row["attributes"]))
    if row["stage"] == Stage.STUCK:
        first = int(row["first_extent"])
        return extents_stuck(doing, extents[first : first + int(row["extents"])])
    return FilesystemRefused(
        doing,
        f"the file system does not tell extents ({os.strerror(int(row['error']))})",
        "Put the file on ext4 or xfs.",
    )


def _identity(mode: int, device: int, special: int, inode: int) -> BlockSource:
    if stat.S_ISBLK(mode):
        return BlockSource("device", os.major(special), os.minor(special))
    return BlockSource("file", os.major(device), os.minor(device), inode)


def _whole(doing: str, stretches: Sequence[Stretch]) -> Leaf:
    """A device as it is, or an image, which the drive itself keeps open.

    Raises:
        TargetSizeWrong: blocks that do not fit.
    """
    import numpy as np

    if (why := _unaligned(stretches)) is not None:
        raise TargetSizeWrong(doing, *why)
    extents = [make_extents([(one.start, one.offset, one.nbytes)], one.place.target.row) for one in stretches]
    block = max(one.place.target.block_bytes for one in stretches)
    return Leaf(np.concatenate(extents), sum(one.nbytes for one in stretches), block)


def _unaligned(stretches: Sequence[Stretch]) -> tuple[str, str] | None:
    """Why the drives' blocks do not fit, and what to do; None where they do."""
    for one in stretches:
        target = one.place.target
        if target.block_bytes != target.lba_bytes:
            return (
                f"blocks of drive '{one.place.drive.name}' have metadata inline",
                "Use a format without them.",
            )
        if one.offset % target.block_bytes:
            return (
                f"its device begins at byte {one.offset} of drive '{one.place.drive.name}', inside a block of "
                f"{target.block_bytes}",
                "Align the partition, or use smaller blocks.",
            )
    return None


def _check_direct(doing: str, path: str, fd: int) -> None:
    """Reads a page past the page cache: the proof that the file system does it.

    Raises:
        NotDirect: it does not.
    """
    try:
        with mmap.mmap(-1, mmap.PAGESIZE) as page:
            os.preadv(fd, [page], 0)
    except OSError as error:
        raise NotDirect(
            doing, f"{path}: a page cannot be read past the page cache ({error.strerror})", "Use ext4 or xfs."
        ) from None

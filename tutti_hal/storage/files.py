"""A file as a target: the image of a drive as it is, or a file on a file system whose device a drive serves.

A file on a file system stays open while it is a target, and its extents are read again before each use: a truncate, a
defragmentation or a reflink between shows itself, and requests are refused. What happens between that look and the
drive's own access is not seen: the file system knows nothing of them. No stat would do instead: the kernel moves ext4
extents without a change of any time (`EXT4_IOC_MOVE_EXT`).
"""

from __future__ import annotations

import errno
import fcntl
import mmap
import os
import stat
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from tutti_hal.errors import (
    ExtentRefused,
    NotDirect,
    TargetDenied,
    TargetError,
    TargetKindWrong,
    TargetMissing,
    TargetSizeWrong,
)
from tutti_hal.storage import fiemap
from tutti_hal.storage.block_stack import BlockStack, Stretch
from tutti_hal.storage.drives import BlockSource
from tutti_hal.storage.extents import extent_dtype, make_extents
from tutti_hal.storage.filesystems import check_attributes, check_filesystem, check_mount, filesystem_type
from tutti_hal.storage.places import Leaf, Place

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray


_KINDS = (
    (stat.S_ISDIR, "a directory"),
    (stat.S_ISFIFO, "a pipe"),
    (stat.S_ISSOCK, "a socket"),
    (stat.S_ISCHR, "a character device"),
)


class FileWatch:
    """An open file, and the places that it had when it was opened.

    Args:
        fd: of the file; the watch closes it.
        size: of the file.
        block: for `fiemap.judge`.
        raw: its extents as the kernel told them: the signature.
    """

    def __init__(self, fd: int, size: int, block: int, raw: bytes) -> None:
        self._fd, self._size, self._block, self._raw = fd, size, block, raw
        self._gone = False

    def moved(self) -> bool:
        """Whether its bytes lie elsewhere now, or may not be used any more; then it stays so. One call mostly."""
        if not self._gone:
            try:
                raw = fiemap.read_raw(self._fd, self._size, sync=False)
                if raw != self._raw:
                    # Told in other pieces, or grown behind its end: that is no move.
                    was, now = (
                        _places(fiemap.judge("use a file", one, self._size, self._block)) for one in (self._raw, raw)
                    )
                    self._gone, self._raw = now != was, raw
            except (OSError, TargetError):
                self._gone = True
        return self._gone

    def close(self) -> None:
        """Closes the file. The second call does nothing."""
        fd, self._fd = self._fd, -1
        if fd >= 0:
            os.close(fd)


class FileResolver:
    """Finds files on drives. What it learns of file systems and devices it keeps for its life: of one batch of opens.

    Args:
        served: drives by whose bytes they have.
        stack: what tells of devices below devices.
    """

    def __init__(self, served: Mapping[BlockSource, Place], stack: BlockStack | None = None) -> None:
        self._served, self._stack = served, stack or BlockStack()
        # By st_dev. Threads may find the same twice, which does no harm.
        self._routes: dict[int, list[Stretch]] = {}

    def resolve(self, doing: str, path: str, writable: bool) -> Leaf:
        """The extents of a file, on the drive that has its bytes.

        Raises:
            TargetError: its subclass says why the file cannot be used.
        """
        try:
            found = os.stat(path)  # noqa: PTH116
        except OSError as error:
            raise system_refusal(doing, path, error) from None
        check_kind(doing, path, found)
        place = self._served.get(_identity(found))
        if place is not None:
            return _image(doing, place)
        if stat.S_ISBLK(found.st_mode):
            return self._device(doing, found)
        return self._file(doing, path, writable)

    def _device(self, doing: str, found: os.stat_result) -> Leaf:
        """A partition or other part of a drive, as it is."""
        import numpy as np

        stretches = self._stack.route(doing, _identity(found), self._served)
        extents = [make_extents([(one.start, one.offset, one.nbytes)], one.place.target.row) for one in stretches]
        return _leaf(doing, np.concatenate(extents), sum(one.nbytes for one in stretches), stretches)

    def _file(self, doing: str, path: str, writable: bool) -> Leaf:
        fd = open_direct(doing, path, writable)
        try:
            found = os.fstat(fd)
            check_kind(doing, path, found)
            stretches = self._routes.get(found.st_dev)
            if stretches is None:
                stretches = self._routes[found.st_dev] = self._look_at_filesystem(doing, path, fd, found)
            check_attributes(doing, fd)
            block = max(one.place.target.block_bytes for one in stretches)
            raw, extents = fiemap.read_extents(doing, fd, found.st_size, block)
            leaf = _leaf(
                doing,
                _onto(doing, extents, stretches),
                found.st_size,
                stretches,
                FileWatch(fd, found.st_size, block, raw),
            )
        except BaseException:
            os.close(fd)
            raise
        return leaf

    def _look_at_filesystem(self, doing: str, path: str, fd: int, found: os.stat_result) -> list[Stretch]:
        check_filesystem(doing, filesystem_type(fd))
        device = os.major(found.st_dev), os.minor(found.st_dev)
        check_mount(doing, device)
        stretches = self._stack.route(doing, BlockSource("device", *device), self._served)
        check_direct(doing, path, fd)
        return stretches


def _places(extents: list[tuple[int, int, int]]) -> list[tuple[int, int, int]]:
    """Extents with those made one that follow on each other."""
    places: list[tuple[int, int, int]] = []
    for logical, physical, length in extents:
        if places and sum(places[-1][1:]) == physical:
            places[-1] = (places[-1][0], places[-1][1], places[-1][2] + length)
        else:
            places.append((logical, physical, length))
    return places


def _identity(found: os.stat_result) -> BlockSource:
    if stat.S_ISBLK(found.st_mode):
        return BlockSource("device", os.major(found.st_rdev), os.minor(found.st_rdev))
    return BlockSource("file", os.major(found.st_dev), os.minor(found.st_dev), found.st_ino)


def _image(doing: str, place: Place) -> Leaf:
    """A file or device that is the whole namespace of a drive: the drive itself keeps it open."""
    extents = make_extents([(0, 0, place.nbytes)], place.target.row)
    return _leaf(doing, extents, place.nbytes, [Stretch(0, place.nbytes, place, 0)])


def _leaf(
    doing: str, extents: NDArray[np.void], nbytes: int, stretches: Sequence[Stretch], watch: FileWatch | None = None
) -> Leaf:
    block = 1
    for one in stretches:
        target = one.place.target
        if target.block_bytes != target.lba_bytes:
            raise TargetSizeWrong(
                doing, f"blocks of drive '{one.place.drive.name}' have metadata inline", "Use a format without them."
            )
        block = max(block, target.block_bytes)
        if one.offset % target.block_bytes:
            raise TargetSizeWrong(
                doing,
                f"its device begins at byte {one.offset} of drive '{one.place.drive.name}', inside a block of "
                f"{target.block_bytes}",
                "Align the partition, or use smaller blocks.",
            )
    return Leaf(extents, nbytes, block, watch)


def _onto(doing: str, extents: list[tuple[int, int, int]], stretches: Sequence[Stretch]) -> NDArray[np.void]:
    """Extents on a file system's device as extents on drives.

    Raises:
        ExtentRefused: one lies where no drive has the device's bytes.
    """
    import numpy as np

    rows: list[tuple[int, int, int, int, int]] = []
    for begin, first, length in extents:
        logical, at, left = begin, first, length
        while left:
            part = next((one for one in stretches if one.start <= at < one.start + one.nbytes), None)
            if part is None:
                most = max(one.start + one.nbytes for one in stretches)
                raise ExtentRefused(
                    doing,
                    f"it lies at byte {at} of its device, which is on no drive; drives have it up to byte {most}",
                    "Give the runtime drives with all of the device.",
                )
            take = min(left, part.start + part.nbytes - at)
            rows.append((logical, part.offset + at - part.start, take, part.place.target.row, 0))
            logical, at, left = logical + take, at + take, left - take
    return np.array(rows, extent_dtype())


def open_direct(doing: str, path: str, writable: bool) -> int:
    """Opens a file past the page cache, and verifies that it is.

    Raises:
        NotDirect: its file system does no direct I/O.
        TargetError: the system refuses.
    """
    flags = (os.O_RDWR if writable else os.O_RDONLY) | os.O_DIRECT | os.O_CLOEXEC | os.O_NONBLOCK
    try:
        fd = os.open(path, flags)
    except OSError as error:
        if error.errno == errno.EINVAL:
            raise NotDirect(
                doing, f"{path}: no direct I/O on this file system", "Put the file on ext4 or xfs."
            ) from None
        raise system_refusal(doing, path, error) from None
    if not fcntl.fcntl(fd, fcntl.F_GETFL) & os.O_DIRECT:
        os.close(fd)
        raise NotDirect(doing, f"{path}: O_DIRECT was taken and dropped", "Put the file on ext4 or xfs.")
    return fd


def check_direct(doing: str, path: str, fd: int) -> None:
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
        return TargetMissing(doing, said, "Create the file first (storage.prepare_file).")
    if isinstance(error, PermissionError) or error.errno == errno.EROFS:
        return TargetDenied(doing, said, "Give this process the right to it, or open it with mode=r.")
    return TargetError(doing, said, "See what the system says.")


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
            fd = open_direct(doing, str(path), True)
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

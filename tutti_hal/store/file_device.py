"""Blocks in a regular file or a block device, by plain system calls: what the command line looks through.

It needs no controller and no ring, so that a store can be looked into on any machine. It takes the store's lock.
"""

from __future__ import annotations

import fcntl
import os
import stat
from collections.abc import Sequence
from pathlib import Path

from tutti_hal.errors import StoreAbsent, StoreDeviceError, StoreLocked, StoreOptionInvalid
from tutti_hal.store.device import Piece, check


def lock(path: Path, *, shared: bool = False) -> int:
    """Opens a file and takes the lock of the store on it. The lock goes with the process, however that ends.

    Returns:
        The file descriptor that holds it; closing it gives the lock back.

    Raises:
        StoreAbsent: no such file, or none that can be opened.
        StoreLocked: somebody else has it.
    """
    try:
        fd = os.open(path, (os.O_RDONLY if shared else os.O_RDWR) | os.O_CLOEXEC)
    except OSError as error:
        raise StoreAbsent(f"open {path}", error.strerror or str(error), "Name the file of a store.") from error
    try:
        fcntl.flock(fd, (fcntl.LOCK_SH if shared else fcntl.LOCK_EX) | fcntl.LOCK_NB)
    except OSError as error:
        os.close(fd)
        raise StoreLocked(
            f"lock the store in {path}", "somebody else has it open", "Close the other one first."
        ) from error
    return fd


class FileDevice:
    """Blocks of a file. A context manager. It holds the store's lock until `close`.

    Args:
        path: a regular file of whole blocks, or a block device.
        block_bytes: of a block; 0 takes what a store in the file says, or 4096.
        read_only: writes are refused; any number of readers may share the store.

    Raises:
        StoreAbsent: there is no such file.
        StoreLocked: another process writes to the store.
        StoreOptionInvalid: neither a file nor a block device, or not a block long.
    """

    volatile = True

    def __init__(self, path: Path, *, block_bytes: int = 0, read_only: bool = False) -> None:
        self.path, self.read_only = path, read_only
        self._fd = lock(path, shared=read_only)
        try:
            mode = os.fstat(self._fd).st_mode
            if not (stat.S_ISREG(mode) or stat.S_ISBLK(mode)):
                raise StoreOptionInvalid(f"use {path}", "it is neither a file nor a block device", "Name one.")
            size = os.lseek(self._fd, 0, os.SEEK_END)
            self.block_bytes = block_bytes or _stored_block_bytes(self._fd) or 4096
            self.blocks = size // self.block_bytes
            if not self.blocks:
                raise StoreOptionInvalid(f"use {path}", f"it has {size} bytes: less than a block", "Make it longer.")
        except BaseException:
            self.close()
            raise

    def read(self, pieces: Sequence[Piece]) -> None:
        """See `BlockDevice.read`."""
        check(self, pieces, "read")
        for piece in pieces:
            self._whole("read", piece)

    def write(self, pieces: Sequence[Piece]) -> None:
        """See `BlockDevice.write`."""
        check(self, pieces, "write")
        if self.read_only:
            raise StoreDeviceError(f"write to {self.path}", "it was opened read-only", "Open it for writing.")
        for piece in pieces:
            self._whole("write", piece)

    def _whole(self, verb: str, piece: Piece) -> None:
        """One piece with as many system calls as it takes."""
        view = memoryview(piece.data)  # type: ignore[arg-type]
        at = piece.lba * self.block_bytes
        moved = 0
        while moved < len(view):
            try:
                if verb == "read":
                    count = os.preadv(self._fd, [view[moved:]], at + moved)
                else:
                    count = os.pwrite(self._fd, view[moved:], at + moved)
            except OSError as error:
                raise StoreDeviceError(
                    f"{verb} {self.path} at byte {at}", error.strerror or str(error), "Look at the file system's state."
                ) from error
            if count == 0:
                raise StoreDeviceError(f"{verb} {self.path} at byte {at}", "it became shorter", "Restore the file.")
            moved += count

    def write_durable(self, piece: Piece) -> None:
        """See `BlockDevice.write_durable`. A file has no FUA: it is a write and a flush."""
        self.write([piece])
        self.flush()

    def flush(self) -> None:
        """See `BlockDevice.flush`."""
        if self.read_only:
            return
        try:
            os.fdatasync(self._fd)
        except OSError as error:
            raise StoreDeviceError(
                f"flush {self.path}", error.strerror or str(error), "Look at the file system's state."
            ) from error

    def close(self) -> None:
        """See `BlockDevice.close`."""
        fd, self._fd = self._fd, -1
        if fd >= 0:
            os.close(fd)

    def __enter__(self) -> FileDevice:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def _stored_block_bytes(fd: int) -> int:
    """The block size of the store in a file, by its first superblock; 0 where there is none."""
    from tutti_hal.store.format import peek_block_bytes

    return peek_block_bytes(os.pread(fd, 512, 0))

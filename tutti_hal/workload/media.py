"""What the software drives keep their bytes in: files past the page cache, or memory."""

from __future__ import annotations

import contextlib
import mmap
import os
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from tutti_hal.errors import MediumError

#: Files are whole multiples of it.
_ALIGNMENT = 1 << 20
_PROBE_BYTES = 4096


@dataclass(frozen=True)
class Media:
    """Where each drive keeps its bytes.

    Attributes:
        drive_bytes: capacity of each drive.
        files: a file for each drive, of that size; empty when drives are memory.
        drives: how many.
        note: why it is memory although nobody asked for it; else empty.
    """

    drive_bytes: int
    files: tuple[Path, ...]
    drives: int
    note: str = ""

    def name(self, drive: int) -> str:
        """The drive's file, or ``memory``."""
        return str(self.files[drive]) if self.files else "memory"


@contextlib.contextmanager
def open_media(drives: int, drive_bytes: int, *, memory: bool, directory: Path | None) -> Iterator[Media]:
    """Makes the drives' files, with all their blocks allocated, and removes them at the end, whatever happened.

    Args:
        drives: how many.
        drive_bytes: capacity of each; rounded up to 1 MiB.
        memory: no files.
        directory: where the files go, in a folder of their own; ``None``: the temporary folder if it does direct I/O,
            else memory, and ``Media.note`` says why.

    Raises:
        MediumError: the folder cannot be used, has no room, or (if it was named) does no direct I/O.
    """
    size = -(-drive_bytes // _ALIGNMENT) * _ALIGNMENT
    if memory:
        yield Media(size, (), drives)
        return
    base = Path(tempfile.gettempdir()) if directory is None else directory
    with contextlib.ExitStack() as stack:
        try:
            folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="tutti-hal-", dir=base)))
        except OSError as error:
            raise MediumError(
                f"making the drives' files in {base}",
                error.strerror or str(error),
                "Give --dir a writable folder, or use --memory.",
            ) from None
        refused = _why_no_direct_io(folder)
        if refused and directory is not None:
            raise MediumError(
                f"making the drives' files in {base}",
                f"its file system does no direct I/O ({refused}), so that figures would be the page cache's",
                "Give --dir a folder on a disk, or use --memory.",
            )
        if refused:
            yield Media(size, (), drives, f"{base} does no direct I/O ({refused}): the drives are memory")
            return
        yield Media(size, tuple(_allocate(folder / f"drive{n}.img", size, drives) for n in range(drives)), drives)


def flip_byte_in_file(path: Path, offset: int) -> None:
    """Inverts one byte of a file, past whoever else has it open, and pushes it down to the medium."""
    file = os.open(path, os.O_RDWR)
    try:
        (byte,) = os.pread(file, 1, offset)
        os.pwrite(file, bytes([byte ^ 0xFF]), offset)
        os.fsync(file)
    finally:
        os.close(file)


def _allocate(path: Path, size: int, drives: int) -> Path:
    try:
        with path.open("xb") as file:
            os.posix_fallocate(file.fileno(), 0, size)
    except OSError as error:
        raise MediumError(
            f"allocating {drives} drives of {size >> 20} MiB in {path.parent.parent}",
            error.strerror or str(error),
            "Make room, lower --cache-mib, give --dir another folder, or use --memory.",
        ) from None
    return path


def _why_no_direct_io(folder: Path) -> str:
    """Empty when a page written past the page cache can be read past it again."""
    path = folder / "probe"
    try:
        file = os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_DIRECT, 0o600)
    except OSError as error:
        return error.strerror or str(error)
    try:
        with mmap.mmap(-1, _PROBE_BYTES) as page:
            page[:] = b"\x5a" * _PROBE_BYTES
            os.pwritev(file, [page], 0)
            page[:] = bytes(_PROBE_BYTES)
            os.preadv(file, [page], 0)
            return "" if page[:] == b"\x5a" * _PROBE_BYTES else "a page did not come back"
    except OSError as error:
        return error.strerror or str(error)
    finally:
        os.close(file)
        path.unlink()

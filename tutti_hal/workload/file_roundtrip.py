"""Any real file through the drives and back, judged against the file itself."""

from __future__ import annotations

import contextlib
import hashlib
import os
import time
import zlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tutti_hal.errors import FileError
from tutti_hal.workload.transport import TRANSFER, Direction, Transport

#: The file is cut into pieces of this size, each one transfer.
CHUNK_BYTES = 32 * 1024
_PAD = 4096  # transfers are whole multiples of it, which is a multiple of every LBA size in use


@dataclass(frozen=True)
class ChunkMismatch:
    """A chunk of the file that came back wrong: where in the file, and where on which drive."""

    file_offset: int
    drive: int
    drive_offset: int
    first_byte: int
    expected_crc32: int
    found_crc32: int


@dataclass(frozen=True)
class RoundTrip:
    """A finished round trip.

    Attributes:
        source, target: the two files.
        size: bytes of the source.
        source_sha256, target_sha256: of the source, and of what came back, as they lie on disk; each read for it.
        write_s, read_s: waiting for drives, without reading, writing and judging the files.
        mismatches: chunks that came back wrong.
    """

    source: Path
    target: Path
    size: int
    source_sha256: str
    target_sha256: str
    write_s: float
    read_s: float
    mismatches: tuple[ChunkMismatch, ...]

    @property
    def verified(self) -> bool:
        """The copy that went through the drives is the file."""
        return self.source_sha256 == self.target_sha256 and not self.mismatches


def default_target(source: Path) -> Path:
    """``PATH.roundtrip`` beside the source."""
    return source.with_name(source.name + ".roundtrip")


def round_trip(
    source: Path,
    target: Path,
    transport: Transport,
    drive_bytes: int,
    *,
    before_read: Callable[[int, int, list[tuple[int, int, int]]], None] | None = None,
    progress: Callable[[int], None] | None = None,
) -> RoundTrip:
    """Writes a file to the drives, reads it back from them into ``target``, and compares.

    The file goes in windows that fit the arena and the drives, chunk by chunk round-robin over the drives. ``target``
    appears whole and right, or not at all (it is written beside its place and renamed); an existing one is replaced.

    Args:
        source: a regular file, not empty.
        target: not the source.
        transport: its arena is used as the window.
        drive_bytes: what may be used of each drive.
        before_read: called after a window was written with (window, bytes in it, [(drive, drive offset, bytes)]);
            for whoever plants faults.
        progress: called with the bytes that came back.

    Raises:
        FileError: the source cannot be read, is empty or changes meanwhile, or the target cannot be written.
        TransportError: a drive refused a command.
    """
    size = check_source(source, target)
    window = min(transport.arena.nbytes, drive_bytes * transport.drives) // CHUNK_BYTES * CHUNK_BYTES
    if window == 0:
        raise ValueError(f"an arena of {transport.arena.nbytes} bytes and drives of {drive_bytes} hold no chunk")
    seconds = {Direction.WRITE: 0.0, Direction.READ: 0.0}
    mismatches: list[ChunkMismatch] = []
    part = target.with_name(f".{target.name}.part{os.getpid()}")
    try:
        with _opened(source, "rb") as incoming, _opened(part, "xb") as outgoing:
            for index, begin in enumerate(range(0, size, window)):
                length = min(window, size - begin)
                transfers = _spread(length, transport.drives)
                arena = transport.arena[:length]
                _read_exactly(incoming, arena, source)
                transport.arena[length : -(-length // _PAD) * _PAD] = 0
                seconds[Direction.WRITE] += _move(transport, Direction.WRITE, transfers)
                if before_read is not None:
                    before_read(
                        index, length, [(int(t["drive"]), int(t["drive_offset"]), int(t["nbytes"])) for t in transfers]
                    )
                transport.arena[:] = 0xA5  # what the read should bring must not be there already
                seconds[Direction.READ] += _move(transport, Direction.READ, transfers)
                mismatches += _judge(source, begin, arena, transfers)
                outgoing.write(arena.data)
                if progress is not None:
                    progress(length)
            outgoing.flush()
            os.fsync(outgoing.fileno())
        trip = RoundTrip(
            source,
            target,
            size,
            _sha256(source),
            _sha256(part),
            seconds[Direction.WRITE],
            seconds[Direction.READ],
            tuple(mismatches),
        )
        if trip.verified:
            part.replace(target)
        return trip
    except OSError as error:
        raise FileError(
            f"copying {source} to {target}",
            error.strerror or str(error),
            "Check that one can be read, that the other can be written, and that there is room.",
        ) from None
    finally:
        with contextlib.suppress(OSError):
            part.unlink(missing_ok=True)


def check_source(source: Path, target: Path) -> int:
    """The size of a file that can be sent.

    Raises:
        FileError: it is no regular file, cannot be read or is empty, or ``target`` is the same file or a directory.
    """
    try:
        if not source.is_file():
            found = "it is not a regular file" if source.exists() else "there is no such file"
            raise FileError(f"sending {source}", found, "Give --file a regular file.")
        size = source.stat().st_size
        if target.exists() and target.samefile(source):
            raise FileError(f"writing {target}", "it is the source itself", "Give --out another path.")
        if target.is_dir():
            raise FileError(f"writing {target}", "it is a directory", "Give --out a file name.")
    except OSError as error:
        raise FileError(f"sending {source}", error.strerror or str(error), "Give --file a readable file.") from None
    if size == 0:
        raise FileError(
            f"sending {source}", "it is empty, so nothing would be proved", "Give --file a file with bytes."
        )
    return size


@contextlib.contextmanager
def _opened(path: Path, mode: str) -> Iterator[Any]:
    try:
        file = path.open(mode)
    except OSError as error:
        verb, fix = (
            ("writing", "Give --out a writable place.") if "x" in mode else ("reading", "Check its permissions.")
        )
        raise FileError(f"{verb} {path}", error.strerror or str(error), fix) from None
    with file:
        yield file


def _spread(length: int, drives: int) -> NDArray[np.void]:
    """Transfers for a window of ``length`` bytes at the start of the arena."""
    chunks = -(-length // CHUNK_BYTES)
    number = np.arange(chunks)
    transfers = np.empty(chunks, TRANSFER)
    transfers["drive"] = number % drives
    transfers["drive_offset"] = number // drives * CHUNK_BYTES
    transfers["arena_offset"] = number * CHUNK_BYTES
    transfers["nbytes"] = CHUNK_BYTES
    transfers["nbytes"][-1] = -(-(length - (chunks - 1) * CHUNK_BYTES) // _PAD) * _PAD
    return transfers


def _move(transport: Transport, direction: Direction, transfers: NDArray[np.void]) -> float:
    begin = time.perf_counter()
    transport.submit(direction, transfers).wait()
    return time.perf_counter() - begin


def _read_exactly(file: Any, into: NDArray[np.uint8], source: Path) -> None:
    view = into.data
    while view.nbytes:
        got = file.readinto(view)
        if not got:
            raise FileError(f"reading {source}", "it became shorter meanwhile", "Send a file that nobody writes to.")
        view = view[got:]


def _judge(source: Path, begin: int, found: NDArray[np.uint8], transfers: NDArray[np.void]) -> Iterator[ChunkMismatch]:
    """Compares a window that came back with the source, which is read once more for it."""
    with source.open("rb") as again:
        again.seek(begin)
        for transfer in transfers:
            at = int(transfer["arena_offset"])
            got = found[at : at + CHUNK_BYTES]
            want = again.read(got.nbytes)
            expected, crc = zlib.crc32(want), zlib.crc32(got.data)
            if expected == crc and len(want) == got.nbytes:
                continue
            same = np.frombuffer(want, np.uint8) == got[: len(want)]
            first = int(np.argmin(same)) if not same.all() else len(want)
            yield ChunkMismatch(
                begin + at + first, int(transfer["drive"]), int(transfer["drive_offset"]), first, expected, crc
            )


def _sha256(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()

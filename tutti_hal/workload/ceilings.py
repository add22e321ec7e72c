"""What bounds a run's throughput, measured in the same run on the same places."""

from __future__ import annotations

import mmap
import os
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from tutti_hal.workload.summary import Ceilings
from tutti_hal.workload.transport import TRANSFER, Direction, Transport

_SAMPLE_BYTES = 8 << 20
_ROUNDS = 3


def measure_ceilings(transport: Transport, unit_bytes: int, drive_bytes: int, medium: Path | None) -> Ceilings:
    """The best of some rounds each; a fraction of a second in all. Overwrites the arena.

    Args:
        transport: nothing in flight.
        unit_bytes: bytes of one transfer, as the run used.
        drive_bytes: what may be read of each drive.
        medium: a drive's file, to be read directly; ``None`` when drives are memory.
    """
    one = _reads(unit_bytes, drive_bytes, transport.arena.nbytes, [0])
    every = _reads(unit_bytes, drive_bytes, transport.arena.nbytes, list(range(transport.drives)))
    return Ceilings(
        copy=_best(_SAMPLE_BYTES, _copy()),
        medium=None if medium is None else _direct(medium, unit_bytes),
        one_drive=_best(int(one["nbytes"].sum()), lambda: transport.submit(Direction.READ, one).wait()),
        all_drives=_best(int(every["nbytes"].sum()), lambda: transport.submit(Direction.READ, every).wait()),
    )


def _best(nbytes: int, work: Callable[[], object]) -> float:
    best = float("inf")
    for _ in range(_ROUNDS):
        begin = time.perf_counter()
        work()
        best = min(best, time.perf_counter() - begin)
    return nbytes / best / 1e9


def _copy() -> Callable[[], object]:
    source = np.ones(_SAMPLE_BYTES, np.uint8)
    target = np.empty_like(source)
    return lambda: np.copyto(target, source)


def _reads(unit: int, drive_bytes: int, arena_bytes: int, drives: list[int]) -> NDArray[np.void]:
    count = max(1, min(_SAMPLE_BYTES, arena_bytes, drive_bytes * len(drives)) // unit)
    number = np.arange(count)
    transfers = np.empty(count, TRANSFER)
    transfers["drive"] = np.array(drives)[number % len(drives)]
    transfers["drive_offset"] = number // len(drives) * unit
    transfers["arena_offset"] = number * unit
    transfers["nbytes"] = unit
    return transfers


def _direct(path: Path, unit: int) -> float | None:
    """One thread, one read at a time, past the page cache; ``None`` where the file system will not."""
    try:
        file = os.open(path, os.O_RDONLY | os.O_DIRECT)
    except OSError:
        return None
    try:
        size = min(os.fstat(file).st_size, _SAMPLE_BYTES) // unit * unit
        with mmap.mmap(-1, unit) as page:
            return _best(size, lambda: [os.preadv(file, [page], at) for at in range(0, size, unit)]) if size else None
    except OSError:
        return None
    finally:
        os.close(file)

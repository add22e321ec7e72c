"""What the cases of this folder share: sizes of blocks in terms of the wave, masks, and the schedules of a world."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from tutti_hal.conformance_tests.run import Run

#: Threads of a block, by the width of a wave: less than a wave, one, and several of which the last is partial.
THREADS: Mapping[str, Callable[[int], int]] = {
    "1": lambda _: 1,
    "w-1": lambda width: width - 1,
    "w": lambda width: width,
    "w+1": lambda width: width + 1,
    "3w-5": lambda width: 3 * width - 5,
}

#: Schedules that show most: no order, few changes of priority, a wave's lanes together, one lane left behind.
POLICIES = ("random", "pct", "lockstep", "starve-one")

#: What stands in memory that no lane has written.
UNTOUCHED32 = 0xFFFFFFFF

Array = np.ndarray[Any, Any]


def threads(run: Run) -> int:
    """The threads of a block, from the axis ``threads``."""
    return THREADS[str(run.axes["threads"])](run.facts.wave_width)


def worlds(run: Run, policies: tuple[str, ...] = POLICIES, each: int = 1) -> Iterator[None]:
    """One pass for each schedule of a simulated world; one pass where time is real."""
    if run.world is None:
        yield
        return
    for policy in policies:
        for _ in run.schedules(each, policy=policy):
            yield


def place(count: int, blocks: int, width: int) -> tuple[Array, Array]:
    """For each thread of a launch along x: the number of its wave among all waves, and its lane, by the contract."""
    rank = np.tile(np.arange(count), blocks)
    waves = -(-count // width)
    return np.repeat(np.arange(blocks), count) * waves + rank // width, rank % width


def masks(run: Run, count: int, blocks: int, *, whole: bool) -> tuple[Array, Array]:
    """Lane masks for each thread of a launch, and a number for each mask, from 0.

    Args:
        run: the source of chance.
        count: threads of a block.
        blocks: of them.
        whole: every lane of a wave is in one mask; else lanes are shared out among two masks and none at all (then the
            mask is 0, and so is its number).
    """
    wave, lane = place(count, blocks, run.facts.wave_width)
    share = np.zeros(len(wave), np.int64) if whole else run.random.integers(0, 3, len(wave))
    key = np.where(share == 2, -1, wave * 2 + share)
    mask = np.zeros(len(wave), np.uint64)
    number = np.zeros(len(wave), np.uint32)
    for index, one in enumerate(np.unique(key[key >= 0])):
        members = key == one
        mask[members] = np.bitwise_or.reduce(np.uint64(1) << lane[members].astype(np.uint64))
        number[members] = index
    return mask, number


def members(mask: Array, width: int) -> Array:
    """Lane masks as rows of booleans, ``width`` to a row."""
    return (mask.astype(np.uint64)[:, None] >> np.arange(width, dtype=np.uint64) & np.uint64(1)).astype(bool)


def bits_of(rows: Array) -> Array:
    """The reverse of :func:`members`."""
    bits: Array = np.bitwise_or.reduce(rows.astype(np.uint64) << np.arange(rows.shape[1], dtype=np.uint64), axis=1)
    return bits


def partners(count: int, blocks: int, width: int) -> Array:
    """For each thread the numbers of the threads in its wave's lanes, ``width`` to a row; -1 where there is none."""
    first = np.tile(np.arange(count) // width * width, blocks)
    start = np.repeat(np.arange(blocks), count) * count
    rank = first[:, None] + np.arange(width)
    return np.where(rank < count, start[:, None] + rank, -1)

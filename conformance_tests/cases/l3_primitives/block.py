"""What the threads of a block share: storage and the barrier."""

from __future__ import annotations

from typing import Any

import numpy as np

from tutti_hal.conformance_tests.case import Observations, case
from tutti_hal.conformance_tests.cases.l3_primitives.grids import UNTOUCHED32, threads, worlds
from tutti_hal.conformance_tests.run import Run
from tutti_hal.conformance_tests.seen import Seen

#: What tells the pieces of storage apart: the low three bits of a number, by column; a column of 64 bits holds two.
_TAGS = ((0, 1), (2, 3), (4, 5), (6, 7))


@case(
    "prim/shared",
    level="L3",
    clauses=("prim.shared.per_block", "prim.shared.distinct"),
    axes={"threads": ("w-1", "w+1", "3w-5")},
    kernels=("probe_control",),
    primitives=("attribute.shared", "barrier.block", "fence.block"),
)
def shared(run: Run) -> Observations:
    """Blocks fill three pieces of storage with numbers of their own, and each thread reads its neighbour's."""
    count, blocks = threads(run), 4
    seen = []
    for _ in worlds(run, ("random", "lockstep")):
        rows = run.buffer(count * blocks * 32, "device", fill=0xFF)
        run.launch(run.kernel("probe_control", "control_shared"), blocks, count, rows)
        seen.append(run.read(rows, np.uint64, (blocks, count, 4)))
    return {"rows": np.stack(seen)}


@shared.judge
def _(seen: Seen) -> None:
    rows = seen["rows"]
    _, blocks, count, _ = rows.shape
    pairs = np.stack([rows >> np.uint64(32), rows & np.uint64(0xFFFFFFFF)], axis=-1)
    # Column 0 holds 32 bits: nothing above them.
    tags = np.array(_TAGS, np.uint64)
    neighbour = (np.arange(count) + 1) % count + np.arange(blocks)[:, None] * count
    wanted = np.broadcast_to(neighbour[None, :, :, None, None].astype(np.uint64), pairs.shape).copy()
    wanted[..., 0, 0] = 0
    seen.equal(
        "prim.shared.distinct", "each piece holds its own numbers", pairs % 8, np.broadcast_to(tags, pairs.shape)
    )
    seen.equal("prim.shared.per_block", "a thread reads what its neighbour in the block put", pairs // 8, wanted)


def _barrier(run: Run, ends: Any) -> Observations:
    count, blocks, rounds = threads(run), 3, 3
    late = run.random.integers(0, 4, count * blocks).astype(np.uint32)
    seen = []
    for _ in worlds(run):
        entered = run.buffer(blocks * rounds * 4, "device")
        rows = run.buffer(count * blocks * rounds * 4, "device", fill=0xFF)
        kernel = run.kernel("probe_control", "control_barrier")
        where = run.array(ends, "device"), run.array(late, "device"), entered, rows
        run.launch(kernel, blocks, count, *where, rounds)
        seen.append(run.read(rows, np.uint32, (blocks, count, rounds)))
    return {"ends": ends.reshape(blocks, count), "seen": np.stack(seen)}


def _judge_barrier(seen: Seen, clause: str) -> None:
    found, ends = seen["seen"], seen["ends"]
    takes_part = ends[:, :, None] > np.arange(found.shape[-1])
    wanted = np.where(takes_part, takes_part.sum(axis=1, keepdims=True), UNTOUCHED32)
    what = "threads that had entered when one had left, in each round"
    seen.equal(clause, what, found, np.broadcast_to(wanted, found.shape).astype(np.uint32))


@case(
    "prim/barrier",
    level="L3",
    clauses=("prim.barrier.waits",),
    axes={"threads": ("1", "w-1", "w", "w+1", "3w-5")},
    kernels=("probe_control",),
    primitives=("barrier.block", "fence.device", "atomic.add.device.u32"),
)
def barrier(run: Run) -> Observations:
    """Whoever has left the barrier finds all threads of its block entered, round after round."""
    return _barrier(run, np.full(threads(run) * 3, 3, np.uint32))


@barrier.judge
def _(seen: Seen) -> None:
    _judge_barrier(seen, "prim.barrier.waits")


@case(
    "prim/barrier.exited",
    level="L3",
    clauses=("prim.barrier.exited_do_not_count",),
    axes={"threads": ("w-1", "w+1", "3w-5")},
    kernels=("probe_control",),
    primitives=("barrier.block",),
)
def barrier_exited(run: Run) -> Observations:
    """Threads end before any of the rounds, some while others wait already; the rest go on."""
    ends = run.random.integers(0, 4, threads(run) * 3).astype(np.uint32)
    return _barrier(run, ends)


@barrier_exited.judge
def _(seen: Seen) -> None:
    _judge_barrier(seen, "prim.barrier.exited_do_not_count")

"""Where the lanes of a wave wait for one another."""

from __future__ import annotations

from typing import Any

import numpy as np

from tutti_hal.conformance_tests.case import Observations, case
from tutti_hal.conformance_tests.cases.l3_primitives.grids import UNTOUCHED32, masks, place, threads, worlds
from tutti_hal.conformance_tests.run import Run
from tutti_hal.conformance_tests.seen import Seen

_BLOCKS = 2
_ROUNDS = 3


def _sync(run: Run, ends: Any) -> Observations:
    count = threads(run)
    wave, _ = place(count, _BLOCKS, run.facts.wave_width)
    late = run.random.integers(0, 4, count * _BLOCKS).astype(np.uint32)
    seen = []
    for _ in worlds(run):
        entered = run.buffer((int(wave.max()) + 1) * _ROUNDS * 4, "device")
        rows = run.buffer(len(wave) * _ROUNDS * 4, "device", fill=0xFF)
        where = run.array(ends, "device"), run.array(late, "device"), entered, rows
        run.launch(run.kernel("probe_wave", "wave_sync"), _BLOCKS, count, *where, _ROUNDS)
        seen.append(run.read(rows, np.uint32, (-1, _ROUNDS)))
    return {"threads": count, "ends": ends, "seen": np.stack(seen)}


def _judge_rounds(seen: Seen, clause: str, group: Any, ends: Any) -> None:
    """Each lane that takes part in a round must have found all of its group that do; the others write nothing."""
    found = seen["seen"]
    takes_part = ends[:, None] > np.arange(found.shape[-1])
    entered = np.zeros((int(group.max()) + 1, found.shape[-1]), np.uint32)
    np.add.at(entered, group, takes_part)
    wanted = np.where(takes_part, entered[group], UNTOUCHED32).astype(np.uint32)
    what = "lanes that had entered when one had left, in each round"
    seen.equal(clause, what, found, np.broadcast_to(wanted, found.shape))


@case(
    "prim/wave.sync",
    level="L3",
    clauses=("prim.wave.sync.live_lanes",),
    axes={"threads": ("1", "w-1", "w", "w+1", "3w-5")},
    kernels=("probe_wave",),
    primitives=("wave.sync", "geometry.lane", "fence.block", "time.pause"),
)
def wave_sync(run: Run) -> Observations:
    """Whoever has left a wave sync finds all lanes of its wave entered, round after round."""
    return _sync(run, np.full(threads(run) * _BLOCKS, _ROUNDS, np.uint32))


@wave_sync.judge
def _(seen: Seen) -> None:
    group, _ = place(seen["threads"], _BLOCKS, seen.facts.wave_width)
    _judge_rounds(seen, "prim.wave.sync.live_lanes", group, seen["ends"])


@case(
    "prim/wave.sync.exited",
    level="L3",
    clauses=("prim.wave.sync.exited_do_not_count",),
    axes={"threads": ("w-1", "w+1", "3w-5")},
    kernels=("probe_wave",),
    primitives=("wave.sync",),
)
def wave_sync_exited(run: Run) -> Observations:
    """Lanes end before any of the rounds, some while others wait already, in whole and partial waves."""
    return _sync(run, run.random.integers(0, _ROUNDS + 1, threads(run) * _BLOCKS).astype(np.uint32))


@wave_sync_exited.judge
def _(seen: Seen) -> None:
    group, _ = place(seen["threads"], _BLOCKS, seen.facts.wave_width)
    _judge_rounds(seen, "prim.wave.sync.exited_do_not_count", group, seen["ends"])


@case(
    "prim/wave.sync_mask",
    level="L3",
    clauses=("prim.wave.sync_mask.waits",),
    axes={"threads": ("w-1", "w+1", "3w-5"), "split": (False, True)},
    needs=("wave.ballot",),
    kernels=("probe_wave",),
    primitives=("wave.sync_mask",),
)
def wave_sync_mask(run: Run) -> Observations:
    """Lanes wait for the lanes of their mask and for no others; a wave is one mask, or split, with some lanes gone."""
    count = threads(run)
    mask, number = masks(run, count, _BLOCKS, whole=not run.axes["split"])
    late = run.random.integers(0, 4, len(mask)).astype(np.uint32)
    seen = []
    for _ in worlds(run):
        entered = run.buffer((int(number.max()) + 1) * _ROUNDS * 4, "device")
        rows = run.buffer(len(mask) * _ROUNDS * 4, "device", fill=0xFF)
        given = [run.array(values, "device") for values in (mask, number, late)]
        run.launch(run.kernel("probe_wave", "wave_sync_mask"), _BLOCKS, count, *given, entered, rows, _ROUNDS)
        seen.append(run.read(rows, np.uint32, (-1, _ROUNDS)))
    return {"threads": count, "masks": mask, "seen": np.stack(seen)}


@wave_sync_mask.judge
def _(seen: Seen) -> None:
    mask = seen["masks"]
    wave, _ = place(seen["threads"], _BLOCKS, seen.facts.wave_width)
    # Masks of one wave do not overlap: a group is a wave and a mask.
    _, group = np.unique(np.stack([wave.astype(np.uint64), mask]), axis=1, return_inverse=True)
    ends = np.where(mask != 0, _ROUNDS, 0)
    _judge_rounds(seen, "prim.wave.sync_mask.waits", group.reshape(-1), ends)

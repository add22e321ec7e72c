"""What the lanes of a mask find out together, and what can be read from a mask."""

from __future__ import annotations

import numpy as np

from tutti_hal.conformance_tests.case import Observations, case
from tutti_hal.conformance_tests.cases.l3_primitives.grids import (
    UNTOUCHED32,
    bits_of,
    masks,
    members,
    partners,
    place,
    threads,
    worlds,
)
from tutti_hal.conformance_tests.run import Run
from tutti_hal.conformance_tests.seen import Seen

_BLOCKS = 2
_THREADS = ("w-1", "w", "3w-5")
_UNTOUCHED64 = 0xFFFFFFFFFFFFFFFF


@case(
    "prim/wave.active",
    level="L3",
    clauses=("prim.wave.active.includes_caller", "prim.wave.active.only_callers"),
    axes={"threads": ("1", "w-1", "w", "3w-5"), "parted": (False, True)},
    needs=("wave.ballot",),
    kernels=("probe_wave",),
    primitives=("wave.active",),
)
def wave_active(run: Run) -> Observations:
    """Lanes together, or parted into two branches and none, ask who reached the call with them."""
    count = threads(run)
    total = count * _BLOCKS
    branches = (run.random.integers(0, 3, total) if run.axes["parted"] else np.ones(total)).astype(np.uint32)
    branches[0] = 1
    seen = []
    for _ in worlds(run):
        found = run.buffer(total * 8, "device")
        kernel = run.kernel("probe_wave", "wave_active")
        run.launch(kernel, _BLOCKS, count, run.array(branches, "device"), found)
        seen.append(run.read(found, np.uint64))
    return {"threads": count, "branches": branches, "found": np.stack(seen)}


@wave_active.judge
def _(seen: Seen) -> None:
    count, branches, width = seen["threads"], seen["branches"], seen.facts.wave_width
    _, lane = place(count, _BLOCKS, width)
    others = partners(count, _BLOCKS, width)
    asks = branches != 0
    for mask in seen["found"]:
        named = members(mask, width)
        itself = named[np.arange(len(mask)), lane]
        clause = "prim.wave.active.includes_caller"
        seen.equal(clause, "a lane that asks finds itself, one that does not writes nothing", itself, asks)
        # Whoever is named exists, came by the same branch, and was told the same mask.
        same = (others >= 0) & (branches[others] == branches[:, None]) & (mask[others] == mask[:, None])
        wrong = np.flatnonzero((named & ~same).any(axis=1) & asks)
        clause, what = "prim.wave.active.only_callers", "all lanes named reached the same call and got the same mask"
        seen.holds(clause, what, not len(wrong), {int(i): hex(int(mask[i])) for i in wrong[:4]}, int(named.sum()))
    beyond = seen["found"] >> np.uint64(width) if width < 64 else np.zeros(1, np.uint64)
    seen.equal("prim.wave.active.only_callers", "bits above the width", int(beyond.max()), 0)


@case(
    "prim/wave.ballot",
    level="L3",
    clauses=("prim.wave.ballot.bits",),
    axes={"threads": _THREADS, "split": (False, True)},
    needs=("wave.ballot",),
    kernels=("probe_wave",),
    primitives=("wave.ballot",),
)
def wave_ballot(run: Run) -> Observations:
    """Each mask votes twice, on a bit of each lane and on its opposite."""
    count = threads(run)
    mask, _ = masks(run, count, _BLOCKS, whole=not run.axes["split"])
    bits = run.random.integers(0, 2, len(mask)).astype(np.uint32)
    seen = []
    for _ in worlds(run):
        found = run.buffer(len(mask) * 16, "device", fill=0xFF)
        given = run.array(mask, "device"), run.array(bits, "device")
        run.launch(run.kernel("probe_wave", "wave_ballot"), _BLOCKS, count, *given, found)
        seen.append(run.read(found, np.uint64, (-1, 2)))
    return {"threads": count, "masks": mask, "bits": bits, "found": np.stack(seen)}


@wave_ballot.judge
def _(seen: Seen) -> None:
    mask, width = seen["masks"], seen.facts.wave_width
    bit = seen["bits"][partners(seen["threads"], _BLOCKS, width)] != 0
    named = members(mask, width)
    wanted = np.stack([bits_of(named & bit), bits_of(named & ~bit)], axis=1)
    wanted[mask == 0] = _UNTOUCHED64
    for found in seen["found"]:
        seen.equal("prim.wave.ballot.bits", "ballots of a bit and of its opposite", found, wanted)


@case(
    "prim/wave.shuffle",
    level="L3",
    clauses=("prim.wave.shuffle.value",),
    axes={"bits": (32, 64), "threads": _THREADS, "split": (False, True)},
    needs=("wave.ballot",),
    kernels=("probe_wave",),
    primitives=("wave.shuffle.*",),
)
def wave_shuffle(run: Run) -> Observations:
    """Each lane asks a lane of its mask for its value; all bits of the value are random."""
    count, bits = threads(run), int(run.axes["bits"])
    dtype = np.dtype(f"u{bits // 8}")
    mask, _ = masks(run, count, _BLOCKS, whole=not run.axes["split"])
    named = members(mask, run.facts.wave_width)
    sources = np.where(named, run.random.random(named.shape), -1.0).argmax(axis=1).astype(np.uint32)
    values = run.random.integers(0, 1 << bits, len(mask), dtype)
    seen = []
    for _ in worlds(run):
        found = run.buffer(values.nbytes, "device", fill=0xFF)
        given = [run.array(one, "device") for one in (mask, values, sources)]
        run.launch(run.kernel("probe_wave", f"wave_shuffle_u{bits}"), _BLOCKS, count, *given, found)
        seen.append(run.read(found, dtype))
    return {"threads": count, "masks": mask, "values": values, "sources": sources, "found": np.stack(seen)}


@wave_shuffle.judge
def _(seen: Seen) -> None:
    values, mask = seen["values"], seen["masks"]
    source = partners(seen["threads"], _BLOCKS, seen.facts.wave_width)[np.arange(len(mask)), seen["sources"]]
    untouched = np.iinfo(values.dtype).max
    wanted = np.where(mask != 0, values[source], untouched).astype(values.dtype)
    for found in seen["found"]:
        seen.equal("prim.wave.shuffle.value", "the value of the lane that was asked", found, wanted)


@case(
    "prim/wave.elect",
    level="L3",
    clauses=("prim.wave.elect.exactly_one",),
    axes={"threads": ("1", *_THREADS), "split": (False, True)},
    needs=("wave.ballot",),
    kernels=("probe_wave",),
    primitives=("wave.elect",),
)
def wave_elect(run: Run) -> Observations:
    """Each mask elects."""
    count = threads(run)
    mask, _ = masks(run, count, _BLOCKS, whole=not run.axes["split"] or count == 1)
    seen = []
    for _ in worlds(run, ("random",)):
        found = run.buffer(len(mask) * 4, "device", fill=0xFF)
        run.launch(run.kernel("probe_wave", "wave_elect"), _BLOCKS, count, run.array(mask, "device"), found)
        seen.append(run.read(found, np.uint32))
    return {"threads": count, "masks": mask, "found": np.stack(seen)}


@wave_elect.judge
def _(seen: Seen) -> None:
    mask, width = seen["masks"], seen.facts.wave_width
    _, lane = place(seen["threads"], _BLOCKS, width)
    lowest = members(mask, width).argmax(axis=1) == lane
    wanted = np.where(mask == 0, UNTOUCHED32, np.where(lowest, 2, 1)).astype(np.uint32)
    for found in seen["found"]:
        seen.equal("prim.wave.elect.exactly_one", "2 in the lowest lane of a mask, 1 in its others", found, wanted)


@case(
    "prim/wave.mask",
    level="L3",
    clauses=("prim.wave.mask.arithmetic",),
    needs=("wave.ballot",),
    kernels=("probe_wave",),
    primitives=("wave.mask_popcount", "wave.mask_first", "wave.mask_below"),
)
def wave_mask(run: Run) -> Observations:
    """Population, first lane and lanes below, of the empty, the full, every one-lane and some random masks."""
    bits = run.facts.mask_bits
    random = run.random.integers(0, 1 << bits, 32, np.uint64)
    mask = np.array([0, (1 << bits) - 1, *(1 << lane for lane in range(bits)), *map(int, random)], np.uint64)
    found, below = run.buffer(len(mask) * 8, "device", fill=0xFF), run.buffer((bits + 1) * 8, "device", fill=0xA5)
    kernel = run.kernel("probe_wave", "wave_mask_arithmetic")
    run.launch(kernel, 1, 1, run.array(mask, "device"), len(mask), found, below, bits)
    return {"masks": mask, "found": run.read(found, np.uint32, (-1, 2)), "below": run.read(below, np.uint64)}


@wave_mask.judge
def _(seen: Seen) -> None:
    clause, mask = "prim.wave.mask.arithmetic", [int(one) for one in seen["masks"]]
    count = np.array([one.bit_count() for one in mask], np.uint32)
    first = np.array([(one & -one).bit_length() - 1 if one else UNTOUCHED32 for one in mask], np.uint32)
    seen.equal(clause, "lanes in a mask", seen["found"][:, 0], count)
    seen.equal(clause, "the lowest lane of a mask that is not empty", seen["found"][:, 1], first)
    below = np.array([(1 << lane) - 1 for lane in range(seen.facts.mask_bits + 1)], np.uint64)
    seen.equal(clause, "the lanes below each, and below the end", seen["below"], below)

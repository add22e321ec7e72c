"""Where a thread is, and how many a launch may have."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import numpy as np

from tutti_hal.conformance_tests.case import Observations, case
from tutti_hal.conformance_tests.observation import refusal
from tutti_hal.conformance_tests.run import Run
from tutti_hal.conformance_tests.seen import Seen

_Extent = tuple[int, int, int]

#: Grid and block, by the width of a wave.
_SHAPES: Mapping[str, Callable[[int], tuple[_Extent, _Extent]]] = {
    "one": lambda _: ((1, 1, 1), (1, 1, 1)),
    "line": lambda width: ((3, 1, 1), (width + 1, 1, 1)),
    "plane": lambda width: ((2, 3, 1), (width // 2 + 1, 3, 1)),
    "solid": lambda _: ((2, 3, 2), (5, 3, 2)),
    "deep": lambda width: ((1, 1, 3), (1, 9, width // 8 + 1)),
}

_SPARE_ROWS = 8


@case(
    "prim/geometry",
    level="L3",
    clauses=("prim.geometry.enumerates", "prim.geometry.sizes", "prim.lane.consecutive", "prim.lane.below_width"),
    axes={"shape": tuple(_SHAPES)},
    kernels=("probe_wave",),
    primitives=(
        "geometry.*",
        "attribute.device",
        "attribute.inline",
        "attribute.entry",
        "atomic.add.device.u32",
        "store.relaxed.device.u32",
    ),
)
def geometry(run: Run) -> Observations:
    """Each thread of a grid says once where it is, in what it is, and which lane."""
    grid, block = _SHAPES[str(run.axes["shape"])](run.facts.wave_width)
    capacity = int(np.prod(grid) * np.prod(block)) + _SPARE_ROWS
    tickets, rows = run.buffer(4, "device"), run.buffer(capacity * 13 * 4, "device", fill=0xFF)
    run.launch(run.kernel("probe_wave", "wave_geometry"), grid, block, tickets, rows, capacity)
    ran = int(run.read(tickets, np.uint32)[0])
    return {"grid": grid, "block": block, "ran": ran, "rows": run.read(rows, np.uint32, (-1, 13))[:ran]}


@geometry.judge
def _(seen: Seen) -> None:
    grid, block, width = seen["grid"], seen["block"], seen.facts.wave_width
    (gx, gy, gz), (bx, by, bz) = grid, block
    triples = [(tx, ty, tz, x, y, z) for z, y, x in np.ndindex(gz, gy, gx) for tz, ty, tx in np.ndindex(bz, by, bx)]
    rows = seen["rows"]
    found = sorted(map(tuple, rows[:, :6].tolist()))
    seen.equal("prim.geometry.enumerates", "threads that ran", seen["ran"], len(triples))
    seen.equal("prim.geometry.enumerates", "triples of thread and block", found, sorted(triples))
    sizes = np.tile(np.array([*block, *grid], np.uint32), (len(rows), 1))
    seen.equal("prim.geometry.sizes", "block and grid as each thread sees them", rows[:, 6:12], sizes)
    rank = (rows[:, 2] * by + rows[:, 1]) * bx + rows[:, 0]
    seen.equal("prim.lane.consecutive", "lanes count the threads of a block, x fastest", rows[:, 12], rank % width)
    lanes = rows[:, 12]
    seen.holds("prim.lane.below_width", f"lanes are below {width}", (lanes < width).all(), lanes.max(), lanes)


@case(
    "prim/launch_bounds",
    level="L3",
    clauses=("prim.launch_bounds.refuses",),
    axes={"block": ("line", "solid")},
    kernels=("probe_control",),
    primitives=("attribute.launch_bounds",),
)
def launch_bounds(run: Run) -> Observations:
    """A kernel bound to 64 threads runs with 64, and is refused with more, however they are arranged."""
    allowed, refused = {"line": (64, 65), "solid": ((4, 4, 4), (5, 4, 4))}[str(run.axes["block"])]
    kernel, count = run.kernel("probe_control", "control_bounded"), run.buffer(4, "device")
    run.launch(kernel, 2, allowed, count)
    before = int(run.read(count, np.uint32)[0])
    said = refusal(lambda: run.launch(kernel, 2, refused, count))
    return {"within": before, "beyond": said, "after": int(run.read(count, np.uint32)[0])}


@launch_bounds.judge
def _(seen: Seen) -> None:
    clause = "prim.launch_bounds.refuses"
    seen.equal(clause, "threads that ran in two blocks of 64", seen["within"], 128)
    seen.refused(clause, "a block beyond the bound", seen["beyond"], "LaunchRefused")
    seen.equal(clause, "threads counted after the refusal", seen["after"], 128)

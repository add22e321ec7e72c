"""Where an index lies in a ring: laps and slots for indices that no batch would ever reach."""

from __future__ import annotations

import itertools

import numpy as np

from tutti_hal.conformance_tests.case import Observations, case
from tutti_hal.conformance_tests.run import Run
from tutti_hal.conformance_tests.seen import Seen

_LAST = (1 << 64) - 1
#: Halves of a factor: where a carry comes from, and where none does.
_HALVES = (0, 1, 2, 3, 0x7FFFFFFF, 0x80000000, 0x80000001, 0xFFFFFFFE, 0xFFFFFFFF)
#: Lengths of a ring: the shortest, powers of two, their neighbours, the longest that a queue may have.
_LENGTHS = (1, 2, 3, 4, 5, 7, 8, 12, 63, 64, 65, 1000, 1023, 1024, 1025, 4095, 65535, 65536)


@case(
    "ring/places",
    level="L5",
    clauses=("ring.sq.ticket_never_wraps", "ring.sq.depth_any", "ring.cq.phase_at_wrap"),
    kernels=("probe_ring",),
)
def places(run: Run) -> Observations:
    """Every 64-bit index lies at its remainder, in its lap, for rings of any length."""
    halves = np.array(_HALVES, np.uint64)
    factors = (halves[:, None] << np.uint64(32) | halves).ravel()
    a, b = (one.ravel() for one in np.meshgrid(factors, factors))
    rows = [(index, length, _LAST // length) for length in _LENGTHS for index in _indices(length)]
    rows += [
        (int(i), length, _LAST // length) for length in _LENGTHS for i in run.random.integers(0, _LAST, 8, np.uint64)
    ]
    table = np.array(rows, np.uint64)
    out = run.buffer(8 * len(a))
    laps, slots = run.buffer(8 * len(table)), run.buffer(8 * len(table))
    columns = [run.array(table[:, column]) for column in range(3)]
    run.launch(run.kernel("probe_ring", "probe_ring_products"), 1, 64, run.array(a), run.array(b), len(a), out)
    run.launch(run.kernel("probe_ring", "probe_ring_places"), 1, 64, *columns, len(table), laps, slots)
    return {
        "factors": np.stack([a, b]),
        "products": run.read(out, np.uint64),
        "places": table,
        "laps": run.read(laps, np.uint64),
        "slots": run.read(slots, np.uint64),
    }


def _indices(length: int) -> list[int]:
    """The first ones, those around multiples of the length near powers of two, and the last ones."""
    around = [bound - bound % length for bound in (1 << 31, 1 << 32, 1 << 33, 1 << 48, 1 << 63, _LAST)]
    near = [start + step for start, step in itertools.product([0, length, 2 * length, *around], (-1, 0, 1))]
    return sorted({index for index in [*near, _LAST - 1, _LAST] if 0 <= index <= _LAST})


@places.judge
def _(seen: Seen) -> None:
    a, b = seen["factors"].tolist()
    high = np.array([x * y >> 64 for x, y in zip(a, b, strict=True)], np.uint64)
    seen.equal("ring.sq.ticket_never_wraps", "high halves of products", seen["products"], high)
    rows = seen["places"].tolist()
    laps = np.array([index // length for index, length, _ in rows], np.uint64)
    slots = np.array([index % length for index, length, _ in rows], np.uint64)
    seen.equal("ring.sq.depth_any", "slots of indices", seen["slots"], slots)
    seen.equal("ring.cq.phase_at_wrap", "laps of indices", seen["laps"], laps)

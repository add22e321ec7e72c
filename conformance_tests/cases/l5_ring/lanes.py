"""Lanes that make no progress of their own: of a wave one goes on, until it waits for the others."""

from __future__ import annotations

from tutti_hal.conformance_tests.case import Observations, case
from tutti_hal.conformance_tests.cases.l5_ring.trips import judge_bytes, judge_counts, round_trip
from tutti_hal.conformance_tests.rig import Rig
from tutti_hal.conformance_tests.run import Run
from tutti_hal.conformance_tests.seen import Seen


@case(
    "ring/lanes.one_by_one",
    level="L5",
    clauses=("ring.no_waiter_deadlock", "ring.cq.once"),
    kernels=("ring",),
    axes={"depth": (2, 5)},
)
def one_by_one(run: Run) -> Observations:
    """In a simulated world no lane gives way to another of its wave but at a collective; a device does as it does."""
    found, width = [], min(run.facts.wave_width, 40)
    sizes = {"depth": int(run.axes["depth"]), "lanes": width + 6, "block": width, "batch_limit": 512}
    for _ in run.schedules(2, policy="one-lane"):
        with Rig(run, sizes) as rig:
            found.append(round_trip(rig, 40))
    return {"trips": found}


@one_by_one.judge
def _(seen: Seen) -> None:
    for one in seen["trips"]:
        judge_bytes(seen, "ring.no_waiter_deadlock", one)
        judge_counts(seen, "ring.cq.once", one)

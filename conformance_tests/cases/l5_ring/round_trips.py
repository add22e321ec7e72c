"""Requests there and back: every depth and wave, judged against bytes that were kept aside."""

from __future__ import annotations

from typing import Any

from tutti_hal.conformance_tests.case import Observations, case
from tutti_hal.conformance_tests.cases.l5_ring.trips import judge_bytes, judge_counts, round_trip
from tutti_hal.conformance_tests.rig import BLOCK, Rig
from tutti_hal.conformance_tests.run import Run
from tutti_hal.conformance_tests.seen import Seen


def _lanes(waves: str, width: int) -> tuple[int, int]:
    """Lanes of a launch and of a block."""
    return {"one": (1, 1), "partial": (12, 6), "whole": (width, width), "tail": (width + 5, width + 5)}[waves]


@case(
    "ring/round_trip",
    level="L5",
    clauses=(
        "ring.sq.depth_any",
        "ring.sq.partial_wave",
        "ring.request.data_exact",
        "ring.request.exactly_once",
        "ring.cq.phase_at_wrap",
        "ring.cq.once",
    ),
    kernels=("ring",),
    budget_s=30.0,
    axes={"depth": (2, 3, 8, 23), "waves": ("one", "partial", "whole")},
)
def round_trip_of_a_depth(run: Run) -> Observations:
    """Blocks come back as they were sent, through queues of any depth, from whole, partial and one-lane waves."""
    return {"trips": _trips(run, 37)}


def _trips(run: Run, count: int) -> list[dict[str, Any]]:
    lanes, block = _lanes(str(run.axes["waves"]), run.facts.wave_width)
    trips = []
    for _ in run.schedules(2):
        sizes = {"depth": int(run.axes["depth"]), "lanes": lanes, "block": block, "batch_limit": 2048}
        with Rig(run, sizes, data_bytes=count * BLOCK + 4096) as rig:
            trips.append(round_trip(rig, count))
    return trips


@round_trip_of_a_depth.judge
def _(seen: Seen) -> None:
    for one in seen["trips"]:
        judge_bytes(seen, "ring.request.data_exact", one)
        judge_counts(seen, "ring.sq.partial_wave", one)
        count = len(one["source"]) // BLOCK
        ended = one["written"]["state"] + one["read"]["state"]
        taken = one["counted"]["ring"]["completions"]
        seen.equal("ring.sq.depth_any", "requests that completed", ended.count("COMPLETED"), 2 * count)
        seen.equal(
            "ring.request.exactly_once", "commands that were sent", one["counted"]["ring"]["commands"], 2 * count
        )
        seen.equal("ring.request.exactly_once", "requests that have a final status", len(ended), 2 * count)
        seen.holds(
            "ring.cq.phase_at_wrap",
            "a queue went round more than once, and all of it was taken",
            taken == 2 * count and count > int(seen.axes["depth"]),
            taken,
        )
        posted = sum(queue["posted"] for queue in one["counted"]["queues"])
        seen.equal("ring.cq.once", "entries taken, of those that were posted", (taken, posted), (2 * count, 2 * count))


@case(
    "ring/round_trip.blocks_of_waves",
    level="L5",
    clauses=("ring.sq.depth_any", "ring.sq.partial_wave", "ring.request.data_exact"),
    kernels=("ring",),
    budget_s=30.0,
    axes={"depth": (61,), "waves": ("tail",)},
    quick=False,
)
def round_trip_of_several_waves(run: Run) -> Observations:
    """A block of a whole wave and five lanes more, each lane with several bursts: every block comes back."""
    return {"trips": _trips(run, 8 * run.facts.wave_width + 40)}


@round_trip_of_several_waves.judge
def _(seen: Seen) -> None:
    for one in seen["trips"]:
        judge_bytes(seen, "ring.request.data_exact", one)
        judge_counts(seen, "ring.sq.partial_wave", one)
        ended = one["written"]["state"] + one["read"]["state"]
        seen.equal("ring.sq.depth_any", "requests that completed", ended.count("COMPLETED"), len(ended))

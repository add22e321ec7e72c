"""Lanes that take completions: for everybody, and never half an entry."""

from __future__ import annotations

import numpy as np

from tutti_hal.conformance_tests.case import Observations, case
from tutti_hal.conformance_tests.cases.l5_ring.trips import judge_bytes, judge_counts, round_trip
from tutti_hal.conformance_tests.rig import Rig, drive
from tutti_hal.conformance_tests.run import Run
from tutti_hal.conformance_tests.seen import Seen


@case(
    "ring/completion.race",
    level="L5",
    clauses=(
        "ring.cq.dword_three_first",
        "controller.completion.dword_three_last",
        "controller.dma.data_before_completion",
    ),
    kernels=("ring",),
    budget_s=30.0,
    axes={"depth": (4, 9)},
)
def completion_race(run: Run) -> Observations:
    """Whoever sees a completion's phase sees the rest of it, and the data: no identifier, result or byte of before."""
    trips = []
    for _ in run.schedules(8):
        with Rig(run, {"depth": int(run.axes["depth"]), "lanes": 8, "block": 4}) as rig:
            trips.append(round_trip(rig, 20))
    return {"trips": trips}


@completion_race.judge
def _(seen: Seen) -> None:
    for one in seen["trips"]:
        # A torn entry names another command, or carries another result.
        judge_counts(seen, "ring.cq.dword_three_first", one)
        states = one["written"]["state"] + one["read"]["state"]
        results = np.concatenate([one["written"]["result"], one["read"]["result"]])
        clause = "controller.completion.dword_three_last"
        seen.equal(clause, "requests that completed", states.count("COMPLETED"), 40)
        seen.equal(clause, "results of commands that have none", results, np.zeros(40, np.uint32))
        source = one["source"]
        clause = "controller.dma.data_before_completion"
        seen.equal(clause, "bytes that came back", one["memory"][: len(source)], source)


@case("ring/any_reaper", level="L5", clauses=("ring.cq.any_reaper",), kernels=("ring",), budget_s=30.0)
def any_reaper(run: Run) -> Observations:
    """Four waves of one lane and one request each: who comes first takes the completions of all."""
    # The drive posts four at once, so that there is something to take for others.
    hold_ns = 50_000 if run.world is not None else 50_000_000
    together = drive(cqe_batch=4, hold_ns=hold_ns)
    trips = []
    for _ in run.schedules(4):
        for _ in range(1 if run.world is not None else 4):
            with Rig(run, {"depth": 16, "lanes": 4, "block": 1}, drives=[together]) as rig:
                trips.append(round_trip(rig, 4))
    return {"trips": trips}


@any_reaper.judge
def _(seen: Seen) -> None:
    reaps = [one["counted"]["ring"]["reaps"] for one in seen["trips"]]
    for one in seen["trips"]:
        judge_bytes(seen, "ring.cq.any_reaper", one)
        judge_counts(seen, "ring.cq.any_reaper", one)
    # Each lane has one request a batch: where fewer than eight takings served two batches, one took another's.
    served = [taken < 8 for taken in reaps]
    seen.holds("ring.cq.any_reaper", "lanes took completions of other lanes' requests", any(served), reaps, reaps)

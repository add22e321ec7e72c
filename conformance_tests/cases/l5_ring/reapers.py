"""Lanes that take completions: for everybody, and never half an entry."""

from __future__ import annotations

import numpy as np

from tutti_hal.conformance_tests.case import Observations, case
from tutti_hal.conformance_tests.cases.l5_ring.trips import judge_bytes, judge_counts, round_trip
from tutti_hal.conformance_tests.rig import Rig, drive
from tutti_hal.conformance_tests.run import Run
from tutti_hal.conformance_tests.seen import Seen
from tutti_hal.nvme.software_config import FaultAction, FaultRule


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


#: Entries of a queue, and requests of one lane that wait in it for nothing.
_WAITS = ((8, 1), (8, 7), (200, 1), (200, 7))


@case("ring/waiter", level="L5", clauses=("ring.cq.waiter_reads_own",), kernels=("ring",))
def waiter(run: Run) -> Observations:
    """A lane that waits looks as often in the same time, however long its queue is and however many wait in it."""
    fault = FaultRule(action=FaultAction.STUCK, opcode=2)
    limit = Rig.short_ns(run)
    looks, states = [], []
    for depth, count in _WAITS:
        for _ in run.schedules(1, policy="fair"):
            sizes = {"depth": depth, "lanes": 1, "block": 1, "limit_ns": limit}
            with Rig(run, sizes, drives=[drive(mqes=255)], faults=[fault]) as rig:
                states.append(rig.submit("read", lba=np.arange(count), offset=0)["state"])
                # It looks for completions once each time, and finds none.
                looks.append(rig.counted()["ring"]["cq_loads"])
    return {"looks": looks, "states": states}


@waiter.judge
def _(seen: Seen) -> None:
    clause = "ring.cq.waiter_reads_own"
    for (_, count), states in zip(_WAITS, seen["states"], strict=True):
        seen.equal(clause, "requests that waited in vain", states, ["TIMED_OUT"] * count)
    # A lane that read entries of its queue, or records of other requests, would look less often by tens of times.
    looks = seen["looks"]
    most = 1.1 if seen.facts.simulated else 10.0
    seen.holds(clause, "looks, of four that waited as long", min(looks) * most >= max(looks) > 10, looks, looks)

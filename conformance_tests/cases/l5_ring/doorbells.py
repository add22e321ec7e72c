"""Doorbells: never backwards, never past what is published, never lost, and few."""

from __future__ import annotations

from typing import Any

from tutti_hal.conformance_tests.case import Observations, case
from tutti_hal.conformance_tests.cases.l5_ring.trips import judge_bytes, judge_counts, round_trip
from tutti_hal.conformance_tests.rig import BLOCK, Rig, drive
from tutti_hal.conformance_tests.run import Run
from tutti_hal.conformance_tests.seen import Seen

#: In real time a machine may stop a lane between any two of its steps, and then few are in flight: the clause is about
#: many. A ring that does not share its doorbells does so in no trip.
_TRIES = 4


@case(
    "ring/doorbell.coalesced",
    level="L5",
    clauses=("ring.doorbell.coalesced", "ring.doorbell.increases", "ring.cq.doorbell_in_time"),
    kernels=("ring",),
)
def coalesced(run: Run) -> Observations:
    """With a deep queue in flight, one doorbell covers many commands, and each covers something new."""
    # Every lane has a burst of eight, and every lane gets its turn: with so many in flight the clause binds.
    sizes = {"depth": 64, "lanes": 32, "block": 32, "batch_limit": 512}
    trips = []
    for _ in range(1 if run.world is not None else _TRIES):
        for _ in run.schedules(1, policy="fair"):
            with Rig(run, sizes, data_bytes=256 * BLOCK) as rig:
                trips.append(round_trip(rig, 256))
    return {"trips": trips}


@coalesced.judge
def _(seen: Seen) -> None:
    few = []
    for one in seen["trips"]:
        ring, [queue] = one["counted"]["ring"], one["counted"]["queues"]
        judge_counts(seen, "ring.doorbell.increases", one)
        bad = one["counted"]["drives"][0]["bad_doorbells"]
        seen.equal("ring.doorbell.increases", "doorbells outside a queue", bad, 0)
        if seen.facts.simulated:
            # A world loses no write to a register.
            found, wanted = [queue["sq_doorbells"], queue["cq_doorbells"]], [ring["doorbells"], ring["cq_doorbells"]]
            seen.equal("ring.doorbell.increases", "doorbells that the drive saw, each another value", found, wanted)
        seen.holds(
            "ring.cq.doorbell_in_time",
            "one doorbell for each half of the completion queue at least",
            ring["cq_doorbells"] >= ring["completions"] // 32,
            ring["cq_doorbells"],
            ring["completions"],
        )
        few.append(0 < queue["sq_doorbells"] <= ring["commands"] // 8)
    # Threads poll their registers: there the drive counts at least what mattered to it, and the clause is about that.
    rung = [one["counted"]["queues"][0]["sq_doorbells"] for one in seen["trips"]]
    seen.holds(
        "ring.doorbell.coalesced",
        "doorbells are at most an eighth of the commands, as the drive counts them",
        any(few),
        rung,
        seen["trips"][0]["counted"]["ring"]["commands"],
    )


@case(
    "ring/doorbell.race",
    level="L5",
    clauses=(
        *("ring.doorbell.not_lost", "ring.doorbell.single_leader", "ring.doorbell.fence_once"),
        "ring.sq.published_before_doorbell",
    ),
    kernels=("ring",),
    budget_s=30.0,
    axes={"schedules": (40,)},
)
def race(run: Run) -> Observations:
    """Waves of one lane and one command each ring at once, and nothing comes after: all of it is fetched, whole."""
    return {"trips": _race(run, int(run.axes["schedules"]))}


def _race(run: Run, schedules: int) -> list[dict[str, Any]]:
    trips = []
    with Rig(run, {"depth": 8, "lanes": 4, "block": 1}) as rig:
        # One rig for all: what races is a launch, and the queue's words are as they were left.
        for _ in range(schedules):
            trips.append(round_trip(rig, 4))
    return trips


@race.judge
def _(seen: Seen) -> None:
    last = seen["trips"][-1]["counted"]
    for one in seen["trips"]:
        ended = one["written"]["state"] + one["read"]["state"]
        seen.equal("ring.doorbell.not_lost", "requests that completed", ended.count("COMPLETED"), 8)
        judge_bytes(seen, "ring.sq.published_before_doorbell", one)
        # Without the fence, or with a narrower one, the drive reads what lay in the entry before.
        moved = bytes(one["stored"]) == bytes(one["source"]) == bytes(one["memory"][: len(one["source"])])
        seen.holds("ring.doorbell.fence_once", "the drive did what the entries said", moved, None, 4)
    total = 4 * len(seen["trips"])
    drive_ = last["drives"][0]
    seen.equal(
        "ring.sq.published_before_doorbell", "commands that the drive was given", drive_["io"], {"1": total, "2": total}
    )
    seen.equal("ring.doorbell.single_leader", "doorbells outside the queue", drive_["bad_doorbells"], 0)
    seen.equal("ring.doorbell.single_leader", "completions of nobody's", last["ring"]["strays"], 0)


@case(
    "ring/doorbell.stride",
    level="L5",
    clauses=("ring.doorbell.stride_followed", "nvme.doorbell.stride"),
    kernels=("ring",),
    axes={"dstrd": (0, 1, 4)},
)
def stride(run: Run) -> Observations:
    """A drive whose doorbells lie further apart is rung where they lie, on each of its queues."""
    with Rig(run, {"queues": (1,)}, drives=[drive(dstrd=int(run.axes["dstrd"])), drive()]) as rig:
        pairs = [pair for handle in rig.handles for pair in handle.pairs]
        offsets = [[pair.qid, pair.sq_tail_offset, pair.cq_head_offset] for pair in pairs]
        return {"trip": round_trip(rig, 24), "offsets": offsets}


@stride.judge
def _(seen: Seen) -> None:
    one = seen["trip"]
    judge_counts(seen, "ring.doorbell.stride_followed", one)
    seen.equal("ring.doorbell.stride_followed", "what came back", one["memory"][: len(one["source"])], one["source"])
    for (qid, tail, head), dstrd in zip(seen["offsets"], (int(seen.axes["dstrd"]), 0), strict=True):
        apart = 4 << dstrd
        wanted = [0x1000 + 2 * qid * apart, 0x1000 + (2 * qid + 1) * apart]
        seen.equal("nvme.doorbell.stride", f"doorbell offsets of queue {qid}", [tail, head], wanted)

"""Doorbells: ahead of their entries, lost between two leaders, before their memory, at the wrong place."""

from __future__ import annotations

from tutti_hal.conformance_tests.case import Observations, case
from tutti_hal.conformance_tests.cases.l5_hazards.worlds import judge_completed, queues, trips
from tutti_hal.conformance_tests.cases.l5_ring.trips import judge_bytes, judge_counts, round_trip
from tutti_hal.conformance_tests.rig import Rig, drive
from tutti_hal.conformance_tests.run import Run
from tutti_hal.conformance_tests.seen import Seen

#: Waves of one lane and one command each: everything that races, races at once.
_RACE = {"depth": 8, "lanes": 4, "block": 1}
#: Commands of such a race in which each wave has a whole burst.
_BURSTS = 32


def _race(run: Run, rounds: int) -> Observations:
    found = []
    for _ in run.schedules(3):
        # One rig for many batches: the queue's words are as the batch before left them.
        with Rig(run, _RACE) as rig:
            found.append([round_trip(rig, 4) for _ in range(rounds)])
    return {"found": found}


@case(
    "hazard/h15.doorbell_ahead_of_entries",
    level="L5",
    clauses=("ring.doorbell.increases", "ring.doorbell.single_leader", "ring.sq.published_before_doorbell"),
    kernels=("ring",),
    budget_s=30.0,
    quick=False,
)
def doorbell_ahead_of_entries(run: Run) -> Observations:
    """Leaders that race must not tell of an entry that is not written yet, nor take a tail back."""
    found = []
    for _ in run.schedules(6):
        # Bursts: each has many marks behind one fence.
        with Rig(run, {**_RACE, "depth": 64}) as rig:
            found.append([round_trip(rig, _BURSTS) for _ in range(4)])
    return {"found": found}


@doorbell_ahead_of_entries.judge
def _(seen: Seen) -> None:
    for rounds in seen["found"]:
        for one in rounds:
            judge_bytes(seen, "ring.sq.published_before_doorbell", one)
        last = rounds[-1]["counted"]
        wanted = {"1": _BURSTS * len(rounds), "2": _BURSTS * len(rounds)}
        # Of a doorbell that went back, the drive would fetch a whole lap again.
        seen.equal("ring.doorbell.increases", "commands that the drive was given", last["drives"][0]["io"], wanted)
        wrong = [last["drives"][0]["bad_doorbells"], last["ring"]["strays"]]
        seen.equal("ring.doorbell.single_leader", "wrong doorbells, and completions of nobody's", wrong, [0, 0])


@case(
    "hazard/h16.doorbell_lost_at_unlock",
    level="L5",
    clauses=("ring.doorbell.not_lost", "ring.request.exactly_once"),
    kernels=("ring",),
    budget_s=30.0,
    quick=False,
)
def doorbell_lost_at_unlock(run: Run) -> Observations:
    """Who finds the doorbell held goes away; the holder, just leaving, must still see that one's entry."""
    return _race(run, 24)


@doorbell_lost_at_unlock.judge
def _(seen: Seen) -> None:
    for rounds in seen["found"]:
        for one in rounds:
            judge_completed(seen, "ring.doorbell.not_lost", one)
        judge_counts_of_all(seen, rounds)


def judge_counts_of_all(seen: Seen, rounds: list[dict[str, object]]) -> None:
    """Each command of all batches over one rig was sent once and taken once."""
    last = rounds[-1]["counted"]
    assert isinstance(last, dict)
    sent = [last["ring"]["commands"], last["ring"]["completions"]]
    seen.equal("ring.request.exactly_once", "commands, and completions taken", sent, [8 * len(rounds)] * 2)


@case(
    "hazard/h17.doorbell_before_memory",
    level="L5",
    clauses=("ring.doorbell.fence_once", "ring.sq.published_before_doorbell"),
    kernels=("ring",),
    budget_s=30.0,
    axes={"lanes": (1, 12)},
    quick=False,
)
def doorbell_before_memory(run: Run) -> Observations:
    """Registers and memory are reached on different ways: a drive may hear of an entry before its bytes are there."""
    lanes = int(run.axes["lanes"])
    return {"trips": trips(run, {"depth": 5, "lanes": lanes, "block": min(lanes, 6)}, 24, ("fair", "random", "pct"))}


@doorbell_before_memory.judge
def _(seen: Seen) -> None:
    for one in seen["trips"]:
        judge_bytes(seen, "ring.sq.published_before_doorbell", one)
        judge_counts(seen, "ring.doorbell.fence_once", one)


@case(
    "hazard/h29.doorbell_stride",
    level="L5",
    clauses=("ring.doorbell.stride_followed", "nvme.doorbell.stride", "ring.host.nothing_hard_coded"),
    kernels=("ring",),
    axes={"dstrd": (0, 1, 4)},
)
def doorbell_stride(run: Run) -> Observations:
    """A ring that takes doorbells for words side by side rings another queue's where they lie further apart."""
    sizes = {"queues": (queues(run, 3),), "lanes": 130, "block": 130}
    with Rig(run, sizes, drives=[drive(dstrd=int(run.axes["dstrd"]))]) as rig:
        offsets = [[pair.qid, pair.sq_tail_offset, pair.cq_head_offset] for pair in rig.handles[0].pairs]
        return {"trip": round_trip(rig, 40), "offsets": offsets}


@doorbell_stride.judge
def _(seen: Seen) -> None:
    one, apart = seen["trip"], 4 << int(seen.axes["dstrd"])
    judge_bytes(seen, "ring.host.nothing_hard_coded", one)
    judge_counts(seen, "ring.doorbell.stride_followed", one)
    seen.equal("ring.doorbell.stride_followed", "wrong doorbells", one["counted"]["drives"][0]["bad_doorbells"], 0)
    wanted = [[qid, 0x1000 + 2 * qid * apart, 0x1000 + (2 * qid + 1) * apart] for qid, _, _ in seen["offsets"]]
    seen.equal("nvme.doorbell.stride", "queues and where their doorbells lie", seen["offsets"], wanted)

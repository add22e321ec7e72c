"""Places in a submission queue: how many there are, what happens when none is left, when one is used again."""

from __future__ import annotations

import numpy as np

from tutti_hal.conformance_tests.case import Observations, case
from tutti_hal.conformance_tests.cases.l5_ring.trips import judge_bytes, judge_counts, round_trip
from tutti_hal.conformance_tests.rig import BLOCK, Rig, drive
from tutti_hal.conformance_tests.run import Run
from tutti_hal.conformance_tests.seen import Seen
from tutti_hal.nvme.software_config import CompletionOrder, FaultAction, FaultRule

#: Waves of a crowd, of one lane and one request each; a command's time, in which a busy one looks many times.
_CROWD, _SLOW_NS = 64, 20_000


@case(
    "ring/full",
    level="L5",
    clauses=(
        "ring.sq.full.refuses",
        "ring.sq.full.one_slot_spare",
        "ring.request.refused_not_run",
        "ring.host.partial_commit",
        "ring.timeout.kernel_ends",
        "ring.wait.bounded",
    ),
    kernels=("ring",),
    axes={"depth": (2, 3, 8)},
)
def full(run: Run) -> Observations:
    """A drive that never answers gets one command less than the queue has entries; the kernel ends, all told."""
    sizes = {"depth": int(run.axes["depth"]), "limit_ns": Rig.short_ns(run)}
    stuck = FaultRule(action=FaultAction.STUCK, opcode=2)
    with Rig(run, sizes, faults=[stuck]) as rig:
        before = _now(rig)
        ended = rig.submit("read", lba=np.arange(40), offset=np.arange(40) * BLOCK)
        took = _now(rig) - before
        return {"ended": ended, "took_ns": took, "limit_ns": rig.options.limit_ns, "counted": rig.counted()}


def _now(rig: Rig) -> int:
    import time

    return int(rig.world.now_ns) if rig.world is not None else time.monotonic_ns()


@full.judge
def _(seen: Seen) -> None:
    depth, states = int(seen.axes["depth"]), seen["ended"]["state"]
    ring, drive_ = seen["counted"]["ring"], seen["counted"]["drives"][0]
    seen.equal("ring.sq.full.one_slot_spare", "commands that the drive was given", drive_["io"], {"2": depth - 1})
    seen.equal("ring.sq.full.refuses", "tickets that were given out", ring["commands"], depth - 1)
    seen.equal(
        "ring.request.refused_not_run",
        "requests that ran into their deadline, and that were not run",
        [states.count("TIMED_OUT"), states.count("NOT_RUN")],
        [depth - 1, 40 - (depth - 1)],
    )
    unrun = [row for row, state in enumerate(states) if state == "NOT_RUN"]
    seen.holds(
        "ring.host.partial_commit",
        "each request that was not run says why",
        all(seen["ended"]["why"][row] in ("QUEUE_FAILED", "STARVED") for row in unrun),
        seen["ended"]["why"],
        unrun,
    )
    seen.equal("ring.timeout.kernel_ends", "requests that the kernel left without an end", states.count("IN_FLIGHT"), 0)
    sent = [row for row, state in enumerate(states) if state == "TIMED_OUT"]
    took, limit = seen["ended"]["took_ns"][sent], seen["limit_ns"]
    seen.holds(
        "ring.wait.bounded", "no command is given up before its deadline", bool((took >= limit).all()), took, sent
    )
    # In a virtual clock nothing but the ring itself is late; elsewhere the machine may be.
    most = limit * 11 // 10 if seen.facts.simulated else 20 * limit
    seen.holds("ring.wait.bounded", "none is waited for much longer", bool((took <= most).all()), took, sent)
    seen.holds("ring.timeout.kernel_ends", "the kernel ends soon after", seen["took_ns"] <= 2 * most, seen["took_ns"])


@case(
    "ring/partial_grant",
    level="L5",
    clauses=("ring.sq.partial_grant", "ring.request.data_exact"),
    kernels=("ring",),
    budget_s=30.0,
    axes={"depth": (4, 6, 14)},
)
def partial_grant(run: Run) -> Observations:
    """Lanes that ask for bursts of eight where five or so are left get those, and every ticket becomes a command."""
    trips = []
    for _ in run.schedules(4):
        with Rig(run, {"depth": int(run.axes["depth"]), "lanes": 4, "block": 2}) as rig:
            trips.append(round_trip(rig, 48))
    return {"trips": trips}


@partial_grant.judge
def _(seen: Seen) -> None:
    for one in seen["trips"]:
        judge_bytes(seen, "ring.request.data_exact", one)
        judge_counts(seen, "ring.sq.partial_grant", one)
        seen.equal("ring.sq.partial_grant", "tickets that were given out", one["counted"]["ring"]["commands"], 96)


@case(
    "ring/more_lanes_than_places",
    level="L5",
    clauses=("ring.no_waiter_deadlock", "ring.sq.try_never_blocks"),
    kernels=("ring",),
    budget_s=30.0,
    axes={"depth": (2, 5)},
)
def more_lanes_than_places(run: Run) -> Observations:
    """Many more lanes than a queue has places, all of them waiting, get everything done under any schedule."""
    trips = []
    width = run.facts.wave_width
    # Lockstep lets one lane of a wave wait for another for ever, if one ever does.
    policies = ("lockstep", "fair", "random", "pct")
    for number, policy in enumerate(policies):
        for _ in run.schedules(1, policy=policy, **({"pct_depth": 3} if policy == "pct" else {})):
            if run.world is None and number:
                break
            sizes = {"depth": int(run.axes["depth"]), "lanes": width, "block": max(width // 2 - 3, 1)}
            with Rig(run, sizes) as rig:
                trips.append(round_trip(rig, 60))
    return {"trips": trips}


@more_lanes_than_places.judge
def _(seen: Seen) -> None:
    for one in seen["trips"]:
        ended = one["written"]["state"] + one["read"]["state"]
        seen.equal("ring.no_waiter_deadlock", "requests that completed", ended.count("COMPLETED"), 120)
        judge_counts(seen, "ring.sq.try_never_blocks", one)


@case(
    "ring/crowd",
    level="L5",
    clauses=("ring.wait.place", "ring.request.data_exact"),
    kernels=("ring",),
    budget_s=30.0,
    axes={"depth": (2, 3)},
)
def crowd(run: Run) -> Observations:
    """Lanes wait for a place longer than a command may take, while others of their queue get on: all are served."""
    trips = []
    limit = Rig.short_ns(run)
    for _ in run.schedules(1):
        sizes = {"depth": int(run.axes["depth"]), "lanes": 20, "block": 4, "limit_ns": limit}
        with Rig(run, sizes, drives=[drive(latency_ns=limit // 4)]) as rig:
            before = _now(rig)
            trip = round_trip(rig, 20)
            trips.append({**trip, "took_ns": _now(rig) - before})
    return {"trips": trips, "limit_ns": limit}


@crowd.judge
def _(seen: Seen) -> None:
    for one in seen["trips"]:
        ended = one["written"]["state"] + one["read"]["state"]
        seen.equal("ring.wait.place", "requests that completed", ended.count("COMPLETED"), 40)
        # The last lane of each batch waited so long: else nothing was shown.
        seen.holds(
            "ring.wait.place", "both batches outlast a deadline", one["took_ns"] > 4 * seen["limit_ns"], one["took_ns"]
        )
        judge_bytes(seen, "ring.request.data_exact", one)


@case(
    "ring/crowd.seldom",
    level="L5",
    clauses=("ring.wait.place",),
    kernels=("ring",),
    needs=("wave.ballot",),
    budget_s=30.0,
    only=lambda _, facts: facts.simulated,
)
def seldom(run: Run) -> Observations:
    """A crowd of waves on a queue of one command: all together look hardly more often than one that has it alone."""
    trips = {}
    for waves in (1, _CROWD):
        for _ in run.schedules(1, policy="fair"):
            sizes = {"depth": 2, "lanes": waves, "block": 1}
            with Rig(run, sizes, drives=[drive(latency_ns=_SLOW_NS)]) as rig:
                trips[str(waves)] = round_trip(rig, _CROWD)
    return {"trips": trips}


@seldom.judge
def _(seen: Seen) -> None:
    looks = {}
    for waves, one in seen["trips"].items():
        ended = one["written"]["state"] + one["read"]["state"]
        seen.equal("ring.wait.place", "requests that completed", ended.count("COMPLETED"), 2 * _CROWD)
        looks[waves] = one["counted"]["ring"]["cq_loads"]
    alone, crowded = looks["1"], looks[str(_CROWD)]
    seen.holds(
        "ring.wait.place",
        "reads of completion entries, of a crowd and of one wave",
        crowded <= 8 * alone,
        crowded,
        alone,
    )


@case(
    "ring/slot_reuse",
    level="L5",
    clauses=("ring.sq.slot_reuse_after_fetch", "ring.request.data_exact"),
    kernels=("ring",),
    budget_s=30.0,
    axes={"lag": (0, 2)},
)
def slot_reuse(run: Run) -> Observations:
    """With more commands outstanding than entries, an entry is written again only once the drive has fetched it."""
    trips = []
    slow = drive(
        order=CompletionOrder.RANDOM, hold_ns=4000, latency_ns=3000, fetch_batch=1, sqhd_lag=int(run.axes["lag"])
    )
    for _ in run.schedules(4):
        with Rig(run, {"depth": 4, "cq_depth": 32, "command_limit": 20, "lanes": 8, "block": 4}, drives=[slow]) as rig:
            trips.append(round_trip(rig, 40))
    return {"trips": trips}


@slot_reuse.judge
def _(seen: Seen) -> None:
    for one in seen["trips"]:
        judge_bytes(seen, "ring.request.data_exact", one)
        judge_counts(seen, "ring.sq.slot_reuse_after_fetch", one)

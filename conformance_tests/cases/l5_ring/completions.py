"""Completions: in any order, twice, late, of nobody, over memory that was not clean, and given back in time."""

from __future__ import annotations

import time
from typing import Any

import numpy as np

from tutti_hal.conformance_tests.case import Observations, case
from tutti_hal.conformance_tests.cases.l5_ring.trips import judge_bytes, judge_counts, round_trip
from tutti_hal.conformance_tests.rig import BLOCK, Rig, drive
from tutti_hal.conformance_tests.run import Run
from tutti_hal.conformance_tests.seen import Seen
from tutti_hal.nvme.software_config import CompletionOrder, FaultAction, FaultRule

#: The request that fails, and how.
_FAILS, _STATUS = 5, (2, 0x81)


@case(
    "ring/order",
    level="L5",
    clauses=("ring.cq.by_cid", "ring.request.batch_order_free", "controller.completion.out_of_order"),
    kernels=("ring",),
    axes={"order": ("fifo", "reverse", "random")},
)
def order(run: Run) -> Observations:
    """In whatever order commands complete, each status and each block belongs to its own request."""
    # A window is held so long that a slow machine fills it, where time is real.
    hold_ns = 200_000 if run.world is not None else 100_000_000
    config = drive(
        order=CompletionOrder[str(run.axes["order"]).upper()], order_window=6, hold_ns=hold_ns, seed=run.seed
    )
    found = []
    for _ in run.schedules(3):
        # One lane and one place for each command: the order is the drive's alone.
        with Rig(run, {"depth": 16, "lanes": 1, "block": 1}, drives=[config]) as rig:
            trip = round_trip(rig, 12)
            rig.controllers[0].inject(
                FaultRule(action=FaultAction.STATUS, opcode=2, lbas=(_FAILS, _FAILS), status=_STATUS)
            )
            rig.put()
            at = np.arange(12)
            ended = rig.submit("read", lba=at, offset=at * BLOCK)
            found.append({"trip": trip, "ended": ended, "memory": rig.get(12 * BLOCK), "order": _order(rig, ended)})
    return {"found": found}


def _order(rig: Rig, ended: dict[str, Any]) -> list[int]:
    """In which order completions lie in the queue: the last dozen, by identifier, as requests."""
    [pair] = rig.handles[0].pairs
    whole = pair.cq_memory.read(0, 16 * pair.cq_depth)
    entries = [int.from_bytes(whole[16 * slot + 12 : 16 * slot + 14], "little") for slot in range(pair.cq_depth)]
    # 36 completions were posted, of which these are the last twelve.
    last = [entries[number % pair.cq_depth] for number in range(24, 36)]
    owners = {int(identifier): row for row, identifier in enumerate(ended["identifiers"])}
    return [owners.get(identifier, -1) for identifier in last]


@order.judge
def _(seen: Seen) -> None:
    for one in seen["found"]:
        judge_bytes(seen, "ring.request.batch_order_free", one["trip"])
        statuses = [[0, 0]] * 12
        statuses[_FAILS] = list(_STATUS)
        seen.equal(
            "ring.cq.by_cid",
            "statuses of twelve requests of which one failed",
            one["ended"]["status"].tolist(),
            statuses,
        )
        source = one["trip"]["source"].reshape(12, BLOCK)
        rows = [row for row in range(12) if row != _FAILS]
        seen.equal(
            "ring.cq.by_cid", "blocks of those that did not", one["memory"].reshape(12, BLOCK)[rows], source[rows]
        )
        found = one["order"]
        seen.equal(
            "controller.completion.out_of_order", "requests whose completions are there", sorted(found), list(range(12))
        )
    orders = [one["order"] for one in seen["found"]]
    wanted = {
        "fifo": lambda got: got == list(range(12)),
        "reverse": lambda got: got == [5, 4, 3, 2, 1, 0, 11, 10, 9, 8, 7, 6],
        "random": lambda got: got != list(range(12)) and set(got[:6]) == set(range(6)),
    }[str(seen.axes["order"])]
    seen.holds(
        "controller.completion.out_of_order",
        "completions lie in the order of the policy",
        all(map(wanted, orders)),
        orders,
        36,
    )


@case(
    "ring/completion.twice",
    level="L5",
    clauses=("ring.cq.duplicate_counted", "ring.request.exactly_once"),
    kernels=("ring",),
)
def twice(run: Run) -> Observations:
    """Completions that come twice, and completions of commands that nobody sent, are counted and change nothing."""
    faults = [
        FaultRule(action=FaultAction.DUPLICATE, opcode=1, nth=3, count=4),
        FaultRule(action=FaultAction.UNKNOWN_CID, opcode=2, nth=8, count=2),
    ]
    trips = []
    for _ in run.schedules(6):
        with Rig(run, {"depth": 5}, faults=faults) as rig:
            trips.append(round_trip(rig, 20))
    return {"trips": trips}


@twice.judge
def _(seen: Seen) -> None:
    for one in seen["trips"]:
        judge_bytes(seen, "ring.cq.duplicate_counted", one)
        judge_counts(seen, "ring.cq.duplicate_counted", one, strays=6)
        ended = one["written"]["state"] + one["read"]["state"]
        seen.equal("ring.request.exactly_once", "requests that completed", ended.count("COMPLETED"), 40)


@case(
    "ring/completion.late",
    level="L5",
    clauses=("ring.cq.late_counted", "ring.timeout.cid_quarantined", "ring.timeout.queue_marked"),
    kernels=("ring",),
)
def late(run: Run) -> Observations:
    """A completion after its request's deadline is counted; the request stays timed out, its identifier unused."""
    limit = Rig.short_ns(run)
    too_late = Rig.latest_ns(run, limit) + limit // 2
    faults = [
        FaultRule(action=FaultAction.DELAY, lbas=(2, 2), count=1, delay_ns=too_late),
        FaultRule(action=FaultAction.DELAY, lbas=(3, 3), count=1, delay_ns=limit // 2),
    ]
    at = np.arange(24)
    with Rig(run, {"depth": 6, "limit_ns": limit}, faults=faults) as rig:
        first = rig.submit("read", lba=at, offset=at * BLOCK)
        came = wait_for_all(rig)
        # Nothing can be submitted, and lanes of this batch see what came.
        second = rig.submit("read", lba=at[:4], offset=0)
        return {"first": first, "came": came, "second": second, "counted": rig.counted()}


def wait_for_all(rig: Rig) -> bool:
    """Until every command that was fetched has its completion; false where that does not come to pass."""
    [pair] = rig.handles[0].pairs
    end = time.monotonic() + 5
    while time.monotonic() < end:
        counters = rig.controllers[0].queue_counters(pair.qid)
        if counters.commands == counters.completions:
            return True
        if rig.world is not None:
            rig.world.run(256)
        else:
            time.sleep(0.005)
    return False


@late.judge
def _(seen: Seen) -> None:
    first, second, ring = seen["first"], seen["second"], seen["counted"]["ring"]
    states = first["state"]
    seen.holds("ring.cq.late_counted", "the late completion came", seen["came"], seen["came"])
    seen.equal("ring.cq.late_counted", "state of the request that was late", states[2], "TIMED_OUT")
    seen.equal("ring.cq.late_counted", "state of the request that was slow, but in time", states[3], "COMPLETED")
    seen.equal(
        "ring.cq.late_counted", "late completions, and completions of nobody's", [ring["lates"], ring["strays"]], [1, 0]
    )
    sent = [row for row, state in enumerate(states) if state in ("COMPLETED", "TIMED_OUT")]
    seen.equal("ring.timeout.cid_quarantined", "commands withdrawn", ring["quarantined"], 1)
    seen.equal(
        "ring.timeout.cid_quarantined",
        "uses of the identifier of the command that was withdrawn",
        [int(first["identifiers"][row]) for row in sent].count(int(first["identifiers"][2])),
        1,
    )
    seen.equal(
        "ring.timeout.queue_marked",
        "what is wrong with the queue",
        seen["counted"]["queues"][0]["health"],
        ["TIMED_OUT"],
    )
    seen.equal("ring.timeout.queue_marked", "states of what came after", second["state"], ["NOT_RUN"] * 4)
    seen.equal("ring.timeout.queue_marked", "why", second["why"], ["QUEUE_FAILED"] * 4)
    seen.equal(
        "ring.timeout.queue_marked",
        "commands that the drive was given",
        seen["counted"]["drives"][0]["io"],
        {"2": len(sent)},
    )


@case(
    "ring/completion.stale_memory",
    level="L5",
    clauses=("ring.cq.stale_ignored",),
    kernels=("ring",),
    axes={"byte": (0x00, 0xFF)},
)
def stale_memory(run: Run) -> Observations:
    """Whatever the memory of a completion queue held before, nothing of it is taken for a completion."""
    trips = []
    for _ in run.schedules(2):
        with Rig(run, {"depth": 7}, stale=int(run.axes["byte"])) as rig:
            trips.append(round_trip(rig, 20))
    return {"trips": trips}


@stale_memory.judge
def _(seen: Seen) -> None:
    for one in seen["trips"]:
        judge_bytes(seen, "ring.cq.stale_ignored", one)
        judge_counts(seen, "ring.cq.stale_ignored", one)


@case(
    "ring/completion.small_queue",
    level="L5",
    clauses=("ring.cq.doorbell_in_time", "ring.cq.doorbell_after_read", "controller.completion.queue_full_waits"),
    kernels=("ring",),
    axes={"cq_depth": (2, 3, 5)},
)
def small_queue(run: Run) -> Observations:
    """A completion queue smaller than what is in flight: the drive waits for room, gets it, and nothing is lost."""
    trips = []
    for _ in run.schedules(3):
        with Rig(run, {"depth": 12, "cq_depth": int(run.axes["cq_depth"])}) as rig:
            trips.append(round_trip(rig, 40))
    return {"trips": trips}


@small_queue.judge
def _(seen: Seen) -> None:
    # A queue of n entries holds n - 1, and half of it is n // 2 or one.
    half = max(int(seen.axes["cq_depth"]) // 2, 1)
    waits = 0
    for one in seen["trips"]:
        judge_counts(seen, "ring.cq.doorbell_after_read", one)
        judge_bytes(seen, "controller.completion.queue_full_waits", one)
        rung = one["counted"]["ring"]["cq_doorbells"]
        seen.holds(
            "ring.cq.doorbell_in_time", "one doorbell for each half of the queue at least", rung >= 80 // half, rung, 80
        )
        waits += one["counted"]["drives"][0]["cq_full_waits"]
    if seen.facts.simulated:  # elsewhere reapers may always be quicker
        seen.holds("controller.completion.queue_full_waits", "the drive had to wait for room", waits > 0, waits)

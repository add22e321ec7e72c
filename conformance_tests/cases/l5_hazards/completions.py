"""Completions that are not what they seem: stale, torn, of another lap, in another order, overrun, taken twice."""

from __future__ import annotations

import numpy as np

from tutti_hal.conformance_tests.case import Observations, case
from tutti_hal.conformance_tests.cases.l5_hazards.worlds import judge_completed, queues, trips, worlds
from tutti_hal.conformance_tests.cases.l5_ring.trips import judge_bytes, judge_counts, round_trip
from tutti_hal.conformance_tests.rig import BLOCK, Rig, drive
from tutti_hal.conformance_tests.run import Run
from tutti_hal.conformance_tests.seen import Seen
from tutti_hal.nvme.software_config import CompletionOrder, FaultAction, FaultRule


@case(
    "hazard/h11.stale_completion",
    level="L5",
    clauses=("ring.cq.stale_ignored", "ring.recovery.recreated_works"),
    kernels=("ring",),
    axes={"byte": (0x00, 0xFF)},
)
def stale_completion(run: Run) -> Observations:
    """Memory of a completion queue that was in use before, by whomever, or by the queue's own former life."""
    fault = FaultRule(action=FaultAction.LOST, opcode=2, nth=18, count=1)
    at = np.arange(20)
    with Rig(run, {"depth": 7, "limit_ns": Rig.short_ns(run)}, stale=int(run.axes["byte"])) as rig:
        first = round_trip(rig, 20)
        rig.controllers[0].inject(fault)
        rig.submit("read", lba=at, offset=0)
        # Now its memory holds completions of both phases.
        recovered = len(rig.ring.recover())
        return {"first": first, "recovered": recovered, "second": round_trip(rig, 20)}


@stale_completion.judge
def _(seen: Seen) -> None:
    judge_bytes(seen, "ring.cq.stale_ignored", seen["first"])
    judge_counts(seen, "ring.cq.stale_ignored", seen["first"])
    seen.equal("ring.recovery.recreated_works", "queues that were made anew", seen["recovered"], 1)
    judge_bytes(seen, "ring.recovery.recreated_works", seen["second"])
    again = seen["second"]["counted"]["ring"]
    found = [again["completions"], again["strays"], again["lates"]]
    seen.equal("ring.cq.stale_ignored", "completions, strays and late ones of the new life", found, [40, 0, 0])


@case(
    "hazard/h12.torn_completion",
    level="L5",
    clauses=("ring.cq.dword_three_first", "controller.completion.dword_three_last"),
    kernels=("ring",),
    budget_s=30.0,
    axes={"depth": (3, 8)},
    quick=False,
)
def torn_completion(run: Run) -> Observations:
    """An entry whose last word is new and whose first words are of a lap ago would name the wrong command."""
    sizes = {"depth": int(run.axes["depth"]), "lanes": 6, "block": 3}
    found = []
    for _ in run.schedules(6):
        with Rig(run, sizes) as rig:
            found.append(round_trip(rig, 24))
    return {"trips": found}


@torn_completion.judge
def _(seen: Seen) -> None:
    for one in seen["trips"]:
        judge_counts(seen, "ring.cq.dword_three_first", one)
        judge_bytes(seen, "controller.completion.dword_three_last", one)


@case(
    "hazard/h13.phase_at_wrap",
    level="L5",
    clauses=("ring.cq.phase_at_wrap", "ring.cq.once", "controller.completion.phase"),
    kernels=("ring",),
    budget_s=30.0,
    axes={"cq_depth": (2, 5, 16)},
    quick=False,
)
def phase_at_wrap(run: Run) -> Observations:
    """Completions out of order, many laps long, lanes on either side of the end: the next lap is not read early."""
    mixed = drive(order=CompletionOrder.RANDOM, order_window=5, hold_ns=3000, seed=run.seed)
    sizes = {"depth": 12, "cq_depth": int(run.axes["cq_depth"]), "lanes": 10, "block": 5}
    return {"trips": trips(run, sizes, 36, ("random", "lockstep"), drives=[mixed])}


@phase_at_wrap.judge
def _(seen: Seen) -> None:
    for one in seen["trips"]:
        judge_completed(seen, "ring.cq.phase_at_wrap", one)
        judge_counts(seen, "ring.cq.once", one)
        posted = one["counted"]["queues"][0]["posted"]
        seen.equal("controller.completion.phase", "completions that were posted", posted, 72)


@case(
    "hazard/h14.cq_overrun",
    level="L5",
    clauses=("ring.cq.doorbell_in_time", "ring.cq.doorbell_after_read", "controller.completion.queue_full_waits"),
    kernels=("ring",),
    budget_s=30.0,
    axes={"cq_depth": (2, 4, 9), "batch": (1, 3)},
    quick=False,
)
def cq_overrun(run: Run) -> Observations:
    """A completion queue much smaller than what is in flight, filled singly or in batches, never runs over or dry."""
    together = drive(cqe_batch=int(run.axes["batch"]), hold_ns=2000)
    sizes = {"depth": 16, "cq_depth": int(run.axes["cq_depth"]), "lanes": 6, "block": 3}
    return {"trips": trips(run, sizes, 36, ("random", "starve-one"), drives=[together])}


@cq_overrun.judge
def _(seen: Seen) -> None:
    half = max(int(seen.axes["cq_depth"]) // 2, 1)
    for one in seen["trips"]:
        judge_counts(seen, "ring.cq.doorbell_after_read", one)
        judge_completed(seen, "controller.completion.queue_full_waits", one)
        rung = one["counted"]["ring"]["cq_doorbells"]
        enough = rung >= 72 // half
        seen.holds("ring.cq.doorbell_in_time", "a doorbell for each half of the queue at least", enough, rung, 72)


#: Block -> what the drive answers for it.
_FAILS = {3: (2, 0x81), 4: (0, 0x80), 10: (1, 0x80)}


@case(
    "hazard/h19.out_of_order",
    level="L5",
    clauses=("ring.cq.by_cid", "ring.request.batch_order_free", "ring.request.status_reported"),
    kernels=("ring",),
    budget_s=30.0,
    axes={"order": ("reverse", "random", "starve")},
    quick=False,
)
def out_of_order(run: Run) -> Observations:
    """Completions in another order than their commands, batched, or with one queue's always last, find their own."""
    hold_ns = 100_000 if run.world is not None else 5_000_000
    config = drive(
        order=CompletionOrder[str(run.axes["order"]).upper()],
        order_window=6,
        starved_queue=1,
        cqe_batch=2,
        hold_ns=hold_ns,
        seed=run.seed,
    )
    faults = [
        FaultRule(action=FaultAction.STATUS, opcode=2, lbas=(lba, lba), status=status) for lba, status in _FAILS.items()
    ]
    at, found = np.arange(14), []
    # Lanes of two waves: so both queues are used.
    sizes = {"depth": 9, "queues": (queues(run, 2),), "lanes": 2 * run.facts.wave_width, "block": run.facts.wave_width}
    for _ in worlds(run, ("random", "lockstep")):
        with Rig(run, sizes | {"batch_limit": 2048}, drives=[config], data_bytes=64 * BLOCK) as rig:
            trip = round_trip(rig, 40)
            for rule in faults:
                rig.controllers[0].inject(rule)
            rig.put()
            ended = rig.submit("read", lba=at, offset=at * BLOCK)
            found.append({"trip": trip, "ended": ended, "memory": rig.get(14 * BLOCK)})
    return {"found": found}


@out_of_order.judge
def _(seen: Seen) -> None:
    wanted = [list(_FAILS.get(row, (0, 0))) for row in range(14)]
    fine = [row for row in range(14) if row not in _FAILS]
    for one in seen["found"]:
        judge_bytes(seen, "ring.request.batch_order_free", one["trip"])
        judge_counts(seen, "ring.cq.by_cid", one["trip"])
        found = one["ended"]["status"].tolist()
        seen.equal("ring.request.status_reported", "statuses of requests, three of which fail", found, wanted)
        source = one["trip"]["source"][: 14 * BLOCK].reshape(14, BLOCK)
        got = one["memory"].reshape(14, BLOCK)
        seen.equal("ring.cq.by_cid", "blocks of those that did not fail", got[fine], source[fine])


@case(
    "hazard/h32.head_moves_during_scan",
    level="L5",
    clauses=("ring.cq.once", "ring.cq.any_reaper", "ring.cq.duplicate_counted"),
    kernels=("ring",),
    budget_s=30.0,
    axes={"cq_depth": (3, 6)},
    quick=False,
)
def head_moves_during_scan(run: Run) -> Observations:
    """Many waves look at one completion queue while others take a whole lap of it: none believes what is old."""
    together = drive(cqe_batch=3, hold_ns=1000)
    sizes = {"depth": 6, "cq_depth": int(run.axes["cq_depth"]), "lanes": 8, "block": 2}
    found = []
    for _ in run.schedules(6):
        with Rig(run, sizes, drives=[together]) as rig:
            found.append(round_trip(rig, 32))
    return {"trips": found}


@head_moves_during_scan.judge
def _(seen: Seen) -> None:
    for one in seen["trips"]:
        judge_counts(seen, "ring.cq.once", one)
        judge_completed(seen, "ring.cq.any_reaper", one)
        ring = one["counted"]["ring"]
        seen.equal("ring.cq.duplicate_counted", "completions of nobody's", [ring["strays"], ring["lates"]], [0, 0])

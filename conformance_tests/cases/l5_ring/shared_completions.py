"""Submission queues that share a completion queue: whose completion it is, and how they are made to work again."""

from __future__ import annotations

from typing import Any

import numpy as np

from tutti_hal.conformance_tests.ablations import limits
from tutti_hal.conformance_tests.case import Observations, case
from tutti_hal.conformance_tests.cases.l5_hazards.worlds import trips
from tutti_hal.conformance_tests.cases.l5_ring.steps import LIMITS_NS, recover, step_limits
from tutti_hal.conformance_tests.cases.l5_ring.trips import judge_bytes, judge_counts, round_trip
from tutti_hal.conformance_tests.observation import refusal
from tutti_hal.conformance_tests.rig import BLOCK, Rig, drive
from tutti_hal.conformance_tests.run import Run
from tutti_hal.conformance_tests.seen import Seen
from tutti_hal.nvme.software_config import CompletionOrder, FaultAction, FaultRule

_READ, _ABORT, _DELETE_SQ = 2, 0x08, 0x00


def _two_queues(run: Run) -> tuple[dict[str, Any], int]:
    """Options of two queues on one completion queue, and requests of which each queue gets some.

    Of two blocks of one lane less than a wave, each is a wave: the first has the first queue, the other the second.
    """
    width = run.device.wave_width
    # Drives that grant one queue pair have nothing to share.
    queues = min(2, limits(run.subject.spec.ablation).get("io_queues", 2))
    sizes = {"queues": (queues,), "queues_per_cq": 2, "lanes": width, "block": width - 1, "batch_limit": 2 * width}
    return sizes, width + 12


@case(
    "ring/shared.trip",
    level="L5",
    clauses=("ring.cq.shared", "ring.cq.by_cid", "controller.completion.queue_full_waits"),
    kernels=("ring",),
    axes={"cq_depth": (2, 5, 16), "order": ("fifo", "random")},
    only=lambda axes, _: (axes["order"] == "fifo") == (axes["cq_depth"] == 5),
)
def trip(run: Run) -> Observations:
    """Two queues of equal identifiers in flight complete to one queue, smaller and larger than either, in any order."""
    sizes, count = _two_queues(run)
    sizes |= {"depth": 12, "cq_depth": int(run.axes["cq_depth"])}
    order = CompletionOrder[str(run.axes["order"]).upper()]
    config = drive(order=order, order_window=3, hold_ns=20_000 if run.world is not None else 1_000_000, seed=run.seed)
    faults = [
        FaultRule(action=FaultAction.DUPLICATE, opcode=1, nth=3, count=2),
        FaultRule(action=FaultAction.UNKNOWN_CID, opcode=_READ, nth=5, count=2),
    ]
    found = trips(run, sizes, count, ("random",), drives=[config], faults=faults, data_bytes=count * BLOCK)
    return {"trips": found}


@trip.judge
def _(seen: Seen) -> None:
    # A completion queue of two entries never holds a completion and its repetition: then there is none.
    strays = 4 if seen.axes["cq_depth"] != 2 else 0
    for one in seen["trips"]:
        judge_bytes(seen, "ring.cq.by_cid", one)
        judge_counts(seen, "ring.cq.shared", one, strays=strays)
        for queue in one["counted"]["queues"]:
            seen.holds("ring.cq.shared", "each queue had commands", queue["commands"] > 0, queue["commands"])
            seen.equal("ring.cq.shared", "what is wrong with it", queue["health"], [])
        rung = [queue["cq_doorbells"] for queue in one["counted"]["queues"]]
        seen.holds(
            "ring.cq.shared", "the first one's doorbell is the only one", rung[0] > 0 and not sum(rung[1:]), rung
        )
        taken = sum(queue["posted"] for queue in one["counted"]["queues"])
        seen.equal(
            "controller.completion.queue_full_waits",
            "completions that the drive had room for",
            taken,
            2 * len(one["source"]) // BLOCK,
        )


_RECOVERY = (
    "ring.cq.shared",
    "ring.timeout.queue_marked",
    "ring.wait.bounded",
    "ring.recovery.others_go_on",
    "ring.recovery.escalates",
    "ring.recovery.bounded",
    "ring.recovery.recreated_works",
)


@case(
    "ring/shared.recovery",
    level="L5",
    clauses=_RECOVERY,
    kernels=("ring",),
    axes={"step": ("abort", "recreate", "reset")},
    budget_s=30.0,
)
def recovery(run: Run) -> Observations:
    """One queue's command gets no answer: the other one goes on, then both are made to work, step by step."""
    sizes, count = _two_queues(run)
    if sizes["queues"] == (1,):
        # Nobody is beside the queue; and two are not made of one in silence.
        return {"refused": refusal(lambda: Rig(run, {"queues": (2,), "queues_per_cq": 2}))}
    refused = {"abort": (), "recreate": (_ABORT,), "reset": (_ABORT, _DELETE_SQ)}[str(run.axes["step"])]
    limit_ns = Rig.short_ns(run)
    at = np.arange(count)
    with Rig(run, sizes | {"depth": run.device.wave_width, "limit_ns": limit_ns}, data_bytes=count * BLOCK) as rig:
        rig.controllers[0].inject(FaultRule(action=FaultAction.STUCK, opcode=_READ, lbas=(3, 3), count=1))
        ended = rig.submit("read", lba=at, offset=at * BLOCK)
        marked = rig.counted()
        for opcode in refused:
            rig.controllers[0].inject(FaultRule(action=FaultAction.STATUS, qid=0, opcode=opcode))
        # The queue that is well takes commands beside the one that is not: its waves find it so.
        again = rig.submit("read", lba=at, offset=at * BLOCK)
        found = recover(rig, step_limits(run))
        rig.controllers[0].clear_faults()
        after = [round_trip(rig, count) for _ in range(2)]
        return {
            "limit_ns": limit_ns,
            "ended": ended,
            "marked": marked["queues"],
            "again": again,
            "found": found,
            "after": after,
            "health": [queue["health"] for queue in rig.counted()["queues"]],
        }


@recovery.judge
def _(seen: Seen) -> None:
    if "refused" in seen:
        for clause in _RECOVERY:
            seen.refused(clause, "two queues of a drive that grants one", seen["refused"], "QueuesRefused")
        return
    step = str(seen.axes["step"])
    ended, again = seen["ended"], seen["again"]
    states = ended["state"]
    seen.equal("ring.wait.bounded", "the request without an answer", states[3], "TIMED_OUT")
    most = seen["limit_ns"] * (11 if seen.facts.simulated else 200) // 10
    took = int(ended["took_ns"][3])
    seen.holds("ring.wait.bounded", "from its deadline to a tenth after", seen["limit_ns"] <= took <= most, took)
    health = [queue["health"] for queue in seen["marked"]]
    seen.equal("ring.timeout.queue_marked", "queues", health, [["TIMED_OUT"], []])
    # The lanes of the second block use the second queue.
    first = seen.facts.wave_width - 1
    rest = states[first:]
    seen.equal("ring.recovery.others_go_on", "requests through the other queue", rest, ["COMPLETED"] * len(rest))
    seen.equal("ring.timeout.queue_marked", "requests for it later", again["state"][:first], ["NOT_RUN"] * first)
    rest = again["state"][first:]
    seen.equal("ring.recovery.others_go_on", "and for the other queue", rest, ["COMPLETED"] * len(rest))
    wanted = [step] if step == "abort" else [step] * 2
    seen.equal(
        "ring.recovery.escalates", "the step that helped", [one["step"] for one in seen["found"]["queues"]], wanted
    )
    used = LIMITS_NS[seen.facts.simulated][: {"abort": 1, "recreate": 2, "reset": 3}[step]]
    for one in seen["found"]["queues"]:
        most, took = sum(used) * (11 if seen.facts.simulated else 30) // 10, one["took_ns"]
        seen.holds("ring.recovery.bounded", "each ends within the time of its steps", took <= most, took)
    for one in seen["after"]:
        judge_bytes(seen, "ring.recovery.recreated_works", one)
    seen.equal("ring.cq.shared", "what is wrong with the queues in the end", seen["health"], [[], []])

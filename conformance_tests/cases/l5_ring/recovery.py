"""Drives that never answer, and how their queues are made to work again: in time, step by step, beside the others."""

from __future__ import annotations

import time
from typing import Any

import numpy as np

from tutti_hal.conformance_tests.case import Observations, case
from tutti_hal.conformance_tests.cases.l5_ring.steps import LIMITS_NS, let_pass, recover, step_limits
from tutti_hal.conformance_tests.cases.l5_ring.trips import judge_bytes, round_trip
from tutti_hal.conformance_tests.rig import BLOCK, SPOILT, Rig, drive
from tutti_hal.conformance_tests.run import Run
from tutti_hal.conformance_tests.seen import Seen
from tutti_hal.nvme.software_config import FaultAction, FaultRule

_READ, _ABORT, _DELETE_SQ = 2, 0x08, 0x00


def _now_ns(rig: Rig) -> int:
    return int(rig.world.now_ns) if rig.world is not None else time.monotonic_ns()


@case(
    "ring/silent",
    level="L5",
    clauses=(
        "ring.timeout.kernel_ends",
        "ring.wait.bounded",
        "ring.timeout.queue_marked",
        "ring.recovery.others_go_on",
    ),
    kernels=("ring",),
    axes={"depth": (2, 9, 64), "lanes": (1, 7, 12, 128)},
    # An odd number of lanes has requests for both drives in each lane.
    only=lambda axes, _: (axes["depth"], axes["lanes"]) in {(2, 128), (9, 7), (64, 1), (64, 12)},
)
def silent(run: Run) -> Observations:
    """A kernel whose drive never answers ends a tenth after its deadline; the other drive's requests are done."""
    # Where time is real, a place that is shared one by one must come round in it.
    limits = (300_000, 700_000) if run.world is not None else (2 * Rig.short_ns(run),)
    count = 80 if run.world is not None else 32
    at = np.arange(count)
    lanes = int(run.axes["lanes"])
    sizes = {"depth": int(run.axes["depth"]), "lanes": lanes, "block": min(lanes, 64), "batch_limit": 128}
    ended = []
    for limit_ns in limits:
        fault = FaultRule(action=FaultAction.STUCK, opcode=_READ)
        with Rig(run, sizes | {"limit_ns": limit_ns}, drives=[drive(), drive()], faults=[fault]) as rig:
            iocb = rig.fill(rig.ring.get_iocb(), "read", target=at % 2, lba=at // 2, offset=0)
            rig.ring.issue_io(iocb)
            one = rig.finish(iocb)
            # The world has one clock; elsewhere host and device have their own.
            end_ns = rig.world.now_ns if rig.world is not None else int(iocb.results["completed_ns"][:count].max())
            last_ns = int(iocb.results["submitted_ns"][:count].max())
            ended.append({"limit_ns": limit_ns, "ended": one, "left_ns": end_ns - last_ns, "counted": rig.counted()})
    return {"ended": ended}


@silent.judge
def _(seen: Seen) -> None:
    # As many as fit are given to the drive; a lane has up to eight requests in a row, and only of one queue.
    places = int(seen.axes["depth"]) - 1
    for one in seen["ended"]:
        ended, limit = one["ended"], one["limit_ns"]
        here, there = ended["state"][0::2], ended["state"][1::2]
        given = one["counted"]["drives"][0]["io"].get("2", 0)
        seen.holds("ring.timeout.kernel_ends", "some were given to the drive", 0 < given <= places, given)
        seen.equal("ring.timeout.kernel_ends", "those that it never answered timed out", here.count("TIMED_OUT"), given)
        seen.equal("ring.timeout.kernel_ends", "the others were not run", here.count("NOT_RUN"), len(here) - given)
        why = {ended["why"][2 * row] for row, state in enumerate(here) if state == "NOT_RUN"}
        seen.holds("ring.timeout.queue_marked", "because of their queue", why <= {"QUEUE_FAILED", "STARVED"}, why, 40)
        health = [queue["health"] for queue in one["counted"]["queues"]]
        seen.equal("ring.timeout.queue_marked", "what is wrong with the queues", health, [["TIMED_OUT"], []])
        seen.equal("ring.recovery.others_go_on", "what the other drive was asked for", there, ["COMPLETED"] * len(here))
        # In a virtual clock nothing but the ring itself is late; elsewhere the machine may be.
        most = limit * 11 // 10 if seen.facts.simulated else 20 * limit
        waited = [row for row, state in enumerate(ended["state"]) if state == "TIMED_OUT"]
        took = ended["took_ns"][waited]
        inside = bool(((limit <= took) & (took <= most)).all())
        seen.holds("ring.wait.bounded", "each ends between the deadline and a tenth after it", inside, took, waited)
        left = one["left_ns"]
        seen.holds("ring.wait.bounded", "so does the kernel after its last submission", left <= most, (left, limit))


# ---- the steps ----

#: What is wrong: faults of the command, faults of the admin queue, whether power must be cut to get the drive back.
_TROUBLES: dict[str, tuple[FaultAction, tuple[FaultRule, ...]]] = {
    "stuck": (FaultAction.STUCK, ()),
    "lost": (FaultAction.LOST, ()),
    "lies": (FaultAction.STUCK, (FaultRule(action=FaultAction.STATUS, qid=0, opcode=_ABORT, status=(0, 0)),)),
    "mute": (FaultAction.STUCK, (FaultRule(action=FaultAction.LOST, qid=0, opcode=_ABORT, count=1),)),
    "refuses": (
        FaultAction.STUCK,
        (
            FaultRule(action=FaultAction.STATUS, qid=0, opcode=_ABORT),
            FaultRule(action=FaultAction.STATUS, qid=0, opcode=_DELETE_SQ),
        ),
    ),
    "fatal": (FaultAction.FATAL_STOP, ()),
    "gone": (FaultAction.GONE, ()),
}


@case(
    "ring/recovery",
    level="L5",
    clauses=(
        "ring.recovery.escalates",
        "ring.recovery.bounded",
        "ring.recovery.others_go_on",
        "ring.recovery.recreated_works",
    ),
    kernels=("ring",),
    axes={"trouble": tuple(_TROUBLES)},
    budget_s=60.0,
    narrow=lambda axes: (
        ("ring.recovery.escalates", "ring.recovery.bounded", "ring.recovery.others_go_on")
        if axes["trouble"] == "gone"
        else (
            "ring.recovery.escalates",
            "ring.recovery.bounded",
            "ring.recovery.others_go_on",
            "ring.recovery.recreated_works",
        )
    ),
    quick=False,
)
def recovery(run: Run) -> Observations:
    """The weakest step that helps is taken, each in its time, while a batch is in flight on another drive."""
    action, admin = _TROUBLES[str(run.axes["trouble"])]
    at = np.arange(8)
    limits = step_limits(run)
    limit_ns = 5_000_000 if run.world is not None else 20_000_000_000
    with Rig(run, {"limit_ns": limit_ns // 20}, drives=[drive(), drive()]) as rig:
        rig.controllers[0].inject(FaultRule(action=action, opcode=_READ, lbas=(3, 3), count=1))
        first = rig.submit("read", lba=at, offset=at * BLOCK)
        failed = [queue["health"] for queue in rig.counted()["queues"]]
        for rule in admin:
            rig.controllers[0].inject(rule)
        slow = FaultRule(action=FaultAction.DELAY, opcode=_READ, delay_ns=limit_ns // 40)
        rig.controllers[1].inject(slow)
        flying = rig.fill(rig.ring.get_iocb(), "read", target=1, lba=at, offset=at * BLOCK)
        rig.ring.issue_io(flying)
        began = _now_ns(rig)
        found = recover(rig, limits)
        took = _now_ns(rig) - began
        beside = rig.finish(flying)
        seen: dict[str, Any] = {
            "first": first["state"],
            "failed": failed,
            "found": found,
            "took_ns": took,
            "beside": beside["state"],
            "epochs": [handle.epoch for handle in rig.handles],
        }
        for one in rig.controllers:
            one.clear_faults()
        if action is FaultAction.GONE:
            seen["other"] = rig.submit("read", target=1, lba=at, offset=at * BLOCK)["state"]
        else:
            seen["after"] = [round_trip(rig, 24) for _ in range(2)]
        return seen


@recovery.judge
def _(seen: Seen) -> None:
    # In the order of the contract: abort, then delete and re-create, then reset. What a lie or a loss of the drive's
    # allows: nobody can abort what has ended, or believe an abort without its completion.
    tried, step = {
        "stuck": ([], "abort"),
        "lost": (["abort"], "recreate"),
        "lies": (["abort"], "recreate"),
        "mute": (["abort"], "recreate"),
        "refuses": (["abort", "recreate"], "reset"),
        "fatal": (["abort", "recreate"], "reset"),
        "gone": (["abort"], ""),
    }[str(seen.axes["trouble"])]
    clause, found = "ring.recovery.escalates", seen["found"]
    wrong = {"fatal": ["TIMED_OUT", "FATAL"], "gone": ["GONE"]}.get(str(seen.axes["trouble"]), ["TIMED_OUT"])
    seen.equal(clause, "what is wrong with the queues before", seen["failed"], [wrong, []])
    unfinished = sum(state in ("TIMED_OUT", "GONE") for state in seen["first"])
    seen.holds(clause, "a request of before has no known end", unfinished > 0, seen["first"], 8)
    seen.equal(clause, "queues that were recovered, by drive", [one["drive"] for one in found["queues"]], [0])
    for one in found["queues"]:
        seen.equal(clause, "steps in vain", one["tried"], tried)
        seen.equal(clause, "the step that helped", one["step"], step)
        seen.equal(clause, "commands without an end", one["unknown"], unfinished)
    seen.equal(clause, "resets of the drives", seen["epochs"], [int(step == "reset"), 0])
    seen.equal("ring.recovery.bounded", "why it failed", found["failed"], "" if step else "ControllerGone")
    limits = LIMITS_NS[seen.facts.simulated]
    used = limits[: {"abort": 1, "recreate": 2, "reset": 3, "": 1}[step]]
    # In a virtual clock a step is a tenth late at most: it looks at the clock between two pauses.
    most = sum(used) * (11 if seen.facts.simulated else 30) // 10
    seen.holds(
        "ring.recovery.bounded", "it ends within the time of its steps", seen["took_ns"] <= most, seen["took_ns"]
    )
    seen.equal("ring.recovery.others_go_on", "a batch in flight on the other drive", seen["beside"], ["COMPLETED"] * 8)
    if "other" in seen:
        seen.equal("ring.recovery.others_go_on", "a batch after it", seen["other"], ["COMPLETED"] * 8)
        return
    for one in seen["after"]:
        judge_bytes(seen, "ring.recovery.recreated_works", one)
    counted = seen["after"][-1]["counted"]
    health = [queue["health"] for queue in counted["queues"]]
    seen.equal("ring.recovery.recreated_works", "what is wrong with the queues", health, [[], []])
    if step != "abort":
        # A queue that goes on goes on counting; a new one counts from nothing: 2 x 2 x 12 on each drive.
        seen.equal("ring.recovery.recreated_works", "commands of the new queue", counted["queues"][0]["commands"], 48)


# ---- what comes late ----


@case(
    "ring/recovery_late",
    level="L5",
    clauses=("ring.recovery.ends_commands", "ring.cq.late_counted", "ring.buffer.owned_until_done"),
    kernels=("ring",),
    axes={"step": ("abort", "recreate", "reset"), "comes": ("before", "after")},
    budget_s=30.0,
    quick=False,
)
def recovery_late(run: Run) -> Observations:
    """A command that would complete after its deadline, before or after a step: no data and no belief follow."""
    step, comes = str(run.axes["step"]), str(run.axes["comes"])
    limit_ns = Rig.short_ns(run)
    over = Rig.latest_ns(run, limit_ns)
    delay = over + (limit_ns // 4 if comes == "before" else 3 * limit_ns)
    late = FaultRule(action=FaultAction.DELAY, opcode=_READ, lbas=(2, 2), delay_ns=delay, count=1)
    refused = {"abort": (), "recreate": (_ABORT,), "reset": (_ABORT, _DELETE_SQ)}[step]
    at = np.arange(6)
    with Rig(run, {"limit_ns": limit_ns}) as rig:
        before = rig.submit("write", lba=at, offset=at * BLOCK)
        rig.controllers[0].inject(late)
        ended = rig.submit("read", lba=at, offset=at * BLOCK)
        if comes == "before":
            let_pass(rig, over + limit_ns)
        for opcode in refused:
            rig.controllers[0].inject(FaultRule(action=FaultAction.STATUS, qid=0, opcode=opcode))
        limits = step_limits(run)
        found = recover(rig, limits)
        rig.controllers[0].clear_faults()
        rig.put()
        let_pass(rig, over + limit_ns * 5)
        spoilt = rig.get()
        after = rig.submit("read", lba=at, offset=at * BLOCK)
        counted = rig.counted()
        rig.ring.unregister(rig.buffer)
        return {
            "before": before["state"],
            "ended": ended["state"],
            "found": found,
            "spoilt": spoilt,
            "after": after["state"],
            "counted": counted["ring"],
        }


@recovery_late.judge
def _(seen: Seen) -> None:
    clause = "ring.recovery.ends_commands"
    wanted = ["COMPLETED"] * 6
    seen.equal(clause, "writes before", seen["before"], wanted)
    wanted[2] = "TIMED_OUT"
    seen.equal("ring.cq.late_counted", "reads, one of them late", seen["ended"], wanted)
    # A completion that lies there already ends its command: nothing is left to abort, and nothing to refuse.
    step = "abort" if seen.axes["comes"] == "before" else seen.axes["step"]
    seen.equal(clause, "the step that helped", [one["step"] for one in seen["found"]["queues"]], [step])
    seen.equal(clause, "bytes that moved afterwards", seen["spoilt"], np.full(len(seen["spoilt"]), SPOILT, np.uint8))
    seen.equal("ring.buffer.owned_until_done", "reads into the same buffer", seen["after"], ["COMPLETED"] * 6)
    # A queue that goes on has counted it; a new one never hears of it.
    lates = [int(step == "abort"), 0]
    seen.equal(
        "ring.cq.late_counted", "late, and of nobody's", [seen["counted"]["lates"], seen["counted"]["strays"]], lates
    )

"""How a request ends, and whether that is told: wrong bits, silence, a drive that is gone, a reset, a dead queue."""

from __future__ import annotations

import numpy as np

from tutti_hal.conformance_tests.case import Observations, case
from tutti_hal.conformance_tests.cases.l5_hazards.worlds import now_ns, until_struck
from tutti_hal.conformance_tests.cases.l5_ring.trips import judge_bytes, round_trip
from tutti_hal.conformance_tests.rig import BLOCK, Rig, drive
from tutti_hal.conformance_tests.run import Run
from tutti_hal.conformance_tests.seen import Seen
from tutti_hal.io_uring.layout import dtype
from tutti_hal.nvme.software_config import FaultAction, FaultRule

#: Block -> (type, code, do not retry, retry delay): one bit of the status field each, and some of many bits.
_ANSWERS = {
    **{bit: (0, 1 << bit, False, 0) for bit in range(1, 8)},
    8: (1, 0x00, False, 0),
    9: (2, 0x80, False, 0),
    10: (3, 0x02, True, 0),
    11: (7, 0xFE, False, 1),
    12: (0, 0x04, True, 2),
    13: (2, 0x81, True, 3),
}


@case(
    "hazard/h21.status_bits",
    level="L5",
    clauses=("ring.request.status_reported", "ring.cq.phase_at_wrap"),
    kernels=("ring",),
)
def status_bits(run: Run) -> Observations:
    """The phase beside the status is no part of it, and no bit of the status is left out: not even of even codes."""
    faults = [
        FaultRule(action=FaultAction.STATUS, lbas=(lba, lba), status=(sct, sc), dnr=dnr, crd=crd)
        for lba, (sct, sc, dnr, crd) in _ANSWERS.items()
    ]
    laps = []
    at = np.arange(15)
    # Seven entries: the laps have either phase for every answer.
    with Rig(run, {"depth": 7}, faults=faults) as rig:
        for _ in range(3):
            ended = rig.submit("read", lba=at, offset=at * BLOCK)
            rows = zip(ended["status"].tolist(), ended["dnr"].tolist(), ended["crd"].tolist(), strict=True)
            laps.append({"state": ended["state"], "said": [[*status, bool(dnr), crd] for status, dnr, crd in rows]})
    return {"laps": laps}


@status_bits.judge
def _(seen: Seen) -> None:
    wanted = [list(_ANSWERS.get(lba, (0, 0, False, 0))) for lba in range(15)]
    for lap in seen["laps"]:
        seen.equal("ring.request.status_reported", "type, code, do-not-retry, delay of each", lap["said"], wanted)
        seen.equal("ring.cq.phase_at_wrap", "states: a failed command has completed", lap["state"], ["COMPLETED"] * 15)


@case(
    "hazard/h22.silent_success",
    level="L5",
    clauses=("ring.request.starts_not_run", "ring.host.partial_commit", "ring.request.refused_not_run"),
    kernels=("ring",),
)
def silent_success(run: Run) -> Observations:
    """What was not run, was refused, or was left out never says that it went well, whatever the batch before said."""
    at = np.arange(12)
    lost = FaultRule(action=FaultAction.STUCK, opcode=2, count=1)
    with Rig(run, {"depth": 4, "batches": 1, "limit_ns": Rig.short_ns(run)}) as rig:
        before = rig.submit("read", lba=at, offset=0)
        empty = rig.ring.get_iocb()
        rig.ring.issue_io(empty)
        nothing = rig.finish(empty)
        rig.controllers[0].inject(lost)
        iocb = rig.fill(rig.ring.get_iocb(), "read", lba=at, offset=0)
        # As another kernel might have packed it: past the end of the namespace.
        iocb.staging.numpy(dtype("ring_request"))[5]["first_lba"] = 1 << 40
        rig.ring.issue_io(iocb)
        # No kernel has told anything yet, where a world stands still.
        at_first = (iocb.results["code"][:12] >> 24).copy()
        ended = rig.finish(iocb)
        dead = rig.submit("read", lba=at, offset=0)
        given = rig.counted()["drives"][0]["io"]
        return {
            "before": before["state"],
            "nothing": nothing["state"],
            "at_first": at_first,
            "ended": ended["state"],
            "dead": dead["state"],
            "given": given,
        }


@silent_success.judge
def _(seen: Seen) -> None:
    clause = "ring.request.starts_not_run"
    seen.equal(clause, "a batch before, in the same memory", seen["before"], ["COMPLETED"] * 12)
    seen.equal(clause, "completions of a batch of nothing", seen["nothing"], [])
    if seen.facts.simulated:
        seen.equal(clause, "states before the kernel ran", seen["at_first"], np.zeros(12, np.uint32))
    seen.equal(clause, "states of a batch for a queue that is dead", seen["dead"], ["NOT_RUN"] * 12)
    ended = seen["ended"]
    seen.equal("ring.request.refused_not_run", "the request that does not fit", ended[5], "REFUSED")
    ran = ended.count("COMPLETED") + ended.count("TIMED_OUT")
    seen.equal("ring.request.refused_not_run", "commands that the drive was given", seen["given"], {"2": 12 + ran})
    rest = ended.count("NOT_RUN") + ended.count("REFUSED")
    seen.equal("ring.host.partial_commit", "requests that ran, or say that they did not", ran + rest, 12)
    seen.equal("ring.host.partial_commit", "requests whose command never ended", ended.count("TIMED_OUT"), 1)


@case(
    "hazard/h23.all_ones",
    level="L5",
    clauses=("ring.gone.detected", "ring.recovery.others_go_on"),
    kernels=("ring",),
    axes={"when": ("before", "within")},
)
def all_ones(run: Run) -> Observations:
    """A drive that was pulled reads as all ones: that is no status and no completion, and the other drive goes on."""
    at = np.arange(24)
    within = run.axes["when"] == "within"
    fault = FaultRule(action=FaultAction.GONE, opcode=2, nth=3) if within else None
    with Rig(run, {"limit_ns": Rig.short_ns(run)}, drives=[drive(), drive()], faults=[fault] if fault else []) as rig:
        if not within:
            rig.controllers[0].inject(FaultRule(action=FaultAction.GONE, immediate=True))
        before = now_ns(rig)
        ended = rig.submit("read", target=at % 2, lba=at // 2, offset=0)
        took = now_ns(rig) - before
        health = [queue["health"] for queue in rig.counted()["queues"]]
        return {"ended": ended, "took_ns": took, "limit_ns": rig.options.limit_ns, "health": health}


@all_ones.judge
def _(seen: Seen) -> None:
    ended, clause = seen["ended"], "ring.gone.detected"
    here, there = ended["state"][0::2], ended["state"][1::2]
    seen.equal("ring.recovery.others_go_on", "requests of the drive that is there", there, ["COMPLETED"] * 12)
    most = 2 if seen.axes["when"] == "within" else 0
    done = here.count("COMPLETED")
    seen.holds(clause, "requests of the other complete at most before it went", done <= most, here, here)
    seen.equal(clause, "requests that say that it is gone", here.count("GONE"), 12 - done)
    seen.holds(clause, "its queue says so, and only that one", "GONE" in seen["health"][0] and not seen["health"][1])
    limit = seen["limit_ns"]
    bound = limit * 11 // 10 if seen.facts.simulated else 20 * limit
    seen.holds(clause, "all of it within the deadline", seen["took_ns"] <= bound, seen["took_ns"])


@case(
    "hazard/h26.reset_under_queues",
    level="L5",
    clauses=("ring.epoch.stops", "ring.recovery.recreated_works", "ring.request.refused_not_run"),
    kernels=("ring",),
)
def reset_under_queues(run: Run) -> Observations:
    """The host takes the queues away from a running kernel: the word that it changes ends the kernel first."""
    at = np.arange(24)
    stuck = FaultRule(action=FaultAction.STUCK, opcode=2, lbas=(2, 2))
    limit = 20 * Rig.short_ns(run)
    with Rig(run, {"depth": 6, "limit_ns": limit}, drives=[drive(), drive()], faults=[stuck]) as rig:
        iocb = rig.fill(rig.ring.get_iocb(), "read", target=at % 2, lba=at // 2, offset=0)
        rig.ring.issue_io(iocb)
        until_struck(rig)
        before = now_ns(rig)
        rig.ring.stop()
        ended = rig.finish(iocb)
        took = now_ns(rig) - before
        given = rig.counted()["drives"]
        idle = rig.submit("write", target=at % 2, lba=at // 2, offset=0)
        kept = rig.counted()["drives"]
        rig.controllers[0].clear_faults()
        rig.ring.recover()
        rig.ring.resume()
        return {
            "ended": ended["state"],
            "took_ns": took,
            "limit_ns": limit,
            "idle": idle["state"],
            "writes": [one["io"].get("1", 0) for one in (*given, *kept)],
            "after": round_trip(rig, 20),
        }


@reset_under_queues.judge
def _(seen: Seen) -> None:
    ended = seen["ended"]
    seen.equal("ring.epoch.stops", "the request that hung", ended[4], "STOPPED")
    told = {"COMPLETED", "STOPPED", "NOT_RUN"}
    seen.holds("ring.epoch.stops", "the others completed, stopped or were not run", set(ended) <= told, ended, ended)
    quick = seen["took_ns"] < seen["limit_ns"] // 2
    seen.holds("ring.epoch.stops", "long before the deadline", quick, seen["took_ns"])
    seen.equal("ring.request.refused_not_run", "requests of a batch in between", seen["idle"], ["NOT_RUN"] * 24)
    seen.equal("ring.request.refused_not_run", "writes that the drives were given", seen["writes"], [0] * 4)
    judge_bytes(seen, "ring.recovery.recreated_works", seen["after"])


@case(
    "hazard/h31.dead_after_timeout",
    level="L5",
    clauses=("ring.timeout.queue_marked", "ring.recovery.recreated_works", "ring.recovery.others_go_on"),
    kernels=("ring",),
)
def dead_after_timeout(run: Run) -> Observations:
    """After a completion that never came nobody knows the queue's state: it takes nothing until it was made anew."""
    at = np.arange(20)
    lost = FaultRule(action=FaultAction.LOST, opcode=2, lbas=(1, 1), count=1)
    with Rig(run, {"depth": 5, "limit_ns": Rig.short_ns(run)}, drives=[drive(), drive()], faults=[lost]) as rig:
        ends = [rig.submit("read", target=at % 2, lba=at // 2, offset=0) for _ in range(3)]
        counted = rig.counted()
        recovered = len(rig.ring.recover())
        return {"ends": ends, "counted": counted, "recovered": recovered, "after": round_trip(rig, 20)}


@dead_after_timeout.judge
def _(seen: Seen) -> None:
    first, *later = seen["ends"]
    here = first["state"][0::2]
    seen.equal("ring.timeout.queue_marked", "requests that timed out", here.count("TIMED_OUT"), 1)
    for one in later:
        seen.equal("ring.timeout.queue_marked", "requests of a dead queue", one["state"][0::2], ["NOT_RUN"] * 10)
        seen.equal("ring.timeout.queue_marked", "and why", one["why"][0::2], ["QUEUE_FAILED"] * 10)
        seen.equal("ring.recovery.others_go_on", "requests of the other", one["state"][1::2], ["COMPLETED"] * 10)
    sent = here.count("COMPLETED") + 1
    given = seen["counted"]["drives"][0]["io"]
    seen.equal("ring.timeout.queue_marked", "commands that its drive was given", given, {"2": sent})
    seen.equal("ring.recovery.recreated_works", "queues that were made anew", seen["recovered"], 1)
    judge_bytes(seen, "ring.recovery.recreated_works", seen["after"])

"""Deadlines: completions after it and twice, and as the wait is given up; and the queue beside, which goes on."""

from __future__ import annotations

import numpy as np

from tutti_hal.conformance_tests.ablations import limits
from tutti_hal.conformance_tests.case import Observations, case
from tutti_hal.conformance_tests.cases.l5_ring.completions import wait_for_all
from tutti_hal.conformance_tests.observation import refusal
from tutti_hal.conformance_tests.rig import BLOCK, Rig, drive
from tutti_hal.conformance_tests.run import Run
from tutti_hal.conformance_tests.seen import Seen
from tutti_hal.nvme.software_config import FaultAction, FaultRule

_COUNT = 4


@case(
    "ring/deadline.late_twice",
    level="L5",
    clauses=("ring.cq.late_counted", "ring.cq.duplicate_counted", "ring.request.exactly_once", "ring.wait.bounded"),
    kernels=("ring",),
)
def late_twice(run: Run) -> Observations:
    """Completions come after their deadline, one of them twice: the first is late, the second is nobody's."""
    limit = Rig.short_ns(run)
    slow = drive(slow_latency_ns=Rig.latest_ns(run, limit) + limit // 2, slow_ppm=10**6)
    faults = [FaultRule(action=FaultAction.DUPLICATE, lbas=(1, 1), count=1)]
    at = np.arange(_COUNT)
    with Rig(run, {"depth": 8, "limit_ns": limit}, drives=[slow], faults=faults) as rig:
        first = rig.submit("read", lba=at, offset=at * BLOCK)
        came = wait_for_all(rig)
        # Nothing can be submitted, and lanes of this batch see what came.
        second = rig.submit("read", lba=at, offset=at * BLOCK)
        return {"first": first, "came": came, "second": second, "counted": rig.counted(), "limit_ns": limit}


@late_twice.judge
def _(seen: Seen) -> None:
    ring = seen["counted"]["ring"]
    seen.holds("ring.cq.late_counted", "every completion came", seen["came"], seen["came"])
    seen.equal("ring.request.exactly_once", "how the requests ended", seen["first"]["state"], ["TIMED_OUT"] * _COUNT)
    _judge_wait(seen, seen["first"]["took_ns"], seen["limit_ns"])
    seen.equal(
        "ring.cq.late_counted",
        "late completions, and commands withdrawn",
        [ring["lates"], ring["quarantined"]],
        [_COUNT, _COUNT],
    )
    seen.equal("ring.cq.duplicate_counted", "completions of nobody's", ring["strays"], 1)
    seen.equal(
        "ring.cq.duplicate_counted",
        "requests that were not run afterwards",
        seen["second"]["state"],
        ["NOT_RUN"] * _COUNT,
    )


def _judge_wait(seen: Seen, took: np.ndarray, limit: int) -> None:
    """Waits ended between their deadline and a tenth after it, on a virtual clock; a machine may be later."""
    most = limit * 11 // 10 if seen.facts.simulated else 20 * limit
    inside = bool(len(took) and ((limit <= took) & (took <= most)).all())
    seen.holds("ring.wait.bounded", "each wait ends between the deadline and a tenth after it", inside, took, took)


@case(
    "ring/deadline.queue_beside",
    level="L5",
    clauses=("ring.recovery.others_go_on", "ring.wait.bounded", "ring.timeout.queue_marked"),
    kernels=("ring",),
)
def queue_beside(run: Run) -> Observations:
    """One queue of a drive gets no answer to one command: the requests through its other queue complete."""
    limit, at = Rig.short_ns(run), np.arange(24)
    queues = limits(run.subject.spec.ablation).get("io_queues", 2)
    if queues < 2:
        return {"queues": queues, "refused": refusal(lambda: Rig(run, {"queues": (1, 1)}))}
    fault = FaultRule(action=FaultAction.STUCK, qid=1, nth=3, count=1)
    found = []
    for _ in run.schedules(3):
        # Every lane has requests for both.
        with Rig(run, {"depth": 32, "queues": (1, 1), "limit_ns": limit}, faults=[fault]) as rig:
            iocb = rig.fill(rig.ring.get_iocb(), "read", lba=at, offset=0, queue_class=0)
            rig.fill(iocb, "read", lba=at, offset=0, queue_class=1)
            rig.ring.issue_io(iocb)
            ended = rig.finish(iocb)
            found.append({"ended": ended, "queues": rig.counted()["queues"]})
    return {"queues": queues, "limit_ns": limit, "found": found}


@queue_beside.judge
def _(seen: Seen) -> None:
    if seen["queues"] < 2:
        for clause in ("ring.recovery.others_go_on", "ring.wait.bounded", "ring.timeout.queue_marked"):
            seen.refused(clause, "two queues of a drive that grants one", seen["refused"], "QueuesRefused")
        return
    for one in seen["found"]:
        here, there = one["ended"]["state"][:24], one["ended"]["state"][24:]
        seen.equal("ring.recovery.others_go_on", "requests through the queue beside", there, ["COMPLETED"] * 24)
        seen.equal("ring.wait.bounded", "requests that were waited for in vain", here.count("TIMED_OUT"), 1)
        _judge_wait(seen, one["ended"]["took_ns"][[here.index("TIMED_OUT")]], seen["limit_ns"])
        health = [queue["health"] for queue in one["queues"]]
        seen.equal("ring.timeout.queue_marked", "what is wrong with the queues", health, [["TIMED_OUT"], []])


#: Every read moves its data and then fails: a success would be a status that nobody gave.
_FAILS = FaultRule(action=FaultAction.STATUS_LATE, opcode=2, status=(2, 0x81))


@case(
    "ring/deadline.at_once",
    level="L5",
    clauses=("ring.request.exactly_once", "ring.cq.late_counted"),
    kernels=("ring",),
    axes={"early_permille": (0, 2, 10)},
    budget_s=30.0,
    quick=False,
)
def at_once(run: Run) -> Observations:
    """Completions come as their wait is given up: each is believed by its request or counted as late, and not both."""
    limit = Rig.short_ns(run)
    early = limit * int(run.axes["early_permille"]) // 1000
    slow = drive(slow_latency_ns=limit - early, slow_ppm=10**6)
    at = np.arange(_COUNT)
    found = []
    for _ in run.schedules(24):
        with Rig(run, {"depth": 8, "limit_ns": limit}, drives=[slow], faults=[_FAILS]) as rig:
            ended = rig.submit("read", lba=at, offset=at * BLOCK)
            came = wait_for_all(rig)
            if "TIMED_OUT" in ended["state"]:  # the queue takes nothing more, and lanes of these batches see what came
                for _ in range(4):
                    rig.submit("read", lba=at, offset=at * BLOCK)
            found.append(
                {**{key: ended[key] for key in ("state", "status")}, "came": came, "ring": rig.counted()["ring"]}
            )
    return {"found": found}


@at_once.judge
def _(seen: Seen) -> None:
    for one in seen["found"]:
        ring, late = one["ring"], one["state"].count("TIMED_OUT")
        seen.equal(
            "ring.request.exactly_once",
            "requests that ended one way or the other",
            late + one["state"].count("COMPLETED"),
            _COUNT,
        )
        believed = {tuple(one["status"][row]) for row, state in enumerate(one["state"]) if state == "COMPLETED"}
        # One that was believed has what its completion says; one that was given up says nothing of it.
        seen.holds(
            "ring.request.exactly_once", "statuses that were believed", believed <= {(2, 0x81)}, believed, _COUNT
        )
        seen.holds("ring.cq.late_counted", "every completion came", one["came"], one["came"])
        seen.equal(
            "ring.cq.late_counted",
            "completions: late, withdrawn, nobody's",
            [ring["lates"], ring["quarantined"], ring["strays"]],
            [late, late, 0],
        )

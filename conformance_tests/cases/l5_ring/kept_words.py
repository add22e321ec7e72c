"""What a lane keeps of its requests: the record of one that never ran, and the queues of those that go on."""

from __future__ import annotations

import time

import numpy as np

from tutti_hal.conformance_tests.case import Observations, case
from tutti_hal.conformance_tests.rig import BLOCK, Rig, drive
from tutti_hal.conformance_tests.run import Run
from tutti_hal.conformance_tests.seen import Seen
from tutti_hal.nvme.software_config import FaultAction, FaultRule

#: Requests of a batch whose record is looked at.
_ROWS = 12
_NO_IDENTIFIER = 0xFFFF


@case("ring/record.not_run", level="L5", clauses=("ring.request.starts_not_run",), kernels=("ring",))
def not_run(run: Run) -> Observations:
    """A request that was not run has an empty record, whatever the request before it left in its row."""
    at = np.arange(_ROWS)
    with Rig(run, drives=[drive(), drive()]) as rig:
        before = rig.submit("read", target=1, lba=at, offset=at * BLOCK)
        rig.ring.stop()
        after = rig.submit("read", target=1, lba=at, offset=at * BLOCK)
        return {"before": before, "after": after}


@not_run.judge
def _(seen: Seen) -> None:
    clause, before, after = "ring.request.starts_not_run", seen["before"], seen["after"]
    seen.equal(clause, "states of the requests before", before["state"], ["COMPLETED"] * _ROWS)
    seen.equal(clause, "the queue that they went through", before["queue"], np.ones(_ROWS, np.uint32))
    seen.equal(clause, "states of those that were not run", after["state"], ["NOT_RUN"] * _ROWS)
    seen.equal(clause, "their results", after["result"], np.zeros(_ROWS, np.uint32))
    seen.equal(clause, "their queues", after["queue"], np.zeros(_ROWS, np.uint32))
    seen.equal(clause, "the time that they took", after["took_ns"], np.zeros(_ROWS, np.int64))
    seen.equal(clause, "their identifiers", set(after["identifiers"].tolist()), {_NO_IDENTIFIER})


@case(
    "ring/stands_still",
    level="L5",
    clauses=("ring.recovery.others_go_on", "ring.cq.doorbell_in_time"),
    kernels=("ring",),
)
def stands_still(run: Run) -> Observations:
    """A lane whose oldest request stands still reaps the queues of its others, and tells those drives so."""
    at = np.arange(8)
    stuck = FaultRule(action=FaultAction.STUCK, opcode=2, lbas=(0, 0), count=1)
    limit_ns = 4 * Rig.short_ns(run)
    sizes = {"limit_ns": limit_ns, "lanes": 1, "block": 1, "depth": 32, "cq_depth": 64}
    with Rig(run, sizes, drives=[drive(), drive()], faults=[stuck]) as rig:
        iocb = rig.fill(rig.ring.get_iocb(), "read", target=at % 2, lba=at // 2, offset=at * BLOCK)
        rig.ring.issue_io(iocb)
        told = _until_told(rig, limit_ns)
        flying = not rig.ring.query(iocb)
        ended = rig.finish(iocb)
        return {"told": told, "flying": flying, "ended": ended, "limit_ns": limit_ns}


def _until_told(rig: Rig, limit_ns: int) -> int:
    """How many completions the second drive was told of, once it was told of all four or time is over."""
    end = time.monotonic() + 10
    began = rig.world.now_ns if rig.world is not None else time.monotonic_ns()
    while time.monotonic() < end:
        counted = rig.controllers[1].queue_counters(1)
        if counted.completions == 4 and counted.cq_doorbells:
            break
        if rig.world is not None:
            rig.world.run(64)
            if rig.world.now_ns - began > limit_ns // 2:
                break
        else:
            time.sleep(0.002)
            if time.monotonic_ns() - began > limit_ns // 2:
                break
    return int(rig.controllers[1].queue_counters(1).cq_doorbells)


@stands_still.judge
def _(seen: Seen) -> None:
    ended, limit = seen["ended"], seen["limit_ns"]
    seen.equal("ring.recovery.others_go_on", "states", ended["state"], ["TIMED_OUT", *["COMPLETED"] * 7])
    # In a virtual clock nothing is slow but the drive that stands still; elsewhere the machine may be.
    most = limit // 4 if seen.facts.simulated else limit
    took = ended["took_ns"][1:]
    seen.holds("ring.recovery.others_go_on", "the others do not wait for it", bool((took < most).all()), took, 7)
    seen.holds("ring.cq.doorbell_in_time", "the batch was in flight", seen["flying"], seen["flying"])
    seen.holds("ring.cq.doorbell_in_time", "the other drive was told by then", seen["told"] > 0, seen["told"])

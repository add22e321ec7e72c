"""Queues that share a completion queue, and those that do not: a completion ends nothing in another group."""

from __future__ import annotations

import numpy as np

from tutti_hal.conformance_tests.ablations import limits
from tutti_hal.conformance_tests.case import Observations, case
from tutti_hal.conformance_tests.observation import refusal
from tutti_hal.conformance_tests.rig import Rig, drive
from tutti_hal.conformance_tests.run import Run
from tutti_hal.conformance_tests.seen import Seen
from tutti_hal.nvme.software_config import FaultAction, FaultRule

#: Where fields of a completion lie, double word 3 above double word 2.
_SQ, _STATUS = 1 << 16, 1 << 49


@case(
    "ring/guard.other_group",
    level="L5",
    clauses=("ring.cq.shared", "ring.cq.duplicate_counted"),
    kernels=("ring",),
)
def other_group(run: Run) -> Observations:
    """A completion that names a queue of another completion queue, just past this one's, ends nothing there."""
    if limits(run.subject.spec.ablation).get("io_queues", 3) < 3:
        return {"refused": refusal(lambda: Rig(run, {"queues": (2, 1), "queues_per_cq": 2}))}
    # The third queue's first command is in flight when the first queue's, of the same number, is completed.
    slow = FaultRule(action=FaultAction.DELAY, qid=3, delay_ns=100_000 if run.world is not None else 50_000_000)
    fault = FaultRule(action=FaultAction.FORGED, qid=1, count=1, forge=(1 ^ 3) * _SQ | _STATUS)
    found = []
    for _ in run.schedules(2):
        sizes = {"queues": (2, 1), "queues_per_cq": 2}
        with Rig(run, sizes, drives=[drive(io_queues=3)], faults=[slow, fault]) as rig:
            iocb = rig.fill(rig.ring.get_iocb(), "read", lba=np.arange(1), offset=0, queue_class=1)
            rig.fill(iocb, "read", lba=np.arange(1), offset=0, queue_class=0)
            rig.ring.issue_io(iocb)
            ended = rig.finish(iocb)
            found.append({"ended": ended, "counted": rig.counted()})
    return {"found": found}


@other_group.judge
def _(seen: Seen) -> None:
    if "refused" in seen:
        for clause in ("ring.cq.shared", "ring.cq.duplicate_counted"):
            seen.refused(clause, "three queues of a drive that grants fewer", seen["refused"], "QueuesRefused")
        return
    for one in seen["found"]:
        ended, counted = one["ended"], one["counted"]
        seen.equal("ring.cq.shared", "states", ended["state"], ["COMPLETED"] * 2)
        seen.equal("ring.cq.shared", "identifiers of both", ended["identifiers"], np.zeros(2, np.uint32))
        statuses = [tuple(map(int, status)) for status in ended["status"]]
        seen.equal("ring.cq.shared", "statuses: none is the one that was made up", statuses, [(0, 0)] * 2)
        seen.equal("ring.cq.duplicate_counted", "completions of nobody's", counted["ring"]["strays"], 1)

"""Completions that a drive makes up: each of the reaper's guards against one that is almost right."""

from __future__ import annotations

import numpy as np

from tutti_hal.conformance_tests.case import Observations, case
from tutti_hal.conformance_tests.cases.l5_ring.trips import judge_bytes, judge_counts, round_trip
from tutti_hal.conformance_tests.rig import Rig, drive
from tutti_hal.conformance_tests.run import Run
from tutti_hal.conformance_tests.seen import Seen
from tutti_hal.nvme.software_config import FaultAction, FaultRule

_READ = 2
#: Where the fields of a completion lie, double word 3 above double word 2.
_SQ_HEAD, _SQ, _CID, _STATUS = 1 << 0, 1 << 16, 1 << 32, 1 << 49

#: What is wrong -> the bits that differ; all say that the command failed. A queue of five commands numbers them in
#: three bits and counts the uses of each number above; the number 5 is none of them, and 8 more is another use.
_FORGED = {
    "queue": FaultRule(action=FaultAction.FORGED, opcode=_READ, nth=3, count=4, forge=6 * _SQ | _STATUS),
    "row": FaultRule(action=FaultAction.FORGED, cid=1, count=1, forge=4 * _CID | _STATUS),
    "use": FaultRule(action=FaultAction.FORGED, opcode=_READ, nth=3, count=4, forge=8 * _CID | _STATUS),
}


@case(
    "ring/guard.forged",
    level="L5",
    clauses=("ring.cq.by_cid", "ring.cq.duplicate_counted"),
    kernels=("ring",),
    axes={"wrong": tuple(_FORGED)},
)
def forged(run: Run) -> Observations:
    """A completion of another queue, of a number that no command has, of another use of the number: nobody's."""
    rule = _FORGED[str(run.axes["wrong"])]
    trips = []
    for _ in run.schedules(2):
        with Rig(run, {"depth": 6}, faults=[rule]) as rig:
            trips.append(round_trip(rig, 24))
    return {"trips": trips}


@forged.judge
def _(seen: Seen) -> None:
    strays = 1 if seen.axes["wrong"] == "row" else 4
    for one in seen["trips"]:
        # None of the made-up failures reached a request.
        judge_bytes(seen, "ring.cq.by_cid", one)
        judge_counts(seen, "ring.cq.duplicate_counted", one, strays=strays)


@case(
    "ring/guard.head_ahead",
    level="L5",
    clauses=("ring.sq.slot_reuse_after_fetch", "ring.cq.duplicate_counted"),
    kernels=("ring",),
)
def head_ahead(run: Run) -> Observations:
    """A reported submission queue head that is past all that was submitted frees no entry."""
    # More commands than entries; the drive takes no more than sixteen at a time, and is slow with each.
    slow = drive(latency_ns=20_000 if run.world is not None else 2_000_000)
    sizes = {"depth": 16, "cq_depth": 64, "command_limit": 40, "lanes": 6, "block": 3}
    # Of four commands none is the ninth. Who takes both completions at once looks at the true one's head only.
    fault = FaultRule(action=FaultAction.FORGED, count=4, forge=8 * _SQ_HEAD)
    found = []
    for _ in run.schedules(4):
        with Rig(run, sizes, drives=[slow], faults=[fault]) as rig:
            first = rig.submit("read", lba=np.arange(4), offset=0)
            found.append({"first": first["state"], "trip": round_trip(rig, 48)})
    return {"found": found}


@head_ahead.judge
def _(seen: Seen) -> None:
    for found in seen["found"]:
        one = found["trip"]
        seen.equal("ring.sq.slot_reuse_after_fetch", "what came first", found["first"], ["COMPLETED"] * 4)
        judge_bytes(seen, "ring.sq.slot_reuse_after_fetch", one)
        [queue], [counted] = one["counted"]["queues"], one["counted"]["drives"]
        seen.equal("ring.sq.slot_reuse_after_fetch", "commands that the drive fetched", queue["fetched"], 100)
        seen.equal("ring.sq.slot_reuse_after_fetch", "tails past its head", counted["bad_doorbells"], 0)
        # The forgeries completed their commands; the true ones came second.
        seen.equal("ring.cq.duplicate_counted", "completions of nobody's", one["counted"]["ring"]["strays"], 4)

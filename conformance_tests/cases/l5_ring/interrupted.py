"""A caller that is interrupted: what it leaves behind, which is nothing."""

from __future__ import annotations

import numpy as np

from tutti_hal.conformance_tests.case import Observations, case
from tutti_hal.conformance_tests.cases.l5_ring.steps import let_pass
from tutti_hal.conformance_tests.cases.l5_ring.trips import judge_bytes, round_trip
from tutti_hal.conformance_tests.rig import BLOCK, SPOILT, Rig
from tutti_hal.conformance_tests.run import Run
from tutti_hal.conformance_tests.seen import Seen
from tutti_hal.nvme.software_config import FaultAction, FaultRule


@case(
    "ring/interrupted",
    level="L5",
    clauses=("ring.host.interrupted_clean", "ring.buffer.owned_until_done"),
    kernels=("ring",),
    axes={"batches": (0, 2)},
)
def interrupted(run: Run) -> Observations:
    """Ctrl-C while batches are filled or in flight, one command of which comes late: the ring closes, all is over."""
    limit, batches = Rig.short_ns(run), int(run.axes["batches"])
    at = np.arange(6)
    with Rig(run, {"limit_ns": limit}) as rig:
        late = FaultRule(action=FaultAction.DELAY, opcode=2, lbas=(2, 2), delay_ns=2 * limit)
        rig.controllers[0].inject(late)
        rig.put()
        ended = ""
        try:
            with rig.ring as ring:
                for number in range(2):
                    iocb = rig.fill(ring.get_iocb(), "read", lba=at, offset=at * BLOCK)
                    if number < batches:
                        ring.issue_io(iocb)
                raise KeyboardInterrupt
        except KeyboardInterrupt:
            ended = "interrupted"
        pairs = len(rig.handles[0].pairs)
        fetched = rig.controllers[0].counters.sqes_fetched
        # The memory is its owner's again: who writes into it now writes under a transfer.
        rig.put()
        let_pass(rig, 2 * limit)
        spoilt = rig.get()
        later = rig.controllers[0].counters.sqes_fetched - fetched
        rig.controllers[0].clear_faults()
        # All queues that the drive has are free for another ring.
        rig.make_ring()
        return {"ended": ended, "pairs": pairs, "later": later, "spoilt": spoilt, "trip": round_trip(rig, 20)}


@interrupted.judge
def _(seen: Seen) -> None:
    clause = "ring.host.interrupted_clean"
    seen.equal(clause, "the interruption reaches the caller", seen["ended"], "interrupted")
    seen.equal(clause, "queue pairs left on the drive", seen["pairs"], 0)
    seen.equal(clause, "entries that the drive fetched afterwards", seen["later"], 0)
    wanted = np.full(len(seen["spoilt"]), SPOILT, np.uint8)
    seen.equal("ring.buffer.owned_until_done", "bytes that moved afterwards", seen["spoilt"], wanted)
    judge_bytes(seen, clause, seen["trip"])

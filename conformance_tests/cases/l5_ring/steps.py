"""Steps of a recovery, what became of each queue, time that goes by: for the cases of the ring. No case is here."""

from __future__ import annotations

import time
from typing import Any

from tutti_hal.conformance_tests.rig import Rig
from tutti_hal.conformance_tests.run import Run
from tutti_hal.errors import RecoveryFailed
from tutti_hal.io_uring import QueueRecovery, RecoveryLimits

#: Limits of the three steps: exact in a virtual clock; long for a machine in real time.
LIMITS_NS = {True: (300_000, 500_000, 2_000_000), False: (2_000_000_000, 4_000_000_000, 8_000_000_000)}


def step_limits(run: Run) -> RecoveryLimits:
    """The limits, as the run's world or machine needs them."""
    abort_ns, recreate_ns, reset_ns = LIMITS_NS[run.world is not None]
    return RecoveryLimits(abort_ns=abort_ns, recreate_ns=recreate_ns, reset_ns=reset_ns)


def recover(rig: Rig, limits: RecoveryLimits) -> dict[str, Any]:
    """Recover all that is not well: what became of each queue, and the error behind a failure."""
    failed = ""
    try:
        results: tuple[QueueRecovery, ...] = rig.ring.recover(limits)
    except RecoveryFailed as error:
        results, failed = error.results, type(error.__cause__).__name__
    return {
        "failed": failed,
        "queues": [
            {
                "row": one.row,
                "drive": one.drive,
                "step": one.step.value if one.step is not None else "",
                "tried": [failure.step.value for failure in one.failures],
                "unknown": one.unknown,
                "aborted": one.aborted,
                "took_ns": one.took_ns,
            }
            for one in results
        ],
    }


def let_pass(rig: Rig, nanoseconds: int) -> None:
    """Let time go by: the world's, or real time where there is no world."""
    if rig.world is None:
        time.sleep(nanoseconds / 1e9)
        return
    until = rig.world.now_ns + nanoseconds
    while rig.world.now_ns < until:
        rig.world.run(4096)

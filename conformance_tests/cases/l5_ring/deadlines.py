"""Completions about the time of a deadline: after it and twice, and at the moment at which the wait is given up."""

from __future__ import annotations

import numpy as np

from tutti_hal.conformance_tests.case import Observations, case
from tutti_hal.conformance_tests.cases.l5_ring.completions import wait_for_all
from tutti_hal.conformance_tests.rig import BLOCK, Rig, drive
from tutti_hal.conformance_tests.run import Run
from tutti_hal.conformance_tests.seen import Seen
from tutti_hal.nvme.software_config import FaultAction, FaultRule

_COUNT = 4


@case(
    "ring/deadline.late_twice",
    level="L5",
    clauses=("ring.cq.late_counted", "ring.cq.duplicate_counted", "ring.request.exactly_once"),
    kernels=("ring",),
)
def late_twice(run: Run) -> Observations:
    """Completions come after their deadline, one of them twice: the first is late, the second is nobody's."""
    limit = Rig.short_ns(run)
    slow = drive(slow_latency_ns=3 * limit // 2, slow_ppm=10**6)
    faults = [FaultRule(action=FaultAction.DUPLICATE, lbas=(1, 1), count=1)]
    at = np.arange(_COUNT)
    with Rig(run, {"depth": 8, "limit_ns": limit}, drives=[slow], faults=faults) as rig:
        first = rig.submit("read", lba=at, offset=at * BLOCK)
        came = wait_for_all(rig)
        # Nothing can be submitted, and lanes of this batch see what came.
        second = rig.submit("read", lba=at, offset=at * BLOCK)
        return {"first": first, "came": came, "second": second, "counted": rig.counted()}


@late_twice.judge
def _(seen: Seen) -> None:
    ring = seen["counted"]["ring"]
    seen.holds("ring.cq.late_counted", "every completion came", seen["came"], seen["came"])
    seen.equal("ring.request.exactly_once", "how the requests ended", seen["first"]["state"], ["TIMED_OUT"] * _COUNT)
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


@case(
    "ring/deadline.at_once",
    level="L5",
    clauses=("ring.request.exactly_once", "ring.cq.late_counted"),
    kernels=("ring",),
    axes={"early_permille": (0, 2, 10)},
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
        with Rig(run, {"depth": 8, "limit_ns": limit}, drives=[slow]) as rig:
            ended = rig.submit("read", lba=at, offset=at * BLOCK)
            came = wait_for_all(rig)
            if "TIMED_OUT" in ended["state"]:  # the queue takes nothing more, and lanes of these batches see what came
                for _ in range(4):
                    rig.submit("read", lba=at, offset=at * BLOCK)
            found.append({"state": ended["state"], "came": came, "ring": rig.counted()["ring"]})
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
        seen.holds("ring.cq.late_counted", "every completion came", one["came"], one["came"])
        seen.equal(
            "ring.cq.late_counted",
            "completions: late, withdrawn, nobody's",
            [ring["lates"], ring["quarantined"], ring["strays"]],
            [late, late, 0],
        )

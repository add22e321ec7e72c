"""A case that cannot decide, for packages; loaded as an extra case, never as part of the suite."""

from __future__ import annotations

from tutti_hal.conformance_tests.case import Observations, case
from tutti_hal.conformance_tests.run import Run
from tutti_hal.conformance_tests.seen import Seen


@case("plant/doubts", level="L3", clauses=("prim.crc.check_value",))
def doubts(run: Run) -> Observations:
    """What it saw does not suffice."""
    return {"value": 4}


@doubts.judge
def _(seen: Seen) -> None:
    seen.equal("prim.crc.check_value", "the value", seen["value"], 4)
    seen.inconclusive("the twin was noticed 0 times")

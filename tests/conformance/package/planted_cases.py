"""Cases that end in every way, for packages; loaded as extra cases, never as part of the suite."""

from __future__ import annotations

import numpy as np

from tutti_hal.conformance_tests.case import Observations, Per, case
from tutti_hal.conformance_tests.run import Run
from tutti_hal.conformance_tests.seen import Seen
from tutti_hal.conformance_tests.verdict import SkipReason

ONE, TWO = "prim.crc.check_value", "prim.crc.composes"


@case("plant/array", level="L3", clauses=(ONE,), axes={"bits": (32, 64), "on": (True,)})
def array(run: Run) -> Observations:
    """An array of random words."""
    return {"words": run.random.integers(0, 100, 4, np.uint32), "sizes": [1, 2], "unread": "x"}


@array.judge
def _(seen: Seen) -> None:
    seen.holds(ONE, "words are small", (seen["words"] < 100).all(), seen["words"], examined=seen["words"])


@case("plant/fails", level="L3", clauses=(ONE, TWO))
def fails(run: Run) -> Observations:
    """One of two clauses does not hold."""
    run.foresee("harmless .*")
    return {"value": 3}


@fails.judge
def _(seen: Seen) -> None:
    seen.equal(ONE, "the value", seen["value"], 4)
    seen.equal(TWO, "the value", seen["value"], 3)


@case("plant/waived", level="L3", clauses=(TWO,))
def waived(run: Run) -> Observations:
    """It fails too, and somebody answers for that."""
    return {"value": run.facts.wave_width}


@waived.judge
def _(seen: Seen) -> None:
    seen.equal(TWO, "the wave width", seen["value"], -1)


@case("plant/capable", level="L2", clauses=("host.partition.streams",), needs=("device.partition",))
def capable(run: Run) -> Observations:
    """Skipped where streams cannot be partitioned."""
    return {}


@capable.judge
def _(seen: Seen) -> None:
    seen.holds("host.partition.streams", "it is never run here", False)


@case("plant/lacking", level="L3", clauses=(ONE,))
def lacking(run: Run) -> Observations:
    """It skips itself, and no machine's list has it."""
    run.skip(SkipReason.MACHINE, "a second device is missing")


@lacking.judge
def _(seen: Seen) -> None:
    seen.holds(ONE, "it is never judged", True)


@case("plant/raises", level="L3", clauses=(ONE,))
def raises(run: Run) -> Observations:
    """The case itself is wrong."""
    raise RuntimeError("planted")


@raises.judge
def _(seen: Seen) -> None:
    seen.holds(ONE, "it is never judged", True)


@case("plant/who", level="L3", clauses=(ONE,), per=Per.VENDOR, identity=True)
def who(run: Run) -> Observations:
    """The same in each shard."""
    return {"vendor": run.facts.vendor}


@who.judge
def _(seen: Seen) -> None:
    seen.equal(ONE, "the vendor", seen["vendor"], seen.facts.vendor)

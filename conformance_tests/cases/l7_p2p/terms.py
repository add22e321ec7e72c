"""What the cases of L7 have in common. No case is here."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from tutti_hal.conformance_tests.seen import Axis

#: Why no mutant of the product's templates or records is killed by them.
NO_MUTANT = (
    "It needs the kernel module and a drive, which a self-test's machine has not. Faults of the module are planted by "
    "hand in the rig; docs/p2p/conformance.md lists them."
)

#: Seconds for a case: processors are emulated in the rig.
BUDGET_S = 240.0


def real(axes: Mapping[str, Axis], facts: Any) -> bool:
    """Only archs whose kernels run for real: a simulated world has no drive but its own."""
    del axes
    return not facts.simulated

"""CRC-32C steps."""

from __future__ import annotations

import numpy as np

from tutti_hal.conformance_tests.case import Observations, case
from tutti_hal.conformance_tests.run import Run
from tutti_hal.conformance_tests.seen import Seen


@case("prim/crc32c", level="L3", clauses=("prim.crc.check_value", "prim.crc.composes"), kernels=("probe_primitives",))
def crc32c(run: Run) -> Observations:
    """Sums of random words, made by whole words and by halves, are those of the polynomial."""
    words = run.random.integers(0, 1 << 64, 64, np.uint64)
    sums = run.buffer(8)
    run.launch(run.kernel("probe_primitives", "probe_crc32c"), 1, 1, run.array(words), len(words), sums)
    return {"words": words, "sums": run.read(sums, np.uint32)}


@crc32c.judge
def _(seen: Seen) -> None:
    wanted = _crc32c(seen["words"].tobytes())
    seen.equal("prim.crc.check_value", "CRC-32C by double words", int(seen["sums"][0]), wanted)
    seen.equal("prim.crc.composes", "CRC-32C by words", int(seen["sums"][1]), wanted)


def _crc32c(data: bytes) -> int:
    """CRC-32C bit by bit, from its definition: reflected, polynomial 82F63B78h, inverted before and after."""
    crc = 0xFFFFFFFF
    for byte in data:
        crc ^= byte
        for _ in range(8):
            crc = crc >> 1 ^ (0x82F63B78 if crc & 1 else 0)
    return crc ^ 0xFFFFFFFF

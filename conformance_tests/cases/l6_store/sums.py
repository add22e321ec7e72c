"""Sums of payloads on the device. The oracle works bit by bit."""

from __future__ import annotations

import numpy as np

from tutti_hal.conformance_tests.case import Observations, case
from tutti_hal.conformance_tests.cases.l6_store.layouts import RANGE
from tutti_hal.conformance_tests.run import Run
from tutti_hal.conformance_tests.seen import Seen

_POLYNOMIAL = 0x82F63B78
_RANGES = ((0, 0), (8, 1), (16, 7), (24, 8), (0, 9), (40, 511), (64, 1024), (8, 2001))


def _byte_powers() -> np.ndarray:
    """What the kernel is given: x to the power of 8 * 2^k, highest power in bit 0, each the square of the one before.

    A product modulo the polynomial by its definition: one shift of a factor for each bit of the other.
    """
    found = [0x00800000]  # x^8: bit 31 is x^0
    for _ in range(40):
        factor, square = found[-1], 0
        for bit in range(32):
            if found[-1] & (0x80000000 >> bit):
                square ^= factor
            factor = factor >> 1 ^ (_POLYNOMIAL if factor & 1 else 0)
        found.append(square)
    return np.array(found, np.uint32)


@case("store/checksum", level="L6", clauses=("store.checksum.value",), kernels=("store",), axes={"lanes": (1, 32, 100)})
def checksum(run: Run) -> Observations:
    """Ranges of no byte, of fewer than the lanes, and of lengths that no power of two divides."""
    data = run.random.integers(0, 256, 2048, np.uint8)
    ranges = np.array(_RANGES, np.uint64).reshape(-1).view(RANGE)
    sums = run.buffer(4 * len(ranges), "device")
    memory, given, powers = (run.array(one, "device") for one in (data, ranges, _byte_powers()))
    kernel = run.kernel("store", "store_checksum")
    run.launch(kernel, 3, run.axes["lanes"], memory, given, len(ranges), powers, sums)
    return {"data": data, "sums": run.read(sums, np.uint32)}


@checksum.judge
def _(seen: Seen) -> None:
    data = seen["data"].tobytes()
    expected = [_sum(data[at : at + count]) for at, count in _RANGES]
    seen.equal("store.checksum.value", "sums of the ranges", seen["sums"].tolist(), expected)


def _sum(data: bytes) -> int:
    """CRC-32C from its definition: reflected, all ones before and after."""
    state = 0xFFFFFFFF
    for byte in data:
        state ^= byte
        for _ in range(8):
            state = state >> 1 ^ (_POLYNOMIAL if state & 1 else 0)
    return state ^ 0xFFFFFFFF

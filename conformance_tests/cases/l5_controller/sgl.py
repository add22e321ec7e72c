"""SGLs: each malformed one has its own status."""

from __future__ import annotations

import numpy as np

from tutti_hal.conformance_tests.case import Observations, case
from tutti_hal.conformance_tests.cases.l5_controller.answers import answers, judge_answers
from tutti_hal.conformance_tests.oracle.nvme import (
    OK,
    PAGE,
    READ,
    SGL_COUNT,
    SGL_DATA_LENGTH,
    SGL_SEGMENT,
    SGL_TYPE,
    Status,
    block_descriptor,
    rw,
)
from tutti_hal.conformance_tests.rig import BLOCK, drive, raw_host
from tutti_hal.conformance_tests.run import Run
from tutti_hal.conformance_tests.seen import Seen

_SGLS: dict[str, Status] = {
    "one block": OK,
    "keyed": SGL_TYPE,
    "transport": SGL_TYPE,
    "unknown type": SGL_TYPE,
    "offset subtype": SGL_TYPE,
    "too short": SGL_DATA_LENGTH,
    "empty": SGL_DATA_LENGTH,
    "address that wraps": SGL_DATA_LENGTH,
    "segment of no bytes": SGL_SEGMENT,
    "segment of half an entry": SGL_SEGMENT,
    "segment off a quad word": SGL_SEGMENT,
    "segment without a next one": SGL_SEGMENT,
    "last segment that has a next one": SGL_SEGMENT,
    "next segment in the middle": SGL_COUNT,
    "two halves": OK,
}


@case("controller/sgl", level="L5", clauses=("controller.sgl.refusals",))
def sgl(run: Run) -> Observations:
    """Each malformed SGL is answered with its own status, and well-formed ones move their bytes."""
    with raw_host(run, drive(sgls=0x000F_0001)) as host:
        data = run.random.integers(0, 256, BLOCK, np.uint8).tobytes()
        host.drive.write_stored(1, 0, data)
        memory, chain = host.allocate(PAGE, contiguous=True), host.allocate(PAGE, contiguous=True)
        bus, at = memory.bus(), chain.bus()
        half, rest = block_descriptor(bus, 256), block_descriptor(bus + 256, 256)
        chain.put(0, half + rest)
        chain.put(64, rest)
        chain.put(128, half + block_descriptor(at + 64, 16, 3))
        chain.put(192, half + block_descriptor(at + 64, 16, 3) + rest)
        tried = {
            "one block": block_descriptor(bus, BLOCK),
            "keyed": block_descriptor(bus, BLOCK, 4),
            "transport": block_descriptor(bus, BLOCK, 5),
            "unknown type": block_descriptor(bus, BLOCK, 0xE),
            "offset subtype": block_descriptor(bus, BLOCK, 0, 1),
            "too short": block_descriptor(bus, BLOCK - 1),
            "empty": block_descriptor(bus, 0),
            "address that wraps": block_descriptor(2**64 - 256, BLOCK),
            "segment of no bytes": block_descriptor(at, 0, 3),
            "segment of half an entry": block_descriptor(at, 24, 3),
            "segment off a quad word": block_descriptor(at + 4, 16, 3),
            "segment without a next one": block_descriptor(at, 32, 2),
            "last segment that has a next one": block_descriptor(at + 128, 32, 3),
            "next segment in the middle": block_descriptor(at + 192, 48, 2),
        }
        found = answers(host, 1, {name: rw(READ, 0, 1, psdt=1, sgl=one) for name, one in tried.items()})
        memory.put(0, bytes(PAGE))
        found |= answers(host, 1, {"two halves": rw(READ, 0, 1, psdt=1, sgl=block_descriptor(at, 32, 3))})
        return {"found": found, "data": data, "memory": memory.get(0, BLOCK)}


@sgl.judge
def _(seen: Seen) -> None:
    judge_answers(seen, "controller.sgl.refusals", seen["found"], _SGLS)
    seen.equal("controller.sgl.refusals", "bytes that two halves moved", seen["memory"], seen["data"])

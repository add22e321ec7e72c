"""What commands do to data: written, read, zeroed, deallocated, compared, flushed, lost."""

from __future__ import annotations

import os
import struct
from pathlib import Path
from typing import Any

import numpy as np

from tutti_hal.conformance_tests.case import Observations, case
from tutti_hal.conformance_tests.observation import refusal
from tutti_hal.conformance_tests.oracle.nvme import (
    AQA,
    COMPARE,
    COMPARE_FAILURE,
    DATASET,
    FLUSH,
    FUA,
    LBA_RANGE,
    OK,
    PAGE,
    READ,
    WRITE,
    WRITE_ZEROES,
    rw,
    sqe,
)
from tutti_hal.conformance_tests.rig import BLOCK, drive, raw_host
from tutti_hal.conformance_tests.run import Run
from tutti_hal.conformance_tests.seen import Seen
from tutti_hal.nvme.software import (
    ControllerConfig,
    Direct,
    FileNamespace,
    NullController,
    SoftwareController,
    VolatileCache,
)

#: Blocks of the namespace in these cases.
_BLOCKS = 1 << 16


@case("controller/deallocate", level="L5", clauses=("controller.command.deallocate", "controller.command.write_zeroes"))
def deallocate(run: Run) -> Observations:
    """Zeroed and deallocated blocks read as zeroes, and no block beside them changes; bad ranges change nothing."""
    before = run.random.integers(1, 256, 64 * BLOCK, np.uint8)
    with raw_host(run, drive(blocks=_BLOCKS)) as host:
        host.drive.write_stored(1, 0, before.tobytes())
        memory = host.allocate(PAGE)
        ranges = [(20, 3), (0, 0), (40, 1)]
        memory.put(0, b"".join(struct.pack("<IIQ", 0, count, first) for first, count in ranges))
        zeroed = host.io(rw(WRITE_ZEROES, 3, 5)).status
        dropped = host.io(sqe(DATASET, nsid=1, prp1=memory.bus(), dwords={10: 2, 11: 4})).status
        memory.put(0, struct.pack("<IIQ", 0, 2, _BLOCKS - 1))
        beyond = host.io(sqe(DATASET, nsid=1, prp1=memory.bus(), dwords={10: 0, 11: 4})).status
        return {
            "before": before,
            "after": np.frombuffer(host.drive.read_stored(1, 0, 64 * BLOCK), np.uint8),
            "statuses": [list(zeroed), list(dropped), list(beyond)],
        }


@deallocate.judge
def _(seen: Seen) -> None:
    wanted = seen["before"].copy().reshape(64, BLOCK)
    wanted[3:8] = 0
    after = seen["after"].reshape(64, BLOCK)
    seen.equal("controller.command.write_zeroes", "blocks up to sixteen", after[:16], wanted[:16])
    wanted[20:23], wanted[40] = 0, 0
    seen.equal("controller.command.deallocate", "blocks from sixteen on", after[16:], wanted[16:])
    seen.equal("controller.command.write_zeroes", "status", seen["statuses"][0], list(OK))
    seen.equal("controller.command.deallocate", "statuses", seen["statuses"][1:], [list(OK), list(LBA_RANGE)])


@case(
    "controller/read_after_write",
    level="L5",
    clauses=("controller.command.read_after_write", "controller.dma.direction", "controller.command.compare"),
)
def read_after_write(run: Run) -> Observations:
    """What was written is read back, a write leaves the host's buffer alone, a read the namespace; one bit differs."""
    data = run.random.integers(1, 256, 16 * BLOCK, np.uint8).tobytes()
    with raw_host(run, drive(mdts=1)) as host:
        source, target = host.allocate(2 * PAGE), host.allocate(2 * PAGE)
        source.put(0, data)
        a, b = source.pages(), target.pages()
        statuses = [host.io(rw(WRITE, 5, 16, prp1=a[0], prp2=a[1])).status]
        source_after = source.get(0, len(data))
        statuses.append(host.io(rw(READ, 5, 16, prp1=b[0], prp2=b[1])).status)
        read = target.get(0, len(data))
        stored = host.drive.read_stored(1, 4 * BLOCK, 18 * BLOCK)
        compared = [host.io(rw(COMPARE, 5, 16, prp1=b[0], prp2=b[1])).status]
        for at in (0, 4097, len(data) - 1):
            target.view[at] ^= 1
            compared.append(host.io(rw(COMPARE, 5, 16, prp1=b[0], prp2=b[1])).status)
            target.view[at] ^= 1
        return {
            "data": data,
            "statuses": [list(one) for one in statuses],
            "source_after": source_after,
            "read": read,
            "stored": stored,
            "compared": [list(one) for one in compared],
            "target_after": target.get(0, len(data)),
        }


@read_after_write.judge
def _(seen: Seen) -> None:
    data, edge = seen["data"], bytes(BLOCK).hex()
    seen.equal("controller.command.read_after_write", "statuses of write and read", seen["statuses"], [list(OK)] * 2)
    seen.equal("controller.command.read_after_write", "bytes that were read", seen["read"], data)
    seen.equal("controller.dma.direction", "the host's buffer after a write from it", seen["source_after"], data)
    seen.equal(
        "controller.dma.direction", "the namespace after a read, and beside it", seen["stored"], edge + data + edge
    )
    seen.equal("controller.dma.direction", "the host's buffer after compares", seen["target_after"], data)
    seen.equal(
        "controller.command.compare",
        "statuses of equal bytes, and of a bit that differs in three places",
        seen["compared"],
        [list(OK)] + [list(COMPARE_FAILURE)] * 3,
    )


@case(
    "controller/cache",
    level="L5",
    clauses=("controller.command.flush", "controller.command.cache_loss"),
    axes={"survive": (0, 50)},
)
def cache(run: Run) -> Observations:
    """What was flushed or forced survives the loss of the cache; of the rest each block is the old or the new one."""
    count = 64
    with raw_host(run, drive(volatile_cache=VolatileCache.MODELLED)) as host:
        memory = host.allocate(PAGE)

        def write(first: int, blocks: int, byte: int, flags: int = 0) -> list[int]:
            memory.put(0, bytes([byte]) * BLOCK)
            return [
                host.io(rw(WRITE, lba, 1, prp1=memory.bus(), flags=flags)).status[1]
                for lba in range(first, first + blocks)
            ]

        codes = write(0, count, 1)
        codes.append(host.io(sqe(FLUSH, nsid=1)).status[1])
        codes += write(0, count // 2, 2) + write(count // 2, 4, 3, FUA)
        unflushed = host.drive.namespace_info(1).unflushed_blocks
        memory.put(0, bytes(PAGE))
        codes.append(host.io(rw(READ, 0, 1, prp1=memory.bus())).status[1])
        seen_before = memory.get(0, BLOCK)
        host.drive.power_cut(seed=run.seed % 1000, survive=int(run.axes["survive"]) / 100)
        host.store(AQA, 0)  # whatever is written to a register, the drive looks
        host.require("the power was cut", lambda: host.drive.counters.power_cuts == 1)
        after = np.frombuffer(host.drive.read_stored(1, 0, count * BLOCK), np.uint8).reshape(count, BLOCK)
        return {"codes": codes, "unflushed": unflushed, "before": seen_before, "after": after}


@cache.judge
def _(seen: Seen) -> None:
    after, count = seen["after"], 64
    whole = np.array([len(set(block.tolist())) for block in after])
    seen.equal("controller.command.cache_loss", "commands that failed", sum(map(bool, seen["codes"])), 0)
    seen.equal(
        "controller.command.cache_loss", "what a read gives before the loss", seen["before"], (b"\x02" * BLOCK).hex()
    )
    seen.equal(
        "controller.command.cache_loss", "values in each block, of one write or the other", whole, np.ones(count, int)
    )
    lost = after[: count // 2, 0]
    if int(seen.axes["survive"]):
        some = set(lost.tolist())
        seen.equal("controller.command.cache_loss", "what half of them keep", some, {1, 2})
    else:
        seen.equal(
            "controller.command.cache_loss",
            "blocks that were written and not flushed",
            lost,
            np.full(count // 2, 1, np.uint8),
        )
    forced, flushed = after[count // 2 : count // 2 + 4, 0], after[count // 2 + 4 :, 0]
    seen.equal("controller.command.flush", "blocks written with force unit access", forced, np.full(4, 3, np.uint8))
    seen.equal("controller.command.flush", "blocks that were flushed", flushed, np.full(len(flushed), 1, np.uint8))
    seen.equal("controller.command.flush", "blocks that the drive said were not durable", seen["unflushed"], count // 2)


@case("controller/null", level="L5", clauses=("controller.null.no_data",))
def null(run: Run) -> Observations:
    """The null controller completes every command, touches neither buffer nor medium, and says what it is."""
    with raw_host(run, drive(), depth=32, make=NullController) as host:
        memory = host.allocate(PAGE)
        memory.put(0, b"\xa5" * PAGE)
        commands = [rw(WRITE, 0, 1, prp1=memory.bus()), rw(READ, 10**6, 1, prp1=memory.bus())] * 10
        host.send(1, commands)
        statuses = [list(one.status) for one in host.collect(1, 20)]
        identified = host.identify(1)[1]
        return {
            "statuses": statuses,
            "memory": memory.get(0, PAGE),
            "model": identified[24:64].decode("ascii", "replace"),
        }


@null.judge
def _(seen: Seen) -> None:
    clause = "controller.null.no_data"
    seen.equal(clause, "statuses", seen["statuses"], [list(OK)] * 20)
    seen.equal(clause, "the host's memory", seen["memory"], (b"\xa5" * PAGE).hex())
    seen.holds(clause, "its model says that it is the null controller", "null" in seen["model"].lower(), seen["model"])


@case("controller/file", level="L5", clauses=("controller.file.direct", "controller.file.bad_backing_refused"))
def file(run: Run) -> Observations:
    """A namespace over a file keeps to its range and says how it reaches the file; what cannot serve is refused."""
    data = run.random.integers(0, 256, 1 << 16, np.uint8).tobytes()
    path, short, uneven = (run.scratch / name for name in ("whole", "short", "uneven"))
    path.write_bytes(data)
    short.write_bytes(bytes(8192))
    uneven.write_bytes(bytes(8192 + 512))

    def over(where: Path, **fields: Any) -> ControllerConfig:
        return drive(namespaces=(FileNamespace(path=where, direct=Direct.PREFERRED, **fields),))

    refusals = {
        "too short": refusal(lambda: SoftwareController(over(short, blocks=3))),
        "uneven": refusal(lambda: SoftwareController(over(uneven))),
        "missing": refusal(lambda: SoftwareController(over(run.scratch / "absent"))),
        "a folder": refusal(lambda: SoftwareController(over(run.scratch))),
    }
    fresh = run.random.integers(0, 256, 2 * PAGE, np.uint8).tobytes()
    with raw_host(run, over(path, blocks=12)) as host:
        memory = host.allocate(2 * PAGE, contiguous=True)
        memory.put(0, fresh)
        pages = memory.pages()
        statuses = [list(host.io(rw(WRITE, 3, 2, prp1=pages[0], prp2=pages[1])).status)]
        statuses.append(list(host.io(sqe(FLUSH, nsid=1)).status))
        memory.put(0, bytes(2 * PAGE))
        statuses.append(list(host.io(rw(READ, 10, 2, prp1=pages[0], prp2=pages[1])).status))
        statuses.append(list(host.io(rw(READ, 11, 2, prp1=pages[0], prp2=pages[1])).status))
        info = host.drive.namespace_info(1)
        return {
            "refusals": refusals,
            "data": data,
            "fresh": fresh,
            "statuses": statuses,
            "read": memory.get(0, 2 * PAGE),
            "file": path.read_bytes(),
            "direct": info.direct,
            "possible": _direct_is_possible(path),
        }


def _direct_is_possible(path: Path) -> bool:
    try:
        os.close(os.open(path, os.O_RDONLY | os.O_DIRECT))
    except OSError:
        return False
    return True


@file.judge
def _(seen: Seen) -> None:
    for name, error in (
        *(("too short", "NamespaceFileShort"), ("uneven", "NamespaceFileUneven")),
        *(("missing", "NamespaceFileMissing"), ("a folder", "NamespaceFileKind")),
    ):
        seen.refused("controller.file.bad_backing_refused", f"a file that is {name}", seen["refusals"][name], error)
    clause, data, fresh = "controller.file.direct", seen["data"], seen["fresh"]
    seen.equal(clause, "statuses", seen["statuses"], [list(OK)] * 3 + [list(LBA_RANGE)])
    page = 2 * PAGE  # as hexadecimal text
    seen.equal(clause, "bytes that were read", seen["read"], data[10 * page : 12 * page])
    seen.equal(clause, "the file", seen["file"], data[: 3 * page] + fresh + data[5 * page :])
    found = (seen["direct"], seen["possible"])
    said = seen["direct"] in (True, False) and seen["direct"] <= seen["possible"]
    seen.holds(clause, "it says whether it goes past the page cache, and only where that can be", said, found)

"""Bytes that descriptors retain per registered byte: PRP lists and SGL descriptors, for objects of 4 to 512 KiB.

A pool of objects is registered with a real ring over a software drive, in pieces of one object; each object is one run
on the bus, its neighbours are elsewhere. Counted is every byte: lists, tables, their pages as they were allocated, and
the buffer's record, on the device and in the host's image of it. Beside it, in the same run: a naive PRP list for each
object, a page of its own, and the ring's lists without pieces, for any range.

    python benchmarks/bench_descriptors.py [--pool MIB] [--json]

Nothing is timed. It exits 1 when a goal for objects of 64 KiB is missed.
"""

from __future__ import annotations

import argparse
import json
import sys
from contextlib import ExitStack

from tutti_hal.conformance_tests.drives import BufferDma, bring_up, drive
from tutti_hal.io_uring import Drive, Ring, RingOptions
from tutti_hal.machine import benchmark_facts
from tutti_hal.nvme.software import Iommu, SoftwareController
from tutti_hal.shim import Device

#: Of the registered bytes, at objects of 64 KiB.
GOALS = {"prp": 0.0020, "sgl": 0.00025}
GOAL_AT = 64 << 10
OBJECTS = (4 << 10, 16 << 10, 64 << 10, 512 << 10)


class _Objects:
    """`DmaMemory` of a pool of which nobody moves a byte: bus addresses alone, each object a run, gaps between them."""

    def __init__(self, nbytes: int, each: int) -> None:
        self.address, self.nbytes = 1 << 40, nbytes
        self.runs = [((1 << 41) + 2 * at, each) for at in range(0, nbytes, each)]


def measure(device: Device, pool: int, each: int, form: str) -> int:
    """Bytes retained for a pool of ``pool`` bytes in objects of ``each``."""
    with ExitStack() as stack:
        iommu = stack.enter_context(Iommu(seed=1))
        controller = stack.enter_context(SoftwareController(drive(), iommu))
        handle = bring_up(device, None, controller, stack)
        one = Drive(handle=handle, dma=BufferDma(device, iommu, "mapped"))
        options = RingOptions(depth=16, batch_limit=16, batches=1, use_sgl=form == "sgl")
        ring = stack.enter_context(Ring.init_queue(device, [one], options))
        piece = None if form == "any range" else each
        return ring.register(_Objects(pool, each), piece=piece).descriptor_bytes  # type: ignore[arg-type]


def naive(pool: int, each: int) -> int:
    """A PRP list in a page of its own for each object: what a driver that maps each transfer keeps."""
    pages = each >> 12
    return pool // each * 4096 * -(-max(pages - 1, 0) // 511)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--pool", type=int, default=256, metavar="MIB", help="registered memory (default: 256)")
    parser.add_argument("--json", action="store_true", help="one JSON object on standard output")
    options = parser.parse_args()
    if options.pool < 1:
        parser.error("--pool takes 1 or more")
    pool, device, results = options.pool << 20, Device("host:threads-w32"), []

    def say(line: str) -> None:
        if not options.json:
            print(line)

    say(f"{'object':>8} {'form':<10} {'bytes retained':>15} {'of the pool':>12} {'an object':>10} {'naive list':>11}")
    for each in OBJECTS:
        beside = naive(pool, each)
        for form in ("prp", "sgl", "any range"):
            kept = measure(device, pool, each, form)
            row = {
                "object_bytes": each,
                "form": form,
                "bytes": kept,
                "share": kept / pool,
                "naive_share": beside / pool,
            }
            results.append(row)
            say(
                f"{each >> 10:>4} KiB {form:<10} {kept:>15,} {kept / pool:>12.5%} "
                f"{kept * each / pool:>10.1f} {beside / pool:>11.5%}"
            )
    met = True
    for form, goal in GOALS.items():
        share = next(r["share"] for r in results if (r["object_bytes"], r["form"]) == (GOAL_AT, form))
        met = met and share <= goal
        say(f"goal {form}, objects of 64 KiB: <= {goal:.3%}: {'met' if share <= goal else 'MISSED'} ({share:.5%})")
    if options.json:
        report = {"machine": benchmark_facts(), "pool_bytes": pool, "page_bytes": 4096, "goals": GOALS, "met": met}
        print(json.dumps({**report, "results": results}, indent=2))
    return 0 if met else 1


if __name__ == "__main__":
    sys.exit(main())

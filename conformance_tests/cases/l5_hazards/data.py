"""Data that are not what they should be: read before they came, in the wrong order, at another drive's address."""

from __future__ import annotations

import numpy as np

from tutti_hal.conformance_tests.case import Observations, case
from tutti_hal.conformance_tests.cases.l5_hazards.worlds import queues
from tutti_hal.conformance_tests.cases.l5_ring.trips import judge_bytes, judge_counts, round_trip
from tutti_hal.conformance_tests.rig import BLOCK, SPOILT, Rig, drive
from tutti_hal.conformance_tests.run import Run
from tutti_hal.conformance_tests.seen import Seen
from tutti_hal.nvme.software_config import CompletionOrder

_WORDS = BLOCK // 4


@case(
    "hazard/h27.stale_data",
    level="L5",
    clauses=("controller.dma.data_before_completion", "ring.request.data_exact"),
    kernels=("ring", "probe_host"),
    budget_s=30.0,
)
def stale_data(run: Run) -> Observations:
    """A kernel behind a batch reads what the drive put there, though one before it had the old bytes in its caches."""
    count, found = 16, []
    source = run.random.integers(0, 256, count * BLOCK, np.uint8)
    copy = run.kernel("probe_host", "host_copy")
    slow = drive(latency_ns=5000 if run.world is not None else 2_000_000, order=CompletionOrder.RANDOM)
    for _ in run.schedules(3):
        with Rig(run, {"depth": 8}, drives=[slow]) as rig:
            rig.put(source)
            rig.submit("write", lba=np.arange(count), offset=np.arange(count) * BLOCK)
            rig.put()
            old, new = run.buffer(count * BLOCK), run.buffer(count * BLOCK)
            iocb = rig.fill(rig.ring.get_iocb(), "read", lba=np.arange(count), offset=np.arange(count) * BLOCK)
            # All on one stream; the host looks only once all of it is done.
            run.launch(copy, 4, 64, rig.memory.address, old.address, count * _WORDS, wait=False)
            rig.ring.issue_io(iocb, run.stream)
            run.launch(copy, 4, 64, rig.memory.address, new.address, count * _WORDS, wait=False)
            ended = rig.finish(iocb)
            found.append({"state": ended["state"], "old": run.read(old, np.uint8), "new": run.read(new, np.uint8)})
    return {"source": source, "found": found}


@stale_data.judge
def _(seen: Seen) -> None:
    source = seen["source"]
    for one in seen["found"]:
        spoilt = np.full(len(source), SPOILT, np.uint8)
        seen.equal("ring.request.data_exact", "what the kernel before read", one["old"], spoilt)
        seen.equal("ring.request.data_exact", "requests that completed", one["state"], ["COMPLETED"] * 16)
        seen.equal("controller.dma.data_before_completion", "what the kernel behind read", one["new"], source)


@case(
    "hazard/h28.read_after_write",
    level="L5",
    clauses=("controller.command.read_after_write", "ring.request.data_exact", "ring.host.queue_classes"),
    kernels=("ring",),
    budget_s=30.0,
)
def read_after_write(run: Run) -> Observations:
    """Two queues know no order: a read that depends on a write goes out in the next batch, behind its completion."""
    count, found = 12, []
    classes = queues(run, 2)
    at = np.arange(count)
    slow = drive(latency_ns=5000 if run.world is not None else 2_000_000, order=CompletionOrder.RANDOM, order_window=4)
    for _ in run.schedules(3):
        source = run.random.integers(0, 256, count * BLOCK, np.uint8)
        with Rig(run, {"depth": 16, "queues": (1,) * classes}, drives=[slow]) as rig:
            rig.put(source)
            write = rig.fill(rig.ring.get_iocb(), "write", lba=at, offset=at * BLOCK)
            read = rig.fill(rig.ring.get_iocb(), "read", lba=at, offset=(count + at) * BLOCK, queue_class=classes - 1)
            # The host waits for neither in between.
            rig.ring.issue_io(write, rig.stream)
            rig.ring.issue_io(read, rig.stream)
            ended = [rig.finish(write), rig.finish(read)]
            fetched = [queue["fetched"] for queue in rig.counted()["queues"]]
            found.append(
                {
                    "source": source,
                    "memory": rig.get(2 * count * BLOCK),
                    "states": [one["state"] for one in ended],
                    "queues": fetched,
                }
            )
    return {"found": found}


@read_after_write.judge
def _(seen: Seen) -> None:
    for one in seen["found"]:
        source, memory = one["source"], one["memory"]
        seen.equal("ring.request.data_exact", "requests that completed", one["states"], [["COMPLETED"] * 12] * 2)
        seen.equal(
            "ring.host.queue_classes",
            "commands of each queue",
            one["queues"],
            [24 // len(one["queues"])] * len(one["queues"]),
        )
        got = memory[len(source) :]
        seen.equal("controller.command.read_after_write", "what the reads behind the writes gave", got, source)


@case(
    "hazard/h30.addresses_of_another_drive",
    level="L5",
    clauses=("ring.host.many_drives", "ring.request.data_exact", "controller.dma.registered_only"),
    kernels=("ring",),
    budget_s=30.0,
    axes={"contiguous": (False, True), "sgl": (False, True)},
    # One descriptor names one run.
    only=lambda axes, _: bool(axes["contiguous"]) or not axes["sgl"],
)
def addresses_of_another_drive(run: Run) -> Observations:
    """Drives behind IOMMUs of their own reach the same memory at other addresses: each is told its own."""
    contiguous = bool(run.axes["contiguous"])
    sizes = {"depth": 6, "use_sgl": bool(run.axes["sgl"])}
    drives = [drive(), drive(), drive()]
    with Rig(run, sizes, drives=drives, apart=True, contiguous=contiguous) as rig:
        buses = [[bus for bus, _ in one.runs] for one in rig.mappings]
        trip = round_trip(rig, 36)
        # Across pages, so that lists are used as well.
        rig.put(trip["source"])
        ended = [rig.submit("write", target=row, lba=64, nbytes=36 * BLOCK) for row in range(3)]
        stored = [np.frombuffer(one.read_stored(1, 64 * BLOCK, 36 * BLOCK), np.uint8) for one in rig.controllers]
        return {"trip": trip, "buses": buses, "states": [one["state"] for one in ended], "stored": stored}


@addresses_of_another_drive.judge
def _(seen: Seen) -> None:
    one = seen["trip"]
    judge_bytes(seen, "ring.host.many_drives", one)
    judge_counts(seen, "ring.host.many_drives", one)
    shared = set(seen["buses"][0]) & set(seen["buses"][1]) | set(seen["buses"][1]) & set(seen["buses"][2])
    apart = seen["buses"][0] != seen["buses"][1] != seen["buses"][2]
    seen.holds("controller.dma.registered_only", "the drives reach the memory elsewhere", apart, shared, seen["buses"])
    errors = [d["errors"] for d in one["counted"]["drives"]]
    seen.equal("controller.dma.registered_only", "commands with an address that is not mapped", errors, [0, 0, 0])
    seen.equal("ring.request.data_exact", "requests over many pages", seen["states"], [["COMPLETED"]] * 3)
    for stored in seen["stored"]:
        seen.equal("ring.request.data_exact", "what each drive stored", stored, one["source"])

"""What the host half promises: any number of drives, classes, formats and places, taken from what is in use."""

from __future__ import annotations

import itertools
from functools import partial
from typing import Any

import numpy as np

from tutti_hal.conformance_tests.case import Observations, case
from tutti_hal.conformance_tests.cases.l5_ring.trips import judge_bytes, judge_counts, round_trip
from tutti_hal.conformance_tests.observation import refusal
from tutti_hal.conformance_tests.rig import BLOCK, Rig, drive, placements
from tutti_hal.conformance_tests.run import Run
from tutti_hal.conformance_tests.seen import Seen
from tutti_hal.nvme.software import MemoryNamespace


@case("ring/many_drives", level="L5", clauses=("ring.host.many_drives",), kernels=("ring",), axes={"drives": (1, 4)})
def many_drives(run: Run) -> Observations:
    """One launch serves several drives, and several namespaces of one, each with its own share."""
    spaces = (MemoryNamespace(nsid=1, blocks=4096, lba_shift=9), MemoryNamespace(nsid=7, blocks=4096, lba_shift=9))
    drives = [drive(namespaces=spaces), *(drive() for _ in range(int(run.axes["drives"]) - 1))]
    with Rig(run, drives=drives) as rig:
        before = run.device.host_calls.copy()
        trip = round_trip(rig, 60)
        launches = run.device.host_calls - before
        return {
            "trip": trip,
            "targets": [[target.drive, target.nsid] for target in rig.ring.targets],
            "launches": sum(count for name, count in launches.items() if name.startswith("Launch")),
        }


@many_drives.judge
def _(seen: Seen) -> None:
    clause, one, drives = "ring.host.many_drives", seen["trip"], int(seen.axes["drives"])
    wanted = [[0, 1], [0, 7], *([number, 1] for number in range(1, drives))]
    seen.equal(clause, "namespaces of all drives", seen["targets"], wanted)
    judge_bytes(seen, clause, one)
    judge_counts(seen, clause, one)
    seen.equal(clause, "launches of two batches", seen["launches"], 2)
    each = 60 // len(wanted)
    shares = [d["io"] for d in one["counted"]["drives"]]
    seen.equal(clause, "each drive's share", shares, [{"1": n * each, "2": n * each} for n in [2, *[1] * (drives - 1)]])


@case("ring/queue_classes", level="L5", clauses=("ring.host.queue_classes",), kernels=("ring",))
def queue_classes(run: Run) -> Observations:
    """A request goes to a queue of its class, and a class without queues is refused."""
    at = np.arange(48)
    made: dict[str, Any] = {}

    def make() -> None:
        made["rig"] = Rig(run, {"queues": (2, 0, 1), "lanes": 2 * run.facts.wave_width, "block": run.facts.wave_width})

    refused = refusal(make)
    if refused["refused"]:
        return {"refused": refused}
    with made["rig"] as rig:
        first = rig.submit("read", lba=at, offset=0)
        last = rig.submit("read", lba=at[:20], offset=0, queue_class=2)
        none = [refusal(partial(rig.submit, "read", queue_class=n)) for n in (1, 3)]
        queues = [queue["fetched"] for queue in rig.counted()["queues"]]
        return {"refused": refused, "first": first, "last": last, "none": none, "queues": queues}


@queue_classes.judge
def _(seen: Seen) -> None:
    clause = "ring.host.queue_classes"
    if seen["refused"]["refused"]:
        # Where a drive grants one queue, three are refused, and never fewer used in their stead.
        seen.refused(clause, "three queues of a drive that grants fewer", seen["refused"], "QueuesRefused")
        return
    queues = seen["queues"]
    seen.equal(clause, "commands of each class, as the drive counts them", [sum(queues[:2]), queues[2]], [48, 20])
    seen.holds(
        clause,
        "a request says the queue it went through",
        bool((seen["first"]["queue"] < 2).all()),
        seen["first"]["queue"],
        48,
    )
    seen.equal(clause, "likewise of the other class", seen["last"]["queue"], np.full(20, 2, np.uint32))
    for one in seen["none"]:
        seen.refused(clause, "a class without queues", one, "RequestInvalid")


#: Drives that differ in what a ring could have taken for granted.
_DRIVES: dict[str, dict[str, Any]] = {
    "page": {"mpsmin": 1, "mpsmax": 1, "mdts": 2, "sgls": 0},
    "depth": {"mqes": 6, "sgls": 0},
    "limit": {"mdts": 1},
    "unlimited": {"mdts": 0, "sgls": 0},
    "stride": {"dstrd": 3, "io_queues": 1},
    "namespace": {"namespaces": (MemoryNamespace(nsid=0xFFFE, blocks=4096, lba_shift=9, format_index=37),)},
}


@case(
    "ring/any_drive",
    level="L5",
    clauses=("ring.host.nothing_hard_coded", "nvme.transfer.mdts", "ring.request.data_exact"),
    kernels=("ring",),
    axes={"drive": tuple(_DRIVES)},
)
def any_drive(run: Run) -> Observations:
    """Drives of other pages, depths, limits, strides and namespaces are served as they say, in pieces they take."""
    config = drive(**_DRIVES[str(run.axes["drive"])])
    nbytes = 96 * BLOCK
    source = run.random.integers(0, 256, nbytes, np.uint8)
    offset = 260
    with Rig(run, {"depth": 7}, drives=[config], data_bytes=1 << 17) as rig:
        rig.put(source, offset)
        written = rig.submit("write", lba=3, nbytes=nbytes, offset=offset)
        rig.put()
        read = rig.submit("read", lba=3, nbytes=nbytes, offset=offset)
        return {
            "source": source,
            "written": written,
            "read": read,
            "memory": rig.get(),
            "offset": offset,
            "counted": rig.counted(),
            "trip": round_trip(rig, 30),
        }


@any_drive.judge
def _(seen: Seen) -> None:
    source, memory, offset = seen["source"], seen["memory"], seen["offset"]
    for verb in ("written", "read"):
        seen.equal(
            "ring.host.nothing_hard_coded", f"status of what was {verb}", seen[verb]["status"].tolist(), [[0, 0]]
        )
    image = np.full(len(memory), 0xEE, np.uint8)
    image[offset : offset + len(source)] = source
    seen.equal("ring.request.data_exact", "what came back, and what lies beside it", memory, image)
    judge_bytes(seen, "ring.host.nothing_hard_coded", seen["trip"])
    # 2^n pages of the controller's least size; 48 KiB go in one piece where that is more, or where there is no limit.
    limit = {"page": 4 * 8192, "limit": 2 * 4096}.get(str(seen.axes["drive"]), len(source))
    parts = -(-len(source) // limit)
    io = seen["counted"]["drives"][0]["io"]
    seen.equal("nvme.transfer.mdts", "commands for one request each way", io, {"1": parts, "2": parts})
    seen.equal(
        "nvme.transfer.mdts",
        "commands that the drive answered with an error",
        seen["counted"]["drives"][0]["errors"],
        0,
    )


@case("ring/placement", level="L5", clauses=("ring.host.placement",), kernels=("ring",), budget_s=30.0)
def placement(run: Run) -> Observations:
    """Queues and data work wherever they may lie, in every combination, also after a queue was made anew."""
    kinds = placements(run.profile.record)
    found = []
    for sq, cq, data in itertools.product(kinds, repeat=3):
        places = {"submission_queue": sq, "completion_queue": cq, "data": data}
        for _ in run.schedules(1):
            with Rig(run, {"depth": 5}, places=places) as rig:
                found.append({"places": places, "trip": round_trip(rig, 24)})
    return {"kinds": list(kinds), "found": found}


@placement.judge
def _(seen: Seen) -> None:
    clause = "ring.host.placement"
    wanted = [list(places) for places in itertools.product(seen["kinds"], repeat=3)]
    seen.equal(clause, "combinations that were tried", [list(one["places"].values()) for one in seen["found"]], wanted)
    for one in seen["found"]:
        judge_bytes(seen, clause, one["trip"])
        judge_counts(seen, clause, one["trip"])

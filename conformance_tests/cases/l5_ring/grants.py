"""How many queues a drive grants: all of them are used, and one more is refused."""

from __future__ import annotations

import numpy as np

from tutti_hal.conformance_tests.case import Observations, case
from tutti_hal.conformance_tests.cases.l5_ring.trips import judge_bytes, judge_counts, round_trip
from tutti_hal.conformance_tests.observation import refusal
from tutti_hal.conformance_tests.rig import Rig, drive
from tutti_hal.conformance_tests.run import Run
from tutti_hal.conformance_tests.seen import Seen

#: Queues that the drive grants -> how a ring shares them among its classes.
_CLASSES = {1: (1,), 2: (1, 1), 31: (1, 1, 1, 28)}


@case(
    "ring/grants",
    level="L5",
    clauses=("nvme.queues.count_first", "ring.host.queue_classes", "ring.request.data_exact"),
    kernels=("ring",),
    axes={"granted": tuple(_CLASSES)},
)
def grants(run: Run) -> Observations:
    """A drive that grants one, two or thirty-one queues serves so many, class by class, and never one more."""
    granted = int(run.axes["granted"])
    config, classes = drive(io_queues=granted), _CLASSES[granted]
    more = refusal(lambda: Rig(run, {"queues": (*classes[:-1], classes[-1] + 1)}, drives=[config]))
    found: dict[str, object] = {}

    def make() -> None:
        found["rig"] = Rig(run, {"depth": 4, "queues": classes}, drives=[config])

    refused = refusal(make)
    rig = found.get("rig")
    if not isinstance(rig, Rig):
        return {"more": more, "refused": refused}
    with rig:
        pairs = [pair.qid for pair in rig.handles[0].pairs]
        trip = round_trip(rig, 20)
        ended = [
            rig.submit("read", lba=np.arange(6 + number), offset=0, queue_class=number)["state"]
            for number in range(len(classes))
        ]
        fetched = [queue["fetched"] for queue in rig.counted()["queues"]]
    return {"more": more, "refused": refused, "pairs": pairs, "trip": trip, "ended": ended, "fetched": fetched}


@grants.judge
def _(seen: Seen) -> None:
    granted = int(seen.axes["granted"])
    seen.refused("nvme.queues.count_first", "one queue more than the drive grants", seen["more"], "QueuesRefused")
    if seen["refused"]["refused"]:
        # A drive that is kept to one queue grants no more, and the ring does not make do with fewer in silence.
        for clause in ("ring.host.queue_classes", "ring.request.data_exact"):
            seen.refused(clause, f"{granted} queues of a drive that grants fewer", seen["refused"], "QueuesRefused")
        return
    seen.equal("nvme.queues.count_first", "queues that were made", seen["pairs"], list(range(1, granted + 1)))
    judge_bytes(seen, "ring.request.data_exact", seen["trip"])
    judge_counts(seen, "ring.request.data_exact", seen["trip"])
    # Both ways of the round trip went through the first class.
    starts, wanted = [0, *range(1, len(seen["ended"]))], []
    for number, ended in enumerate(seen["ended"]):
        seen.equal("ring.host.queue_classes", "requests of a class", ended, ["COMPLETED"] * (6 + number))
        wanted.append(6 + number + (40 if number == 0 else 0))
    ends = [*starts[1:], len(seen["fetched"])]
    found = [sum(seen["fetched"][first:end]) for first, end in zip(starts, ends, strict=True)]
    seen.equal("ring.host.queue_classes", "commands of each class, as the drive counts them", found, wanted)


@case("ring/spread", level="L5", clauses=("ring.host.queue_classes",), kernels=("ring",))
def spread(run: Run) -> Observations:
    """The waves of a batch are spread over the queues of a class: with as many waves as queues, each queue serves."""
    width = run.facts.wave_width
    # More than a wave's lanes take in one burst each, so that the launch has two waves.
    at = np.arange(8 * width + 8) % 1024
    found: dict[str, object] = {}

    def make() -> None:
        sizes = {"queues": (2,), "lanes": 2 * width, "block": width, "batch_limit": len(at)}
        found["rig"] = Rig(run, sizes, drives=[drive(io_queues=2)])

    refused = refusal(make)
    rig = found.get("rig")
    if not isinstance(rig, Rig):
        return {"refused": refused}
    with rig:
        ended = rig.submit("read", lba=at, offset=0)
        fetched = [queue["fetched"] for queue in rig.counted()["queues"]]
    return {"refused": refused, "count": len(at), "ended": ended["state"], "fetched": fetched}


@spread.judge
def _(seen: Seen) -> None:
    clause = "ring.host.queue_classes"
    if seen["refused"]["refused"]:
        seen.refused(clause, "two queues of a drive that grants fewer", seen["refused"], "QueuesRefused")
        return
    seen.equal(clause, "states", set(seen["ended"]), {"COMPLETED"})
    seen.equal(clause, "commands of both queues", sum(seen["fetched"]), seen["count"])
    seen.holds(clause, "each queue served a wave", all(count > 0 for count in seen["fetched"]), seen["fetched"], 2)

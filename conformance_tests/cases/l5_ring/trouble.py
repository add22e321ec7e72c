"""Drives that do not answer, are gone, or are stopped: everything ends, is told, and works again."""

from __future__ import annotations

import time

import numpy as np

from tutti_hal.conformance_tests.case import Observations, case
from tutti_hal.conformance_tests.cases.l5_ring.trips import judge_bytes, round_trip
from tutti_hal.conformance_tests.observation import refusal
from tutti_hal.conformance_tests.rig import BLOCK, Rig, drive
from tutti_hal.conformance_tests.run import Run
from tutti_hal.conformance_tests.seen import Seen
from tutti_hal.nvme.software_config import FaultAction, FaultRule

_LOST = 5


@case(
    "ring/lost",
    level="L5",
    clauses=(
        "ring.wait.bounded",
        "ring.timeout.queue_marked",
        "ring.timeout.kernel_ends",
        "ring.recovery.others_go_on",
        "ring.recovery.recreated_works",
        "ring.cq.stale_ignored",
    ),
    kernels=("ring",),
)
def lost(run: Run) -> Observations:
    """A lost completion fails its queue alone, at its deadline; the other drive goes on; made anew it works."""
    at, rows = np.arange(16), np.arange(16) % 2
    fault = FaultRule(action=FaultAction.LOST, opcode=2, lbas=(_LOST, _LOST), count=1)
    with Rig(run, {"limit_ns": Rig.short_ns(run)}, drives=[drive(), drive()], faults=[fault]) as rig:
        # Requests 10 and 11 read block 5 of either drive.
        where = {"target": rows, "lba": at // 2, "offset": at * BLOCK}
        first = rig.submit("read", **where)
        failed = rig.counted()
        second = rig.submit("read", **where)
        held = refusal(lambda: rig.ring.unregister(rig.buffer))
        recovered = len(rig.ring.recover())
        well = rig.counted()
        rounds = [round_trip(rig, 24) for _ in range(2)]
        return {
            "first": first,
            "failed": failed,
            "second": second,
            "held": held,
            "recovered": recovered,
            "well": well,
            "rounds": rounds,
            "again": rig.counted(),
            "limit_ns": rig.options.limit_ns,
        }


@lost.judge
def _(seen: Seen) -> None:
    first, limit, at = seen["first"], seen["limit_ns"], 2 * _LOST
    states = first["state"]
    seen.equal("ring.timeout.kernel_ends", "state of the request whose completion was lost", states[at], "TIMED_OUT")
    seen.equal("ring.timeout.kernel_ends", "states of the others", states[:at] + states[at + 1 :], ["COMPLETED"] * 15)
    took = int(first["took_ns"][at])
    # In a virtual clock nothing but the ring itself is late; elsewhere the machine may be.
    most = limit * 11 // 10 if seen.facts.simulated else 20 * limit
    seen.holds("ring.wait.bounded", "it ends at its deadline", limit <= took <= most, (took, limit))
    health = [queue["health"] for queue in seen["failed"]["queues"]]
    seen.equal("ring.timeout.queue_marked", "what is wrong with the queues", health, [["TIMED_OUT"], []])
    second = seen["second"]
    seen.equal("ring.timeout.queue_marked", "what the failed queue takes", second["state"][0::2], ["NOT_RUN"] * 8)
    seen.equal("ring.timeout.queue_marked", "and why", second["why"][0::2], ["QUEUE_FAILED"] * 8)
    seen.equal(
        "ring.recovery.others_go_on", "what the other queue does meanwhile", second["state"][1::2], ["COMPLETED"] * 8
    )
    seen.equal("ring.recovery.recreated_works", "queues that were made anew", seen["recovered"], 1)
    well = [queue["health"] for queue in seen["well"]["queues"]]
    seen.equal("ring.recovery.recreated_works", "what is wrong afterwards", well, [[], []])
    seen.equal("ring.recovery.recreated_works", "commands of its former life", seen["well"]["queues"][0]["commands"], 0)
    for one in seen["rounds"]:
        judge_bytes(seen, "ring.recovery.recreated_works", one)
    again = seen["again"]["ring"]
    # The queue's memory held completions of its former life when it was made anew.
    seen.equal("ring.cq.stale_ignored", "completions of nobody's", [again["strays"], again["lates"]], [0, 0])


@case(
    "ring/buffer_held",
    level="L5",
    clauses=("ring.buffer.owned_until_done",),
    kernels=("ring",),
)
def buffer_held(run: Run) -> Observations:
    """A buffer whose command has no known end is not given back before its queue is deleted."""
    fault = FaultRule(action=FaultAction.STUCK, opcode=2, count=1)
    with Rig(run, {"limit_ns": Rig.short_ns(run)}, faults=[fault]) as rig:
        iocb = rig.fill(rig.ring.get_iocb(), "read")
        rig.ring.issue_io(iocb)
        flying = refusal(lambda: rig.ring.unregister(rig.buffer))
        ended = rig.finish(iocb)
        unknown = refusal(lambda: rig.ring.unregister(rig.buffer))
        rig.ring.recover()
        free = refusal(lambda: rig.ring.unregister(rig.buffer))
        used = refusal(lambda: rig.fill(rig.ring.get_iocb(), "read"))
        return {"flying": flying, "ended": ended["state"], "unknown": unknown, "free": free, "used": used}


@buffer_held.judge
def _(seen: Seen) -> None:
    clause = "ring.buffer.owned_until_done"
    seen.refused(clause, "giving a buffer back while its batch is in flight", seen["flying"], "RingBusy")
    seen.equal(clause, "the batch's end", seen["ended"], ["TIMED_OUT"])
    seen.refused(clause, "giving it back while the drive may still write it", seen["unknown"], "RingBusy")
    seen.equal(clause, "giving it back once the queue is deleted", seen["free"], {"refused": False})
    seen.refused(clause, "using it then", seen["used"], "BufferInvalid")


@case("ring/gone", level="L5", clauses=("ring.gone.detected",), kernels=("ring",))
def gone(run: Run) -> Observations:
    """Registers that read as all ones end every request of that drive as gone, and only of that one."""
    at = np.arange(40)
    fault = FaultRule(action=FaultAction.GONE, opcode=2, nth=4)
    with Rig(run, {"limit_ns": Rig.short_ns(run)}, drives=[drive(), drive()], faults=[fault]) as rig:
        ended = rig.submit("read", target=at % 2, lba=at // 2, offset=0)
        return {"ended": ended, "counted": rig.counted(), "limit_ns": rig.options.limit_ns}


@gone.judge
def _(seen: Seen) -> None:
    ended = seen["ended"]
    here, there = ended["state"][0::2], ended["state"][1::2]
    done = here.count("COMPLETED")
    seen.holds("ring.gone.detected", "at most the three commands before it completed", done <= 3, here, here)
    seen.equal("ring.gone.detected", "requests that ended as gone", here.count("GONE"), 20 - done)
    seen.holds("ring.gone.detected", "some did, in any case", here.count("GONE") > 0, here, 20)
    seen.equal("ring.gone.detected", "requests of the other drive", there, ["COMPLETED"] * 20)
    health = [queue["health"] for queue in seen["counted"]["queues"]]
    # Nothing timed out: a drive that is gone is found gone by whoever looks at it first.
    seen.equal("ring.gone.detected", "what is wrong with the queues", health, [["GONE"], []])
    waited = [row for row, state in enumerate(ended["state"]) if state == "GONE"]
    most = seen["limit_ns"] * (2 if seen.facts.simulated else 20)
    took = ended["took_ns"][waited]
    seen.holds("ring.gone.detected", "in bounded time", bool((took <= most).all()), took, waited)


@case(
    "ring/stop",
    level="L5",
    clauses=("ring.epoch.stops", "ring.request.starts_not_run", "ring.request.refused_not_run"),
    kernels=("ring",),
)
def stop(run: Run) -> Observations:
    """A change of the epoch word ends a kernel that waits, long before its deadline; then nothing is given out."""
    at = np.arange(20)
    fault = FaultRule(action=FaultAction.STUCK, opcode=2, lbas=(3, 3))
    with Rig(run, {"depth": 8, "limit_ns": 30_000_000_000}, faults=[fault]) as rig:
        before = rig.submit("write", lba=at[:8], offset=0)
        iocb = rig.fill(rig.ring.get_iocb(), "read", lba=at, offset=at * BLOCK)
        rig.ring.issue_io(iocb)
        _until_struck(rig)
        began = rig.world.now_ns if rig.world is not None else time.monotonic_ns()
        rig.ring.stop()
        ended = rig.finish(iocb)
        took = (rig.world.now_ns if rig.world is not None else time.monotonic_ns()) - began
        counted = rig.counted()
        fetched = counted["drives"][0]["io"]
        while_stopped = rig.submit("write", lba=at, offset=0)
        kept = rig.counted()["drives"][0]["io"]
        rig.controllers[0].clear_faults()
        rig.ring.recover()
        rig.ring.resume()
        after = rig.submit("read", lba=at, offset=at * BLOCK)
        return {
            "before": before["state"],
            "ended": ended,
            "took_ns": took,
            "while_stopped": while_stopped,
            "health": counted["queues"][0]["health"],
            "given": [fetched.get("1", 0), kept.get("1", 0)],
            "after": after["state"],
        }


def _until_struck(rig: Rig) -> None:
    end = time.monotonic() + 10
    while not rig.controllers[0].counters.faults and time.monotonic() < end:
        if rig.world is not None:
            rig.world.run(64)
        else:
            time.sleep(0.002)


@stop.judge
def _(seen: Seen) -> None:
    ended, none = seen["ended"], seen["while_stopped"]
    seen.equal("ring.epoch.stops", "requests before", seen["before"], ["COMPLETED"] * 8)
    seen.equal("ring.epoch.stops", "the request that never ended", ended["state"][3], "STOPPED")
    seen.equal("ring.epoch.stops", "what is wrong with its queue: no deadline passed", seen["health"], ["STOPPED"])
    others = set(ended["state"])
    seen.holds(
        "ring.epoch.stops",
        "the others completed, stopped or were not run",
        others <= {"COMPLETED", "STOPPED", "NOT_RUN"},
        others,
        20,
    )
    # Every lane looks at the word now and then; on a virtual clock that is no matter of the machine.
    most = 100_000 if seen.facts.simulated else 3_000_000_000
    seen.holds("ring.epoch.stops", "long before the deadline all had ended", seen["took_ns"] < most, seen["took_ns"])
    seen.equal(
        "ring.request.starts_not_run", "requests of a batch that no kernel submitted", none["state"], ["NOT_RUN"] * 20
    )
    seen.equal("ring.request.starts_not_run", "why", none["why"], ["STOPPED"] * 20)
    seen.equal(
        "ring.request.refused_not_run", "writes that the drive was given, before and after", seen["given"], [8, 8]
    )
    seen.equal("ring.epoch.stops", "requests once it goes on", seen["after"], ["COMPLETED"] * 20)

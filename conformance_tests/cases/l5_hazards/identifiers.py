"""Command identifiers: used again too soon, lost after a deadline, all ones."""

from __future__ import annotations

import time

import numpy as np

from tutti_hal.conformance_tests.case import Observations, case
from tutti_hal.conformance_tests.cases.l5_ring.trips import judge_bytes, round_trip
from tutti_hal.conformance_tests.rig import Rig
from tutti_hal.conformance_tests.run import Run
from tutti_hal.conformance_tests.seen import Seen
from tutti_hal.nvme.software_config import FaultAction, FaultRule


@case(
    "hazard/h08.identifier_used_again",
    level="L5",
    clauses=("ring.timeout.cid_quarantined", "ring.cq.late_counted", "ring.timeout.queue_marked"),
    kernels=("ring",),
)
def identifier_used_again(run: Run) -> Observations:
    """A completion that comes after its deadline must not find its identifier with another command."""
    limit = Rig.short_ns(run)
    over = Rig.latest_ns(run, limit)
    late = [
        FaultRule(action=FaultAction.DELAY, lbas=(lba, lba), count=1, delay_ns=over + (1 + lba) * limit // 8)
        for lba in (1, 4)
    ]
    at = np.arange(30)
    with Rig(run, {"depth": 6, "lanes": 4, "block": 2, "limit_ns": limit}, faults=late) as rig:
        first = rig.submit("read", lba=at, offset=0)
        end = time.monotonic() + 5
        queue = rig.handles[0].pairs[0].qid
        while time.monotonic() < end:
            counted = rig.controllers[0].queue_counters(queue)
            if counted.commands == counted.completions:
                break
            if rig.world is not None:
                rig.world.run(256)
            else:
                time.sleep(0.005)
        # These are not run, but their lanes see what came.
        rig.submit("read", lba=at, offset=0)
        return {"first": first, "counted": rig.counted()}


@identifier_used_again.judge
def _(seen: Seen) -> None:
    first, ring = seen["first"], seen["counted"]["ring"]
    found = [first["state"][1], first["state"][4]]
    seen.equal("ring.cq.late_counted", "states of the requests that were late", found, ["TIMED_OUT"] * 2)
    counted = [ring["quarantined"], ring["lates"], ring["strays"]]
    seen.equal("ring.cq.late_counted", "identifiers withdrawn, late completions, strays", counted, [2, 2, 0])
    sent = [row for row, state in enumerate(first["state"]) if state in ("COMPLETED", "TIMED_OUT")]
    used = [int(first["identifiers"][row]) for row in sent]
    uses = [used.count(int(first["identifiers"][row])) for row in (1, 4)]
    seen.equal("ring.timeout.cid_quarantined", "uses of the identifiers that were withdrawn", uses, [1, 1])
    given = seen["counted"]["drives"][0]["io"]
    wanted = {"2": len(sent)}
    seen.equal("ring.timeout.queue_marked", "commands that the drive was given, before and after", given, wanted)


@case(
    "hazard/h09.identifier_lost",
    level="L5",
    clauses=("ring.timeout.cid_quarantined", "ring.recovery.recreated_works", "ring.request.exactly_once"),
    kernels=("ring",),
    axes={"lost": (1, 3)},
)
def identifier_lost(run: Run) -> Observations:
    """Identifiers and places of commands that timed out are counted, and all of them are there again after recovery."""
    lost = int(run.axes["lost"])
    fault = FaultRule(action=FaultAction.LOST, opcode=2, count=lost)
    at = np.arange(16)
    lives = []
    with Rig(run, {"depth": 4, "limit_ns": Rig.short_ns(run)}) as rig:
        # Three places: whoever loses one each time has none left after the third life.
        for _ in range(4):
            rig.controllers[0].inject(fault)
            ended = rig.submit("read", lba=at, offset=0)
            withdrawn = rig.counted()["ring"]["quarantined"]
            rig.controllers[0].clear_faults()
            lives.append([ended["state"].count("TIMED_OUT"), withdrawn, len(rig.ring.recover())])
        return {"lives": lives, "after": round_trip(rig, 24)}


@identifier_lost.judge
def _(seen: Seen) -> None:
    lost = int(seen.axes["lost"])
    timed_out = [life[0] for life in seen["lives"]]
    seen.equal("ring.request.exactly_once", "requests that timed out in each life", timed_out, [lost] * 4)
    withdrawn = [life[1] for life in seen["lives"]]
    seen.equal("ring.timeout.cid_quarantined", "identifiers withdrawn in each life", withdrawn, [lost] * 4)
    again = [life[2] for life in seen["lives"]]
    seen.equal("ring.recovery.recreated_works", "queues made anew after each life", again, [1] * 4)
    judge_bytes(seen, "ring.recovery.recreated_works", seen["after"])


#: Commands that a queue may have: eight bits of a row, so eight bits of a generation.
_ROWS = 256
_USES = 300


@case(
    "hazard/h10.identifier_all_ones",
    level="L5",
    clauses=("nvme.cid.reserved", "ring.request.exactly_once"),
    kernels=("ring",),
    budget_s=30.0,
)
def identifier_all_ones(run: Run) -> Observations:
    """The last row of the commands, used as often as there are generations, never makes the identifier FFFFh."""
    # All rows but the last are held by slow commands: so the last one alone is used, again and again.
    slow_ns = 6_000_000 if run.world is not None else 400_000_000
    slow = FaultRule(action=FaultAction.DELAY, opcode=2, count=_ROWS - 1, delay_ns=slow_ns)
    sizes = {"depth": _ROWS + 1, "lanes": 1, "block": 1, "batch_limit": 1024, "limit_ns": 10 * slow_ns}
    for _ in run.schedules(1, policy="fair"):
        with Rig(run, sizes, faults=[slow]) as rig:
            ended = rig.submit("read", lba=np.arange(_ROWS - 1 + _USES) % 64, offset=0)
            counted = rig.counted()["ring"]
    return {"identifiers": ended["identifiers"], "state": ended["state"], "strays": counted["strays"]}


@identifier_all_ones.judge
def _(seen: Seen) -> None:
    found = seen["identifiers"]
    total = _ROWS - 1 + _USES
    seen.holds("nvme.cid.reserved", "no identifier is FFFFh", not (found >= 0xFFFF).any(), found.max(), found)
    if seen.facts.simulated:
        last = int(((found & 0xFF) == 0xFF).sum())
        seen.holds("nvme.cid.reserved", "the last row was used through all its generations", last > 256, last)
        highest = int((found >> 8).max())
        seen.equal("nvme.cid.reserved", "the highest generation", highest, 0xFE)
    states = [seen["state"].count("COMPLETED"), seen["strays"]]
    seen.equal("ring.request.exactly_once", "requests that completed, completions of nobody's", states, [total, 0])

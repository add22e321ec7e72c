"""Who waits for whom: more waiters than places, reapers that are not there, lanes of one wave, kernels without end."""

from __future__ import annotations

from typing import Any

import numpy as np

from tutti_hal.conformance_tests.case import Observations, case
from tutti_hal.conformance_tests.cases.l5_hazards.worlds import judge_completed, now_ns, trips, worlds
from tutti_hal.conformance_tests.cases.l5_ring.trips import judge_bytes, judge_counts, round_trip
from tutti_hal.conformance_tests.observation import refusal
from tutti_hal.conformance_tests.rig import BLOCK, Rig, drive
from tutti_hal.conformance_tests.run import Run
from tutti_hal.conformance_tests.seen import Seen
from tutti_hal.nvme.software_config import FaultAction, FaultRule


@case(
    "hazard/h01.more_waiters_than_slots",
    level="L5",
    clauses=("ring.no_waiter_deadlock", "ring.sq.try_never_blocks"),
    kernels=("ring",),
    budget_s=30.0,
    axes={"depth": (2, 5)},
    quick=False,
)
def more_waiters_than_slots(run: Run) -> Observations:
    """A whole wave and a part of one want places in a queue of one or four, and only they can give places back."""
    width = run.facts.wave_width
    sizes = {"depth": int(run.axes["depth"]), "lanes": width + 6, "block": width, "batch_limit": 512}
    return {"trips": trips(run, sizes, 30, ("lockstep", "random", "starve-one"))}


@more_waiters_than_slots.judge
def _(seen: Seen) -> None:
    for one in seen["trips"]:
        judge_completed(seen, "ring.no_waiter_deadlock", one)
        judge_counts(seen, "ring.sq.try_never_blocks", one)


@case(
    "hazard/h02.no_reaper_of_its_own",
    level="L5",
    clauses=("ring.cq.any_reaper", "ring.host.one_copy_one_launch", "ring.no_waiter_deadlock"),
    kernels=("ring",),
    budget_s=30.0,
    axes={"lanes": (1, 4)},
)
def no_reaper_of_its_own(run: Run) -> Observations:
    """No second kernel takes completions, which might never become resident: one lane does, or whichever are left."""
    found, lanes = [], int(run.axes["lanes"])
    # The last lane's block stays alone: its last command takes a hundred times as long as the others.
    slow_ns = 200_000 if run.world is not None else 50_000_000
    slow = FaultRule(action=FaultAction.DELAY, opcode=2, lbas=(15, 15), count=1, delay_ns=slow_ns)
    for _ in worlds(run, ("fair", "random", "starve-one")):
        with Rig(run, {"depth": 4, "lanes": lanes, "block": 1}, faults=[slow]) as rig:
            before = run.device.host_calls.copy()
            trip = round_trip(rig, 16)
            calls = run.device.host_calls - before
            launches = sum(count for name, count in calls.items() if name.startswith("Launch"))
            found.append({"trip": trip, "launches": launches})
    return {"found": found}


@no_reaper_of_its_own.judge
def _(seen: Seen) -> None:
    for one in seen["found"]:
        judge_completed(seen, "ring.no_waiter_deadlock", one["trip"])
        judge_counts(seen, "ring.cq.any_reaper", one["trip"])
        seen.equal("ring.host.one_copy_one_launch", "launches of two batches", one["launches"], 2)


@case(
    "hazard/h03.no_lane_waits_for_its_wave",
    level="L5",
    clauses=("ring.sq.try_never_blocks", "ring.doorbell.not_lost"),
    kernels=("ring",),
    budget_s=30.0,
)
def no_lane_waits_for_its_wave(run: Run) -> Observations:
    """Lanes that can only move together knock, reap and try again at once: none holds what another one waits for."""
    width = run.facts.wave_width
    found = trips(run, {"depth": 5, "lanes": width, "block": width, "batch_limit": 512}, 40, ("lockstep",))
    return {"trips": found + trips(run, {"depth": 3, "lanes": 8, "block": 8}, 40, ("lockstep", "starve-one"))}


@no_lane_waits_for_its_wave.judge
def _(seen: Seen) -> None:
    for one in seen["trips"]:
        judge_completed(seen, "ring.sq.try_never_blocks", one)
        judge_counts(seen, "ring.doorbell.not_lost", one)


@case(
    "hazard/h04.partial_wave",
    level="L5",
    clauses=("ring.sq.partial_wave", "ring.sq.one_add_per_wave", "ring.request.exactly_once"),
    kernels=("ring",),
    budget_s=30.0,
    axes={"lanes": (1, 13, 37)},
    quick=False,
)
def partial_wave(run: Run) -> Observations:
    """Waves with absent lanes, lanes that have ended and lanes without a request submit what the others have."""
    lanes = int(run.axes["lanes"])
    sizes = {"depth": 9, "lanes": lanes, "block": min(lanes, 11), "batch_limit": 512}
    count = 2 * lanes + 9
    return {"trips": trips(run, sizes, count, ("lockstep", "random"), data_bytes=(count + 8) * BLOCK)}


@partial_wave.judge
def _(seen: Seen) -> None:
    for one in seen["trips"]:
        count = len(one["source"]) // BLOCK
        judge_bytes(seen, "ring.sq.partial_wave", one)
        judge_counts(seen, "ring.request.exactly_once", one)
        # A ticket taken for a lane that is not there would be a command that never comes.
        tickets = one["counted"]["ring"]["commands"]
        seen.equal("ring.sq.one_add_per_wave", "tickets that were taken", tickets, 2 * count)


@case(
    "hazard/h24.lost_completion",
    level="L5",
    clauses=("ring.wait.bounded", "ring.timeout.kernel_ends", "ring.recovery.others_go_on"),
    kernels=("ring",),
    axes={"fault": ("lost", "stuck", "fatal_stop")},
)
def lost_completion(run: Run) -> Observations:
    """A completion that never comes, or a drive that stops in the middle, ends with its deadline on the clock."""
    action = FaultAction[str(run.axes["fault"]).upper()]
    fault = FaultRule(action=action, opcode=2, nth=4, count=1)
    at = np.arange(24)
    rig = Rig(run, {"limit_ns": Rig.short_ns(run)}, drives=[drive(), drive()], faults=[fault])
    ended = rig.submit("read", target=at % 2, lba=at // 2, offset=0)
    # A drive that reports fatal status does not delete its queues: closing says so, and gives everything back.
    closed = refusal(rig.close)
    return {"ended": ended, "closed": closed, "limit_ns": rig.options.limit_ns}


@lost_completion.judge
def _(seen: Seen) -> None:
    ended, limit = seen["ended"], seen["limit_ns"]
    if seen.axes["fault"] == "fatal_stop":
        seen.refused("ring.timeout.kernel_ends", "closing over it", seen["closed"], "ControllerFatal")
    here, there = ended["state"][0::2], ended["state"][1::2]
    seen.equal("ring.recovery.others_go_on", "what the other drive was asked for", there, ["COMPLETED"] * 12)
    waited = [row for row, state in enumerate(ended["state"]) if state == "TIMED_OUT"]
    seen.holds("ring.timeout.kernel_ends", "something was waited for in vain", len(waited) > 0, here, here)
    told = {"COMPLETED", "TIMED_OUT", "NOT_RUN"}
    seen.holds("ring.timeout.kernel_ends", "every request has an end", set(here) <= told, here, here)
    # In a virtual clock nothing but the ring itself is late; elsewhere the machine may be.
    most = limit * 11 // 10 if seen.facts.simulated else 20 * limit
    took = ended["took_ns"][waited]
    inside = bool(((limit <= took) & (took <= most)).all())
    seen.holds("ring.wait.bounded", "each wait ends between the deadline and a tenth after it", inside, took, waited)


@case(
    "hazard/h25.bounded_kernels",
    level="L5",
    clauses=("ring.timeout.kernel_ends", "ring.wait.bounded", "ring.host.one_copy_one_launch"),
    kernels=("ring",),
)
def bounded_kernels(run: Run) -> Observations:
    """No kernel stays resident for a watchdog to kill: each batch is a launch that ends, however many commands hang."""
    stuck = FaultRule(action=FaultAction.STUCK, opcode=2)
    at = np.arange(20)
    took: list[dict[str, Any]] = []
    with Rig(run, {"depth": 16, "lanes": 2, "block": 1, "limit_ns": Rig.short_ns(run)}, faults=[stuck]) as rig:
        for verb in ("write", "read", "write"):
            calls, before = run.device.host_calls.copy(), now_ns(rig)
            ended = rig.submit(verb, lba=at, offset=0)
            launches = sum(n for name, n in (run.device.host_calls - calls).items() if name.startswith("Launch"))
            took.append({"ns": now_ns(rig) - before, "launches": launches, "state": ended["state"]})
            if verb == "read":
                rig.ring.recover()
        return {"took": took, "limit_ns": rig.options.limit_ns}


@bounded_kernels.judge
def _(seen: Seen) -> None:
    limit, (first, hung, last) = seen["limit_ns"], seen["took"]
    seen.equal("ring.timeout.kernel_ends", "a batch before", first["state"], ["COMPLETED"] * 20)
    # Fifteen commands hang: one deadline passes, not fifteen.
    most = limit * 11 // 10 if seen.facts.simulated else 20 * limit
    seen.holds("ring.wait.bounded", "the kernel lives one deadline and little more", hung["ns"] <= most, hung["ns"])
    seen.equal("ring.wait.bounded", "commands that hung", hung["state"].count("TIMED_OUT"), 15)
    seen.equal("ring.timeout.kernel_ends", "a batch after", last["state"], ["COMPLETED"] * 20)
    launches = [one["launches"] for one in (first, hung, last)]
    seen.equal("ring.host.one_copy_one_launch", "launches of each batch", launches, [1, 1, 1])

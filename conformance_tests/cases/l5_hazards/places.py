"""Numbers that come to their end, and places used again: tickets, odd depths, full rings, laps, fetched entries."""

from __future__ import annotations

import numpy as np

from tutti_hal.conformance_tests.case import Observations, case
from tutti_hal.conformance_tests.cases.l5_hazards.worlds import judge_completed, states, trips
from tutti_hal.conformance_tests.cases.l5_ring.trips import judge_bytes, judge_counts, round_trip
from tutti_hal.conformance_tests.rig import BLOCK, Rig, drive
from tutti_hal.conformance_tests.run import Run
from tutti_hal.conformance_tests.seen import Seen
from tutti_hal.io_uring.layout import dtype
from tutti_hal.nvme.software_config import CompletionOrder, FaultAction, FaultRule

_LAST = (1 << 64) - 1


@case(
    "hazard/h05.tickets_beyond_32_bits",
    level="L5",
    clauses=("ring.sq.ticket_never_wraps", "ring.sq.slot_sequence"),
    kernels=("probe_ring", "ring"),
    budget_s=30.0,
)
def tickets_beyond_32_bits(run: Run) -> Observations:
    """The command after the last one of 32 bits, on one queue, has the next place, and so has every later one."""
    lengths = (2, 3, 7, 64, 1000, 65536)
    firsts = [(1 << bits) + step for bits in (16, 31, 32, 33, 48, 63) for step in range(-3, 4)]
    rows = np.array([(first, length, _LAST // length) for length in lengths for first in firsts], np.uint64)
    laps, slots = run.buffer(8 * len(rows)), run.buffer(8 * len(rows))
    columns = [run.array(rows[:, column]) for column in range(3)]
    run.launch(run.kernel("probe_ring", "probe_ring_places"), 1, 64, *columns, len(rows), laps, slots)
    words = ("ticket", "doorbell", "completion", "credits", "retired", "sq_head", "allowed", "cq_rung")
    bits = {name: 8 * dtype("ring_queue_state")[name].itemsize for name in words}
    # A queue in which the 2^32nd command is sent, and the slots of laps before and after it are told apart.
    life = trips(run, {"depth": 7, "first_ticket": (1 << 32) - 20, "lanes": 6, "block": 3}, 40, ("random", "pct"))
    return {
        "life": life,
        "rows": rows,
        "laps": run.read(laps, np.uint64),
        "slots": run.read(slots, np.uint64),
        "bits": bits,
    }


@tickets_beyond_32_bits.judge
def _(seen: Seen) -> None:
    rows = seen["rows"].tolist()
    laps = np.array([index // length for index, length, _ in rows], np.uint64)
    slots = np.array([index % length for index, length, _ in rows], np.uint64)
    seen.equal("ring.sq.slot_sequence", "laps of tickets", seen["laps"], laps)
    seen.equal("ring.sq.slot_sequence", "places of tickets", seen["slots"], slots)
    for one in seen["life"]:
        judge_completed(seen, "ring.sq.ticket_never_wraps", one)
        judge_counts(seen, "ring.sq.slot_sequence", one)
    narrow = [name for name, bits in seen["bits"].items() if bits != 64]
    seen.holds("ring.sq.ticket_never_wraps", "every number of a queue has 64 bits", not narrow, narrow, seen["bits"])


#: MQES -> blocks of a round trip: more than two laps, where a queue is not too long for it.
_DEPTHS = {1: 9, 2: 11, 30: 70, 62: 130, 1022: 60, 1023: 60, 2047: 60, 65535: 60}


@case(
    "hazard/h06.depth_not_a_power_of_two",
    level="L5",
    clauses=("ring.sq.depth_any", "ring.cq.phase_at_wrap", "nvme.queues.depth"),
    kernels=("ring",),
    budget_s=30.0,
    axes={"mqes": tuple(_DEPTHS)},
    quick=False,
)
def depth_not_a_power_of_two(run: Run) -> Observations:
    """Queues exactly as long as the drive allows, whatever that is, go round and round."""
    mqes = int(run.axes["mqes"])
    sizes = {"depth": mqes + 1, "lanes": 8, "block": 4, "batch_limit": 512}
    more = {"drives": [drive(mqes=mqes)], "data_bytes": 160 * BLOCK}
    return {"trips": trips(run, sizes, _DEPTHS[mqes], ("random", "lockstep")[: 2 if mqes < 100 else 1], **more)}


@depth_not_a_power_of_two.judge
def _(seen: Seen) -> None:
    for one in seen["trips"]:
        judge_bytes(seen, "ring.sq.depth_any", one)
        judge_counts(seen, "ring.cq.phase_at_wrap", one)
        judge_completed(seen, "nvme.queues.depth", one)


@case(
    "hazard/h07.full_is_not_empty",
    level="L5",
    clauses=("ring.sq.full.one_slot_spare", "ring.sq.full.refuses", "ring.request.data_exact"),
    kernels=("ring",),
    axes={"depth": (2, 3, 9)},
    quick=False,
)
def full_is_not_empty(run: Run) -> Observations:
    """A queue whose tail came round to its head would look empty: one entry fewer is out, and all get done."""
    depth = int(run.axes["depth"])
    # All that fit are fetched, and answered late: so the queue is full before a completion comes.
    slow = drive(latency_ns=20_000)
    held = []
    with Rig(run, {"depth": depth}, drives=[slow]) as rig:
        trip = round_trip(rig, 4 * depth)
    stuck = FaultRule(action=FaultAction.STUCK, opcode=2)
    with Rig(run, {"depth": depth, "limit_ns": Rig.short_ns(run)}, faults=[stuck]) as rig:
        ended = rig.submit("read", lba=np.arange(3 * depth), offset=0)
        held = [ended["state"].count("TIMED_OUT"), ended["state"].count("NOT_RUN")]
        counted = rig.counted()
    return {"trip": trip, "held": held, "counted": counted}


@full_is_not_empty.judge
def _(seen: Seen) -> None:
    depth = int(seen.axes["depth"])
    judge_bytes(seen, "ring.request.data_exact", seen["trip"])
    judge_counts(seen, "ring.request.data_exact", seen["trip"])
    given = seen["counted"]["drives"][0]["io"]
    seen.equal("ring.sq.full.one_slot_spare", "commands of a drive that never answers", given, {"2": depth - 1})
    wanted = [depth - 1, 3 * depth - (depth - 1)]
    seen.equal("ring.sq.full.refuses", "requests that waited in vain, and that were not run", seen["held"], wanted)


@case(
    "hazard/h18.slot_recycled",
    level="L5",
    clauses=("ring.sq.slot_sequence", "ring.request.exactly_once"),
    kernels=("ring",),
    budget_s=30.0,
    axes={"depth": (2, 4)},
    quick=False,
)
def slot_recycled(run: Run) -> Observations:
    """A mark, a cell or an entry of a lap ago looks like one of now to whoever compares less than all of its number."""
    sizes = {"depth": int(run.axes["depth"]), "lanes": 6, "block": 1}
    return {"trips": trips(run, sizes, 30, ("random", "pct", "starve-one"))}


@slot_recycled.judge
def _(seen: Seen) -> None:
    for one in seen["trips"]:
        judge_counts(seen, "ring.sq.slot_sequence", one)
        judge_completed(seen, "ring.request.exactly_once", one)


@case(
    "hazard/h20.fetched_is_not_done",
    level="L5",
    clauses=("ring.sq.slot_reuse_after_fetch", "ring.cq.by_cid", "controller.completion.sqhd"),
    kernels=("ring",),
    budget_s=30.0,
    axes={"lag": (0, 1, 3)},
)
def fetched_is_not_done(run: Run) -> Observations:
    """A drive fetches much and completes it late and out of order: a fetched entry is free, its command not done."""
    lag = int(run.axes["lag"])
    # Some commands take so long that all others are fetched and done meanwhile.
    mixed = {"latency_ns": 1000, "slow_latency_ns": 40_000, "slow_ppm": 300_000, "seed": run.seed}
    slow = drive(order=CompletionOrder.RANDOM, order_window=3, hold_ns=4000, fetch_batch=2, sqhd_lag=lag, **mixed)
    sizes = {"depth": 4, "cq_depth": 16, "command_limit": 5, "lanes": 6, "block": 6}
    return {"trips": trips(run, sizes, 30, ("random", "pct"), drives=[slow])}


@fetched_is_not_done.judge
def _(seen: Seen) -> None:
    for one in seen["trips"]:
        judge_bytes(seen, "ring.sq.slot_reuse_after_fetch", one)
        judge_counts(seen, "controller.completion.sqhd", one)
        found = states(one)
        seen.equal("ring.cq.by_cid", "requests that completed", found.count("COMPLETED"), len(found))

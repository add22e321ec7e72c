"""Queues that have lived long: tickets and sequence numbers pass the boundaries of their words, and reach their end."""

from __future__ import annotations

import numpy as np

from tutti_hal.conformance_tests.case import Observations, case
from tutti_hal.conformance_tests.cases.l5_ring.trips import judge_bytes, judge_counts, round_trip
from tutti_hal.conformance_tests.rig import BLOCK, SPOILT, Rig
from tutti_hal.conformance_tests.run import Run
from tutti_hal.conformance_tests.seen import Seen

#: A cell keeps 48 bits of a ticket; the doorbell word 63 of a position: 2^63 commands are the end of a queue's life,
#: 292 years at a thousand million a second. No word of 64 bits is ever near its end.
_END = 1 << 63
_START = {"2e32": (1 << 32) - 5, "2e48": (1 << 48) - 5, "2e63": _END - 200}


@case(
    "ring/long_life",
    level="L5",
    clauses=("ring.sq.ticket_never_wraps", "ring.cq.phase_at_wrap", "ring.request.data_exact"),
    kernels=("ring",),
    budget_s=30.0,
    axes={"start": tuple(_START), "depth": (2, 3, 8)},
)
def long_life(run: Run) -> Observations:
    """A queue just below 2^32, 2^48 or 2^63 commands goes on as a young one does, and is as exact."""
    trips = []
    sizes = {"depth": int(run.axes["depth"]), "first_ticket": _START[str(run.axes["start"])], "lanes": 6, "block": 3}
    for _ in run.schedules(2):
        with Rig(run, sizes) as rig:
            trips.append(round_trip(rig, 40))
    return {"trips": trips}


@long_life.judge
def _(seen: Seen) -> None:
    for one in seen["trips"]:
        judge_bytes(seen, "ring.request.data_exact", one)
        judge_counts(seen, "ring.sq.ticket_never_wraps", one)
        ring = one["counted"]["ring"]
        seen.equal("ring.sq.ticket_never_wraps", "tickets that were given out", ring["commands"], 80)
        seen.equal("ring.cq.phase_at_wrap", "completions that were taken", ring["completions"], 80)


@case(
    "ring/life_ends",
    level="L5",
    clauses=("ring.sq.ticket_never_wraps", "ring.request.exactly_once", "ring.timeout.kernel_ends"),
    kernels=("ring",),
    budget_s=30.0,
    axes={"depth": (2, 3, 8)},
)
def life_ends(run: Run) -> Observations:
    """At 2^63 commands a queue stops: what comes after is told to have failed, and what came before was right."""
    at, sizes = np.arange(40), {"depth": int(run.axes["depth"]), "lanes": 6, "block": 3, "limit_ns": Rig.short_ns(run)}
    with Rig(run, sizes | {"first_ticket": _END - 20}) as rig:
        source = run.random.integers(0, 256, 40 * BLOCK, np.uint8)
        rig.controllers[0].write_stored(1, 0, source.tobytes())
        rig.put()
        ended = rig.submit("read", lba=at, offset=at * BLOCK)
        return {"source": source, "ended": ended, "memory": rig.get(40 * BLOCK), "counted": rig.counted()}


@life_ends.judge
def _(seen: Seen) -> None:
    states, depth = seen["ended"]["state"], int(seen.axes["depth"])
    first = _END - 20 - (_END - 20) % depth
    well = [row for row, state in enumerate(states) if state == "COMPLETED"]
    # A leader may pass the end with what was marked when it came there: less than a queue full.
    seen.holds(
        "ring.sq.ticket_never_wraps",
        "all requests up to the end completed, and less than a queue full after it",
        _END - first <= len(well) < _END - first + depth,
        len(well),
        40,
    )
    seen.holds(
        "ring.timeout.kernel_ends",
        "the others timed out or were not run",
        all(states[row] in ("TIMED_OUT", "NOT_RUN") for row in range(40) if row not in well),
        states,
        40 - len(well),
    )
    source, memory = seen["source"].reshape(40, -1), seen["memory"].reshape(40, -1)
    seen.equal("ring.request.exactly_once", "bytes of those that completed", memory[well], source[well])
    rest = memory[[row for row in range(40) if row not in well]]
    seen.equal("ring.request.exactly_once", "bytes of the others", rest, np.full_like(rest, SPOILT))
    fetched = seen["counted"]["drives"][0]["io"]
    seen.equal("ring.sq.ticket_never_wraps", "commands that the drive fetched", fetched, {"2": len(well)})

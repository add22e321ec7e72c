"""All schedules of the ring's own functions over a small queue, within bounds: none is left to a seed's luck.

A run departs from round robin in at most so many places (pre-emptions), and reads in at most so many places a value
that is not the newest. Two waves of four lanes, whatever the width; the drive is the smallest one there is.
"""

from __future__ import annotations

from typing import Any

from tutti_hal.conformance_tests.case import Observations, case
from tutti_hal.conformance_tests.cases.l5_ring.small_queue import (
    BITS,
    LBA,
    REAP,
    REVERSED,
    SETTLE,
    SILENT,
    SUBMIT,
    TWICE,
    WAIT,
    Small,
    SmallQueue,
)
from tutti_hal.conformance_tests.run import Run
from tutti_hal.conformance_tests.seen import Seen

_ALL = SUBMIT | REAP | WAIT
#: What is explored. Publish and doorbell: eight lanes at once, a drive that fetches; and three waves of one lane, where
#: every lane leads. Completion: what is in flight comes, in a completion queue that wraps; each twice. Recycle: a full
#: queue, two more requests that need what the others give back. Settle: three waves of one lane, and a completion queue
#: whose doorbell is due only when a lane settles.
PIECES = {
    "publish": Small(8, SUBMIT, depth=9, drive=SILENT),
    "doorbell": Small(3, SUBMIT, depth=4, blocks=3, lanes=1, drive=SILENT),
    "completion": Small(5, REAP | WAIT, steps=64, depth=6, sent=5, cq_depth=3),
    "twice": Small(5, REAP | WAIT, steps=64, depth=6, sent=5, cq_depth=4, drive=TWICE | REVERSED),
    "recycle": Small(5, _ALL, steps=64, depth=4, sent=3),
    "settle": Small(3, _ALL | SETTLE, steps=64, depth=4, blocks=3, lanes=1, cq_depth=8),
    "turns": Small(3, _ALL | SETTLE, steps=64, depth=2, blocks=2, lanes=2),
}
#: Pre-emptions, and reads of an older value.
BOUNDS = {f"{places}+{reads}": (places, reads) for places in range(4) for reads in range(3) if places + reads in (2, 3)}
#: What only the long form takes (``conformance_tests/explore.py``): longer than all that the case takes.
LONG = (
    *((piece, "2+0") for piece in ("completion", "twice", "recycle", "settle")),
    *(("doorbell", bounds) for bounds in ("1+2", "2+1", "3+0")),
    *((piece, "1+2") for piece in ("publish", "turns")),
)

_CLAUSES = (
    *("ring.sq.published_before_doorbell", "ring.sq.slot_reuse_after_fetch", "ring.doorbell.increases"),
    *("ring.doorbell.not_lost", "ring.cq.once", "ring.cq.by_cid", "ring.request.exactly_once"),
)
#: What the smallest drive's completions carry: this and the number of the command.
_RESULT = 0x5000000
_IN_FLIGHT, _COMPLETED = 1, 2


def _only(axes: Any, facts: Any) -> bool:
    """Pre-emptions on one arch: the width changes nothing for four lanes, but where each of them is a group of its own.

    There the number of runs grows fastest, so the smaller pieces must do.
    """
    if (axes["piece"], axes["bounds"]) in LONG:
        return False
    if axes["bounds"] != "0+2":
        return bool(facts.wave_width == 32)
    return bool(facts.wave_width < 128) or axes["piece"] in ("publish", "doorbell", "completion")


@case(
    "ring/explored",
    level="L5",
    clauses=_CLAUSES,
    needs=("engine.simulation",),
    kernels=("probe_ring",),
    axes={"piece": tuple(PIECES), "bounds": ("2+0", "1+1", "0+2")},
    only=_only,
    budget_s=300.0,
    quick=False,
)
def explored(run: Run) -> Observations:
    """Publish, doorbell, completion and recycle of the rendered ring, in every schedule within the bounds."""
    preemptions, stale_reads = BOUNDS[str(run.axes["bounds"])]
    return SmallQueue(run, PIECES[str(run.axes["piece"])]).explore(preemptions, stale_reads)


@explored.judge
def _(seen: Seen) -> None:
    small = PIECES[str(seen.axes["piece"])]
    what = "every run within the bounds was taken, and there are several"
    seen.holds("ring.request.exactly_once", what, seen["complete"] and seen["runs"] > 1, seen["runs"])
    for one in seen["endings"]:
        _judge(seen, small, one)


def _judge(seen: Seen, small: Small, one: dict[str, Any]) -> None:
    """One ending against the clauses' text."""
    how = f"[script {one['script']}]" if "script" in one else f"[{one['policy']} {one['seed']}]"
    limit, rows = small.depth - 1, list(range(small.requests))
    silent = bool(small.drive & SILENT)
    seen.equal("ring.doorbell.not_lost", f"how the launch ended {how}", one["outcome"], "done")

    # Each request was fetched whole, once, under the identifier of its record.
    fetched = sorted([lba - LBA, bits - BITS] for _, lba, bits in one["commands"])
    clause = "ring.sq.published_before_doorbell"
    seen.equal(clause, f"rows that the drive read in two places of an entry {how}", fetched, [[r, r] for r in rows])
    seen.equal("ring.sq.slot_reuse_after_fetch", f"entries that it fetched {how}", one["fetched"], small.requests)
    names = {lba - LBA: identifier for identifier, lba, _ in one["commands"]}
    known = [one["identifiers"][row] for row in rows]
    seen.equal("ring.cq.by_cid", f"identifiers in the entries {how}", [names.get(row) for row in rows], known)
    seen.equal("ring.cq.by_cid", f"identifiers that differ {how}", len(set(names.values())), small.requests)

    # Tails go forward, by no more than was published: together they pass each entry once.
    steps = [(b - a) % small.depth for a, b in zip([0, *one["tails"]], one["tails"], strict=False)]
    seen.equal("ring.doorbell.increases", f"entries that the tails passed {how}", sum(steps), small.requests)
    seen.equal("ring.doorbell.increases", f"tails past the queue {how}", one["bad_tails"], 0)
    at_end = [one["ticket"], one["doorbell"]]
    what = f"the last ticket, and the doorbell's word {how}"
    seen.equal("ring.doorbell.not_lost", what, at_end, [small.requests, small.requests << 1])

    # Each command ended once, by its own completion.
    ended = 0 if silent else small.requests
    state = _IN_FLIGHT if silent else _COMPLETED
    number = {lba - LBA: place for place, (_, lba, _) in enumerate(one["commands"])}
    told = [[state, 0 if silent else _RESULT + number.get(row, -1)] for row in rows]
    found = [[code >> 24, result] for code, result in one["told"]]
    seen.equal("ring.request.exactly_once", f"states and results that lanes saw {how}", found, told)
    seen.equal("ring.cq.once", f"completions that were believed {how}", one["completions"], ended)
    seen.equal("ring.cq.once", f"identifiers that came back {how}", one["retired"], ended)
    taken = one["completion"] >> 1
    seen.equal("ring.cq.once", f"the completion word is free {how}", one["completion"] & 1, 0)
    seen.equal("ring.cq.once", f"completions taken, and those nobody's {how}", taken - one["strays"], ended)
    seen.holds("ring.cq.once", f"none taken that was not posted {how}", taken <= one["posted"], taken)
    if not small.drive & TWICE:
        seen.equal("ring.cq.once", f"completions of nobody's {how}", one["strays"], 0)

    # Every identifier is in one hand: in its cell, or with a command.
    free = [cell & 0xFFFF for cell in one["cells"] if cell >> 16 >= one["ticket"]]
    open_ones = [] if silent else [0] * (small.requests - ended)
    seen.equal("ring.cq.by_cid", f"credits {how}", one["credits"], limit - (small.requests - ended))
    bits = max(1, (limit - 1).bit_length())
    mask = (1 << bits) - 1
    held = [name & mask for name in free] + ([one["identifiers"][r] & mask for r in rows] if silent else open_ones)
    seen.equal("ring.cq.by_cid", f"rows of identifiers, each in one hand {how}", sorted(held), list(range(limit)))


#: More than all schedules can be taken of: whole waves, more waves than entries.
BEYOND = {
    "wide": Small(96, _ALL, steps=4096, depth=33, blocks=1, lanes=96),
    "waves": Small(48, _ALL | SETTLE, steps=4096, depth=5, blocks=6, lanes=8),
    "narrow": Small(16, _ALL, steps=4096, depth=2, blocks=4, lanes=4),
}


@case(
    "ring/explored_beyond",
    level="L5",
    clauses=("ring.request.exactly_once", "ring.cq.once", "ring.doorbell.not_lost"),
    needs=("engine.simulation",),
    kernels=("probe_ring",),
    axes={"piece": tuple(BEYOND)},
    budget_s=60.0,
    quick=False,
)
def explored_beyond(run: Run) -> Observations:
    """The same with more waves, lanes and laps, under schedules with few changes of priority, by seeds."""
    queue = SmallQueue(run, BEYOND[str(run.axes["piece"])])
    policies = ("pct", "random", "pct", "starve-one")
    return {"runs": [queue.run_once(policy, run.seed + index) for index, policy in enumerate(policies * 4)]}


@explored_beyond.judge
def _(seen: Seen) -> None:
    small = BEYOND[str(seen.axes["piece"])]
    for one in seen["runs"]:
        how = f"[{one['policy']} {one['seed']}]"
        seen.equal("ring.doorbell.not_lost", f"how the launch ended {how}", one["outcome"], "done")
        found = [one["fetched"], one["ticket"], one["doorbell"] >> 1]
        seen.equal("ring.doorbell.not_lost", f"commands, tickets, doorbell {how}", found, [small.requests] * 3)
        states = [code >> 24 for code, _ in one["told"]]
        seen.equal("ring.request.exactly_once", f"states {how}", states, [_COMPLETED] * small.requests)
        results = sorted(result - _RESULT for _, result in one["told"])
        seen.equal("ring.request.exactly_once", f"results, each once {how}", results, list(range(small.requests)))
        counted = [one["completions"], one["retired"], one["strays"], one["credits"]]
        wanted = [small.requests, small.requests, 0, small.depth - 1]
        seen.equal("ring.cq.once", f"completions, returns, strays, credits {how}", counted, wanted)

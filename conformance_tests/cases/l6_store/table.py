"""The placement table: commits, lookups, prefixes, and lookups beside commits. The oracle is a dictionary."""

from __future__ import annotations

from typing import Any

import numpy as np

from tutti_hal.conformance_tests.case import Observations, case
from tutti_hal.conformance_tests.cases.l6_store.layouts import (
    CHANGE,
    KEY,
    PLACE,
    SLOT_BYTES,
    draw_changes,
    keys_of,
    raw,
)
from tutti_hal.conformance_tests.run import Run
from tutti_hal.conformance_tests.seen import Seen

_SLOTS = 128
_FIELDS = ("version", "lba", "bytes", "crc")


class _Table:
    """A table on the device, and the three kernels that use it."""

    def __init__(self, run: Run, slots: int) -> None:
        self.run, self.slots = run, slots
        self.memory = run.buffer(slots * SLOT_BYTES, "device")

    def commit(self, rows: np.ndarray, lanes: int = 64) -> list[int]:
        """Outcome of a launch: visible, no room, older."""
        run = self.run
        outcome = run.buffer(12, "device")
        given = run.array(rows, "device")
        kernel = run.kernel("store", "store_commit")
        run.launch(kernel, -(-len(rows) // lanes), lanes, self.memory, self.slots - 1, given, len(rows), outcome)
        return [int(one) for one in run.read(outcome, np.uint32)]

    def lookup(self, keys: np.ndarray, lanes: int = 64) -> np.ndarray:
        """Answers for keys."""
        run = self.run
        places = run.buffer(len(keys) * PLACE.itemsize, "device")
        given = run.array(keys, "device")
        kernel = run.kernel("store", "store_lookup")
        run.launch(kernel, -(-len(keys) // lanes), lanes, self.memory, self.slots - 1, given, len(keys), places)
        return run.read(places, PLACE)


def _strangers(rows: np.ndarray) -> np.ndarray:
    """Keys that nobody committed: one half of a key that was, and keys of their own."""
    keys = keys_of(rows[:12])
    keys["high"][:6] ^= 1
    keys["low"][6:] += np.uint64(1 << 60)
    return keys


@case(
    "store/table",
    level="L6",
    clauses=("store.lookup.finds", "store.lookup.never_over", "store.commit.newest"),
    kernels=("store",),
)
def table(run: Run) -> Observations:
    """Keys put, put anew, taken away, put out of order, and never put: a lookup tells each from the other."""
    rows = draw_changes(run.random, 80, _SLOTS)
    newer, gone, older = rows[20:50].copy(), rows[40:60].copy(), rows[:10].copy()
    newer["version"], newer["lba"] = 11, newer["lba"] + 1
    gone["version"], gone["present"] = 12, 0
    older["version"], older["lba"] = 9, 7
    table = _Table(run, _SLOTS)
    steps = [rows, newer, gone, older]
    outcomes = [table.commit(step) for step in steps]
    asked = np.concatenate([keys_of(rows), _strangers(rows)])
    places = raw(table.lookup(asked))
    return {"steps": [raw(step) for step in steps], "outcomes": outcomes, "asked": raw(asked), "places": places}


def _newest(steps: list[np.ndarray]) -> dict[tuple[int, int], Any]:
    """Of each key the change of the highest version."""
    known: dict[tuple[int, int], Any] = {}
    for row in np.concatenate(steps):
        key = int(row["low"]), int(row["high"])
        if key not in known or row["version"] >= known[key]["version"]:
            known[key] = row
    return known


@table.judge
def _(seen: Seen) -> None:
    counted = [[80, 0, 0], [30, 0, 0], [20, 0, 0], [0, 0, 10]]
    seen.equal("store.commit.newest", "what each launch counted", seen["outcomes"], counted)
    _judge_lookups(seen)


@case("store/table.full", level="L6", clauses=("store.commit.full", "store.lookup.finds"), kernels=("store",))
def full(run: Run) -> Observations:
    """A table of 32 places is given 40 keys: 32 are there, 8 are counted."""
    rows = draw_changes(run.random, 40, 32)
    table = _Table(run, 32)
    outcomes = [table.commit(rows[:20]), table.commit(rows[20:])]
    return {"rows": raw(rows), "outcomes": outcomes, "places": raw(table.lookup(keys_of(rows)))}


@full.judge
def _(seen: Seen) -> None:
    rows, places = seen["rows"].view(CHANGE), seen["places"].view(PLACE)
    seen.equal("store.commit.full", "what the launches counted", seen["outcomes"], [[20, 0, 0], [12, 8, 0]])
    seen.equal("store.commit.full", "keys that are there", int(places["found"].sum()), 32)
    seen.equal("store.commit.full", "those of the first launch", places["found"][:20].tolist(), [1] * 20)
    there = places["found"] == 1
    seen.equal("store.lookup.finds", "their places", places["lba"][there], rows["lba"][there])


@case(
    "store/table.twins",
    level="L6",
    clauses=("store.lookup.finds", "store.lookup.never_over", "store.commit.newest"),
    kernels=("store",),
)
def twins(run: Run) -> Observations:
    """Keys that have one half in common with others, in launches of their own; some are put anew or taken away."""
    rows = draw_changes(run.random, 24, 64)
    twins = rows.copy()
    twins["high"] ^= 1
    twins["lba"] += 1
    newer, gone = rows[:8].copy(), twins[4:12].copy()
    newer["version"], newer["lba"] = 11, newer["lba"] + 2
    gone["version"], gone["present"] = 11, 0
    table = _Table(run, 64)
    steps = [rows, twins, newer, gone]
    outcomes = [table.commit(step) for step in steps]
    asked = np.concatenate([keys_of(rows), keys_of(twins)])
    places = raw(table.lookup(asked))
    return {"steps": [raw(step) for step in steps], "outcomes": outcomes, "asked": raw(asked), "places": places}


@twins.judge
def _(seen: Seen) -> None:
    counted = [[24, 0, 0], [24, 0, 0], [8, 0, 0], [8, 0, 0]]
    seen.equal("store.commit.newest", "what each launch counted", seen["outcomes"], counted)
    _judge_lookups(seen)


def _judge_lookups(seen: Seen) -> None:
    known = _newest([step.view(CHANGE) for step in seen["steps"]])
    for key, place in zip(seen["asked"].view(KEY), seen["places"].view(PLACE), strict=True):
        row = known.get((int(key["low"]), int(key["high"])))
        if row is None or not row["present"]:
            seen.equal("store.lookup.never_over", "a key without an object", int(place["found"]), 0)
        else:
            found = [int(place["found"]), *(int(place[name]) for name in _FIELDS)]
            seen.equal("store.lookup.finds", "a key with one", found, [1, *(int(row[name]) for name in _FIELDS)])


@case("store/prefix", level="L6", clauses=("store.prefix.leading",), kernels=("store",), axes={"lanes": (1, 33, 128)})
def prefix(run: Run) -> Observations:
    """Prompts whose first missing key is nowhere, first, last, and behind more keys than a block has lanes."""
    rows = draw_changes(run.random, 120, 256)
    table = _Table(run, 256)
    table.commit(rows)
    have, lack = keys_of(rows), _strangers(rows)
    prompts = [
        have,
        lack[:1],
        np.concatenate([have[:119], lack[:1]]),
        np.concatenate([have[:40], lack[:2], have[40:], lack[2:4]]),
        np.zeros(0, KEY),
        np.concatenate([have[7:8], lack[4:5], have]),
    ]
    firsts = np.concatenate([[0], np.cumsum([len(one) for one in prompts])]).astype(np.uint32)
    lengths = run.buffer(4 * len(prompts), "device")
    kernel = run.kernel("store", "store_prefix")
    given = run.array(np.concatenate(prompts), "device"), run.array(firsts, "device")
    run.launch(kernel, 2, run.axes["lanes"], table.memory, table.slots - 1, *given, len(prompts), lengths)
    return {"lengths": run.read(lengths, np.uint32)}


@prefix.judge
def _(seen: Seen) -> None:
    seen.equal("store.prefix.leading", "leading keys of each prompt", seen["lengths"].tolist(), [120, 0, 119, 40, 0, 1])


@case("store/table.beside", level="L6", clauses=("store.lookup.whole", "store.lookup.finds"), kernels=("store",))
def beside(run: Run) -> Observations:
    """Lookups on one stream while another one changes the same keys."""
    from tutti_hal.shim import LaunchConfig, launch

    first = draw_changes(run.random, 6, 32)
    second = first.copy()
    second["version"] += 1
    for name in ("lba", "bytes", "crc"):
        second[name] ^= 0x55
    second["present"][5] = 0
    answers = []
    after = np.zeros(0, PLACE)
    for _ in run.schedules(24):
        table = _Table(run, 32)
        table.commit(first)
        outcome, given = run.buffer(12, "device"), run.array(second, "device")
        keys = run.array(np.concatenate([keys_of(first)] * 4), "device")
        places = run.buffer(24 * PLACE.itemsize, "device")
        changing, looking = run.kernel("store", "store_commit"), run.kernel("store", "store_lookup")
        with run.device.create_stream() as other:
            run.launch(changing, 1, 6, table.memory, 31, given, 6, outcome, wait=False)
            launch(other, LaunchConfig(4, 6), looking, table.memory.address, 31, keys.address, 24, places.address)
            other.synchronize()
            run.stream.synchronize()
        answers.append(raw(run.read(places, PLACE)))
        after = table.lookup(keys_of(first))
    return {"first": raw(first), "second": raw(second), "answers": answers, "after": raw(after)}


@beside.judge
def _(seen: Seen) -> None:
    allowed = []
    second = seen["second"].view(CHANGE)
    for old, new in zip(seen["first"].view(CHANGE), second, strict=True):
        values = {(0, 0, 0, 0, 0), (1, *(int(old[name]) for name in _FIELDS))}
        if new["present"]:
            values.add((1, *(int(new[name]) for name in _FIELDS)))
        allowed.append(values)
    for answers in seen["answers"]:
        for at, place in enumerate(answers.view(PLACE)):
            found = (int(place["found"]), *(int(place[name]) for name in _FIELDS))
            seen.holds("store.lookup.whole", f"answer {at} is one change or none: {found}", found in allowed[at % 6])
    seen.equal(
        "store.lookup.finds", "afterwards the newer change", seen["after"].view(PLACE)["lba"][:5], second["lba"][:5]
    )

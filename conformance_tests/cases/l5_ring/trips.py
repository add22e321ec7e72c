"""A round trip over a rig, and what must be so of every one: shared by the cases of the ring. No case is here."""

from __future__ import annotations

from typing import Any

import numpy as np

from tutti_hal.conformance_tests.rig import BLOCK, SPOILT, Rig
from tutti_hal.conformance_tests.seen import Seen


def round_trip(rig: Rig, count: int) -> dict[str, Any]:
    """Write blocks spread over all namespaces, spoil the memory, read them back. What was sent, kept, and came back."""
    run, ring = rig.run, rig.ring
    source = run.random.integers(0, 256, count * BLOCK, np.uint8)
    at = np.arange(count)
    # Requests of a batch name many targets at once; a drive's blocks are taken one after the other.
    targets, lbas = at % len(ring.targets), at // len(ring.targets)
    where = {"target": targets, "lba": lbas, "offset": at * BLOCK}
    rig.put(source)
    written = rig.submit("write", **where)
    untouched = rig.get()
    rig.put()
    read = rig.submit("read", **where)
    stored = [
        rig.controllers[ring.targets[row].drive].read_stored(ring.targets[row].nsid, int(lba) * BLOCK, BLOCK)
        for row, lba in zip(targets, lbas, strict=True)
    ]
    return {
        "source": source,
        "untouched": untouched,
        "stored": np.frombuffer(b"".join(stored), np.uint8),
        "memory": rig.get(),
        "written": written,
        "read": read,
        "counted": rig.counted(),
    }


def judge_bytes(seen: Seen, clause: str, one: Any) -> None:
    """A round trip moved exactly its bytes."""
    source, memory = one["source"], one["memory"]
    n = len(source)
    for verb in ("written", "read"):
        seen.equal(
            clause, f"each request of what was {verb} completed", one[verb]["state"], ["COMPLETED"] * (n // BLOCK)
        )
        seen.equal(clause, f"each status of what was {verb}", one[verb]["status"], np.zeros((n // BLOCK, 2), np.uint8))
        took, results = one[verb]["took_ns"], one[verb]["result"]
        seen.holds(clause, f"what was {verb} ended after it began", bool((took >= 0).all()), took, took)
        seen.equal(clause, f"result of each request of what was {verb}", results, np.zeros(n // BLOCK, np.uint32))
    seen.equal(clause, "bytes in the namespace", one["stored"], source)
    seen.equal(clause, "bytes that a write read", one["untouched"][:n], source)
    seen.equal(clause, "bytes that came back", memory[:n], source)
    seen.equal(clause, "bytes beside what came back", memory[n:], np.full(len(memory) - n, SPOILT, np.uint8))


def judge_counts(seen: Seen, clause: str, one: Any, *, strays: int = 0) -> None:
    """Each command was sent once, fetched once, and its completion taken once."""
    count = len(one["source"]) // BLOCK
    drives, ring = one["counted"]["drives"], one["counted"]["ring"]
    seen.equal(clause, "writes that drives fetched", sum(d["io"].get("1", 0) for d in drives), count)
    seen.equal(clause, "reads that drives fetched", sum(d["io"].get("2", 0) for d in drives), count)
    seen.equal(clause, "other commands", sum(sum(d["io"].values()) for d in drives) - 2 * count, 0)
    seen.equal(clause, "completions taken", ring["completions"], 2 * count)
    seen.equal(clause, "completions of nobody's", (ring["strays"], ring["lates"], ring["quarantined"]), (strays, 0, 0))

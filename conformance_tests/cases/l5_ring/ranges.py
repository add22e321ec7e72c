"""Ranges of a buffer there and back, with the words of their commands, for cases of pointers. No case is here."""

from __future__ import annotations

from typing import Any

import numpy as np

from tutti_hal.conformance_tests.rig import BLOCK, SPOILT, Rig
from tutti_hal.conformance_tests.seen import Seen


def moved(rig: Rig, ranges: list[tuple[int, int]]) -> dict[str, Any]:
    """Write all ranges to blocks of their own, then read each back alone into spoilt memory."""
    sizes = np.array([nbytes for _, nbytes in ranges])
    offsets = np.array([offset for offset, _ in ranges])
    lbas = (np.cumsum(sizes) - sizes) // BLOCK
    source = rig.run.random.integers(0, 256, rig.memory.nbytes, np.uint8)
    rig.put(source)
    written = rig.submit("write", lba=lbas, nbytes=sizes, offset=offsets)
    entries = {int(entry[10]): entry for entry in rig.entries() if entry[0] & 0xFF == 1}
    stored = np.frombuffer(rig.controllers[0].read_stored(1, 0, int(sizes.sum())), np.uint8)
    back, outside, states = [], [], []
    for lba, (offset, nbytes) in zip(lbas, ranges, strict=True):
        rig.put()
        states += rig.submit("read", lba=int(lba), nbytes=nbytes, offset=offset)["state"]
        memory = rig.get()
        back.append(memory[offset : offset + nbytes])
        outside.append(int((memory != SPOILT).sum() - (back[-1] != SPOILT).sum()))
    return {
        "runs": [[bus, nbytes] for bus, nbytes in rig.memory.runs],
        "source": source,
        "written": written["state"],
        "commands": written["commands"],
        "entries": [entries.get(int(lba), np.zeros(16, np.uint32)) for lba in lbas],
        "stored": stored,
        "read": np.concatenate(back),
        "states": states,
        "outside": outside,
    }


def judge_bytes_of(seen: Seen, ranges: list[tuple[int, int]]) -> None:
    """What `moved` saw moved exactly its bytes."""
    source = seen["source"]
    wanted = np.concatenate([source[offset : offset + nbytes] for offset, nbytes in ranges])
    clause, all_done = "ring.request.data_exact", ["COMPLETED"] * len(ranges)
    seen.equal(clause, "states of writes and reads", [seen["written"], seen["states"]], [all_done, all_done])
    seen.equal(clause, "bytes in the namespace", seen["stored"], wanted)
    seen.equal(clause, "bytes that came back", seen["read"], wanted)
    seen.equal(clause, "bytes that changed beside them", seen["outside"], [0] * len(ranges))


class Bus:
    """Where a buffer lies on the bus."""

    def __init__(self, runs: list[list[int]]) -> None:
        self.runs = runs

    def address(self, offset: int) -> int:
        """Of a byte of the buffer."""
        for bus, nbytes in self.runs:
            if offset < nbytes:
                return bus + offset
            offset -= nbytes
        raise ValueError("past the end")

    def runs_in(self, offset: int, nbytes: int) -> int:
        """How many runs a range has a part of; runs that touch are one."""
        edges, at, before = 0, 0, None
        for bus, length in self.runs:
            if at < offset + nbytes and at + length > offset:
                edges += before != bus
            before, at = bus + length, at + length
        return edges


def words_of(entry: Any) -> dict[str, int]:
    """How an entry names memory: PRPs, or the length, type and other bits of an SGL descriptor."""
    w = [int(word) for word in entry]
    return {
        "psdt": w[0] >> 14 & 3,
        "first": w[6] | w[7] << 32,
        "second": w[8] | w[9] << 32,
        "length": w[8],
        "kind": w[9] >> 28,
        "rest": w[9] & 0x0FFF_FFFF,
    }

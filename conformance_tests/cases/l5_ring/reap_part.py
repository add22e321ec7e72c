"""One pass of a reaper over what lies ready, to the last count."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from tutti_hal.conformance_tests.case import Observations, case
from tutti_hal.conformance_tests.run import Run
from tutti_hal.conformance_tests.seen import Seen
from tutti_hal.io_uring.layout import dtype

_LAST = (1 << 64) - 1
_BUSY, _INDEX_BITS, _USES = 1 << 16, 5, 100
_CQ_DEPTH, _INTERVAL = 16, 4
_COUNTS = (
    *("credits", "ticket", "completion", "retired", "sq_head", "allowed", "cq_rung", "cq_doorbells", "reaps"),
    *("completions", "strays", "lates", "cq_loads"),
)


@dataclass(frozen=True)
class _Queue:
    """A queue of sixteen entries.

    Attributes:
        commands: that it may have outstanding.
        sharing: queues that share its completion queue.
        ahead: commands that were fetched and are not done.
        first: index of the first completion; those before were taken, and told to the drive.
        ready: completions that lie there.
    """

    commands: int
    sharing: int = 1
    ahead: int = 0
    first: int = 10
    ready: int = 11
    depth: int = 16

    @property
    def allowed(self) -> int:
        """Tickets that may be given out before anything came back."""
        return min(self.commands, self.depth - 1)


#: Fewer commands than entries, as many, and more; two queues with one completion queue; as many to take as were taken
#: before. All but that go over the queue's end.
_QUEUES = {
    "fewer": _Queue(12),
    "equal": _Queue(16, ahead=3),
    "more": _Queue(20),
    "shared": _Queue(12, sharing=2),
    "few": _Queue(12, first=3, ready=3),
}


class _Memory:
    """The words of a completion queue and of the queues that complete there, as a drive and a submitter left them."""

    def __init__(self, run: Run, one: _Queue) -> None:
        self.run, self.one = run, one
        self.states = [run.array(self._state(row)) for row in range(one.sharing)]
        self.commands = [run.array(self._commands(row)) for row in range(one.sharing)]
        self.cells = [run.buffer(8 * one.commands) for _ in range(one.sharing)]
        self.doorbell, cq = run.buffer(4), run.array(self._entries())
        queues = np.zeros(one.sharing, dtype("ring_queue"))
        for row in range(one.sharing):
            queues["state"][row], queues["cells"][row] = self.states[row].address, self.cells[row].address
            queues["commands"][row] = self.commands[row].address
        queues["cq"], queues["cq_doorbell"], queues["cq_state"] = cq.address, self.doorbell.address, queues["state"][0]
        queues["sq_depth"], queues["cq_depth"], queues["command_limit"] = one.depth, _CQ_DEPTH, one.commands
        for name, length in (("sq", one.depth), ("cq", _CQ_DEPTH), ("command", one.commands)):
            queues[f"{name}_reciprocal"] = _LAST // length
        queues["index_bits"], queues["generations"], queues["cq_interval"] = _INDEX_BITS, _USES, _INTERVAL
        queues["id"] = queues["cq_place"] = np.arange(one.sharing)
        queues["id"] += 5
        queues["cq_queues"] = one.sharing
        self.queues = run.array(queues)
        self.statuses = run.buffer(dtype("ring_status").itemsize * one.ready)

    def _own(self, row: int) -> list[int]:
        """Which completions are a queue's."""
        return list(range(row, self.one.ready, self.one.sharing))

    def _state(self, row: int) -> Any:
        state = np.zeros(1, dtype("ring_queue_state"))
        sent, allowed = len(self._own(row)) + self.one.ahead, self.one.allowed
        state["ticket"], state["credits"], state["allowed"] = sent, allowed - sent, allowed
        if row == 0:
            state["completion"], state["cq_rung"] = self.one.first << 1, self.one.first
        return state

    def _commands(self, row: int) -> Any:
        """Command n of a queue carries the request of its n-th completion, in the first use of its number."""
        words = np.zeros(self.one.commands, np.uint64)
        for command, request in enumerate(self._own(row)):
            words[command] = request << 32 | _BUSY | command
        return words

    def _entries(self) -> Any:
        entries = np.zeros(_CQ_DEPTH, dtype("ring_cqe"))
        # The phase of what lay there before: 0 in the first lap, 1 once that was through.
        entries["dword_3"][: self.one.first] = 1 << 16
        for number in range(self.one.ready):
            command, row = divmod(number, self.one.sharing)
            lap, slot = divmod(self.one.first + number, _CQ_DEPTH)
            entries["dword_0"][slot] = 0x700 + number
            entries["dword_2"][slot] = (5 + row) << 16 | command + 1 + self.one.ahead
            entries["dword_3"][slot] = (1 - lap) << 16 | command
        return entries

    def told(self, out: Any) -> dict[str, Any]:
        states = [self.run.read(one, dtype("ring_queue_state"))[0] for one in self.states]
        statuses = self.run.read(self.statuses, dtype("ring_status"))
        return {
            "taken": self.run.read(out, np.uint32),
            "states": [{name: int(state[name]) for name in _COUNTS} for state in states],
            "cells": [self.run.read(one, np.uint64) for one in self.cells],
            "codes": statuses["code"],
            "results": statuses["result"],
            "doorbell": int(self.run.read(self.doorbell, np.uint32)[0]),
        }


@case(
    "ring/part.reap",
    level="L5",
    clauses=("ring.cq.once", "ring.cq.by_cid", "ring.cq.doorbell_in_time", "ring.sq.slot_reuse_after_fetch"),
    kernels=("probe_ring_parts",),
    axes={"commands": tuple(_QUEUES)},
)
def reap(run: Run) -> Observations:
    """A lane alone takes what lies ready, over the queue's end, gives it back, and counts each thing once."""
    memory = _Memory(run, _QUEUES[str(run.axes["commands"])])
    out = run.buffer(4 * 3)
    kernel = run.kernel("probe_ring_parts", "probe_part_reap")
    run.launch(kernel, 1, 1, memory.queues, memory.statuses, 3, out)
    return memory.told(out)


@reap.judge
def _(seen: Seen) -> None:
    one = _QUEUES[str(seen.axes["commands"])]
    seen.equal("ring.cq.once", "completions taken in each call", seen["taken"].tolist(), [one.ready, 0, 0])
    seen.equal("ring.cq.by_cid", "codes of the records", seen["codes"].tolist(), [2 << 24] * one.ready)
    seen.equal("ring.cq.by_cid", "results", seen["results"].tolist(), [0x700 + row for row in range(one.ready)])
    # The drive is told after each fourth, and at last of the rest.
    seen.equal("ring.cq.doorbell_in_time", "doorbell", seen["doorbell"], (one.first + one.ready) % _CQ_DEPTH)
    for row, state in enumerate(seen["states"]):
        own = len(range(row, one.ready, one.sharing))
        # Of entries that were fetched all but one are free; a command may follow once another is done.
        fetched = own + one.ahead if one.commands >= one.depth else 0
        allowed = own + one.commands if not fetched else min(own + one.commands, fetched + one.depth - 1)
        wanted = {
            **{"ticket": own + one.ahead, "retired": own, "completions": own, "strays": 0, "lates": 0},
            **{"sq_head": fetched, "allowed": allowed, "credits": allowed - own - one.ahead},
            **{"completion": 0, "cq_rung": 0, "cq_doorbells": 0, "reaps": 0, "cq_loads": 0},
        }
        if one.sharing > 1:
            wanted["allowed"] = one.allowed
        if row == 0:
            # Reads of entries: one to see that there is something, three of each, two of the one that is not ready; and
            # one in each call that finds nothing.
            wanted |= {
                "completion": (one.first + one.ready) << 1,
                "cq_rung": one.first + one.ready,
                "cq_doorbells": -(-one.ready // _INTERVAL),
            }
            wanted |= {"reaps": 1, "cq_loads": 1 + 3 * one.ready + 2 + 2}
        places = {name: wanted.pop(name) for name in ("allowed", "credits", "sq_head")}
        found = {name: state[name] for name in places}
        seen.equal("ring.sq.slot_reuse_after_fetch", f"places of queue {row}", found, places)
        rest = {name: state[name] for name in wanted}
        seen.equal("ring.cq.once", f"counts of queue {row}", rest, wanted)
        cells = [0] * one.commands
        for number in range(own):
            cells[number] = (number + one.commands) << 16 | 1 << _INDEX_BITS | number
        seen.equal("ring.cq.once", f"identifiers given back to queue {row}", seen["cells"][row].tolist(), cells)

"""A batch through a queue whose drive does nothing: no place comes back, or no completion."""

from __future__ import annotations

import time
from typing import Any

import numpy as np

from tutti_hal.conformance_tests.case import Observations, case
from tutti_hal.conformance_tests.run import Run
from tutti_hal.conformance_tests.seen import Seen
from tutti_hal.io_uring.layout import dtype

_LAST = (1 << 64) - 1
_LIMIT_NS = 2_000_000
#: Of the queue: entries, commands, bits of an identifier that are its row.
_DEPTH, _COMMANDS, _INDEX_BITS = 32, 31, 5


class _Batch:
    """One queue over words of the case's own, and requests for it.

    Args:
        run: the case's.
        requests: how many.
        csts: what the drive's status register says.
        state: words of the queue's state.
    """

    def __init__(self, run: Run, requests: int, csts: int = 1, **state: int) -> None:
        self.run = run
        self.requests, self.statuses = (np.zeros(requests, dtype(f"ring_{one}")) for one in ("request", "status"))
        words = np.zeros(1, dtype("ring_queue_state"))
        for name, value in state.items():
            words[name] = value
        self._state, self.doorbell, register = run.array(words), run.buffer(4), run.array(np.array([csts], np.uint32))
        tickets = np.arange(_COMMANDS, dtype=np.uint64)
        memory = {
            "state": self._state,
            "cq_state": self._state,
            "sq": run.buffer(64 * _DEPTH),
            "cq": run.buffer(16 * _DEPTH),
            "sq_doorbell": self.doorbell,
            "cq_doorbell": run.buffer(4),
            "csts": register,
            "marks": run.buffer(8 * _DEPTH),
            "commands": run.buffer(8 * _COMMANDS),
            "cells": run.array(tickets << np.uint64(16) | tickets),
        }
        # The row after the queue's is nobody's: its addresses lead nowhere.
        queue = np.zeros(2, dtype("ring_queue"))
        for name, buffer in memory.items():
            queue[name] = (buffer.address, 16)
        queue["cq_queues"], queue["cq_interval"], queue["id"] = 1, _DEPTH // 2, 1
        queue["sq_depth"], queue["cq_depth"], queue["command_limit"] = _DEPTH, _DEPTH, _COMMANDS
        for name, length in (("sq", _DEPTH), ("cq", _DEPTH), ("command", _COMMANDS)):
            queue[f"{name}_reciprocal"] = _LAST // length
        queue["index_bits"], queue["generations"] = _INDEX_BITS, 100
        target = np.zeros(1, dtype("ring_target"))
        target["nsid"], target["block_bytes"], target["page_shift"] = 1, 512, 12
        target["max_blocks"], target["block_limit"], target["classes"] = 1, 1000, 1 << 16
        self._tables = (run.array(target), run.array(queue), run.buffer(dtype("ring_buffer").itemsize))

    def go(self, lanes: int) -> dict[str, Any]:
        """Run the batch: the requests' codes, the queue's state, the time that it took."""
        run, count = self.run, len(self.requests)
        results, epoch = run.buffer(32 * count, fill=0xEE), run.buffer(4)
        rows = (run.array(self.requests), run.array(self.statuses), results, 0, count)
        kernel, began = run.kernel("ring", "ring_run"), _now(run)
        run.launch(kernel, 1, lanes, *self._tables, *rows, _LIMIT_NS, epoch, 0)
        took = _now(run) - began
        state = run.read(self._state, dtype("ring_queue_state"))[0]
        return {
            "codes": run.read(results, np.uint32, (-1, 8))[:, 0],
            "state": {name: int(state[name]) for name in ("ticket", "health", "doorbells", "quarantined")},
            "doorbell": int(run.read(self.doorbell, np.uint32)[0]),
            "took_ns": took,
        }


def _now(run: Run) -> int:
    return run.world.now_ns if run.world is not None else time.monotonic_ns()


#: Lanes, and requests of which all but each lane's first find no place; what the drive's status register says then.
_LANES, _ROWS = 32, 72
_STATUS = {"well": 1, "failed": 3, "gone": 0xFFFFFFFF}
#: The next ticket of the queue that stands still.
_TICKET = 77


@case(
    "ring/part.starved",
    level="L5",
    clauses=("ring.wait.bounded", "ring.timeout.kernel_ends", "ring.gone.detected"),
    kernels=("ring",),
    axes={"drive": tuple(_STATUS)},
)
def starved(run: Run) -> Observations:
    """A queue whose places never come back: the requests wait the limit, once, and say why they were not run."""
    batch = _Batch(run, _ROWS, _STATUS[str(run.axes["drive"])], ticket=_TICKET)
    # As if a request of a former batch had waited for the same ticket, and longer than the limit.
    batch.statuses["result"], batch.statuses["submitted_ns"] = _TICKET, (1 << 64) - 2 * _LIMIT_NS
    # The first one of each lane is refused: it got on before it stood still.
    batch.requests["block_count"][:_LANES] = 2
    return batch.go(_LANES)


@starved.judge
def _(seen: Seen) -> None:
    gone = seen.axes["drive"] == "gone"
    # Not run, because the queue stood still; or the drive is gone.
    codes = [6 << 24] * _LANES + [4 << 24 if gone else 3] * (_ROWS - _LANES)
    seen.equal("ring.timeout.kernel_ends", "codes", seen["codes"].tolist(), codes)
    seen.equal("ring.gone.detected", "health of the queue", seen["state"]["health"], 2 if gone else 0)
    _took(seen)


def _took(seen: Seen) -> None:
    took = seen["took_ns"]
    seen.holds("ring.wait.bounded", "nothing was given up before the limit", took >= _LIMIT_NS, took)
    if seen.facts.simulated:
        seen.holds("ring.wait.bounded", "and nothing waited a second time", took <= _LIMIT_NS * 11 // 10, took)


#: Requests of a lane that is alone.
_ALONE = 24


@case(
    "ring/part.burst",
    level="L5",
    clauses=("ring.doorbell.coalesced", "ring.wait.bounded", "ring.timeout.queue_marked"),
    kernels=("ring",),
)
def burst(run: Run) -> Observations:
    """A lane that is alone tells the drive of several commands at once; each of them times out by itself."""
    return _Batch(run, _ALONE, credits=_COMMANDS, allowed=_COMMANDS).go(1)


@burst.judge
def _(seen: Seen) -> None:
    state = seen["state"]
    rung, most = state["doorbells"], _ALONE // 8
    seen.holds("ring.doorbell.coalesced", f"{_ALONE} commands, {most} doorbells", 1 <= rung <= most, rung)
    seen.equal("ring.doorbell.coalesced", "doorbell", seen["doorbell"], _ALONE)
    seen.equal("ring.timeout.queue_marked", "codes", seen["codes"].tolist(), [3 << 24] * _ALONE)
    counted = [state[name] for name in ("ticket", "health", "quarantined")]
    seen.equal("ring.timeout.queue_marked", "tickets, health, identifiers kept", counted, [_ALONE, 1, _ALONE])
    _took(seen)

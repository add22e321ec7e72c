"""What goes away under commands in flight: the client, the memory, the drive's queues. Nothing is written later."""

from __future__ import annotations

import functools
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tutti_hal.conformance_tests.beside import (
    SPOILT,
    Plain,
    attached,
    fill,
    get,
    given,
    pages,
    refused,
    reset,
    stock_write,
    take_back,
    until,
)
from tutti_hal.conformance_tests.case import Observations, case
from tutti_hal.conformance_tests.cases.l7_p2p.terms import BUDGET_S, NO_MUTANT, real
from tutti_hal.conformance_tests.oracle.nvme import OK, PAGE
from tutti_hal.conformance_tests.seen import Seen

if TYPE_CHECKING:
    from tutti_hal.conformance_tests.run import Run
    from tutti_hal.nvme.kernel_controller import KernelController
    from tutti_hal.nvme.kernel_memory import PinnedMemory

_AT = 48 << 20
_FLIGHT = 48
_DEPTH = 64
#: How long nothing may come.
_QUIET_S = 0.3

# Numbers of the interface: kinds of events, and causes.
_PIN, _QUEUE = 1, 2
_REVOKED, _RESET = 1, 2


def _alive(run: Run, drive: KernelController, pair: Plain, memory: PinnedMemory) -> dict[str, Any]:
    """A page that the kernel's driver wrote is read by the pair: what came, and what should."""
    wanted = run.random.integers(0, 256, PAGE, "u1")
    block = drive.namespace(1).lba_bytes
    stock_write(drive.name, _AT, wanted)
    fill(run, memory)
    pair.read_pages(memory, _AT // block, 1, block)
    done = pair.next()
    return {"status": None if done is None else list(done.status), "got": get(run, memory)[:PAGE], "wanted": wanted}


def _flight(drive: KernelController, pair: Plain, memory: PinnedMemory) -> None:
    """Reads into each page, not waited for."""
    block = drive.namespace(1).lba_bytes
    pair.read_pages(memory, _AT // block, _FLIGHT, block)


def _later(run: Run, memory: PinnedMemory) -> Any:
    """Spoil the memory, wait, and look which bytes are others."""
    fill(run, memory)
    time.sleep(_QUIET_S)
    return get(run, memory)


def _judge_alive(seen: Seen, clause: str, what: str, one: dict[str, Any]) -> None:
    seen.equal(clause, f"status of a read {what}", one["status"], list(OK))
    seen.equal(clause, f"bytes of a read {what}", one["got"], one["wanted"])


def _judge_quiet(seen: Seen, clause: str, later: Any) -> None:
    import numpy as np

    seen.equal(clause, "memory a while later", later, np.full(len(later), SPOILT, np.uint8))


@case(
    "beside/close.quiet",
    level="L7",
    clauses=("beside.close.quiet",),
    axes={"data": ("host", "device")},
    budget_s=BUDGET_S,
    only=real,
    no_mutant=NO_MUTANT,
)
def close_quiet(run: Run) -> Observations:
    """A client is closed with commands in flight: when its queues are gone nothing comes into its memory."""
    from tutti_hal.nvme.kernel_controller import KernelController

    turns = []
    for _ in range(3):
        with attached(run) as drive:
            memory = pages(run, drive, str(run.axes["data"])).allocate(_FLIGHT * PAGE)
            run.closing.callback(memory.close)
            pair = Plain(drive, _DEPTH)
            alive = _alive(run, drive, pair, memory)
            _flight(drive, pair, memory)
            del pair
            drive.close(abrupt=True)
            # Not `attached`: the drive is this case's own still.
            with KernelController.open(given(run), run.device) as next_one:
                gone = until(functools.partial(_holds_no_queue, next_one), 5.0)
            turns.append({"alive": alive, "gone": gone, "later": _later(run, memory)})
    return {"turns": turns}


def _holds_no_queue(drive: KernelController) -> bool:
    return drive.client.usage().queues == 0


@close_quiet.judge
def _(seen: Seen) -> None:
    for one in seen["turns"]:
        _judge_alive(seen, "beside.close.quiet", "before the close", one["alive"])
        seen.equal("beside.close.quiet", "the queue pair was gone in time", one["gone"], True)
        _judge_quiet(seen, "beside.close.quiet", one["later"])


@case(
    "beside/lost.revoked",
    level="L7",
    clauses=("beside.lost.told", "beside.lost.quiet", "beside.lost.refused", "beside.lost.again"),
    budget_s=BUDGET_S,
    only=real,
    no_mutant=NO_MUTANT,
)
def revoked(run: Run) -> Observations:
    """The owner takes memory back with commands in flight: all is told, nothing comes later, a new pair works."""
    turns = []
    with attached(run) as drive:
        for _ in range(3):
            memory = pages(run, drive, "device").allocate(_FLIGHT * PAGE)
            pair = Plain(drive, _DEPTH)
            alive = _alive(run, drive, pair, memory)
            queue = drive.queue_handle(pair.pair)
            before = drive.client.generation
            _flight(drive, pair, memory)
            take_back(memory)
            later = _later(run, memory)
            turn = _told(drive, before)
            turn |= {"alive": alive, "later": later, "pin": memory.pin, "queue": queue}
            turn["stale"] = refused(functools.partial(drive.client.runs, memory.pin, drive.controller_handle))
            drive.delete_queue_pair(pair.pair)
            memory.close()
            turns.append(turn)
        memory = pages(run, drive, "device").allocate(PAGE)
        run.closing.callback(memory.close)
        again = _alive(run, drive, Plain(drive), memory)
    return {"turns": turns, "again": again}


def _told(drive: KernelController, before: int) -> dict[str, Any]:
    settled = until(lambda: drive.client.settled == drive.client.generation != before, 10.0)
    events = [[one.kind, one.handle, one.cause] for one in drive.client.events()]
    return {"before": before, "generation": drive.client.generation, "settled": settled, "events": events}


@revoked.judge
def _(seen: Seen) -> None:
    for one in seen["turns"]:
        _judge_alive(seen, "beside.lost.again", "before the loss", one["alive"])
        _judge_quiet(seen, "beside.lost.quiet", one["later"])
        seen.holds("beside.lost.told", "the generation changed", one["generation"] != one["before"], one["generation"])
        seen.equal("beside.lost.told", "the settled word followed", one["settled"], True)
        wanted = [[_PIN, one["pin"], _REVOKED], [_QUEUE, one["queue"], _REVOKED]]
        seen.equal("beside.lost.told", "events: kind, handle, cause", sorted(one["events"]), wanted)
        seen.equal("beside.lost.refused", "what the runs are refused with", one["stale"]["errno"], "ESTALE")
    _judge_alive(seen, "beside.lost.again", "by a new pair into new memory", seen["again"])


@case(
    "beside/lost.reset",
    level="L7",
    clauses=("beside.lost.told", "beside.lost.again", "beside.queue.ids_return"),
    budget_s=BUDGET_S,
    only=real,
    no_mutant=NO_MUTANT,
)
def reset_is_told(run: Run) -> Observations:
    """The drive is reset by the kernel: an event for the queue pair, its memory stays, a new pair works."""
    turns = []
    with attached(run) as drive:
        memory = drive.host_pages.allocate(_FLIGHT * PAGE)
        run.closing.callback(memory.close)
        spare = drive.attached.queues_spare
        for _ in range(2):
            pair = Plain(drive, _DEPTH)
            alive = _alive(run, drive, pair, memory)
            before = drive.client.generation
            queue = drive.queue_handle(pair.pair)
            reset(drive.name)
            live = until(lambda: _state(drive.name) == "live")
            turn = _told(drive, before)
            turn |= {"alive": alive, "queue": queue, "live": live, "runs": len(memory.runs)}
            turn["runs_after"] = len(drive.client.runs(memory.pin, drive.controller_handle))
            drive.delete_queue_pair(pair.pair)
            turns.append(turn)
        again = _alive(run, drive, Plain(drive), memory)
    with attached(run) as fresh:
        left = fresh.attached.queues_spare
    return {"turns": turns, "again": again, "spare": [spare, left]}


def _state(name: str) -> str:
    return Path(f"/sys/class/nvme/{name}/state").read_text().strip()


@reset_is_told.judge
def _(seen: Seen) -> None:
    for one in seen["turns"]:
        _judge_alive(seen, "beside.lost.again", "before the reset", one["alive"])
        seen.equal("beside.lost.again", "the drive came back", one["live"], True)
        seen.holds("beside.lost.told", "the generation changed", one["generation"] != one["before"], one["generation"])
        seen.equal("beside.lost.told", "the settled word followed", one["settled"], True)
        seen.equal("beside.lost.told", "events: kind, handle, cause", one["events"], [[_QUEUE, one["queue"], _RESET]])
        seen.equal("beside.lost.again", "runs of the memory, which stays", one["runs_after"], one["runs"])
    _judge_alive(seen, "beside.lost.again", "by a new pair", seen["again"])
    seen.equal("beside.queue.ids_return", "ids left after it", seen["spare"][1], seen["spare"][0])

"""Completion entries as a controller posts them: phase, head, order, room; and what it does when it is rung wrongly."""

from __future__ import annotations

import numpy as np

from tutti_hal.conformance_tests.case import Observations, case
from tutti_hal.conformance_tests.oracle.nvme import (
    CC,
    CQE_BYTES,
    CSTS,
    DELETE_SQ,
    EVENT,
    OK,
    PAGE,
    READ,
    SQ_DELETED,
    Cqe,
    rw,
    sqe,
)
from tutti_hal.conformance_tests.rig import BLOCK, drive, raw_host
from tutti_hal.conformance_tests.run import Run
from tutti_hal.conformance_tests.seen import Seen
from tutti_hal.nvme.software_config import FaultAction, FaultRule


@case(
    "controller/passes",
    level="L5",
    clauses=("controller.completion.phase", "controller.completion.sqhd", "nvme.queues.depth"),
    axes={"depth": (2, 3, 7, 16), "lag": (0, 3)},
)
def passes(run: Run) -> Observations:
    """Each pass over a completion queue inverts the phase; the head never tells of an entry that was not sent."""
    depth = int(run.axes["depth"])
    found, sent = [], []
    with raw_host(run, drive(sqhd_lag=int(run.axes["lag"])), depth=depth) as host:
        bus = host.allocate(PAGE).bus()
        queue = host.queues[1]
        total = 0
        for turn in range(12):
            count = 1 + turn % (depth - 1)
            host.send(1, [rw(READ, 0, 1, prp1=bus)] * count)
            total += count
            place = queue.head
            for one in host.collect(1, count):
                found.append([place, one.phase, one.sqhd, one.sqid, one.cid])
                sent.append(total)
                place = (place + 1) % depth
        # What lies there beside what the host made of it.
        last = Cqe.decode(queue.cq.get((queue.head - 1) % depth * CQE_BYTES, CQE_BYTES))
    return {"found": found, "sent": sent, "total": total, "last": [last.phase, last.cid]}


@passes.judge
def _(seen: Seen) -> None:
    depth, found = int(seen.axes["depth"]), np.array(seen["found"])
    seen.equal("nvme.queues.depth", "completions of all that was sent", len(found), seen["total"])
    number = np.arange(len(found))
    seen.equal("nvme.queues.depth", "places of the entries", found[:, 0], number % depth)
    seen.equal("nvme.queues.depth", "queue of the entries", found[:, 3], np.ones(len(found), int))
    seen.equal("nvme.queues.depth", "commands of the entries", found[:, 4], number)
    seen.equal("controller.completion.phase", "phase of each entry", found[:, 1], 1 - number // depth % 2)
    seen.equal(
        "controller.completion.phase", "the last entry itself", seen["last"], [int(found[-1, 1]), len(found) - 1]
    )
    heads, sent = found[:, 2], np.array(seen["sent"])
    # The head, counted without wrap: between what was completed before and what was sent.
    behind = (sent - heads) % depth
    seen.holds("controller.completion.sqhd", "heads lie in the queue", bool((heads < depth).all()), heads, heads)
    lag = int(seen.axes["lag"])
    outstanding = sent - number
    seen.holds(
        "controller.completion.sqhd",
        "heads tell of no more than was sent, and trail by the configured lag at most",
        bool((behind <= np.minimum(outstanding + lag, depth - 1)).all()),
        behind,
        behind,
    )


@case("controller/doorbells", level="L5", clauses=("controller.queue.doorbell_invalid",))
def doorbells(run: Run) -> Observations:
    """A doorbell outside its queue, or of a queue that does not exist, moves nothing and is an event."""
    with raw_host(run, drive(aerl=1), depth=16) as host:
        [first, second] = host.send(0, [sqe(EVENT), sqe(EVENT)])
        host.store(host.doorbell(1), 16)
        events = [[one.cid - first, one.result & 7, one.result >> 8 & 0xFF] for one in host.collect(0, 1)]
        host.store(host.doorbell(1, cq=True), 3)
        host.require("both were noticed", lambda: host.drive.counters.bad_doorbells >= 2)
        fetched = host.drive.queue_counters(1).commands
        status = host.io(rw(READ, 0, 1, prp1=host.allocate(PAGE).bus())).status
        bad = host.drive.counters.bad_doorbells
        return {"events": events, "fetched": fetched, "status": list(status), "bad": bad, "waiting": second - first}


@doorbells.judge
def _(seen: Seen) -> None:
    clause = "controller.queue.doorbell_invalid"
    seen.equal(clause, "the event: an error, of an invalid doorbell value", seen["events"], [[0, 0, 1]])
    seen.equal(clause, "commands that it fetched because of that", seen["fetched"], 0)
    seen.equal(clause, "doorbells that it counted as bad", seen["bad"], 2)
    seen.equal(clause, "the queue still works", seen["status"], list(OK))


@case("controller/reset", level="L5", clauses=("controller.register.reset", "nvme.bring_up.order"))
def reset(run: Run) -> Observations:
    """Disabling ends all queues and what was in flight; enabling starts anew, and the medium stays."""
    data = run.random.integers(1, 256, BLOCK, np.uint8).tobytes()
    stuck = FaultRule(action=FaultAction.STUCK, opcode=READ, count=2)
    with raw_host(run, drive(), faults=[stuck]) as host:
        host.drive.write_stored(1, 0, data)
        old = host.queues[1]
        memory = host.allocate(PAGE)
        host.send(1, [rw(READ, 0, 1, prp1=memory.bus())] * 2)
        host.wait(lambda: host.drive.counters.faults == 2)
        host.store(CC, 0)
        host.require("it is disabled", lambda: host.load(CSTS) & 1 == 0)
        before = old.cq.get(0, old.cq_depth * CQE_BYTES)
        # A disabled controller neither fetches nor completes.
        host.store(host.doorbell(1), 5)
        idle = host.wait(lambda: old.cq.get(0, old.cq_depth * CQE_BYTES) != before, 0.02) is None
        ready = host.load(CSTS) & 3
        host.enable()
        gone = list(host.admin(sqe(DELETE_SQ, dwords={10: 1})).status)
        host.set_queue_count(1)
        host.create_pair(1, 8)
        status = list(host.io(rw(READ, 0, 1, prp1=memory.bus())).status)
        return {
            "ready": ready,
            "idle": idle,
            "gone": gone,
            "status": status,
            "read": memory.get(0, BLOCK),
            "data": data,
            "entry": old.cq.get(0, CQE_BYTES),
        }


@reset.judge
def _(seen: Seen) -> None:
    clause = "controller.register.reset"
    seen.equal("nvme.bring_up.order", "RDY and CFS once it was disabled", seen["ready"], 0)
    seen.equal(clause, "nothing was posted while it was disabled", seen["idle"], True)
    seen.equal(clause, "completions of what was in flight", seen["entry"], bytes(CQE_BYTES).hex())
    seen.equal(clause, "status of deleting a queue of before", seen["gone"], [1, 1])
    seen.equal(clause, "status of a read through a new queue", seen["status"], list(OK))
    seen.equal(clause, "bytes that it read", seen["read"], seen["data"])


@case("controller/deleted_queue", level="L5", clauses=("nvme.queues.order", "controller.command.abort"))
def deleted_queue(run: Run) -> Observations:
    """Abort ends the command that it names, or says that it did not; deleting a queue ends what is left of it."""
    stuck = FaultRule(action=FaultAction.STUCK, opcode=READ, nth=2, count=2)
    with raw_host(run, drive(), faults=[stuck]) as host:
        bus = host.allocate(PAGE).bus()
        cids = host.send(1, [rw(READ, 0, 1, prp1=bus)] * 4)
        first = [cids.index(one.cid) for one in host.collect(1, 2)]
        done = host.admin(sqe(0x08, dwords={10: 1 | cids[1] << 16}))
        ended = [[cids.index(one.cid), *one.status] for one in host.collect(1, 1)]
        again = host.admin(sqe(0x08, dwords={10: 1 | cids[1] << 16}))
        deleted = list(host.admin(sqe(DELETE_SQ, dwords={10: 1})).status)
        rest = [[cids.index(one.cid), *one.status] for one in host.collect(1, 1)]
        return {
            "first": first,
            "aborts": [[*done.status, done.result & 1], [*again.status, again.result & 1]],
            "ended": ended,
            "deleted": deleted,
            "rest": rest,
        }


@deleted_queue.judge
def _(seen: Seen) -> None:
    clause = "controller.command.abort"
    seen.equal(clause, "commands that completed by themselves", seen["first"], [0, 3])
    seen.equal(clause, "the abort that was done, and the one that was not", seen["aborts"], [[0, 0, 0], [0, 0, 1]])
    seen.equal(clause, "the end of the command that was aborted", seen["ended"], [[1, 0, 7]])
    seen.equal("nvme.queues.order", "status of deleting the submission queue first", seen["deleted"], list(OK))
    seen.equal("nvme.queues.order", "the end of what was left", seen["rest"], [[2, *SQ_DELETED]])

"""Faults on demand: exactly the commands that a rule names, counted, and the same again from the same seed."""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np

from tutti_hal.conformance_tests.case import Observations, case
from tutti_hal.conformance_tests.oracle.host import Host
from tutti_hal.conformance_tests.oracle.nvme import FLUSH, OK, PAGE, READ, WRITE, rw, sqe
from tutti_hal.conformance_tests.rig import BLOCK, drive, raw_host
from tutti_hal.conformance_tests.run import Run
from tutti_hal.conformance_tests.seen import Seen
from tutti_hal.nvme.software_config import FaultAction, FaultRule

#: What a rule names -> which it strikes of: read 0, write 1, read 7 to 10, write 10, read 11, flush of all.
_RULES: dict[str, tuple[dict[str, Any], list[int]]] = {
    "all": ({}, [0, 1, 2, 3, 4, 5]),
    "opcode": ({"opcode": WRITE}, [1, 3]),
    "block": ({"lbas": (10, 10)}, [2, 3]),
    "blocks": ({"lbas": (0, 8)}, [0, 1, 2]),
    "cid": ({"cid": 3}, [3]),
    "queue": ({"qid": 1}, [0, 1, 2, 3, 4, 5]),
    "other_queue": ({"qid": 2}, []),
    "namespace": ({"nsid": 1}, [0, 1, 2, 3, 4]),
    "nth": ({"nth": 3}, [2, 3, 4, 5]),
    "nth_few": ({"nth": 2, "count": 2}, [1, 2]),
    "nth_read": ({"opcode": READ, "nth": 2, "count": 1}, [2]),
}

_STATUS = (2, 0x87)


def _failed(host: Host, entries: list[bytes]) -> list[list[int]]:
    """Which of the commands did not succeed, with their statuses."""
    cids = host.send(1, entries)
    ends = {one.cid: one.status for one in host.collect(1, len(entries))}
    return [[row, *ends.get(cid, (-1, -1))] for row, cid in enumerate(cids) if ends.get(cid) != OK]


@case("controller/fault.rule", level="L5", clauses=("controller.fault.by_rule",), axes={"rule": tuple(_RULES)})
def by_rule(run: Run) -> Observations:
    """A rule strikes exactly the commands that it names, with its status, and counts them."""
    match, _ = _RULES[str(run.axes["rule"])]
    with raw_host(run, drive()) as host:
        bus = host.allocate(PAGE).bus()
        entries = [rw(READ, 0, 1, prp1=bus), rw(WRITE, 1, 1, prp1=bus), rw(READ, 7, 4, prp1=bus)]
        entries += [rw(WRITE, 10, 1, prp1=bus), rw(READ, 11, 1, prp1=bus), sqe(FLUSH, nsid=0xFFFFFFFF)]
        rule = host.drive.inject(FaultRule(action=FaultAction.STATUS, status=_STATUS, **match))
        failed = _failed(host, entries)
        hits, counted = host.drive.fault_hits(rule), host.drive.counters.faults
        host.drive.clear_faults()
        return {"failed": failed, "hits": hits, "counted": counted, "after": _failed(host, entries)}


@by_rule.judge
def _(seen: Seen) -> None:
    clause, wanted = "controller.fault.by_rule", _RULES[str(seen.axes["rule"])][1]
    seen.holds(
        clause,
        "the commands that the rule names fail, with its status",
        seen["failed"] == [[row, *_STATUS] for row in wanted],
        seen["failed"],
        6,
    )
    seen.equal(
        clause,
        "strikes of the rule, and faults that the drive counted",
        [seen["hits"], seen["counted"]],
        [len(wanted)] * 2,
    )
    seen.holds(clause, "none fails once the rule is gone", seen["after"] == [], seen["after"], 6)


@case("controller/fault.seed", level="L5", clauses=("controller.fault.by_seed",))
def by_seed(run: Run) -> Observations:
    """Faults at a rate follow the drive's seed: the same seed strikes the same commands, another one others."""
    struck = []
    for seed in (7, 7, 8):
        with raw_host(run, drive(seed=seed), depth=256) as host:
            bus = host.allocate(PAGE).bus()
            host.drive.inject(FaultRule(action=FaultAction.STATUS, rate=0.2, status=_STATUS))
            struck.append([row for row, *_ in _failed(host, [rw(READ, lba, 1, prp1=bus) for lba in range(250)])])
    return {"struck": struck}


@by_seed.judge
def _(seen: Seen) -> None:
    clause, (first, again, other) = "controller.fault.by_seed", seen["struck"]
    seen.equal(clause, "commands struck from the same seed", again, first)
    seen.holds(clause, "another seed strikes others", other != first, other, other)
    seen.holds(clause, "about a fifth of 250 are struck", 20 <= len(first) <= 90, len(first), first)


@case("controller/fault.actions", level="L5", clauses=("controller.fault.by_rule",))
def actions(run: Run) -> Observations:
    """Each kind of fault does to its command what it says, and to no other."""
    data = run.random.integers(0, 256, BLOCK, np.uint8).tobytes()
    found: dict[str, Any] = {}
    with raw_host(run, drive()) as host:
        host.drive.write_stored(1, 0, data)
        memory = host.allocate(PAGE)
        entry = rw(READ, 0, 1, prp1=memory.bus())
        for action in ("STATUS", "STATUS_LATE", "LOST", "DUPLICATE", "UNKNOWN_CID", "CORRUPT"):
            memory.put(0, b"\xa5" * BLOCK)
            struck = FaultRule(action=FaultAction[action], count=1, status=_STATUS, dnr=True, corrupt_byte=9)
            rule = host.drive.inject(struck)
            cids = host.send(1, [entry])
            # Those that must come may take their time; then a moment for one too many.
            ends = host.collect(1, {"LOST": 0, "DUPLICATE": 2, "UNKNOWN_CID": 2}.get(action, 1))
            host.require("the command was struck", partial(_struck, host, rule))
            ends += host.collect(1, 1, 0.02)
            found[action] = {
                "ends": [[one.cid == cids[0], *one.status, one.dnr] for one in ends],
                "memory": memory.get(0, BLOCK),
            }
        lost = host.drive.counters.cqes_lost
    return {"found": found, "lost": lost, "data": data}


def _struck(host: Host, rule: int) -> bool:
    return host.drive.fault_hits(rule) == 1


@actions.judge
def _(seen: Seen) -> None:
    clause, found, data = "controller.fault.by_rule", seen["found"], seen["data"]
    fine, struck = [True, *OK, False], [True, *_STATUS, True]
    wanted = {
        "STATUS": [struck],
        "STATUS_LATE": [struck],
        "LOST": [],
        "DUPLICATE": [fine, fine],
        "UNKNOWN_CID": [[False, *OK, False], fine],
        "CORRUPT": [fine],
    }
    for action, ends in wanted.items():
        seen.holds(
            clause, f"completions of a command under {action}", found[action]["ends"] == ends, found[action]["ends"]
        )
    seen.equal(clause, "memory where no data moved", found["STATUS"]["memory"], (b"\xa5" * BLOCK).hex())
    for action in ("STATUS_LATE", "LOST", "DUPLICATE", "UNKNOWN_CID"):
        seen.equal(clause, f"memory under {action}", found[action]["memory"], data)
    got, sent = bytes.fromhex(found["CORRUPT"]["memory"]), bytes.fromhex(data)
    differs = [(at, (a ^ b).bit_count()) for at, (a, b) in enumerate(zip(got, sent, strict=True)) if a != b]
    seen.equal(clause, "bits that differ under CORRUPT, by byte", differs, [(9, 1)])
    seen.equal(clause, "completions that the drive counted as lost", seen["lost"], 1)


@case("controller/stop", level="L5", clauses=("controller.stop.drains",))
def stop(run: Run) -> Observations:
    """After a stop nothing is moved any more, whatever is still delayed; after the next start it goes on."""
    slow = FaultRule(action=FaultAction.DELAY, opcode=READ, delay_ns=10_000_000)
    with raw_host(run, drive(), faults=[slow]) as host:
        host.drive.write_stored(1, 0, b"\x11" * 8 * BLOCK)
        memory = host.allocate(PAGE)
        host.send(1, [rw(READ, lba, 1, prp1=memory.bus(lba * BLOCK)) for lba in range(8)])
        host.wait(lambda: host.drive.counters.faults > 0)
        if run.world is None:
            host.drive.stop()
        queue = host.queues[1]
        then = memory.get(0, PAGE) + queue.cq.get(0, 16 * queue.cq_depth)
        _idle()
        after = memory.get(0, PAGE) + queue.cq.get(0, 16 * queue.cq_depth)
        if run.world is None:
            host.drive.start()
        done = len(host.collect(1, 8))
        return {"same": then == after, "done": done, "memory": memory.get(0, PAGE)}


def _idle() -> None:
    import time

    time.sleep(0.03)


@stop.judge
def _(seen: Seen) -> None:
    clause = "controller.stop.drains"
    seen.equal(clause, "memory and completions stay as they were when the stop returned", seen["same"], True)
    seen.equal(clause, "commands that completed once it went on", seen["done"], 8)
    seen.equal(clause, "bytes that they read", seen["memory"], (b"\x11" * PAGE).hex())

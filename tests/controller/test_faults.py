"""Faults by rule and by seed."""

from __future__ import annotations

import time
from typing import Any

import pytest
from host import Host, pattern, running, small

from tutti_hal.conformance_tests.oracle.nvme import (
    OK,
    PAGE,
    rw,
    sqe,
)
from tutti_hal.errors import ControllerConfigInvalid
from tutti_hal.nvme.software import FaultAction, FaultRule

READ, WRITE = 2, 1


@pytest.mark.parametrize(
    "status",
    [(0, 0x04), (0, 0x06), (0, 0x21), (0, 0x82), (2, 0x80), (2, 0x81), (2, 0x87), (3, 0x00), (3, 0x03), (3, 0x71)],
)
@pytest.mark.parametrize(("dnr", "crd"), [(False, 0), (True, 0), (False, 2)])
def test_a_status_is_reported_as_it_was_asked_for(status: tuple[int, int], dnr: bool, crd: int) -> None:
    with running(small()) as host:
        memory = host.allocate(PAGE)
        memory.put(0, b"\xcc" * PAGE)
        rule = host.drive.inject(FaultRule(action=FaultAction.STATUS, status=status, dnr=dnr, crd=crd, count=1))
        cqe = host.io(rw(READ, 0, 1, prp1=memory.bus(0)))
        assert (cqe.status, cqe.dnr, cqe.crd) == (status, dnr, crd)
        assert memory.get(0, PAGE) == b"\xcc" * PAGE  # no data moved
        assert host.io(rw(READ, 0, 1, prp1=memory.bus(0))).status == OK
        assert host.drive.fault_hits(rule) == 1
        assert host.drive.counters.faults == 1


def run(host: Host, entries: list[bytes]) -> list[int]:
    """Indices of the commands that failed."""
    cids = host.send(1, entries)
    done = {c.cid: c.status for c in host.collect(1, len(entries))}
    return [i for i, cid in enumerate(cids) if done[cid] != OK]


@pytest.mark.parametrize(
    ("match", "failing"),
    [
        ({}, [0, 1, 2, 3, 4, 5]),
        ({"opcode": WRITE}, [1, 3]),
        ({"lbas": (10, 10)}, [2, 3]),
        ({"lbas": (0, 8)}, [0, 1, 2]),
        ({"cid": 3}, [3]),
        ({"qid": 1}, [0, 1, 2, 3, 4, 5]),
        ({"qid": 2}, []),
        ({"qid": 0}, []),
        ({"nsid": 1}, [0, 1, 2, 3, 4]),
        ({"nth": 3}, [2, 3, 4, 5]),
        ({"nth": 2, "count": 2}, [1, 2]),
        ({"opcode": READ, "nth": 2, "count": 1}, [2]),
    ],
)
def test_rules_match(match: dict[str, Any], failing: list[int]) -> None:
    with running(small()) as host:
        bus = host.allocate(PAGE).bus(0)
        host.drive.inject(FaultRule(action=FaultAction.STATUS, **match))
        entries = [
            rw(READ, 0, 1, prp1=bus),
            rw(WRITE, 1, 1, prp1=bus),
            rw(READ, 7, 4, prp1=bus),
            rw(WRITE, 10, 1, prp1=bus),
            rw(READ, 11, 1, prp1=bus),
            sqe(0, nsid=0xFFFFFFFF),
        ]
        assert run(host, entries) == failing


def test_the_first_rule_wins_and_rules_can_go() -> None:
    with running(small()) as host:
        entry = rw(READ, 0, 1, prp1=host.allocate(PAGE).bus(0))
        first = host.drive.inject(FaultRule(action=FaultAction.STATUS, status=(2, 0x81), count=1))
        second = host.drive.inject(FaultRule(action=FaultAction.STATUS, status=(0, 6)))
        assert [host.io(entry).status for _ in range(3)] == [(2, 0x81), (0, 6), (0, 6)]
        host.drive.clear_faults(second)
        assert host.io(entry).status == OK
        assert host.drive.fault_hits(first) == 1
        host.drive.clear_faults()
        for call in (lambda: host.drive.clear_faults(second), lambda: host.drive.fault_hits(first)):
            with pytest.raises(ControllerConfigInvalid, match="no such rule"):
                call()


def test_a_rate_follows_the_seed() -> None:
    outcomes = []
    for seed in (7, 7, 8):
        with running(small(seed=seed), depth=512) as host:
            host.drive.inject(FaultRule(action=FaultAction.STATUS, rate=0.1))
            bus = host.allocate(PAGE).bus(0)
            outcomes.append(run(host, [rw(READ, i, 1, prp1=bus) for i in range(500)]))
    assert outcomes[0] == outcomes[1] != outcomes[2]
    assert 20 < len(outcomes[0]) < 90


def test_lost_duplicate_and_unknown() -> None:
    with running(small()) as host:
        entry = rw(READ, 0, 1, prp1=host.allocate(PAGE).bus(0))
        host.drive.inject(FaultRule(action=FaultAction.LOST, count=1))
        cids = host.send(1, [entry, entry])
        assert [c.cid for c in host.collect(1, 2, 0.1)] == cids[1:]
        assert host.drive.counters.cqes_lost == 1
        host.drive.inject(FaultRule(action=FaultAction.DUPLICATE, count=1))
        cids = host.send(1, [entry, entry])
        assert [c.cid for c in host.collect(1, 3)] == [cids[0], cids[0], cids[1]]
        host.drive.inject(FaultRule(action=FaultAction.UNKNOWN_CID, count=1))
        cids = host.send(1, [entry, entry])
        stranger, *known = [c.cid for c in host.collect(1, 3)]
        assert known == cids
        assert stranger not in cids


def test_a_forged_completion_comes_first() -> None:
    with running(small()) as host:
        entry = rw(READ, 0, 1, prp1=host.allocate(PAGE).bus(0))
        # Status, identifier and phase of double word 3; queue and head of double word 2.
        forge = (1 << 17 | 1 << 16 | 4) << 32 | 2 << 16 | 8
        host.drive.inject(FaultRule(action=FaultAction.FORGED, count=1, forge=forge))
        [cid] = host.send(1, [entry])
        lie, truth = host.collect(1, 2)
        assert (truth.cid, truth.sqid, truth.status) == (cid, 1, OK)
        assert (lie.cid, lie.sqid, lie.sqhd, lie.status) == (cid ^ 4, 3, truth.sqhd ^ 8, (0, 1))


def test_no_stranger_while_every_identifier_is_taken() -> None:
    """The deepest queue with a command of every identifier: the extra entry is left out, and the drive goes on."""
    with running(small(mqes=65535, latency_ns=1_500_000_000), queues=0) as host:
        host.set_queue_count(1)
        host.create_pair(1, 65536)
        entry = rw(READ, 0, 1, prp1=host.allocate(PAGE).bus(0))
        host.drive.inject(FaultRule(action=FaultAction.UNKNOWN_CID, count=1))
        entries = [entry[:2] + cid.to_bytes(2, "little") + entry[4:] for cid in range(65536)]
        # One entry of a queue stays free, so the last one follows when the drive has fetched the others.
        host.send(1, entries[:-1], keep_cids=True)
        assert host.wait(lambda: host.drive.counters.sqes_fetched >= 65535)
        host.send(1, entries[-1:], keep_cids=True)
        done = host.collect(1, 65536, 20.0)
        assert sorted(one.cid for one in done) == list(range(65536))
        assert host.poll(1) == []
        assert host.drive.counters.faults == 1


def test_extra_completions_never_overrun_a_queue() -> None:
    for depth in (2, 3, 4):
        with running(small(), queues=0) as host:
            host.set_queue_count(1)
            host.create_pair(1, 32, cq_depth=depth)
            host.drive.inject(FaultRule(action=FaultAction.DUPLICATE))
            entry = rw(READ, 0, 1, prp1=host.allocate(PAGE).bus(0))
            cids = host.send(1, [entry] * 20)
            seen: list[int] = []

            def drain(host: Host = host, seen: list[int] = seen, cids: list[int] = cids) -> bool:
                seen.extend(c.cid for c in host.poll(1))
                return len(seen) >= len(cids) * (1 if host.queues[1].cq_depth == 2 else 2)

            assert host.wait(drain)
            assert sorted(set(seen)) == cids


def test_a_delayed_command_moves_its_data_late() -> None:
    with running(small()) as host:
        host.drive.write_stored(1, 0, b"\x42" * 512)
        memory = host.allocate(PAGE)
        host.drive.inject(FaultRule(action=FaultAction.DELAY, delay_ns=100_000_000, count=1))
        start = time.monotonic()
        host.send(1, [rw(READ, 0, 1, prp1=memory.bus(0))])
        time.sleep(0.02)
        assert memory.get(0, 512) == bytes(512)
        [done] = host.collect(1, 1)
        assert time.monotonic() - start >= 0.1
        assert done.status == OK
        assert memory.get(0, 512) == b"\x42" * 512


def test_a_late_status_comes_after_the_data() -> None:
    with running(small()) as host:
        memory = host.allocate(PAGE)
        memory.put(0, b"\x31" * 512)
        host.drive.inject(FaultRule(action=FaultAction.STATUS_LATE, status=(2, 0x80)))
        assert host.io(rw(WRITE, 0, 1, prp1=memory.bus(0))).status == (2, 0x80)
        assert host.drive.read_stored(1, 0, 512) == b"\x31" * 512


@pytest.mark.parametrize("at", [0, 1, 511, 4095, 4096, 9000])
def test_corruption_is_one_bit_and_silent(at: int) -> None:
    with running(small(ns_lba_shift=12)) as host:
        data = pattern(3 * PAGE, 4)
        host.drive.write_stored(1, 0, data)
        memory = host.allocate(3 * PAGE)
        pages = memory.pages()
        lists = host.allocate(PAGE)
        lists.put(0, pages[1].to_bytes(8, "little") + pages[2].to_bytes(8, "little"))
        host.drive.inject(FaultRule(action=FaultAction.CORRUPT, corrupt_byte=at, count=1, opcode=READ))
        entry = rw(READ, 0, 3, prp1=pages[0], prp2=lists.bus(0))
        assert host.io(entry).status == OK
        got = memory.get(0, 3 * PAGE)
        assert [i for i in range(3 * PAGE) if got[i] != data[i]] == [at]
        assert (got[at] ^ data[at]).bit_count() == 1
        assert host.drive.read_stored(1, 0, 3 * PAGE) == data
        assert host.io(entry).status == OK
        assert memory.get(0, 3 * PAGE) == data


def test_admin_commands_are_struck_by_queue_zero() -> None:
    with running(small()) as host:
        host.drive.inject(FaultRule(action=FaultAction.STATUS, qid=0, opcode=0x06, status=(0, 6), count=1))
        assert host.identify(1)[0].status == (0, 6)
        assert host.identify(1)[0].status == OK
        host.drive.inject(FaultRule(action=FaultAction.STUCK, qid=0, opcode=0x06, count=1))
        host.send(0, [sqe(0x06, prp1=host.allocate(PAGE).bus(0), dwords={10: 1})])
        assert host.collect(0, 1, 0.05) == []
        host.enable()
        assert host.identify(1)[0].status == OK


@pytest.mark.parametrize(
    "rule",
    [
        FaultRule(action=FaultAction.STATUS, immediate=True),
        FaultRule(action=FaultAction.READY_STUCK),
        FaultRule(action=FaultAction.STATUS, crd=4),
        FaultRule(action=FaultAction.STATUS, status=(8, 0)),
        FaultRule(action=FaultAction.STATUS, opcode=-1),
        FaultRule(action=FaultAction.DELAY, delay_ns=-5),
    ],
)
def test_rules_that_make_no_sense(rule: FaultRule) -> None:
    with running(small(), queues=0) as host, pytest.raises(ControllerConfigInvalid):
        host.drive.inject(rule)

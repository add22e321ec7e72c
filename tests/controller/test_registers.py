"""Registers, enable and disable, shutdown, fatal states."""

from __future__ import annotations

import pytest
from host import Host, running, small

from tutti_hal.conformance_tests.oracle.nvme import (
    ACQ,
    AQA,
    ASQ,
    CAP,
    CC,
    CRTO,
    CSTS,
    DOORBELLS,
    OK,
    VS,
    rw,
    sqe,
)
from tutti_hal.nvme.software import FaultAction, FaultRule, SoftwareController


def test_capabilities_say_what_was_configured() -> None:
    config = small(mqes=1022, dstrd=1, mpsmin=1, mpsmax=3, cqr=False, timeout_500ms=7, version=0x00010400)
    with SoftwareController(config) as drive:
        host = Host(drive)
        cap = host.load64(CAP)
        assert cap & 0xFFFF == 1022
        assert cap >> 16 & 1 == 0
        assert cap >> 24 & 0xFF == 7
        assert cap >> 32 & 0xF == 1
        assert cap >> 37 & 1 == 1  # the NVM command set
        assert cap >> 48 & 0xF == 1
        assert cap >> 52 & 0xF == 3
        assert cap >> 59 & 1 == 0  # not before 2.0
        assert host.load(VS) == 0x00010400


def test_controller_ready_timeouts_of_version_2() -> None:
    with SoftwareController(small(timeout_500ms=9)) as drive:
        host = Host(drive)
        assert host.load(VS) == 0x00020000
        assert host.load64(CAP) >> 59 & 1 == 1
        assert host.load(CRTO) & 0xFFFF == 9


def test_read_only_registers_are_put_back() -> None:
    with running(small(), queues=0) as host:
        for offset in (CAP, CAP + 4, VS, CSTS, CRTO, 0x0C, 0x20, 0x38):
            before = host.load(offset)
            host.store(offset, ~before & 0xFFFFFFFF)
            assert host.wait(lambda o=offset, b=before: host.load(o) == b), hex(offset)
        assert host.drive.counters.restored_registers >= 8
        assert host.identify(1)[0].status == OK


def test_ready_follows_enable_after_the_delay() -> None:
    with SoftwareController(small(ready_delay_ns=80_000_000)) as drive:
        host = Host(drive)
        drive.start()
        for _ in range(2):
            host.store(AQA, 7 | 7 << 16)
            queue = host.allocate(4096, contiguous=True)
            host.store64(ASQ, queue.bus(0))
            host.store64(ACQ, queue.bus(0))
            host.store(CC, 0x00460001)
            assert host.wait(lambda: host.load(CSTS) & 1, 0.04) is None
            assert host.wait(lambda: host.load(CSTS) & 1)
            host.store(CC, 0x00460000)
            assert host.wait(lambda: host.load(CSTS) & 1 == 0, 0.04) is None
            assert host.wait(lambda: host.load(CSTS) & 1 == 0)


@pytest.mark.parametrize(
    ("cc", "aqa", "asq_offset", "acq_offset"),
    [
        (0x00460001 | 5 << 7, 0x00070007, 0, 0),  # MPS above MPSMAX
        (0x00460001 | 6 << 4, 0x00070007, 0, 0),  # a command set that CAP does not name
        (0x00460001 | 1 << 11, 0x00070007, 0, 0),  # an arbitration that CAP does not name
        (0x00460001, 0x00070000, 0, 0),  # an SQ of one entry
        (0x00460001, 0x00000007, 0, 0),  # a CQ of one entry
        (0x00460001, 0x00070007, 64, 0),  # queues off a page
        (0x00460001, 0x00070007, 0, 64),
    ],
)
def test_enable_with_a_wrong_configuration_is_fatal(cc: int, aqa: int, asq_offset: int, acq_offset: int) -> None:
    with SoftwareController(small()) as drive:
        host = Host(drive)
        drive.start()
        queue = host.allocate(65536, contiguous=True)
        host.store(AQA, aqa)
        host.store64(ASQ, queue.bus(0) + asq_offset)
        host.store64(ACQ, queue.bus(0) + 8192 + acq_offset)
        host.store(CC, cc)
        assert host.wait(lambda: host.load(CSTS) & 2)
        assert host.load(CSTS) & 1 == 0
        host.enable()  # a reset and a right configuration take it back
        assert host.identify(1)[0].status == OK


def test_shutdown_reports_complete_and_stops_serving() -> None:
    with running(small(shutdown_delay_ns=60_000_000)) as host:
        host.store(CC, host.load(CC) | 1 << 14)
        assert host.wait(lambda: host.load(CSTS) >> 2 & 3 == 1)
        assert host.wait(lambda: host.load(CSTS) >> 2 & 3 == 2)
        host.send(1, [rw(2, 0, 1, prp1=host.allocate(4096).bus(0))])
        assert host.collect(1, 1, 0.1) == []
        host.enable()
        assert host.load(CSTS) >> 2 & 3 == 0
        assert host.identify(1)[0].status == OK


def test_reset_takes_queues_and_doorbells_back() -> None:
    with running(small()) as host:
        buffer = host.allocate(4096)
        assert host.io(rw(2, 0, 1, prp1=buffer.bus(0))).status == OK
        assert host.load(DOORBELLS + 8) == 1
        host.enable()
        assert host.drive.queue_counters(1).depth == 0
        assert host.load(DOORBELLS + 8) == 0
        host.set_queue_count(1)
        host.create_pair(1, 16)
        assert host.io(rw(2, 0, 1, prp1=buffer.bus(0))).status == OK
        assert host.drive.counters.resets == 1


def test_fatal_fault_with_and_without_stop() -> None:
    with running(small()) as host:
        buffer = host.allocate(4096)
        host.drive.inject(FaultRule(action=FaultAction.FATAL, immediate=True))
        assert host.wait(lambda: host.load(CSTS) & 2)
        assert host.io(rw(2, 0, 1, prp1=buffer.bus(0))).status == OK
        host.enable()
        assert host.load(CSTS) & 2 == 0
        host.set_queue_count(1)
        host.create_pair(1, 16)
        host.drive.inject(FaultRule(action=FaultAction.FATAL_STOP, nth=2))
        assert host.io(rw(2, 0, 1, prp1=buffer.bus(0))).status == OK
        host.send(1, [rw(2, 0, 1, prp1=buffer.bus(0))])
        assert host.wait(lambda: host.load(CSTS) & 2)
        assert host.collect(1, 1, 0.1) == []


def test_gone_reads_all_ones() -> None:
    with running(small()) as host:
        host.drive.inject(FaultRule(action=FaultAction.GONE, immediate=True))
        assert host.wait(lambda: host.load(CSTS) == 0xFFFFFFFF)
        for offset in (CAP, CC, 0x500, DOORBELLS, DOORBELLS + 8):
            assert host.load(offset) == 0xFFFFFFFF
        host.store(CC, 0)
        assert host.wait(lambda: host.load(CC) == 0xFFFFFFFF)


def test_ready_stuck() -> None:
    with SoftwareController(small()) as drive:
        host = Host(drive)
        drive.inject(FaultRule(action=FaultAction.READY_STUCK, immediate=True))
        drive.start()
        host.store(AQA, 7 | 7 << 16)
        queue = host.allocate(4096, contiguous=True)
        host.store64(ASQ, queue.bus(0))
        host.store64(ACQ, queue.bus(0))
        host.store(CC, 0x00460001)
        assert host.wait(lambda: host.load(CSTS), 0.1) is None


def test_queue_memory_that_is_not_mapped_is_fatal() -> None:
    with running(small()) as host:
        queue = host.queues[1]
        queue.sq.close()
        host.memory.remove(queue.sq)
        host.store(host.doorbell(1), 1)
        assert host.wait(lambda: host.load(CSTS) & 2)


def test_state_stays_over_stop_and_start() -> None:
    with running(small()) as host:
        buffer = host.allocate(4096)
        host.drive.stop()
        host.send(1, [rw(2, 0, 1, prp1=buffer.bus(0))])
        assert host.collect(1, 1, 0.05) == []
        host.drive.start()
        assert [c.status for c in host.collect(1, 1)] == [OK]


@pytest.mark.parametrize("mps", [0, 1, 2, 4])
def test_page_sizes(mps: int) -> None:
    with SoftwareController(small(mpsmax=4)) as drive:
        host = Host(drive)
        drive.start()
        host.enable(mps=mps)
        assert host.admin(sqe(0x06, prp1=host.allocate(4096).bus(0), dwords={10: 1})).status == OK

"""The admin queue: Identify, features, queues and all refusals, abort, events, logs."""

from __future__ import annotations

import struct

import pytest
from host import Host, Queue, running, small

from tutti_hal.conformance_tests.oracle.nvme import (
    ABORTED,
    CID_CONFLICT,
    CQ_INVALID,
    DATA_TRANSFER,
    EVENT_LIMIT,
    INVALID_FIELD,
    INVALID_NAMESPACE,
    INVALID_OPCODE,
    LOG_PAGE,
    NOT_SAVEABLE,
    OK,
    PAGE,
    PRP_OFFSET,
    QUEUE_DELETION,
    QUEUE_ID,
    QUEUE_SIZE,
    SEQUENCE,
    SQ_DELETED,
    VECTOR,
    Cqe,
    rw,
    sqe,
)
from tutti_hal.nvme.software import (
    ControllerConfig,
    FaultAction,
    FaultRule,
    MemoryNamespace,
    VolatileCache,
)


def u16(page: bytes, at: int) -> int:
    return int.from_bytes(page[at : at + 2], "little")


def u32(page: bytes, at: int) -> int:
    return int.from_bytes(page[at : at + 4], "little")


def u64(page: bytes, at: int) -> int:
    return int.from_bytes(page[at : at + 8], "little")


# ---- Identify ----


def test_identify_controller() -> None:
    config = small(mdts=7, sgls=0x10001, aerl=5, serial="SN-17", volatile_cache=VolatileCache.DECLARED)
    with running(config, queues=0) as host:
        cqe, page = host.identify(1)
        assert cqe.status == OK
        assert page[4:24] == b"SN-17".ljust(20)
        assert page[77] == 7
        assert u32(page, 80) == 0x00020000
        assert page[111] == 1
        assert page[259] == 5
        assert page[512] == 0x66
        assert page[513] == 0x44
        assert u32(page, 516) == 1
        assert u16(page, 520) & 0x8D == 0x8D  # compare, DSM, write zeroes, verify
        assert u16(page, 520) & 0x02 == 0  # write uncorrectable is not there
        assert page[525] == 0b111  # a cache; flush of all namespaces works
        assert u32(page, 536) == 0x10001
        assert page[768:].split(b"\0")[0].startswith(b"nqn.")


def test_no_volatile_cache_is_declared_and_has_no_feature() -> None:
    with running(small(volatile_cache=VolatileCache.NONE), queues=0) as host:
        assert host.identify(1)[1][525] & 1 == 0
        assert host.admin(sqe(0x0A, dwords={10: 6})).status == INVALID_FIELD


@pytest.mark.parametrize(
    ("shift", "metadata", "inline", "index", "flbas"),
    [
        (9, 0, False, 0, 0x00),
        (12, 8, True, 3, 0x13),
        (12, 64, False, 15, 0x0F),
        (16, 0, False, 17, 0x21),  # index 17 = 1 | 1 << 4: bits 6:5 hold its upper part
        (12, 8, True, 63, 0x7F),
    ],
)
def test_identify_namespace(shift: int, metadata: int, inline: bool, index: int, flbas: int) -> None:
    config = small(
        ns_lba_shift=shift, ns_metadata_bytes=metadata, ns_metadata_inline=inline, ns_format_index=index, ns_blocks=1000
    )
    with running(config, queues=0) as host:
        cqe, page = host.identify(0, 1)
        assert cqe.status == OK
        assert (u64(page, 0), u64(page, 8)) == (1000, 1000)
        assert page[25] == index
        assert page[26] == flbas
        assert u32(page, 128 + 4 * index) == metadata | shift << 16
        if metadata:
            assert page[27] == (1 if inline else 2)
        assert any(page[104:120])
        assert any(page[120:128])


def test_namespace_ids_with_gaps() -> None:
    ids = [1, 3, 0xFF]
    config = ControllerConfig(namespaces=[MemoryNamespace(nsid=n, blocks=64 * n) for n in ids])
    with running(config, queues=0) as host:
        assert u32(host.identify(1)[1], 516) == 0xFF
        for after, wanted in ((0, ids), (1, [3, 0xFF]), (2, [3, 0xFF]), (0xFF, [])):
            cqe, page = host.identify(2, after)
            assert cqe.status == OK
            assert [n for (n,) in struct.iter_unpack("<I", page) if n] == wanted
        assert u64(host.identify(0, 3)[1], 0) == 192
        cqe, page = host.identify(0, 2)  # inactive: zeroes, and success
        assert cqe.status == OK
        assert page == bytes(PAGE)
        for nsid in (0, 0x100, 0xFFFFFFFF):
            assert host.identify(0, nsid)[0].status == INVALID_NAMESPACE
        assert host.identify(2, 0xFFFFFFFE)[0].status == INVALID_NAMESPACE
        assert host.identify(3, 2)[0].status == INVALID_NAMESPACE


def test_identify_descriptors_command_set_and_refusals() -> None:
    with running(small(), queues=0) as host:
        namespace = host.identify(0, 1)[1]
        cqe, page = host.identify(3, 1)
        assert cqe.status == OK
        found, at = {}, 0
        while page[at + 1]:
            found[page[at]] = page[at + 4 : at + 4 + page[at + 1]]
            at += 4 + page[at + 1]
        assert found[1] == namespace[120:128]
        assert found[2] == namespace[104:120]
        assert found[4] == b"\0"
        assert host.identify(6)[0].status == OK
        assert host.identify(6, csi=2)[0].status == INVALID_FIELD
        assert host.identify(0x77)[0].status == INVALID_FIELD


def test_identify_over_two_pages_and_bad_pointers() -> None:
    with running(small(), queues=0) as host:
        memory = host.allocate(3 * PAGE)
        whole = host.identify(1)[1]
        pages = memory.pages()
        cqe = host.admin(sqe(0x06, prp1=pages[0] + 512, prp2=pages[2], dwords={10: 1}))
        assert cqe.status == OK
        assert memory.get(512, PAGE - 512) + memory.get(2 * PAGE, 512) == whole
        assert host.admin(sqe(0x06, prp1=pages[0] + 2, dwords={10: 1})).status == PRP_OFFSET
        assert host.admin(sqe(0x06, prp1=pages[0] + 512, prp2=pages[1] + 8, dwords={10: 1})).status == PRP_OFFSET
        assert host.admin(sqe(0x06, prp1=0, dwords={10: 1})).status == INVALID_FIELD
        assert host.admin(sqe(0x06, prp1=0x10000, dwords={10: 1})).status == DATA_TRANSFER
        for psdt in (1, 2, 3):
            assert host.admin(sqe(0x06, psdt=psdt, prp1=pages[0], dwords={10: 1})).status == INVALID_FIELD
        assert host.admin(sqe(0x06, fuse=1, prp1=pages[0], dwords={10: 1})).status == INVALID_FIELD


@pytest.mark.parametrize("opcode", [0x03, 0x0D, 0x10, 0x14, 0x7C, 0x80, 0x84, 0xFF])
def test_unknown_admin_opcodes(opcode: int) -> None:
    with running(small(), queues=0) as host:
        cqe = host.admin(sqe(opcode))
        assert cqe.status == INVALID_OPCODE
        assert cqe.dnr


# ---- features ----


def test_features() -> None:
    with running(small(), queues=0) as host:
        for fid in (1, 2, 4, 5, 6, 7, 8, 9, 0x0A, 0x0B):
            default = host.admin(sqe(0x0A, dwords={10: fid | 1 << 8}))
            assert default.status == OK, fid
            assert host.admin(sqe(0x0A, dwords={10: fid})).result == default.result
            assert host.admin(sqe(0x0A, dwords={10: fid | 3 << 8})).result == 4  # changeable, not saveable
        assert host.admin(sqe(0x09, dwords={10: 1, 11: 3})).status == OK
        assert host.admin(sqe(0x0A, dwords={10: 1})).result == 3
        assert host.admin(sqe(0x09, dwords={10: 1 | 1 << 31, 11: 5})).status == NOT_SAVEABLE
        assert host.admin(sqe(0x0A, dwords={10: 1})).result == 3
        assert host.admin(sqe(0x09, dwords={10: 0xC0})).status == INVALID_FIELD
        assert host.admin(sqe(0x0A, dwords={10: 0xC0})).status == INVALID_FIELD
        assert host.admin(sqe(0x0A, dwords={10: 1 | 5 << 8})).status == INVALID_FIELD
        assert host.admin(sqe(0x09, dwords={10: 2, 11: 1})).status == INVALID_FIELD  # no second power state
        host.enable()
        assert host.admin(sqe(0x0A, dwords={10: 1})).result == 7  # a reset forgets


@pytest.mark.parametrize("granted", [1, 2, 16, 31, 64, 128])
def test_number_of_queues(granted: int) -> None:
    with running(small(io_queues=granted), queues=0) as host:
        assert host.set_queue_count(0xFFFF) == (granted, granted)
        assert host.set_queue_count(1) == (1, 1)
        for value in (0xFFFF, 0xFFFF0000, 0xFFFFFFFF):
            assert host.admin(sqe(0x09, dwords={10: 7, 11: value})).status == INVALID_FIELD
        host.create_pair(1, 4)
        assert host.admin(sqe(0x09, dwords={10: 7, 11: 0})).status == SEQUENCE
        ring = host.allocate(PAGE, contiguous=True)
        beyond = host.admin(sqe(0x05, prp1=ring.bus(0), dwords={10: 3 << 16 | 2, 11: 1}))
        assert beyond.status == QUEUE_ID  # one pair was granted


# ---- queues ----


def create_cq(host: Host, qid: int, size0: int, *, flags: int = 1, prp1: int | None = None) -> tuple[int, int]:
    bus = host.allocate(16 * PAGE, contiguous=True).bus(0) if prp1 is None else prp1
    return host.admin(sqe(0x05, prp1=bus, dwords={10: size0 << 16 | qid, 11: flags})).status


def create_sq(
    host: Host, qid: int, size0: int, cqid: int, *, flags: int = 1, prp1: int | None = None
) -> tuple[int, int]:
    bus = host.allocate(16 * PAGE, contiguous=True).bus(0) if prp1 is None else prp1
    return host.admin(sqe(0x01, prp1=bus, dwords={10: size0 << 16 | qid, 11: cqid << 16 | flags})).status


def test_queues_need_the_number_of_queues_first() -> None:
    with running(small(), queues=0) as host:
        assert create_cq(host, 1, 7) == SEQUENCE
    with running(small(need_queue_count=False), queues=0) as host:
        assert create_cq(host, 1, 7) == OK


def test_create_and_delete_refusals() -> None:
    with running(small(mqes=62, io_queues=4, interrupt_vectors=3), queues=0) as host:
        host.set_queue_count(4)
        page = host.allocate(PAGE, contiguous=True).bus(0)
        assert create_cq(host, 0, 7) == QUEUE_ID
        assert create_cq(host, 5, 7) == QUEUE_ID
        assert create_cq(host, 1, 0) == QUEUE_SIZE
        assert create_cq(host, 1, 63) == QUEUE_SIZE
        assert create_cq(host, 1, 7, flags=0) == INVALID_FIELD  # CAP.CQR
        assert create_cq(host, 1, 7, flags=1 | 2 | 3 << 16) == VECTOR
        assert create_cq(host, 1, 7, prp1=page + 64) == PRP_OFFSET
        assert create_cq(host, 1, 7, prp1=0) == INVALID_FIELD
        assert create_cq(host, 1, 62, flags=1 | 2 | 2 << 16) == OK
        assert create_cq(host, 1, 7) == QUEUE_ID
        assert create_sq(host, 0, 7, 1) == QUEUE_ID
        assert create_sq(host, 5, 7, 1) == QUEUE_ID
        assert create_sq(host, 1, 0, 1) == QUEUE_SIZE
        assert create_sq(host, 1, 63, 1) == QUEUE_SIZE
        assert create_sq(host, 1, 7, 2) == CQ_INVALID
        assert create_sq(host, 1, 7, 0) == QUEUE_ID
        assert create_sq(host, 1, 7, 5) == QUEUE_ID
        assert create_sq(host, 1, 7, 1, flags=0) == INVALID_FIELD
        assert create_sq(host, 1, 7, 1, prp1=page + 4) == PRP_OFFSET
        assert create_sq(host, 1, 1, 1) == OK
        assert create_sq(host, 1, 7, 1) == QUEUE_ID
        assert create_sq(host, 3, 7, 1) == OK
        delete_sq = [host.admin(sqe(0x00, dwords={10: qid})).status for qid in (0, 2, 9)]
        assert delete_sq == [QUEUE_ID] * 3
        delete_cq = [host.admin(sqe(0x04, dwords={10: qid})).status for qid in (0, 2, 9)]
        assert delete_cq == [QUEUE_ID] * 3
        assert host.admin(sqe(0x04, dwords={10: 1})).status == QUEUE_DELETION
        assert host.admin(sqe(0x00, dwords={10: 1})).status == OK
        assert host.admin(sqe(0x04, dwords={10: 1})).status == QUEUE_DELETION
        assert host.admin(sqe(0x00, dwords={10: 3})).status == OK
        assert host.admin(sqe(0x04, dwords={10: 1})).status == OK
        assert host.admin(sqe(0x00, dwords={10: 1})).status == QUEUE_ID
        assert create_cq(host, 1, 7) == OK


def test_entry_sizes_bind_when_queues_are_made() -> None:
    with running(small(), queues=0) as host:
        host.enable(cc=0)  # IOSQES and IOCQES left at 0
        host.set_queue_count(1)
        assert create_cq(host, 1, 7) == QUEUE_SIZE
        host.enable(cc=0x00400000)  # only IOCQES
        host.set_queue_count(1)
        assert create_cq(host, 1, 7) == OK
        assert create_sq(host, 1, 7, 1) == QUEUE_SIZE


def test_queues_in_pieces_when_they_need_not_be_contiguous() -> None:
    with running(small(cqr=False, mqes=1023), queues=0) as host:
        host.set_queue_count(1)
        depth = 512  # 8 pages of SQEs, 2 of CQEs
        sq, cq = host.allocate(8 * PAGE), host.allocate(2 * PAGE)
        assert len(sq.runs) > 1
        lists = host.allocate(2 * PAGE)
        lists.put(0, struct.pack("<8Q", *sq.pages()))
        lists.put(PAGE, struct.pack("<2Q", *cq.pages()))
        assert create_cq(host, 1, depth - 1, flags=0, prp1=lists.bus(PAGE)) == OK
        assert create_sq(host, 1, depth - 1, 1, flags=0, prp1=lists.bus(0)) == OK
        host.queues[1] = Queue(1, depth, depth, sq, cq, 1)
        buffer = host.allocate(PAGE)
        for _ in range(3):
            host.send(1, [rw(2, i % 4096, 1, prp1=buffer.bus(0)) for i in range(depth - 1)])
            done = host.collect(1, depth - 1)
            assert [c.status for c in done] == [OK] * (depth - 1)
            assert [c.cid for c in done] == sorted(c.cid for c in done)
        lists.put(0, struct.pack("<8Q", *[p + (i == 5) * 8 for i, p in enumerate(sq.pages())]))
        assert host.admin(sqe(0x00, dwords={10: 1})).status == OK
        assert create_sq(host, 1, depth - 1, 1, flags=0, prp1=lists.bus(0)) == PRP_OFFSET


def test_deleting_a_queue_ends_its_commands() -> None:
    with running(small()) as host:
        host.drive.inject(FaultRule(action=FaultAction.STUCK, count=3))
        buffer = host.allocate(PAGE)
        cids = host.send(1, [rw(2, 0, 1, prp1=buffer.bus(0))] * 5)
        assert [c.cid for c in host.collect(1, 2)] == cids[3:]
        assert host.admin(sqe(0x00, dwords={10: 1})).status == OK
        ended = host.poll(1)
        assert [(c.cid, c.status) for c in ended] == [(cid, SQ_DELETED) for cid in cids[:3]]


def test_abort() -> None:
    with running(small()) as host:
        rule = host.drive.inject(FaultRule(action=FaultAction.STUCK, nth=2, count=1))
        buffer = host.allocate(PAGE)
        cids = host.send(1, [rw(2, 0, 1, prp1=buffer.bus(0))] * 3)
        assert len(host.collect(1, 2)) == 2
        assert host.drive.fault_hits(rule) == 1
        aborted = host.admin(sqe(0x08, dwords={10: 1 | cids[1] << 16}))
        assert (aborted.status, aborted.result & 1) == (OK, 0)
        [ended] = host.collect(1, 1)
        assert (ended.cid, ended.status, ended.dnr) == (cids[1], ABORTED, False)
        again = host.admin(sqe(0x08, dwords={10: 1 | cids[1] << 16}))
        assert (again.status, again.result & 1) == (OK, 1)
        assert host.admin(sqe(0x08, dwords={10: 9})).status == INVALID_FIELD


def test_a_cid_in_use_is_a_conflict() -> None:
    with running(small()) as host:
        host.drive.inject(FaultRule(action=FaultAction.DELAY, delay_ns=50_000_000, count=1))
        buffer = host.allocate(PAGE)
        entry = rw(2, 0, 1, prp1=buffer.bus(0), cid=77)
        host.send(1, [entry, entry], keep_cids=True)
        first, second = host.collect(1, 2)
        assert (first.cid, first.status) == (77, CID_CONFLICT)
        assert (second.cid, second.status) == (77, OK)
        host.send(1, [entry], keep_cids=True)
        assert host.collect(1, 1)[0].status == OK


# ---- events and logs ----


def read_log(
    host: Host, lid: int, nbytes: int, *, offset: int = 0, retain: bool = False, nsid: int = 0xFFFFFFFF
) -> tuple[Cqe, bytes]:
    page = host.allocate(PAGE)
    dwords = {10: lid | retain << 15 | (nbytes // 4 - 1) << 16, 11: 0, 12: offset, 13: 0}
    cqe = host.admin(sqe(0x02, nsid=nsid, prp1=page.bus(0), dwords=dwords))
    return cqe, page.get(0, nbytes)


def test_events_wait_for_their_cause_and_have_a_limit() -> None:
    with running(small(aerl=1)) as host:
        [first, second] = host.send(0, [sqe(0x0C), sqe(0x0C)])
        over = host.admin(sqe(0x0C))
        assert over.status == EVENT_LIMIT
        # A tail beyond the queue.
        host.store(host.doorbell(1), 64)
        [event] = host.collect(0, 1)
        assert (event.cid, event.status) == (first, OK)
        assert event.result & 7 == 0  # error
        assert event.result >> 8 & 0xFF == 1  # invalid doorbell value
        assert event.result >> 16 & 0xFF == 1  # see the error log
        # Masked until the log is read.
        host.store(host.doorbell(1), 65)
        assert host.collect(0, 1, 0.05) == []
        assert read_log(host, 1, 64, retain=True)[0].status == OK
        host.store(host.doorbell(1), 66)
        assert host.collect(0, 1, 0.05) == []
        assert read_log(host, 1, 64)[0].status == OK
        # A doorbell of a queue that is not there.
        host.store(host.doorbell(5), 1)
        [event] = host.collect(0, 1)
        assert event.cid == second
        assert event.result >> 8 & 0xFF == 0  # invalid doorbell register
        assert host.drive.counters.bad_doorbells >= 4


def test_an_event_request_keeps_its_identifier() -> None:
    with running(small(aerl=1)) as host:
        [cid] = host.send(0, [sqe(0x0C)])
        for opcode in (0x0C, 0x18):  # another request, and a command of another kind
            host.send(0, [sqe(opcode, cid=cid)], keep_cids=True)
            [refused] = host.collect(0, 1)
            assert (refused.cid, refused.status) == (cid, CID_CONFLICT)
        host.store(host.doorbell(1), 64)
        [event] = host.collect(0, 1)
        assert (event.cid, event.status) == (cid, OK)
        assert event.result >> 8 & 0xFF == 1  # invalid doorbell value
        host.send(0, [sqe(0x18, cid=cid)], keep_cids=True)
        [after] = host.collect(0, 1)
        assert (after.cid, after.status) == (cid, INVALID_OPCODE)


def test_doorbells_out_of_range_change_nothing() -> None:
    with running(small()) as host:
        buffer = host.allocate(PAGE)
        host.store(host.doorbell(1), 64)
        host.store(host.doorbell(1, cq=True), 3)  # nothing was posted
        assert host.wait(lambda: host.drive.counters.bad_doorbells == 2)
        assert host.io(rw(2, 0, 1, prp1=buffer.bus(0))).status == OK


def test_logs() -> None:
    with running(small()) as host:
        buffer = host.allocate(PAGE)
        assert host.io(rw(2, 4096, 1, prp1=buffer.bus(0))).status == (0, 0x80)
        cqe, entry = read_log(host, 1, 64)
        assert cqe.status == OK
        assert u64(entry, 0) == 1
        assert u16(entry, 8) == 1  # SQID
        assert u16(entry, 12) >> 1 & 0x7FF == 0x80
        assert u64(entry, 16) == 4096
        assert u32(entry, 24) == 1
        cqe, health = read_log(host, 2, 512)
        assert cqe.status == OK
        assert health[0] == 0
        assert 273 < u16(health, 1) < 373
        assert u64(health, 64) == 1  # host reads
        assert u64(health, 176) == 1  # errors in the log
        assert read_log(host, 2, 512, nsid=1)[0].status == INVALID_FIELD
        assert read_log(host, 3, 512)[0].status == OK
        assert read_log(host, 0x70, 512)[0].status == LOG_PAGE
        assert read_log(host, 2, 64, offset=1024)[0].status == INVALID_FIELD
        assert read_log(host, 2, 64, offset=2)[0].status == INVALID_FIELD
        assert read_log(host, 2, 8, offset=64)[1] == health[64:72]

"""I/O queue pairs of the handle, against a small controller of the tests' own."""

from __future__ import annotations

import pytest
from fake_controller import MS, FakeController, opened

from tutti_hal.errors import (
    CommandFailed,
    ControllerTimeout,
    NvmeFieldRange,
    QueueInvalid,
    QueuesRefused,
)

# ---- I/O queues ----


@pytest.mark.parametrize("dstrd", [0, 1, 4, 15])
def test_queue_pair(dstrd: int) -> None:
    fake = FakeController(dstrd=dstrd, mqes=1022)
    with opened(fake) as handle:
        assert handle.grant_queues(4) == 4
        pair = handle.create_queue_pair(1023)
        stride = 4 << dstrd
        assert (pair.qid, pair.depth, pair.cq_depth) == (1, 1023, 1023)
        assert fake.base is not None
        assert pair.sq_tail_address == fake.base + 0x1000 + 2 * stride
        assert pair.cq_head_address == fake.base + 0x1000 + 3 * stride
        assert (pair.sqe_bytes, pair.cqe_bytes) == (64, 16)
        assert fake.bus.host(pair.sq_bus, 1023 * 64) == pair.sq_address
        assert fake.bus.host(pair.cq_bus, 1023 * 16) == pair.cq_address
        assert fake.sqs[1].cqid == 1
        second = handle.create_queue_pair(2, cq_depth=3)
        assert (second.qid, second.depth, second.cq_depth) == (2, 2, 3)
        handle.delete_queue_pair(pair)
        assert set(fake.sqs) == {0, 2}
        assert handle.create_queue_pair(16).qid == 1
        with pytest.raises(QueueInvalid, match="does not exist any more"):
            handle.delete_queue_pair(pair)
        deletions = [op for op, _ in fake.log if op in (0x00, 0x04)]
        assert deletions == [0x00, 0x04]
    assert fake.bus.live == []


def test_doorbells_out_of_reach() -> None:
    fake = FakeController(base=None)
    with opened(fake) as handle:
        pair = handle.create_queue_pair(4)
        assert pair.sq_tail_address is None
        assert pair.sq_tail_offset == 0x1008


@pytest.mark.parametrize("depth", [-1, 0, 1, 1025, 65537])
def test_depths_refused(depth: int) -> None:
    fake = FakeController()
    with opened(fake) as handle:
        live = len(fake.bus.live)
        with pytest.raises(QueueInvalid, match="TT-NVME-QUEUE"):
            handle.create_queue_pair(depth)
        with pytest.raises(QueueInvalid):
            handle.create_queue_pair(8, cq_depth=depth)
        assert len(fake.bus.live) == live
        assert not [op for op, _ in fake.log if op in (1, 5)]


@pytest.mark.parametrize(("depth", "mqes"), [(2, 1), (3, 2), (31, 30), (1024, 1023), (65536, 65535)])
def test_depths_up_to_the_limit(depth: int, mqes: int) -> None:
    fake = FakeController(mqes=mqes)
    with opened(fake) as handle:
        assert handle.create_queue_pair(depth).depth == depth
        assert fake.sqs[1].depth == depth
        with pytest.raises(QueueInvalid):
            handle.create_queue_pair(depth + 1)


def test_queue_count_comes_first_and_once() -> None:
    fake = FakeController()
    with opened(fake) as handle:
        handle.create_queue_pair(8)
        ops = [op for op, _ in fake.log]
        assert ops.index(0x09) < ops.index(0x05) < ops.index(0x01)
        with pytest.raises(QueueInvalid, match="exist"):
            handle.grant_queues(2)
        with pytest.raises(QueueInvalid, match="exist"):
            handle.set_feature(7, 0)


@pytest.mark.parametrize(
    ("granted", "granted_cq", "wanted", "found"), [(8, None, 4, 4), (2, None, 4, 2), (1, None, 4, 1), (8, 3, 4, 3)]
)
def test_grants(granted: int, granted_cq: int | None, wanted: int, found: int) -> None:
    fake = FakeController(granted=granted, granted_cq=granted_cq)
    with opened(fake) as handle:
        assert handle.grant_queues(wanted) == found
        for qid in range(1, found + 1):
            assert handle.create_queue_pair(4).qid == qid
        with pytest.raises(QueuesRefused, match="all"):
            handle.create_queue_pair(4)
        with pytest.raises(QueueInvalid):
            handle.create_queue_pair(4, qid=found + 1)
        with pytest.raises(QueueInvalid):
            handle.create_queue_pair(4, qid=0)
        with pytest.raises(QueueInvalid, match="it exists"):
            handle.create_queue_pair(4, qid=1)


def test_queues_refused() -> None:
    fake = FakeController(refuse_queues=True)
    with opened(fake) as handle, pytest.raises(QueuesRefused, match="TT-NVME-QUEUES-REFUSED"):
        handle.create_queue_pair(8)
    fake = FakeController(granted=2)
    with opened(fake) as handle:
        with pytest.raises(QueuesRefused, match="2 granted, 3 needed"):
            handle.grant_queues(4, minimum=3)
        for wanted in (0, -1, 65536):
            with pytest.raises(NvmeFieldRange):
                handle.grant_queues(wanted)


def test_refused_submission_queue_leaves_nothing() -> None:
    fake = FakeController()
    with opened(fake) as handle:
        handle.grant_queues(2)
        live = len(fake.bus.live)
        fake.failing[0x01] = (1, 2, 1)
        with pytest.raises(CommandFailed):
            handle.create_queue_pair(8)
        assert set(fake.cqs) == {0}
        assert len(fake.bus.live) == live
        assert handle.pairs == ()


def test_unanswered_creation_keeps_the_memory() -> None:
    """The controller may have created the queue: its memory must outlive it."""
    fake = FakeController(lost={0x01})
    handle = opened(fake, command_timeout_ns=5 * MS)
    handle.grant_queues(2)
    live = len(fake.bus.live)
    with pytest.raises(ControllerTimeout):
        handle.create_queue_pair(8)
    assert len(fake.bus.live) == live + 2
    handle.close()
    assert fake.bus.live == []


def test_queue_memory_of_the_caller() -> None:
    fake = FakeController()
    sq = fake.bus.allocate(8 * 64, contiguous=True)
    cq = fake.bus.allocate(8 * 16, contiguous=True)
    cq.write(0, b"\xff" * 128)
    with opened(fake) as handle:
        pair = handle.create_queue_pair(8, sq_memory=sq, cq_memory=cq)
        assert pair.sq_address == sq.address
        again = handle.recreate_queue_pair(pair)
        assert again == pair
        handle.delete_queue_pair(again)
        with pytest.raises(QueueInvalid, match="needed"):
            handle.create_queue_pair(65, sq_memory=sq, cq_memory=cq)
    assert fake.bus.live == [sq, cq]
    assert not sq.closed


def test_deletion_goes_on_where_it_stopped() -> None:
    fake = FakeController()
    with opened(fake) as handle:
        pair = handle.create_queue_pair(8)
        fake.failing[0x04] = (0, 6, 0)
        with pytest.raises(CommandFailed, match="internal-error"):
            handle.delete_queue_pair(pair)
        assert set(fake.sqs) == {0}
        fake.failing.clear()
        handle.delete_queue_pair(pair)
        assert set(fake.cqs) == {0}
        pair = handle.create_queue_pair(8)
        fake.failing[0x00] = (0, 6, 0)
        with pytest.raises(CommandFailed, match="internal-error"):
            handle.delete_queue_pair(pair)
        assert set(fake.cqs) == {0, 1}
        fake.failing.clear()


def test_recreation_that_is_refused_leaves_nothing() -> None:
    fake = FakeController()
    with opened(fake) as handle:
        handle.grant_queues(1)
        live = len(fake.bus.live)
        pair = handle.create_queue_pair(8, priority=2)
        assert handle.recreate_queue_pair(pair).priority == 2
        fake.failing[0x05] = (1, 2, 1)
        with pytest.raises(CommandFailed):
            handle.recreate_queue_pair(pair)
        assert handle.pairs == ()
        assert len(fake.bus.live) == live
        fake.failing.clear()
        assert handle.create_queue_pair(8).qid == 1


@pytest.mark.parametrize("cqr", [0, 1])
def test_scattered_queue_memory(cqr: int) -> None:
    fake = FakeController(cqr=cqr)
    sq = fake.bus.allocate(256 * 64)
    cq = fake.bus.allocate(512 * 16)
    with opened(fake) as handle:
        if cqr:
            with pytest.raises(QueueInvalid, match="contiguous"):
                handle.create_queue_pair(256, cq_depth=512, sq_memory=sq, cq_memory=cq)
            return
        live = len(fake.bus.live)
        pair = handle.create_queue_pair(256, cq_depth=512, sq_memory=sq, cq_memory=cq)
        for slot in (0, 63, 64, 255):
            assert fake.bus.host(fake.sqs[1].address(slot * 64, 64), 64) == sq.address + slot * 64
        pair = handle.recreate_queue_pair(pair)
        handle.delete_queue_pair(pair)
        assert len(fake.bus.live) == live


def test_pairs_that_share_a_completion_queue() -> None:
    fake = FakeController()
    with opened(fake) as handle:
        handle.grant_queues(4)
        live = len(fake.bus.live)
        first = handle.create_queue_pair(8, cq_depth=20)
        second = handle.create_queue_pair(4, completes_to=first)
        assert (second.qid, second.cqid, second.cq_depth) == (2, 1, 20)
        assert second.cq_head_offset == first.cq_head_offset
        assert second.cq_memory is first.cq_memory
        assert fake.sqs[2].cqid == 1
        assert set(fake.cqs) == {0, 1}
        # The first one goes; the completion queue, its memory and its identifier stay in use.
        handle.delete_queue_pair(first)
        assert set(fake.cqs) == {0, 1}
        third = handle.create_queue_pair(8, completes_to=second)
        assert (third.qid, third.cqid) == (3, 1)
        with pytest.raises(QueueInvalid, match="not exist"):
            handle.create_queue_pair(8, completes_to=first)
        with pytest.raises(QueueInvalid, match="Give all"):
            handle.recreate_queue_pair(second)
        second, third = handle.recreate_queue_pairs([second, third])
        assert handle.pairs == (second, third)
        assert (fake.sqs[2].cqid, fake.sqs[3].cqid) == (1, 1)
        handle.delete_queue_pair(second)
        handle.delete_queue_pair(third)
        assert set(fake.cqs) == {0}
        assert len(fake.bus.live) == live
        assert handle.create_queue_pair(8).qid == 1


def test_recreation_of_shared_pairs_goes_on_where_it_stopped() -> None:
    fake = FakeController()
    with opened(fake) as handle:
        first = handle.create_queue_pair(8)
        pairs = [first, handle.create_queue_pair(8, completes_to=first)]
        live = len(fake.bus.live)
        fake.failing[0x04] = (0, 6, 0)
        with pytest.raises(CommandFailed, match="internal-error"):
            handle.recreate_queue_pairs(pairs)
        assert (set(fake.sqs), set(fake.cqs)) == ({0}, {0, 1})
        fake.failing.clear()
        pairs = handle.recreate_queue_pairs(pairs)
        assert (set(fake.sqs), len(fake.bus.live)) == ({0, 1, 2}, live)
        # Refused in between: what was made goes again, and all of the memory.
        fake.failing[0x01] = (1, 2, 1)
        with pytest.raises(CommandFailed):
            handle.recreate_queue_pairs(pairs)
        assert (set(fake.sqs), set(fake.cqs), handle.pairs) == ({0}, {0}, ())
        assert len(fake.bus.live) == live - 3

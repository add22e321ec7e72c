"""What the specification leaves to the drive: order, batches, SQHD, latency, odd depths, shared queues, threads."""

from __future__ import annotations

import gc
import time
from pathlib import Path

import pytest
from host import Host, pattern, running, small

from tutti_hal.conformance_tests.oracle.nvme import (
    OK,
    PAGE,
    Cqe,
    rw,
    sqe,
)
from tutti_hal.errors import ControllerBusy
from tutti_hal.nvme.software import (
    CompletionOrder,
    ControllerConfig,
    MemoryNamespace,
    NullController,
    SoftwareController,
)

READ, WRITE = 2, 1


def reads(count: int, buffer: int) -> list[bytes]:
    return [rw(READ, i, 1, prp1=buffer) for i in range(count)]


def batch(host: Host, qid: int, count: int) -> tuple[list[int], list[Cqe]]:
    memory = host.allocate(PAGE)
    cids = host.send(qid, reads(count, memory.bus(0)))
    done = host.collect(qid, count)
    assert len(done) == count
    assert {c.status for c in done} == {OK}
    return cids, done


@pytest.mark.parametrize(
    ("mqes", "depth"), [(1, 2), (2, 3), (2, 2), (30, 31), (62, 63), (1022, 1023), (1023, 1024), (2047, 2000)]
)
@pytest.mark.parametrize("dstrd", [0, 1, 4])
def test_any_depth_and_stride_wraps(mqes: int, depth: int, dstrd: int) -> None:
    with running(small(mqes=mqes, dstrd=dstrd), queues=2, depth=depth) as host:
        memory = host.allocate(PAGE)
        for qid in (1, 2):
            left = 3 * depth + 5
            while left:
                count = min(left, depth - 1)
                cids = host.send(qid, reads(count, memory.bus(0))[:count])
                done = host.collect(qid, count)
                assert [c.cid for c in done] == cids
                assert {c.sqid for c in done} == {qid}
                assert done[-1].sqhd == host.queues[qid].tail
                left -= count
        assert host.drive.queue_counters(1).completions == 3 * depth + 5


def test_the_deepest_queue() -> None:
    with running(small(mqes=65535), queues=0) as host:
        host.set_queue_count(1)
        host.create_pair(1, 65536)
        memory = host.allocate(PAGE)
        entry = rw(READ, 0, 1, prp1=memory.bus(0))
        host.send(1, [entry] * 65000)
        assert len(host.collect(1, 65000)) == 65000
        host.send(1, [entry] * 1000)
        assert len(host.collect(1, 1000)) == 1000
        assert host.queues[1].tail == 66000 - 65536


def test_orders() -> None:
    orders = {}
    for order in CompletionOrder:
        with running(small(order=order, order_window=8, seed=3, hold_ns=2_000_000_000)) as host:
            if order is CompletionOrder.STARVE:
                continue
            cids, done = batch(host, 1, 16)
            orders[order] = [cids.index(c.cid) for c in done]
    assert orders[CompletionOrder.FIFO] == list(range(16))
    assert orders[CompletionOrder.REVERSE] == [*range(7, -1, -1), *range(15, 7, -1)]
    shuffled = orders[CompletionOrder.RANDOM]
    assert sorted(shuffled[:8]) == list(range(8))
    assert shuffled != list(range(16))


def test_an_incomplete_window_is_not_held_for_ever() -> None:
    with running(small(order=CompletionOrder.REVERSE, order_window=64)) as host:
        cids, done = batch(host, 1, 3)
        assert sorted(c.cid for c in done) == cids
    with running(small(order=CompletionOrder.REVERSE, order_window=64, hold_ns=30_000_000)) as host:
        start = time.monotonic()
        batch(host, 1, 3)
        assert time.monotonic() - start >= 0.03


def test_a_starved_queue_waits_for_the_others() -> None:
    config = small(order=CompletionOrder.STARVE, starved_queue=1, latency_ns=30_000_000)
    with running(config, queues=2) as host:
        memory = host.allocate(PAGE)
        host.send(1, reads(2, memory.bus(0)))
        time.sleep(0.01)
        host.send(2, reads(2, memory.bus(0)))
        first = host.wait(lambda: [(qid, c) for qid in (2, 1) for c in host.poll(qid)])
        assert {qid for qid, _ in first} <= {1, 2}
        assert first[0][0] == 2
        assert len(host.collect(1, 2)) + sum(1 for qid, _ in first if qid == 1) >= 2


def test_batches_of_completions() -> None:
    with running(small(cqe_batch=4, hold_ns=2_000_000_000)) as host:
        memory = host.allocate(PAGE)
        host.send(1, reads(3, memory.bus(0)))
        assert host.collect(1, 1, 0.1) == []
        host.send(1, reads(1, memory.bus(0)))
        assert len(host.collect(1, 4)) == 4
    with running(small(cqe_batch=63, hold_ns=1_000_000)) as host:  # the largest, and less than that comes too
        batch(host, 1, 5)


@pytest.mark.parametrize("lag", [0, 1, 5, 15, 100])
def test_the_reported_head_may_trail(lag: int) -> None:
    depth = 16
    with running(small(sqhd_lag=lag), depth=depth) as host:
        memory = host.allocate(PAGE)
        reported = 0
        for true in range(1, 41):
            host.send(1, reads(1, memory.bus(0)))
            [done] = host.collect(1, 1)
            moved = (done.sqhd - reported) % depth
            assert moved <= true - reported
            reported += moved
            assert true - reported == min(true, lag, depth - 2)


def test_latency_and_a_slow_share() -> None:
    with running(small(latency_ns=20_000_000)) as host:
        start = time.monotonic()
        batch(host, 1, 8)
        assert 0.02 <= time.monotonic() - start < 10
    config = small(latency_ns=0, slow_latency_ns=150_000_000, slow_ppm=300_000, seed=1)
    with running(config) as host:
        memory = host.allocate(PAGE)
        cids = host.send(1, reads(40, memory.bus(0)))
        time.sleep(0.05)
        early = host.poll(1)
        assert 15 < len(early) < 40
        late = host.collect(1, 40 - len(early))
        assert sorted(c.cid for c in early + late) == cids


def test_several_queues_on_one_small_completion_queue() -> None:
    with running(small(io_queues=4), queues=0) as host:
        host.set_queue_count(4)
        host.create_pair(1, 32, cq_depth=4)
        for qid in (2, 3, 4):
            host.create_pair(qid, 32, cqid=1)
        memory = host.allocate(PAGE)
        sent = {qid: host.send(qid, reads(31, memory.bus(0))) for qid in range(1, 5)}
        assert host.wait(lambda: host.drive.counters.cq_full_waits > 0)
        time.sleep(0.02)
        assert host.drive.counters.cqes_posted - host.drive.queue_counters(0).completions == 3  # never overrun
        seen: dict[int, list[int]] = {qid: [] for qid in sent}

        def drain() -> bool:
            for cqe in host.poll(1):
                seen[cqe.sqid].append(cqe.cid)
            return sum(map(len, seen.values())) == 4 * 31

        assert host.wait(drain)
        assert seen == sent


@pytest.mark.parametrize("threads", [2, 3])
def test_several_threads_share_the_queues(threads: int) -> None:
    with running(small(io_queues=8), threads=threads, queues=8) as host:
        memory = host.allocate(PAGE)
        for _ in range(5):
            for qid in range(1, 9):
                host.send(qid, reads(63, memory.bus(0)))
            for qid in range(1, 9):
                assert len(host.collect(qid, 63)) == 63
        counters = host.drive.counters
        assert counters.threads == threads
        assert counters.io_commands == {READ: 5 * 8 * 63}
        for qid in range(1, 9):
            assert host.admin(sqe(0x00, dwords={10: qid})).status == OK


def test_start_refusals() -> None:
    with running(small(io_queues=2), queues=2) as host:
        with pytest.raises(ControllerBusy, match="runs already"):
            host.drive.start()
        host.drive.stop()
        host.drive.stop()
        with pytest.raises(ControllerBusy, match="I/O queues exist"):
            host.drive.start(2)
        host.drive.start(1)
        batch(host, 1, 3)


def test_null_controller_completes_without_looking() -> None:
    with NullController(ControllerConfig(namespaces=[MemoryNamespace(blocks=16)])) as drive:
        host = Host(drive)
        drive.start()
        host.enable()
        host.set_queue_count(1)
        host.create_pair(1, 32)
        memory = host.allocate(PAGE)
        memory.put(0, pattern(PAGE, 1))
        host.send(1, [rw(READ, 10**6, 1, prp1=memory.bus(0))] * 31)
        assert {c.status for c in host.collect(1, 31)} == {OK}
        assert memory.get(0, PAGE) == pattern(PAGE, 1)
        assert host.identify(1)[0].status == OK


def test_nothing_is_left_running_when_it_is_forgotten() -> None:
    def tasks() -> int:
        return len(list(Path("/proc/self/task").iterdir()))

    before = tasks()
    drive = SoftwareController(small())
    drive.start(2)
    assert tasks() == before + 2
    del drive
    gc.collect()
    assert tasks() == before

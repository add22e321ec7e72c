"""The ring in mode `threads`: whole way, breadth, errors, counters. The source judges the data, byte for byte."""

import time

import numpy as np
import pytest
from ring_rig import BLOCK, Rig, drive

from tutti_hal.errors import BufferInvalid, DepthInvalid, NamespaceAbsent, QueueInvalid, RingBusy, RingError
from tutti_hal.io_uring import RingOptions, State, succeeded
from tutti_hal.nvme.software import CompletionOrder, FaultAction, FaultRule, MemoryNamespace

pytestmark = pytest.mark.ring

SECOND = 1_000_000_000


def options(**fields: object) -> RingOptions:
    return RingOptions(**{"depth": 32, "lanes": 64, "block": 64, "batch_limit": 512, "limit_ns": 20 * SECOND} | fields)


def test_one_batch_there_and_back() -> None:
    with Rig("threads-w32", options()) as rig:
        written, read, exact = rig.round_trip(100)
        assert exact
        assert succeeded(written).all()
        assert succeeded(read).all()
        assert (read["completed_ns"] >= read["submitted_ns"]).all()
        counted = rig.ring.statistics()
        assert (counted.total("commands"), counted.total("completions")) == (200, 200)
        assert (counted.total("strays"), counted.total("lates"), counted.total("quarantined")) == (0, 0, 0)
        assert rig.drives[0].counters.io_commands == {1: 100, 2: 100}


@pytest.mark.parametrize("arch", ["threads-w32", "threads-w64", "threads-w128"])
@pytest.mark.parametrize(
    ("depth", "fields", "config"),
    [
        (2, {}, {}),
        (3, {"cq_depth": 2}, {}),
        (5, {"lanes": 300, "block": 100}, {"order": CompletionOrder.REVERSE}),
        (23, {"queues": (3,)}, {"order": CompletionOrder.RANDOM, "sqhd_lag": 7}),
        (8, {"command_limit": 40, "cq_depth": 64}, {"order": CompletionOrder.RANDOM}),
        (64, {"lanes": 1, "block": 1}, {"mqes": 62, "dstrd": 1, "sgls": 0}),
    ],
)
def test_depths_orders_and_waves(arch: str, depth: int, fields: dict[str, int], config: dict[str, int]) -> None:
    if config.get("mqes") == 62:
        depth = 63
    with Rig(arch, options(depth=depth, **fields), drives=[drive(**config)]) as rig:
        written, read, exact = rig.round_trip(150)
        assert succeeded(written).all()
        assert succeeded(read).all()
        assert exact
        assert rig.ring.statistics().total("strays") == 0
        assert rig.drives[0].counters.bad_doorbells == 0


@pytest.mark.parametrize("sgls", [0, 1])
@pytest.mark.parametrize("nbytes", [BLOCK, 4096, 8192, 12288, 131072, 3 * 1024 * 1024])
def test_data_pointers_of_every_form(sgls: int, nbytes: int) -> None:
    """PRP1 alone, two pages, a list, a chained list; one SGL descriptor. Offsets inside a page included."""
    with Rig(
        "threads-w32",
        options(),
        drives=[drive(mdts=0, sgls=sgls)],
        data_bytes=8 * 1024 * 1024,
        contiguous=bool(sgls),
    ) as rig:
        target, ring = rig.ring.targets[0], rig.ring
        source = np.random.default_rng(1).integers(0, 256, nbytes, np.uint8)
        for offset in (0, 4, 2044, 4092, 511 * 4096 - 4, 510 * 4096):
            rig.data[:] = 0xEE
            rig.data[offset : offset + nbytes] = source
            iocb = ring.get_iocb()
            iocb.write(target, 3, nbytes, rig.buffer, offset)
            assert succeeded(rig.run(iocb)).all()
            assert rig.drives[0].read_stored(1, 3 * BLOCK, nbytes) == source.tobytes()
            rig.data[:] = 0xEE
            iocb = ring.get_iocb()
            iocb.read(target, 3, nbytes, rig.buffer, offset)
            assert succeeded(rig.run(iocb)).all()
            assert (rig.data[offset : offset + nbytes] == source).all()
            assert (rig.data[:offset] == 0xEE).all()
            assert (rig.data[offset + nbytes :] == 0xEE).all()


def test_one_launch_serves_several_drives_and_namespaces() -> None:
    spaces = (MemoryNamespace(nsid=1, blocks=4096, lba_shift=9), MemoryNamespace(nsid=7, blocks=4096, lba_shift=9))
    drives = [drive(), drive(namespaces=spaces, dstrd=2, mqes=40), drive(mdts=1)]
    with Rig("threads-w32", options(), drives=drives) as rig:
        assert [(t.drive, t.nsid) for t in rig.ring.targets] == [(0, 1), (1, 1), (1, 7), (2, 1)]
        written, read, exact = rig.round_trip(96)
        assert succeeded(written).all()
        assert succeeded(read).all()
        assert exact
        assert [d.counters.io_commands for d in rig.drives] == [{1: 24, 2: 24}, {1: 48, 2: 48}, {1: 24, 2: 24}]


def test_a_batch_costs_the_same_calls_whatever_it_holds() -> None:
    with Rig("threads-w32", options()) as rig:
        costs = []
        for count in (1, 300):
            iocb = rig.ring.get_iocb()
            iocb.read(rig.ring.targets[0], np.arange(count), BLOCK, rig.buffer, np.arange(count) * BLOCK)
            before = dict(rig.device.host_calls)
            rig.run(iocb)
            after = dict(rig.device.host_calls)
            costs.append({name: n - before.get(name, 0) for name, n in after.items() if n != before.get(name, 0)})
        assert costs[0] == costs[1]
        assert (costs[0]["MemcpyAsync"], costs[0]["LaunchKernel"]) == (1, 1)
        assert sum(costs[0].values()) <= 8


def test_statuses_of_the_drive_arrive_unchanged() -> None:
    with Rig("threads-w32", options()) as rig:
        rig.drives[0].inject(FaultRule(action=FaultAction.STATUS, lbas=(5, 5), status=(2, 0x81), dnr=True))
        rig.drives[0].inject(FaultRule(action=FaultAction.STATUS, lbas=(6, 6), status=(0, 0x22), crd=2))
        iocb = rig.ring.get_iocb()
        iocb.read(rig.ring.targets[0], np.arange(10), BLOCK, rig.buffer, np.arange(10) * BLOCK)
        done = rig.run(iocb)
        assert (done["state"] == State.COMPLETED).all()
        assert (int(done["sct"][5]), int(done["sc"][5]), bool(done["dnr"][5])) == (2, 0x81, True)
        assert (int(done["sct"][6]), int(done["sc"][6]), int(done["crd"][6])) == (0, 0x22, 2)
        assert list(np.flatnonzero(~succeeded(done))) == [5, 6]


def test_other_commands() -> None:
    with Rig("threads-w32", options()) as rig:
        target = rig.ring.targets[0]
        rig.data[:] = 0x5A
        for verb in ("write", "compare"):
            iocb = rig.ring.get_iocb()
            getattr(iocb, verb)(target, 0, 4 * BLOCK, rig.buffer, 0)
            assert succeeded(rig.run(iocb)).all()
        iocb = rig.ring.get_iocb()
        iocb.write_zeroes(target, 1, BLOCK)
        iocb.flush(target)
        assert succeeded(rig.run(iocb)).all()
        assert rig.drives[0].read_stored(1, 0, 3 * BLOCK) == b"\x5a" * BLOCK + bytes(BLOCK) + b"\x5a" * BLOCK
        iocb = rig.ring.get_iocb()
        iocb.compare(target, 0, 4 * BLOCK, rig.buffer, 0)
        done = rig.run(iocb)
        assert (int(done["sct"][0]), int(done["sc"][0])) == (2, 0x85)


def test_classes_have_queues_of_their_own() -> None:
    with Rig("threads-w32", options(queues=(2, 1))) as rig:
        for number, count in ((0, 64), (1, 32)):
            iocb = rig.ring.get_iocb()
            iocb.read(rig.ring.targets[0], np.arange(count), BLOCK, rig.buffer, 0, queue_class=number)
            assert succeeded(rig.run(iocb)).all()
        commands = [queue.commands for queue in rig.ring.statistics().queues]
        assert (sum(commands[:2]), commands[2]) == (64, 32)


def test_refuses_what_cannot_be() -> None:
    for wrong in ({"depth": 1}, {"command_limit": 0}, {"cq_interval": 17}, {"command_limit": 1 << 15}):
        with pytest.raises(DepthInvalid):
            Rig("threads-w32", options(**wrong))
    with pytest.raises(QueueInvalid):
        Rig("threads-w32", options(depth=64), drives=[drive(mqes=30)])
    with Rig("threads-w32", options(batches=1, buffers=1)) as rig:
        with pytest.raises(NamespaceAbsent, match="its active namespaces are: 1"):
            rig.ring.target(0, 2)
        with pytest.raises(BufferInvalid, match="are registered"):
            rig.ring.register(rig.memory)
        iocb = rig.ring.get_iocb()
        with pytest.raises(RingBusy):
            rig.ring.get_iocb()
        with pytest.raises(RingError):
            rig.ring.wait_cqe(iocb)
        rig.ring.issue_io(iocb)
        assert len(rig.ring.wait_cqe(iocb)) == 0
        rig.ring.unregister(rig.buffer)
        with pytest.raises(BufferInvalid):
            rig.ring.get_iocb().read(rig.ring.targets[0], 0, BLOCK, rig.buffer, 0)


def test_doorbells_are_shared_and_completions_read_few_times() -> None:
    with Rig("threads-w32", options(depth=256, batch_limit=4096, lanes=128), data_bytes=4 << 20) as rig:
        assert rig.round_trip(4096)[2]
        counted = rig.ring.statistics()
        assert counted.doorbells_per_command <= 1 / 8
        # Of the queue itself: the drive's own counters hold the admin queue's doorbells too.
        qid = counted.queues[0].qid
        assert 0 < rig.drives[0].queue_counters(qid).sq_doorbells <= counted.total("doorbells")


def test_a_stop_ends_a_kernel_that_waits_and_the_queue_is_made_anew() -> None:
    with Rig("threads-w32", options(limit_ns=60 * SECOND)) as rig:
        rule = rig.drives[0].inject(FaultRule(action=FaultAction.STUCK, lbas=(3, 3)))
        iocb = rig.ring.get_iocb()
        iocb.read(rig.ring.targets[0], np.arange(8), BLOCK, rig.buffer, np.arange(8) * BLOCK)
        rig.ring.issue_io(iocb)
        while rig.drives[0].fault_hits(rule) == 0:
            time.sleep(0.001)
        with pytest.raises(RingBusy):
            rig.ring.resume()
        rig.ring.stop()
        done = rig.ring.wait_cqe(iocb)
        assert int(done["state"][3]) == State.STOPPED
        assert rig.ring.statistics().total("quarantined") >= 1
        with pytest.raises(RingBusy, match="recover"):
            rig.ring.unregister(rig.buffer)
        assert len(rig.ring.recover()) == 1
        rig.ring.resume()
        rig.drives[0].clear_faults()
        assert rig.round_trip(20)[2]


@pytest.mark.slow
def test_soak_with_failing_commands() -> None:
    """Many batches over two drives and four queues, out of order, one command in a hundred failing: no wrong result."""
    drives = [drive(order=CompletionOrder.RANDOM), drive(order=CompletionOrder.REVERSE, sqhd_lag=5)]
    wide = options(depth=61, queues=(2,), lanes=128, batch_limit=4096)
    with Rig("threads-w32", wide, drives=drives, data_bytes=2 << 20) as rig:
        source = np.random.default_rng(11).integers(0, 256, rig.memory.nbytes, np.uint8)
        rig.data[:] = source
        iocb = rig._fill("write", 4096, BLOCK)
        assert succeeded(rig.run(iocb)).all()
        for one in rig.drives:
            one.inject(FaultRule(action=FaultAction.STATUS, opcode=2, rate=0.01, status=(2, 0x81)))
        failed = 0
        for _ in range(12):
            rig.data[:] = 0
            done = rig.run(rig._fill("read", 4096, BLOCK))
            good = succeeded(done)
            # Requests were added drive by drive.
            piece = np.concatenate([np.arange(0, 4096, 2), np.arange(1, 4096, 2)])
            same = (rig.data.reshape(4096, BLOCK) == source.reshape(4096, BLOCK)).all(axis=1)[piece]
            assert (same == good).all()
            assert (done["sc"][~good] == 0x81).all()
            failed += int((~good).sum())
        assert failed > 0
        assert rig.ring.statistics().total("strays") == 0
        assert sum(one.counters.errors for one in rig.drives) == failed

"""The controller handle against the software controller, in threads and in a deterministic world."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any

import pytest

from tutti_hal.errors import (
    CommandFailed,
    ControllerFatal,
    ControllerGone,
    ControllerTimeout,
    NamespaceInvalid,
    QueueInvalid,
    QueuesRefused,
)
from tutti_hal.native import ffi_and_library
from tutti_hal.nvme import commands, prp, sgl
from tutti_hal.nvme.cqe import Cqe
from tutti_hal.nvme.handle import ControllerHandle, HandleOptions
from tutti_hal.nvme.memory import Dma, DmaMemory, Registers
from tutti_hal.nvme.opcodes import NvmOpcode
from tutti_hal.nvme.queues import QueuePair
from tutti_hal.nvme.software import (
    ControllerConfig,
    FaultAction,
    FaultRule,
    MemoryNamespace,
    SoftwareController,
)
from tutti_hal.nvme.sqe import Sqe
from tutti_hal.nvme.world_memory import WorldDma, WorldRegisters

MS = 1_000_000


@dataclass
class Place:
    """A running software controller, and what a handle needs to drive it."""

    drive: SoftwareController
    registers: Registers
    dma: Dma

    def open(self, **options: Any) -> ControllerHandle:
        return ControllerHandle.open(self.registers, self.dma, HandleOptions(**options))


@contextmanager
def in_threads(config: ControllerConfig) -> Iterator[Place]:
    with SoftwareController(config) as drive:
        drive.start()
        yield Place(drive, drive.registers, drive.dma)
        drive.stop()


@contextmanager
def in_world(config: ControllerConfig) -> Iterator[Place]:
    ffi, lib = ffi_and_library()
    options = ffi.new("tt_sim_options *")
    options.struct_size = ffi.sizeof("tt_sim_options")
    options.policy = lib.TT_SCHED_RANDOM
    options.seed = config.seed + 1
    world = lib.tt_world_create(options)
    assert world != ffi.NULL
    try:
        with SoftwareController(config) as drive:
            drive.attach(world)
            yield Place(drive, WorldRegisters(world, drive.bar_address), WorldDma(world, drive.dma))
            drive.detach()
    finally:
        lib.tt_world_destroy(world)


WHERE = {"threads": in_threads, "world": in_world}


@pytest.fixture(params=WHERE)
def running(request: pytest.FixtureRequest) -> Callable[[ControllerConfig], Any]:
    return WHERE[request.param]


def config(**changes: Any) -> ControllerConfig:
    return ControllerConfig(namespaces=(MemoryNamespace(blocks=4096),)).but(**changes)


@dataclass
class Issuer:
    """The plainest host of a queue pair: one command at a time, everything taken from the pair."""

    registers: Registers
    pair: QueuePair
    tail: int = 0
    head: int = 0
    phase: int = 1
    cid: int = 0

    def run(self, sqe: Sqe, timeout_ns: int = 5_000 * MS) -> Cqe:
        pair = self.pair
        self.cid = (self.cid + 1) % 0xFFFF
        pair.sq_memory.write(self.tail * pair.sqe_bytes, replace(sqe, cid=self.cid).encode())
        self.tail = (self.tail + 1) % pair.depth
        self.registers.store32(pair.sq_tail_offset, self.tail)
        deadline = self.registers.now_ns() + timeout_ns
        at = self.head * pair.cqe_bytes
        while pair.cq_memory.load32(at + 12) >> 16 & 1 != self.phase:
            assert self.registers.now_ns() < deadline, "no completion"
            self.registers.pause()
        cqe = Cqe.decode(pair.cq_memory.read(at, 16))
        assert (cqe.cid, cqe.sqid) == (self.cid, pair.qid)
        self.head += 1
        if self.head == pair.cq_depth:
            self.head, self.phase = 0, 1 - self.phase
        self.registers.store32(pair.cq_head_offset, self.head)
        return cqe


def pattern(seed: int, nbytes: int) -> bytes:
    return b"".join(((seed + k * 0x85EBCA6B) & 0xFFFF_FFFF).to_bytes(4, "little") for k in range(nbytes // 4))


def copy_through(place: Place, handle: ControllerHandle, pair: QueuePair, nsid: int, nbytes: int) -> None:
    """Writes and reads back, with PRPs over memory that is scattered on the bus."""
    space = handle.namespace(nsid)
    blocks = nbytes // space.transfer_bytes_per_block
    page = handle.page_bytes
    out = place.dma.allocate(nbytes, alignment=page)
    back = place.dma.allocate(nbytes, alignment=page)
    issuer = Issuer(place.registers, pair)
    lists: list[DmaMemory] = []

    def pointer(memory: DmaMemory) -> prp.PrpPair:
        runs, left = [], nbytes
        for bus, length in memory.runs:
            if left:
                runs.append((bus, min(length, left)))
                left -= min(length, left)
        needed = prp.list_bytes_needed(nbytes, runs[0][0] % page, page)
        space_runs: tuple[tuple[int, int], ...] = ()
        if needed:
            lists.append(place.dma.allocate(needed, contiguous=True, alignment=page))
            space_runs = tuple(lists[-1].runs)
        plan = prp.build(runs, page, space_runs)
        for bus, content in plan.lists:
            lists[-1].write(bus - lists[-1].runs[0][0], content)
        return plan.pair

    data = pattern(nbytes, nbytes)
    out.write(0, data)
    write = commands.transfer(NvmOpcode.WRITE, nsid=nsid, slba=7, blocks=blocks, data=pointer(out))
    read = commands.transfer(NvmOpcode.READ, nsid=nsid, slba=7, blocks=blocks, data=pointer(back))
    assert issuer.run(write).status.ok
    assert issuer.run(read).status.ok
    assert back.read(0, nbytes) == data
    for memory in (out, back, *lists):
        memory.close()


def test_bring_up_and_io(running: Callable[[ControllerConfig], Any]) -> None:
    with running(config()) as place, place.open() as handle:
        assert handle.controller.sn == "TUTTI0001"
        assert handle.namespaces() == (1,)
        assert handle.namespace(1).capacity_lba == 4096
        assert handle.limits.mdts_bytes == 131072
        assert handle.nvm_controller is not None
        pair = handle.create_queue_pair(16)
        copy_through(place, handle, pair, 1, 3 * 4096)
        # More commands than the queue is deep, so that tail, head and phase wrap.
        issuer = Issuer(place.registers, handle.create_queue_pair(3))
        for _ in range(10):
            assert issuer.run(commands.flush(1)).status.ok


@pytest.mark.parametrize("mqes", [1, 2, 30, 62, 1022, 65535])
def test_queue_depths(mqes: int) -> None:
    with in_threads(config(mqes=mqes)) as place, place.open() as handle:
        assert handle.limits.max_depth == mqes + 1
        with pytest.raises(QueueInvalid):
            handle.create_queue_pair(mqes + 2)
        issuer = Issuer(place.registers, handle.create_queue_pair(mqes + 1))
        for _ in range(5):
            assert issuer.run(commands.flush(1)).status.ok


@pytest.mark.parametrize("dstrd", [0, 1, 4])
def test_doorbell_strides(running: Callable[[ControllerConfig], Any], dstrd: int) -> None:
    with running(config(dstrd=dstrd)) as place, place.open() as handle:
        assert handle.limits.dstrd == dstrd
        handle.grant_queues(3)
        for pair in [handle.create_queue_pair(4) for _ in range(3)]:
            assert pair.sq_tail_address == place.drive.bar_address + 0x1000 + 2 * pair.qid * (4 << dstrd)
            assert Issuer(place.registers, pair).run(commands.flush(1)).status.ok


@pytest.mark.parametrize(("low", "high", "page"), [(0, 4, 4096), (1, 4, 8192), (4, 4, 65536), (0, 4, 16384)])
def test_page_sizes(low: int, high: int, page: int) -> None:
    with in_threads(config(mpsmin=low, mpsmax=high)) as place, place.open(page_bytes=page) as handle:
        assert handle.limits.mdts_bytes == (4096 << low) << 5
        copy_through(place, handle, handle.create_queue_pair(8), 1, 131072)


@pytest.mark.parametrize("mdts", [0, 3, 7])
def test_transfer_limits(mdts: int) -> None:
    with in_threads(config(mdts=mdts)) as place, place.open() as handle:
        blocks = handle.limits.max_blocks(handle.namespace(1))
        assert blocks == (65536 if mdts == 0 else 1 << mdts)
        if mdts:
            pair = handle.create_queue_pair(8)
            copy_through(place, handle, pair, 1, blocks * 4096)


@pytest.mark.parametrize("granted", [1, 2, 31, 64])
def test_queue_grants(granted: int) -> None:
    with in_threads(config(io_queues=granted)) as place, place.open() as handle:
        assert handle.grant_queues(64) == granted
        for _ in range(min(granted, 4)):
            assert Issuer(place.registers, handle.create_queue_pair(4)).run(commands.flush(1)).status.ok
        with pytest.raises(QueueInvalid):
            handle.create_queue_pair(4, qid=granted + 1)
    with in_threads(config(io_queues=granted)) as place, place.open() as handle, pytest.raises(QueuesRefused):
        handle.grant_queues(128, minimum=65)


def in_pieces(dma: Dma, nbytes: int) -> DmaMemory:
    """Memory whose first `nbytes` are not contiguous on the bus."""
    for _ in range(100):
        memory = dma.allocate(nbytes)
        if memory.runs[0][1] < nbytes:
            return memory
        memory.close()
    pytest.fail("the IOMMU always gave contiguous memory: the case would be vacuous")


@pytest.mark.parametrize("cqr", [False, True])
def test_queues_in_pieces(running: Callable[[ControllerConfig], Any], cqr: bool) -> None:
    with running(config(cqr=cqr)) as place, place.open() as handle:
        sq, cq = in_pieces(place.dma, 256 * 64), in_pieces(place.dma, 1024 * 16)
        if cqr:
            with pytest.raises(QueueInvalid, match="contiguous"):
                handle.create_queue_pair(256, cq_depth=1024, sq_memory=sq, cq_memory=cq)
        else:
            pair = handle.create_queue_pair(256, cq_depth=1024, sq_memory=sq, cq_memory=cq)
            issuer = Issuer(place.registers, pair)
            for _ in range(300):
                assert issuer.run(commands.flush(1)).status.ok
            handle.delete_queue_pair(pair)
        sq.close()
        cq.close()


def test_namespaces() -> None:
    spaces = (
        MemoryNamespace(nsid=1, blocks=1 << 33),
        MemoryNamespace(nsid=3, blocks=1000, lba_shift=9, metadata_bytes=8, metadata_inline=True, format_index=37),
        MemoryNamespace(nsid=255, blocks=64, lba_shift=16, metadata_bytes=64),
    )
    with in_threads(ControllerConfig(namespaces=spaces)) as place, place.open() as handle:
        assert handle.namespaces() == (1, 3, 255)
        assert handle.namespace(1).capacity_lba == 1 << 33
        third = handle.namespace(3)
        assert (third.lba_bytes, third.metadata_bytes, third.metadata_inline) == (512, 8, True)
        assert third.transfer_bytes_per_block == 520
        last = handle.namespace(255)
        assert (last.lba_bytes, last.metadata_bytes, last.metadata_inline) == (65536, 64, False)
        with pytest.raises(NamespaceInvalid):
            handle.namespace(2)
        copy_through(place, handle, handle.create_queue_pair(8), 3, 520 * 64)


def test_sgl_io() -> None:
    with in_threads(config()) as place, place.open() as handle:
        issuer = Issuer(place.registers, handle.create_queue_pair(8))
        support = handle.limits.sgl
        assert support.usable
        nbytes = 16 * 4096
        out, back = place.dma.allocate(nbytes), place.dma.allocate(nbytes)
        segments = place.dma.allocate(4096, contiguous=True)
        for memory, opcode in ((out, NvmOpcode.WRITE), (back, NvmOpcode.READ)):
            # Three segments: chains and not only a last one.
            base = segments.runs[0][0]
            plan = sgl.build(memory.runs, support, [(base, 48), (base + 64, 64), (base + 1024, 1024)])
            for bus, content in plan.segments:
                segments.write(bus - base, content)
            if opcode == NvmOpcode.WRITE:
                out.write(0, pattern(5, nbytes))
            sqe = commands.transfer(opcode, nsid=1, slba=9, blocks=16, data=plan.descriptor)
            assert issuer.run(sqe).status.ok
        assert back.read(0, nbytes) == pattern(5, nbytes)


def test_features_events_abort(running: Callable[[ControllerConfig], Any]) -> None:
    with running(config()) as place, place.open() as handle:
        before = handle.get_feature(0x01)
        handle.set_feature(0x01, 5)
        assert handle.get_feature(0x01) == 5 != before
        for _ in range(4):
            handle.request_event()
        with pytest.raises(QueueInvalid, match="AERL"):
            handle.request_event()
        assert handle.abort(0, 0x7777) is False
        with pytest.raises(CommandFailed, match="invalid-field"):
            handle.get_feature(0x7A)


# ---- faults ----


def ask_again_and_again(handle: ControllerHandle) -> None:
    """A fault that is injected now is seen a little later."""
    for _ in range(100):
        handle.get_feature(0x01)


def test_lost_admin_command(running: Callable[[ControllerConfig], Any]) -> None:
    with running(config()) as place, place.open(command_timeout_ns=100 * MS) as handle:
        place.drive.inject(FaultRule(action=FaultAction.LOST, qid=0, opcode=0x0A, count=1))
        started = place.registers.now_ns()
        with pytest.raises(ControllerTimeout, match="get features"):
            handle.get_feature(0x01)
        assert place.registers.now_ns() - started >= 100 * MS
        handle.get_feature(0x01)


def test_refused_submission_queue(running: Callable[[ControllerConfig], Any]) -> None:
    with running(config()) as place, place.open() as handle:
        place.drive.inject(FaultRule(action=FaultAction.STATUS, qid=0, opcode=0x01, status=(1, 2), count=1))
        with pytest.raises(CommandFailed, match="queue-size-invalid"):
            handle.create_queue_pair(8)
        assert handle.pairs == ()
        assert Issuer(place.registers, handle.create_queue_pair(8)).run(commands.flush(1)).status.ok


def test_removal(running: Callable[[ControllerConfig], Any]) -> None:
    with running(config()) as place:
        handle = place.open()
        handle.create_queue_pair(8)
        place.drive.inject(FaultRule(action=FaultAction.GONE, immediate=True))
        with pytest.raises(ControllerGone):
            ask_again_and_again(handle)
        handle.close()


def test_fatal_state_and_recovery(running: Callable[[ControllerConfig], Any]) -> None:
    with running(config()) as place:
        handle = place.open()
        pair = handle.create_queue_pair(8)
        place.drive.inject(FaultRule(action=FaultAction.FATAL_STOP, immediate=True))
        with pytest.raises(ControllerFatal):
            ask_again_and_again(handle)
        handle.reset()
        assert handle.epoch == pair.epoch + 1
        assert Issuer(place.registers, handle.create_queue_pair(8)).run(commands.flush(1)).status.ok
        handle.close()


def test_ready_stuck(running: Callable[[ControllerConfig], Any]) -> None:
    with running(config(timeout_500ms=1)) as place:
        place.drive.inject(FaultRule(action=FaultAction.READY_STUCK, immediate=True))
        started = place.registers.now_ns()
        with pytest.raises(ControllerTimeout, match="enable"):
            place.open()
        assert place.registers.now_ns() - started >= 500 * MS


def test_slow_ready_and_shutdown(running: Callable[[ControllerConfig], Any]) -> None:
    slow = config(ready_delay_ns=50 * MS, shutdown_delay_ns=50 * MS, timeout_500ms=1)
    with running(slow) as place, place.open() as handle:
        handle.create_queue_pair(8)


def test_a_queue_pair_gets_well_after_a_lost_completion(running: Callable[[ControllerConfig], Any]) -> None:
    with running(config()) as place, place.open() as handle:
        pair = handle.create_queue_pair(8)
        place.drive.inject(FaultRule(action=FaultAction.LOST, qid=pair.qid, count=1))
        with pytest.raises(AssertionError, match="no completion"):
            Issuer(place.registers, pair).run(commands.flush(1), timeout_ns=50 * MS)
        fresh = handle.recreate_queue_pair(pair)
        issuer = Issuer(place.registers, fresh)
        for _ in range(20):
            assert issuer.run(commands.flush(1)).status.ok

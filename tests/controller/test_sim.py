"""The same controller as an agent of a sim world, driven by the same host through the world's loads and stores."""

from __future__ import annotations

import struct
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest
from host import Host, pattern, small

from tutti_hal.conformance_tests.oracle.nvme import (
    OK,
    PAGE,
    SQ_DELETED,
    rw,
    sqe,
)
from tutti_hal.errors import ControllerBusy
from tutti_hal.native import ffi_and_library
from tutti_hal.nvme.software import (
    CompletionOrder,
    ControllerConfig,
    FaultAction,
    FaultRule,
    SoftwareController,
    VolatileCache,
)

READ, WRITE = 2, 1


class World:
    """A sim world, and a host in it."""

    def __init__(self, seed: int, policy: int = 2) -> None:
        self.ffi, self.lib = ffi_and_library()
        options = self.ffi.new("tt_sim_options *")
        options.struct_size = self.ffi.sizeof("tt_sim_options")
        options.policy, options.seed = policy, seed
        options.barrier_orders_memory = 1
        self.world = self.lib.tt_world_create(options)
        assert self.world != self.ffi.NULL

    def step(self) -> None:
        report = self.ffi.new("tt_launch_report *")
        self.lib.tt_world_run(self.world, 0, 200, report)

    def load(self, address: int) -> int:
        return int(self.lib.tt_world_host_load(self.world, self.ffi.cast("void *", address), 4))

    def store(self, address: int, value: int) -> None:
        self.lib.tt_world_host_store(self.world, self.ffi.cast("void *", address), value, 4)

    @property
    def now_ns(self) -> int:
        return int(self.lib.tt_world_now_ns(self.world))

    @property
    def steps(self) -> int:
        return int(self.lib.tt_world_steps(self.world))


class SimHost(Host):
    """Reaches queue memory through the world, word by word."""

    def __init__(self, drive: SoftwareController, world: World) -> None:
        super().__init__(drive, load=world.load, store=world.store, pause=world.step, timeout=60)
        self.world = world

    def allocate(self, nbytes: int, **rest: Any) -> Any:
        memory = super().allocate(nbytes, **rest)
        assert world_map(self.world, memory.address, memory.nbytes) == 0
        plain_put, plain_get = memory.put, memory.get

        def put(offset: int, data: bytes) -> None:
            whole = len(data) // 4 * 4
            assert whole == len(data)
            for at, (word,) in enumerate(struct.iter_unpack("<I", data)):
                self.world.store(memory.address + offset + 4 * at, word)

        def get(offset: int, nbytes: int) -> bytes:
            assert nbytes % 4 == 0
            return b"".join(
                self.world.load(memory.address + offset + at).to_bytes(4, "little") for at in range(0, nbytes, 4)
            )

        assert plain_put
        assert plain_get
        memory.put, memory.get = put, get
        return memory


def world_map(world: World, address: int, nbytes: int) -> int:
    return int(world.lib.tt_world_map(world.world, world.ffi.cast("void *", address), nbytes, 1))


@contextmanager
def stepped(config: ControllerConfig, seed: int = 1, queues: int = 1, depth: int = 8) -> Iterator[SimHost]:
    world = World(seed)
    with SoftwareController(config) as drive:
        drive.attach(world)
        host = SimHost(drive, world)
        host.enable(depth=8)
        host.set_queue_count(queues)
        for qid in range(1, queues + 1):
            host.create_pair(qid, depth)
        yield host
        drive.detach()
        drive.detach()
    world.lib.tt_world_destroy(world.world)


@pytest.mark.parametrize("seed", [1, 2, 3])
def test_write_read_and_wrap(seed: int) -> None:
    with stepped(small(), seed) as host:
        memory = host.allocate(PAGE)
        data = pattern(1024, seed)
        memory.put(0, data)
        assert host.io(rw(WRITE, 3, 2, prp1=memory.bus(0))).status == OK
        assert host.drive.read_stored(1, 3 * 512, 1024) == data
        for _ in range(4):
            cids = host.send(1, [rw(READ, 3, 1, prp1=memory.bus(1024))] * 7)
            assert [c.cid for c in host.collect(1, 7)] == cids
        assert memory.get(1024, 512) == data[:512]
        # Each doorbell write is seen, one by one.
        before = host.drive.queue_counters(1).sq_doorbells
        for _ in range(5):
            host.send(1, [rw(READ, 0, 1, prp1=memory.bus(0))])
        assert len(host.collect(1, 5)) == 5
        assert host.drive.queue_counters(1).sq_doorbells == before + 5


def test_a_run_replays_from_its_seed() -> None:
    def run(seed: int) -> tuple[int, int, list[int]]:
        config = small(seed=seed, order=CompletionOrder.RANDOM, hold_ns=20_000, latency_ns=5_000)
        with stepped(config, seed) as host:
            memory = host.allocate(PAGE)
            cids = host.send(1, [rw(READ, i, 1, prp1=memory.bus(0)) for i in range(7)])
            order = [cids.index(c.cid) for c in host.collect(1, 7)]
            return host.world.steps, host.world.now_ns, order

    assert run(5) == run(5)
    assert run(5)[2] != run(6)[2] or run(5)[2] != run(7)[2]


def test_virtual_time_jumps_over_a_latency_and_is_exact() -> None:
    second = 1_000_000_000
    with stepped(small(latency_ns=10 * second)) as host:
        memory = host.allocate(PAGE)
        start = host.world.now_ns
        assert host.io(rw(READ, 0, 1, prp1=memory.bus(0))).status == OK
        assert 10 * second <= host.world.now_ns - start < 11 * second


def test_ready_delay_and_faults_in_the_world() -> None:
    config = small(ready_delay_ns=3_000_000, volatile_cache=VolatileCache.MODELLED)
    with stepped(config, queues=2) as host:
        memory = host.allocate(PAGE)
        host.drive.inject(FaultRule(action=FaultAction.STUCK, qid=2, count=1))
        [stuck] = host.send(2, [rw(READ, 0, 1, prp1=memory.bus(0))])
        assert host.io(rw(WRITE, 0, 1, prp1=memory.bus(0))).status == OK
        assert host.poll(2) == []
        assert host.admin(sqe(0x00, dwords={10: 2})).status == OK
        [ended] = host.poll(2)
        assert (ended.cid, ended.status) == (stuck, SQ_DELETED)
        host.drive.power_cut()
        host.store(0x24, 0)  # any register wakes the loop
        assert host.wait(lambda: host.drive.counters.power_cuts == 1)
        assert host.load(0x1C) == 0


def test_no_register_write_is_slept_over() -> None:
    """A value that the controller knows already, and behind it one that it does not: both arrive while it sleeps."""
    with stepped(small()) as host:
        for _ in range(4):
            host.world.step()  # it sleeps now
        for known in (host.load(0x14),) * 3:
            host.store(0x14, known)
        host.store(0x14, host.load(0x14) & ~1)
        assert host.wait(lambda: host.load(0x1C) & 1 == 0)
        host.world.step()
        for value in (0x00460000, 0x00460000, 0x00460001):
            host.store(0x14, value)
        assert host.wait(lambda: host.load(0x1C) & 1 == 1)


def test_a_world_and_threads_exclude_each_other() -> None:
    with stepped(small()) as host:
        host.world.step()
        with pytest.raises(ControllerBusy):
            host.drive.start()
        with pytest.raises(ControllerBusy):
            host.drive.attach(host.world)

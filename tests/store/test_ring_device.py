"""A store over the ring and a software controller, its modelled write cache cut off with the power."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import numpy as np
import pytest

from tutti_hal import errors
from tutti_hal.io_uring import Drive, Ring, RingOptions
from tutti_hal.nvme.device_memory import attach
from tutti_hal.nvme.software import ControllerConfig, MemoryNamespace, SoftwareController, VolatileCache
from tutti_hal.shim import Device
from tutti_hal.store import FileDevice, FormatOptions, MemoryDevice, Store, StoreOptions, Way
from tutti_hal.store.ring_device import RingDevice, open_ring_device

pytestmark = [pytest.mark.storage, pytest.mark.ring]

BLOCK, BLOCKS = 4096, 120
LAYOUT = FormatOptions(segment_bytes=12 * BLOCK, objects=40, key_limit=64)


@contextmanager
def ring_device(cache: VolatileCache) -> Iterator[tuple[RingDevice, SoftwareController]]:
    device = Device("host:threads-w32")
    with ExitStack() as stack:
        namespace = MemoryNamespace(blocks=BLOCKS)
        config = ControllerConfig(namespaces=(namespace,), volatile_cache=cache)
        controller = stack.enter_context(SoftwareController(config))
        handle, dma = attach(device, controller, stack)
        memory = dma.allocate(1 << 20)
        stack.callback(memory.close)
        options = RingOptions(depth=32, batch_limit=64, batches=1, buffers=1)
        ring = stack.enter_context(Ring.init_queue(device, [Drive(handle=handle, dma=dma)], options))
        seen = memory.buffer.numpy(np.uint8, memory.nbytes, offset=memory.skip)
        volatile = handle.controller.volatile_write_cache
        buffer = ring.register(memory)
        yield RingDevice(ring, ring.targets[0], buffer, seen, staging_bytes=8 * BLOCK, volatile=volatile), controller


def image(controller: SoftwareController) -> MemoryDevice:
    stored = controller.read_stored(1, 0, BLOCKS * BLOCK)
    return MemoryDevice(BLOCKS, BLOCK, image=np.frombuffer(bytearray(stored), np.uint8))


@pytest.mark.parametrize("cache", [VolatileCache.NONE, VolatileCache.DECLARED])
def test_round_trips_through_the_ring(cache: VolatileCache) -> None:
    with ring_device(cache) as (device, controller):
        assert device.volatile is (cache is not VolatileCache.NONE)
        Store.format(device, LAYOUT)
        store = Store.open(device)
        random = np.random.default_rng(1)
        device.arena[:40000] = random.integers(0, 256, 40000, np.uint8)
        values = {"staged": random.bytes(9 * BLOCK - 3), "empty": b"", "in the arena": device.arena[:12288].tobytes()}
        store.put_many([("staged", values["staged"]), ("empty", b"")])
        store.put("in the arena", device.arena[:12288])
        for key, value in values.items():
            assert store.get(key) == value
        target = device.arena[65536 : 65536 + 12288]
        store.get_into(["in the arena"], [target])
        assert target.tobytes() == values["in the arena"]
        flushes = controller.counters.io_commands.get(0, 0)
        # Three transactions, each with one flush; making and opening the store flush whatever the cache is.
        assert flushes == (7 if device.volatile else 4)
        assert {e.key: again.get(e.key) for again in [Store.open(image(controller))] for e in again.entries()} == {
            key.encode(): value for key, value in values.items()
        }


@pytest.mark.crash
@pytest.mark.parametrize(("seed", "survive"), [(1, 0.0), (2, 0.5), (3, 0.9)])
def test_power_cuts_of_the_controllers_own_cache(seed: int, survive: float) -> None:
    """What was acknowledged is on the medium when the cache is lost; what the store had not flushed need not be."""
    with ring_device(VolatileCache.MODELLED) as (device, controller):
        Store.format(device, LAYOUT, store_id=bytes(16))
        store = Store.open(device, StoreOptions(checkpoint_every=3))
        random = np.random.default_rng(seed)
        model: dict[bytes, bytes] = {}
        for _ in range(int(random.integers(3, 25))):
            key = f"k{random.integers(5)}".encode()
            if random.random() < 0.2:
                store.delete([key])
                model.pop(key, None)
            else:
                model[key] = random.bytes(int(random.integers(0, 20000)))
                store.put(key, model[key])
        device._ring.close()
        device._ring.close()  # deletes its queues, which flushes nothing
        controller.power_cut(seed + 1, survive)
        for way in Way:
            found = Store.open(image(controller), StoreOptions(way=way))
            assert {entry.key: found.get(entry.key) for entry in found.entries()} == model


def test_a_file_is_locked_while_a_ring_serves_it(tmp_path: Path) -> None:
    path = tmp_path / "store"
    path.write_bytes(bytes(BLOCKS * BLOCK))
    with open_ring_device(Device("host:threads-w32"), path, arena_bytes=65536) as device:
        Store.format(device, LAYOUT)
        with Store.open(device) as store:
            store.put("k", b"v" * 5000)
        with pytest.raises(errors.StoreLocked):
            FileDevice(path)
    with FileDevice(path, read_only=True) as device:
        assert Store.open(device, StoreOptions(read_only=True)).get("k") == b"v" * 5000

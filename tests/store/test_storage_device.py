"""A store over the storage runtime: striped over two software drives, their write caches cut off with the power."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import numpy as np
import pytest

from tutti_hal import errors
from tutti_hal.io_uring import Drive
from tutti_hal.nvme.device_memory import attach
from tutti_hal.nvme.software import ControllerConfig, MemoryNamespace, SoftwareController, VolatileCache
from tutti_hal.shim import Device
from tutti_hal.storage import (
    Operation,
    RingOptions,
    RuntimeOptions,
    SoftwareDrive,
    Status,
    StorageDrive,
    StorageRuntime,
    make_requests,
    open_software_drives,
    path_uri,
)
from tutti_hal.storage.drives import host_mapper
from tutti_hal.storage.planning import Planner
from tutti_hal.store import FormatOptions, MemoryDevice, Store, StoreOptions, Way
from tutti_hal.store.storage_device import StorageDevice, open_storage_device

pytestmark = [pytest.mark.storage, pytest.mark.ring]

BLOCK = 4096
UNIT = 2 * BLOCK
BLOCKS = (80, 56)  # of the drives: the first goes on alone where the second ends
LAYOUT = FormatOptions(segment_bytes=12 * BLOCK, objects=40, key_limit=64)
URI = f"striped://d0,d1?unit={UNIT}"


@contextmanager
def striped(
    *caches: VolatileCache, lba_shifts: tuple[int, int] = (12, 12)
) -> Iterator[tuple[StorageRuntime, list[SoftwareController]]]:
    device = Device("host:threads-w32")
    with ExitStack() as stack:
        controllers, drives = [], []
        for number, cache in enumerate(caches):
            shift = lba_shifts[number]
            namespace = MemoryNamespace(blocks=BLOCKS[number] * BLOCK >> shift, lba_shift=shift)
            config = ControllerConfig(namespaces=(namespace,), volatile_cache=cache)
            controller = stack.enter_context(SoftwareController(config))
            handle, dma = attach(device, controller, stack)
            controllers.append(controller)
            drives.append(
                StorageDrive(
                    name=f"d{number}",
                    drive=Drive(handle=handle, dma=dma, namespaces=(1,)),
                    map_memory=host_mapper(controller.iommu),
                )
            )
        options = RuntimeOptions(ring=RingOptions(queues=(1, 1), batches=2, depth=32, batch_limit=24))
        runtime = StorageRuntime.create(device, drives, options)
        stack.callback(runtime.shutdown, 30.0)
        yield runtime, controllers


@contextmanager
def striped_store(*caches: VolatileCache) -> Iterator[tuple[StorageDevice, list[SoftwareController]]]:
    with striped(*caches) as (runtime, controllers):
        device = open_storage_device(runtime, URI, arena_bytes=1 << 18, staging_bytes=8 * BLOCK)
        with device as made:
            yield made, controllers


def image(controllers: list[SoftwareController]) -> MemoryDevice:
    """What lies on the drives, put together again: units by turns, then the rest of the longer one."""
    first, second = (one.read_stored(1, 0, BLOCKS[at] * BLOCK) for at, one in enumerate(controllers))
    both = min(BLOCKS) * BLOCK // UNIT
    units = [side[at * UNIT : (at + 1) * UNIT] for at in range(both) for side in (first, second)]
    whole = bytearray(b"".join(units) + first[both * UNIT :])
    return MemoryDevice(len(whole) // BLOCK, BLOCK, image=np.frombuffer(whole, np.uint8))


@pytest.mark.parametrize(
    "caches",
    [
        (VolatileCache.NONE, VolatileCache.NONE),
        (VolatileCache.DECLARED, VolatileCache.DECLARED),
        (VolatileCache.NONE, VolatileCache.DECLARED),
    ],
    ids=["none", "both", "one"],
)
def test_a_store_is_striped_over_two_drives(caches: tuple[VolatileCache, VolatileCache]) -> None:
    with striped_store(*caches) as (device, controllers):
        assert device.volatile is (VolatileCache.DECLARED in caches)
        assert (device.block_bytes, device.blocks) == (BLOCK, sum(BLOCKS))
        Store.format(device, LAYOUT)
        store = Store.open(device)
        random = np.random.default_rng(1)
        # More than a batch holds, more than staging holds, and from the arena.
        device.arena[:40000] = random.integers(0, 256, 40000, np.uint8)
        values = {"staged": random.bytes(9 * BLOCK - 3), "empty": b"", "in the arena": device.arena[:12288].tobytes()}
        store.put_many([("staged", values["staged"]), ("empty", b"")])
        store.put("in the arena", device.arena[:12288])
        for key, value in values.items():
            assert store.get(key) == value
        target = device.arena[65536 : 65536 + 12288]
        store.get_into(["in the arena"], [target])
        assert target.tobytes() == values["in the arena"]
        again = Store.open(image(controllers))
        assert {entry.key.decode(): again.get(entry.key) for entry in again.entries()} == values
        # Each flush of the store reaches each drive: with a cache, one a transaction and those of making and opening.
        flushes = [one.counters.io_commands.get(0, 0) for one in controllers]
        assert flushes == ([7, 7] if device.volatile else [4, 4])
        assert all(one.counters.io_commands.get(1, 0) > 3 for one in controllers)


def violations(seed: int, survive: float) -> int:
    """Puts and deletions, then no power at both drives; how many of the two recoveries find other than acknowledged."""
    with striped_store(VolatileCache.MODELLED, VolatileCache.MODELLED) as (device, controllers):
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
        device._runtime.shutdown()  # deletes its queues, which flushes nothing
        for number, controller in enumerate(controllers):
            controller.power_cut(seed + number, survive)
        wrong = 0
        for way in Way:
            try:
                found = Store.open(image(controllers), StoreOptions(way=way))
                wrong += {entry.key: found.get(entry.key) for entry in found.entries()} != model
            except errors.StoreError:
                wrong += 1
        return wrong


POINTS = [(1, 0.0), (2, 0.5), (3, 0.9)]


@pytest.mark.crash
@pytest.mark.parametrize(("seed", "survive"), POINTS)
def test_power_cuts_of_both_drives_lose_nothing_acknowledged(seed: int, survive: float) -> None:
    assert violations(seed, survive) == 0


@pytest.mark.crash
@pytest.mark.parametrize("reached", [0, 1])
def test_a_flush_that_reaches_one_drive_only_is_caught(reached: int, monkeypatch: pytest.MonkeyPatch) -> None:
    whole = Planner._flushes
    monkeypatch.setattr(Planner, "_flushes", lambda *args: whole(*args)[reached : reached + 1])
    assert any(violations(*point) for point in POINTS)


def test_drives_of_different_blocks_are_refused() -> None:
    """Half a block of the store on the medium is what its commit rests on never to see."""
    with striped(VolatileCache.NONE, VolatileCache.NONE, lba_shifts=(12, 9)) as (runtime, _):
        refused = pytest.raises(errors.StoreOptionInvalid, match="512 at a time")
        with refused, open_storage_device(runtime, URI, arena_bytes=BLOCK, staging_bytes=BLOCK):
            pass
        with open_storage_device(runtime, "raw://d1", arena_bytes=BLOCK, staging_bytes=BLOCK) as device:
            assert device.block_bytes == 512


def test_a_file_is_one_stores_and_others_use_the_runtime_beside(tmp_path: Path) -> None:
    path = tmp_path / "store"
    path.write_bytes(bytes(120 * BLOCK))
    device = Device("host:threads-w32")
    specs = [SoftwareDrive(name="d0", path=path), SoftwareDrive(name="d1", nbytes=1 << 20)]
    with ExitStack() as stack:
        drives = open_software_drives(device, specs, stack)
        with StorageRuntime.create(device, drives, owned=stack.pop_all()) as runtime:
            other, memory = runtime.open("raw://d1"), runtime.allocate(1 << 20)
            beside = runtime.submit(make_requests(Operation.WRITE, other, nbytes=1 << 20, memory=memory.handle))
            with open_storage_device(runtime, path_uri(str(path)), arena_bytes=65536) as made:
                Store.format(made, LAYOUT)
                store = Store.open(made)
                store.put("k", b"v" * 5000)
                second = open_storage_device(runtime, path_uri(str(path)), arena_bytes=65536)
                with pytest.raises(errors.StoreLocked), second:
                    pass
                assert beside.io is not None
                assert runtime.wait(beside.io)["status"].tolist() == [Status.OK]
                assert store.get("k") == b"v" * 5000
            with open_storage_device(runtime, path_uri(str(path)), arena_bytes=65536) as made:
                assert Store.open(made).get("k") == b"v" * 5000


def test_a_target_that_goes_away_ends_the_store_and_not_what_it_holds() -> None:
    with striped(VolatileCache.NONE, VolatileCache.NONE) as (runtime, _):
        memory = runtime.allocate(16 * BLOCK)
        device = StorageDevice(runtime, runtime.open(URI), memory, staging_bytes=8 * BLOCK)
        Store.format(device, LAYOUT)
        store = Store.open(device)
        store.put("k", b"v" * 5000)
        runtime.close(device._target)
        with pytest.raises(errors.StoreDeviceError, match="TARGET_HANDLE"):
            store.put("k", b"w" * 5000)
        with pytest.raises(errors.StoreClosed):
            store.get("k")
        device = StorageDevice(runtime, runtime.open(URI), memory, staging_bytes=8 * BLOCK)
        store = Store.open(device)
        assert store.get("k") == b"v" * 5000
        runtime.shutdown()
        with pytest.raises(errors.StoreDeviceError, match="TT-STORAGE-STOPPED"):
            store.get("k")

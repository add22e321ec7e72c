from __future__ import annotations

import mmap
import os
import subprocess
from collections.abc import Iterator
from pathlib import Path

import cffi
import numpy as np
import pytest

from tutti_hal.backends.host.sim import POLICIES, SimOptions, World, explore
from tutti_hal.errors import BadHandle, InvalidArgument, LaunchDeadlock, NotSupported, RuntimeFailure
from tutti_hal.native import ffi_and_library
from tutti_hal.paths import include_dir
from tutti_hal.profile import resolve
from tutti_hal.shim import Device, LaunchConfig, Module, Stream, launch

ONE = LaunchConfig(1, 1)


@pytest.fixture
def arch() -> str:
    return "sim-w32"


@pytest.fixture
def world(device: Device) -> Iterator[World]:
    world = World(device)
    yield world
    world.reset()


def race(device: Device, stream: Stream, module: Module, lanes: int = 2) -> int:
    with device.allocate(4, "mapped") as word:
        stream.fill(word, 0)
        launch(stream, LaunchConfig(lanes, 1), module["race"], word)
        stream.synchronize()
        return int(word.numpy(np.uint32)[0])


@pytest.mark.parametrize("policy", [p for p in POLICIES if p != "script"])
def test_a_seed_replays(device: Device, stream: Stream, module: Module, world: World, policy: str) -> None:
    runs = []
    for seed in (1, 1, 2):
        world.reset(SimOptions(policy=policy, seed=seed))
        runs.append((race(device, stream, module, 4), world.now_ns, world.steps, world.choices()))
    assert runs[0] == runs[1]
    assert policy != "random" or runs[0] != runs[2]


def test_exploration_finds_every_winner_and_replays_it(
    device: Device, stream: Stream, module: Module, world: World
) -> None:
    seen: dict[int, tuple[int, ...]] = {}
    for script, winner in explore(world, lambda: race(device, stream, module), SimOptions(preemptions=2), limit=3000):
        seen.setdefault(winner, script)
        if len(seen) == 2:
            break
    assert set(seen) == {1, 2}
    for winner, script in seen.items():
        world.reset(SimOptions(policy="script", script=script, preemptions=2))
        assert race(device, stream, module) == winner


def test_the_host_stores_while_a_kernel_runs(device: Device, stream: Stream, module: Module, world: World) -> None:
    with device.allocate(8, "mapped") as words:
        stream.fill(words, 0)
        launch(stream, ONE, module["wait_flag"], words, words[4:8], 10**9)
        assert not world.run(200)
        assert not stream.query()
        assert world.load(words.address + 4) == 0
        before = world.now_ns
        world.store(words.address, 1)
        stream.synchronize()
        assert words.numpy(np.uint32).tolist() == [1, 7]
        assert 0 < world.now_ns - before < 10**9


def test_bytes_and_halves_of_a_word_lie_where_they_belong(
    device: Device, stream: Stream, module: Module, world: World
) -> None:
    """While a kernel runs the host reaches memory through the world, which knows words only."""
    image = np.arange(1, 65, dtype=np.uint8)
    with (
        device.allocate(64, "mapped") as words,
        device.allocate(64, "mapped") as data,
        device.create_stream() as beside,
    ):
        stream.fill(words, 0)
        stream.copy(data, image)
        launch(stream, ONE, module["wait_flag"], words, words[4:8], 10**12)
        assert not world.run(200)
        assert [world.load(data.address + i, 1) for i in range(64)] == image.tolist()
        assert [world.load(data.address + i, 2) for i in range(0, 64, 2)] == image.view(np.uint16).tolist()
        world.store(data.address + 7, 0xF7, 1)
        world.store(data.address + 10, 0xFBFA, 2)
        beside.fill(data[21:50], 0xEE)
        beside.copy(data[51:58], image[1:8])
        beside.synchronize()
        world.store(words.address, 1)
        stream.synchronize()
        image[7], image[10], image[11] = 0xF7, 0xFA, 0xFB
        image[51:58] = image[1:8]
        image[57] = 8
        image[21:50] = 0xEE
        assert data.numpy().tolist() == image.tolist()


def test_a_kernel_may_wait_long_for_the_host(device: Device, stream: Stream, module: Module, world: World) -> None:
    with device.allocate(4, "mapped") as word, device.create_stream() as beside:
        stream.fill(word, 0)
        launch(stream, ONE, module["await_flag"], word)
        for _ in range(3):
            assert not world.run(100_000)
        world.store(word.address, 1)
        stream.synchronize()
        # An operation behind another launch feeds it too, while the host only waits.
        stream.fill(word, 0)
        launch(stream, ONE, module["await_flag"], word)
        launch(beside, ONE, module["add_one"], 0, word)
        beside.fill(word, 1)
        stream.synchronize()
        stream.fill(word, 0)
        launch(stream, ONE, module["await_flag"], word)
        launch(beside, ONE, module["await_flag"], word)
        with pytest.raises(LaunchDeadlock):
            stream.synchronize()


def test_a_copy_beside_a_running_kernel_is_seen_by_it(device: Device, module: Module) -> None:
    with device.create_stream() as a, device.create_stream() as b, device.allocate(8, "mapped") as words:
        a.fill(words, 0)
        launch(a, ONE, module["wait_flag"], words, words[4:8], 10**9)
        assert not a.query()
        b.copy(words[:4], np.array([3], np.uint32))
        b.synchronize()
        a.synchronize()
        assert words.numpy(np.uint32).tolist() == [3, 9]


def test_virtual_time_and_not_the_clock_on_the_wall(device: Device, stream: Stream, module: Module) -> None:
    with device.allocate(8, "mapped") as words:
        stream.fill(words, 0)
        start = stream.record()
        launch(stream, ONE, module["wait_flag"], words, words[4:8], 1_000_000)
        end = stream.record()
        stream.synchronize()
        assert 1.0 <= end - start < 1.1


def test_a_failed_world_is_reset_and_keeps_its_memory(
    device: Device, stream: Stream, module: Module, world: World
) -> None:
    with device.allocate(4, "mapped") as word:
        stream.fill(word, 5)
        launch(stream, LaunchConfig(1, 32), module["mismatch"])
        with pytest.raises(LaunchDeadlock):
            stream.synchronize()
        world.reset()
        launch(stream, ONE, module["add_one"], 1, word)
        stream.synchronize()
        assert word.numpy(np.uint32)[0] == 0x05050506


def test_a_reset_waits_for_no_work_and_refuses_nonsense(stream: Stream, module: Module, world: World) -> None:
    launch(stream, LaunchConfig(1, 32), module["add_one"], 0, None)
    with pytest.raises(RuntimeFailure, match="work is queued") as caught:
        world.reset()
    assert caught.value.canonical == "NotReady"
    stream.synchronize()
    with pytest.raises(InvalidArgument, match="random"):
        world.reset(SimOptions(policy="randon"))
    with pytest.raises(InvalidArgument):
        world.run(0)
    for address, nbytes in ((0x1001, 4), (0x1000, 3), (0, 4)):
        with pytest.raises(InvalidArgument):
            world.load(address, nbytes)
    with pytest.raises(BadHandle):
        world.remove_controller(12345)


def test_only_simulated_devices_have_a_world() -> None:
    with pytest.raises(NotSupported, match="not simulated"):
        World(Device(resolve("host:threads-w32")))


def test_simulated_devices_do_not_wait_for_others(device: Device, stream: Stream) -> None:
    other = Device(resolve("host:threads-w32"))
    with other.create_stream() as far:
        mark = far.record()
        with pytest.raises(NotSupported, match="simulated"):
            stream.wait(mark)
        mark.close()
    assert device != other


def test_a_controller_is_an_agent(device: Device, stream: Stream, module: Module, world: World, tmp_path: Path) -> None:
    """A doorbell rung by a kernel wakes a controller, which answers in memory through its port."""
    source, built = Path(__file__).parent / "doubler.cpp", tmp_path / "doubler.so"
    compiler = os.environ.get("CXX", "g++")
    flags = ["-std=c++20", "-O1", "-fPIC", "-shared", "-fvisibility=hidden", "-I", str(include_dir())]
    subprocess.run([compiler, *flags, str(source), "-o", str(built)], check=True)
    ffi, library = ffi_and_library()
    mine = cffi.FFI()
    mine.cdef("typedef struct { const uint32_t *doorbell; uint64_t answer_bus; uint32_t rung; } Doubler;")
    code = mine.dlopen(str(built))
    with (
        device.allocate(4096, "mapped") as memory,
        mmap.mmap(-1, 4096) as page,
        device.register(page, mmio=True) as bar,
    ):
        memory.numpy()[:] = 0
        iommu = library.tt_iommu_create(1)
        runs, count = ffi.new("tt_bus_run[1]"), ffi.new("uint64_t *")
        assert library.tt_iommu_map(iommu, ffi.cast("void *", memory.address), 4096, 4096, 7, runs, 1, count) == 0
        state = mine.new("Doubler *", {"doorbell": mine.cast("uint32_t *", bar.address), "answer_bus": runs[0].bus})
        mine.cdef("void serve(void *);")
        function = ffi.cast("void (*)(void *, tt_port)", int(mine.cast("uintptr_t", mine.addressof(code, "serve"))))
        argument = ffi.cast("void *", int(mine.cast("uintptr_t", state)))
        agent = world.add_controller("doubler", function, argument, iommu)
        launch(stream, ONE, module["ring_doorbell"], bar, 21)
        stream.synchronize()
        assert world.run(10_000)
        assert memory.numpy(np.uint32)[0] == 42
        world.store(bar.address, 100)
        assert world.run(10_000)
        assert world.load(memory.address) == 200
        world.remove_controller(agent)
        assert state.rung == 2
        library.tt_iommu_destroy(iommu)


def test_a_host_function_may_not_use_its_device(stream: Stream) -> None:
    stream.call(stream.synchronize)
    with pytest.raises(NotSupported, match="must not call into the runtime"):
        stream.synchronize()


def test_a_copy_sees_a_kernel_that_has_ended_while_another_one_runs(
    device: Device, stream: Stream, module: Module, world: World
) -> None:
    for seed in range(1, 9):
        world.reset(SimOptions(policy="random", seed=seed))
        found = np.zeros(64, np.uint32)
        with device.allocate(4, "mapped") as flag, device.allocate(256) as words, device.create_stream() as beside:
            for cleared in (flag, words):
                stream.fill(cleared, 0)
            stream.synchronize()
            launch(beside, ONE, module["await_flag"], flag)
            launch(stream, LaunchConfig(2, 32), module["add_one"], 64, words)
            with stream.record() as mark:
                while not mark.query():
                    world.run(64)
            stream.copy(found, words)
            assert not beside.query()
            world.store(flag.address, 1)
            beside.synchronize()
        assert found.tolist() == [1] * 64, f"seed {seed}"

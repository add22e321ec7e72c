"""Memory of mode `sim` around its edges: kernel ends, the host, the quirk of hidden stores, controllers, long runs."""

from __future__ import annotations

import ctypes
import itertools
from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest

from tutti_hal.backends.host.explore import explore

DEVICE, HOST, MMIO = 0, 1, 2


@pytest.fixture
def module(engine: Any) -> Any:
    return engine.module("memory", 1)


def address(engine: Any, array: Any) -> Any:
    return engine.ffi.cast("void *", array.ctypes.data)


def test_a_kernel_sees_all_of_the_one_before(module: Any, make_world: Any) -> None:
    for seed in range(30):
        world = make_world(seed=seed)
        data, wrong = np.zeros(64, np.uint32), np.zeros(1, np.uint32)
        for value in (1, 2, 3):
            assert world.launch(module, "fill", data, value, block=64).outcome == "done"
            assert world.launch(module, "check_next", data, wrong, value, block=64).outcome == "done"
        assert wrong[0] == 0


def test_kernels_side_by_side_are_not_ordered(module: Any, make_world: Any) -> None:
    """The control of the test above: without the end between them, stale values are read."""
    stale = 0
    for seed in range(60):
        world = make_world(seed=seed)
        data, wrong = np.zeros(64, np.uint32), np.zeros(1, np.uint32)
        world.start(module, "fill", data, 1, block=64)
        world.start(module, "check_next", data, wrong, 1, block=64)
        assert world.run().outcome == "done"
        stale += int(wrong[0])
    assert stale > 0


def test_plain_writes_of_the_host_reach_a_running_kernel(engine: Any, module: Any, make_world: Any) -> None:
    world = make_world(seed=3)
    flag = np.zeros(1, np.uint32)
    launch = world.start(module, "wait_for", flag, 7, block=4)
    assert world.run(launch, 500).outcome == "pending"
    flag[0] = 7
    assert world.run(launch).outcome == "done"
    flag[0] = 0
    launch = world.start(module, "wait_for", flag, 7, block=4)
    assert world.run(launch, 500).outcome == "pending"
    engine.lib.tt_world_host_store(world.handle, address(engine, flag), 7, 4)
    assert world.run(launch).outcome == "done"


def test_a_launch_after_a_plain_write_sees_it(module: Any, make_world: Any) -> None:
    """Also while another kernel that has a history of the word still runs."""
    for seed in range(20):
        world = make_world(seed=seed)
        data, wrong, flag = np.zeros(64, np.uint32), np.zeros(1, np.uint32), np.zeros(1, np.uint32)
        waits = world.start(module, "fill_then_wait", data, 1, flag, block=64)
        assert world.run(waits, 3000).outcome == "pending"
        data[:] = 9
        assert world.launch(module, "check_next", data, wrong, 9, block=64).outcome == "done"
        assert wrong[0] == 0
        flag[0] = 1
        assert world.run(waits).outcome == "done"


@pytest.mark.parametrize(("kind", "hidden"), [(DEVICE, True), (HOST, False)])
def test_hidden_device_stores(engine: Any, module: Any, make_world: Any, kind: int, hidden: bool) -> None:
    """The quirk: what lanes store to device memory is seen outside only when the kernel has ended."""
    world = make_world(seed=1, device_stores_invisible=1)
    data, flag = np.zeros(64, np.uint32), np.zeros(1, np.uint32)
    world.map(data, kind)
    world.map(flag, HOST)
    launch = world.start(module, "fill_then_wait", data, 5, flag, block=64)
    assert world.run(launch, 5000).outcome == "pending"
    seen = engine.lib.tt_world_host_load(world.handle, address(engine, data), 4)
    assert seen == (0 if hidden else 5)
    engine.lib.tt_world_host_store(world.handle, address(engine, flag), 1, 4)
    assert world.run(launch).outcome == "done"
    assert engine.lib.tt_world_host_load(world.handle, address(engine, data), 4) == 5


def test_a_host_that_acquires_sees_what_was_released(engine: Any, module: Any, make_world: Any) -> None:
    """MP from the device to the host: system scope never fails, device scope does for some seed and moment."""
    stale = {"device": 0, "system": 0}
    lib = engine.lib
    for name in stale:
        world = make_world()
        for seed in range(40):
            x, y, flag = (np.zeros(1, np.uint32) for _ in range(3))
            world.reset(world.options(seed=seed))
            launch = world.start(module, f"publish_{name}", x, y, flag)
            for _ in range(12):
                assert world.run(launch, 1).outcome == "pending"
                if lib.tt_world_host_load(world.handle, address(engine, y), 4) == 1:
                    stale[name] += lib.tt_world_host_load(world.handle, address(engine, x), 4) == 0
                    break
            lib.tt_world_host_store(world.handle, address(engine, flag), 1, 4)
            assert world.run(launch).outcome == "done"
    assert stale["system"] == 0
    assert stale["device"] > 0


def test_a_controller_waits_for_registers_and_timers(engine: Any, module: Any, make_world: Any) -> None:
    """It sleeps until a bell or its deadline: the clock jumps there and no step is spent on polling."""
    world = make_world(policy="fair")
    registers, log = np.zeros(4, np.uint32), np.zeros(8, np.uint64)
    world.map(registers, MMIO)
    ffi, lib = engine.ffi, engine.lib
    pair = np.array([registers.ctypes.data, log.ctypes.data], np.uint64)
    entry = ffi.cast("void (*)(void *, tt_port)", ctypes.cast(module.handle.clerk, ctypes.c_void_p).value)
    agent = ffi.new("uint64_t *")
    assert lib.tt_world_add_controller(world.handle, b"clerk", entry, address(engine, pair), ffi.NULL, agent) == 0
    assert world.launch(module, "ring_after", registers, 5_000_000, 11).outcome == "done"
    assert world.run().outcome == "done"
    assert log[0] == 11
    assert 5_000_000 <= log[1] < 5_002_000
    assert world.run(0, 1000).outcome == "done"
    assert 1_000_000 <= int(log[2]) - int(log[1]) < 1_002_000
    assert world.steps < 60
    assert lib.tt_world_remove_controller(world.handle, agent[0]) == 0
    assert log[3] == 2, "the controller was told to stop"
    assert lib.tt_world_remove_controller(world.handle, agent[0]) != 0


def test_a_long_run_keeps_little_history(engine: Any, module: Any, make_world: Any) -> None:
    """Histories are dropped as they age, and all of them when nothing runs."""
    world = make_world(seed=1)
    data = np.zeros(1 << 16, np.uint32)
    launch = world.start(module, "scribble", data, 1 << 16, 4000, block=8)
    most = 0
    while world.run(launch, 10_000).outcome == "pending":
        most = max(most, engine.lib.tt_world_live_words(world.handle))
    assert world.steps > 60_000
    assert 1000 < most <= 2048 + 8
    assert engine.lib.tt_world_live_words(world.handle) == 0


def test_a_block_takes_the_history_of_its_storage_along(engine: Any, make_world: Any) -> None:
    """What lies where the storage was is not the block's: a history kept would be compared with it, and written."""
    world = make_world(seed=1, resident_blocks=1)
    out = np.zeros(32 * 3, np.uint32)
    launch = world.start(engine.module("schedule", 1), "shared_storage", out, grid=3, block=32)
    live = [0]
    while world.run(launch, 1).outcome == "pending":
        live.append(engine.lib.tt_world_live_words(world.handle))
    # 32 words and 32 double words of storage go with each block but the last, after which nothing runs; the next block
    # may have stored a word in the same step.
    gone = [before - after for before, after in itertools.pairwise(live) if after < before]
    assert len(gone) == 2
    assert min(gone) >= 95


def test_two_waves_of_four_lanes_with_two_pre_emptions(module: Any, make_world: Any) -> None:
    """Tickets handed out by an atomic add are unique in every run; by a load and a store they are not."""
    world = make_world()

    def outcomes(kernel: str, max_runs: int) -> Any:
        options = world.options(policy="script", preemptions=3, delays_only=1, idle_pauses=2, staleness_reads=1)

        def attempt(script: Sequence[int]) -> tuple[list[tuple[int, int]], bool]:
            world.set_script(options, script)
            world.reset(options)
            next_ticket, tickets = np.zeros(1, np.uint32), np.zeros(8, np.uint32)
            assert world.launch(module, kernel, next_ticket, tickets, grid=2, block=4).outcome == "done"
            return world.choices(), len(set(tickets.tolist())) == 8

        return explore(attempt, max_runs)

    good = outcomes("ticket_by_add", 20_000)
    assert good.complete
    assert good.runs > 100
    assert set(good.outcomes) == {True}
    assert outcomes("ticket_by_store", 2_000).outcomes[False] > 0


def test_explore_takes_every_leaf_once() -> None:
    seen = []

    def attempt(script: Sequence[int]) -> tuple[list[tuple[int, int]], str]:
        taken = list(script) + [0] * (3 - len(script))
        widths = [2, 3, 2] if taken[0] == 0 else [2, 1, 2]
        seen.append(tuple(taken))
        return list(zip(taken, widths, strict=True)), str(taken[0])

    found = explore(attempt, 100)
    assert found.complete
    assert found.runs == len(set(seen)) == 3 * 2 + 1 * 2
    assert found.outcomes == {"0": 6, "1": 2}
    assert not explore(attempt, 3).complete

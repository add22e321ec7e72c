"""Mode `sim`: schedules, the virtual clock, replay, reports."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

WIDTHS = (32, 64, 128)
POLICIES = ("fair", "lockstep", "random", "starve_one", "pct", "script", "one_lane")
#: Policies under which every lane that can run runs in the end.
INDEPENDENT = ("fair", "random", "starve_one", "pct", "script")


@pytest.mark.parametrize("policy", POLICIES)
@pytest.mark.parametrize("width", WIDTHS)
def test_barrier_and_wave_sync(engine: Any, make_world: Any, policy: str, width: int) -> None:
    world = make_world(policy=policy, seed=11)
    for block in (1, 33, 140):
        counter, wrong = np.zeros(2, np.uint32), np.zeros(1, np.uint32)
        module = engine.module("schedule", 1, width)
        report = world.launch(module, "barrier_rounds", counter, wrong, 3, grid=2, block=block)
        assert report.outcome == "done", report.message
        assert counter.tolist() == [3 * block] * 2
        assert wrong[0] == 0
        counter = np.zeros(8, np.uint32)
        report = world.launch(engine.module("waves", 1, width), "sync_rounds", counter, wrong, 3, block=block)
        assert report.outcome == "done", report.message
        assert wrong[0] == 0


# ---- the three kernels whose outcome depends on the schedule ----


def test_a_wait_inside_a_wave_deadlocks_in_lockstep_only(engine: Any, make_world: Any) -> None:
    module = engine.module("schedule", 1)
    for policy in INDEPENDENT:
        lock, total = np.zeros(1, np.uint32), np.zeros(1, np.uint32)
        report = make_world(policy=policy, seed=5).launch(module, "lock_in_wave", lock, total, block=8)
        assert report.outcome == "done", report.message
        assert total[0] == 8
    lock, total = np.zeros(1, np.uint32), np.zeros(1, np.uint32)
    report = make_world(policy="lockstep", seed=5).launch(module, "lock_in_wave", lock, total, block=8)
    assert report.outcome == "deadlock"
    assert report.stuck_lanes == 8
    assert "block 0 threads 1-7 at pause" in report.message


def test_a_lane_that_goes_on_alone_waits_for_ever_for_one_of_its_wave(engine: Any, make_world: Any) -> None:
    module = engine.module("schedule", 1)

    def outcomes(policy: str) -> set[str]:
        found = set()
        for seed in range(8):
            data, flag = np.zeros(1, np.uint32), np.zeros(1, np.uint32)
            world = make_world(policy=policy, seed=seed)
            found.add(world.launch(module, "fenced_handover", data, flag, block=8).outcome)
        return found

    assert outcomes("random") == {"done"}
    assert "deadlock" in outcomes("one_lane")  # unless the lane that hands over happens to be first
    counter, wrong = np.zeros(8, np.uint32), np.zeros(1, np.uint32)
    waves = engine.module("waves", 1, 32)
    report = make_world(policy="one_lane").launch(waves, "sync_rounds", counter, wrong, 3, block=64)
    assert report.outcome == "done", report.message


@pytest.mark.parametrize("policy", POLICIES)
@pytest.mark.parametrize("width", WIDTHS)
def test_a_wait_across_waves_finishes(engine: Any, make_world: Any, policy: str, width: int) -> None:
    flag, done = np.zeros(1, np.uint32), np.zeros(1, np.uint32)
    module = engine.module("schedule", 1, width)
    report = make_world(policy=policy, seed=5).launch(module, "wait_across_waves", flag, done, block=2 * width)
    assert report.outcome == "done", report.message
    assert done[0] == 2 * width


@pytest.mark.parametrize("policy", POLICIES)
def test_lanes_that_left_count_as_arrived(engine: Any, make_world: Any, policy: str) -> None:
    passed = np.zeros(1, np.uint32)
    report = make_world(policy=policy).launch(engine.module("schedule", 1), "barrier_early_exit", passed, block=9)
    assert report.outcome == "done"
    assert passed[0] == 5


# ---- trouble ----


def test_a_deadlock_names_every_lane(engine: Any, make_world: Any) -> None:
    report = make_world().launch(engine.module("schedule", 1), "barrier_mismatch", block=4)
    assert report.outcome == "deadlock"
    assert report.stuck_lanes == 4
    assert "thread 0 at block_barrier" in report.message
    assert "thread 1 at wave_sync" in report.message


@pytest.mark.parametrize("plainly", [False, True])
@pytest.mark.parametrize("policy", POLICIES)
def test_a_kernel_that_the_host_feeds_is_no_deadlock(engine: Any, make_world: Any, policy: str, plainly: bool) -> None:
    world, flag = make_world(policy=policy, seed=3), np.zeros(1, np.uint32)
    world.map(flag, 1)
    fed = world.start(engine.module("schedule", 1), "spin_with_pause", flag, block=3)
    busy = world.run(fed, 1000)
    assert (busy.outcome, busy.stuck_lanes, busy.steps) == ("pending", 0, 1000)
    idle = world.run(fed, 1_000_000)
    # Of a wave of lanes that go on one by one only the first has come to the wait.
    stuck = 1 if policy == "one_lane" else 3
    assert (idle.outcome, idle.stuck_lanes, idle.steps) == ("pending", stuck, 1_000_000)
    assert "until the host stores" in idle.message
    assert 30_000_000 < idle.elapsed_ns * stuck < 60_000_000  # pauses of 40 ns, of those lanes side by side
    again = world.run(fed, 1000)
    assert (again.outcome, again.stuck_lanes, again.steps) == ("pending", stuck, 1000)
    if plainly:
        flag[0] = 1
    else:
        engine.lib.tt_world_host_store(world.handle, engine.ffi.cast("void *", flag.ctypes.data), 1, 4)
    assert world.run(fed, 1000).outcome == "done"


def test_a_fed_kernel_ends_at_its_limits(engine: Any, make_world: Any) -> None:
    flag = np.zeros(1, np.uint32)
    module = engine.module("schedule", 1)
    world = make_world(seed=3)
    fed = world.start(module, "spin_with_pause", flag, limit_ns=10_000_000)
    assert world.run(fed, 100_000).outcome == "pending"
    ended = world.run(fed, 1 << 60)
    assert (ended.outcome, ended.elapsed_ns) == ("limit", 10_000_000)
    world = make_world(seed=3, max_steps=1_000_000)
    ended = world.run(world.start(module, "spin_with_pause", flag), 1 << 60)
    assert (ended.outcome, ended.steps) == ("limit", 1_000_000)
    world = make_world(seed=3)
    fed = world.start(module, "spin_with_pause", flag)
    assert world.run(fed, 1_000_000).outcome == "pending"
    assert world.run(fed).outcome == "deadlock"  # this time the host only waits


def test_lanes_that_wait_for_each_other_are_a_deadlock_whatever_the_host_does(engine: Any, make_world: Any) -> None:
    module, flag = engine.module("schedule", 1), np.zeros(1, np.uint32)
    world = make_world()
    fed = world.start(module, "spin_with_pause", flag)
    stuck = world.start(module, "barrier_mismatch", block=4)
    assert world.run(fed, 1_000_000).outcome == "pending"
    assert world.run(stuck, 1).outcome == "deadlock"
    assert world.run(fed, 1_000_000).outcome == "pending"
    assert world.run(fed).outcome == "deadlock"


def test_a_spin_for_ever_is_a_deadlock(engine: Any, make_world: Any) -> None:
    """Nothing changes, nobody looks at the clock, no timer is set: no lane can ever leave its loop."""
    report = make_world().launch(engine.module("schedule", 1), "spin_with_pause", np.zeros(1, np.uint32), block=2)
    assert report.outcome == "deadlock"
    assert "threads 0-1 at pause" in report.message


def test_a_spin_without_pause_meets_the_step_limit(engine: Any, make_world: Any) -> None:
    world = make_world(max_steps=20_000)
    report = world.launch(engine.module("schedule", 1), "spin_without_pause", np.zeros(1, np.uint32))
    assert report.outcome == "limit"
    assert "20000 steps" in report.message


def test_a_spin_on_the_clock_meets_the_time_limit_exactly(engine: Any, make_world: Any) -> None:
    world = make_world()
    module = engine.module("schedule", 1)
    assert world.launch(module, "spin_on_clock", 50_000).outcome == "done"
    for limit_ns in (1, 13, 1_000, 100_000):
        report = world.launch(module, "spin_on_clock", 1_000_000, limit_ns=limit_ns)
        assert (report.outcome, report.elapsed_ns) == ("limit", limit_ns)


def test_the_clock_jumps_over_sleep(engine: Any, make_world: Any) -> None:
    slept = np.zeros(3, np.uint64)
    report = make_world().launch(engine.module("schedule", 1), "sleeper", slept, 3_000_000_000, block=3)
    assert report.outcome == "done"
    assert report.steps < 40
    assert slept.min() >= 3_000_000_000
    assert slept.max() < 3_000_001_000


def test_a_trap_ends_the_launch_and_the_world_lives_on(engine: Any, make_world: Any) -> None:
    world, module = make_world(), engine.module("schedule", 1)
    report = world.launch(module, "trap_one", 5, block=8)
    assert report.outcome == "trap"
    assert "thread 5 " in report.message
    assert world.launch(module, "trap_one", 8, block=8).outcome == "done"


def test_a_module_of_the_other_mode_is_refused(engine: Any, make_world: Any, launch: Any) -> None:
    assert make_world().launch(engine.module("schedule", 0), "barrier_mismatch").outcome == "invalid"
    report = launch(engine.module("schedule", 1), "barrier_mismatch")
    assert report.outcome == "invalid"
    assert "other mode" in report.message


# ---- budgets, residency, replay ----


def test_a_budget_pauses_a_run_without_changing_it(engine: Any, make_world: Any) -> None:
    module = engine.module("schedule", 1)

    def run(budget: int) -> tuple[int, list[tuple[int, int]], list[int]]:
        world = make_world(seed=9)
        counter, wrong = np.zeros(2, np.uint32), np.zeros(1, np.uint32)
        launch = world.start(module, "barrier_rounds", counter, wrong, 4, grid=2, block=12)
        pending = 0
        while world.run(launch, budget).outcome == "pending":
            pending += 1
        assert (pending > 3) == (budget != 0)
        return world.steps, world.choices(), counter.tolist()

    assert run(0) == run(50)


@pytest.mark.parametrize("policy", POLICIES)
def test_the_same_options_replay_exactly(engine: Any, make_world: Any, policy: str) -> None:
    module = engine.module("waves", 1)

    def run(**options: Any) -> tuple[int, int, list[tuple[int, int]], bytes]:
        world = make_world(**options)
        mask_of, members = np.zeros(40, np.uint64), np.zeros(1, np.uint32)
        assert world.launch(module, "active_groups", mask_of, members, block=40).outcome == "done"
        assert members[0] == 40
        return world.steps, world.now_ns, world.choices(), mask_of.tobytes()

    first = run(policy=policy, seed=21)
    assert first == run(policy=policy, seed=21)
    if policy == "random":
        assert first != run(policy=policy, seed=22)
    replayed = run(policy="script", script=[taken for taken, _ in first[2]])
    if policy not in ("fair", "lockstep"):  # these two never ask whether a group closes early
        assert replayed == first


def test_resident_blocks_bound_who_progresses(engine: Any, make_world: Any) -> None:
    module = engine.module("schedule", 1)
    flag, done = np.zeros(1, np.uint32), np.zeros(1, np.uint32)
    report = make_world(policy="fair").launch(module, "wait_across_blocks", flag, done, grid=4)
    assert report.outcome == "done"
    report = make_world(policy="fair", resident_blocks=2).launch(module, "wait_across_blocks", flag * 0, done, grid=4)
    assert report.outcome == "deadlock"
    assert report.stuck_lanes == 2


@pytest.mark.parametrize("width", [32, 64])
def test_active_groups_are_subsets_that_vary(engine: Any, make_world: Any, width: int) -> None:
    """Fair: the whole wave. Random: any split, but always a partition with the caller in its own group."""
    module, block = engine.module("waves", 1, width), width + 5
    seen = set()
    for policy, seed in [("fair", 0), *(("random", seed) for seed in range(20))]:
        mask_of, members = np.zeros(block, np.uint64), np.zeros(1, np.uint32)
        report = make_world(policy=policy, seed=seed).launch(module, "active_groups", mask_of, members, block=block)
        assert report.outcome == "done"
        assert members[0] == block
        masks = [int(mask) for mask in mask_of]
        for thread, mask in enumerate(masks):
            lanes = [bit for bit in range(width) if mask >> bit & 1]
            assert thread % width in lanes
            assert all(masks[thread - thread % width + lane] == mask for lane in lanes)
        if policy == "fair":
            assert set(masks) == {(1 << width) - 1, 31}
        seen.add(tuple(masks))
    assert len(seen) > 10


@pytest.mark.parametrize("width", [32, 64])
@pytest.mark.parametrize("policy", INDEPENDENT)
def test_wave_active_never_waits_for_a_lane_that_went_ahead(
    engine: Any, make_world: Any, policy: str, width: int
) -> None:
    module, limit_ns = engine.module("waves", 1, width), 1_000_000
    for seed in range(8):
        world = make_world(policy=policy, seed=seed)
        through, late = np.zeros(1, np.uint32), np.zeros(1, np.uint32)
        report = world.launch(module, "active_then_wait", through, late, limit_ns, block=width)
        assert report.outcome == "done", report.message
        assert (through[0], late[0]) == (width, 0)
        script = [taken for taken, _ in world.choices()]
        if policy == "random":
            again, replay = np.zeros(1, np.uint32), make_world(policy="script", script=script)
            replay.launch(module, "active_then_wait", again, late, limit_ns, block=width)
            assert (replay.steps, replay.now_ns) == (world.steps, world.now_ns)


def test_misuse_of_a_mask_is_a_trap(engine: Any, make_world: Any) -> None:
    report = make_world().launch(engine.module("waves", 1), "ballot_without_caller", block=4)
    assert report.outcome == "trap"
    assert "does not name the caller" in report.message


@pytest.mark.parametrize("bad", [{"policy": 9}, {"struct_size": 8}])
def test_bad_options_are_refused(engine: Any, bad: dict[str, int]) -> None:
    options = engine.ffi.new("tt_sim_options *")
    options.struct_size = engine.ffi.sizeof("tt_sim_options")
    for name, value in bad.items():
        setattr(options, name, value)
    assert engine.lib.tt_world_create(options) == engine.ffi.NULL

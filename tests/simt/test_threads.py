"""Mode `threads`: barriers, waves, waits, limits, reports."""

from __future__ import annotations

import threading
import time
from typing import Any

import numpy as np
import pytest

WIDTHS = (32, 64, 128)


@pytest.mark.parametrize("width", WIDTHS)
@pytest.mark.parametrize("block", [1, 31, 33, 200])
def test_barrier_holds_every_lane(engine: Any, launch: Any, width: int, block: int) -> None:
    module = engine.module("schedule", 0, width)
    counter, wrong = np.zeros(3, np.uint32), np.zeros(1, np.uint32)
    report = launch(module, "barrier_rounds", counter, wrong, 7, grid=3, block=block)
    assert report.outcome == "done", report.message
    assert counter.tolist() == [7 * block] * 3
    assert wrong[0] == 0


def test_lanes_that_left_count_as_arrived(engine: Any, launch: Any) -> None:
    passed = np.zeros(1, np.uint32)
    assert launch(engine.module("schedule", 0), "barrier_early_exit", passed, block=100).outcome == "done"
    assert passed[0] == 50


def test_a_deadlock_names_every_lane(engine: Any, launch: Any) -> None:
    report = launch(engine.module("schedule", 0), "barrier_mismatch", grid=2, block=4)
    assert report.outcome == "deadlock"
    assert report.stuck_lanes >= 4
    assert "barrier_mismatch: deadlock" in report.message
    assert "thread 0 at block_barrier" in report.message
    assert "thread 1 at wave_sync" in report.message


@pytest.mark.parametrize("kernel", ["wait_across_waves", "wait_across_blocks", "lock_in_wave"])
def test_waits_that_the_mode_allows_finish(engine: Any, launch: Any, kernel: str) -> None:
    flag, done = np.zeros(1, np.uint32), np.zeros(1, np.uint32)
    report = launch(engine.module("schedule", 0), kernel, flag, done, grid=5, block=64)
    assert report.outcome == "done", report.message
    assert done[0] == 5 * 64


@pytest.mark.parametrize("kernel", ["spin_without_pause", "spin_with_pause"])
def test_a_launch_is_bounded(engine: Any, launch: Any, kernel: str) -> None:
    flag = np.zeros(1, np.uint32)
    began = time.monotonic()
    report = launch(engine.module("schedule", 0), kernel, flag, grid=2, block=40, limit_ns=50_000_000)
    assert time.monotonic() - began < 5
    assert report.outcome == "limit"
    assert report.stuck_lanes == 80
    assert "limit of 50000000 ns" in report.message


def test_a_spinning_lane_lets_another_launch_run(engine: Any, launch: Any) -> None:
    module = engine.module("schedule", 0)
    flag, seen = np.zeros(1, np.uint32), []
    waits = [
        threading.Thread(target=lambda: seen.append(launch(module, "spin_without_pause", flag, grid=2, block=2)))
        for _ in range(3)
    ]
    for wait in waits:
        wait.start()
    time.sleep(0.05)
    done = np.zeros(1, np.uint32)
    assert launch(module, "wait_across_blocks", np.zeros(1, np.uint32), done, grid=4, block=8).outcome == "done"
    flag[0] = 1
    for wait in waits:
        wait.join()
    assert [report.outcome for report in seen] == ["done"] * 3


def test_a_trap_ends_the_launch_and_the_pool_lives_on(engine: Any, launch: Any) -> None:
    module = engine.module("schedule", 0)
    for who in (0, 5, 63):
        report = launch(module, "trap_one", who, grid=2, block=64)
        assert report.outcome == "trap"
        assert f"thread {who} " in report.message
    assert launch(module, "trap_one", 64, grid=2, block=64).outcome == "done"


def test_sleep_lasts_at_least_as_long(engine: Any, launch: Any) -> None:
    slept = np.zeros(3, np.uint64)
    report = launch(engine.module("schedule", 0), "sleeper", slept, 2_000_000, block=3)
    assert report.outcome == "done"
    assert slept.min() >= 2_000_000
    assert report.elapsed_ns < 1_000_000_000


@pytest.mark.parametrize("width", WIDTHS)
def test_geometry(engine: Any, launch: Any, width: int) -> None:
    grid, block = (2, 3, 2), (5, 3, 2)
    out = np.zeros((12, 30, 13), np.uint32)
    assert launch(engine.module("schedule", 0, width), "geometry", out, grid=grid, block=block).outcome == "done"
    for b in range(12):
        for t in range(30):
            thread = [t % 5, t // 5 % 3, t // 15]
            where = [b % 2, b // 2 % 3, b // 6]
            assert out[b, t].tolist() == [*thread, *where, *block, *grid, t % width]


def test_shared_storage_is_per_block(engine: Any, launch: Any) -> None:
    out = np.zeros((3, 20), np.uint32)
    assert launch(engine.module("schedule", 0), "shared_storage", out, grid=3, block=20).outcome == "done"
    for block in range(3):
        assert out[block].tolist() == [2 * ((t + 1) % 20) + 100 * block for t in range(20)]


def test_crc32c_step(engine: Any, launch: Any) -> None:
    """The reference is the polynomial itself, bit by bit."""

    def step(crc: int, data: bytes) -> int:
        for byte in data:
            crc ^= byte
            for _ in range(8):
                crc = crc >> 1 ^ (0x82F63B78 if crc & 1 else 0)
        return crc

    out = np.zeros(2, np.uint32)
    value = 0x0123456789ABCDEF
    assert launch(engine.module("schedule", 0), "crc_of", out, value).outcome == "done"
    data = value.to_bytes(8, "little")
    assert out.tolist() == [step(0xFFFFFFFF, data[:4]), step(0xFFFFFFFF, data)]


@pytest.mark.parametrize("width", WIDTHS)
@pytest.mark.parametrize("block", [1, 33, 150])
def test_wave_sync(engine: Any, launch: Any, width: int, block: int) -> None:
    module = engine.module("waves", 0, width)
    counter, wrong, passed = np.zeros(8, np.uint32), np.zeros(1, np.uint32), np.zeros(1, np.uint32)
    assert launch(module, "sync_rounds", counter, wrong, 5, block=block).outcome == "done"
    assert wrong[0] == 0
    assert counter.sum() == 5 * block
    assert launch(module, "sync_early_exit", passed, block=block).outcome == "done"
    assert passed[0] == sum(t % width % 3 != 0 for t in range(block))


@pytest.mark.parametrize("width", [32, 64])
def test_active_ballot_shuffle(engine: Any, launch: Any, width: int) -> None:
    module, block = engine.module("waves", 0, width), 70
    mask_of, members = np.zeros(block, np.uint64), np.zeros(1, np.uint32)
    assert launch(module, "active_groups", mask_of, members, block=block).outcome == "done"
    assert members[0] == block
    pairs = np.zeros((block, 2), np.uint64)
    assert launch(module, "ballot_odd", pairs, block=block).outcome == "done"
    odd = sum(1 << bit for bit in range(1, width, 2))
    for thread in range(block):
        mask, ballot = int(pairs[thread, 0]), int(pairs[thread, 1])
        assert mask >> (thread % width) & 1
        assert ballot == mask & odd
    assert launch(module, "shuffle_from_first", pairs, block=block).outcome == "done"
    for thread in range(block):
        first = thread - thread % width
        assert pairs[thread].tolist() == [(first << 33) + 5, 0]


def test_a_switch_keeps_what_a_call_keeps(engine: Any, launch: Any) -> None:
    assert launch(engine.module("schedule", 0), "kept_registers", 1000, grid=2, block=33).outcome == "done"


@pytest.mark.parametrize("width", [32, 64])
def test_wave_active_never_waits_for_a_lane_that_went_ahead(engine: Any, launch: Any, width: int) -> None:
    through, late = np.zeros(1, np.uint32), np.zeros(1, np.uint32)
    module, limit_ns = engine.module("waves", 0, width), 5_000_000_000
    assert launch(module, "active_then_wait", through, late, limit_ns, block=width).outcome == "done"
    assert (through[0], late[0]) == (width, 0)


@pytest.mark.parametrize("width", [32, 64])
def test_a_group_holds_one_side_of_a_branch(engine: Any, launch: Any, width: int) -> None:
    mask_of = np.zeros(width, np.uint64)
    assert launch(engine.module("waves", 0, width), "active_in_branches", mask_of, block=width).outcome == "done"
    fours = sum(1 << bit for bit in range(0, width, 4))
    for thread, mask in enumerate(mask_of.tolist()):
        assert mask >> thread & 1
        assert mask & ~(fours if thread % 4 == 0 else (1 << width) - 1 - fours) == 0


@pytest.mark.parametrize("width", [32, 64])
def test_lanes_that_move_together_wait_for_each_that_can_come(engine: Any, launch: Any, width: int) -> None:
    rounds, block = 6, 3 * width - 5
    mask_of = np.zeros((rounds, block), np.uint64)
    assert launch(engine.module("waves", 0, width), "together_late", mask_of, rounds, block=block).outcome == "done"
    for round_ in range(rounds):
        stays = [t for t in range(block) if round_ < 2 or t % 3 != 0]
        live = {w: sum(1 << t % width for t in stays if t // width == w) for w in range(3)}
        assert mask_of[round_].tolist() == [live[t // width] if t in stays else 0 for t in range(block)]


def test_lanes_that_wait_elsewhere_do_not_come(engine: Any, launch: Any) -> None:
    mask_of = np.zeros(32, np.uint64)
    module = engine.module("waves", 0)
    assert launch(module, "together_without_those_at_a_barrier", mask_of, block=32).outcome == "done"
    assert mask_of.tolist() == [0x55555555, 0] * 16


def test_a_wait_within_a_wave_that_moves_together_is_told(engine: Any, launch: Any) -> None:
    flag = np.zeros(1, np.uint32)
    report = launch(engine.module("waves", 0), "together_against_a_spin", flag, block=3, limit_ns=50_000_000)
    assert report.outcome == "limit"
    assert "thread 0 at pause" in report.message
    assert "threads 1-2 at wave_together" in report.message


@pytest.mark.parametrize(
    ("kernel", "sentence"),
    [
        ("ballot_without_caller", "does not name the caller"),
        ("ballot_of_the_gone", "lane 0, which has ended"),
    ],
)
def test_misuse_of_a_mask_is_a_trap(engine: Any, launch: Any, kernel: str, sentence: str) -> None:
    report = launch(engine.module("waves", 0), kernel, block=8)
    assert report.outcome == "trap"
    assert sentence in report.message


def test_configurations_that_cannot_be_launched(engine: Any, launch: Any) -> None:
    module = engine.module("schedule", 0)
    assert launch(module, "barrier_mismatch", grid=0).outcome == "invalid"
    assert "1024" in launch(module, "barrier_mismatch", block=(33, 32, 1)).message
    assert launch(module, "lane_switches", 1, block=1024).outcome == "done"


def test_more_blocks_than_fit(engine: Any, launch: Any) -> None:
    counter, wrong = np.zeros(64, np.uint32), np.zeros(1, np.uint32)
    report = launch(engine.module("schedule", 0), "barrier_rounds", counter, wrong, 1, grid=64, block=1024)
    assert report.outcome == "done"
    assert counter.tolist() == [1024] * 64
    assert wrong[0] == 0

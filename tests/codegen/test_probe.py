"""The rendered primitives do what their contract says, on every arch of HOST; predicted from the contract."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import pytest

from tests.codegen.conftest import record_of
from tests.codegen.engine import DONE, TRAP, Engine, Module
from tutti_hal.codegen import render
from tutti_hal.profile import resolve
from tutti_hal.spec import load_spec
from tutti_hal.toolchain import build

ARCHS = ["threads-w32", "threads-w64", "threads-w128", "sim-w32", "sim-w64", "sim-w128"]


@pytest.fixture(params=ARCHS, scope="module")
def arch(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture(scope="module")
def module(arch: str, engine: Engine) -> Module:
    return engine.load(build(resolve(f"host:{arch}"), "probe_primitives").path)


@pytest.fixture
def width(arch: str) -> int:
    return int(arch.rpartition("w")[2])


def _run(engine: Engine, module: Module, kernel: str, grid: list[int], block: list[int], *args: object) -> None:
    outcome, message = engine.launch(module, kernel, grid, block, *args)
    assert outcome == DONE, message


def test_the_probe_calls_every_primitive() -> None:
    record = record_of("host")
    source = render(record, "threads-w32", "probe_primitives").source
    called = set(re.findall(r"\b(?:tt|TT)_\w+", source))
    frame = {"TT_DEVICE", "TT_INLINE", "TT_RESTRICT", "TT_LAUNCH_BOUNDS", "TT_ENTRY"}
    assert {p.c_name for p in load_spec().primitives.values()} - called - frame == set()


def test_geometry(engine: Engine, module: Module, width: int) -> None:
    grid, block = [2, 3, 2], [5, 3, 2]
    rows = np.zeros((12 * 30, 16), np.uint32)
    _run(engine, module, "probe_geometry", grid, block, rows)
    expected = []
    for bz, by, bx in np.ndindex(2, 3, 2):
        for rank, (tz, ty, tx) in enumerate(np.ndindex(2, 3, 5)):
            fixed = [tx, ty, tz, bx, by, bz, *block, *grid]
            expected.append([*fixed, rank % width, rank // width, width, bx * 5 + tx])
    np.testing.assert_array_equal(rows, np.array(expected, np.uint32))


@pytest.mark.parametrize("threads", [1, 31, 64, 130, 200])
def test_wave(engine: Engine, module: Module, width: int, threads: int) -> None:
    rows = np.full((threads, 10), 0xDEAD, np.uint64)
    _run(engine, module, "probe_wave", [1, 1, 1], [threads, 1, 1], rows)
    lanes = np.arange(threads) % width
    if width == 128:
        assert (rows[:, 0] == 0).all()
        np.testing.assert_array_equal(rows[:, 1], lanes)
        return
    assert (rows[:, 0] == 1).all()
    for rank, row in enumerate(rows.tolist()):
        lane = rank % width
        _, live, ballot, first5, other, count, first, below, elected, all_below = row
        members = [i for i in range(width) if live >> i & 1]
        # Which lanes meet is the engine's to choose; the caller is among them, and no lane that does not exist.
        assert lane in members
        assert max(members) < min(width, threads - rank // width * width)
        assert ballot == sum(1 << i for i in members if i % 3 == 0)
        assert first5 == min(members) * 5 + 1
        assert other == (lane ^ 1 if lane ^ 1 in members else lane) << 40 | 7
        assert count == len(members)
        assert first == min(members)
        assert below == (1 << lane) - 1
        assert elected == (lane == min(members))
        assert all_below == (1 << width) - 1


def test_all_lanes_are_below_the_end_of_a_mask(engine: Engine, arch: str, width: int) -> None:
    """Also where the end is not known to the compiler, which then may not shift by the width of the mask."""
    if width == 128:
        pytest.skip("no masks on this arch")
    module = engine.load(build(resolve(f"host:{arch}"), "probe_wave").path)
    masks, found, below = np.ones(1, np.uint64), np.zeros(2, np.uint32), np.zeros(width + 1, np.uint64)
    _run(engine, module, "wave_mask_arithmetic", [1, 1, 1], [1, 1, 1], masks, 1, found, below, width)
    assert below.tolist() == [(1 << lane) - 1 for lane in range(width + 1)]


def test_two_calls_stay_two_though_the_same_follows_them(engine: Engine, arch: str, width: int) -> None:
    """Lanes of two branches that each ask for the active lanes are never named together."""
    if width == 128:
        pytest.skip("no masks on this arch")
    module = engine.load(build(resolve(f"host:{arch}"), "probe_wave").path)
    branches, found = (np.arange(width) % 2 + 1).astype(np.uint32), np.zeros(width, np.uint64)
    _run(engine, module, "wave_active", [1, 1, 1], [width, 1, 1], branches, found)
    evens = sum(1 << lane for lane in range(0, width, 2))
    assert all(int(mask) & ~(evens << lane % 2) == 0 for lane, mask in enumerate(found))


def test_block_storage_and_barrier(engine: Engine, module: Module) -> None:
    blocks, threads = 5, 97
    rows = np.zeros((blocks, threads, 2), np.uint32)
    _run(engine, module, "probe_block", [blocks, 1, 1], [threads, 1, 1], rows)
    values = np.arange(threads) * 3 + np.arange(blocks)[:, None]
    np.testing.assert_array_equal(rows[:, :, 0], np.roll(values, -1, axis=1))
    np.testing.assert_array_equal(rows[:, :, 1], np.repeat(values.sum(axis=1)[:, None], threads, axis=1))


@pytest.mark.parametrize("bits", [32, 64])
def test_memory_returns_and_values(engine: Engine, module: Module, bits: int) -> None:
    v = 2**bits - 3
    cells = np.zeros(1, np.dtype(f"u{bits // 8}"))
    seen = np.zeros(16, np.uint64)
    _run(engine, module, f"probe_memory_u{bits}", [1, 1, 1], [1, 1, 1], cells, seen, v)
    summed = (v + 1 + v) % 2**bits
    # store, store + 1, the old value of: add, exchange, or, a cas that fails, a cas that stores; what it stored.
    once = [v, v + 1, v + 1, summed, 12, 15, 15, v]
    assert seen.tolist() == once * 2
    assert cells.tolist() == [v]


def test_no_update_is_lost(engine: Engine, module: Module, arch: str) -> None:
    blocks, threads, rounds = (4, 64, 50) if arch.startswith("threads") else (2, 33, 3)
    counters, wide = np.zeros(3, np.uint32), np.zeros(2, np.uint64)
    _run(engine, module, "probe_atomics", [blocks, 1, 1], [threads, 1, 1], counters, wide, rounds)
    n = blocks * threads * rounds
    assert counters.tolist() == [n, 3 * n, n]
    assert wide.tolist() == [n << 32, 5 * n]


def _aligned(rows: int) -> np.ndarray:
    raw = np.zeros(rows * 4 + 4, np.uint32)
    skip = -raw.ctypes.data % 16 // 4
    return raw[skip : skip + rows * 4].reshape(rows, 4)


def test_vectors_move_whole_cells(engine: Engine, module: Module) -> None:
    count = 300
    source, target = _aligned(count), _aligned(count)
    source[:] = np.arange(count * 4, dtype=np.uint32).reshape(count, 4) * 2654435761
    _run(engine, module, "probe_vectors", [2, 1, 1], [64, 1, 1], source, target, count)
    np.testing.assert_array_equal(target[::2], source[::2])
    np.testing.assert_array_equal(target[1::2], source[1::2, ::-1])


def _crc32c(data: bytes) -> int:
    """Bit by bit from the definition: reflected, polynomial 82F63B78h, all ones before and after."""
    crc = 0xFFFFFFFF
    for byte in data:
        crc ^= byte
        for _ in range(8):
            crc = crc >> 1 ^ (0x82F63B78 if crc & 1 else 0)
    return crc ^ 0xFFFFFFFF


def test_crc32c(engine: Engine, module: Module) -> None:
    assert _crc32c(b"123456789") == 0xE3069283
    for data in (bytes(32), b"\xff" * 32, bytes(range(64))):
        words, sums = np.frombuffer(data, np.uint64).copy(), np.zeros(2, np.uint32)
        _run(engine, module, "probe_crc32c", [1, 1, 1], [1, 1, 1], words, len(words), sums)
        assert sums.tolist() == [_crc32c(data)] * 2


def test_mmio(engine: Engine, module: Module) -> None:
    register, seen = np.array([7], np.uint32), np.zeros(1, np.uint32)
    _run(engine, module, "probe_mmio", [1, 1, 1], [1, 1, 1], register, 9, seen)
    assert seen.tolist() == [7]
    assert register.tolist() == [9]


def test_clock_sleep_and_print(engine: Engine, module: Module, capfd: pytest.CaptureFixture[str]) -> None:
    rows = np.zeros((40, 2), np.uint64)
    _run(engine, module, "probe_time", [1, 1, 1], [40, 1, 1], rows.ctypes.data, 1000)
    assert (rows[:, 1] > rows[:, 0]).all()
    printed = capfd.readouterr()
    assert "probe 42\nplain\n" in printed.out + printed.err


def test_trap_fails_the_launch(engine: Engine, module: Module) -> None:
    outcome, message = engine.launch(module, "probe_trap", [1, 1, 1], [40, 1, 1], 33)
    assert outcome == TRAP, message
    outcome, _ = engine.launch(module, "probe_trap", [1, 1, 1], [40, 1, 1], 1000)
    assert outcome == DONE


def test_saxpy(engine: Engine, arch: str) -> None:
    module = engine.load(build(resolve(f"host:{arch}"), "saxpy").path)
    x, y = np.arange(1000, dtype=np.float32), np.ones(1000, np.float32)
    _run(engine, module, "saxpy", [3, 1, 1], [64, 1, 1], 1000, 2.0, x, y)
    np.testing.assert_array_equal(y, 2 * x + 1)


def test_the_module_carries_its_hash_and_its_table(engine: Engine, tmp_path: Path) -> None:
    del tmp_path
    profile = resolve("host:threads-w64")
    built = build(profile, "probe_primitives")
    module = engine.load(built.path)
    ffi = engine.ffi
    assert ffi.string(module.desc.content_hash).decode() == built.sha256
    assert (module.desc.abi_version, module.desc.mode, module.desc.wave_width) == (1, 0, 64)
    assert list(module.kernels) == [kernel.name for kernel in built.kernels]
    for kernel in built.kernels:
        desc = module.kernels[kernel.name]
        assert desc.max_block_threads == kernel.max_threads
        names = [ffi.string(desc.param_names[i]).decode() for i in range(desc.param_count)]
        assert names == [param.name for param in kernel.params]
        for i, param in enumerate(kernel.params):
            assert desc.param_sizes[i] == (8 if "*" in param.ctype or "64" in param.ctype else 4)

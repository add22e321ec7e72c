"""What the CUDA lowerings do on a device: functional cases, message passing, and talk with the host.

Runs wherever there is a CUDA device, its driver and nvcc; skipped, and said, elsewhere. It uses the driver through
ctypes, so that it judges the lowerings alone. The oracles are Python, written from the primitives' contracts.
"""

from __future__ import annotations

import ctypes
import struct
import time
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest

from tests.backends.test_cuda_lowerings import compile_unit, find_nvcc, unit
from tutti_hal.backends.cuda import detect
from tutti_hal.paths import package_file
from tutti_hal.record import load_record

HERE = Path(__file__).parent
LAUNCH_FAILED = 719
MAPPED_PORTABLE = 3
MINOR, MAJOR = 76, 75


class Driver:
    """As much of the CUDA driver as the cases need."""

    def __init__(self) -> None:
        self.lib = ctypes.CDLL("libcuda.so.1")
        self.check("cuInit", 0)
        self.context = ctypes.c_void_p()
        self.check("cuDevicePrimaryCtxRetain", ctypes.byref(self.context), 0)
        self.check("cuCtxSetCurrent", self.context)
        self.module = ctypes.c_void_p()

    def call(self, name: str, *args: object) -> int:
        return int(getattr(self.lib, name)(*args))

    def check(self, name: str, *args: object) -> None:
        code = self.call(name, *args)
        assert code == 0, f"{name}: error {code}"

    def arch(self) -> str:
        numbers = []
        for attribute in (MAJOR, MINOR):
            value = ctypes.c_int()
            self.check("cuDeviceGetAttribute", ctypes.byref(value), attribute, 0)
            numbers.append(str(value.value))
        return f"sm_{''.join(numbers)}"

    def load(self, cubin: Path) -> None:
        self.check("cuModuleLoad", ctypes.byref(self.module), str(cubin).encode())

    def allocate(self, nbytes: int) -> ctypes.c_uint64:
        address = ctypes.c_uint64()
        self.check("cuMemAlloc_v2", ctypes.byref(address), ctypes.c_size_t(nbytes))
        self.check("cuMemsetD8_v2", address, ctypes.c_ubyte(0), ctypes.c_size_t(nbytes))
        return address

    def mapped(self, nbytes: int) -> tuple[ctypes.Array[ctypes.c_uint32], ctypes.c_uint64]:
        """Page-locked host memory, as 32-bit words, and its device address."""
        host, device = ctypes.c_void_p(), ctypes.c_uint64()
        self.check("cuMemHostAlloc", ctypes.byref(host), ctypes.c_size_t(nbytes), MAPPED_PORTABLE)
        self.check("cuMemHostGetDevicePointer_v2", ctypes.byref(device), host, 0)
        assert host.value is not None
        ctypes.memset(host, 0, nbytes)
        return (ctypes.c_uint32 * (nbytes // 4)).from_address(host.value), device

    def read(self, address: ctypes.c_uint64, code: str, count: int) -> tuple[int, ...]:
        form = f"<{count}{code}"
        room = ctypes.create_string_buffer(struct.calcsize(form))
        self.check("cuMemcpyDtoH_v2", room, address, ctypes.c_size_t(len(room)))
        return struct.unpack(form, room.raw[: struct.calcsize(form)])

    def write(self, address: ctypes.c_uint64, data: bytes) -> None:
        self.check("cuMemcpyHtoD_v2", address, data, ctypes.c_size_t(len(data)))

    def launch(self, name: str, grid: Sequence[int], block: Sequence[int], *args: object) -> None:
        function = ctypes.c_void_p()
        self.check("cuModuleGetFunction", ctypes.byref(function), self.module, name.encode())
        pointers = (ctypes.c_void_p * len(args))(*(ctypes.addressof(arg) for arg in args))  # type: ignore[arg-type]
        self.check("cuLaunchKernel", function, *grid, *block, 0, None, pointers, None)

    def synchronize(self) -> int:
        return self.call("cuCtxSynchronize")

    def run(self, name: str, grid: Sequence[int], block: Sequence[int], *args: object) -> None:
        self.launch(name, grid, block, *args)
        assert self.synchronize() == 0, name


@pytest.fixture(scope="module")
def cuda(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Driver]:
    if not any(node.name.removeprefix("nvidia").isdigit() for node in Path("/dev").glob("nvidia*")):
        pytest.skip("no CUDA device on this machine: the lowerings are compiled only")
    driver = Driver()
    record = load_record(package_file("backends", "cuda"))
    arch = driver.arch()
    assert arch in record.archs, f"the record has no arch {arch}"
    assert arch in detect.device_archs()
    source = tmp_path_factory.mktemp("cuda") / "probe.cu"
    kernels = (HERE / "probe_kernels.cu").read_text(encoding="utf-8")
    source.write_text(f"{unit(record, arch)}\n{kernels}", encoding="utf-8")
    driver.load(compile_unit(find_nvcc(), source, arch, "cubin"))
    yield driver
    driver.call("cuDevicePrimaryCtxRelease_v2", 0)


def test_geometry_enumerates(cuda: Driver) -> None:
    grid, block = (3, 2, 2), (5, 3, 2)
    count = 3 * 5 * 2 * 3 * 2 * 2
    seen = cuda.allocate(count * 4)
    cuda.run("probe_geometry", grid, block, seen)
    assert set(cuda.read(seen, "I", count)) == {1}


@pytest.mark.parametrize("block", [(40, 1, 1), (5, 7, 2), (33, 1, 3)])
def test_lanes_are_consecutive_threads(cuda: Driver, block: tuple[int, int, int]) -> None:
    count = block[0] * block[1] * block[2]
    lanes = cuda.allocate(count * 4)
    cuda.run("probe_lanes", (1, 1, 1), block, lanes)
    assert cuda.read(lanes, "I", count) == tuple(thread % 32 for thread in range(count))


def test_syncs_do_not_wait_for_lanes_that_ended(cuda: Driver) -> None:
    out = cuda.allocate(128 * 4)
    cuda.run("probe_exited", (1, 1, 1), (44, 1, 1), out)
    words = cuda.read(out, "I", 128)
    assert [words[64 + thread] for thread in range(0, 44, 2) if thread ^ 2 < 44] == [7] * 22


def test_wave_operations(cuda: Driver) -> None:
    size = struct.calcsize("<8IQ")
    rows = cuda.allocate(40 * size)
    cuda.run("probe_wave", (1, 1, 1), (40, 1, 1), rows)
    words = cuda.read(rows, "I", 40 * size // 4)
    groups: dict[tuple[int, int], list[int]] = {}
    for thread in range(40):
        lane, wave = thread % 32, thread // 32
        if lane % 3 == 1:
            continue
        active, ballot, elected, first, count, below, shuffled, _, low, high = words[thread * 10 : thread * 10 + 10]
        assert active >> lane & 1
        members = [other for other in range(32) if active >> other & 1]
        assert all(member % 3 != 1 for member in members)
        assert ballot == sum(1 << member for member in members if member & 4)
        assert elected == (lane == members[0])
        assert (first, count) == (members[0], len(members))
        assert below == (1 << lane) - 1
        assert shuffled == 100 + members[0]
        assert high << 32 | low == members[0] << 40 | 5
        groups.setdefault((wave, active), []).append(lane)
    for (_, active), lanes in groups.items():
        assert sum(1 << lane for lane in lanes) == active, "lanes of one mask got different masks"


def test_mask_edges(cuda: Driver) -> None:
    out = cuda.allocate(6 * 4)
    cuda.run("probe_mask_edges", (1, 1, 1), (1, 1, 1), out)
    assert cuda.read(out, "I", 6) == (0, 0x7FFFFFFF, 0xFFFFFFFF, 32, 31, 0)


@pytest.mark.parametrize("place", ["device", "host"])
@pytest.mark.parametrize("bits", [32, 64])
@pytest.mark.parametrize("scope", ["dev", "sys"])
def test_words(cuda: Driver, scope: str, bits: int, place: str) -> None:
    size, code = bits // 8, "I" if bits == 32 else "Q"
    value = (1 << bits) - 3
    words = cuda.allocate(8 * size) if place == "device" else cuda.mapped(8 * size)[1]
    old = cuda.allocate(8 * size)
    cuda.run(f"probe_words_{scope}_{bits}", (1, 1, 1), (1, 1, 1), words, old, getattr(ctypes, f"c_uint{bits}")(value))
    assert cuda.read(old, code, 8) == (value, value + 1, 0, value, 9, 15, 15, value)
    assert cuda.read(words, code, 8) == (0, value, 0, value + 1, 0, value, 0, 0)


@pytest.mark.parametrize("bits", [32, 64])
@pytest.mark.parametrize("scope", ["dev", "sys"])
def test_no_update_is_lost(cuda: Driver, scope: str, bits: int) -> None:
    blocks, threads = 64, 96
    count = blocks * threads
    words, tickets = cuda.allocate(4 * bits // 8), cuda.allocate(count * 4)
    cuda.run(f"probe_contend_{scope}_{bits}", (blocks, 1, 1), (threads, 1, 1), words, tickets)
    added, swapped, ored, _ = cuda.read(words, "I" if bits == 32 else "Q", 4)
    assert (added, swapped, ored) == (count, count, (1 << bits) - 1)
    assert set(cuda.read(tickets, "I", count)) == {1}


def test_vectors(cuda: Driver) -> None:
    cells, out = cuda.allocate(80), cuda.allocate(32)
    cuda.run("probe_vectors", (1, 1, 1), (1, 1, 1), cells, out)
    assert cuda.read(out, "I", 8) == (1, 2, 3, 4, 5, 6, 7, 8)
    assert cuda.read(cells, "I", 20) == (0,) * 4 + (1, 2, 3, 4) + (0,) * 4 + (5, 6, 7, 8) + (0,) * 4


def crc32c(data: bytes) -> int:
    """CRC-32C without the last inversion, bit by bit."""
    state = 0xFFFFFFFF
    for byte in data:
        for bit in range(8):
            odd = (state ^ byte >> bit) & 1
            state = state >> 1 ^ (0x82F63B78 if odd else 0)
    return state


def test_crc32c(cuda: Driver) -> None:
    assert crc32c(b"123456789") ^ 0xFFFFFFFF == 0xE3069283
    data = bytes(range(256)) * 4
    source, out = cuda.allocate(len(data)), cuda.allocate(8)
    cuda.write(source, data)
    cuda.run("probe_crc", (1, 1, 1), (1, 1, 1), source, ctypes.c_uint32(len(data) // 8), out)
    assert cuda.read(out, "I", 2) == (crc32c(data), crc32c(data))


def test_clock_and_sleep(cuda: Driver) -> None:
    out = cuda.allocate(32)
    before = time.monotonic_ns()
    cuda.run("probe_clock", (1, 1, 1), (1, 1, 1), out)
    elapsed = time.monotonic_ns() - before
    start, backwards, slept, end = cuda.read(out, "Q", 4)
    assert backwards == 0
    assert 0 < slept <= 100 * 2 * 20000 + 1_000_000
    assert slept <= end - start <= elapsed


@pytest.mark.parametrize("how", [1, 2], ids=["release-acquire", "fences"])
def test_message_passing(cuda: Driver, how: int) -> None:
    """No flag is seen before its data.

    A failure convicts; a pass acquits of nothing, since the twin without orders (how = 0) was not seen to fail either.
    """
    pairs = 32
    data, flag, bad = cuda.allocate(pairs * 16384), cuda.allocate(pairs * 16384), cuda.allocate(4)
    rounds = ctypes.c_uint32(20000)
    cuda.run("probe_message", (pairs * 2, 1, 1), (32, 1, 1), data, flag, rounds, ctypes.c_uint32(how), bad)
    assert cuda.read(bad, "I", 1) == (0,)
    assert cuda.read(flag, "I", 1) == (20000,)


def test_device_and_host_talk_while_a_kernel_runs(cuda: Driver) -> None:
    words, words_at = cuda.mapped(4096)
    bell, bell_at = cuda.mapped(4096)
    cuda.launch("probe_host", (1, 1, 1), (1, 1, 1), words_at, bell_at, ctypes.c_uint64(20_000_000_000))
    deadline = time.monotonic() + 30
    for turn in range(1, 1001):
        while bell[0] != turn:
            assert time.monotonic() < deadline, f"no bell for turn {turn}"
        assert list(words[16:32]) == [turn * 16 + i for i in range(16)], "the bell came before what it covers"
        words[2] = turn * 3
        words[0] = turn  # x86 keeps the order of two stores, and Python adds no reordering of its own
    assert cuda.synchronize() == 0
    assert (words[1], words[3], words[4]) == (0, 0, 1000)


def test_a_trap_fails_the_launch(cuda: Driver) -> None:
    """Last in the file: it takes the context with it."""
    out = cuda.allocate(4)
    cuda.launch("probe_trap", (1, 1, 1), (1, 1, 1), out)
    assert cuda.synchronize() == LAUNCH_FAILED
    assert cuda.call("cuCtxSynchronize") == LAUNCH_FAILED

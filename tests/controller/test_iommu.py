"""The IOMMU and the plain port, over the C ABI."""

from __future__ import annotations

import errno
import itertools
import mmap
import threading
from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tutti_hal.native import ffi_and_library

PAGE = 4096
READ, WRITE, CONTIGUOUS = 1, 2, 4


class Memory:
    """Anonymous pages, aligned to `align`, filled with a different byte a page."""

    def __init__(self, ffi: Any, pages: int, align: int = PAGE) -> None:
        self._map = mmap.mmap(-1, pages * PAGE + align)
        raw = int(ffi.cast("uintptr_t", ffi.from_buffer(self._map)))
        self.address = (raw + align - 1) // align * align
        self.nbytes = pages * PAGE
        self.view = ffi.buffer(ffi.cast("char *", self.address), self.nbytes)
        for page in range(pages):
            self.view[page * PAGE : (page + 1) * PAGE] = bytes([page % 251 + 1]) * PAGE


@pytest.fixture
def native() -> tuple[Any, Any]:
    return ffi_and_library()


@pytest.fixture
def iommu(native: tuple[Any, Any]) -> Iterator[Any]:
    _, lib = native
    handle = lib.tt_iommu_create(7)
    yield handle
    lib.tt_iommu_destroy(handle)


def map_runs(
    native: tuple[Any, Any], iommu: Any, address: int, nbytes: int, granule: int = PAGE, flags: int = 3
) -> list[tuple[int, int]]:
    ffi, lib = native
    count = ffi.new("uint64_t *")
    pointer = ffi.cast("void *", address)
    assert lib.tt_iommu_map(iommu, pointer, nbytes, granule, flags, ffi.NULL, 0, count) == errno.ENOSPC
    runs = ffi.new("tt_bus_run[]", count[0])
    assert lib.tt_iommu_map(iommu, pointer, nbytes, granule, flags, runs, count[0], count) == 0
    return [(int(run.bus), int(run.len)) for run in runs]


def translate(native: tuple[Any, Any], iommu: Any, bus: int, nbytes: int, need: int) -> tuple[int, int]:
    ffi, lib = native
    out = ffi.new("void **")
    length = int(lib.tt_iommu_translate(iommu, bus, nbytes, need, out))
    return length, int(ffi.cast("uintptr_t", out[0]))


@settings(max_examples=40, deadline=None)
@given(
    granule_shift=st.integers(12, 16),
    granules=st.integers(1, 40),
    contiguous=st.booleans(),
    seed=st.integers(0, 2**64 - 1),
)
def test_runs_cover_the_range_once_and_translate_back(
    granule_shift: int, granules: int, contiguous: bool, seed: int
) -> None:
    native = ffi_and_library()
    ffi, lib = native
    granule = 1 << granule_shift
    memory = Memory(ffi, granules * granule // PAGE, granule)
    handle = lib.tt_iommu_create(seed)
    try:
        runs = map_runs(native, handle, memory.address, memory.nbytes, granule, 3 | (CONTIGUOUS if contiguous else 0))
        if contiguous:
            assert len(runs) == 1
        assert sum(length for _, length in runs) == memory.nbytes
        at = memory.address
        for bus, length in runs:
            assert bus % granule == 0
            assert length % granule == 0
            assert bus != at
            assert translate(native, handle, bus, length, 3) == (length, at)
            assert translate(native, handle, bus + 5, length - 5, 3) == (length - 5, at + 5)
            at += length
        spans = sorted(runs)
        for (bus, length), (after, _) in itertools.pairwise(spans):
            assert bus + length <= after
        first, last = spans[0], spans[-1]
        assert translate(native, handle, first[0] - 1, 1, 1)[0] == 0
        assert translate(native, handle, last[0] + last[1], 1, 1)[0] == 0
    finally:
        lib.tt_iommu_destroy(handle)


def test_ranges_without_contiguous_are_spread(native: tuple[Any, Any], iommu: Any) -> None:
    memory = Memory(native[0], 256)
    runs = map_runs(native, iommu, memory.address, memory.nbytes)
    assert 256 // 64 < len(runs) < 256
    assert [bus for bus, _ in runs] != sorted(bus for bus, _ in runs)


def test_refusals(native: tuple[Any, Any], iommu: Any) -> None:
    ffi, lib = native
    memory = Memory(ffi, 8)
    runs = ffi.new("tt_bus_run[16]")
    count = ffi.new("uint64_t *")

    def attempt(address: int, nbytes: int, granule: int = PAGE, flags: int = 3) -> int:
        return int(lib.tt_iommu_map(iommu, ffi.cast("void *", address), nbytes, granule, flags, runs, 16, count))

    base = memory.address
    assert attempt(base + 1, PAGE) == errno.EINVAL
    assert attempt(base, PAGE + 1) == errno.EINVAL
    assert attempt(base, 0) == errno.EINVAL
    assert attempt(base, PAGE, granule=2048) == errno.EINVAL
    assert attempt(base, PAGE, granule=12288) == errno.EINVAL
    assert attempt(2**64 - PAGE, 2 * PAGE) == errno.EINVAL
    assert attempt(base, PAGE, flags=0) == errno.EINVAL
    assert attempt(base, PAGE, flags=8 | 3) == errno.EINVAL
    assert attempt(base + PAGE, 2 * PAGE) == 0
    for first, pages in ((0, 2), (1, 1), (2, 1), (2, 3), (0, 8)):
        assert attempt(base + first * PAGE, pages * PAGE) == errno.EEXIST
    assert attempt(base, PAGE) == 0
    assert attempt(base + 3 * PAGE, PAGE) == 0
    assert lib.tt_iommu_unmap(iommu, ffi.cast("void *", base + 2 * PAGE)) == errno.ENOENT


def test_permissions_bind(native: tuple[Any, Any], iommu: Any) -> None:
    memory = Memory(native[0], 2)
    [(bus, _), *_] = map_runs(native, iommu, memory.address, PAGE, flags=READ)
    assert translate(native, iommu, bus, 8, READ)[0] == 8
    assert translate(native, iommu, bus, 8, WRITE)[0] == 0
    assert translate(native, iommu, bus, 8, READ | WRITE)[0] == 0
    ffi, lib = native
    port = lib.tt_direct_port_create(iommu)
    view = lib.tt_direct_port_view(port)
    data = ffi.new("char[8]")
    assert view.ops.dma_read(view.ctx, bus, data, 8) == lib.TT_PORT_OK
    assert ffi.buffer(data)[:] == b"\x01" * 8
    assert view.ops.dma_write(view.ctx, bus, data, 8) == lib.TT_PORT_FAULT
    lib.tt_direct_port_destroy(port)


def test_a_fault_moves_nothing(native: tuple[Any, Any], iommu: Any) -> None:
    ffi, lib = native
    memory = Memory(ffi, 4)
    [(bus, length)] = map_runs(native, iommu, memory.address, memory.nbytes, flags=3 | CONTIGUOUS)
    port = lib.tt_direct_port_create(iommu)
    view = lib.tt_direct_port_view(port)
    data = ffi.new("char[]", b"\xee" * PAGE)
    before = memory.view[:]
    assert view.ops.dma_write(view.ctx, bus + length - 16, data, 17) == lib.TT_PORT_FAULT
    assert view.ops.dma_write(view.ctx, 0, data, 4) == lib.TT_PORT_FAULT
    assert view.ops.dma_write(view.ctx, memory.address, data, 4) == lib.TT_PORT_FAULT
    assert view.ops.dma_read(view.ctx, bus + length - 16, data, 17) == lib.TT_PORT_FAULT
    assert memory.view[:] == before
    assert ffi.buffer(data)[:PAGE] == b"\xee" * PAGE
    assert view.ops.dma_map(view.ctx, bus + length - 16, 17) == ffi.NULL
    lib.tt_direct_port_destroy(port)


def test_copies_cross_runs(native: tuple[Any, Any], iommu: Any) -> None:
    """A read over pieces that touch on the bus and not in host memory gathers each from its own place."""
    ffi, lib = native
    memory = Memory(ffi, 64)
    runs = map_runs(native, iommu, memory.address, memory.nbytes)
    place = {}
    at = 0
    for bus, length in runs:
        for offset in range(0, length, PAGE):
            place[bus + offset] = at + offset
        at += length
    port = lib.tt_direct_port_create(iommu)
    view = lib.tt_direct_port_view(port)
    touching = [bus for bus in place if bus + PAGE in place and place[bus + PAGE] != place[bus] + PAGE]
    assert touching
    data = ffi.new("char[]", 2 * PAGE)
    for bus in touching:
        assert view.ops.dma_read(view.ctx, bus + 100, data, 2 * PAGE - 200) == lib.TT_PORT_OK
        first, second = place[bus], place[bus + PAGE]
        wanted = memory.view[first + 100 : first + PAGE] + memory.view[second : second + PAGE - 100]
        assert ffi.buffer(data)[: 2 * PAGE - 200] == wanted
    lib.tt_direct_port_destroy(port)


def test_unmap_faults_later_access_and_waits_for_pointers(native: tuple[Any, Any], iommu: Any) -> None:
    ffi, lib = native
    memory = Memory(ffi, 1)
    [(bus, _)] = map_runs(native, iommu, memory.address, PAGE)
    port = lib.tt_direct_port_create(iommu)
    view = lib.tt_direct_port_view(port)
    assert view.ops.dma_map(view.ctx, bus, PAGE) == ffi.cast("void *", memory.address)
    done = threading.Event()

    def unmap() -> None:
        assert lib.tt_iommu_unmap(iommu, ffi.cast("void *", memory.address)) == 0
        done.set()

    thread = threading.Thread(target=unmap)
    thread.start()
    assert not done.wait(0.05)  # the port still holds a pointer
    assert view.ops.wait_until(view.ctx, 0) == lib.TT_PORT_OK
    assert done.wait(5)
    thread.join()
    data = ffi.new("char[8]")
    assert view.ops.dma_read(view.ctx, bus, data, 8) == lib.TT_PORT_FAULT
    [(again, _)] = map_runs(native, iommu, memory.address, PAGE)
    assert again != bus  # a stale bus address is a fault, not someone else's page
    lib.tt_direct_port_destroy(port)


def test_map_and_unmap_many_times(native: tuple[Any, Any], iommu: Any) -> None:
    memory = Memory(native[0], 16)
    for _ in range(300):
        map_runs(native, iommu, memory.address, memory.nbytes)
        assert native[1].tt_iommu_unmap(iommu, native[0].cast("void *", memory.address)) == 0


def test_stop_and_clock(native: tuple[Any, Any], iommu: Any) -> None:
    ffi, lib = native
    port = lib.tt_direct_port_create(iommu)
    view = lib.tt_direct_port_view(port)
    before = view.ops.now_ns(view.ctx)
    assert view.ops.wait_until(view.ctx, 2**64 - 1) == lib.TT_PORT_OK
    assert view.ops.now_ns(view.ctx) > before
    register = ffi.new("uint32_t *", 5)
    view.ops.mmio_store(view.ctx, register, 9)
    assert view.ops.mmio_load(view.ctx, register) == 9
    lib.tt_direct_port_stop(port)
    assert view.ops.wait_until(view.ctx, 2**64 - 1) == lib.TT_PORT_STOP
    lib.tt_direct_port_destroy(port)

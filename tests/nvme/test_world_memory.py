"""Memory and registers that the host reaches through a deterministic world."""

from __future__ import annotations

import ctypes
import mmap
from collections.abc import Iterator
from typing import Any

import pytest

from tutti_hal.errors import ControllerError, NvmeFieldRange
from tutti_hal.native import ffi_and_library
from tutti_hal.nvme.memory import Dma, DmaMemory, HostMemory, Registers
from tutti_hal.nvme.world_memory import WorldDma, WorldRegisters


class Pages:
    """A `Dma` of plain pages whose bus addresses are made up; freed pages are really gone."""

    def __init__(self) -> None:
        self.live = 0

    def allocate(self, nbytes: int, *, contiguous: bool = False, alignment: int = 4096) -> HostMemory:
        assert contiguous in (False, True)
        rounded = -(-nbytes // alignment) * alignment
        pages = mmap.mmap(-1, rounded)
        view = ctypes.c_char.from_buffer(pages)
        address = ctypes.addressof(view)
        keep = [pages, view]
        self.live += 1

        def release() -> None:
            self.live -= 1
            keep.pop()
            keep.pop().close()  # type: ignore[union-attr]

        del view
        return HostMemory(address, rounded, [(1 << 40, rounded)], release)


@pytest.fixture
def world() -> Iterator[Any]:
    ffi, lib = ffi_and_library()
    options = ffi.new("tt_sim_options *")
    options.struct_size = ffi.sizeof("tt_sim_options")
    options.policy = lib.TT_SCHED_RANDOM
    made = lib.tt_world_create(options)
    assert made != ffi.NULL
    yield made
    lib.tt_world_destroy(made)


def test_memory(world: Any) -> None:
    pages = Pages()
    dma = WorldDma(world, pages)
    memory = dma.allocate(100)
    assert isinstance(dma, Dma)
    assert isinstance(memory, DmaMemory)
    assert memory.nbytes == 4096
    assert memory.runs == ((1 << 40, 4096),)
    memory.write(8, bytes(range(16)))
    assert memory.read(4, 24) == bytes(4) + bytes(range(16)) + bytes(4)
    assert memory.load32(12) == 0x07060504
    for offset, nbytes in ((-4, 4), (4093, 4), (4096, 4), (2, 4), (0, 3)):
        with pytest.raises(NvmeFieldRange):
            memory.read(offset, nbytes)
        with pytest.raises(NvmeFieldRange):
            memory.write(offset, bytes(nbytes))
    with pytest.raises(NvmeFieldRange):
        memory.load32(2)
    memory.close()
    memory.close()
    assert pages.live == 0


def test_freed_memory_is_never_looked_at_again(world: Any) -> None:
    """The world keeps histories of words; those of memory that is gone must be gone with it."""
    pages = Pages()
    dma = WorldDma(world, pages)
    kept = dma.allocate(4096)
    for _ in range(4):
        gone = dma.allocate(3 * 4096)
        gone.write(0, bytes(range(256)) * 48)
        gone.close()
        # Enough stores for every history to end.
        for _ in range(8):
            kept.write(0, bytes(range(256)) * 16)
    assert kept.read(0, 256) == bytes(range(256))
    kept.close()
    assert pages.live == 0


def test_a_range_that_the_world_refuses_is_given_back(world: Any) -> None:
    class Same(Pages):
        def allocate(self, nbytes: int, *, contiguous: bool = False, alignment: int = 4096) -> HostMemory:
            assert (contiguous, alignment) == (False, 4096)
            self.live += 1
            return HostMemory(1 << 32, nbytes, [(0, nbytes)], self.freed)

        def freed(self) -> None:
            self.live -= 1

    pages = Same()
    dma = WorldDma(world, pages)
    first = dma.allocate(4096)
    with pytest.raises(ControllerError, match="once"):
        dma.allocate(4096)
    assert pages.live == 1
    first.close()


def test_registers(world: Any) -> None:
    ffi, lib = ffi_and_library()
    bar = Pages().allocate(8192)
    assert lib.tt_world_map(world, ffi.cast("void *", bar.address), 8192, lib.TT_MEM_MMIO) == 0
    registers = WorldRegisters(world, bar.address)
    assert isinstance(registers, Registers)
    registers.store32(0x1008, 0xDEADBEEF)
    assert registers.load32(0x1008) == 0xDEADBEEF
    assert registers.address == bar.address
    before = registers.now_ns()
    registers.pause()
    # Nothing is there to be done: the clock moves on all the same, so that waits end.
    assert registers.now_ns() > before
    assert lib.tt_world_unmap(world, ffi.cast("void *", bar.address)) == 0
    bar.close()

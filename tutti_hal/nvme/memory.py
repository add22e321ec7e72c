"""What a controller handle needs from its surroundings: registers, and memory that the controller can reach.

The same handle drives a software controller in threads, the same one stepped by the deterministic engine, and a drive:
they differ in who implements these protocols.
"""

from __future__ import annotations

import ctypes
from typing import TYPE_CHECKING, Protocol, runtime_checkable

from tutti_hal.errors import NvmeFieldRange

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from tutti_hal.nvme.prp import Run


@runtime_checkable
class Registers(Protocol):
    """BAR0 of a controller, as its host sees it."""

    @property
    def address(self) -> int | None:
        """Host virtual address of offset 0, from which kernels reach the doorbells; None when they cannot."""
        ...

    def load32(self, offset: int) -> int:
        """Reads a register. Acquire order: memory read after it is at least as new as what it returned."""
        ...

    def store32(self, offset: int, value: int) -> None:
        """Writes a register. Release order: whatever the caller wrote before is visible to the controller first."""
        ...

    def pause(self) -> None:
        """Called once in every turn of every wait. May sleep, or let a simulated world run on."""
        ...

    def now_ns(self) -> int:
        """Nanoseconds of a clock that never goes back, in which all deadlines of the handle are measured."""
        ...


@runtime_checkable
class DmaMemory(Protocol):
    """Memory that host and controller share. Whoever allocated it closes it, and never while the controller uses it."""

    @property
    def address(self) -> int:
        """Host virtual address."""
        ...

    @property
    def nbytes(self) -> int:
        """Its length."""
        ...

    @property
    def runs(self) -> Sequence[Run]:
        """(bus address, bytes) of each contiguous piece, in order, `nbytes` in all."""
        ...

    def read(self, offset: int, nbytes: int) -> bytes:
        """Copies bytes out."""
        ...

    def write(self, offset: int, data: bytes) -> None:
        """Copies bytes in. The controller sees them at the latest after the next `Registers.store32`."""
        ...

    def load32(self, offset: int) -> int:
        """Reads one aligned dword in one piece, with acquire order: later reads are at least as new."""
        ...

    def close(self) -> None:
        """Gives the memory back. The second call does nothing."""
        ...


@runtime_checkable
class Dma(Protocol):
    """Where memory for a controller comes from."""

    def allocate(self, nbytes: int, *, contiguous: bool = False, alignment: int = 4096) -> DmaMemory:
        """Zeroed memory of at least `nbytes`, mapped for the controller to read and write.

        Args:
            nbytes: its length; rounded up to what can be mapped.
            contiguous: one bus run.
            alignment: of every run's bus address and of the host address; a power of two.

        Raises:
            TuttiError: there is no such memory.
        """
        ...


class HostMemory:
    """`DmaMemory` over plain host memory of this process that somebody else allocated and mapped.

    An aligned dword is read in one piece. Acquire order holds where the machine orders loads (x86-64).

    Args:
        address: host virtual address.
        nbytes: its length.
        runs: its bus runs.
        release: called once by `close`.
    """

    def __init__(
        self, address: int, nbytes: int, runs: Sequence[Run], release: Callable[[], None] | None = None
    ) -> None:
        if sum(n for _, n in runs) != nbytes:
            raise NvmeFieldRange(
                "describe DMA memory",
                f"{nbytes} bytes in runs of {sum(n for _, n in runs)}",
                "The runs must cover the memory exactly.",
            )
        self._address = address
        self._nbytes = nbytes
        self._runs = tuple(runs)
        self._release = release

    @property
    def address(self) -> int:
        """Host virtual address."""
        return self._address

    @property
    def nbytes(self) -> int:
        """Its length."""
        return self._nbytes

    @property
    def runs(self) -> Sequence[Run]:
        """(bus address, bytes) of each contiguous piece."""
        return self._runs

    def _at(self, offset: int, nbytes: int) -> int:
        if offset < 0 or nbytes < 0 or offset + nbytes > self._nbytes:
            raise NvmeFieldRange(
                "reach into DMA memory", f"{nbytes} bytes at {offset} of {self._nbytes}", "Stay inside it."
            )
        return self._address + offset

    def read(self, offset: int, nbytes: int) -> bytes:
        """Copies bytes out. Raises `NvmeFieldRange` outside the memory."""
        return ctypes.string_at(self._at(offset, nbytes), nbytes)

    def write(self, offset: int, data: bytes) -> None:
        """Copies bytes in. Raises `NvmeFieldRange` outside the memory."""
        ctypes.memmove(self._at(offset, len(data)), data, len(data))

    def load32(self, offset: int) -> int:
        """Reads one aligned dword. Raises `NvmeFieldRange` outside the memory or off a dword."""
        if offset % 4:
            raise NvmeFieldRange("load a dword of DMA memory", f"offset {offset}", "Use a multiple of 4.")
        return int(ctypes.c_uint32.from_address(self._at(offset, 4)).value)

    def close(self) -> None:
        """Calls `release`, once."""
        release, self._release = self._release, None
        if release is not None:
            release()

"""Memory and registers of a software controller as its host uses them: the IOMMU, DMA memory, BAR0."""

from __future__ import annotations

import ctypes
import errno
import mmap
import time
from typing import TYPE_CHECKING, Any, Self

from tutti_hal.errors import SoftwareControllerError
from tutti_hal.native import ffi_and_library
from tutti_hal.nvme.memory import HostMemory

if TYPE_CHECKING:
    from types import TracebackType

_PAGE = 4096
_READ, _WRITE, _CONTIGUOUS = 1, 2, 4

_MAP_ERRORS = {
    errno.EINVAL: "address, length or granule is not aligned, or the length is zero",
    errno.EEXIST: "it overlaps a range that is mapped already",
    errno.ENOMEM: "no bus addresses are left",
}


class Iommu:
    """Which memory a controller may reach, and under which bus addresses.

    Bus addresses differ from host addresses, and a range is spread over them in short runs unless it is asked for in
    one, so that a mix-up of the two, or of contiguous and not, is found at once. Thread safe. Controllers may share
    one.

    Args:
        seed: decides how ranges are spread.
    """

    def __init__(self, seed: int = 0) -> None:
        self._ffi, self._lib = ffi_and_library()
        handle = self._lib.tt_iommu_create(seed)
        if handle == self._ffi.NULL:
            raise SoftwareControllerError(
                "make an IOMMU", "no address space for its table", "Free memory, or lift the limit on address space."
            )
        self._handle: Any = handle

    @property
    def handle(self) -> Any:
        """The `tt_iommu *`, owned by this object."""
        return self._handle

    @property
    def closed(self) -> bool:
        """True after `close`: no address is mapped any more."""
        return bool(self._handle == self._ffi.NULL)

    def map(
        self,
        address: int,
        nbytes: int,
        granule: int = _PAGE,
        *,
        contiguous: bool = False,
        readable: bool = True,
        writable: bool = True,
    ) -> list[tuple[int, int]]:
        """Maps a range of host memory.

        Args:
            address: its start, a multiple of `granule`.
            nbytes: its length, a multiple of `granule`.
            granule: what stays together on the bus; a power of two, at least 4096.
            contiguous: one run.
            readable: the controller may read it.
            writable: the controller may write it.

        Returns:
            (bus address, bytes) of each run, in the order of the memory.

        Raises:
            SoftwareControllerError: misaligned, empty, or overlapping a mapped range.
        """
        ffi, lib = self._ffi, self._lib
        if self.closed:
            raise SoftwareControllerError("map memory", "the IOMMU is closed", "Map before closing the controller.")
        flags = (_READ if readable else 0) | (_WRITE if writable else 0) | (_CONTIGUOUS if contiguous else 0)
        pointer = ffi.cast("void *", address)
        count = ffi.new("uint64_t *", 64)
        # Another thread's mapping in between changes how this one is spread: ask until the answer fits.
        for _ in range(64):
            runs = ffi.new("tt_bus_run[]", int(count[0]))
            code = lib.tt_iommu_map(self._handle, pointer, nbytes, granule, flags, runs, len(runs), count)
            if code != errno.ENOSPC:
                break
        if code != 0:
            raise SoftwareControllerError(
                f"map {nbytes:#x} bytes at {address:#x} in granules of {granule:#x}",
                _MAP_ERRORS.get(code, errno.errorcode.get(code, str(code))),
                "Map whole granules, each once.",
            )
        return [(int(runs[i].bus), int(runs[i].len)) for i in range(int(count[0]))]

    def unmap(self, address: int) -> None:
        """Takes away the range that was mapped from `address`; waits until no controller is moving data in it.

        Raises:
            SoftwareControllerError: no mapping begins there.
        """
        if self.closed or self._lib.tt_iommu_unmap(self._handle, self._ffi.cast("void *", address)) != 0:
            raise SoftwareControllerError(
                f"unmap {address:#x}", "no mapping begins there", "Pass the address that was mapped."
            )

    def close(self) -> None:
        """Ends it. Only when no controller that uses it is left. The second call does nothing."""
        handle, self._handle = self._handle, self._ffi.NULL
        if handle != self._ffi.NULL:
            self._lib.tt_iommu_destroy(handle)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


class HostDma:
    """A `Dma` over an IOMMU: zeroed anonymous pages of this process."""

    def __init__(self, iommu: Iommu) -> None:
        self._iommu = iommu

    def allocate(self, nbytes: int, *, contiguous: bool = False, alignment: int = _PAGE) -> HostMemory:
        """Zeroed memory, rounded up to a multiple of `alignment`, mapped for reading and writing.

        Raises:
            SoftwareControllerError: the alignment is no power of two of at least 4096, or there is no memory.
        """
        if nbytes <= 0 or alignment < _PAGE or alignment & (alignment - 1):
            raise SoftwareControllerError(
                f"allocate {nbytes} bytes aligned to {alignment}",
                "not a positive length and a power of two of at least 4096",
                "Ask for at least one byte, aligned to 4096 or a larger power of two.",
            )
        rounded = (nbytes + alignment - 1) // alignment * alignment
        try:
            pages = mmap.mmap(-1, rounded + alignment - _PAGE)
        except OSError as error:
            raise SoftwareControllerError(
                f"allocate {rounded} bytes", str(error), "Ask for less, or free memory."
            ) from error
        raw = ctypes.addressof(ctypes.c_char.from_buffer(pages))
        address = (raw + alignment - 1) // alignment * alignment
        runs = self._iommu.map(address, rounded, alignment, contiguous=contiguous)

        def release() -> None:
            if not self._iommu.closed:  # which took every mapping with it
                self._iommu.unmap(address)
            # The mapping's own end is left to its last reference: views of it may still be around.
            keep.clear()

        keep = [pages]
        return HostMemory(address, rounded, runs, release)


class BarRegisters:
    """`Registers` of a controller that threads serve.

    A dword is loaded and stored in one piece; the order that the protocol asks for is what x86-64 gives plain accesses.
    """

    def __init__(self, address: int, nbytes: int) -> None:
        self._address = address
        self._words = (ctypes.c_uint32 * (nbytes // 4)).from_address(address)

    @property
    def address(self) -> int:
        """Host address of register 0."""
        return self._address

    def load32(self, offset: int) -> int:
        """Reads the register at byte `offset`."""
        return int(self._words[offset // 4])

    def store32(self, offset: int, value: int) -> None:
        """Writes the register at byte `offset`."""
        self._words[offset // 4] = value

    def pause(self) -> None:
        """Gives the controller's thread the CPU."""
        time.sleep(0.000_02)

    def now_ns(self) -> int:
        """The monotonic clock."""
        return time.monotonic_ns()

"""Memory that kernels and a drive of the kernel's own driver both reach: pinned and mapped by ``tutti_p2p``.

Three places: pages of this process that the device maps (``host``), the device's own memory (``device``), and for test
rigs a range of a PCI function's BAR that stands in for a GPU's memory.
"""

from __future__ import annotations

import ctypes
import mmap
import os
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import TYPE_CHECKING

from tutti_hal.errors import KernelControllerError, NotSupported
from tutti_hal.nvme.memory import HostMemory
from tutti_hal.nvme.p2p_uapi import Provider, ProviderFlag

if TYPE_CHECKING:
    from collections.abc import Sequence

    from tutti_hal.nvme.kernel_client import KernelClient
    from tutti_hal.nvme.prp import Run
    from tutti_hal.shim import Buffer, Device

_MAP_HUGETLB = 0x40000
_HUGE = 2 << 20
_PARAMETERS = Path("/sys/module/tutti_p2p/parameters")
_PCI = Path("/sys/bus/pci/devices")


class PinnedMemory(HostMemory):
    """`DmaMemory` in a pin: kernels use one address, the host another, the drive the runs.

    Attributes:
        pin: the module's handle.
        buffer: what kernels reach it by, for copies.
        offset: where it lies in the stand-in's BAR; 0 elsewhere.
    """

    def __init__(
        self, buffer: Buffer, host: int, nbytes: int, pin: int, runs: Sequence[Run], offset: int, undo: ExitStack
    ) -> None:
        """`undo` is taken over by the memory, and emptied, once nothing can fail any more."""
        super().__init__(host, nbytes, runs)
        self.buffer, self.pin, self.offset = buffer, pin, offset
        self._release = undo.pop_all().close

    @property
    def address(self) -> int:
        """Kernels' address."""
        return self.buffer.address


class HostPages:
    """A `Dma` of pages of this process, pinned where they are.

    Args:
        client: pins them.
        controller: handle of the drive that is to reach them.
        device: whose kernels reach them.
    """

    def __init__(self, client: KernelClient, controller: int, device: Device) -> None:
        self._client, self._controller, self._device = client, controller, device

    def allocate(self, nbytes: int, *, contiguous: bool = False, alignment: int = 4096) -> PinnedMemory:
        """Zeroed pages, rounded up.

        One run of more than a page is had where an IOMMU translates, else from huge pages.

        Raises:
            ModuleRefused: they cannot be pinned.
            KernelControllerError: they are not contiguous and must be.
            TuttiError: the device cannot register them.
        """
        unit = max(mmap.PAGESIZE, alignment)
        rounded = -(-nbytes // unit) * unit
        memory = self._pinned(rounded, 0)
        if not contiguous or len(memory.runs) == 1:
            return memory
        pieces = len(memory.runs)
        memory.close()
        huge = -(-nbytes // _HUGE) * _HUGE
        with suppress(OSError):
            memory = self._pinned(huge, _MAP_HUGETLB)
            if len(memory.runs) == 1:
                return memory
            memory.close()
        raise KernelControllerError(
            f"allocate {rounded:#x} bytes in one piece on the bus",
            f"they lie in {pieces}, and there are no huge pages that would do",
            f"sysctl vm.nr_hugepages={max(16, huge // _HUGE)}, or let an IOMMU translate, or use less deep queues.",
        )

    def _pinned(self, nbytes: int, flags: int) -> PinnedMemory:
        # Shared, so that a child does not take the pages along by copying.
        pages = mmap.mmap(-1, nbytes, flags=mmap.MAP_SHARED | mmap.MAP_ANONYMOUS | flags)
        host = ctypes.addressof(ctypes.c_char.from_buffer(pages))
        with ExitStack() as stack:
            buffer = stack.enter_context(self._device.register(pages))
            pin = self._client.pin(Provider.HOST, host, nbytes, [self._controller])
            stack.callback(self._client.unpin, pin, idle=True)
            runs = self._client.runs(pin, self._controller)
            return PinnedMemory(buffer, host, nbytes, pin, runs, 0, stack)


class StandInPages:
    """A `Dma` of a PCI function's BAR that stands in for a GPU's memory, as the module's parameter ``sim`` names it.

    For test rigs. Ranges are taken from the front and come back when they are closed.

    Args:
        client: pins them.
        controller: handle of the drive that is to reach them.
        device: whose kernels reach them.

    Raises:
        NotSupported: the module was given no function.
    """

    #: Granule of the module's provider.
    GRANULE = 1 << 16

    def __init__(self, client: KernelClient, controller: int, device: Device) -> None:
        self._client, self._controller, self._device = client, controller, device
        known = client.providers().get("sim")
        if known is None or not known.flags & ProviderFlag.AVAILABLE:
            raise NotSupported(
                "use a BAR as a device's memory", "the module was given none", "Load it with sim=DDDD:BB:DD.F."
            )
        function, bar = ((_PARAMETERS / name).read_text().strip() for name in ("sim", "sim_bar"))
        self._resource = _PCI / function / f"resource{bar}"
        self._taken: dict[int, int] = {}

    def allocate(self, nbytes: int, *, contiguous: bool = False, alignment: int = 4096) -> PinnedMemory:
        """Zeroed memory in one run, rounded up to whole granules.

        Raises:
            ModuleRefused: it cannot be pinned.
            KernelControllerError: the BAR has no such room left.
        """
        del contiguous  # it always is
        unit = max(self.GRANULE, alignment)
        nbytes = -(-nbytes // unit) * unit
        offset = self._room(nbytes, unit)
        with ExitStack() as stack:
            stack.callback(self._taken.pop, offset)
            fd = os.open(self._resource, os.O_RDWR | os.O_CLOEXEC)
            try:
                window = mmap.mmap(fd, nbytes, offset=offset)
            finally:
                os.close(fd)
            host = ctypes.addressof(ctypes.c_char.from_buffer(window))
            ctypes.memset(host, 0, nbytes)
            buffer = stack.enter_context(self._device.register(window))
            pin = self._client.pin(Provider.SIM, offset, nbytes, [self._controller])
            stack.callback(self._client.unpin, pin, idle=True)
            runs = self._client.runs(pin, self._controller)
            return PinnedMemory(buffer, host, nbytes, pin, runs, offset, stack)

    def _room(self, nbytes: int, unit: int) -> int:
        size = self._resource.stat().st_size
        at = 0
        for begin, length in sorted(self._taken.items()):
            if begin - at >= nbytes:
                break
            at = -(-(begin + length) // unit) * unit
        if size - at < nbytes:
            raise KernelControllerError(
                f"take {nbytes:#x} bytes of the stand-in's memory", f"{size:#x} bytes are full", "Close some of it."
            )
        self._taken[at] = nbytes
        return at

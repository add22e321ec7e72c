"""Memory of a device that controllers in this process reach, and their registers as kernels reach them.

A software controller moves bytes with the processor. So what it shares with kernels is host memory that the device
maps, or device memory of an engine that runs in this process.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from tutti_hal.nvme.handle import ControllerHandle
from tutti_hal.nvme.memory import HostMemory
from tutti_hal.nvme.software_memory import BarRegisters
from tutti_hal.shim import MemoryKind

if TYPE_CHECKING:
    from collections.abc import Sequence
    from contextlib import ExitStack

    from tutti_hal.nvme.prp import Run
    from tutti_hal.nvme.software import Iommu, SoftwareController
    from tutti_hal.profile import Profile
    from tutti_hal.shim import Buffer, Device


class KernelRegisters(BarRegisters):
    """`Registers` of a controller that threads serve; kernels reach them at an address of the device's.

    Args:
        address: host address of BAR0.
        nbytes: its length.
        kernel_address: kernels' address of it, as `Device.register` gives it.
    """

    def __init__(self, address: int, nbytes: int, kernel_address: int) -> None:
        super().__init__(address, nbytes)
        self._kernel_address = kernel_address

    @property
    def address(self) -> int:
        """Kernels' address of register 0."""
        return self._kernel_address


class BufferMemory(HostMemory):
    """`DmaMemory` in a buffer of a device: kernels use one address, the host another."""

    def __init__(self, buffer: Buffer, skip: int, nbytes: int, host: int, runs: Sequence[Run], release: Any) -> None:
        super().__init__(host, nbytes, runs, release)
        #: The buffer, and where in it the memory begins: for copies.
        self.buffer, self.skip = buffer, skip

    @property
    def address(self) -> int:
        """Kernels' address."""
        return self.buffer.address + self.skip

    def through(self, iommu: Iommu, *, contiguous: bool = False, alignment: int = 4096) -> BufferMemory:
        """The same memory as drives behind another IOMMU reach it; it must be closed before this one.

        Raises:
            TuttiError: that IOMMU refused the range.
        """
        host, nbytes = self._address, self.nbytes
        runs = iommu.map(host, nbytes, alignment, contiguous=contiguous)

        def release() -> None:
            if not iommu.closed:
                iommu.unmap(host)

        return BufferMemory(self.buffer, self.skip, nbytes, host, runs, release)


class BufferDma:
    """A `Dma` over buffers of a device. It remembers what it gave and has not got back.

    Args:
        device: whose kernels reach the memory.
        iommu: of the controllers that reach it.
        kind: ``mapped``, or ``device`` where the device's memory is this process's own.
        stale: byte that the memory holds at first. A `Dma` gives zeroed memory; another value shows who relies on it.
    """

    def __init__(self, device: Device, iommu: Iommu, kind: MemoryKind | str = "device", *, stale: int = 0) -> None:
        self._device, self._iommu, self._kind, self._stale = device, iommu, MemoryKind(kind), stale
        #: Kernels' address -> bytes, of what is out.
        self.live: dict[int, int] = {}

    def allocate(self, nbytes: int, *, contiguous: bool = False, alignment: int = 4096) -> BufferMemory:
        """Memory of the device, rounded up to the alignment.

        Raises:
            TuttiError: the device has none, or the IOMMU refused the range.
        """
        return self._allocate([-(-nbytes // alignment) * alignment], contiguous, alignment)

    def scatter(self, lengths: Sequence[int], alignment: int = 4096) -> BufferMemory:
        """Memory whose runs on the bus have these lengths, in units of the alignment; no two of them touch.

        Raises:
            TuttiError: as `allocate`.
        """
        return self._allocate([length * alignment for length in lengths], True, alignment)

    def _allocate(self, parts: Sequence[int], contiguous: bool, alignment: int) -> BufferMemory:
        rounded = sum(parts)
        buffer = self._device.allocate(rounded + alignment, self._kind)
        base = buffer.host_address if self._kind.host_visible else buffer.address
        skip = -base % alignment
        runs: list[Run] = []
        mapped: list[int] = []

        def release() -> None:
            self.live.pop(buffer.address + skip, None)
            for at in mapped if not self._iommu.closed else ():
                self._iommu.unmap(at)
            buffer.close()

        try:
            at = base + skip
            for nbytes in parts:
                runs += self._iommu.map(at, nbytes, alignment, contiguous=contiguous)
                mapped.append(at)
                at += nbytes
        except BaseException:
            release()
            raise
        memory = BufferMemory(buffer, skip, rounded, base + skip, runs, release)
        self.live[memory.address] = rounded
        memory.write(0, bytes([self._stale]) * rounded)
        return memory


def why_not_attached(profile: Profile) -> str | None:
    """Why software controllers on threads cannot serve a profile's kernels; None where they can."""
    simulation = profile.backend.simulation()
    if simulation is not None and simulation.simulates(profile.record.archs[profile.arch]):
        return "software controllers run on threads of their own, and mode sim has one thread for everything"
    lacking = [name for name in ("memory.mapped", "memory.register") if not profile.record.capabilities[name]]
    if lacking:
        return f"software controllers reach host memory only, and it has no {', no '.join(lacking)}"
    return None


def attach(device: Device, controller: SoftwareController, stack: ExitStack) -> tuple[ControllerHandle, BufferDma]:
    """Let threads serve a controller for a device's kernels, and bring it up.

    Args:
        device: whose kernels ring its doorbells.
        controller: not running yet; it outlives the stack.
        stack: what shuts the handle down, then stops the controller.

    Returns:
        The handle, and mapped host memory of the device that the controller reaches.

    Raises:
        NotSupported: the device cannot register or map host memory.
        TuttiError: the controller does not come up.
    """
    bar = stack.enter_context(device.register(controller.bar_address, controller.bar_bytes))
    controller.start()
    stack.callback(controller.stop)
    registers = KernelRegisters(controller.bar_address, controller.bar_bytes, bar.address)
    handle = stack.enter_context(ControllerHandle.open(registers, controller.dma))
    return handle, BufferDma(device, controller.iommu, MemoryKind.MAPPED)

"""Software controllers beside any device: served by threads, or as agents of the device's world, and memory for them.

The controllers run in this process, so they reach what the process reaches: host memory on every vendor, and device
memory where the record's ``p2p.mechanisms`` has ``process-memory``.
"""

from __future__ import annotations

from contextlib import ExitStack
from typing import TYPE_CHECKING, Any

from tutti_hal.native import ffi_and_library
from tutti_hal.nvme.handle import ControllerHandle
from tutti_hal.nvme.memory import HostMemory
from tutti_hal.nvme.software import MemoryNamespace
from tutti_hal.nvme.software_config import ControllerConfig
from tutti_hal.nvme.software_memory import BarRegisters
from tutti_hal.shim import MemoryKind

if TYPE_CHECKING:
    from collections.abc import Sequence

    from tutti_hal.nvme.handle import HandleOptions
    from tutti_hal.nvme.memory import Registers
    from tutti_hal.nvme.prp import Run as BusRun
    from tutti_hal.nvme.software import Iommu, SoftwareController
    from tutti_hal.record import Record
    from tutti_hal.shim import Buffer, Device

#: Bytes of a block of :func:`drive`.
BLOCK = 512

_WORLD_STEPS = 256


def drive(blocks: int = 1 << 16, **fields: Any) -> ControllerConfig:
    """A drive with one namespace of 512-byte blocks in memory, unless ``namespaces`` says otherwise."""
    spaces = fields.pop("namespaces", (MemoryNamespace(blocks=blocks, lba_shift=9),))
    return ControllerConfig(namespaces=spaces, **fields)


def placements(record: Record) -> tuple[str, ...]:
    """Where queues and data may lie, so that software controllers and kernels both reach them."""
    return ("host", "device") if "process-memory" in record.p2p.mechanisms else ("host",)


class WorldRegisters:
    """`Registers` of a controller that is an agent of a device's world."""

    def __init__(self, world: Any, address: int) -> None:
        self._world, self._address = world, address

    @property
    def address(self) -> int:
        """Address of register 0, the same for the host and for kernels."""
        return self._address

    def load32(self, offset: int) -> int:
        """Reads a register."""
        return int(self._world.load(self._address + offset))

    def store32(self, offset: int, value: int) -> None:
        """Writes a register."""
        self._world.store(self._address + offset, value)

    def pause(self) -> None:
        """Lets the world run on."""
        self._world.run(_WORLD_STEPS)

    def now_ns(self) -> int:
        """The world's clock."""
        return int(self._world.now_ns)


class ThreadRegisters(BarRegisters):
    """`Registers` of a controller that threads serve; kernels reach them at an address of the device's."""

    def __init__(self, address: int, nbytes: int, kernel_address: int) -> None:
        super().__init__(address, nbytes)
        self._kernel_address = kernel_address

    @property
    def address(self) -> int:
        """Kernels' address of register 0."""
        return self._kernel_address


def serve(device: Device, world: Any, controller: SoftwareController, stack: ExitStack) -> Registers:
    """Let a controller run from now on, and make its registers reachable for kernels; the stack undoes both.

    Args:
        device: whose kernels reach the registers.
        world: the device's world, None where there is none: then threads serve the controller.
        controller: not running yet.
        stack: what ends it.
    """
    if world is None:
        bar = stack.enter_context(device.register(controller.bar_address, controller.bar_bytes))
        controller.start()
        stack.callback(controller.stop)
        return ThreadRegisters(controller.bar_address, controller.bar_bytes, bar.address)
    stack.enter_context(device.register(controller.bar_address, controller.bar_bytes, mmio=True))
    run = ffi_and_library()[1].tt_controller_run
    agent = world.add_controller("drive", run, controller.handle, controller.iommu.handle)
    stack.callback(world.remove_controller, agent)
    return WorldRegisters(world, controller.bar_address)


def bring_up(
    device: Device, world: Any, controller: SoftwareController, stack: ExitStack, options: HandleOptions | None = None
) -> ControllerHandle:
    """Serve a controller and open it; the stack shuts it down."""
    registers = serve(device, world, controller, stack)
    return stack.enter_context(ControllerHandle.open(registers, controller.dma, options))


class BufferMemory(HostMemory):
    """`DmaMemory` in a buffer of a device: kernels use one address, the host another."""

    def __init__(self, buffer: Buffer, skip: int, nbytes: int, host: int, runs: Sequence[BusRun], release: Any) -> None:
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
        kind: ``mapped``, or ``device`` where :func:`placements` has it.
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
        runs: list[BusRun] = []
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

"""Software controllers beside any device: served by threads, or as agents of the device's world, and memory for them.

The controllers run in this process, so they reach what the process reaches: host memory on every vendor, and device
memory where the record's ``p2p.mechanisms`` has ``process-memory``.
"""

from __future__ import annotations

from contextlib import ExitStack
from typing import TYPE_CHECKING, Any

from tutti_hal.native import ffi_and_library
from tutti_hal.nvme.device_memory import BufferDma, BufferMemory, KernelRegisters
from tutti_hal.nvme.handle import ControllerHandle
from tutti_hal.nvme.software import MemoryNamespace
from tutti_hal.nvme.software_config import ControllerConfig

if TYPE_CHECKING:
    from tutti_hal.nvme.handle import HandleOptions
    from tutti_hal.nvme.memory import Registers
    from tutti_hal.nvme.software import SoftwareController
    from tutti_hal.record import Record
    from tutti_hal.shim import Device

__all__ = ["BLOCK", "BufferDma", "BufferMemory", "WorldRegisters", "bring_up", "drive", "placements", "serve"]

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
        return KernelRegisters(controller.bar_address, controller.bar_bytes, bar.address)
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

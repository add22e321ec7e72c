"""Memory whose bus addresses are the device's own addresses: what a controller that is a kernel reaches."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tutti_hal.errors import DeviceControllerServing, NvmeFieldRange
from tutti_hal.shim import MemoryKind

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from tutti_hal.nvme.prp import Run
    from tutti_hal.shim import Buffer, Device, Stream


class BusMemory:
    """`DmaMemory` in a buffer of a device. The host reads and writes it by copies, which it waits for."""

    def __init__(self, buffer: Buffer, skip: int, nbytes: int, stream: Stream, release: Callable[[], None]) -> None:
        #: The buffer, and where in it the memory begins: for copies.
        self.buffer, self.skip = buffer, skip
        self.nbytes = nbytes
        self._stream = stream
        self._release: Callable[[], None] | None = release

    @property
    def address(self) -> int:
        """Kernels' address, and the bus address."""
        return self.buffer.address + self.skip

    @property
    def runs(self) -> Sequence[Run]:
        """One run."""
        return ((self.address, self.nbytes),)

    def _check(self, offset: int, nbytes: int) -> None:
        if offset < 0 or nbytes < 0 or offset + nbytes > self.nbytes:
            raise NvmeFieldRange(
                "reach into DMA memory", f"{nbytes} bytes at {offset} of {self.nbytes}", "Stay inside it."
            )

    def read(self, offset: int, nbytes: int) -> bytes:
        """Copies bytes out. Raises `NvmeFieldRange` outside the memory."""
        self._check(offset, nbytes)
        found = bytearray(nbytes)
        if nbytes:
            self._stream.copy(found, self.buffer.part(self.skip + offset, nbytes))
            self._stream.synchronize()
        return bytes(found)

    def write(self, offset: int, data: bytes) -> None:
        """Copies bytes in. Raises `NvmeFieldRange` outside the memory."""
        self._check(offset, len(data))
        if data:
            self._stream.copy(self.buffer.part(self.skip + offset, len(data)), data)
            self._stream.synchronize()

    def load32(self, offset: int) -> int:
        """Reads one aligned dword. Raises `NvmeFieldRange` outside the memory or off a dword."""
        if offset % 4:
            raise NvmeFieldRange("load a dword of DMA memory", f"offset {offset}", "Use a multiple of 4.")
        return int.from_bytes(self.read(offset, 4), "little")

    def close(self) -> None:
        """Gives the memory back. The second call does nothing."""
        release, self._release = self._release, None
        if release is not None:
            release()


class BusMap:
    """What commands may name: the memory that is out. Changed only while no kernel reads it.

    Args:
        serving: whether one does.
    """

    def __init__(self, serving: Callable[[], bool]) -> None:
        self._serving = serving
        #: Address -> bytes.
        self.live: dict[int, int] = {}

    def check(self, tried: str) -> None:
        """Refuses a change while the kernel runs.

        Raises:
            DeviceControllerServing: it does.
        """
        if self._serving():
            raise DeviceControllerServing(
                tried, "the device controller's kernel runs", "Stop it first, or do it before it starts."
            )


class BusDma:
    """A `Dma` of a device controller.

    Args:
        device: whose memory it is.
        bus: where it is written down.
        kind: ``device`` or ``mapped``.
        stream: for the host's reads and writes.
    """

    def __init__(self, device: Device, bus: BusMap, kind: MemoryKind | str, stream: Stream) -> None:
        self._device, self._bus, self._stream = device, bus, stream
        self._kind = MemoryKind(kind)

    def allocate(self, nbytes: int, *, contiguous: bool = False, alignment: int = 4096) -> BusMemory:
        """Zeroed memory in one run, rounded up to the alignment.

        Raises:
            DeviceControllerServing: the controller's kernel runs: to allocate may wait for its end.
            TuttiError: the device has no memory.
        """
        del contiguous  # it always is
        self._bus.check("allocate memory for a device controller")
        rounded = -(-nbytes // alignment) * alignment
        buffer = self._device.allocate(rounded + alignment, self._kind)
        skip = -buffer.address % alignment
        address = buffer.address + skip

        def release() -> None:
            self._bus.check("give back memory of a device controller")
            self._bus.live.pop(address, None)
            buffer.close()

        self._stream.fill(buffer, 0)
        self._stream.synchronize()
        self._bus.live[address] = rounded
        return BusMemory(buffer, skip, rounded, self._stream, release)

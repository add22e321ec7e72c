"""Memory: what kernels, copies and the host reach, and who may."""

from __future__ import annotations

import weakref
from collections.abc import Callable
from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING, Any

from tutti_hal.errors import InvalidArgument, NotSupported
from tutti_hal.shim.resource import Resource

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import DTypeLike, NDArray

    from tutti_hal.shim.device import Device


class MemoryKind(StrEnum):
    """Who reaches a buffer."""

    DEVICE = "device"  #: kernels and copies; not the host
    PINNED = "pinned"  #: the host and copies; not kernels
    MAPPED = "mapped"  #: the host and kernels at the same time
    MANAGED = "managed"  #: the host and kernels, by turns
    REGISTERED = "registered"  #: host memory of somebody else, mapped for kernels
    MMIO = "mmio"  #: a device's register page, mapped for kernels

    @property
    def host_visible(self) -> bool:
        """Whether the host loads and stores it."""
        return self is not MemoryKind.DEVICE

    @property
    def kernel_visible(self) -> bool:
        """Whether kernels load and store it."""
        return self is not MemoryKind.PINNED


class Buffer(Resource):
    """A piece of memory of one device.

    Made by :meth:`Device.allocate`, :meth:`Device.register` or :meth:`Device.from_dlpack`. Closing waits for the
    device's earlier work; while NumPy or DLPack views of it live, the memory itself is given back with the last view.
    """

    _noun = "buffer"

    def __init__(
        self,
        device: Device,
        kind: MemoryKind,
        nbytes: int,
        release: Callable[[], None],
        *,
        device_address: int | None,
        host_address: int | None,
        page_locked: bool | None = None,
        owner: object = None,
    ) -> None:
        super().__init__(device)
        self.kind = kind
        self.nbytes = nbytes
        #: True or False: whether the pages are locked; None: the vendor does not tell, or it is no host memory.
        self.page_locked = page_locked
        self._free = release
        self._device_address = device_address
        self._host_address = host_address
        self._owner = owner  # keeps the memory of a registered object alive
        self._views = 0
        self._release_waits = False

    def __len__(self) -> int:
        return self.nbytes

    def __repr__(self) -> str:
        state = "closed" if self.closed else hex(self._device_address or self._host_address or 0)
        return f"<Buffer {self.kind} {self.nbytes} bytes on {self.device}: {state}>"

    @property
    def address(self) -> int:
        """The address that kernels use.

        Raises:
            InvalidArgument: kernels do not reach memory of this kind.
            UseAfterFree: the buffer is closed.
        """
        self.check_open("take a buffer's address")
        if self._device_address is None:
            raise InvalidArgument(
                "take a buffer's device address",
                f"kernels do not reach {self.kind} memory",
                "Allocate it with kind='mapped'.",
            )
        return self._device_address

    @property
    def host_address(self) -> int:
        """The address that the host uses.

        Raises:
            InvalidArgument: the host does not reach memory of this kind.
            UseAfterFree: the buffer is closed.
        """
        self.check_open("take a buffer's host address")
        if self._host_address is None:
            raise InvalidArgument(
                "take a buffer's host address",
                f"the host does not reach {self.kind} memory",
                "Copy it, or allocate it with kind='mapped'.",
            )
        return self._host_address

    @property
    def copy_address(self) -> int:
        """The address that copies use: the device's where there is one."""
        return self.address if self.kind.kernel_visible else self.host_address

    def part(self, offset: int, nbytes: int | None = None) -> BufferSlice:
        """A part of it, for copies, fills and kernel arguments.

        Raises:
            InvalidArgument: the part is not inside the buffer.
            UseAfterFree: the buffer is closed.
        """
        self.check_open("take a part of a buffer")
        length = self.nbytes - offset if nbytes is None else nbytes
        if offset < 0 or length < 0 or offset + length > self.nbytes:
            raise InvalidArgument(
                "take a part of a buffer",
                f"bytes [{offset}, {offset + length}) of {self.nbytes}",
                "Stay inside the buffer.",
            )
        return BufferSlice(self, offset, length)

    def __getitem__(self, part: slice) -> BufferSlice:
        start, stop, step = part.indices(self.nbytes)
        if step != 1:
            raise InvalidArgument("take a part of a buffer", f"a step of {step}", "Take consecutive bytes.")
        return self.part(start, max(0, stop - start))

    def numpy(
        self, dtype: DTypeLike = "uint8", shape: int | tuple[int, ...] | None = None, offset: int = 0
    ) -> NDArray[Any]:
        """A NumPy view of host-visible memory; nothing is copied.

        The view stays valid after :meth:`close`: it keeps the memory until it is dropped. What a running kernel stores
        is seen in no particular order; synchronize first.

        Args:
            dtype: element type.
            shape: elements; None: as many as fit in one dimension.
            offset: bytes to leave out at the beginning.

        Raises:
            InvalidArgument: the host does not reach it, or shape and offset do not fit.
            UseAfterFree: the buffer is closed.
        """
        import numpy as np

        address = self.host_address
        item = np.dtype(dtype)
        extents: tuple[int, ...]
        if shape is None:
            extents = ((self.nbytes - offset) // item.itemsize,)
        else:
            extents = (shape,) if isinstance(shape, int) else shape
        count = int(np.prod(extents, dtype=np.int64))
        if offset < 0 or min(extents, default=0) < 0 or offset + count * item.itemsize > self.nbytes:
            raise InvalidArgument(
                "view a buffer as an array",
                f"{count} elements of {item.itemsize} bytes at offset {offset} of {self.nbytes}",
                "Ask for elements that fit.",
            )
        return np.asarray(_View(self, address + offset, extents, item))

    def __dlpack__(self, **options: Any) -> Any:
        """A DLPack capsule of the bytes, for host-visible memory.

        Raises:
            NotSupported: the memory is the device's own, for which this vendor has no DLPack device type yet.
            UseAfterFree: the buffer is closed.
        """
        self.__dlpack_device__()
        return self.numpy().__dlpack__(**options)

    def __dlpack_device__(self) -> tuple[int, int]:
        """The DLPack device: (1, 0), the CPU.

        Raises:
            NotSupported: as for :meth:`__dlpack__`.
        """
        if not self.kind.host_visible:
            raise NotSupported(
                "export a buffer through DLPack",
                f"{self.kind} memory of {self.device.vendor} has no DLPack device type here",
                "Copy it into mapped memory first.",
                vendor=self.device.vendor,
            )
        return (1, 0)

    # ---- lifetime

    def _release(self) -> None:
        with self._lock:
            self._release_waits = self._views != 0
            if self._release_waits:
                return
        self._give_back()

    def _give_back(self) -> None:
        try:
            self._free()
        finally:
            self._owner = None

    def _view_made(self) -> None:
        with self._lock:
            self._views += 1

    def _view_dropped(self) -> None:
        with self._lock:
            self._views -= 1
            last = self._views == 0 and self._release_waits
            self._release_waits = self._release_waits and not last
        if last and self._generation == self.device.generation:
            self.device.adopt_orphan(self._give_back)


class _View:
    """What a NumPy view has as its base: keeps the buffer, and tells it when the last array is gone."""

    def __init__(self, buffer: Buffer, address: int, shape: tuple[int, ...], dtype: np.dtype[Any]) -> None:
        self.__array_interface__ = {"data": (address, False), "shape": shape, "typestr": dtype.str, "version": 3}
        if dtype.names is not None:
            self.__array_interface__["descr"] = dtype.descr
        buffer._view_made()
        weakref.finalize(self, buffer._view_dropped).atexit = False


@dataclass(frozen=True)
class BufferSlice:
    """Part of a buffer: ``nbytes`` from ``offset`` on."""

    buffer: Buffer
    offset: int
    nbytes: int

    @property
    def address(self) -> int:
        """The address that kernels use; see :attr:`Buffer.address`."""
        return self.buffer.address + self.offset

    @property
    def copy_address(self) -> int:
        """The address that copies use."""
        return self.buffer.copy_address + self.offset

"""Memory of a runtime: what was registered, as every drive reaches it, and parts of it that requests name.

Registering memory costs: page lists for every drive, a copy to the device. A *part* of registered memory costs a row in
a table; a million parts are made by one call.
"""

from __future__ import annotations

from contextlib import ExitStack
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from tutti_hal.errors import BufferInvalid, MemoryRefused, StorageBusy, TuttiError
from tutti_hal.io_uring.layout import Access
from tutti_hal.storage.handles import Kind, SlotTable

if TYPE_CHECKING:
    from collections.abc import Sequence

    import numpy as np
    from numpy.typing import ArrayLike, DTypeLike, NDArray

    from tutti_hal.io_uring import RegisteredBuffer, Ring
    from tutti_hal.shim import Buffer, Device
    from tutti_hal.storage.drives import StorageDrive

_BOTH = Access.DRIVE_READS | Access.DRIVE_WRITES


@dataclass
class Pool:
    """One registration with the ring.

    Attributes:
        buffer: whose memory it is.
        registered: what the ring calls it.
        base: where it begins, as drives in this process see it: to find memory that is registered twice.
        nbytes: its length.
        held: what ends with it, in order: its mappings; the buffer, where it is the runtime's.
        view: keeps the memory of a buffer that is closed too early.
        parts: live handles of it.
    """

    buffer: Buffer
    registered: RegisteredBuffer
    base: int
    nbytes: int
    held: ExitStack
    view: object = field(repr=False)
    parts: int = 0

    @property
    def is_lost(self) -> bool:
        """Whether its memory may be gone: closed, and no view keeps it."""
        return self.buffer.closed and self.view is None


@dataclass(frozen=True)
class Memory:
    """Memory that the runtime allocated and registered. It is the runtime's: `StorageRuntime.unregister` frees it.

    Attributes:
        handle: what requests name.
        nbytes: its length, as it was asked for.
        buffer: where it lies, for copies and kernels; not to be closed.
        skip: byte of the buffer at which it begins.
    """

    handle: int
    nbytes: int
    buffer: Buffer = field(repr=False)
    skip: int = field(repr=False)

    @property
    def address(self) -> int:
        """The address that kernels use."""
        return self.buffer.address + self.skip

    def numpy(self, dtype: DTypeLike = "uint8") -> NDArray[Any]:
        """A NumPy view, where the memory is host-visible. What drives move is seen after `StorageRuntime.wait`.

        Raises:
            InvalidArgument: the host does not reach it.
        """
        view: NDArray[Any] = self.buffer.numpy("uint8", self.nbytes, offset=self.skip).view(dtype)
        return view


class MemoryTable:
    """Registered memory and its parts. Not thread safe: the runtime's lock guards it."""

    def __init__(self, device: Device, ring: Ring, drives: Sequence[StorageDrive], runtime: int) -> None:
        self._device, self._ring, self._drives = device, ring, drives
        self.slots = SlotTable(
            Kind.MEMORY,
            runtime,
            {"pool": "<u4", "offset": "<u8", "nbytes": "<u8", "access": "u1", "whole": "?", "users": "<u4"},
        )
        #: By the ring's row; None where a row is free.
        self.pools: list[Pool | None] = [None] * ring.options.buffers
        self._page = max(drive.drive.handle.page_bytes for drive in drives)

    def allocate(self, nbytes: int, kind: str) -> Memory:
        """See `StorageRuntime.allocate`."""
        doing = f"allocate {nbytes} bytes"
        if nbytes <= 0:
            raise MemoryRefused(doing, "not a positive length", "Ask for at least one byte.")
        rounded = -(-nbytes // self._page) * self._page
        buffer = self._device.allocate(rounded + self._page, kind)
        try:
            base = buffer.host_address if buffer.kind.host_visible else buffer.address
            skip = -base % self._page
            handle = self._add(doing, buffer, skip, rounded, _BOTH, owned=True)
        except BaseException:
            buffer.close()
            raise
        slot = self.slots.require(handle, doing)
        self.slots.rows["nbytes"][slot] = nbytes
        return Memory(handle=handle, nbytes=nbytes, buffer=buffer, skip=skip)

    def register(self, memory: Any, access: Access, nbytes: int | None) -> int:
        """See `StorageRuntime.register`."""
        from tutti_hal.shim import Buffer

        doing = "register memory"
        if isinstance(memory, Buffer):
            return self._add(doing, memory, 0, memory.nbytes, access, owned=False)
        try:
            if nbytes is None:
                with memoryview(memory) as view:
                    nbytes = view.nbytes
            if nbytes % self._page:
                raise MemoryRefused(
                    doing, f"an array of {nbytes} bytes, and drives use pages of {self._page}", "Use whole pages."
                )
            buffer = self._device.register(memory, nbytes)
        except MemoryRefused:
            raise
        except (TuttiError, TypeError, ValueError) as error:
            raise MemoryRefused(doing, str(error), "Pass a buffer of this device, or a writable array.") from error
        try:
            return self._add(doing, buffer, 0, buffer.nbytes, access, owned=True)
        except BaseException:
            buffer.close()
            raise

    def _add(self, doing: str, buffer: Buffer, skip: int, nbytes: int, access: Access, *, owned: bool) -> int:
        self._check(doing, buffer, skip, nbytes)
        base = (buffer.host_address if buffer.kind.host_visible else buffer.address) + skip
        with ExitStack() as held:
            if owned:
                held.callback(buffer.close)
            mappings = []
            for drive in self._drives:
                mapping = drive.map_memory(buffer, skip, nbytes)
                held.callback(mapping.close)
                mappings.append(mapping)
            try:
                registered = self._ring.register(mappings, access)
            except BufferInvalid as error:
                raise MemoryRefused(doing, error.found, error.fix) from error
            view = buffer.numpy() if buffer.kind.host_visible else None
            pool = Pool(buffer, registered, base, nbytes, held.pop_all(), view, parts=1)
        self.pools[registered.row] = pool
        return int(self._take(1, registered.row, 0, nbytes, access, whole=True)[0])

    def _check(self, doing: str, buffer: Buffer, skip: int, nbytes: int) -> None:
        if buffer.device != self._device:
            raise MemoryRefused(
                doing,
                f"it is of {buffer.device}, the runtime's device is {self._device}",
                "Allocate it on that device.",
            )
        if buffer.closed:
            raise MemoryRefused(doing, "the buffer is closed", "Register it before it is closed.")
        base = (buffer.host_address if buffer.kind.host_visible else buffer.address) + skip
        if base % self._page or nbytes % self._page:
            raise MemoryRefused(
                doing,
                f"{nbytes} bytes at {base:#x}, and drives use pages of {self._page}",
                "Use whole pages, such as StorageRuntime.allocate gives.",
            )
        for pool in self.pools:
            if pool is not None and base < pool.base + pool.nbytes and pool.base < base + nbytes:
                raise MemoryRefused(
                    doing,
                    f"bytes {max(base, pool.base):#x} and on are registered already",
                    "Register memory once; make parts of it with register_parts.",
                )

    def _take(
        self,
        count: int,
        pool: int,
        offset: NDArray[np.uint64] | int,
        nbytes: NDArray[np.uint64] | int,
        access: int,
        *,
        whole: bool,
    ) -> NDArray[np.uint64]:
        slots = self.slots.take(count, "register memory")
        rows = self.slots.rows
        rows["pool"][slots] = pool
        rows["offset"][slots] = offset
        rows["nbytes"][slots] = nbytes
        rows["access"][slots] = access
        rows["whole"][slots] = whole
        return self.slots.handles(slots)

    def register_parts(
        self, handle: int, offsets: ArrayLike, nbytes: ArrayLike, access: Access | None
    ) -> NDArray[np.uint64]:
        """See `StorageRuntime.register_parts`."""
        import numpy as np

        doing = "register parts of memory"
        row = self.slots.rows[self.slots.require(handle, doing)].copy()
        first, length = (column.ravel() for column in np.broadcast_arrays(_u64(doing, offsets), _u64(doing, nbytes)))
        room = np.uint64(row["nbytes"])
        bad = (length == 0) | (length > room) | (first > room - np.minimum(length, room)) | (first % np.uint64(4) != 0)
        if bad.any():
            at = int(bad.argmax())
            raise MemoryRefused(
                doing,
                f"part {at} is {int(length[at])} bytes at {int(first[at])} of {int(room)}",
                "Stay inside, at multiples of 4 bytes.",
            )
        allowed = int(row["access"]) if access is None else int(access)
        if allowed & ~int(row["access"]):
            raise MemoryRefused(
                doing, f"{Access(allowed)!r} of memory that is {Access(int(row['access']))!r}", "Ask for less."
            )
        pool = int(row["pool"])
        handles = self._take(len(first), pool, np.uint64(row["offset"]) + first, length, allowed, whole=False)
        owner = self.pools[pool]
        assert owner is not None
        owner.parts += len(first)
        return handles

    def closed(self, slots: NDArray[np.int64]) -> NDArray[np.bool_]:
        """Which of these slots are of a buffer that was closed while it was registered, and is not kept by a view."""
        import numpy as np

        pools = self.slots.rows["pool"][slots]
        bad = [number for number in np.unique(pools) if (one := self.pools[int(number)]) and one.is_lost]
        return np.isin(pools, bad)

    def unregister(self, handles: NDArray[np.uint64]) -> None:
        """See `StorageRuntime.unregister`: all or none."""
        import numpy as np

        doing = "unregister memory"
        slots, good = self.slots.find(handles)
        if not good.all():
            self.slots.require(int(handles[int((~good).argmax())]), doing)
        if len(np.unique(slots)) != len(slots):
            raise MemoryRefused(doing, "a handle is given twice", "Give each once.")
        rows = self.slots.rows[slots]
        if (rows["users"] > 0).any():
            raise StorageBusy(doing, "requests in flight use it", "Wait for them first.")
        leaving = np.bincount(rows["pool"], minlength=len(self.pools))
        ending = [int(number) for number in rows["pool"][rows["whole"]]]
        for number in ending:
            pool = self.pools[number]
            assert pool is not None
            if pool.parts > int(leaving[number]):
                raise StorageBusy(
                    doing, f"{pool.parts - int(leaving[number])} parts of it are registered", "Unregister them first."
                )
        for number in ending:
            self._end(number)
        for left in np.flatnonzero(leaving):
            owner = self.pools[int(left)]
            if owner is not None:
                owner.parts -= int(leaving[left])
        self.slots.give(slots)

    def _end(self, number: int) -> None:
        pool = self.pools[number]
        assert pool is not None
        try:
            self._ring.unregister(pool.registered)
        except TuttiError as error:
            raise StorageBusy("unregister memory", str(error), "Recover the drive first, or shut down.") from error
        self.pools[number] = None
        pool.view = None
        pool.held.close()

    def close(self) -> None:
        """Ends all mappings, and frees what is the runtime's. Only when the ring is closed."""
        pools, self.pools = self.pools, []
        for pool in pools:
            if pool is not None:
                pool.view = None
                pool.held.close()


def _u64(doing: str, value: ArrayLike) -> NDArray[np.uint64]:
    import numpy as np

    array = np.asarray(value)
    if array.dtype.kind not in "iu" or (array.dtype.kind == "i" and bool((array < 0).any())):
        raise MemoryRefused(doing, f"a length or offset is {value!r}", "Pass whole numbers of 0 or more.")
    return array.astype(np.uint64, copy=False)

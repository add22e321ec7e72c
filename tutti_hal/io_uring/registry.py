"""Registered buffers: memory that requests may name, with its PRP lists, built once for each drive."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import ExitStack
from typing import TYPE_CHECKING

from tutti_hal.errors import BufferInvalid
from tutti_hal.io_uring import prp_list
from tutti_hal.io_uring.batch import RegisteredBuffer
from tutti_hal.io_uring.layout import Access, dtype

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from tutti_hal.io_uring.device_tables import DeviceTables
    from tutti_hal.io_uring.options import Drive
    from tutti_hal.nvme.memory import DmaMemory


class Registry:
    """The registered buffers of a ring, by row. It owns their lists."""

    def __init__(self, drives: Sequence[Drive], count: int) -> None:
        self._drives = drives
        #: None where a row is free; batches look into this list.
        self.buffers: list[RegisteredBuffer | None] = [None] * count
        self._lists: dict[int, list[DmaMemory]] = {}

    def add(self, mappings: DmaMemory | Sequence[DmaMemory], access: Access, tables: DeviceTables) -> RegisteredBuffer:
        """See `Ring.register`."""
        given = tuple(mappings) if isinstance(mappings, Sequence) else (mappings,)
        what = "register a buffer"
        if len(given) != len(self._drives) or len({(m.address, m.nbytes) for m in given}) != 1:
            raise BufferInvalid(
                what,
                f"{len(given)} mappings of {len({(m.address, m.nbytes) for m in given})} memories",
                f"Give one mapping of the same memory for each of {len(self._drives)} drives.",
            )
        row = next((i for i, buffer in enumerate(self.buffers) if buffer is None), None)
        if row is None:
            raise BufferInvalid(
                what, f"{len(self.buffers)} are registered", "Unregister one, or raise RingOptions.buffers."
            )
        lists: list[DmaMemory] = []
        try:
            found = [_describe(d, m, access, lists) for d, m in zip(self._drives, given, strict=True)]
        except BaseException:
            for memory in lists:
                memory.close()
            raise
        # From here on the device may know the lists: they are kept, whatever happens.
        self._lists.setdefault(row, []).extend(lists)
        tables.write_buffer(row, found)
        buffer = RegisteredBuffer(row=row, address=given[0].address, nbytes=given[0].nbytes, access=access)
        self.buffers[row] = buffer
        return buffer

    def require(self, buffer: RegisteredBuffer) -> None:
        """Refuses a buffer that is not registered.

        Raises:
            BufferInvalid: it is not.
        """
        if not (0 <= buffer.row < len(self.buffers)) or self.buffers[buffer.row] is not buffer:
            raise BufferInvalid("unregister a buffer", f"buffer {buffer.row} is not registered", "Unregister it once.")

    def remove(self, buffer: RegisteredBuffer, tables: DeviceTables) -> None:
        """Forgets a registered buffer, while no drive reads its lists."""
        tables.write_buffer(buffer.row, [None] * len(self._drives))
        self.buffers[buffer.row] = None
        for memory in self._lists.pop(buffer.row):
            memory.close()

    def release(self, after: ExitStack) -> None:
        """Hands all lists to a stack, which closes them: drives may read them until their queues are gone."""
        lists, self._lists = self._lists, {}
        for held in lists.values():
            for memory in held:
                after.callback(memory.close)


def _describe(drive: Drive, memory: DmaMemory, access: Access, lists: list[DmaMemory]) -> NDArray[np.void]:
    """The device's record of a buffer for one drive; its list memory is added to ``lists``."""
    import numpy as np

    page_bytes = drive.handle.page_bytes
    pages = prp_list.page_addresses(memory.runs, page_bytes)
    layout = prp_list.plan(len(pages), page_bytes)
    space = drive.dma.allocate(layout.pages * page_bytes, alignment=page_bytes)
    lists.append(space)
    list_pages = prp_list.page_addresses(space.runs, page_bytes)[: layout.pages]
    space.write(0, prp_list.fill(layout, pages, list_pages).tobytes())
    table = drive.dma.allocate(8 * layout.pages)
    lists.append(table)
    table.write(0, list_pages.tobytes())
    row = np.zeros((), dtype("ring_buffer"))
    row["bytes"] = memory.nbytes
    row["bus"] = memory.runs[0][0]
    row["contiguous"] = bool((np.diff(pages) == page_bytes).all())
    row["entries"] = layout.entries
    row["list"] = space.address
    row["list_pages"] = table.address
    row["skewed_pages"] = table.address + 8 * layout.plain_pages
    row["skew"] = layout.skew
    row["access"] = access
    return row

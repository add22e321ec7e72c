"""Registered buffers: memory that requests may name, with its descriptors, built once for each drive."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import ExitStack
from typing import TYPE_CHECKING

from tutti_hal.errors import BufferInvalid
from tutti_hal.io_uring.batch import RegisteredBuffer
from tutti_hal.io_uring.descriptors import Descriptors, describe
from tutti_hal.io_uring.layout import Access

if TYPE_CHECKING:
    from tutti_hal.io_uring.device_tables import DeviceTables
    from tutti_hal.io_uring.options import Drive, RingOptions
    from tutti_hal.nvme.memory import DmaMemory


class Registry:
    """The registered buffers of a ring, by row. It owns their descriptors."""

    def __init__(self, drives: Sequence[Drive], options: RingOptions) -> None:
        self._drives, self._use_sgl = drives, options.use_sgl
        #: None where a row is free; batches look into this list.
        self.buffers: list[RegisteredBuffer | None] = [None] * options.buffers
        self._held: dict[int, list[Descriptors]] = {}

    def add(
        self,
        mappings: DmaMemory | Sequence[DmaMemory],
        access: Access,
        tables: DeviceTables,
        *,
        metadata: DmaMemory | Sequence[DmaMemory] | None,
        piece: int | None,
    ) -> RegisteredBuffer:
        """See `Ring.register`."""
        what = "register a buffer"
        given = self._mappings(what, mappings)
        beside = None if metadata is None else self._mappings("register metadata", metadata)
        if piece is not None and (piece <= 0 or piece & (piece - 1)):
            raise BufferInvalid(what, f"a piece of {piece} bytes", "Use a power of two, not less than a drive's page.")
        row = next((i for i, buffer in enumerate(self.buffers) if buffer is None), None)
        if row is None:
            raise BufferInvalid(
                what, f"{len(self.buffers)} are registered", "Unregister one, or raise RingOptions.buffers."
            )
        with ExitStack() as undo:
            found = []
            for number, (drive, memory) in enumerate(zip(self._drives, given, strict=True)):
                made = describe(
                    drive,
                    memory,
                    access,
                    metadata=None if beside is None else beside[number],
                    piece=piece or 0,
                    sgl=self._use_sgl and drive.handle.limits.sgl.usable,
                )
                undo.callback(made.close)
                found.append(made)
            undo.pop_all()
        # From here on the device may know the lists: they are kept, whatever happens.
        self._held.setdefault(row, []).extend(found)
        tables.write_buffer(row, [made.row for made in found])
        buffer = RegisteredBuffer(
            row=row,
            address=given[0].address,
            nbytes=given[0].nbytes,
            access=access,
            metadata_address=0 if beside is None else beside[0].address,
            metadata_nbytes=0 if beside is None else beside[0].nbytes,
            piece=piece or 0,
            descriptor_bytes=sum(made.nbytes for made in found),
        )
        self.buffers[row] = buffer
        return buffer

    def _mappings(self, what: str, mappings: DmaMemory | Sequence[DmaMemory]) -> tuple[DmaMemory, ...]:
        given = tuple(mappings) if isinstance(mappings, Sequence) else (mappings,)
        memories = len({(m.address, m.nbytes) for m in given})
        if len(given) != len(self._drives) or memories != 1:
            raise BufferInvalid(
                what,
                f"{len(given)} mappings of {memories} memories",
                f"Give one mapping of the same memory for each of {len(self._drives)} drives.",
            )
        return given

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
        for made in self._held.pop(buffer.row):
            made.close()

    def release(self, after: ExitStack) -> None:
        """Hands all lists to a stack, which closes them: drives may read them until their queues are gone."""
        all_held, self._held = self._held, {}
        for held in all_held.values():
            for made in held:
                after.callback(made.close)

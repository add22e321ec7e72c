"""Devices that move data between drives and registered memory: what lies elsewhere is staged through a part of it."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from tutti_hal.errors import StoreOptionInvalid
from tutti_hal.store.device import Piece, check

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray


class StagedDevice(ABC):
    """Reads and writes of a `BlockDevice` over registered memory: the *arena*, then the staging part at its end.

    A subclass moves (`_run`), flushes and closes.

    Args:
        memory: as the host sees it.
        staging_bytes: of its end; a multiple of the block.
        block_bytes, blocks, volatile: see `BlockDevice`.

    Raises:
        StoreOptionInvalid: no room for staging.
    """

    _command_limit = 0

    def __init__(
        self, memory: NDArray[np.uint8], staging_bytes: int, *, block_bytes: int, blocks: int, volatile: bool
    ) -> None:
        self.block_bytes, self.blocks, self.volatile = block_bytes, blocks, volatile
        if staging_bytes < block_bytes or staging_bytes > memory.nbytes or staging_bytes % block_bytes:
            raise StoreOptionInvalid(
                "put a store on registered memory",
                f"{staging_bytes} bytes of staging, of {memory.nbytes}",
                "Give whole blocks within the memory.",
            )
        self._memory = memory
        self._staging = memory.nbytes - staging_bytes
        #: Memory from which and to which data move without a copy.
        self.arena = memory[: self._staging]

    def read(self, pieces: Sequence[Piece]) -> None:
        """See `BlockDevice.read`. Pieces within the arena move as they are; the others go by what staging holds."""
        self._move("read", pieces)

    def write(self, pieces: Sequence[Piece]) -> None:
        """See `BlockDevice.write`."""
        self._move("write", pieces)

    def write_durable(self, piece: Piece) -> None:
        """See `BlockDevice.write_durable`."""
        self._move("write", [piece], durable=True)

    # ---- of the subclass ----

    @abstractmethod
    def flush(self) -> None:
        """See `BlockDevice.flush`."""

    @abstractmethod
    def close(self) -> None:
        """See `BlockDevice.close`."""

    @abstractmethod
    def _run(self, verb: str, batch: Sequence[tuple[int, Piece]], durable: bool) -> None:
        """Moves pieces between the device and the memory at these offsets. Blocks until all are done.

        Raises:
            StoreDeviceError: one failed.
        """

    @abstractmethod
    def _commands(self, piece: Piece) -> int:
        """How much of a batch's `_command_limit` a piece may take; 0 where batches are somebody else's."""

    # ---- batches ----

    def _move(self, verb: str, pieces: Sequence[Piece], *, durable: bool = False) -> None:
        check(self, pieces, verb)
        for batch in self._batches(pieces):
            copies = [(at, piece) for at, piece in batch if at >= self._staging]
            if verb == "write":
                for at, piece in copies:
                    self._memory[at : at + piece.data.nbytes] = piece.data
            self._run(verb, batch, durable)
            if verb == "read":
                for at, piece in copies:
                    piece.data[:] = self._memory[at : at + piece.data.nbytes]

    def _batches(self, pieces: Sequence[Piece]) -> Iterator[list[tuple[int, Piece]]]:
        """Pieces with their offsets in the memory, as many as a batch and the staging memory hold."""
        batch: list[tuple[int, Piece]] = []
        at = self._staging
        commands = 0
        for piece in self._parts(pieces):
            inside = self._offset(piece.data)
            need = 0 if inside is not None else piece.data.nbytes
            count = self._commands(piece)
            if batch and (at + need > self._memory.nbytes or commands + count > self._command_limit):
                yield batch
                batch, at, commands = [], self._staging, 0
            batch.append((inside if inside is not None else at, piece))
            at += need
            commands += count
        if batch:
            yield batch

    def _parts(self, pieces: Sequence[Piece]) -> Iterator[Piece]:
        """Pieces that lie elsewhere, cut to what staging holds."""
        room = self._memory.nbytes - self._staging
        for piece in pieces:
            if self._offset(piece.data) is not None or piece.data.nbytes <= room:
                yield piece
                continue
            for at in range(0, piece.data.nbytes, room):
                yield Piece(piece.lba + at // self.block_bytes, piece.data[at : at + room])

    def _offset(self, data: NDArray[np.uint8]) -> int | None:
        """Where in the arena an array lies; None where it does not, or not at a multiple of 4."""
        offset = int(data.__array_interface__["data"][0]) - int(self._memory.__array_interface__["data"][0])
        return offset if offset >= 0 and offset + data.nbytes <= self._staging and offset % 4 == 0 else None

"""What a store stands on: blocks that are written, flushed and read, and what may be believed of each.

A device promises little, as a drive does:

* what was written and not flushed may be lost, wholly or in part, in any order; a single block is old or new;
* what was written before a flush began is durable when the flush ends;
* `BlockDevice.write_durable` writes one block that is durable when it ends, whatever else was written before.

The store uses nothing else. The crash tests judge it on a device that does all the harm that this allows.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

from tutti_hal.errors import StoreDeviceError

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray


@dataclass(frozen=True)
class Piece:
    """Whole blocks that move together.

    Attributes:
        lba: the first block on the device.
        data: bytes, one-dimensional and contiguous; whole blocks. Its owner keeps it until the call returns.
    """

    lba: int
    data: NDArray[np.uint8]


class BlockDevice(Protocol):
    """Blocks under a store. One caller at a time. Every call blocks until it is done.

    Attributes:
        block_bytes: of a block; a power of two from 512 to 65536.
        blocks: how many there are.
        volatile: whether a write needs a flush to be durable (a drive's Identify says so: VWC).
    """

    block_bytes: int
    blocks: int
    volatile: bool

    def read(self, pieces: Sequence[Piece]) -> None:
        """Fills each piece from the device.

        Raises:
            StoreDeviceError: a piece is not within the device, or the device failed.
        """

    def write(self, pieces: Sequence[Piece]) -> None:
        """Writes each piece, in any order. Durable after the next `flush`, where the device is volatile.

        Raises:
            StoreDeviceError: as `read`; then nothing is known of any of them.
        """

    def write_durable(self, piece: Piece) -> None:
        """Writes one piece; it is durable when this returns.

        Raises:
            StoreDeviceError: as `write`.
        """

    def flush(self) -> None:
        """Makes durable what was written before.

        Raises:
            StoreDeviceError: the device failed.
        """

    def close(self) -> None:
        """Gives back what it holds, the lock of the store among it. Idempotent."""


def check(device: BlockDevice, pieces: Sequence[Piece], tried: str) -> None:
    """Refuses pieces that are no whole blocks of the device.

    Raises:
        StoreDeviceError: one of them is not.
    """
    for piece in pieces:
        count, rest = divmod(piece.data.nbytes, device.block_bytes)
        if rest or not count or piece.lba < 0 or piece.lba + count > device.blocks:
            raise StoreDeviceError(
                f"{tried} {piece.data.nbytes} bytes at block {piece.lba}",
                f"the device has {device.blocks} blocks of {device.block_bytes} bytes",
                "Is this the device that the store was made on?",
            )


class MemoryDevice:
    """Blocks in memory, durable at once: for tests, and to look at an image.

    Args:
        blocks: how many.
        block_bytes: of each.
        image: what they hold at first; zeroes when None. It is used, not copied.
    """

    volatile = False

    def __init__(self, blocks: int, block_bytes: int = 4096, *, image: NDArray[np.uint8] | None = None) -> None:
        import numpy as np

        self.block_bytes, self.blocks = block_bytes, blocks
        self.image = np.zeros(blocks * block_bytes, np.uint8) if image is None else image

    def read(self, pieces: Sequence[Piece]) -> None:
        """See `BlockDevice.read`."""
        check(self, pieces, "read")
        for piece in pieces:
            at = piece.lba * self.block_bytes
            piece.data[:] = self.image[at : at + piece.data.nbytes]

    def write(self, pieces: Sequence[Piece]) -> None:
        """See `BlockDevice.write`."""
        check(self, pieces, "write")
        for piece in pieces:
            at = piece.lba * self.block_bytes
            self.image[at : at + piece.data.nbytes] = piece.data

    def write_durable(self, piece: Piece) -> None:
        """See `BlockDevice.write_durable`."""
        self.write([piece])

    def flush(self) -> None:
        """See `BlockDevice.flush`."""

    def close(self) -> None:
        """See `BlockDevice.close`."""

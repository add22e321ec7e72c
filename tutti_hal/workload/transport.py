"""What the replay needs from whatever moves bytes between an arena of device memory and some drives."""

from __future__ import annotations

import enum
from dataclasses import dataclass
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

#: One tensor's move: drive, byte offset there, bytes, byte offset in the arena.
TRANSFER = np.dtype(
    [("drive", np.uint32), ("nbytes", np.uint32), ("drive_offset", np.uint64), ("arena_offset", np.uint64)]
)


class Direction(enum.Enum):
    """Which way bytes go, seen from the arena."""

    READ = "read"
    WRITE = "write"


@dataclass(frozen=True)
class Completion:
    """A batch that succeeded whole.

    Attributes:
        seconds: from the first command's start to the last one's end, on the clock of whoever ran the batch.
    """

    seconds: float


class Pending(Protocol):
    """A batch in flight. Its part of the arena belongs to the drives until ``wait`` returns."""

    def wait(self) -> Completion:
        """Blocks until every command has ended; bounded.

        Raises:
            TransportError: a command failed; the text names the drive, the offset and the NVMe status.
        """


@dataclass(frozen=True)
class TransportStatistics:
    """Counted since the start, by whoever does the work and not by whoever asks for it.

    Attributes:
        batches: batches submitted.
        commands: NVMe commands that the drives completed.
        doorbells: submission-queue doorbell writes by kernels, as the ring's own words count them.
        doorbells_seen: of these, those that the drives' controllers saw one by one (they poll: writes between two looks
            count as one).
        host_calls: calls of the host API, all functions together.
        drive_read_bytes: per drive, bytes that it read from its medium for us.
        drive_written_bytes: per drive, bytes that it wrote.
    """

    batches: int
    commands: int
    doorbells: int
    doorbells_seen: int
    host_calls: int
    drive_read_bytes: tuple[int, ...]
    drive_written_bytes: tuple[int, ...]

    def since(self, earlier: TransportStatistics) -> TransportStatistics:
        """What was counted after ``earlier``."""
        return TransportStatistics(
            self.batches - earlier.batches,
            self.commands - earlier.commands,
            self.doorbells - earlier.doorbells,
            self.doorbells_seen - earlier.doorbells_seen,
            self.host_calls - earlier.host_calls,
            tuple(new - old for new, old in zip(self.drive_read_bytes, earlier.drive_read_bytes, strict=True)),
            tuple(new - old for new, old in zip(self.drive_written_bytes, earlier.drive_written_bytes, strict=True)),
        )


class Transport(Protocol):
    """Moves batches of tensors; several batches may be in flight, in no order among them."""

    @property
    def drives(self) -> int:
        """How many drives there are."""

    @property
    def arena(self) -> NDArray[np.uint8]:
        """The device memory that transfers read from and write to, seen from the host. Owned by the transport."""

    def submit(self, direction: Direction, transfers: NDArray[np.void]) -> Pending:
        """Starts a batch of any length without waiting for it; ``transfers`` has dtype ``TRANSFER`` and is copied.

        Raises:
            TransportError: the batch could not be handed over.
        """

    def statistics(self) -> TransportStatistics:
        """The counters now."""

"""An in-memory transport for tests of the replay: bytes move when a batch is waited for, faults on order."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from tutti_hal.errors import TransportError
from tutti_hal.workload.transport import Completion, Direction, TransportStatistics


class FakePending:
    def __init__(self, owner: FakeTransport, direction: Direction, transfers: NDArray[np.void]) -> None:
        self._owner, self._direction, self._transfers = owner, direction, transfers.copy()

    def wait(self) -> Completion:
        self._owner.in_flight.remove(self)
        self._owner.log.append(("end", self._direction, len(self._transfers)))
        for t in self._transfers:
            self._owner.move(self._direction, t)
        return Completion(0.001)


class FakeTransport:
    """Drives are arrays. ``spoil`` may change a drive's bytes or refuse, before each transfer."""

    def __init__(self, drives: int, drive_bytes: int, arena_bytes: int) -> None:
        self.media = [np.zeros(drive_bytes, np.uint8) for _ in range(drives)]
        self.arena: NDArray[np.uint8] = np.zeros(arena_bytes, np.uint8)
        self.in_flight: list[FakePending] = []
        self.log: list[tuple[str, Direction, int]] = []
        self.read = [0] * drives
        self.written = [0] * drives
        self.lose_writes = False
        self.refuse: Callable[[Direction, int], bool] = lambda _direction, _drive: False

    @property
    def drives(self) -> int:
        return len(self.media)

    def submit(self, direction: Direction, transfers: NDArray[np.void]) -> FakePending:
        pending = FakePending(self, direction, transfers)
        self.in_flight.append(pending)
        self.log.append(("begin", direction, len(transfers)))
        return pending

    def move(self, direction: Direction, transfer: np.void) -> None:
        drive, nbytes = int(transfer["drive"]), int(transfer["nbytes"])
        at, arena = int(transfer["drive_offset"]), int(transfer["arena_offset"])
        if self.refuse(direction, drive):
            raise TransportError(f"{direction.value} on drive {drive} at {at}", "status 02h/81h", "Replace the drive.")
        medium, memory = self.media[drive][at : at + nbytes], self.arena[arena : arena + nbytes]
        assert len(medium) == len(memory) == nbytes
        if direction is Direction.READ:
            memory[:] = medium
            self.read[drive] += nbytes
        elif not self.lose_writes:
            medium[:] = memory
            self.written[drive] += nbytes

    def statistics(self) -> TransportStatistics:
        return TransportStatistics(0, 0, 0, 0, 0, tuple(self.read), tuple(self.written))

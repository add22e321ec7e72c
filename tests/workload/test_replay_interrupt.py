"""A signal that comes between a batch's end and the replay's note of it."""

from __future__ import annotations

import numpy as np
import pytest

from tutti_hal.errors import RingError
from tutti_hal.workload.replay import _Flight
from tutti_hal.workload.transport import Completion, Direction


class _EndedUnnoted:
    """A batch that ended while the signal came: waiting once more finds it free."""

    def __init__(self) -> None:
        self.waits = 0

    def wait(self) -> Completion:
        self.waits += 1
        if self.waits == 1:
            raise KeyboardInterrupt
        raise RingError("wait for a batch", "it is free", "It must be in flight.")


class _Transport:
    def __init__(self, pending: _EndedUnnoted) -> None:
        self._pending = pending

    def submit(self, _direction: Direction, _transfers: object) -> _EndedUnnoted:
        return self._pending


def test_the_signal_is_what_is_shown() -> None:
    pending = _EndedUnnoted()
    flight = _Flight(_Transport(pending))  # type: ignore[arg-type]
    flight.start(Direction.READ, np.zeros(1))
    with pytest.raises(KeyboardInterrupt):
        flight.finish(Direction.READ)
    flight.drain()  # as the pipeline does while the signal unwinds it: no error may take the signal's place
    assert pending.waits == 2

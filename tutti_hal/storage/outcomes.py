"""What the runtime's methods give back, other than results."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from typing import TYPE_CHECKING

from tutti_hal.storage.status import Status

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from tutti_hal.errors import StorageError


class RuntimeState(Enum):
    """Where a runtime is in its life."""

    RUNNING = "running"
    #: It takes nothing new, and waits for what is in flight.
    DRAINING = "draining"
    STOPPED = "stopped"


@dataclass(frozen=True)
class Submission:
    """What became of a submit.

    Attributes:
        io: the handle to wait for; None exactly when no request was accepted.
        initial: how each request stands, by `initial_dtype`. What is not PENDING was refused and never ran.
    """

    io: int | None
    initial: NDArray[np.void]

    @property
    def accepted(self) -> NDArray[np.bool_]:
        """Which requests were accepted."""
        pending: NDArray[np.bool_] = self.initial["status"] == Status.PENDING
        return pending

    @property
    def again(self) -> NDArray[np.bool_]:
        """Which were refused only for the moment, and may be submitted again as they are."""
        later: NDArray[np.bool_] = self.initial["status"] == Status.RESOURCE_EXHAUSTED
        return later


@dataclass(frozen=True)
class IoState:
    """How a submit stands.

    Attributes:
        ended: whether its results are there.
        requests: in all.
        accepted: how many of them were accepted.
    """

    ended: bool
    requests: int
    accepted: int


@dataclass(frozen=True)
class OpenOutcome:
    """What became of a batch of opens, item by item.

    Attributes:
        handles: of the targets; 0 where an item failed.
        errors: None where an item was opened.
    """

    handles: NDArray[np.uint64]
    errors: tuple[StorageError | None, ...]

    @property
    def failed(self) -> int:
        """How many items failed."""
        return sum(error is not None for error in self.errors)

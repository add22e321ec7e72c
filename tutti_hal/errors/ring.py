"""The ring: what it refuses."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tutti_hal.errors.base import TuttiError

if TYPE_CHECKING:
    from tutti_hal.io_uring.recovery import QueueRecovery


class RingError(TuttiError):
    """The ring refuses what was asked of it."""

    id = "TT-RING"


class DepthInvalid(RingError):
    """A queue cannot have this depth or so many commands."""

    id = "TT-RING-DEPTH"


class BatchFull(RingError):
    """More requests, after splitting, than a batch holds; or every batch is in flight."""

    id = "TT-RING-BATCH"


class RequestInvalid(RingError):
    """A request has no length, or one that is no multiple of the block, or an offset that a drive cannot take."""

    id = "TT-RING-REQUEST"


class LbaOutOfRange(RingError):
    """A request reaches past the end of its namespace."""

    id = "TT-RING-LBA"


class BufferInvalid(RingError):
    """A buffer is not registered, too small for the request, or cannot be registered."""

    id = "TT-RING-BUFFER"


class NamespaceAbsent(RingError):
    """The drive has no active namespace of that number."""

    id = "TT-RING-NSID"


class RingBusy(RingError):
    """What was asked cannot be done while a batch is in flight."""

    id = "TT-RING-BUSY"


class RecoveryFailed(RingError):
    """A queue could not be made to work again by any step; `results` says how far each queue came."""

    id = "TT-RING-RECOVERY"

    def __init__(self, tried: str, found: str, fix: str, results: tuple[QueueRecovery, ...]) -> None:
        super().__init__(tried, found, fix)
        self.results = results

"""What a ring needs of a controller's handle, whoever answers its doorbells."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import AbstractContextManager
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from tutti_hal.nvme.memory import DmaMemory
    from tutti_hal.nvme.queues import ControllerLimits, NamespaceInfo, QueuePair


class DriveHandle(Protocol):
    """Limits, namespaces and queue pairs of a controller. `ControllerHandle` and `DeviceHandle` are such."""

    limits: ControllerLimits
    page_bytes: int

    @property
    def pairs(self) -> tuple[QueuePair, ...]:
        """The I/O queue pairs that exist."""
        ...

    @property
    def now_ns(self) -> int:
        """The clock in which all waits are measured."""
        ...

    @property
    def deadline_ns(self) -> int:
        """When all waits end."""
        ...

    def namespaces(self) -> tuple[int, ...]:
        """The ids of all active namespaces, ascending."""
        ...

    def namespace(self, nsid: int) -> NamespaceInfo:
        """One namespace."""
        ...

    def grant_queues(self, wanted: int, *, minimum: int = 1) -> int:
        """Asks for I/O queue pairs, before the first."""
        ...

    def create_queue_pair(
        self,
        depth: int,
        *,
        qid: int | None = None,
        cq_depth: int | None = None,
        sq_memory: DmaMemory | None = None,
        cq_memory: DmaMemory | None = None,
        priority: int = 0,
        completes_to: QueuePair | None = None,
    ) -> QueuePair:
        """Creates a queue pair."""
        ...

    def delete_queue_pair(self, pair: QueuePair) -> None:
        """Deletes a queue pair."""
        ...

    def recreate_queue_pairs(self, pairs: Sequence[QueuePair]) -> list[QueuePair]:
        """Deletes pairs and creates them again over the same memory."""
        ...

    def write_cq_head(self, pair: QueuePair, slot: int) -> None:
        """Tells the controller that the completions before a slot were taken."""
        ...

    def abort(self, sqid: int, cid: int) -> bool:
        """Asks the controller to abort a command; whether it says that it did."""
        ...

    def reset(self) -> None:
        """Resets the controller; all I/O queues are gone."""
        ...

    def within(self, timeout_ns: int) -> AbstractContextManager[None]:
        """Bounds all waits inside together."""
        ...

    def pause(self) -> None:
        """Lets a moment pass between two looks."""
        ...

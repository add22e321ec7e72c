"""An I/O control block: one batch, with the memory by which it travels to the device and back."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import ExitStack
from enum import Enum
from typing import TYPE_CHECKING

from tutti_hal.io_uring.batch import Batch, RegisteredBuffer, Target
from tutti_hal.io_uring.layout import dtype

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from tutti_hal.io_uring.options import RingOptions
    from tutti_hal.shim import Device


class Stage(Enum):
    """Where a control block is in its life."""

    FREE = "free"
    FILLING = "filling"
    IN_FLIGHT = "in flight"


class Iocb(Batch):
    """A batch of a ring. Filled by its methods, then handed to ``Ring.issue_io``, then to ``Ring.wait_cqe``.

    It belongs to its ring, which uses it again after it was waited for.
    """

    def __init__(
        self,
        device: Device,
        options: RingOptions,
        number: int,
        targets: Sequence[Target],
        buffers: Sequence[RegisteredBuffer | None],
    ) -> None:
        """Use ``Ring.get_iocb``. Allocates for ``options.batch_limit`` commands."""
        limit = options.batch_limit
        request, status = dtype("ring_request"), dtype("ring_status")
        self.number = number
        self.stage = Stage.FREE
        self.submitted = 0
        with ExitStack() as made:
            self.staging = made.enter_context(device.allocate(limit * request.itemsize, kind="pinned"))
            self.requests = made.enter_context(device.allocate(limit * request.itemsize))
            self.mapped = made.enter_context(device.allocate(limit * status.itemsize, kind="mapped"))
            self.done = made.enter_context(device.create_event())
            self._made = made.pop_all()
        self.results: NDArray[np.void] = self.mapped.numpy(status)[:limit]
        super().__init__(targets, buffers, self.staging.numpy(request)[:limit], options.queues)

    @property
    def request_bytes(self) -> int:
        """Bytes of the packed requests: what one copy takes to the device."""
        return self.command_count * dtype("ring_request").itemsize

    @property
    def packed(self) -> NDArray[np.void]:
        """The packed requests, as ``ring_request`` records."""
        return self.staging.numpy(dtype("ring_request"))[: self.command_count]

    def close(self) -> None:
        """Gives the memory back."""
        self._made.close()

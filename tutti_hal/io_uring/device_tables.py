"""The tables as they lie on the device, with the host's image of them: filled, copied, read back."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import ExitStack
from typing import TYPE_CHECKING

from tutti_hal.io_uring import tables
from tutti_hal.io_uring.layout import dtype
from tutti_hal.nvme.registers import Offset

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from tutti_hal.io_uring.batch import Target
    from tutti_hal.io_uring.options import Drive, RingOptions
    from tutti_hal.nvme.queues import QueuePair
    from tutti_hal.shim import Device


class DeviceTables:
    """One allocation on the device, its image in pinned memory, and the stream that copies between them.

    Every method that copies waits for the copy.
    """

    def __init__(
        self,
        device: Device,
        drives: Sequence[Drive],
        options: RingOptions,
        targets: Sequence[Target],
        pairs: Sequence[QueuePair],
    ) -> None:
        """Allocates, fills everything but the buffers, copies it. ``close`` gives the memory back."""
        import numpy as np

        self._drives, self._options = drives, options
        self._plan = tables.Plan(options, len(drives), len(targets))
        with ExitStack() as made:
            self._memory = made.enter_context(device.allocate(self._plan.nbytes))
            self._staging = made.enter_context(device.allocate(self._plan.nbytes, kind="pinned"))
            self.stream = made.enter_context(device.create_stream())
            self._image: NDArray[np.uint8] = self._staging.numpy(np.uint8)[: self._plan.nbytes]
            self._image[:] = 0
            self._fill_targets(targets)
            for row, pair in enumerate(pairs):
                self._fill_queue(row, pair)
            self._upload(tables.Section(0, self._plan.nbytes))
            self._made = made.pop_all()

    @property
    def addresses(self) -> tuple[int, int, int]:
        """Where the device finds targets, queues and buffers."""
        base, plan = self._memory.address, self._plan
        return base + plan.targets.offset, base + plan.queues.offset, base + plan.buffers.offset

    def _fill_targets(self, targets: Sequence[Target]) -> None:
        options = self._options
        rows = tables.section(self._image, self._plan.targets).view(dtype("ring_target"))
        for target in targets:
            limits = self._drives[target.drive].handle.limits
            rows[target.row] = tables.target_row(
                target,
                options,
                page_bytes=limits.page_bytes,
                sgl=options.use_sgl and limits.sgl.usable,
                queue_first=target.drive * options.queues_per_drive,
                buffer_first=target.drive * options.buffers,
            )

    def _fill_queue(self, row: int, pair: QueuePair) -> None:
        options, private = self._options, self._plan.private[row]
        commands = options.commands_on(self._drives[row // options.queues_per_drive].handle.limits)
        # CSTS lies as far before the first doorbell as the offsets say.
        assert pair.sq_tail_address is not None
        csts = pair.sq_tail_address - pair.sq_tail_offset + Offset.CSTS
        queues = tables.section(self._image, self._plan.queues).view(dtype("ring_queue"))
        queues[row] = tables.queue_row(
            pair,
            private,
            commands=commands,
            completion_interval=options.completion_interval,
            base=self._memory.address,
            csts_address=csts,
        )
        tables.fresh_queue(
            self._image,
            private,
            commands=commands,
            depth=pair.depth,
            cq_depth=pair.cq_depth,
            first=options.first_ticket,
        )

    def _upload(self, where: tables.Section) -> None:
        self.stream.copy(self._memory.part(where.offset, where.nbytes), self._staging.part(where.offset, where.nbytes))
        self.stream.synchronize()

    def renew_queue(self, row: int, pair: QueuePair) -> None:
        """A queue as it is before its first command: for a pair that was made anew, while no kernel runs."""
        self._fill_queue(row, pair)
        size = dtype("ring_queue").itemsize
        self._upload(tables.Section(self._plan.queues.offset + row * size, size))
        self._upload(self._plan.private[row].whole)

    def write_buffer(self, row: int, found: Sequence[NDArray[np.void] | None]) -> None:
        """The records of a registered buffer, one for each drive; None takes a drive's away."""
        rows = tables.section(self._image, self._plan.buffers).view(dtype("ring_buffer"))
        size = dtype("ring_buffer").itemsize
        places = [number * self._options.buffers + row for number in range(len(found))]
        for place, record in zip(places, found, strict=True):
            rows[place] = 0 if record is None else record
        for place in places:
            self._upload(tables.Section(self._plan.buffers.offset + place * size, size))

    def read_states(self) -> list[NDArray[np.void]]:
        """A copy of every queue's words, behind what is enqueued on ``stream``."""
        import numpy as np

        states = []
        for private in self._plan.private:
            state = np.zeros(1, dtype("ring_queue_state"))
            self.stream.copy(state.view(np.uint8), self._memory.part(private.state.offset, private.state.nbytes))
            states.append(state[0])
        return states

    def close(self) -> None:
        """Gives stream and memory back."""
        self._made.close()

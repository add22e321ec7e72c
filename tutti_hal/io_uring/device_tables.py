"""The tables as they lie on the device, with the host's image of them: filled, copied, read back."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from typing import TYPE_CHECKING

from tutti_hal.io_uring import tables
from tutti_hal.io_uring.layout import Health, dtype
from tutti_hal.io_uring.statistics import COUNTERS
from tutti_hal.nvme.registers import Offset

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from tutti_hal.io_uring.batch import Target
    from tutti_hal.io_uring.options import Drive, RingOptions
    from tutti_hal.nvme.queues import QueuePair
    from tutti_hal.shim import Device, Stream


@dataclass(frozen=True)
class QueueWords:
    """A queue's own words as they were found on the device.

    Attributes:
        queue: its ``ring_queue``.
        state: its ``ring_queue_state``.
        commands: one word for each row of identifiers.
    """

    queue: np.void
    state: np.void
    commands: NDArray[np.uint64]

    @property
    def identifiers(self) -> NDArray[np.uint64]:
        """The identifier that each row had last."""
        import numpy as np

        return self.commands & np.uint64(0xFFFF)


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
            self._aside = made.enter_context(device.create_stream())
            self._image: NDArray[np.uint8] = self._staging.numpy(np.uint8)[: self._plan.nbytes]
            self._image[:] = 0
            self._fill_targets(targets)
            for row, pair in enumerate(pairs):
                self._fill_queue(row, pair)
                self._begin(row)
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
                queue_first=target.drive * options.queues_per_drive,
                buffer_first=target.drive * options.buffers,
            )

    def _fill_queue(self, row: int, pair: QueuePair) -> None:
        options, private = self._options, self._plan.private[row]
        sharing = options.sharing(row)
        commands = options.commands_on(self._drives[row // options.queues_per_drive].handle.limits)
        # CSTS lies as far before the first doorbell as the offsets say.
        assert pair.sq_tail_address is not None
        csts = pair.sq_tail_address - pair.sq_tail_offset + Offset.CSTS
        self._queues[row] = tables.queue_row(
            pair,
            private,
            commands=commands,
            completion_interval=options.completion_interval,
            base=self._memory.address,
            csts_address=csts,
            cq_plan=self._plan.private[sharing.start],
            cq_queues=len(sharing),
            cq_place=row - sharing.start,
        )

    def _begin(self, row: int, used: NDArray[np.uint64] | None = None) -> None:
        """A queue's own words as they are before its first command."""
        queue = self._queue(row)
        ticket, head = tables.first_places(self._options.first_ticket, int(queue["sq_depth"]), int(queue["cq_depth"]))
        tables.idle_queue(self._image, self._plan.private[row], queue, used=used, ticket=ticket, head=head)

    @property
    def _queues(self) -> NDArray[np.void]:
        return tables.section(self._image, self._plan.queues).view(dtype("ring_queue"))

    def _queue(self, row: int) -> np.void:
        queue: np.void = self._queues[row]
        return queue

    def _upload(self, where: tables.Section, stream: Stream | None = None) -> None:
        stream = stream or self.stream
        stream.copy(self._memory.part(where.offset, where.nbytes), self._staging.part(where.offset, where.nbytes))
        stream.synchronize()

    # ---- one queue, while no kernel uses it; kernels that use others may run beside ----

    def read_words(self, row: int) -> QueueWords:
        """A copy of a queue's own words, whatever is enqueued on ``stream``."""
        import numpy as np

        private, queue = self._plan.private[row], self._queue(row)
        raw = np.zeros(private.whole.nbytes, np.uint8)
        self._aside.copy(raw, self._memory.part(private.whole.offset, private.whole.nbytes))
        self._aside.synchronize()
        base = private.whole.offset
        state = raw[: private.state.nbytes].view(dtype("ring_queue_state"))[0]
        words = raw[private.commands.offset - base :].view(np.uint64)[: int(queue["command_limit"])]
        return QueueWords(queue=queue.copy(), state=state, commands=words)

    def renew_queue(self, row: int, pair: QueuePair, words: QueueWords) -> None:
        """A queue as it is before its first command, but for the generations of its identifiers.

        For a pair that was made anew; ``words`` are those of its former life.
        """
        self._fill_queue(row, pair)
        self._begin(row, words.identifiers)
        size = dtype("ring_queue").itemsize
        self._upload(tables.Section(self._plan.queues.offset + row * size, size), self._aside)
        self._upload(self._plan.private[row].whole, self._aside)

    def close_queue(self, row: int, words: QueueWords) -> None:
        """From now on kernels leave a queue alone, its memory too, until it is renewed: it may be gone."""
        states = tables.section(self._image, self._plan.private[row].state).view(dtype("ring_queue_state"))
        states[0] = words.state
        state = states[0]
        # Who finds the completion word held does not look at the completion queue.
        state["completion"] |= 1
        state["health"] |= 0 if state["health"] else Health.FATAL
        self._upload(self._plan.private[row].state, self._aside)

    def go_on(self, row: int, words: QueueWords, head: int, *, lates: int, strays: int) -> None:
        """A queue of which nothing is outstanding any more goes on where it stands.

        Args:
            row: the queue.
            words: as they were found.
            head: completions taken from its completion queue, by kernels and by the host.
            lates: how many of those that the host took were of withdrawn commands.
            strays: how many were of nobody's.
        """
        private, was = self._plan.private[row], words.state
        ticket = int(was["ticket"])
        tables.idle_queue(self._image, private, self._queue(row), used=words.identifiers, ticket=ticket, head=head)
        state = tables.section(self._image, private.state).view(dtype("ring_queue_state"))[0]
        for name in COUNTERS:
            state[name] = was[name]
        state["lates"] += lates
        state["strays"] += strays
        self._upload(private.whole, self._aside)

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

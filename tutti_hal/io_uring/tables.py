"""The tables in device memory that a launch reads: targets, buffers, queues, and each queue's own words.

One allocation holds them all. The host keeps an image of it and copies what changed.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

from tutti_hal.io_uring.layout import dtype, reciprocal, structs

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from tutti_hal.io_uring.batch import Target
    from tutti_hal.io_uring.options import RingOptions
    from tutti_hal.nvme.queues import QueuePair

#: Sections begin on lines of their own.
_LINE = 128


@dataclass(frozen=True)
class Section:
    """A piece of the allocation."""

    offset: int
    nbytes: int


class Plan:
    """Where everything lies in the allocation."""

    def __init__(self, options: RingOptions, drives: int, targets: int) -> None:
        self._options = options
        self._end = 0
        self.queue_count = drives * options.queues_per_drive
        sizes = {name: structs()[name].size for name in ("ring_target", "ring_buffer", "ring_queue")}
        self.targets = self._take(targets * sizes["ring_target"])
        self.buffers = self._take(drives * options.buffers * sizes["ring_buffer"])
        self.queues = self._take(self.queue_count * sizes["ring_queue"])
        self.private = tuple(self._private() for _ in range(self.queue_count))

    def _take(self, nbytes: int) -> Section:
        section = Section(self._end, nbytes)
        self._end += -(-nbytes // _LINE) * _LINE
        return section

    def _private(self) -> PrivatePlan:
        options = self._options
        return PrivatePlan(
            state=self._take(structs()["ring_queue_state"].size),
            marks=self._take(8 * options.depth),
            commands=self._take(8 * options.commands),
            cells=self._take(8 * options.commands),
        )

    @cached_property
    def nbytes(self) -> int:
        """Bytes of the allocation."""
        return self._end


@dataclass(frozen=True)
class PrivatePlan:
    """What belongs to one queue: contiguous, so that one copy makes the queue anew."""

    state: Section
    marks: Section
    commands: Section
    cells: Section

    @property
    def whole(self) -> Section:
        """All of it."""
        return Section(self.state.offset, self.cells.offset + self.cells.nbytes - self.state.offset)


def target_row(
    target: Target, options: RingOptions, *, page_bytes: int, queue_first: int, buffer_first: int
) -> NDArray[np.void]:
    """The device's record of a target."""
    import numpy as np

    row = np.zeros((), dtype("ring_target"))
    row["nsid"] = target.nsid
    row["page_shift"] = page_bytes.bit_length() - 1
    row["block_bytes"] = target.block_bytes, target.action_block_bytes
    row["metadata_bytes"] = target.metadata_bytes, target.action_metadata_bytes
    row["lba_shift"] = target.lba_bytes.bit_length() - 1
    if target.protection:
        row["application"] = target.application_mask << 16 | target.application_tag
        row["reference_mask"] = 0 if target.protection == 3 else 0xFFFFFFFF
    row["queue_first"] = queue_first
    row["buffer_first"] = buffer_first
    row["buffer_count"] = options.buffers
    row["max_blocks"] = target.max_blocks
    row["block_limit"] = target.blocks
    first = 0
    for index, count in enumerate(options.queues):
        row["classes"][index] = count << 16 | first if count else 0
        first += count
    return row


def queue_row(
    pair: QueuePair,
    plan: PrivatePlan,
    *,
    commands: int,
    completion_interval: int,
    base: int,
    csts_address: int,
    cq_plan: PrivatePlan,
    cq_queues: int,
    cq_place: int,
) -> NDArray[np.void]:
    """The device's record of a queue pair.

    Args:
        pair: the pair.
        plan: where its words lie.
        commands: how many may be outstanding.
        completion_interval: completions taken before the CQ doorbell is written.
        base: device address of the allocation.
        csts_address: of the controller status register.
        cq_plan: where the words of the first pair lie that completes where this one does.
        cq_queues: how many pairs complete there.
        cq_place: how many rows after the first of them this one is.
    """
    import numpy as np

    index_bits = (commands - 1).bit_length()
    row = np.zeros((), dtype("ring_queue"))
    row["state"] = base + plan.state.offset
    row["cq_state"] = base + cq_plan.state.offset
    row["cq_queues"] = cq_queues
    row["cq_place"] = cq_place
    row["sq"] = pair.sq_address
    row["cq"] = pair.cq_address
    row["sq_doorbell"] = pair.sq_tail_address
    row["cq_doorbell"] = pair.cq_head_address
    row["csts"] = csts_address
    row["marks"] = base + plan.marks.offset
    row["commands"] = base + plan.commands.offset
    row["cells"] = base + plan.cells.offset
    row["sq_reciprocal"] = reciprocal(pair.depth)
    row["cq_reciprocal"] = reciprocal(pair.cq_depth)
    row["command_reciprocal"] = reciprocal(commands)
    row["sq_depth"] = pair.depth
    row["cq_depth"] = pair.cq_depth
    row["command_limit"] = commands
    row["index_bits"] = index_bits
    # The last value is left out, so that no identifier is ever FFFFh.
    row["generations"] = (1 << (16 - index_bits)) - 1
    row["id"] = pair.qid
    row["cq_interval"] = completion_interval
    return row


def first_places(first: int, depth: int, cq_depth: int) -> tuple[int, int]:
    """The ticket and the completion that a queue begins with when about ``first`` of each have gone before.

    A drive begins at entry 0 of both queues, and its phase is 1 on laps of even number.
    """
    return first - first % depth, first - first % (2 * cq_depth)


def idle_queue(
    image: NDArray[np.uint8],
    plan: PrivatePlan,
    queue: np.void,
    *,
    used: NDArray[np.uint64] | None = None,
    ticket: int = 0,
    head: int = 0,
) -> None:
    """Writes a queue's words into the image as they are when nothing is outstanding. Its counters start at 0.

    Args:
        image: of all tables.
        plan: the queue's.
        queue: its ``ring_queue``.
        used: the identifier that each row had last: its next one is of the next generation, so that the drive's late
            completion names none that is in use. None for a queue that never was.
        ticket: the next one; all before it have ended. See `first_places` for a new queue.
        head: completions taken so far, likewise.
    """
    import numpy as np

    section(image, plan.whole)[:] = 0
    state = section(image, plan.state).view(dtype("ring_queue_state"))[0]
    commands = int(queue["command_limit"])
    # With more commands than entries, the entries bound the first credits.
    credits = min(commands, int(queue["sq_depth"]) - 1)
    state["credits"] = credits
    state["ticket"] = state["retired"] = state["sq_head"] = ticket
    state["allowed"] = ticket + credits
    state["doorbell"] = ticket << 1
    state["completion"] = head << 1
    state["cq_rung"] = head
    rows = np.arange(commands, dtype=np.uint64)
    identifiers = rows
    if used is not None:
        bits = np.uint64(queue["index_bits"])
        generation = ((used >> bits) + np.uint64(1)) % np.uint64(queue["generations"])
        identifiers = generation << bits | rows
        section(image, plan.commands).view(np.uint64)[:commands] = used
    cells = section(image, plan.cells).view(np.uint64)[:commands]
    tickets = np.uint64(ticket) + rows
    # A cell has room for the low 48 bits of a ticket.
    cells[tickets % np.uint64(commands)] = tickets << np.uint64(16) | identifiers


def section(image: NDArray[np.uint8], where: Section) -> NDArray[np.uint8]:
    """The bytes of a section."""
    return image[where.offset : where.offset + where.nbytes]

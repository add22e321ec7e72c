"""What a ring is made from: drives, and how many queues of which depth with how many commands."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from tutti_hal.errors import DepthInvalid, RequestInvalid
from tutti_hal.io_uring.layout import MAX_COMMANDS

if TYPE_CHECKING:
    from tutti_hal.nvme.drive_handle import DriveHandle
    from tutti_hal.nvme.memory import Dma
    from tutti_hal.nvme.queues import ControllerLimits

#: Queue classes that a target can have.
MAX_CLASSES = 4


@dataclass(frozen=True, kw_only=True)
class Drive:
    """A controller and where the ring's memory for it comes from.

    Args:
        handle: brought up; the ring creates its queue pairs there and deletes them when it is closed.
        dma: memory for PRP lists, and for queues that are not placed elsewhere.
        sq_dma: where submission queues lie, such as device memory; None takes `dma`.
        cq_dma: where completion queues lie.
        namespaces: the ones to use; None takes all active ones.
        application_tag: of protection information: what drives write and expect, 16 bits.
        application_mask: which bits of it they compare.
    """

    handle: DriveHandle
    dma: Dma
    sq_dma: Dma | None = None
    cq_dma: Dma | None = None
    namespaces: tuple[int, ...] | None = None
    application_tag: int = 0
    application_mask: int = 0xFFFF

    def __post_init__(self) -> None:
        for name in ("application_tag", "application_mask"):
            value = getattr(self, name)
            if not 0 <= value <= 0xFFFF:
                raise RequestInvalid(f"use a drive with {name}={value}", "it has 16 bits", "Use 0 to 65535.")


@dataclass(frozen=True, kw_only=True)
class RingOptions:
    """Sizes and bounds of a ring. Checked when the ring is made, against each drive.

    Args:
        depth: entries of each submission queue, from 2 to the drive's limit.
        cq_depth: entries of each completion queue; None takes `depth`.
        command_limit: commands that a queue may have outstanding; None takes ``depth - 1``, or what the drive works on
            at a time (MAXCMD) where that is less. More than ``depth - 1`` lets a submission queue entry be used again
            as soon as the drive reports that it fetched it, and so rests on the SQ head that the drive reports.
        cq_interval: completions taken before the CQ doorbell is written; None takes a quarter of the depth, which is
            the most.
        queues: how many queue pairs each drive gets for each class; requests name a class by its place here.
        queues_per_cq: how many submission queues of a class complete to one completion queue; the last one of a class
            may serve fewer. More than 1 is for drives with few completion queues. Such queues have no more commands
            than entries, and the steps of `Ring.recover` take all queues of a completion queue together.
        batch_limit: commands that a batch may hold.
        batches: batches that exist at once.
        buffers: buffers that may be registered at once.
        limit_ns: how long a command may take, in the device's clock; also how long a lane waits for a place on a queue
            that stands still. Where others get on, it waits with them.
        block: lanes of a block of the kernel, 1 to 256.
        lanes: lanes of a launch at most.
        use_sgl: address contiguous buffers, and those registered in pieces, by SGLs where the drive can; else always
            by PRPs.
        first_ticket: for tests of long life: queues begin as if so many commands had gone before, rounded down to
            where both queues are at entry 0. Their words hold 63 bits, which no machine lives to see the end of.
    """

    depth: int = 256
    cq_depth: int | None = None
    command_limit: int | None = None
    cq_interval: int | None = None
    queues: tuple[int, ...] = (1,)
    queues_per_cq: int = 1
    batch_limit: int = 4096
    batches: int = 2
    buffers: int = 64
    limit_ns: int = 10_000_000_000
    block: int = 128
    lanes: int = 1024
    use_sgl: bool = True
    first_ticket: int = 0

    def __post_init__(self) -> None:
        for name, low, high in (
            ("batch_limit", 1, 1 << 24),
            ("batches", 1, 64),
            ("buffers", 1, 1 << 16),
            ("limit_ns", 1, 1 << 62),
            ("block", 1, 256),
            ("lanes", 1, 1 << 24),
            ("first_ticket", 0, (1 << 63) - 1),
            ("queues_per_cq", 1, (1 << 16) - 1),
        ):
            value = getattr(self, name)
            if not low <= value <= high:
                raise DepthInvalid(f"make a ring with {name}={value}", "out of range", f"Use {low} to {high}.")
        if not 1 <= len(self.queues) <= MAX_CLASSES or min(self.queues) < 0 or sum(self.queues) < 1:
            raise DepthInvalid(
                f"make a ring with queues={self.queues}",
                "no usable classes",
                f"Give 1 to {MAX_CLASSES} numbers of queues, not all 0.",
            )

    @property
    def queues_per_drive(self) -> int:
        """Queue pairs that each drive gets."""
        return sum(self.queues)

    @property
    def completion_groups(self) -> tuple[range, ...]:
        """The queues of a drive, counted from 0, that share each completion queue; in order."""
        groups, first = [], 0
        for count in self.queues:
            for start in range(first, first + count, self.queues_per_cq):
                groups.append(range(start, min(start + self.queues_per_cq, first + count)))
            first += count
        return tuple(groups)

    def sharing(self, row: int) -> range:
        """The rows of the table of queues that share a completion queue with ``row``, itself among them."""
        number, place = divmod(row, self.queues_per_drive)
        group = next(group for group in self.completion_groups if place in group)
        base = number * self.queues_per_drive
        return range(base + group.start, base + group.stop)

    @property
    def commands(self) -> int:
        """Commands that one queue may have outstanding on a drive without a limit of its own.

        Raises:
            DepthInvalid: none, more than identifiers allow, or more than entries where a completion queue is shared.
        """
        limit = min(self.depth - 1, MAX_COMMANDS) if self.command_limit is None else self.command_limit
        if not 1 <= limit <= MAX_COMMANDS:
            raise DepthInvalid(
                f"make a queue of depth {self.depth} for {limit} commands",
                "one entry of a queue always stays free, and identifiers are few",
                f"Use a depth of 2 or more and 1 to {MAX_COMMANDS} commands.",
            )
        if limit >= self.depth and self.queues_per_cq > 1:
            raise DepthInvalid(
                f"have {limit} commands outstanding on a queue of depth {self.depth} that shares its completion queue",
                "that rests on the SQ head that the drive reports, which is followed for queues with one of their own",
                f"Use a command_limit of up to {self.depth - 1}, or queues_per_cq=1.",
            )
        return limit

    def commands_on(self, limits: ControllerLimits) -> int:
        """Commands that one queue of a drive may have outstanding.

        Raises:
            DepthInvalid: as `commands`; or `command_limit` asks for more than the drive works on at a time.
        """
        most = limits.max_outstanding
        if most is None or self.commands <= most:
            return self.commands
        if self.command_limit is not None:
            raise DepthInvalid(
                f"have {self.command_limit} commands outstanding on a queue",
                f"the drive works on {most} at a time (MAXCMD)",
                f"Use a command_limit of up to {most}, or None.",
            )
        return most

    @property
    def completion_depth(self) -> int:
        """Entries of each completion queue."""
        return self.depth if self.cq_depth is None else self.cq_depth

    @property
    def completion_interval(self) -> int:
        """Completions taken before the CQ doorbell is written.

        Raises:
            DepthInvalid: 0, or more than a quarter of the depth: a group takes up to as many at once as are left, so
                that more could leave half the queue untold.
        """
        most = max(self.completion_depth // 4, 1)
        interval = most if self.cq_interval is None else self.cq_interval
        if not 1 <= interval <= most:
            raise DepthInvalid(
                f"write the CQ doorbell every {interval} completions",
                f"the completion queue has {self.completion_depth} entries",
                f"Use 1 to {most}.",
            )
        return interval

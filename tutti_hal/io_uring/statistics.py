"""What the queues counted, as numbers of each queue and of all."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from tutti_hal.io_uring.layout import Health

if TYPE_CHECKING:
    from collections.abc import Sequence


#: Fields of ``ring_queue_state`` that only count.
COUNTERS = ("completions", "doorbells", "cq_doorbells", "reaps", "cq_loads", "strays", "lates", "quarantined")


@dataclass(frozen=True, slots=True, kw_only=True)
class QueueStatistics:
    """Counters of one queue since it was made; `health` is as of now.

    Attributes:
        drive: number of the drive.
        qid: identifier of the queue pair.
        commands: tickets handed out.
        completions: completions believed.
        doorbells: writes of the SQ doorbell.
        cq_doorbells: writes of the CQ doorbell.
        reaps: times that a group of lanes took completions.
        cq_loads: reads of completion queue entries, those that found nothing included.
        strays: completions of unknown, repeated or outdated identifiers.
        lates: completions that came after their command was withdrawn.
        quarantined: commands withdrawn on a deadline or a stop.
        credits: commands that could be submitted now: all that fit while nothing is outstanding.
        health: what is wrong with the queue.
    """

    drive: int
    qid: int
    commands: int
    completions: int
    doorbells: int
    cq_doorbells: int
    reaps: int
    cq_loads: int
    strays: int
    lates: int
    quarantined: int
    credits: int
    health: Health

    @classmethod
    def of(cls, state: Any, drive: int, qid: int, first_ticket: int = 0) -> QueueStatistics:
        """From a ``ring_queue_state`` record of a queue whose first ticket was ``first_ticket``."""
        return cls(
            drive=drive,
            qid=qid,
            commands=int(state["ticket"]) - first_ticket,
            credits=_signed(int(state["credits"])),
            health=Health(int(state["health"])),
            **{name: int(state[name]) for name in COUNTERS},
        )


@dataclass(frozen=True, slots=True)
class Statistics:
    """Of all queues of a ring."""

    queues: tuple[QueueStatistics, ...]

    def total(self, name: str) -> int:
        """The sum of one counter over the queues."""
        return sum(int(getattr(queue, name)) for queue in self.queues)

    @property
    def doorbells_per_command(self) -> float:
        """SQ doorbell writes for each command; 0 without commands."""
        return _ratio(self.queues, "doorbells")

    @property
    def cq_loads_per_command(self) -> float:
        """Reads of completion queue entries for each command; 0 without commands."""
        return _ratio(self.queues, "cq_loads")


def _signed(word: int) -> int:
    """A 64-bit word that may be below 0."""
    return word - (1 << 64) if word >> 63 else word


def _ratio(queues: Sequence[QueueStatistics], name: str) -> float:
    commands = sum(queue.commands for queue in queues)
    return sum(int(getattr(queue, name)) for queue in queues) / commands if commands else 0.0

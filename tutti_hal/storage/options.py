"""Sizes and bounds of a runtime."""

from __future__ import annotations

from dataclasses import dataclass, field

from tutti_hal.errors import DrivesInvalid
from tutti_hal.io_uring.options import RingOptions


def _default_ring() -> RingOptions:
    return RingOptions(queues=(1, 1), batches=4)


@dataclass(frozen=True, kw_only=True)
class RuntimeOptions:
    """How a runtime is made.

    Args:
        ring: of the ring below; its ``batches`` bound the submits in flight, its ``batch_limit`` the commands of one.
        read_class, write_class: queue class, counted from 0, of requests that name none.
        max_results: submits whose results are not released yet; more are refused.
        max_memory: handles of registered memory and its parts.
        max_targets: open targets.

    Raises:
        DrivesInvalid: a class without queues, or a limit below 1.
    """

    ring: RingOptions = field(default_factory=_default_ring)
    read_class: int = 0
    write_class: int = 1
    max_results: int = 64
    max_memory: int = 1 << 22
    max_targets: int = 1 << 20

    def __post_init__(self) -> None:
        queues = self.ring.queues
        for name in ("read_class", "write_class"):
            value = getattr(self, name)
            if not 0 <= value < len(queues) or queues[value] == 0:
                raise DrivesInvalid(
                    f"make a runtime with {name}={value}", f"the ring has queues={queues}", "Name a class with queues."
                )
        for name in ("max_results", "max_memory", "max_targets"):
            if not 1 <= getattr(self, name) <= 1 << 22:
                raise DrivesInvalid(
                    f"make a runtime with {name}={getattr(self, name)}", "out of range", "Use 1 to 4194304."
                )

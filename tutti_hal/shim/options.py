"""What streams, events and launches are made with."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property


@dataclass(frozen=True)
class StreamOptions:
    """How a stream is made.

    Attributes:
        nonblocking: it is not ordered against the default stream.
        priority: smaller is more urgent; None is the vendor's default. Needs the capability ``stream.priority``.
    """

    nonblocking: bool = True
    priority: int | None = None


@dataclass(frozen=True)
class EventOptions:
    """How an event is made.

    Attributes:
        timing: elapsed time can be asked; costs a little on some vendors.
        blocking_sync: a waiting host thread sleeps rather than spins.
    """

    timing: bool = True
    blocking_sync: bool = False


Extent = int | tuple[int, ...]


@dataclass(frozen=True)
class LaunchConfig:
    """The geometry and bounds of a launch.

    Attributes:
        grid: blocks, as a number or up to three (x, y, z).
        block: threads of a block, likewise.
        shared_bytes: dynamic shared memory of a block.
        limit_ns: end the launch after so many nanoseconds of the device's clock; None leaves the bound to the kernel
            and to the vendor. Needs the capability ``launch.bounded``.
        cooperative: all blocks must be resident together. Needs the capability ``launch.cooperative``.
    """

    grid: Extent
    block: Extent
    shared_bytes: int = 0
    limit_ns: int | None = None
    cooperative: bool = False

    @cached_property
    def extents(self) -> tuple[int, int, int, int, int, int]:
        """Grid x, y, z and block x, y, z; what was left out is 1.

        Raises:
            ValueError: more than three numbers, or one that is not a whole number in [0, 2**32).
        """
        return (*_triple(self.grid, "grid"), *_triple(self.block, "block"))


def _triple(extent: Extent, name: str) -> tuple[int, int, int]:
    values = (extent,) if isinstance(extent, int) else tuple(extent)
    if not 1 <= len(values) <= 3 or any(not 0 <= int(value) < 1 << 32 for value in values):
        raise ValueError(f"{name} is {extent!r}: one to three numbers, each from 0 to 2**32 - 1")
    x, y, z = (*(int(value) for value in values), 1, 1)[:3]
    return x, y, z

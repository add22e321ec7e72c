"""Open targets: what a URI was resolved to, and the tables in which requests find it."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from itertools import islice
from typing import TYPE_CHECKING

from tutti_hal.errors import StorageBusy
from tutti_hal.storage.extents import ExtentTable
from tutti_hal.storage.handles import Kind, SlotTable
from tutti_hal.storage.stripes import StripeLayout, StripeTable
from tutti_hal.storage.watch import FileWatch, look_again

if TYPE_CHECKING:
    from collections.abc import Sequence

    import numpy as np
    from numpy.typing import NDArray


@dataclass(frozen=True, slots=True)
class Resolved:
    """What a URI leads to.

    Attributes:
        uri: as it was given.
        leaves: extents of each member, by `extent_dtype`; one for a target that is not striped.
        layout: of a striped set, else None.
        size: bytes.
        block: bytes; lengths and offsets of requests are multiples of it.
        writable: whether writes are allowed.
        watches: of its files; none for ranges of namespaces.
    """

    uri: str
    leaves: tuple[NDArray[np.void], ...]
    layout: StripeLayout | None
    size: int
    block: int
    writable: bool
    watches: tuple[FileWatch, ...] = ()

    def close(self) -> None:
        """Lets its files go."""
        for watch in self.watches:
            watch.close()


@dataclass
class Opened:
    """An open target.

    Attributes:
        resolved: what it is.
        leaf_bases: of its leaves in the table of extents.
    """

    resolved: Resolved
    leaf_bases: tuple[int, ...]

    @cached_property
    def rows(self) -> tuple[int, ...]:
        """The ring's targets that it lies on, ascending."""
        import numpy as np

        return tuple(int(row) for row in np.unique(np.concatenate([leaf["row"] for leaf in self.resolved.leaves])))


@dataclass(frozen=True)
class TargetInfo:
    """What is known of an open target.

    Attributes:
        uri: as it was given.
        size: bytes.
        block: bytes of a block.
        writable: whether writes are allowed.
        drives: names of the drives that it lies on.
        extents: how many pieces it lies in, of all members.
        in_flight: batches in flight that use it.
        atomic_bytes: of the smallest logical block of its drives: what each of them writes whole, or not at all.
        volatile: whether one of its drives has a volatile write cache, so that a write needs a flush to be durable.
    """

    uri: str
    size: int
    block: int
    writable: bool
    drives: tuple[str, ...]
    extents: int
    in_flight: int
    atomic_bytes: int
    volatile: bool


class TargetTable:
    """Open targets. Not thread safe: the runtime's lock guards it."""

    def __init__(self, runtime: int) -> None:
        self.slots = SlotTable(
            Kind.TARGET,
            runtime,
            {
                "size": "<u8",
                "base": "<u8",
                "block": "<u4",
                "striped": "?",
                "writable": "?",
                "watched": "?",
                "users": "<u4",
            },
        )
        self.extents = ExtentTable()
        self.stripes = StripeTable()
        self._opened: dict[int, Opened] = {}
        self._striped = 0

    def __len__(self) -> int:
        return len(self._opened)

    def opened(self, slot: int) -> Opened:
        """What is open in a slot."""
        return self._opened[slot]

    def add(self, found: Sequence[Resolved]) -> NDArray[np.uint64]:
        """Takes what was resolved, and its files with it. Returns a handle for each.

        Raises:
            StorageExhausted: no slots are left; nothing was taken.
        """
        slots = self.slots.take(len(found), "open targets")
        bases = iter(self.extents.add([leaf for one in found for leaf in one.leaves]))
        own = [tuple(islice(bases, len(one.leaves))) for one in found]
        rows = self.slots.rows
        rows["size"][slots] = [one.size for one in found]
        rows["block"][slots] = [one.block for one in found]
        rows["writable"][slots] = [one.writable for one in found]
        rows["watched"][slots] = [bool(one.watches) for one in found]
        rows["striped"][slots] = [one.layout is not None for one in found]
        rows["base"][slots] = [
            leaves[0] if one.layout is None else self.stripes.add(one.layout, leaves)
            for one, leaves in zip(found, own, strict=True)
        ]
        self._striped += sum(one.layout is not None for one in found)
        self._opened.update(zip(slots.tolist(), map(Opened, found, own), strict=True))
        return self.slots.handles(slots)

    def close(self, slots: NDArray[np.int64]) -> None:
        """Closes targets, each slot once; all or none.

        Raises:
            StorageBusy: requests in flight use one of them.
        """
        if self.slots.rows["users"][slots].any():
            raise StorageBusy("close a target", "requests in flight use it", "Wait for them first.")
        gone = [self._opened.pop(slot) for slot in slots.tolist()]
        self.slots.give(slots)
        self.extents.remove(
            [base for one in gone for base in one.leaf_bases], [leaf for one in gone for leaf in one.resolved.leaves]
        )
        self._striped -= sum(one.resolved.layout is not None for one in gone)
        if not self._striped:
            self.stripes.clear()
        for one in gone:
            one.resolved.close()

    def moved(self, slots: NDArray[np.int64]) -> NDArray[np.bool_]:
        """Which of these targets are no longer where they were found. Reads the extents of their files again."""
        import numpy as np

        watched = np.flatnonzero(self.slots.rows["watched"][slots])
        watches = [self._opened[slot].resolved.watches for slot in slots[watched].tolist()]
        look_again([watch for some in watches for watch in some])
        moved = np.zeros(len(slots), bool)
        moved[watched] = [any(watch.gone for watch in some) for some in watches]
        return moved

    def release_files(self) -> None:
        """Lets all files go, when the runtime ends."""
        opened, self._opened = self._opened, {}
        for one in opened.values():
            one.resolved.close()

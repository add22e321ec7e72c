"""Open targets: what a URI was resolved to, and the tables in which requests find it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

from tutti_hal.errors import StorageBusy
from tutti_hal.storage.extents import ExtentTable
from tutti_hal.storage.handles import Kind, SlotTable
from tutti_hal.storage.stripes import StripeLayout, StripeTable

if TYPE_CHECKING:
    from collections.abc import Sequence

    import numpy as np
    from numpy.typing import NDArray


class Watch(Protocol):
    """What keeps a file open and knows whether it is still where it was."""

    def moved(self) -> bool:
        """Whether the extents differ from those that were found. Cheap when nothing happened to the file."""
        ...

    def close(self) -> None:
        """Lets the file go."""
        ...


@dataclass(frozen=True)
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
    watches: tuple[Watch, ...] = ()

    @property
    def rows(self) -> tuple[int, ...]:
        """The ring's targets that it lies on, ascending."""
        import numpy as np

        return tuple(int(row) for row in np.unique(np.concatenate([leaf["row"] for leaf in self.leaves])))

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
        rows: the ring's targets that it lies on.
    """

    resolved: Resolved
    leaf_bases: list[int]
    rows: tuple[int, ...]


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
    """

    uri: str
    size: int
    block: int
    writable: bool
    drives: tuple[str, ...]
    extents: int
    in_flight: int


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
        rows = self.slots.rows
        for slot, one in zip(slots, found, strict=True):
            own = [next(bases) for _ in one.leaves]
            row = rows[slot]
            row["size"], row["block"], row["writable"] = one.size, one.block, one.writable
            row["watched"] = bool(one.watches)
            row["striped"] = one.layout is not None
            row["base"] = own[0] if one.layout is None else self.stripes.add(one.layout, own)
            self._striped += one.layout is not None
            self._opened[int(slot)] = Opened(one, own, one.rows)
        return self.slots.handles(slots)

    def close(self, slot: int) -> None:
        """Closes a target.

        Raises:
            StorageBusy: requests in flight use it.
        """
        import numpy as np

        if self.slots.rows["users"][slot]:
            raise StorageBusy("close a target", "requests in flight use it", "Wait for them first.")
        gone = self._opened.pop(slot)
        self.slots.give(np.array([slot], np.int64))
        for base, leaf in zip(gone.leaf_bases, gone.resolved.leaves, strict=True):
            self.extents.remove(base, int(leaf["nbytes"].sum(dtype=np.uint64)))
        self._striped -= gone.resolved.layout is not None
        if not self._striped:
            self.stripes.clear()
        gone.resolved.close()

    def moved(self, slots: NDArray[np.int64]) -> NDArray[np.bool_]:
        """Which of these targets are no longer where they were found."""
        import numpy as np

        moved = np.zeros(len(slots), bool)
        for index in np.flatnonzero(self.slots.rows["watched"][slots]):
            watches = self._opened[int(slots[index])].resolved.watches
            moved[index] = any(watch.moved() for watch in watches)
        return moved

    def release_files(self) -> None:
        """Lets all files go, when the runtime ends."""
        opened, self._opened = self._opened, {}
        for one in opened.values():
            one.resolved.close()

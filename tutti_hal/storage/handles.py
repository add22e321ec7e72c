"""Handles: numbers that name a thing of one runtime, once. What was closed, or is another runtime's, is refused.

A handle is 63 bits, so that it is positive everywhere: kind (2), runtime (17), slot (22), generation (22). Runtimes
take random numbers, and a slot begins with a random generation, so that a handle of another runtime or process is not
taken for one of this. A slot whose generations are used up is never used again.
"""

from __future__ import annotations

import secrets
from enum import IntEnum
from typing import TYPE_CHECKING, Any

from tutti_hal.errors import HandleInvalid, StorageExhausted

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

_SLOT_BITS = _GENERATION_BITS = 22
_RUNTIME_BITS = 17
_GENERATIONS = (1 << _GENERATION_BITS) - 1  # 0 is none


class Kind(IntEnum):
    """What a handle names; 0 is nothing."""

    MEMORY = 1
    TARGET = 2
    IO = 3


def new_runtime_number() -> int:
    """A number for a runtime, not 0."""
    return secrets.randbelow((1 << _RUNTIME_BITS) - 1) + 1


class SlotTable:
    """Slots of one kind, with columns that belong to the layer above. Not thread safe: the runtime's lock guards it.

    Args:
        kind: of its handles.
        runtime: the runtime's number.
        columns: name and dtype of further columns, zeroed when a slot is taken.
        limit: slots at most.
    """

    def __init__(self, kind: Kind, runtime: int, columns: dict[str, str], limit: int = 1 << _SLOT_BITS) -> None:
        import numpy as np

        self._kind, self._limit = kind, min(limit, 1 << _SLOT_BITS)
        self._prefix = np.uint64(kind << 61 | runtime << (_SLOT_BITS + _GENERATION_BITS))
        record = [("generation", "<u4"), ("uses", "<u4"), ("live", "?"), *columns.items()]
        self.rows: NDArray[Any] = np.zeros(0, np.dtype(record))
        self._free: NDArray[np.int64] = np.empty(0, np.int64)
        self.live = 0

    def take(self, count: int, doing: str) -> NDArray[np.int64]:
        """Slots for ``count`` new things; all or none.

        Raises:
            StorageExhausted: fewer are left.
        """
        import numpy as np

        if len(self._free) < count:
            self._grow(count - len(self._free))
        if len(self._free) < count:
            raise StorageExhausted(doing, f"{self.live} are in use, of {self._limit}", "Close some.")
        slots, self._free = self._free[:count], self._free[count:]
        fresh = np.zeros(count, self.rows.dtype)
        fresh["generation"] = self.rows["generation"][slots] % _GENERATIONS + 1
        fresh["uses"] = self.rows["uses"][slots] + 1
        fresh["live"] = True
        self.rows[slots] = fresh
        self.live += count
        return slots

    def _grow(self, missing: int) -> None:
        import numpy as np

        old = len(self.rows)
        size = min(max(2 * old, old + missing, 64), self._limit)
        if size == old:
            return
        rows = np.zeros(size, self.rows.dtype)
        rows[:old] = self.rows
        raw = np.frombuffer(secrets.token_bytes(4 * (size - old)), np.uint32)
        rows["generation"][old:] = raw % _GENERATIONS
        self.rows = rows
        self._free = np.concatenate([self._free, np.arange(old, size)])

    def give(self, slots: NDArray[np.int64]) -> None:
        """Ends things: their handles are refused from now on."""
        import numpy as np

        self.rows["live"][slots] = False
        self.live -= len(slots)
        usable = self.rows["uses"][slots] < _GENERATIONS
        self._free = np.concatenate([self._free, slots[usable]])

    def handles(self, slots: NDArray[np.int64]) -> NDArray[np.uint64]:
        """The handles of live slots."""
        import numpy as np

        where = slots.astype(np.uint64) << np.uint64(_GENERATION_BITS)
        return self._prefix | where | self.rows["generation"][slots].astype(np.uint64)

    def find(self, handles: NDArray[np.uint64]) -> tuple[NDArray[np.int64], NDArray[np.bool_]]:
        """The slots of handles, and which of them are good; the slot of a bad one is 0 and means nothing."""
        import numpy as np

        low = _SLOT_BITS + _GENERATION_BITS
        slots = ((handles >> np.uint64(_GENERATION_BITS)) & np.uint64((1 << _SLOT_BITS) - 1)).astype(np.int64)
        good = ((handles >> np.uint64(low)) == (self._prefix >> np.uint64(low))) & (slots < len(self.rows))
        slots = np.where(good, slots, 0)
        if len(self.rows):
            generation = handles & np.uint64(_GENERATIONS)
            good &= self.rows["live"][slots] & (self.rows["generation"][slots] == generation)
        return slots, good

    def require(self, handle: int, doing: str) -> int:
        """The slot of one handle.

        Raises:
            HandleInvalid: it names nothing of this kind and runtime, or not any more.
        """
        import numpy as np

        if 0 <= handle < 1 << 64:
            slots, good = self.find(np.array([handle], np.uint64))
            if good[0]:
                return int(slots[0])
        noun = self._kind.name.lower()
        raise HandleInvalid(
            doing,
            f"{handle:#x} is no {noun} handle of this runtime, or what it named is closed",
            f"Pass a {noun} handle that this runtime gave and that was not closed.",
        )

    @property
    def live_slots(self) -> NDArray[np.int64]:
        """The slots that are in use, ascending."""
        import numpy as np

        return np.flatnonzero(self.rows["live"])

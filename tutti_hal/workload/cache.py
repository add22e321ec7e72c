"""The block cache: which hash ids are on the drives, and in which slot. Bounded, LRU, prefix closed."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from tutti_hal.errors import CacheError
from tutti_hal.workload.trace import TraceRequest


@dataclass(frozen=True)
class Entry:
    """A hash id and the slot that holds it, from 0 up to the cache's capacity."""

    hash_id: int
    slot: int


@dataclass(frozen=True)
class RequestPlan:
    """What one request does to the cache.

    Attributes:
        hits: its longest resident prefix, in order: to be read.
        misses: what follows, in order: to be computed and written.
        beyond: hash ids at the end that were left out, because a request may hold at most ``limit`` of them.
        evicted: hash ids that lost their slots to the misses.
    """

    hits: tuple[Entry, ...]
    misses: tuple[Entry, ...]
    beyond: int
    evicted: int


class BlockCache:
    """Resident hash ids by recency of use.

    A request's ids are touched from its last to its first, so a prefix is always more recent than what follows it, and
    eviction never leaves a block whose prefix is gone: residents are *prefix closed* as long as every id always has
    the same predecessor, which is what the trace format promises.

    Args:
        capacity: slots.
        limit: hash ids of one request that take part, at most ``capacity``; the default is ``capacity``.
    """

    def __init__(self, capacity: int, limit: int | None = None) -> None:
        limit = capacity if limit is None else limit
        if capacity < 1 or not 1 <= limit <= capacity:
            raise CacheError(
                "making a block cache", f"capacity {capacity}, limit {limit}", "Give 1 <= limit <= capacity."
            )
        self._limit = limit
        self._free = list(range(capacity - 1, -1, -1))
        self._slots: OrderedDict[int, int] = OrderedDict()  # least recent first

    def __len__(self) -> int:
        return len(self._slots)

    def __contains__(self, hash_id: int) -> bool:
        return hash_id in self._slots

    def residents(self) -> tuple[Entry, ...]:
        """Everything resident, the least recently used first."""
        return tuple(Entry(hash_id, slot) for hash_id, slot in self._slots.items())

    def admit(self, hash_ids: Sequence[int]) -> RequestPlan:
        """Takes one request in: says what to read and what to write, and evicts what must go.

        A resident id behind a missing one (possible only in traces that break the format's promise) counts as a miss
        and is written again into its own slot.
        """
        taking_part = hash_ids[: self._limit]
        prefix = 0
        while prefix < len(taking_part) and taking_part[prefix] in self._slots:
            prefix += 1
        hits = tuple(Entry(hash_id, self._slots[hash_id]) for hash_id in taking_part[:prefix])
        # The request's own ids become the most recent first, so that they are never what is evicted for it.
        for hash_id in reversed(taking_part):
            if hash_id in self._slots:
                self._slots.move_to_end(hash_id)
        evicted = 0
        misses = []
        for hash_id in taking_part[prefix:]:
            if hash_id not in self._slots:
                if self._free:
                    slot = self._free.pop()
                else:
                    _, slot = self._slots.popitem(last=False)
                    evicted += 1
                self._slots[hash_id] = slot
            misses.append(Entry(hash_id, self._slots[hash_id]))
        for hash_id in reversed(taking_part):
            self._slots.move_to_end(hash_id)
        return RequestPlan(hits, tuple(misses), len(hash_ids) - len(taking_part), evicted)


def plan(requests: Iterable[TraceRequest], capacity: int, limit: int | None = None) -> tuple[RequestPlan, ...]:
    """The plans of a whole trace, from an empty cache of ``capacity`` slots."""
    cache = BlockCache(capacity, limit)
    return tuple(cache.admit(request.hash_ids) for request in requests)

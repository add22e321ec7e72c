"""The host's index: the newest record of each key, what is pinned, and what the store holds in sum."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable

from tutti_hal.store import format as fmt
from tutti_hal.store.eviction import Policy
from tutti_hal.store.records import EntryRow, Op


class Index:
    """Keys and their newest records. Policies of eviction look at it; kernels have a table of their own.

    Args:
        policy: the order in which objects would go.
        entries: what there is, in any order.
    """

    def __init__(self, policy: Policy, entries: Iterable[EntryRow] = ()) -> None:
        self.entries: dict[bytes, EntryRow] = {}
        self.policy = policy
        self.pins: Counter[bytes] = Counter()
        #: Bytes of all objects, and how many there are; deleted keys that are still remembered are none.
        self.object_bytes = 0
        self.objects = 0
        #: Bytes that all entries take in a checkpoint.
        self.row_bytes = 0
        for entry in sorted(entries, key=lambda one: (one.version, one.key)):
            self.set(entry)

    def object(self, key: bytes) -> EntryRow | None:
        """The object of a key; None where it has none."""
        entry = self.entries.get(key)
        return entry if entry is not None and entry.op is Op.PUT else None

    def set(self, entry: EntryRow) -> EntryRow | None:
        """Makes an entry the newest of its key. Returns the one that it replaces."""
        old = self.entries.get(entry.key)
        moved = old is not None and old.version == entry.version
        if old is not None:
            self._count(old, -1)
        self.entries[entry.key] = entry
        self._count(entry, 1)
        if not moved:
            if entry.op is Op.PUT:
                self.policy.add(entry.key)
            else:
                self.policy.remove(entry.key)
        return old

    def forget(self, key: bytes) -> None:
        """Drops what is remembered of a key that has no object."""
        self._count(self.entries.pop(key), -1)

    def _count(self, entry: EntryRow, sign: int) -> None:
        self.row_bytes += sign * fmt.entry_row_bytes(len(entry.key))
        if entry.op is Op.PUT:
            self.object_bytes += sign * entry.payload_bytes
            self.objects += sign

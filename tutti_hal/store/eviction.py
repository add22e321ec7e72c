"""Which objects go when there is no room: policies over keys. They choose; the store logs what was chosen.

The order of use is not kept on the device: after a recovery, objects count as used in the order of their versions.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterator
from typing import Protocol


class Policy(Protocol):
    """An order of keys, the first to go first."""

    def add(self, key: bytes) -> None:
        """An object was put, for the first time or again."""

    def use(self, key: bytes) -> None:
        """An object was read."""

    def remove(self, key: bytes) -> None:
        """An object is gone. Does nothing where it was not known."""

    def victims(self) -> Iterator[bytes]:
        """Keys in the order in which they would go. Do not change the policy while it runs."""


class Lru:
    """The one that was used longest ago goes first."""

    def __init__(self) -> None:
        self._keys: OrderedDict[bytes, None] = OrderedDict()

    def add(self, key: bytes) -> None:
        """See `Policy.add`."""
        self._keys[key] = None
        self._keys.move_to_end(key)

    def use(self, key: bytes) -> None:
        """See `Policy.use`."""
        self._keys.move_to_end(key)

    def remove(self, key: bytes) -> None:
        """See `Policy.remove`."""
        self._keys.pop(key, None)

    def victims(self) -> Iterator[bytes]:
        """See `Policy.victims`."""
        return iter(self._keys)


class SegmentedLru:
    """Two orders: keys that were put, and keys that were used since. The first order goes first.

    So one pass over many objects that nobody reads again does not drive out those that are read.

    Args:
        protected: share of the keys that may be in the second order; what falls out of it is the last of the first.
    """

    def __init__(self, protected: float = 0.8) -> None:
        self._share = protected
        self._put: OrderedDict[bytes, None] = OrderedDict()
        self._used: OrderedDict[bytes, None] = OrderedDict()

    def add(self, key: bytes) -> None:
        """See `Policy.add`."""
        if key in self._used:
            self._used.move_to_end(key)
            return
        self._put[key] = None
        self._put.move_to_end(key)

    def use(self, key: bytes) -> None:
        """See `Policy.use`."""
        self._put.pop(key, None)
        self._used[key] = None
        self._used.move_to_end(key)
        limit = max(1, int(self._share * (len(self._put) + len(self._used))))
        while len(self._used) > limit:
            fallen, _ = self._used.popitem(last=False)
            self._put[fallen] = None

    def remove(self, key: bytes) -> None:
        """See `Policy.remove`."""
        self._put.pop(key, None)
        self._used.pop(key, None)

    def victims(self) -> Iterator[bytes]:
        """See `Policy.victims`."""
        yield from self._put
        yield from self._used

"""What every block may hold: one tag where that is sure, else a set."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tutti_hal.conformance_tests.campaign.wide.tables import MAX_BLOCKS, TAG_BITS, WRITE, WRITE_ZEROES, bases

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from tutti_hal.conformance_tests.campaign.steps import Setting
    from tutti_hal.conformance_tests.campaign.wide.view import View

#: In the place of a tag: the block has several candidates, which are among the keys.
_SEVERAL = -9


class Blocks:
    """All blocks of all spaces. A key is ``block << TAG_BITS | tag``; keys are kept sorted.

    Args:
        setting: of the trial; its namespaces hold zeroes.
    """

    def __init__(self, setting: Setting) -> None:
        import numpy as np

        count = int(bases(setting)[-1])
        if count > MAX_BLOCKS:
            raise ValueError(f"{count} blocks, and a key has room for {MAX_BLOCKS}")
        self._now = np.zeros(count, np.int64)
        self._keys = np.zeros(0, np.int64)
        #: Of the batch that is being judged: what its writes put, and which blocks those are.
        self._sure = self._maybe = self._moving = np.zeros(0, np.int64)
        self._written = np.zeros(count, bool)

    def begin(self, view: View, moved: tuple[NDArray[np.bool_], NDArray[np.bool_]]) -> None:
        """A batch: requests of one run in any order, so each may meet what any other one writes.

        Args:
            view: of the batch.
            moved: of each of its blocks, whether its data surely moved, and whether perhaps.
        """
        import numpy as np

        writes = np.isin(view.verb, (WRITE, WRITE_ZEROES))[view.owners]
        keys = _key(view.places, view.tags)
        self._sure, self._maybe = (np.unique(keys[writes & mask]) for mask in moved)
        self._moving = np.union1d(self._sure, self._maybe)
        self._written[:] = False
        self._written[self._moving >> TAG_BITS] = True

    def may_hold(self, places: NDArray[np.int64], tags: NDArray[np.int64]) -> NDArray[np.bool_]:
        """Whether each of these blocks may hold that tag, before, in or after the batch."""
        keys = _key(places, tags)
        found: NDArray[np.bool_] = (tags >= 0) & (
            (self._now[places] == tags) | _among(keys, self._keys) | _among(keys, self._moving)
        )
        return found

    def may_be(self, places: NDArray[np.int64], tags: NDArray[np.int64]) -> tuple[NDArray[np.bool_], NDArray[np.bool_]]:
        """Whether each of these blocks may hold that tag, and whether it may hold another one."""
        may, now = self.may_hold(places, tags), self._now[places]
        other = (now != tags) & (now != _SEVERAL)
        for keys in (self._keys, self._moving):
            same = _among(_key(places, tags), keys)
            other |= _count(places, keys) - same > 0
        return may, other

    def learn(self, places: NDArray[np.int64], tags: NDArray[np.int64]) -> NDArray[np.bool_]:
        """Who saw what in blocks that the batch did not write; whether all who looked at a block saw the same."""
        import numpy as np

        quiet = ~self._written[places]
        first = np.full(len(self._now), _SEVERAL, np.int64)
        first[places[quiet]] = tags[quiet]
        agreed: NDArray[np.bool_] = ~quiet | (first[places] == tags)
        news = np.unique(places[quiet & (self._now[places] == _SEVERAL)])
        if len(news):
            self._now[news] = first[news]
            self._keys = self._keys[~np.isin(self._keys >> TAG_BITS, news)]
        return agreed

    def settle(self) -> None:
        """What blocks may hold after the batch: what was surely written by anybody, else also what was there."""
        import numpy as np

        if not len(self._moving):
            return
        sure = np.zeros(len(self._now), bool)
        sure[self._sure >> TAG_BITS] = True
        changed = self._written
        stays = changed & ~sure
        kept_keys = self._keys[stays[self._keys >> TAG_BITS]]
        single = np.flatnonzero(stays & (self._now != _SEVERAL))
        keys = np.unique(np.concatenate([self._moving, kept_keys, _key(single, self._now[single])]))
        places = keys >> TAG_BITS
        counts = np.bincount(places, minlength=len(self._now))
        alone = counts[places] == 1
        self._now[places] = np.where(alone, keys & ((1 << TAG_BITS) - 1), _SEVERAL)
        self._keys = np.sort(np.concatenate([self._keys[~changed[self._keys >> TAG_BITS]], keys[~alone]]))
        self._moving = np.zeros(0, np.int64)


def _key(places: NDArray[np.int64], tags: NDArray[np.int64]) -> NDArray[np.int64]:
    import numpy as np

    # What is no tag has no key; -1 is none.
    return np.where(tags >= 0, places << TAG_BITS | np.maximum(tags, 0), -1)


def _among(keys: NDArray[np.int64], known: NDArray[np.int64]) -> NDArray[np.bool_]:
    import numpy as np

    if not len(known):
        return np.zeros(len(keys), bool)
    at = np.minimum(np.searchsorted(known, keys), len(known) - 1)
    found: NDArray[np.bool_] = known[at] == keys
    return found


def _count(places: NDArray[np.int64], known: NDArray[np.int64]) -> NDArray[np.int64]:
    """Keys of each of these blocks."""
    import numpy as np

    count: NDArray[np.int64] = np.searchsorted(known, (places + 1) << TAG_BITS) - np.searchsorted(
        known, places << TAG_BITS
    )
    return count

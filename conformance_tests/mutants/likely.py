"""Which cases are likely to notice a mutant: those that killed its neighbours."""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Mapping

from tutti_hal.conformance_tests.case import Instance
from tutti_hal.conformance_tests.mutants.mutant import Mutant

#: A neighbour of the same function says more than one of the same file, and any more than none.
_IN_PLACE, _IN_FILE, _ANYWHERE = 1.0, 0.2, 0.05

#: What an instance costs beside its own seconds.
_OVERHEAD_S = 0.02


class Likely:
    """Learns from every kill; for any thread. What it says changes the order of cases, and the time; no verdict.

    Args:
        known: mutant id -> the instance that killed it when it was tried before.
    """

    def __init__(self, known: Mapping[str, str] | None = None) -> None:
        self._known = dict(known or {})
        self._lock = threading.Lock()
        self._places: dict[str, Counter[str]] = {}
        self._files: dict[str, Counter[str]] = {}

    def learn(self, mutant: Mutant, killer: str) -> None:
        """An instance killed a mutant."""
        with self._lock:
            self._places.setdefault(mutant.place, Counter())[killer] += 1
            self._files.setdefault(mutant.file, Counter())[killer] += 1

    def known(self, mutant: Mutant) -> str:
        """Id of the instance that killed this mutant before; empty where none is known."""
        return self._known.get(mutant.id, "")

    def price(self, mutant: Mutant, instance: Instance, seconds: float) -> float:
        """What an instance costs by the chance that it kills: the cheapest comes first."""
        if instance.id == self.known(mutant):
            return 0.0
        with self._lock:
            in_place = self._places.get(mutant.place, Counter())
            in_file = self._files.get(mutant.file, Counter())
            chance = _ANYWHERE
            for weight, counts in ((_IN_PLACE, in_place), (_IN_FILE, in_file)):
                chance += weight * counts[instance.id] / max(1, counts.total())
        return (seconds + _OVERHEAD_S) / chance

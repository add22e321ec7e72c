"""A sample of mutants that holds some of every kind."""

from __future__ import annotations

import random
from collections.abc import Sequence

from tutti_hal.conformance_tests.mutants.mutant import Mutant

Stratum = tuple[str, str]


def draw(mutants: Sequence[Mutant], size: int, seed: int) -> tuple[Mutant, ...]:
    """A sample in the mutants' order, the same for the same seed; all of them where ``size`` is no smaller.

    Every kind (what is changed, and by which operator) gives its share by its size; where there is room, at least one.
    """
    if size >= len(mutants):
        return tuple(mutants)
    chance = random.Random(seed)
    strata: dict[Stratum, list[Mutant]] = {}
    for one in mutants:
        strata.setdefault((one.source.value, one.operator.value), []).append(one)
    for members in strata.values():
        chance.shuffle(members)
    chosen = {one.id for key, count in _shares(strata, size, chance).items() for one in strata[key][:count]}
    return tuple(one for one in mutants if one.id in chosen)


def _shares(strata: dict[Stratum, list[Mutant]], size: int, chance: random.Random) -> dict[Stratum, int]:
    """How many each stratum gives: one each as far as that goes, the rest by largest remainder."""
    keys = list(strata)
    if size < len(keys):
        return dict.fromkeys(chance.sample(keys, size), 1)
    shares = dict.fromkeys(keys, 1)
    total = sum(map(len, strata.values()))
    ideal = {key: size * len(members) / total for key, members in strata.items()}
    while sum(shares.values()) < size:
        open_keys = [key for key in keys if shares[key] < len(strata[key])]
        most = max(open_keys, key=lambda key: ideal[key] - shares[key])
        shares[most] += 1
    return shares

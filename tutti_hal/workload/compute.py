"""A stand-in for the compute of one transformer layer: real arithmetic of a calibrated length, measured each time."""

from __future__ import annotations

import time

import numpy as np

_TOKENS, _DIM = 128, 128


class ComputeStandIn:
    """Single-query attention over fixed keys and values, repeated until it takes about ``target_us``.

    It runs on the caller's thread in NumPy loops that let go of the interpreter lock and start no threads of their
    own, so that it takes one core and I/O can go on beside it.

    Args:
        target_us: microseconds a layer; 0 makes ``run`` do nothing.
    """

    def __init__(self, target_us: float) -> None:
        if target_us < 0:
            raise ValueError(f"target_us must not be negative, not {target_us}")
        rng = np.random.default_rng(0)
        self._keys = rng.standard_normal((_TOKENS, _DIM), dtype=np.float32)
        self._values = rng.standard_normal((_TOKENS, _DIM), dtype=np.float32)
        self._query = rng.standard_normal(_DIM, dtype=np.float32)
        self._product = np.empty_like(self._keys)
        self.target_us = target_us
        self.unit_us = 0.0
        self.repeats = 0
        if target_us:
            self.unit_us = self._time_unit_us()
            self.repeats = max(1, round(target_us / self.unit_us))

    def run(self) -> float:
        """Computes one layer.

        Returns:
            The seconds it really took.
        """
        begin = time.perf_counter()
        for _ in range(self.repeats):
            self._attend()
        return time.perf_counter() - begin

    def _attend(self) -> None:
        query = self._query
        np.multiply(self._keys, query, out=self._product)
        scores = np.add.reduce(self._product, axis=1)
        scores -= scores.max()
        weights = np.exp(scores)
        weights /= weights.sum()
        np.multiply(self._values, weights[:, None], out=self._product)
        result = np.add.reduce(self._product, axis=0)
        # The next round depends on this one, so no round can be skipped; mixed so that it stays finite.
        self._query = np.tanh(result + query)

    def _time_unit_us(self) -> float:
        """The fastest of some timings: what it takes when nothing else runs."""
        best = float("inf")
        for _ in range(5):
            begin = time.perf_counter()
            for _ in range(10):
                self._attend()
            best = min(best, (time.perf_counter() - begin) / 10)
        return best * 1e6

"""Many instances of a litmus form at once, with a thread of the host as the partner of each. No case is here."""

from __future__ import annotations

import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

import numpy as np

from tutti_hal.conformance_tests.cases.l4_memory.forms import DOORBELLS, SHAPE_OF, WORD, group, is_modified, word_bytes
from tutti_hal.conformance_tests.cases.l4_memory.scoring import weak_in
from tutti_hal.conformance_tests.cases.l4_memory.shapes import SHAPES, key

if TYPE_CHECKING:
    from tutti_hal.conformance_tests.run import Run

_LANES, _BLOCKS, _ROUNDS = 32, 2, 8
#: How long a thread waits for its partner, by whether the device is one of its own: a busy CPU keeps threads away.
_PATIENCE_NS = {True: 100_000_000, False: 1_000_000_000}


class HostCrowd:
    """Memory for many instances, and the host's half of them."""

    def __init__(self, run: Run) -> None:
        self._run = run
        self._width = _LANES * _BLOCKS
        self._count = self._width * _ROUNDS
        self._entries = run.buffer(64 * self._count, "mapped")
        self._flags = run.buffer(8 * self._count, "mapped")
        self._marks, self._seen = (run.buffer(4 * self._count, "device") for _ in range(2))
        self._lock = threading.Lock()
        self._patience_ns = _PATIENCE_NS[run.facts.kind == "hardware"]

    def _ordered(self) -> None:
        """Whatever this thread did before, it did before what follows: also on a CPU that orders less than x86 does."""
        for _ in range(2):
            with self._lock:
                pass

    def play(self, form: str, instances: int, seconds: float, kills: int = 0) -> dict[str, Any]:
        """As :meth:`Crowd.play`."""
        shape = SHAPES[SHAPE_OF[group(form)]]
        histogram: Counter[str] = Counter()
        began, launches = time.monotonic(), 0
        while not launches or (
            (histogram.total() < instances or weak_in(shape, histogram) < kills) and time.monotonic() - began < seconds
        ):
            for outcome in self._launch(form):
                histogram[key(outcome)] += 1
            launches += 1
        spent = time.monotonic() - began
        found = {"form": form, "histogram": dict(histogram), "instances": histogram.total(), "seconds": spent}
        return found | {"launches": launches, "settings": [{"width": self._width, "rounds": _ROUNDS}]}

    def _launch(self, form: str) -> Iterator[tuple[int, ...]]:
        run, kind = self._run, group(form)
        for buffer in (self._entries, self._flags, self._marks, self._seen):
            run.stream.fill(buffer, 0)
        run.stream.synchronize()
        places = {
            "submit": (self._entries, self._flags, self._marks),
            "leader": (self._entries, self._flags, self._marks, self._marks),
            "complete": (self._entries, self._entries, self._flags, self._seen),
            "tell": (self._entries, self._flags, self._marks),
            "recycle": (self._entries, self._flags, self._seen),
        }[kind] + ((self._entries,) if is_modified(form) else ())
        grid = _BLOCKS * (2 if kind == "leader" else 1)
        pace = int(run.random.integers(0, 20)) * 1000
        kernel = run.kernel(DOORBELLS, f"litmus_{form}")
        run.launch(kernel, grid, _LANES, *places, _ROUNDS, pace, self._patience_ns, wait=False)
        outcomes = self._meanwhile(form)
        run.stream.synchronize()
        if kind == "complete":
            return iter([(int(one),) for one in run.read(self._seen, np.uint32)])
        if kind == "recycle":
            read = run.read(self._seen, np.uint32)
            return iter([(int(one), *saw) for one, saw in zip(read, outcomes, strict=True)])
        return iter(outcomes)

    def _views(self, form: str) -> tuple[Any, Any]:
        wide = np.uint64 if word_bytes(form) == 8 and group(form) == "tell" else np.uint32
        flags = self._flags.numpy(wide)[: self._count].reshape(_ROUNDS, self._width)
        data = self._entries.numpy(wide)
        match group(form):
            case "complete":
                return flags, data[: 4 * self._count].reshape(_ROUNDS, self._width, 4)
            case "tell" | "recycle":
                return flags, data[: self._count].reshape(_ROUNDS, self._width)
            case _:
                return flags, data[: 16 * self._count].reshape(_ROUNDS, self._width, 16)

    def _meanwhile(self, form: str) -> list[tuple[int, ...]]:
        """What the host sees, or does, while the kernel runs; an outcome for each instance."""
        flags, data = self._views(form)
        acts: Callable[[Any, Any], list[tuple[int, ...]]] = {
            "submit": self._look_at_entries,
            "leader": self._look_at_entries,
            "complete": self._complete,
            "tell": self._look_at_data,
            "recycle": self._fill_again,
        }[group(form)]
        end = time.monotonic() + 2 * _ROUNDS * self._patience_ns / 1e9
        outcomes: list[tuple[int, ...]] = []
        for round_ in range(_ROUNDS):
            came = np.zeros(self._width, bool)
            found: list[tuple[int, ...]] = [()] * self._width
            while not came.all() and time.monotonic() < end:
                new = (flags[round_] != 0) & ~came
                if new.any():
                    self._ordered()
                    places = np.flatnonzero(new)
                    for place, outcome in zip(places, acts(data[round_], places), strict=True):
                        found[int(place)] = outcome
                    came |= new
            outcomes += [one or (-1,) for one in found]
        return outcomes

    def _look_at_entries(self, entries: Any, places: Any) -> list[tuple[int, ...]]:
        words = entries[places][:, [0, 10, 12]]
        return [tuple(1 if one == WORD else int(one) for one in row) for row in words]

    def _look_at_data(self, data: Any, places: Any) -> list[tuple[int, ...]]:
        return [(1, int(one)) for one in data[places]]

    def _complete(self, entries: Any, places: Any) -> list[tuple[int, ...]]:
        entries[places, 0] = 1
        self._ordered()
        entries[places, 3] = 1
        return [(1,)] * len(places)

    def _fill_again(self, data: Any, places: Any) -> list[tuple[int, ...]]:
        data[places] = 2
        return [(1,)] * len(places)

"""Many instances of a litmus form at once on a device, in settings that chance draws. No case is here."""

from __future__ import annotations

import math
import time
from collections import Counter
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from tutti_hal.conformance_tests.cases.l4_memory.forms import (
    MET,
    NOTES,
    THREADS,
    cell_bytes,
    flag_is_modified,
    is_register,
    roles,
    within,
    word_bytes,
)
from tutti_hal.conformance_tests.cases.l4_memory.playing import spread_threads
from tutti_hal.conformance_tests.cases.l4_memory.scoring import weak_in
from tutti_hal.conformance_tests.cases.l4_memory.shapes import FORMS, SHAPES, key

if TYPE_CHECKING:
    from tutti_hal.conformance_tests.run import Run

_LIMIT_NS = 10**9


@dataclass(frozen=True)
class Setting:
    """How one launch stands: all of it drawn from the instance's seed.

    Attributes:
        blocks: of each role.
        threads: of each block and role.
        rounds: instances that a thread plays one after another.
        stride: words between two instances' words.
        pair: factor by which partners are shuffled.
        lot: factor by which places of the second word are shuffled.
        patience_ns: how long roles wait for each other before they begin; 0: not at all.
        warm: accesses of each thread to other memory before it begins.
        stress: blocks that access other memory all the while.
        turns: how often each of their threads does.
        data: where the first words lie, by the kind of memory.
        flags: where the others do.
    """

    blocks: int
    threads: int
    rounds: int
    stride: int
    pair: int
    lot: int
    patience_ns: int
    warm: int
    stress: int
    turns: int
    data: str
    flags: str


#: Bytes of memory that belong to no instance.
_SCRATCH = 1 << 20
#: Words of all instances' data, and of their flags.
_MOST_WORDS = 1 << 22
_MOST_INSTANCES = 1 << 16


def _coprime(run: Run, count: int) -> int:
    """A factor that shuffles so many: neighbours far apart, no divisor in common."""
    while count > 3:
        factor = int(run.random.integers(2, count))
        if math.gcd(factor, count) == 1:
            return factor
    return 1


def _setting(run: Run, form: str) -> Setting:
    """Draws a setting: on a device of its own crowds of threads, on a CPU a pair of them and many rounds.

    Memory that the host maps is slower to reach than the device's own: with the data in the one and the flag in the
    other, what is stored first may arrive last.
    """

    def draw(*values: int) -> int:
        return int(run.random.choice(values))

    kinds = ("device", "mapped") if run.facts.capabilities["memory.mapped"] else ("device",)
    data, flags = (kinds[draw(*range(len(kinds)))] for _ in range(2))
    if is_register(form):
        data = "mapped"
    if flag_is_modified(form):
        flags = "device"

    if run.facts.kind == "hardware":
        threads, rounds = draw(32, 64, 128), draw(1, 2, 4)
        blocks, stride = draw(16, 64, 128), draw(1, 4, 16, 64)
        wait, warm, stress, turns = draw(0, 2_000, 10_000), draw(0, 8, 32), draw(0, 32, 256), draw(16, 128)
    else:
        threads, blocks, rounds, stride = 1, 1, draw(256, 512, 1024), draw(1, 16, 64)
        wait, warm, stress, turns = draw(1_000, 3_000, 10_000), draw(4, 16), 0, 0
    if is_register(form):
        # Who waits for a lock has a wave of its own, for its wave waits with it.
        threads, rounds = 1, 8 * rounds
    total = blocks * threads * rounds
    pair, lot = _coprime(run, threads if within(form) else threads * blocks), _coprime(run, total)
    return Setting(blocks, threads, rounds, stride, pair, lot, wait, warm, stress, turns, data, flags)


class Crowd:
    """Memory for many instances, and the tallies of forms that are played in it."""

    def __init__(self, run: Run) -> None:
        self._run = run
        self._spread = run.facts.kind == "hardware"
        # Cells of four words and words of 64 bits are wider: room for the widest.
        self._words: dict[tuple[int, str], Any] = {}
        self._seen = run.buffer(4 * NOTES * _MOST_INSTANCES, "device", fill=None)
        self._meets = run.buffer(4 * (_MOST_INSTANCES + 1), "device", fill=None)
        self._scratch = run.buffer(_SCRATCH, "device")

    def play(self, form: str, instances: int, seconds: float, kills: int = 0) -> dict[str, Any]:
        """Play a form in launches, each in a setting of its own.

        Args:
            form: which.
            instances: so many at least, as far as there is time.
            seconds: for them.
            kills: go on, as far as there is time, until so many ended weak.
        """
        shape = SHAPES[FORMS[form][0]]
        histogram: Counter[str] = Counter()
        settings: list[dict[str, Any]] = []
        met = played = 0
        began = time.monotonic()
        while not settings or (
            (played < instances or weak_in(shape, histogram) < kills) and time.monotonic() - began < seconds
        ):
            setting = _setting(self._run, form)
            notes = self._launch(form, setting)
            # Few values, so that a number for a whole row, and counting those, is quicker than comparing rows.
            values, places = np.unique(notes[:, : len(shape.noted)], return_inverse=True)
            rows = places.reshape(-1, len(shape.noted)) @ (len(values) ** np.arange(len(shape.noted)))
            _, first, counts = np.unique(rows, return_index=True, return_counts=True)
            for row, number in zip(notes[first], counts, strict=True):
                histogram[key(tuple(int(one) for one in row[: len(shape.noted)]))] += int(number)
            played += len(notes)
            met += int((notes[:, MET] == roles(form)).sum())
            weak = weak_in(shape, histogram) - sum(one["weak"] for one in settings)
            settings.append({**asdict(setting), "weak": weak})
            if not self._spread:
                # Its threads are there now.
                self._run.closing.callback(spread_threads())
                self._spread = True
        spent = time.monotonic() - began
        return {
            "form": form,
            "histogram": dict(histogram),
            "instances": played,
            "met": met,
            "seconds": spent,
            "launches": len(settings),
            # Those that showed most come first; the others follow from the seed.
            "settings": sorted(settings, key=lambda one: -one["weak"])[:4],
        }

    def _piece(self, which: int, kind: str) -> Any:
        """Memory for all instances' first words (0) or other words (1), of a kind."""
        if (which, kind) not in self._words:
            self._words[which, kind] = self._run.buffer(4 * _MOST_WORDS, kind, fill=None)
        return self._words[which, kind]

    def _launch(self, form: str, setting: Setting) -> Any:
        """One launch; the notes of each instance."""
        run, total = self._run, setting.blocks * setting.threads * setting.rounds
        players, inside = roles(form), within(form)
        sizes = cell_bytes(form), word_bytes(form) * (players - 1)
        stride = max(1, min(setting.stride, 4 * _MOST_WORDS // (total * max(sizes))))
        pieces = self._piece(0, setting.data), self._piece(1, setting.flags)
        for words, size in zip(pieces, sizes, strict=True):
            run.stream.fill(words[: total * stride * size], 0)
        seen, meets = self._seen[: 4 * NOTES * total], self._meets[: 4 * (total + 1)]
        run.stream.fill(seen, 0)
        run.stream.fill(meets, 0)
        grid = setting.blocks * (1 if inside else players) + setting.stress
        block = setting.threads * (players if inside else 1)
        more: dict[str, Any] = {"limit_ns": _LIMIT_NS} if run.facts.capabilities["launch.bounded"] else {}
        places = (*pieces, seen, meets, self._scratch, _SCRATCH // 4 - 1)
        shape = (setting.blocks, setting.rounds, stride, setting.pair, setting.lot)
        kernel = run.kernel(THREADS, f"litmus_{form}")
        run.launch(kernel, grid, block, *places, *shape, setting.patience_ns, setting.warm, setting.turns, **more)
        return run.read(seen, np.uint32, (total, NOTES))

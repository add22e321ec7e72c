"""Instances of litmus shapes: all runs of one in a simulated world, many at once on a device. No case is here."""

from __future__ import annotations

import math
import os
import platform
import time
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from tutti_hal.conformance_tests.cases.l4_memory.scoring import NEEDED, pruned, weak_in
from tutti_hal.conformance_tests.cases.l4_memory.shapes import FORMS, SHAPES, Outcome, key

if TYPE_CHECKING:
    from tutti_hal.conformance_tests.run import Run

#: The kernel set.
SET = "litmus"
#: Of a simulated world: seeds within which a twin shows its weak outcome.
SEEDS = 4000
#: Words of an instance's notes, and the one that counts roles that met; as the template has them.
_NOTES, _MET = 8, 7
#: Roles of a shape, where they are not two.
_ROLES = {"isa2": 3}
_LIMIT_NS = 10**9


def observe(run: Run, right: str, *twins: str) -> dict[str, Any]:
    """Tallies of a right form and of its twins: exact where there is a world, statistical elsewhere."""
    found = _exact(run, right, twins) if run.world else _statistical(run, right, twins)
    return {"cpu": platform.machine(), "shape": FORMS[right][0], **found}


def _registers(form: str) -> int:
    return len(SHAPES[FORMS[form][0]].noted)


def _roles(form: str) -> int:
    return _ROLES.get(FORMS[form][0], 2)


def _within(form: str) -> bool:
    """Whether the roles are parts of one block."""
    return "within" in form or "barrier" in form


# ---- exact: a simulated world, one instance, a lane for each role


class SmallInstance:
    """One instance in a simulated world, each role one lane."""

    #: Bytes of x, y, z and of the notes, each a line of its own.
    _LINE, _LINES = 128, 5

    def __init__(self, run: Run, form: str) -> None:
        self._run, self.form = run, form
        # The world is the process's: whoever comes next must not find the bounds of a search in it.
        run.closing.callback(run.subject.reset_world)
        self._memory = run.buffer(self._LINE * self._LINES, "mapped")
        self._view = self._memory.numpy(np.uint8)
        self._words = self._memory.numpy(np.uint32)
        self._kernel = run.kernel(SET, f"litmus_{form}")
        at = [self._memory[n * self._LINE : (n + 1) * self._LINE] for n in range(self._LINES)]
        # z follows y by one instance: a stride of one line in words of the form's own width.
        width = 16 if "tear" in form else 8 if form.endswith("u64") else 4
        self._stride = self._LINE // (4 if width == 16 else width)
        self._args = (at[0], at[1], at[3], at[4], at[4], 0, 1, 1, self._stride, 1, 1, 0, 0, 0)
        roles = _roles(form)
        self._grid, self._block = (1, roles) if _within(form) else (roles, 1)

    def _outcome(self, words: Any) -> str:
        return key(tuple(int(one) for one in words[: _registers(self.form)]))

    def explore(self) -> dict[str, Any]:
        """Every run with at most two pre-emptions and any reads of older values: how many ended in which outcome."""
        simulation = self._run.profile.backend.simulation()
        assert simulation is not None, "there is a world"
        base, size = int(self._memory.host_address), self._LINE * self._LINES
        notes = self._LINE * 3
        scene = simulation.Scene(regions=((base, bytes(size)),), results=((base + notes, 4 * _registers(self.form)),))
        options = simulation.SimOptions(preemptions=3, idle_pauses=2, staleness_reads=1, max_steps=20_000)
        found = self._run.world.explore(self._kernel, self._grid, self._block, self._args, scene, options, 200_000)
        histogram: Counter[str] = Counter()
        for ending in found.endings:
            name = (
                self._outcome(np.frombuffer(ending.result, np.uint32)) if ending.outcome == "done" else ending.outcome
            )
            histogram[name] += ending.runs
        return {
            "form": self.form,
            "histogram": dict(histogram),
            "instances": found.runs,
            "cuts": found.cuts,
            "states": found.states,
            "complete": found.complete,
        }

    def by_seeds(self, wanted: Iterable[Outcome], most: int = SEEDS) -> dict[str, Any]:
        """Random schedules, until every wanted outcome was seen, or so many."""
        missing = {key(one) for one in wanted}
        histogram: Counter[str] = Counter()
        first: dict[str, int] = {}
        for index in range(most):
            self._view[:] = 0
            self._run.subject.reset_world(policy="random", seed=(self._run.seed + index) % 2**63 or 1)
            self._run.launch(self._kernel, self._grid, self._block, *self._args)
            outcome = self._outcome(self._words[self._LINE * 3 // 4 :])
            histogram[outcome] += 1
            first.setdefault(outcome, index + 1)
            missing.discard(outcome)
            if not missing:
                break
        return {"form": self.form, "histogram": dict(histogram), "instances": sum(histogram.values()), "first": first}


def _exact(run: Run, right: str, twins: tuple[str, ...]) -> dict[str, Any]:
    """All runs of the right form; of each twin seeds until one shows an outcome that the right form forbids."""
    found = {}
    for twin in twins:
        one, weak = SmallInstance(run, twin), FORMS[twin][1]
        shown = [key(outcome) for outcome in weak]
        tally: dict[str, Any] = one.by_seeds((), 0)
        # Any of the weak outcomes will do: the first seeds that show one end it.
        while weak and tally["instances"] < SEEDS and not any(name in tally["histogram"] for name in shown):
            tally = one.by_seeds(weak, min(SEEDS, 4 * tally["instances"] + 25))
        found[twin] = tally
    return {"right": SmallInstance(run, right).explore(), "twins": found}


# ---- statistical: a device, many instances at once


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


def _setting(run: Run, within: bool, alone: bool) -> Setting:
    """Draws a setting: on a device of its own crowds of threads, on a CPU a pair of them and many rounds.

    Args:
        run: the source of chance.
        within: the roles are parts of one block.
        alone: a thread has a wave of its own, for it waits for a lock, and its wave with it.
    """

    def draw(*values: int) -> int:
        return int(run.random.choice(values))

    if run.facts.kind == "hardware":
        threads, rounds = draw(32, 64, 128), draw(1, 2, 4)
        blocks, stride = draw(16, 64, 128), draw(1, 4, 16, 64)
        wait, warm, stress, turns = draw(0, 2_000, 10_000), draw(0, 8, 32), draw(0, 32, 256), draw(16, 128)
    else:
        threads, blocks, rounds, stride = 1, 1, draw(256, 512, 1024), draw(1, 16, 64)
        wait, warm, stress, turns = draw(1_000, 3_000, 10_000), draw(4, 16), 0, 0
    if alone:
        threads, rounds = 1, 8 * rounds
    total = blocks * threads * rounds
    width = threads if within else threads * blocks
    return Setting(
        blocks, threads, rounds, stride, _coprime(run, width), _coprime(run, total), wait, warm, stress, turns
    )


def spread_threads() -> Callable[[], None]:
    """Give the threads of this process CPUs in turn, so that two that play one instance run at once; gives the reverse.

    Lanes that run on a CPU do so in such threads, and a busy machine may keep two of them on one CPU for long. Does
    nothing where the system has no such call.
    """
    if not hasattr(os, "sched_setaffinity"):
        return lambda: None
    allowed = sorted(os.sched_getaffinity(0))
    moved = []
    for turn, thread in enumerate(sorted(int(one.name) for one in Path("/proc/self/task").iterdir())):
        with suppress(OSError):  # it may have ended
            os.sched_setaffinity(thread, {allowed[turn % len(allowed)]})
            moved.append(thread)

    def back() -> None:
        for thread in moved:
            with suppress(OSError):
                os.sched_setaffinity(thread, allowed)

    return back


class Crowd:
    """Memory for many instances, and the tallies of forms that are played in it.

    Args:
        run: whose memory it is.
        kind: of the first words; a register is a word that the host maps.
    """

    def __init__(self, run: Run, kind: str = "device") -> None:
        self._run = run
        self._spread = run.facts.kind == "hardware"
        # Cells of four words and words of 64 bits are wider: room for the widest.
        self._xs = run.buffer(4 * _MOST_WORDS, kind, fill=None)
        self._ys = run.buffer(4 * _MOST_WORDS, "device", fill=None)
        self._seen = run.buffer(4 * _NOTES * _MOST_INSTANCES, "device", fill=None)
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
        settings: list[dict[str, int]] = []
        met = played = 0
        began = time.monotonic()
        while not settings or (
            (played < instances or weak_in(shape, histogram) < kills) and time.monotonic() - began < seconds
        ):
            setting = _setting(self._run, _within(form), form.startswith("tail"))
            notes = self._launch(form, setting)
            # Few values, so that a number for a whole row, and counting those, is quicker than comparing rows.
            values, places = np.unique(notes[:, : len(shape.noted)], return_inverse=True)
            rows = places.reshape(-1, len(shape.noted)) @ (len(values) ** np.arange(len(shape.noted)))
            _, first, counts = np.unique(rows, return_index=True, return_counts=True)
            for row, number in zip(notes[first], counts, strict=True):
                histogram[key(tuple(int(one) for one in row[: len(shape.noted)]))] += int(number)
            played += len(notes)
            met += int((notes[:, _MET] == _roles(form)).sum())
            settings.append(asdict(setting))
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
            "settings": settings[:4],
        }

    def _launch(self, form: str, setting: Setting) -> Any:
        """One launch; the notes of each instance."""
        run, total = self._run, setting.blocks * setting.threads * setting.rounds
        roles, within = _roles(form), _within(form)
        width = 4 if "tear" in form else 2 if form.endswith("u64") else 1
        stride = max(1, min(setting.stride, _MOST_WORDS // (total * max(width, roles - 1))))
        used = 4 * total * stride
        run.stream.fill(self._xs[: used * width], 0)
        run.stream.fill(self._ys[: used * max(width if width == 2 else 1, roles - 1)], 0)
        seen, meets = self._seen[: 4 * _NOTES * total], self._meets[: 4 * (total + 1)]
        run.stream.fill(seen, 0)
        run.stream.fill(meets, 0)
        grid = setting.blocks * (1 if within else roles) + setting.stress
        block = setting.threads * (roles if within else 1)
        more: dict[str, Any] = {"limit_ns": _LIMIT_NS} if run.facts.capabilities["launch.bounded"] else {}
        places = (self._xs, self._ys, seen, meets, self._scratch, _SCRATCH // 4 - 1)
        sizes = (setting.blocks, setting.rounds, stride, setting.pair, setting.lot)
        kernel = run.kernel(SET, f"litmus_{form}")
        run.launch(kernel, grid, block, *places, *sizes, setting.patience_ns, setting.warm, setting.turns, **more)
        return run.read(seen, np.uint32, (total, _NOTES))


@dataclass(frozen=True)
class Effort:
    """How much is played of a form: instances, and seconds for them at most."""

    instances: int
    seconds: float


#: By whether the device is one of its own. A CPU plays few, and goes on where its twins were not seen yet, for a busy
#: machine may not let two threads run at once for a while.
EFFORT: Mapping[bool, Effort] = {True: Effort(1 << 19, 0.8), False: Effort(1 << 11, 3.0)}

#: Plays a form: so many instances, for so many seconds at most, until so many ended weak.
Play = Callable[[str, int, float, int], dict[str, Any]]


def tallies(run: Run, play: Play, shape: str, effort: Effort, right: str, twins: tuple[str, ...]) -> dict[str, Any]:
    """The twins until one was noticed often enough; then the right form, in as many instances as that took."""
    kills = 0 if pruned(run.facts, platform.machine(), shape) else NEEDED
    found, most = {}, effort.instances
    for twin in twins:
        found[twin] = play(twin, effort.instances, effort.seconds, kills)
        if weak_in(SHAPES[shape], found[twin]["histogram"]) >= kills:
            most = max(most, found[twin]["instances"])
            kills = 0  # one suffices; of the others it is told how often they were noticed
    return {"right": play(right, most, 2 * effort.seconds, 0), "twins": found}


def _statistical(run: Run, right: str, twins: tuple[str, ...]) -> dict[str, Any]:
    shape = FORMS[right][0]
    crowd = Crowd(run, "mapped" if shape == "tail" else "device")
    return tallies(run, crowd.play, shape, EFFORT[run.facts.kind == "hardware"], right, twins)

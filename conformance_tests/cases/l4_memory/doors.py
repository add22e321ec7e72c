"""Litmus shapes with a partner outside the device: the smallest drive and the host in a world, a host thread elsewhere.

No case is here.
"""

from __future__ import annotations

import platform
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

import numpy as np

from tutti_hal.conformance_tests.cases.l4_memory.instances import SEEDS, Effort, tallies
from tutti_hal.conformance_tests.cases.l4_memory.scoring import pruned, weak_in
from tutti_hal.conformance_tests.cases.l4_memory.shapes import SHAPES, key

if TYPE_CHECKING:
    from tutti_hal.conformance_tests.run import Run

#: The kernel set.
SET = "litmus_doorbell"
#: Each word of an entry that a thread wrote; the template has it too.
WORD = 0x10001
#: What a shape is, of each group of forms.
SHAPE_OF = {
    "submit": "entry",
    "leader": "entry",
    "complete": "data",
    "phase": "phase",
    "tell": "mp",
    "wakeup": "sb",
    "recycle": "war",
}
_PAGE = 4096


def _group(form: str) -> str:
    return form.partition("_")[0]


def _wide(form: str) -> bool:
    """Whether its words have 64 bits."""
    return form.endswith("u64")


class _Memory:
    """One page of memory that the host, the kernel and a drive share, each thing on a line of its own."""

    ENTRIES, BELLS, SLEEPS, MARKS, DATA, FLAGS, SEEN, CQ = (n * 256 for n in range(8))

    def __init__(self, run: Run) -> None:
        # The world is the process's: whoever comes next must not find the bounds of a search in it.
        run.closing.callback(run.subject.reset_world)
        self.buffer = run.buffer(2 * _PAGE, "mapped")
        self.start = -int(self.buffer.host_address) % _PAGE
        self.base = int(self.buffer.host_address) + self.start
        self.view = self.buffer.numpy(np.uint8)[self.start : self.start + _PAGE]

    def at(self, place: int, nbytes: int = 256) -> Any:
        """A piece of it, as a kernel's argument."""
        return self.buffer[self.start + place : self.start + place + nbytes]

    def words(self, place: int, count: int) -> list[int]:
        """What lies there now."""
        return [int(one) for one in self.view[place : place + 4 * count].view(np.uint32)]

    def arguments(self, form: str) -> tuple[Any, ...]:
        """A kernel's, for one instance that waits without bound."""
        names = {
            "submit": (self.ENTRIES, self.BELLS, self.CQ + 12),
            "leader": (self.ENTRIES, self.BELLS, self.MARKS, self.CQ + 12),
            "complete": (self.CQ, self.CQ, self.BELLS, self.SEEN),
            "phase": (self.CQ + 12, self.BELLS, self.SEEN),
            "tell": (self.DATA, self.FLAGS, self.MARKS),
            "wakeup": (self.DATA, self.SLEEPS, self.SEEN),
            "recycle": (self.DATA, self.FLAGS, self.SEEN),
            "rings": (self.BELLS, self.MARKS),
        }[_group(form)]
        sizes = () if form.startswith("rings") else (1, 0, 0)
        return (*(self.at(place, 128) for place in names), *sizes)


class SmallDoor:
    """One instance, and the smallest drive as its partner."""

    def __init__(self, run: Run, form: str) -> None:
        from tutti_hal.native import ffi_and_library
        from tutti_hal.nvme.software import Iommu

        self._run, self.form, self._memory = run, form, _Memory(run)
        self._ffi, self._library = ffi_and_library()
        self._iommu = Iommu()
        run.closing.callback(self._iommu.close)
        bus = self._iommu.map(self._memory.base, _PAGE, contiguous=True)[0][0]
        self._drive = self._ffi.new("tt_small_drive *")
        bells = self._memory.base + _Memory.BELLS
        self._drive.sq_doorbell, self._drive.cq_doorbell = (
            self._ffi.cast("uint32_t *", bells + 128 * place) for place in range(2)
        )
        self._drive.sq, self._drive.cq = bus + _Memory.ENTRIES, bus + _Memory.CQ
        self._drive.sq_depth, self._drive.cq_depth = 4, 4
        self._before = bytes(self._ffi.buffer(self._drive))
        self._kernel = run.kernel(SET, f"litmus_{form}")
        self._args = self._memory.arguments(form)
        self._grid = 2 if _group(form) == "leader" else 1

    def _outcome(self, drive: Any, seen: list[int]) -> str:
        match _group(self.form):
            case "complete":
                return key((seen[0],))
            case "phase":
                return key((seen[0], seen[1]))
            case _ if drive.commands != 1:
                return f"{drive.commands} entries fetched"
            case _:
                words = (drive.dword_0[0], drive.dword_10[0], drive.dword_12[0])
                return key(tuple(1 if one == WORD else int(one) for one in words))

    def explore(self) -> dict[str, Any]:
        """Every run with at most two pre-emptions and any reads of older values: how many ended in which outcome."""
        simulation = self._run.profile.backend.simulation()
        assert simulation is not None, "there is a world"
        drive, size = int(self._ffi.cast("uintptr_t", self._drive)), len(self._before)
        scene = simulation.Scene(
            regions=((self._memory.base, bytes(_PAGE)), (drive, self._before)),
            results=((self._memory.base + _Memory.SEEN, 8), (drive, size)),
            drive=(self._library.tt_small_drive_run, self._drive, self._iommu.handle),
        )
        # A cell is read whole: its first word may be old then, and once more afterwards.
        stale = 2 if self.form == "complete_vector" else 1
        options = simulation.SimOptions(preemptions=3, idle_pauses=2, staleness_reads=stale, max_steps=20_000)
        found = self._run.world.explore(self._kernel, self._grid, 1, self._args, scene, options, 200_000)
        histogram: Counter[str] = Counter()
        log = self._ffi.new("tt_small_drive *")
        for ending in found.endings:
            self._ffi.buffer(log)[:] = ending.result[8:]
            seen = [int(one) for one in np.frombuffer(ending.result[:8], np.uint32)]
            histogram[self._outcome(log, seen) if ending.outcome == "done" else ending.outcome] += ending.runs
        counts = {"instances": found.runs, "cuts": found.cuts, "states": found.states, "complete": found.complete}
        return {"form": self.form, "histogram": dict(histogram), **counts}

    def tails(self, count: int, seeds: int) -> list[list[int]]:
        """What a kernel that rings so many numbers, and waits for nothing, rang: by schedule, as a drive took it."""
        found = []
        for index in range(seeds):
            self._run_once(index, (*self._args, count, 0))
            found.append([int(self._drive.tail[i]) for i in range(min(self._drive.tails, 16))])
        return found

    def _run_once(self, index: int, args: tuple[Any, ...]) -> None:
        """A random schedule, by its number."""
        world = self._run.world
        self._memory.view[:] = 0
        self._ffi.buffer(self._drive)[:] = self._before
        self._run.subject.reset_world(policy="random", seed=(self._run.seed + index) % 2**63 or 1)
        agent = world.add_controller("drive", self._library.tt_small_drive_run, self._drive, self._iommu.handle)
        try:
            self._run.launch(self._kernel, self._grid, 1, *args)
            world.run(10_000)
        finally:
            world.remove_controller(agent)

    def by_seeds(self) -> dict[str, Any]:
        """Random schedules until an outcome is weak, or so many."""
        shape = SHAPE_OF[_group(self.form)]
        weak, most = {key(one) for one in SHAPES[shape].weak}, _seeds(self._run, shape)
        histogram: Counter[str] = Counter()
        while not weak & set(histogram) and histogram.total() < most:
            self._run_once(histogram.total(), self._args)
            histogram[self._outcome(self._drive, self._memory.words(_Memory.SEEN, 2))] += 1
        return {"form": self.form, "histogram": dict(histogram), "instances": histogram.total()}


class SmallHost:
    """One instance, and the host as its partner, which acts after each possible number of steps."""

    #: More steps than a kernel of these has.
    _STEPS = 10

    def __init__(self, run: Run, form: str) -> None:
        self._run, self.form, self._memory = run, form, _Memory(run)
        self._kernel = run.kernel(SET, f"litmus_{form}")
        self._args = self._memory.arguments(form)
        self._bytes = 8 if _wide(form) else 4

    def _once(self, steps: int) -> str:
        world, memory = self._run.world, self._memory
        memory.view[:] = 0
        self._run.launch(self._kernel, 1, 1, *self._args, wait=False)
        if steps:
            world.run(steps)
        data, flag, sleep = (memory.base + place for place in (_Memory.DATA, _Memory.FLAGS, _Memory.SLEEPS))
        match _group(self.form):
            case "tell":
                seen = int(world.load(flag, self._bytes))
                outcome: tuple[int, ...] = (seen, int(world.load(data, self._bytes)))
                world.store(memory.base + _Memory.MARKS, 1)
                self._run.stream.synchronize()
            case "wakeup":
                world.store(sleep, 1)
                tail = int(world.load(data))
                self._run.stream.synchronize()
                outcome = (memory.words(_Memory.SEEN, 1)[0], tail)
            case _:
                free = int(world.load(flag))
                if free:
                    world.store(data, 2)
                self._run.stream.synchronize()
                outcome = (memory.words(_Memory.SEEN, 1)[0], free)
        return key(outcome)

    def explore(self) -> dict[str, Any]:
        """Every run, for each place in which the host may act, and any reads of older values."""
        simulation = self._run.profile.backend.simulation()
        assert simulation is not None, "there is a world"
        options = simulation.SimOptions(preemptions=3, idle_pauses=2, staleness_reads=1, max_steps=20_000)
        histogram: Counter[str] = Counter()
        for steps in range(self._STEPS):
            for _, outcome in simulation.explore(self._run.world, lambda at=steps: self._once(at), options):
                histogram[outcome] += 1
        counts = {"instances": histogram.total(), "complete": True, "cuts": 0}
        return {"form": self.form, "histogram": dict(histogram), **counts}

    def by_seeds(self) -> dict[str, Any]:
        """Random schedules, the host after a random number of steps, until an outcome is weak, or so many."""
        shape = SHAPE_OF[_group(self.form)]
        weak, most = {key(one) for one in SHAPES[shape].weak}, _seeds(self._run, shape)
        histogram: Counter[str] = Counter()
        while not weak & set(histogram) and histogram.total() < most:
            self._run.subject.reset_world(policy="random", seed=(self._run.seed + histogram.total()) % 2**63 or 1)
            histogram[self._once(int(self._run.random.integers(0, self._STEPS)))] += 1
        return {"form": self.form, "histogram": dict(histogram), "instances": histogram.total()}


def _seeds(run: Run, shape: str) -> int:
    """How many seeds at most: few where no form shows the weak outcome."""
    return SEEDS // 40 if pruned(run.facts, platform.machine(), shape) else SEEDS


def small(run: Run, form: str) -> SmallDoor | SmallHost:
    """A form's one instance in a world, with the partner that its shape has."""
    return SmallHost(run, form) if _group(form) in ("tell", "wakeup", "recycle") else SmallDoor(run, form)


# ---- statistical: many instances, a host thread that looks at them round by round

_LANES, _BLOCKS, _ROUNDS = 32, 2, 8
_PATIENCE_NS = 200_000_000


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

    def _ordered(self) -> None:
        """Whatever this thread did before, it did before what follows: also on a CPU that orders less than x86 does."""
        for _ in range(2):
            with self._lock:
                pass

    def play(self, form: str, instances: int, seconds: float, kills: int = 0) -> dict[str, Any]:
        """As :meth:`Crowd.play`."""
        shape = SHAPES[SHAPE_OF[_group(form)]]
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
        run, group = self._run, _group(form)
        for buffer in (self._entries, self._flags, self._marks, self._seen):
            run.stream.fill(buffer, 0)
        run.stream.synchronize()
        places = {
            "submit": (self._entries, self._flags, self._marks),
            "leader": (self._entries, self._flags, self._marks, self._marks),
            "complete": (self._entries, self._entries, self._flags, self._seen),
            "tell": (self._entries, self._flags, self._marks),
            "recycle": (self._entries, self._flags, self._seen),
        }[group]
        grid = _BLOCKS * (2 if group == "leader" else 1)
        pace = int(run.random.integers(0, 20)) * 1000
        kernel = run.kernel(SET, f"litmus_{form}")
        run.launch(kernel, grid, _LANES, *places, _ROUNDS, pace, _PATIENCE_NS, wait=False)
        outcomes = self._meanwhile(form)
        run.stream.synchronize()
        if group == "complete":
            return iter([(int(one),) for one in run.read(self._seen, np.uint32)])
        if group == "recycle":
            read = run.read(self._seen, np.uint32)
            return iter([(int(one), *saw) for one, saw in zip(read, outcomes, strict=True)])
        return iter(outcomes)

    def _views(self, form: str) -> tuple[Any, Any]:
        wide = np.uint64 if _wide(form) and _group(form) == "tell" else np.uint32
        flags = self._flags.numpy(wide)[: self._count].reshape(_ROUNDS, self._width)
        data = self._entries.numpy(wide)
        match _group(form):
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
        }[_group(form)]
        end = time.monotonic() + 2 * _PATIENCE_NS / 1e9
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


def observe_with_partner(run: Run, right: str, *twins: str) -> dict[str, Any]:
    """Tallies of a right form and of its twins: exact where there is a world, statistical elsewhere."""
    cpu, shape = platform.machine(), SHAPE_OF[_group(right)]
    if run.world is not None:
        shown = {twin: small(run, twin).by_seeds() for twin in twins}
        return {"cpu": cpu, "shape": shape, "right": small(run, right).explore(), "twins": shown}
    effort = Effort(1 << 13, 0.5) if run.facts.kind == "hardware" else Effort(1 << 9, 1.0)
    return {"cpu": cpu, "shape": shape, **tallies(run, HostCrowd(run).play, shape, effort, right, twins)}

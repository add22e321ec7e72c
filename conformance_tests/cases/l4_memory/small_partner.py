"""One instance of a litmus form in a simulated world, with a partner outside the device: a drive, or the host.

No case is here.
"""

from __future__ import annotations

import platform
from collections import Counter
from typing import TYPE_CHECKING, Any

import numpy as np

from tutti_hal.conformance_tests.cases.l4_memory.forms import (
    DOORBELLS,
    SEEDS,
    SHAPE_OF,
    WORD,
    group,
    is_modified,
    word_bytes,
)
from tutti_hal.conformance_tests.cases.l4_memory.scoring import pruned
from tutti_hal.conformance_tests.cases.l4_memory.shapes import SHAPES, key

if TYPE_CHECKING:
    from tutti_hal.conformance_tests.run import Run

_PAGE = 4096


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
        }[group(form)]
        watch = (self.at(self.CQ, 128),) if is_modified(form) else ()
        sizes = () if form.startswith("rings") else (1, 0, 0)
        return (*(self.at(place, 128) for place in names), *watch, *sizes)


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
        self._kernel = run.kernel(DOORBELLS, f"litmus_{form}")
        self._args = self._memory.arguments(form)
        self._grid = 2 if group(form) == "leader" else 1

    def _outcome(self, drive: Any, seen: list[int]) -> str:
        match group(self.form):
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
        shape = SHAPE_OF[group(self.form)]
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
        self._kernel = run.kernel(DOORBELLS, f"litmus_{form}")
        self._args = self._memory.arguments(form)
        self._bytes = word_bytes(form)

    def _once(self, steps: int) -> str:
        world, memory = self._run.world, self._memory
        memory.view[:] = 0
        self._run.launch(self._kernel, 1, 1, *self._args, wait=False)
        if steps:
            world.run(steps)
        data, flag, sleep = (memory.base + place for place in (_Memory.DATA, _Memory.FLAGS, _Memory.SLEEPS))
        match group(self.form):
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
        shape = SHAPE_OF[group(self.form)]
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
    return SmallHost(run, form) if group(form) in ("tell", "wakeup", "recycle") else SmallDoor(run, form)

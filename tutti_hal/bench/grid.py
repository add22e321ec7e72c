"""The ring alone: commands a second over the device controller's null form, beside a baseline ring of the same run."""

from __future__ import annotations

import statistics
import tempfile
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tutti_hal.bench.baseline import BaselineRing, Launched
from tutti_hal.bench.variants import REVERSED, changed_templates
from tutti_hal.errors import BenchError

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from tutti_hal.io_uring import Iocb, Ring, RingOptions
    from tutti_hal.nvme.device_controller import DeviceController
    from tutti_hal.profile import Profile
    from tutti_hal.shim import Device

#: Queues, with a block of the controller each, and lanes of the ring's kernel.
QUEUES = (1, 4, 16, 32, 128)
LANES = (32, 256, 1024, 4096, 16384, 65536)
#: With one lane a wave no more lanes than these, unless they are named.
ONE_LANE_LANES = tuple(lanes for lanes in LANES if lanes <= 4096)
FULL, ONE_LANE = "full waves", "one lane a wave"
FIFO, BACKWARDS = "in order", "reversed"
#: Requests of a lane: the ring submits bursts of 8.
_EACH = 16
#: Requests of a cell at least.
_LEAST = 16384
_BLOCK = 64
_BLOCKS, _BLOCK_BYTES = 128, 512
#: Launches before the first of which latencies are taken.
_WARM = 8


@dataclass(frozen=True)
class Rate:
    """One ring in one cell.

    Attributes:
        commands: of a launch.
        rounds: launches that were timed, behind one that was not; 0: that one was too slow to have another.
        commands_per_s: median of the rounds, of the launch alone by the device's events; None when none ended.
        doorbells_per_command: SQ doorbell writes by kernels, as they count them.
        note: what is missing, and why; empty when nothing is.
    """

    commands: int
    rounds: int
    commands_per_s: float | None
    doorbells_per_command: float | None
    note: str = ""


@dataclass(frozen=True)
class Cell:
    """One grid, both rings.

    Attributes:
        order: in which the controller posts what it took together.
        layout: whether all lanes of a wave work, or one: blocks have one lane then.
        queues: queue pairs, each served by a block of its own.
        lanes: of the kernel, those that work.
        commands, commands_per_s, doorbells_per_command, note: as `Rate`, of the ring.
        commands_per_look: how many commands the controller found together.
        baseline: the baseline ring; None when it was left out.
        over_baseline: ratio of the rates; None when one is missing.
    """

    order: str
    layout: str
    queues: int
    lanes: int
    commands: int
    commands_per_s: float | None
    doorbells_per_command: float | None
    commands_per_look: float
    note: str
    baseline: Rate | None
    over_baseline: float | None


@dataclass(frozen=True)
class GridLoad:
    """What is measured.

    Attributes:
        rounds: of each cell, behind one that is not timed.
        queues: queue pairs.
        lanes: of the kernels; None takes `LANES`, and `ONE_LANE_LANES`.
        depth: entries of a queue.
        least: commands of a launch at least.
        one_lane: also with one lane of each wave.
        backwards: also with completions posted last one first.
        baseline: also the baseline ring; it needs a power of two as depth.
        cell_limit_s: of each ring in each cell, all its launches together.
        samples: launches, and commands of a lane of the baseline, of which latencies are taken; 0 leaves them out.
    """

    rounds: int = 3
    queues: tuple[int, ...] = QUEUES
    lanes: tuple[int, ...] | None = None
    depth: int = 1024
    least: int = _LEAST
    one_lane: bool = False
    backwards: bool = False
    baseline: bool = True
    cell_limit_s: float = 5.0
    samples: int = 200


def measure_grid(profile: Profile, load: GridLoad | None = None, *, time_limit_s: float = 45.0) -> dict[str, Any]:
    """Measures every pair of queues and lanes: 512-byte reads, completed without data.

    Both rings use the same controller, the same placements, and launches of the same shape; each command is counted by
    the controller, once.

    Args:
        profile: of a device that runs two kernels at once.
        load: what is measured.
        time_limit_s: no cell is begun behind it; what was left out is named.

    Raises:
        BenchError: another profile, or a command that did not end well, or not once.
        TuttiError: a part refused.
    """
    from tutti_hal.shim import Device

    load = load or GridLoad()
    simulation = profile.backend.simulation()
    if simulation is not None and simulation.simulates(profile.record.archs[profile.arch]):
        raise BenchError(f"measure on {profile}", "mode sim has one thread for everything", "Name --profile host.")
    begin = time.monotonic()
    device = Device(profile)
    cells: list[Cell] = []
    left_out: list[str] = []
    latency: list[dict[str, Any]] = []
    layouts = (FULL, ONE_LANE) if load.one_lane else (FULL,)
    for order in (FIFO, BACKWARDS) if load.backwards else (FIFO,):
        with _bench(device, load, order, engine=simulation is not None) as bench:
            if order == FIFO and load.samples:
                latency += [bench.latency("one command", 1), bench.latency("one wave", device.wave_width)]
            for layout in layouts:
                for count in load.queues:
                    for lanes in load.lanes or (LANES if layout == FULL else ONE_LANE_LANES):
                        if time.monotonic() - begin > time_limit_s:
                            left_out.append(f"{count} queues, {lanes} lanes, {layout}, {order}")
                            continue
                        cells.append(bench.cell(layout, count, lanes))
    return {
        "profile": str(profile),
        "device": device.name,
        "depth": load.depth,
        "rounds": load.rounds,
        "cell_limit_s": load.cell_limit_s,
        "cells": [asdict(cell) for cell in cells],
        "latency": latency,
        "latency_of": (
            "by the device's clock. Ring: from before the command is written until its completion was taken, a launch"
            " for each sample. Baseline: from before its identifier is taken until it is given back, one launch"
        ),
        "deadlines": "on: the rings have no form without",
        "left_out": left_out,
        "seconds": time.monotonic() - begin,
    }


@contextmanager
def _bench(device: Device, load: GridLoad, order: str, *, engine: bool) -> Iterator[_Bench]:
    """The controller and what is measured over it."""
    from tutti_hal.nvme.device_controller import DeviceController, DeviceControllerOptions

    most = max(load.queues)
    options = DeviceControllerOptions(
        threads=min(2 * device.wave_width, 128) if engine else None,
        queues=most,
        # Longer than a cell may take: the host stops it.
        limit_ns=int((4 * load.cell_limit_s + 20) * 1e9),
        null=True,
    )
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="tutti-hal-")))
        (folder / "baseline").mkdir()
        templates = changed_templates(folder, REVERSED) if order == BACKWARDS else None
        controller = stack.enter_context(DeviceController(device, 1 << 16, options, templates=templates))
        baseline = None
        if load.baseline:
            baseline = stack.enter_context(
                BaselineRing(device, controller, queues=most, depth=load.depth, folder=folder / "baseline")
            )
        yield _Bench(device, controller, baseline, load, order)


class _Bench:
    """One controller, both rings over it."""

    def __init__(
        self, device: Device, controller: DeviceController, baseline: BaselineRing | None, load: GridLoad, order: str
    ) -> None:
        self.device, self.controller, self.baseline = device, controller, baseline
        self.load, self.order = load, order

    # ---- rates ----

    def cell(self, layout: str, queues: int, lanes: int) -> Cell:
        """Both rings in one cell."""
        block = min(lanes, _BLOCK) if layout == FULL else 1
        what = f"{queues} queues and {lanes} lanes, {layout}, {self.order}"
        ours, look = self._ring(what, queues, lanes, block)
        other = None if self.baseline is None else self._baseline(self.baseline, what, queues, lanes, block)
        ratio = None
        if other is not None and other.commands_per_s and ours.commands_per_s:
            ratio = ours.commands_per_s / other.commands_per_s
        return Cell(
            order=self.order,
            layout=layout,
            queues=queues,
            lanes=lanes,
            commands=ours.commands,
            commands_per_s=ours.commands_per_s,
            doorbells_per_command=ours.doorbells_per_command,
            commands_per_look=look,
            note=ours.note,
            baseline=other,
            over_baseline=ratio,
        )

    @contextmanager
    def _made(self, queues: int, lanes: int, block: int, commands: int) -> Iterator[tuple[Ring, _Issue]]:
        """A ring over the controller, and how a batch of it is filled."""
        import numpy as np

        from tutti_hal.io_uring import Drive, Ring, RingOptions

        options: RingOptions = RingOptions(
            depth=self.load.depth,
            queues=(queues,),
            batch_limit=commands,
            batches=1,
            buffers=1,
            lanes=lanes,
            block=block,
            use_sgl=False,  # as the baseline's commands
        )
        with ExitStack() as stack:
            memory = self.controller.dma().allocate(_BLOCKS * _BLOCK_BYTES)
            stack.callback(memory.close)
            drive = Drive(handle=self.controller.handle, dma=self.controller.dma())
            ring = stack.enter_context(Ring.init_queue(self.device, [drive], options))
            issue = _Issue(self.device, stack, ring, ring.register(memory), np.arange(commands) % _BLOCKS)
            yield ring, issue

    def _ring(self, what: str, queues: int, lanes: int, block: int) -> tuple[Rate, float]:
        """The ring's rate, and how many commands the controller found together."""
        rounds, note = self.load.rounds, ""
        commands = max(_EACH * lanes, self.load.least)
        times: list[float] = []
        with self._made(queues, lanes, block, commands) as (ring, issue):
            with self.controller.serve(queues):
                end = time.monotonic() + self.load.cell_limit_s
                for turn in range(rounds + 1):
                    batch = issue()
                    while not ring.query(batch) and time.monotonic() < end:
                        time.sleep(0.0001)
                    if not ring.query(batch):
                        ring.stop()
                        ring.wait_cqe(batch)
                        note = self._over(f"{max(turn - 1, 0)} of {rounds} rounds")
                        break
                    issue.require(ring.wait_cqe(batch), what)
                    if turn:
                        times.append(issue.seconds())
            told = ring.statistics()
        served = self.controller.counts()
        done = sum(one.commands for one in served)
        if not note and done != commands * (rounds + 1):
            raise BenchError(f"measure {what}", f"the controller completed {done} commands", "Report it.")
        rate = Rate(
            commands=commands,
            rounds=len(times),
            commands_per_s=commands / statistics.median(times) if times else None,
            doorbells_per_command=told.total("doorbells") / max(told.total("completions"), 1) if times else None,
            note=note,
        )
        return rate, done / max(sum(one.rounds for one in served), 1)

    def _over(self, done: str) -> str:
        return f"the cell's {self.load.cell_limit_s:g} s were over: {done}"

    def _baseline(self, baseline: BaselineRing, what: str, queues: int, lanes: int, block: int) -> Rate:
        """The baseline's rate: as many commands a lane as fit into its time, one at least."""
        rounds, note = self.load.rounds, ""
        times: list[float] = []
        with baseline.queues(queues), self.controller.serve(queues):
            end = time.monotonic() + self.load.cell_limit_s

            def left_s() -> float:
                return end - time.monotonic()

            def launch(commands: int) -> Launched:
                return baseline.launch(commands, lanes, block, int(max(left_s(), 0.1) * 1e9))

            first = launch(lanes)
            commands, done = lanes, first.completed
            doorbells = baseline.doorbells()
            if first.completed < lanes:
                note = self._over(f"{first.completed} of {lanes} commands")
            elif first.seconds * rounds > left_s():
                note = self._over("one launch of a command a lane, not warm")
            else:
                # The warm rate is not known yet, so not all of the time is planned for.
                fit = int(0.5 * left_s() / (rounds * first.seconds))
                commands *= max(1, min(fit, max(_EACH, -(-self.load.least // lanes))))
                for _ in range(rounds):
                    took = launch(commands)
                    done += took.completed
                    if took.completed < commands:
                        note = self._over(f"{len(times)} of {rounds} rounds")
                        break
                    times.append(took.seconds)
                doorbells = baseline.doorbells()
        served = sum(one.commands for one in self.controller.counts())
        # What was in flight when the time was over was served and not taken.
        if served < done or (served != done and not note):
            raise BenchError(
                f"measure the baseline ring, {what}", f"{done} commands done, {served} served", "Report it."
            )
        rate = None
        if times:
            rate = commands / statistics.median(times)
        elif first.completed == lanes:
            rate = lanes / first.seconds
        return Rate(
            commands=commands if times else lanes,
            rounds=len(times),
            commands_per_s=rate,
            doorbells_per_command=doorbells / done if done else None,
            note=note,
        )

    # ---- latencies ----

    def latency(self, name: str, width: int) -> dict[str, Any]:
        """Of each of ``width`` commands that one queue is given together, by as many lanes of one wave."""
        import numpy as np

        with self._made(1, width, width, width) as (ring, issue), self.controller.serve(1):
            took = []
            for turn in range(_WARM + self.load.samples):
                done = issue.require(ring.wait_cqe(issue()), name)
                if turn >= _WARM:
                    took.append(done["completed_ns"] - done["submitted_ns"])
        other = None
        if self.baseline is not None:
            with self.baseline.queues(1), self.controller.serve(1):
                limit_ns = int(self.load.cell_limit_s * 1e9)
                launched = self.baseline.launch(
                    (_WARM + self.load.samples) * width, width, width, limit_ns, latencies=True
                )
                if launched.latencies_ns is not None and launched.completed == launched.commands:
                    other = launched.latencies_ns[_WARM * width :]
        return {
            "name": name,
            "lanes": width,
            **_percentiles("", np.concatenate(took)),
            **_percentiles("baseline_", other),
        }


def _percentiles(prefix: str, took_ns: NDArray[np.uint64] | None) -> dict[str, Any]:
    import numpy as np

    if took_ns is None:
        return {f"{prefix}samples": 0, f"{prefix}p50_us": None, f"{prefix}p99_us": None}
    p50, p99 = (float(value) / 1e3 for value in np.percentile(took_ns, (50, 99)))
    return {f"{prefix}samples": len(took_ns), f"{prefix}p50_us": p50, f"{prefix}p99_us": p99}


class _Issue:
    """Issues the same batch again and again, on a stream of its own, between two events."""

    def __init__(self, device: Device, stack: ExitStack, ring: Ring, buffer: Any, place: NDArray[np.int64]) -> None:
        self._ring, self._buffer, self._place = ring, buffer, place
        self._stream = stack.enter_context(device.create_stream())
        self._around = stack.enter_context(device.create_event()), stack.enter_context(device.create_event())

    def __call__(self) -> Iocb:
        """A batch in flight."""
        batch = self._ring.get_iocb()
        batch.read(self._ring.targets[0], self._place, _BLOCK_BYTES, self._buffer, self._place * _BLOCK_BYTES)
        self._ring.issue_io(batch, self._stream, around=self._around)
        return batch

    def seconds(self) -> float:
        """Of the last batch's launch."""
        return self._around[1].elapsed_ms(self._around[0]) / 1e3

    def require(self, done: NDArray[np.void], what: str) -> NDArray[np.void]:
        """The completions, when all are good.

        Raises:
            BenchError: one is not.
        """
        from tutti_hal.io_uring.completion import ended, succeeded

        if not succeeded(done).all():
            raise BenchError(f"measure {what}", ended(done), "Report it.")
        return done

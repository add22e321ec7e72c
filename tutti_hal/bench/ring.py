"""Ring speed on HOST: 4 KiB commands end to end, beside three baselines of the same run."""

from __future__ import annotations

import statistics
import tempfile
import time
from contextlib import ExitStack
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tutti_hal.bench.naive import naive_templates
from tutti_hal.errors import BenchError
from tutti_hal.nvme.device_memory import why_not_attached

if TYPE_CHECKING:
    from collections.abc import Callable

    from tutti_hal.io_uring.iocb import Iocb
    from tutti_hal.io_uring.ring import Ring
    from tutti_hal.profile import Profile

_BLOCK_BYTES = 4096
_NSID = 1
#: (type, code) of injected errors: the generic internal error.
_ERROR = (0, 6)

RING, NULL, NAIVE, SINGLE = "ring", "null controller", "one doorbell a command", "one command a batch"
FAULTS = "ring with injected errors"


@dataclass(frozen=True)
class Figure:
    """One way to move commands, measured in several rounds that alternate with those of the others.

    Attributes:
        name: what ran.
        commands: how many in all, each completed without an error.
        seconds: wall clock of all rounds, from the first hand-over to the last completion of each.
        commands_per_s: median of the rounds.
        gb_per_s: its payload, one direction; 0 of the null controller, which moves nothing.
        doorbells_per_command: SQ doorbell writes by kernels.
        cq_loads_per_command: reads of completion entries.
        host_calls_per_batch: calls of the host API.
    """

    name: str
    commands: int
    seconds: float
    commands_per_s: float
    gb_per_s: float
    doorbells_per_command: float
    cq_loads_per_command: float
    host_calls_per_batch: float


@dataclass(frozen=True)
class Load:
    """What is moved.

    Attributes:
        write: writes instead of reads.
        batch: commands handed over together.
        depth: entries of the queue.
        lanes: lanes of the kernel at most; 0: one wave.
        faults: share of the commands that the drive ends with an error instead.
    """

    write: bool = False
    batch: int = 4096
    depth: int = 1024
    lanes: int = 0
    faults: float = 0.0


@dataclass(frozen=True)
class _Round:
    commands: int
    doorbells: int
    cq_loads: int
    host_calls: int
    batches: int
    seconds: float
    errors: int = 0


def measure_ring(profile: Profile, load: Load, *, time_limit_s: float, rounds: int = 3) -> dict[str, Any]:
    """Measures the ring over a drive in memory, and beside it the ceiling and two naive ways.

    The ceiling is the same ring over the null controller. Naive are the same kernel with one doorbell for each command,
    and the same ring with one command a batch. What was moved is compared with its source, byte for byte.

    Args:
        profile: one that maps host memory, which is what software controllers reach; not in mode sim.
        load: what is moved.
        time_limit_s: of all measuring together; bring-up and compiling are beside it. Every round is at least two
            batches, so that 0 is a smoke test.
        rounds: of each figure.

    Raises:
        BenchError: another profile, a command that did not end well, or wrong data.
        TuttiError: a part refused.
    """
    why_not = why_not_attached(profile)
    if why_not is not None:
        raise BenchError(f"measure the ring on {profile}", why_not, "Name --profile host.")
    with tempfile.TemporaryDirectory() as folder:
        clean = replace(load, faults=0.0)
        ways = (
            _Way(RING, clean),
            _Way(NULL, clean, null=True),
            _Way(NAIVE, clean, templates=naive_templates(Path(folder))),
            _Way(SINGLE, replace(clean, batch=1)),
            *([_Way(FAULTS, load)] if load.faults else []),
        )
        length_s = time_limit_s / (rounds * len(ways))
        taken: dict[str, list[_Round]] = {way.name: [] for way in ways}
        for _ in range(rounds):
            for way in ways:
                taken[way.name].append(_run(profile, way, length_s))
    figures = [_figure(way, taken[way.name]) for way in ways]
    rate = {figure.name: figure.commands_per_s for figure in figures}
    errors = sum(each.errors for each in taken.get(FAULTS, []))
    others = (NULL, NAIVE, SINGLE)
    return {
        "profile": str(profile),
        "operation": "write" if load.write else "read",
        "block_bytes": _BLOCK_BYTES,
        "batch": load.batch,
        "depth": load.depth,
        "rounds": rounds,
        "verified": True,  # whatever is not, was raised
        "figures": [asdict(figure) for figure in figures],
        "ring_over": {name: rate[RING] / rate[name] for name in others},
        "faults": {"rate": load.faults, "errors": errors, "over_clean": rate[FAULTS] / rate[RING]} if errors else None,
    }


@dataclass(frozen=True)
class _Way:
    name: str
    load: Load
    null: bool = False
    templates: Path | None = None


def _figure(way: _Way, rounds: list[_Round]) -> Figure:
    commands = sum(each.commands for each in rounds)
    rate = statistics.median(each.commands / each.seconds for each in rounds)
    return Figure(
        name=way.name,
        commands=commands,
        seconds=sum(each.seconds for each in rounds),
        commands_per_s=rate,
        gb_per_s=0.0 if way.null else rate * _BLOCK_BYTES / 1e9,
        doorbells_per_command=sum(each.doorbells for each in rounds) / commands,
        cq_loads_per_command=sum(each.cq_loads for each in rounds) / commands,
        host_calls_per_batch=sum(each.host_calls for each in rounds) / sum(each.batches for each in rounds),
    )


def _run(profile: Profile, way: _Way, length_s: float) -> _Round:
    """One round, with a drive and a ring of its own, so that no other drive's thread takes its time."""
    import numpy as np

    from tutti_hal.io_uring.options import Drive, RingOptions
    from tutti_hal.io_uring.ring import Ring
    from tutti_hal.nvme.device_memory import attach
    from tutti_hal.nvme.software import ControllerConfig, MemoryNamespace, NullController, SoftwareController
    from tutti_hal.nvme.software_config import FaultAction, FaultRule
    from tutti_hal.shim import Device

    load = way.load
    kind = NullController if way.null else SoftwareController
    with ExitStack() as stack:
        device = Device(profile)
        controller = stack.enter_context(kind(ControllerConfig(namespaces=(MemoryNamespace(blocks=load.batch),))))
        source = np.random.default_rng(3).integers(0, 256, load.batch * _BLOCK_BYTES, np.uint8)
        if not load.write and not way.null:
            controller.write_stored(_NSID, 0, source.tobytes())
        handle, dma = attach(device, controller, stack)
        memory = dma.allocate(load.batch * _BLOCK_BYTES)
        stack.callback(memory.close)
        memory.write(0, (source if load.write else ~source).tobytes())
        options = RingOptions(
            depth=load.depth, batch_limit=load.batch, batches=2, buffers=1, lanes=load.lanes or device.wave_width
        )
        drives = [Drive(handle=handle, dma=dma)]
        if load.faults:
            controller.inject(FaultRule(action=FaultAction.STATUS, rate=load.faults, status=_ERROR))
        ring = stack.enter_context(Ring.init_queue(device, drives, options, templates=way.templates))
        buffer = ring.register(memory)
        place = np.arange(load.batch)

        def issue() -> Iocb:
            iocb = ring.get_iocb()
            fill = iocb.write if load.write else iocb.read
            fill(ring.targets[0], place, _BLOCK_BYTES, buffer, place * _BLOCK_BYTES)
            ring.issue_io(iocb)
            return iocb

        took = _flow(ring, issue, way, length_s)
        if load.faults:
            # Once more without errors: what failed is moved now.
            controller.clear_faults()
            _take(ring, issue(), way.name, 0.0)
        if not way.null:
            # The source judges: what is stored after writes, what arrived after reads.
            found = controller.read_stored(_NSID, 0, len(source)) if load.write else memory.read(0, len(source))
            if found != source.tobytes():
                raise BenchError(
                    f"measure {way.name}", "the data that was moved is not its source", "Run the ring's tests."
                )
        return took


def _take(ring: Ring, iocb: Iocb, name: str, faults: float) -> int:
    """Waits for a batch; how many of its commands ended with the injected error. Any other end raises."""
    from tutti_hal.io_uring.completion import ended, succeeded
    from tutti_hal.io_uring.layout import State

    done = ring.wait_cqe(iocb)
    good = succeeded(done)
    if good.all():
        return 0
    struck = (done["state"] == State.COMPLETED) & (done["sct"] == _ERROR[0]) & (done["sc"] == _ERROR[1])
    if not faults or not (good | struck).all():
        raise BenchError(f"measure {name}", ended(done), "Run the ring's tests.")
    return int(struck.sum())


def _flow(ring: Ring, issue: Callable[[], Iocb], way: _Way, length_s: float) -> _Round:
    """Batches one behind the other, two in flight, for ``length_s``."""
    errors = 0

    def take(iocb: Iocb) -> None:
        nonlocal errors
        errors += _take(ring, iocb, way.name, way.load.faults)

    take(issue())  # pages of the namespace, code and caches
    errors = 0
    before = _counts(ring)
    calls = ring.device.host_calls.total()
    batches = 1
    begin = time.perf_counter()
    flying = issue()
    while batches == 1 or time.perf_counter() - begin < length_s:
        following = issue()  # the next batch is handed over while this one runs
        take(flying)
        flying = following
        batches += 1
    take(flying)
    seconds = time.perf_counter() - begin
    calls = ring.device.host_calls.total() - calls
    commands, doorbells, loads = (new - old for new, old in zip(_counts(ring), before, strict=True))
    return _Round(commands, doorbells, loads, calls, batches, seconds, errors)


def _counts(ring: Ring) -> tuple[int, int, int]:
    counted = ring.statistics()
    return counted.total("completions"), counted.total("doorbells"), counted.total("cq_loads")

"""Ring speed: 4 KiB reads end to end, against the same ring used one command at a time."""

from __future__ import annotations

import time
from contextlib import ExitStack
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

from tutti_hal.errors import BenchError

if TYPE_CHECKING:
    from tutti_hal.io_uring.iocb import Iocb
    from tutti_hal.io_uring.ring import Ring
    from tutti_hal.profile import Profile

_BLOCK_BYTES = 4096
_BLOCKS = 4096


@dataclass(frozen=True)
class Figure:
    """One measured point.

    Attributes:
        name: what ran.
        commands: how many, all of them completed without an error.
        seconds: wall clock from the first hand-over to the last completion.
        commands_per_s, gb_per_s: their quotients; payload of one direction.
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


def measure_ring(profile: Profile, *, batch: int, depth: int, seconds: float) -> dict[str, Any]:
    """Reads of 4 KiB from one drive in memory and from a null controller, in batches, and one at a time as baseline.

    Args:
        profile: HOST in mode threads; software controllers reach host memory.
        batch: commands handed over together.
        depth: entries of the queue.
        seconds: about how long each figure runs.

    Raises:
        BenchError: another profile, or a command did not end well.
        TuttiError: a part refused.
    """
    if profile.record.kind != "host" or not profile.arch.startswith("threads-"):
        raise BenchError(
            f"measure the ring on {profile}", "its controllers run on threads of this host", "Name --profile host."
        )
    figures = [
        _measure(profile, "null controller", null=True, batch=batch, depth=depth, seconds=seconds),
        _measure(profile, "software controller, memory", null=False, batch=batch, depth=depth, seconds=seconds),
        _measure(profile, "baseline: one command a batch", null=False, batch=1, depth=depth, seconds=seconds),
    ]
    return {
        "profile": str(profile),
        "block_bytes": _BLOCK_BYTES,
        "batch": batch,
        "depth": depth,
        "figures": [asdict(figure) for figure in figures],
        "gain_over_baseline": figures[1].commands_per_s / figures[2].commands_per_s,
    }


def _measure(profile: Profile, name: str, *, null: bool, batch: int, depth: int, seconds: float) -> Figure:
    import numpy as np

    from tutti_hal.io_uring.batch import succeeded
    from tutti_hal.io_uring.options import Drive, RingOptions
    from tutti_hal.io_uring.ring import Ring
    from tutti_hal.nvme.handle import ControllerHandle
    from tutti_hal.nvme.software import ControllerConfig, MemoryNamespace, NullController, SoftwareController
    from tutti_hal.shim import Device

    kind = NullController if null else SoftwareController
    with ExitStack() as stack:
        device = Device(profile)
        controller = stack.enter_context(kind(ControllerConfig(namespaces=(MemoryNamespace(blocks=_BLOCKS),))))
        controller.start()
        handle = stack.enter_context(ControllerHandle.open(controller.registers, controller.dma))
        memory = controller.dma.allocate(batch * _BLOCK_BYTES)
        stack.callback(memory.close)
        options = RingOptions(depth=depth, batch_limit=batch, batches=2, buffers=1)
        ring = stack.enter_context(Ring.init_queue(device, [Drive(handle=handle, dma=controller.dma)], options))
        buffer = ring.register(memory)
        lba = np.arange(batch) % _BLOCKS
        offset = np.arange(batch) * _BLOCK_BYTES

        def issue() -> Iocb:
            iocb = ring.get_iocb()
            iocb.read(ring.targets[0], lba, _BLOCK_BYTES, buffer, offset)
            ring.issue_io(iocb)
            return iocb

        def take(iocb: Iocb) -> None:
            if not succeeded(ring.wait_cqe(iocb)).all():
                raise BenchError(f"measure {name}", "a command did not end well", "Run the ring's tests.")

        take(issue())  # pages of the namespace, code and caches
        before = _counts(ring)
        calls = device.host_calls.total()
        batches = 0
        begin = time.perf_counter()
        flying = issue()
        while time.perf_counter() - begin < seconds:
            following = issue()  # the next batch is handed over while this one runs
            take(flying)
            flying = following
            batches += 1
        take(flying)
        took = time.perf_counter() - begin
        batches += 1
        calls = device.host_calls.total() - calls
        commands, doorbells, loads = (new - old for new, old in zip(_counts(ring), before, strict=True))
        return Figure(
            name=name,
            commands=commands,
            seconds=took,
            commands_per_s=commands / took,
            gb_per_s=0.0 if null else commands * _BLOCK_BYTES / took / 1e9,
            doorbells_per_command=doorbells / commands,
            cq_loads_per_command=loads / commands,
            host_calls_per_batch=calls / batches,
        )


def _counts(ring: Ring) -> tuple[int, int, int]:
    statistics = ring.statistics()
    return statistics.total("completions"), statistics.total("doorbells"), statistics.total("cq_loads")

"""The ring alone: commands a second over the device controller's null form, for grids of queues and lanes."""

from __future__ import annotations

import statistics
import time
from contextlib import ExitStack
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

from tutti_hal.errors import BenchError

if TYPE_CHECKING:
    from tutti_hal.nvme.device_controller import DeviceController
    from tutti_hal.profile import Profile
    from tutti_hal.shim import Device

#: Queues, with a block of the controller each, and lanes of the ring's kernel.
QUEUES = (1, 4, 16, 32, 128)
LANES = (32, 256, 1024, 4096, 16384, 65536)
#: Requests of a lane: the ring submits bursts of 8.
_EACH = 16
#: Requests of a cell at least.
_LEAST = 16384


@dataclass(frozen=True)
class Cell:
    """One grid.

    Attributes:
        queues: queue pairs, each served by a block of its own.
        lanes: of the ring's kernel.
        commands: of a launch.
        commands_per_s: median of the rounds, of the launch alone by the device's events.
        doorbells_per_command: SQ doorbell writes by kernels, as they count them.
        commands_per_look: how many commands the controller found together.
    """

    queues: int
    lanes: int
    commands: int
    commands_per_s: float
    doorbells_per_command: float
    commands_per_look: float


def measure_grid(
    profile: Profile,
    *,
    time_limit_s: float = 45.0,
    rounds: int = 3,
    queues: tuple[int, ...] = QUEUES,
    lanes: tuple[int, ...] = LANES,
    depth: int = 1024,
    least: int = _LEAST,
) -> dict[str, Any]:
    """Measures every pair of queues and lanes: 512-byte reads, completed without data.

    Args:
        profile: of a device that runs two kernels at once.
        time_limit_s: no cell is begun behind it; what was left out is named.
        rounds: of each cell, behind one that is not timed.
        queues: queue pairs.
        lanes: of the ring's kernel.
        depth: entries of a queue.
        least: commands of a launch at least.

    Raises:
        BenchError: another profile, or a command that did not end well.
        TuttiError: a part refused.
    """
    from tutti_hal.nvme.device_controller import DeviceController, DeviceControllerOptions
    from tutti_hal.shim import Device

    simulation = profile.backend.simulation()
    engine = simulation is not None
    if simulation is not None and simulation.simulates(profile.record.archs[profile.arch]):
        raise BenchError(f"measure on {profile}", "mode sim has one thread for everything", "Name --profile host.")
    begin = time.monotonic()
    device = Device(profile)
    options = DeviceControllerOptions(
        threads=2 * device.wave_width if engine else None, queues=max(queues), limit_ns=20_000_000_000, null=True
    )
    cells: list[Cell] = []
    left_out: list[str] = []
    with DeviceController(device, 1 << 16, options) as controller:
        for count in queues:
            for width in lanes:
                if time.monotonic() - begin > time_limit_s:
                    left_out.append(f"{count} queues, {width} lanes")
                    continue
                cells.append(_cell(device, controller, count, width, depth, max(_EACH * width, least), rounds))
    return {
        "profile": str(profile),
        "device": device.name,
        "depth": depth,
        "rounds": rounds,
        "cells": [asdict(cell) for cell in cells],
        "left_out": left_out,
        "seconds": time.monotonic() - begin,
    }


def _cell(
    device: Device, controller: DeviceController, queues: int, lanes: int, depth: int, commands: int, rounds: int
) -> Cell:
    import numpy as np

    from tutti_hal.io_uring import Drive, Ring, RingOptions
    from tutti_hal.io_uring.completion import ended, succeeded

    ring_options = RingOptions(
        depth=depth, queues=(queues,), batch_limit=commands, batches=1, buffers=1, lanes=lanes, block=min(lanes, 64)
    )
    with ExitStack() as stack:
        memory = controller.dma().allocate(1 << 16)
        stack.callback(memory.close)
        around = stack.enter_context(device.create_event()), stack.enter_context(device.create_event())
        stream = stack.enter_context(device.create_stream())
        drive = Drive(handle=controller.handle, dma=controller.dma())
        ring = stack.enter_context(Ring.init_queue(device, [drive], ring_options))
        buffer = ring.register(memory)
        place = np.arange(commands, dtype=np.uint64) % 128
        times = []
        with controller.serve(queues):
            for turn in range(rounds + 1):
                batch = ring.get_iocb()
                batch.read(ring.targets[0], place, 512, buffer, place * 512)
                ring.issue_io(batch, stream, around=around)
                done = ring.wait_cqe(batch)
                if not succeeded(done).all():
                    raise BenchError(f"measure {queues} queues and {lanes} lanes", ended(done), "Report it.")
                if turn:
                    times.append(around[1].elapsed_ms(around[0]) / 1e3)
        told = ring.statistics()
        served = controller.counts()
        rate = commands / statistics.median(times)
        return Cell(
            queues=queues,
            lanes=lanes,
            commands=commands,
            commands_per_s=rate,
            doorbells_per_command=told.total("doorbells") / told.total("completions"),
            commands_per_look=sum(one.commands for one in served) / max(sum(one.rounds for one in served), 1),
        )

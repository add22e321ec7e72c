"""A runtime over software drives for tests, with the controllers at hand: what they stored is the oracle."""

from __future__ import annotations

from contextlib import ExitStack
from pathlib import Path
from typing import Self

import numpy as np

from tutti_hal.nvme.software import SoftwareController
from tutti_hal.shim import Device
from tutti_hal.storage import RingOptions, RuntimeOptions, SoftwareDrive, StorageRuntime, open_software_drives

PROFILE = "host:threads-w32"
MIB = 1 << 20


class Rig:
    """Drives d0, d1, ... and a runtime. Leaving it shuts the runtime down."""

    def __init__(self, *drives: SoftwareDrive, options: RuntimeOptions | None = None, **ring: object) -> None:
        specs = drives or (SoftwareDrive(name="d0", nbytes=16 * MIB),)
        if ring:
            options = RuntimeOptions(ring=RingOptions(**{"queues": (1, 1), "batches": 4, **ring}))  # type: ignore[arg-type]
        self.device = Device(PROFILE)
        self.controllers: dict[str, SoftwareController] = {}
        stack = ExitStack()
        with stack:
            made = open_software_drives(
                self.device, specs, stack, adjust=lambda spec, one: self.controllers.update({spec.name: one})
            )
            self.runtime = StorageRuntime.create(self.device, made, options, owned=stack.pop_all())

    def stored(self, drive: str, offset: int, nbytes: int) -> bytes:
        """What the drive keeps there, read past its queues."""
        return self.controllers[drive].read_stored(1, offset, nbytes)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.runtime.shutdown(30.0)


def noise(nbytes: int, seed: int = 1) -> np.ndarray:
    return np.random.default_rng(seed).integers(0, 256, nbytes, np.uint8)


def image(folder: Path, name: str, nbytes: int) -> Path:
    """A file with all its blocks allocated and written."""
    path = folder / name
    path.write_bytes(bytes(nbytes))
    return path

"""Drives, a device and a ring for tests, in threads or in a deterministic world: a rig is made anew for each run."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import Self

import numpy as np

from tutti_hal.backends.host.sim import SimOptions, World
from tutti_hal.conformance_tests.drives import BLOCK, BufferDma, bring_up, drive
from tutti_hal.errors import RuntimeFailure
from tutti_hal.io_uring import Drive, Iocb, RegisteredBuffer, Ring, RingOptions
from tutti_hal.nvme.software import ControllerConfig, Iommu, SoftwareController
from tutti_hal.nvme.software_memory import HostDma
from tutti_hal.shim import Device

__all__ = ["BLOCK", "BufferDma", "Rig", "drive"]


class Rig:
    """A device, drives over memory, a ring, and one registered piece of memory for data."""

    def __init__(
        self,
        arch: str = "sim-w32",
        options: RingOptions | None = None,
        *,
        drives: list[ControllerConfig] | None = None,
        sim: SimOptions | None = None,
        data_bytes: int = 1 << 20,
        templates: Path | None = None,
        contiguous: bool = False,
        adjust: Callable[[Rig, Drive], Drive] = lambda _, one: one,
    ) -> None:
        """``adjust`` is what a test changes of each drive before the ring is made over it."""
        self.stack = ExitStack()
        with ExitStack() as undo:
            undo.callback(self.close)
            self._make(arch, options, drives, sim, data_bytes, templates, contiguous, adjust)
            undo.pop_all()

    def _make(
        self,
        arch: str,
        options: RingOptions | None,
        drives: list[ControllerConfig] | None,
        sim: SimOptions | None,
        data_bytes: int,
        templates: Path | None,
        contiguous: bool,
        adjust: Callable[[Rig, Drive], Drive],
    ) -> None:
        self.device = Device(f"host:{arch}")
        self.world: World | None = None
        if arch.startswith("sim"):
            self.device.reset()
            self.world = World(self.device)
            self.world.reset(sim or SimOptions(policy="random"))
        self.iommu = iommu = self.stack.enter_context(Iommu(seed=1))
        self.drives = [self.stack.enter_context(SoftwareController(c, iommu)) for c in drives or [drive()]]
        self.handles = [bring_up(self.device, self.world, one, self.stack) for one in self.drives]
        self.dma = HostDma(iommu)
        self.memory = self.dma.allocate(data_bytes, contiguous=contiguous)
        self.stack.callback(self.memory.close)
        plain = [Drive(handle=h, dma=d.dma) for h, d in zip(self.handles, self.drives, strict=True)]
        over = [adjust(self, one) for one in plain]
        self.ring = Ring.init_queue(self.device, over, options or RingOptions(), templates=templates)
        self.stack.callback(self.ring.close)
        self.buffer: RegisteredBuffer = self.ring.register([self.memory] * len(self.drives))
        raw = (np.ctypeslib.ctypes.c_uint8 * self.memory.nbytes).from_address(self.memory.address)
        self.data = np.frombuffer(raw, np.uint8)

    def run(self, iocb: Iocb) -> np.ndarray:
        self.ring.issue_io(iocb)
        return self.ring.wait_cqe(iocb)

    def round_trip(self, count: int, nbytes: int = BLOCK, seed: int = 7) -> tuple[np.ndarray, np.ndarray, bool]:
        """Writes pieces, spoils the memory, reads them back. Returns both completions and whether all bytes agree.

        The oracle is the source data, kept aside: the drives' stored bytes and what was read must both equal it.
        """
        source = np.random.default_rng(seed).integers(0, 256, count * nbytes, np.uint8)
        self.data[: len(source)] = source
        written = self.run(self._fill("write", count, nbytes))
        stored = all(
            self.drives[t.drive].read_stored(t.nsid, (i // len(self.ring.targets)) * nbytes, nbytes)
            == source[i * nbytes : (i + 1) * nbytes].tobytes()
            for i in range(count)
            for t in [self.ring.targets[i % len(self.ring.targets)]]
        )
        self.data[:] = 0xEE
        read = self.run(self._fill("read", count, nbytes))
        agrees = bool((self.data[: len(source)] == source).all()) and bool((self.data[len(source) :] == 0xEE).all())
        return written, read, stored and agrees

    def _fill(self, verb: str, count: int, nbytes: int) -> Iocb:
        iocb = self.ring.get_iocb()
        targets = self.ring.targets
        for row, target in enumerate(targets):
            at = np.arange(row, count, len(targets))
            if len(at):
                lba = (at // len(targets)) * (nbytes // BLOCK)
                getattr(iocb, verb)(target, lba, nbytes, self.buffer, at * nbytes)
        return iocb

    def close(self) -> None:
        # A kernel that failed leaves its device refusing everything: the world must work again to be taken apart.
        if self.world is not None:
            with suppress(RuntimeFailure):
                self.world.reset()
        self.stack.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

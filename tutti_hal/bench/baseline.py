"""The baseline ring: tickets, turns and two locks, as published, over the queues of a device controller.

The algorithm, and what it can not be used for, is told in ``kernels/baseline_ring.cu.j2``.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING, Any, Self

from tutti_hal.bench.variants import added_templates
from tutti_hal.codegen.structs import load_structs
from tutti_hal.errors import BenchError
from tutti_hal.paths import package_file
from tutti_hal.shim import LaunchConfig

if TYPE_CHECKING:
    from pathlib import Path
    from types import TracebackType

    import numpy as np
    from numpy.typing import NDArray

    from tutti_hal.nvme.device_controller import DeviceController
    from tutti_hal.shim import Buffer, Device

#: BASELINE_IDENTIFIERS of the kernel.
_IDENTIFIERS = 65536
#: Blocks that commands read, over and over.
_BLOCKS = 128
#: Commands whose latency is kept at most.
_LATENCIES = 1 << 15


@cache
def dtype(name: str) -> np.dtype[Any]:
    """The NumPy dtype of a record of the baseline ring, such as ``baseline_queue``."""
    return load_structs(package_file("bench", "kernels", "baseline_ring.yaml"))[name].dtype()


@dataclass(frozen=True)
class Launched:
    """One launch.

    Attributes:
        commands: that it was given.
        completed: of them, each once.
        seconds: of the launch alone, by the device's events.
        latencies_ns: of each command where they were asked for, from before its identifier was taken until it was
            given back.
    """

    commands: int
    completed: int
    seconds: float
    latencies_ns: NDArray[np.uint64] | None = None


class BaselineRing:
    """A baseline ring over a device controller. A context manager. Not thread safe.

    Everything is loaded and allocated here, before the controller serves; queue pairs exist inside of `queues` only.

    Args:
        device: of the controller.
        controller: whose queues it uses; it must not be closed before.
        queues: queue pairs at most.
        depth: entries of each queue, a power of two, 2 to 32,768.
        folder: an empty one for the copy of the templates.

    Raises:
        BenchError: the depth is no power of two.
        BuildError: the kernel cannot be built for this profile.
        TuttiError: no memory.
    """

    def __init__(self, device: Device, controller: DeviceController, *, queues: int, depth: int, folder: Path) -> None:
        from tutti_hal.toolchain import build

        if depth & (depth - 1) or not 2 <= depth <= _IDENTIFIERS // 2:
            raise BenchError(
                f"measure the baseline ring with queues of {depth} entries",
                "its phases and turns need a power of two, of no more than half its identifiers",
                f"Use a power of two from 2 to {_IDENTIFIERS // 2}, or leave the baseline out.",
            )
        self._device, self._controller, self._depth = device, controller, depth
        words, cell = dtype("baseline_words").itemsize, dtype("baseline_cell").itemsize
        self._cells = 4 * depth + _IDENTIFIERS
        with ExitStack() as made:
            built = build(device.profile, "baseline_ring", templates=added_templates(folder, "baseline_ring"))
            module = made.enter_context(device.load_module(built.path, built.declared))
            self._kernel = module["baseline_run"]
            # Where modules are loaded lazily it is loaded now: see Ring.
            _ = self._kernel.max_block_threads
            self._words = made.enter_context(device.allocate(queues * words))
            self._state = made.enter_context(device.allocate(queues * self._cells * cell))
            self._table = made.enter_context(device.allocate(queues * dtype("baseline_queue").itemsize))
            self._totals = made.enter_context(device.allocate(dtype("baseline_totals").itemsize))
            self._latencies = made.enter_context(device.allocate(8 * _LATENCIES))
            # Copies from and to pinned memory are all that is enqueued beside the controller: for a fill a vendor
            # may have to load a kernel of its own.
            self._staging = made.enter_context(device.allocate(max(8 * _LATENCIES, queues * words), "pinned"))
            self._data = controller.dma().allocate(_BLOCKS * controller.options.lba_bytes)
            made.callback(self._data.close)
            self._stream = made.enter_context(device.create_stream())
            self._begin, self._end = (made.enter_context(device.create_event()) for _ in range(2))
            self._stack = made.pop_all()
        self._count = 0

    @contextmanager
    def queues(self, count: int) -> Iterator[None]:
        """So many queue pairs, as new, inside. While the controller does not serve.

        Raises:
            DeviceControllerServing: it does.
            QueuesRefused: the controller has fewer.
        """
        import numpy as np

        handle = self._controller.handle
        with ExitStack() as stack:
            handle.grant_queues(count, minimum=count)
            rows = np.zeros(count, dtype("baseline_queue"))
            cell = dtype("baseline_cell").itemsize
            for number, row in enumerate(rows):
                pair = handle.create_queue_pair(self._depth)
                stack.callback(handle.delete_queue_pair, pair)
                cells = self._state.address + number * self._cells * cell
                row["sq"], row["cq"] = pair.sq_bus, pair.cq_bus
                row["sq_doorbell"], row["cq_doorbell"] = pair.sq_tail_address, pair.cq_head_address
                row["words"] = self._words.address + number * dtype("baseline_words").itemsize
                for place, name in enumerate(("turns", "marks", "places", "taken", "identifiers")):
                    row[name] = cells + place * self._depth * cell
                row["mask"], row["shift"] = self._depth - 1, self._depth.bit_length() - 1
            raw = rows.view(np.uint8)
            self._stream.fill(self._words, 0)
            self._stream.fill(self._state.part(0, count * self._cells * cell), 0)
            self._stream.copy(self._table.part(0, len(raw)), raw)
            self._stream.synchronize()
            self._count = count
            try:
                yield
            finally:
                self._count = 0

    def launch(self, commands: int, lanes: int, block: int, limit_ns: int, *, latencies: bool = False) -> Launched:
        """Reads ``commands`` blocks, while the controller serves, and waits for that.

        Args:
            commands: in all.
            lanes: of the launch, whole blocks.
            block: lanes of a block.
            limit_ns: the launch ends after so long, whatever is missing.
            latencies: keep each command's; there is room for 32,768.

        Raises:
            BenchError: no queues, too many latencies, or a command that ended with an error.
        """
        import numpy as np

        if not self._count or (latencies and commands > _LATENCIES):
            raise BenchError("launch the baseline ring", f"{self._count} queues, {commands} commands", "Report it.")
        stream, staging, size = self._stream, self._staging, dtype("baseline_totals").itemsize
        staging.numpy()[:size] = 0
        stream.copy(self._totals.part(0, size), staging.part(0, size))
        stream.record(self._begin)
        stream.launch(
            LaunchConfig(grid=-(-lanes // block), block=block),
            self._kernel,
            self._table.address,
            self._count,
            commands,
            self._data.address,
            _BLOCKS,
            self._controller.options.lba_bytes,
            limit_ns,
            self._latencies.address if latencies else 0,
            self._totals.address,
        )
        stream.record(self._end)
        totals = self._read(self._totals, "baseline_totals", 1)
        took = self._read(self._latencies, np.uint64, commands) if latencies else None
        completed, failed, late = (int(totals[0][name]) for name in ("completed", "failed", "late"))
        if failed or (completed != commands and not late):
            raise BenchError(
                f"measure the baseline ring, {commands} commands of {lanes} lanes",
                f"{completed} completed, {failed} of them with an error",
                "Report it.",
            )
        seconds = self._end.elapsed_ms(self._begin) / 1e3
        return Launched(commands, completed, seconds, took)

    def doorbells(self) -> int:
        """SQ doorbells that it wrote since the queues are new."""
        rows = self._read(self._words, "baseline_words", self._count)
        return int(rows["sq_doorbells"]["word"].sum())

    def _read(self, memory: Buffer, kind: str | type[np.generic], count: int) -> NDArray[Any]:
        """Rows of device memory, behind what is enqueued."""
        import numpy as np

        rows = np.zeros(count, dtype(kind) if isinstance(kind, str) else kind)
        self._stream.copy(self._staging.part(0, rows.nbytes), memory.part(0, rows.nbytes))
        self._stream.synchronize()
        rows.view(np.uint8)[:] = self._staging.numpy()[: rows.nbytes]
        return rows

    def close(self) -> None:
        """Gives everything back. The second call does nothing."""
        self._stack.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

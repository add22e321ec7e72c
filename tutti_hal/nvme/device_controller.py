"""A controller that is a kernel of ours: it serves queues on the device from a namespace in mapped host memory.

It is for machines with a GPU and without a drive: the ring, the doorbells and the link are real, the flash is not. See
``kernels_templates/kernels/device_controller.cu.j2``.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING, Any, Self

from tutti_hal.codegen.structs import load_structs
from tutti_hal.errors import (
    DeviceControllerCrowded,
    DeviceControllerEnded,
    DeviceControllerError,
    DeviceControllerOptionInvalid,
)
from tutti_hal.nvme.bus_memory import BusDma, BusMap
from tutti_hal.nvme.device_handle import DSTRD, NSID, DeviceHandle
from tutti_hal.nvme.registers import Offset, cq_head_offset
from tutti_hal.paths import templates_dir
from tutti_hal.shim import LaunchConfig, MemoryKind

if TYPE_CHECKING:
    from pathlib import Path
    from types import TracebackType

    import numpy as np
    from numpy.typing import NDArray

    from tutti_hal.nvme.queues import QueuePair
    from tutti_hal.shim import Device

#: Queues that one block serves at most (DEVICE_BATCH of the kernel).
QUEUES_PER_BLOCK = 256
#: Ranges of memory that commands may name at most: each is looked at for each page.
MAX_RANGES = 1024
_READY = 1


@cache
def dtype(name: str) -> np.dtype[Any]:
    """The NumPy dtype of a record of the controller, such as ``device_queue``."""
    return load_structs(templates_dir() / "structs" / "device_controller.yaml")[name].dtype()


@dataclass(frozen=True, kw_only=True)
class DeviceControllerOptions:
    """Sizes and bounds of a device controller.

    Args:
        blocks: of its kernel: each serves a share of the queues, and takes the place of ring kernels.
        threads: of a block, whole waves; None takes as many as the kernel can have: 1024, the null one 128.
        limit_ns: the kernel ends by itself after so long, in the device's clock.
        lba_bytes: bytes of a logical block, 512 or more, a power of two.
        max_transfer_bytes: of one command (MDTS), whole pages.
        queues: queue pairs at most.
        registers: where its doorbells lie, ``device`` or ``mapped``.
        null: it completes without moving data.
    """

    blocks: int = 4
    threads: int | None = None
    limit_ns: int = 60_000_000_000
    lba_bytes: int = 512
    max_transfer_bytes: int = 1 << 20
    queues: int = 128
    registers: MemoryKind | str = MemoryKind.DEVICE
    null: bool = False

    def __post_init__(self) -> None:
        for name, low, high in (
            ("blocks", 1, 1 << 16),
            ("limit_ns", 1, 1 << 62),
            ("lba_bytes", 512, 1 << 16),
            ("max_transfer_bytes", 4096, 1 << 30),
            ("queues", 1, (1 << 16) - 1),
        ):
            value = getattr(self, name)
            if not low <= value <= high:
                self._refuse(name, f"Use {low} to {high}.")
        if self.lba_bytes & (self.lba_bytes - 1):
            self._refuse("lba_bytes", "Use a power of two.")
        if self.max_transfer_bytes % 4096:
            self._refuse("max_transfer_bytes", "Use whole pages of 4096 bytes.")

    def _refuse(self, name: str, fix: str) -> None:
        raise DeviceControllerOptionInvalid(
            f"make a device controller with {name}={getattr(self, name)}", "out of range", fix
        )


@dataclass(frozen=True)
class Served:
    """What the kernel did for one queue since it was made.

    Attributes:
        qid: the queue.
        commands: completed.
        rounds: looks at the queue that found commands; their quotient is how many came together.
    """

    qid: int
    commands: int
    rounds: int


class DeviceController:
    """A controller whose firmware is a kernel. A context manager. Not thread safe.

    It owns the memory of its namespace, its registers and its stream. The kernel is loaded here, and all memory made,
    before it can start: a resident kernel would hold up both. So `handle` and `dma` refuse while it runs; make the
    ring over it, register its buffers, then `serve`.

    Args:
        device: where it runs; the ring that it serves is on the same one.
        blocks: logical blocks of its namespace.
        options: sizes and bounds.
        templates: another root of kernel templates than the installed one.

    Raises:
        DeviceControllerOptionInvalid: threads that are no whole waves, or more than the kernel can have.
        BuildError: the kernel cannot be built for this profile.
        TuttiError: no memory.
    """

    def __init__(
        self,
        device: Device,
        blocks: int,
        options: DeviceControllerOptions | None = None,
        *,
        templates: Path | None = None,
    ) -> None:
        self.device = device
        self.options = options or DeviceControllerOptions()
        self._blocks = blocks
        self._serving = False
        self._epoch = 0
        with ExitStack() as made:
            self._make(made, templates)
            self._stack = made.pop_all()

    def _make(self, made: ExitStack, templates: Path | None) -> None:
        import numpy as np

        from tutti_hal.toolchain import build

        device, options = self.device, self.options
        built = build(device.profile, "device_controller", templates=templates)
        module = made.enter_context(device.load_module(built.path, built.declared))
        self._kernel = module["device_complete" if options.null else "device_serve"]
        most = self._kernel.max_block_threads
        self._threads = most if options.threads is None else options.threads
        if self._threads < 1 or self._threads % device.wave_width or self._threads > most:
            raise DeviceControllerOptionInvalid(
                f"make a device controller with threads={self._threads}",
                f"waves have {device.wave_width} lanes, and the kernel takes {most} threads a block",
                "Use whole waves, not more than that.",
            )
        #: The namespace's memory.
        self.media = made.enter_context(device.allocate(self._blocks * options.lba_bytes, MemoryKind.MAPPED))
        self._stream = made.enter_context(device.create_stream())
        self._aside = made.enter_context(device.create_stream())
        self._ended = made.enter_context(device.create_event())
        self._stop_word = made.enter_context(device.allocate(4, MemoryKind.MAPPED))
        self._stop_word.numpy(np.uint32)[0] = 0
        self._bus = BusMap(lambda: self._serving)
        nbytes = cq_head_offset(options.queues, DSTRD) + (4 << DSTRD)
        registers = self.dma(options.registers).allocate(nbytes)
        made.callback(registers.close)
        # No command may name the registers.
        del self._bus.live[registers.address]
        registers.write(Offset.CSTS, _READY.to_bytes(4, "little"))
        self.handle = DeviceHandle(
            registers,
            self.dma(),
            self._bus,
            blocks=self._blocks,
            lba_bytes=options.lba_bytes,
            mdts=options.max_transfer_bytes,
            queues=options.queues,
        )
        size = dtype("device_queue").itemsize
        self._queues: NDArray[np.void] = np.zeros(options.queues, dtype("device_queue"))
        self._queue_memory = made.enter_context(device.allocate(options.queues * size))
        self._ranges = made.enter_context(device.allocate(MAX_RANGES * dtype("device_range").itemsize))
        self._space = made.enter_context(device.allocate(dtype("device_space").itemsize))

    def dma(self, kind: MemoryKind | str = MemoryKind.DEVICE) -> BusDma:
        """Where memory comes from that its commands may name: the device's own, or mapped host memory.

        What it gives must be closed before the controller.
        """
        return BusDma(self.device, self._bus, kind, self._aside)

    def read_stored(self, offset: int, nbytes: int) -> bytes:
        """Bytes of the namespace. While commands write to them, any mixture."""
        return self.media.numpy()[offset : offset + nbytes].tobytes()

    def write_stored(self, offset: int, data: bytes) -> None:
        """Sets bytes of the namespace."""
        import numpy as np

        self.media.numpy()[offset : offset + len(data)] = np.frombuffer(data, np.uint8)

    # ---- serving ----

    @property
    def serving(self) -> bool:
        """Whether its kernel was started and not yet joined."""
        return self._serving

    @contextmanager
    def serve(self, blocks: int | None = None) -> Iterator[None]:
        """Serves inside. Raises as `start` and `stop`; what is raised inside goes first."""
        self.start(blocks)
        try:
            yield
        except BaseException as error:
            try:
                self.stop()
            except DeviceControllerError as failure:
                error.add_note(f"stopping the device controller failed as well: {failure}")
            raise
        self.stop()

    def start(self, blocks: int | None = None) -> None:
        """Starts the kernel over the queue pairs that exist. Returns at once.

        Args:
            blocks: of the kernel; None takes the options'. Never more than there are queues.

        Raises:
            DeviceControllerServing: it runs.
            DeviceControllerCrowded: its blocks leave no multiprocessor for other kernels.
            DeviceControllerOptionInvalid: no queues, more than its blocks can serve, or too much memory in pieces.
        """
        import numpy as np

        tried = "start a device controller"
        self._bus.check(tried)
        pairs, options = self.handle.pairs, self.options
        blocks = min(blocks or options.blocks, max(len(pairs), 1))
        self._require_room(blocks)
        if not pairs or len(pairs) > blocks * QUEUES_PER_BLOCK or len(self._bus.live) > MAX_RANGES:
            raise DeviceControllerOptionInvalid(
                tried,
                f"{len(pairs)} queues for {blocks} blocks, {len(self._bus.live)} pieces of memory",
                f"Use 1 to {QUEUES_PER_BLOCK} queues a block, and at most {MAX_RANGES} pieces.",
            )
        self._queues[: len(pairs)] = self._rows(pairs)
        ranges = np.zeros(len(self._bus.live), dtype("device_range"))
        for row, (address, nbytes) in enumerate(sorted(self._bus.live.items(), key=lambda one: -one[1])):
            # The largest first: that is where most data are.
            ranges[row] = address, address + nbytes
        space = np.zeros(1, dtype("device_space"))
        space["base"], space["blocks"] = self.media.address, self._blocks
        space["range_count"] = len(ranges)
        space["lba_shift"] = options.lba_bytes.bit_length() - 1
        space["max_bytes"], space["nsid"] = options.max_transfer_bytes, NSID
        for memory, array in (
            (self._queue_memory, self._queues[: len(pairs)]),
            (self._ranges, ranges),
            (self._space, space),
        ):
            raw = array.view(np.uint8)
            if len(raw):
                self._stream.copy(memory.part(0, len(raw)), raw)
        self._stream.synchronize()
        # What was dropped before is given back before: from the launch on that waits for the kernel's end.
        self.device.end_orphans()
        self._served = pairs
        self._epoch = int(self._stop_word.numpy(np.uint32)[0])
        with ExitStack() as held:
            held.enter_context(self.device.holding_releases())
            self._stream.launch(
                LaunchConfig(grid=blocks, block=self._threads),
                self._kernel,
                self._queue_memory.address,
                len(pairs),
                self._space.address,
                self._ranges.address,
                self._stop_word.address,
                self._epoch,
                options.limit_ns,
            )
            self._stream.record(self._ended)
            self._held = held.pop_all()
        self._serving = True

    def _require_room(self, blocks: int) -> None:
        device = self.device
        capable = device.runtime.capable("launch.occupancy")
        resident = self._kernel.resident_blocks(self._threads) if capable else 1
        processors = device.attribute("MultiProcessorCount")
        if resident < 1 or -(-blocks // resident) >= processors:
            raise DeviceControllerCrowded(
                f"start a device controller of {blocks} blocks",
                f"{processors} multiprocessors take {resident} of its blocks each, and one must stay free",
                "Use fewer blocks.",
            )

    def _rows(self, pairs: tuple[QueuePair, ...]) -> NDArray[np.void]:
        """The table of queues: where they are, and how far they came; those that were made anew begin anew."""
        import numpy as np

        before = {int(row["id"]): row.copy() for row in self._queues if row["id"]}
        rows = np.zeros(len(pairs), dtype("device_queue"))
        for place, pair in enumerate(pairs):
            if pair.qid in before and pair.qid not in self.handle.fresh:
                rows[place] = before[pair.qid]
                continue
            row = rows[place]
            row["sq"], row["cq"] = pair.sq_bus, pair.cq_bus
            row["sq_doorbell"], row["cq_doorbell"] = pair.sq_tail_address, pair.cq_head_address
            row["sq_depth"], row["cq_depth"], row["id"] = pair.depth, pair.cq_depth, pair.qid
            row["phase"] = 1
        self.handle.fresh.clear()
        self._queues[:] = 0
        return rows

    def stop(self) -> None:
        """Ends the kernel behind the round in which it is, and waits for that. The second call does nothing.

        Raises:
            DeviceControllerEnded: it had ended before, for its time was over.
            LaunchFailed: it failed.
        """
        import numpy as np

        if not self._serving:
            return
        try:
            early = self._ended.query()
            self._stop_word.numpy(np.uint32)[0] = (self._epoch + 1) & 0xFFFFFFFF
            self._stream.synchronize()
        finally:
            self._serving = False
            self._held.close()
        raw = self._queues[: len(self._served)].view(np.uint8)
        self._stream.copy(raw, self._queue_memory.part(0, len(raw)))
        self._stream.synchronize()
        if early:
            raise DeviceControllerEnded(
                "stop a device controller",
                f"it had ended by itself after {self.options.limit_ns / 1e9:g} s",
                "Raise DeviceControllerOptions.limit_ns; recover the rings that it served.",
            )

    def counts(self) -> tuple[Served, ...]:
        """What it served, one record a queue, as of the last `stop`."""
        return tuple(
            Served(int(row["id"]), int(row["served"]), int(row["rounds"])) for row in self._queues if row["id"]
        )

    def close(self) -> None:
        """Stops, and gives everything back. The queues of rings over it must be gone. The second call does nothing."""
        try:
            self.stop()
        finally:
            self._stack.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

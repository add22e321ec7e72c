"""Blocks of a namespace through the ring: what a store stands on in production.

Data in the device's *arena*, registered memory that drives reach, move without a copy; other data go through a part of
it that the device keeps for itself. Identify says whether the drive has a volatile write cache; where it has one, a
durable write has the FUA bit, else it is a plain write.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from tutti_hal.errors import StoreDeviceError
from tutti_hal.store.device import Piece
from tutti_hal.store.file_device import lock
from tutti_hal.store.staged import StagedDevice

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from tutti_hal.io_uring import Iocb, RegisteredBuffer, Ring, Target
    from tutti_hal.shim import Device


class RingDevice(StagedDevice):
    """A namespace as a `BlockDevice`. Ring, drive and memory stay the caller's and outlive it.

    Args:
        ring: with one batch free whenever the store works.
        target: the namespace.
        buffer: registered memory.
        memory: the same memory as the host sees it: the arena, then ``staging_bytes`` for what lies elsewhere.
        staging_bytes: of the memory's end; a multiple of the block.
        volatile: Identify's VWC bit 0: whether the drive has a volatile write cache.

    Raises:
        StoreOptionInvalid: no room for staging.
    """

    def __init__(
        self,
        ring: Ring,
        target: Target,
        buffer: RegisteredBuffer,
        memory: NDArray[np.uint8],
        *,
        staging_bytes: int,
        volatile: bool,
    ) -> None:
        super().__init__(memory, staging_bytes, block_bytes=target.lba_bytes, blocks=target.blocks, volatile=volatile)
        self._ring, self._target, self._buffer = ring, target, buffer
        self._command_limit = ring.options.batch_limit

    # ---- BlockDevice ----

    def flush(self) -> None:
        """See `BlockDevice.flush`."""
        iocb = self._ring.get_iocb()
        try:
            iocb.flush(self._target)
        except BaseException:
            self._ring.put_iocb(iocb)
            raise
        self._finish("flush", iocb)

    def close(self) -> None:
        """See `BlockDevice.close`. The ring stays."""

    # ---- batches ----

    def _commands(self, piece: Piece) -> int:
        return -(-piece.data.nbytes // self.block_bytes // self._target.max_blocks) + 1

    def _run(self, verb: str, batch: Sequence[tuple[int, Piece]], durable: bool) -> None:
        import numpy as np

        lbas = np.array([piece.lba for _, piece in batch], np.uint64)
        sizes = np.array([piece.data.nbytes for _, piece in batch], np.uint64)
        offsets = np.array([at for at, _ in batch], np.uint64)
        iocb = self._ring.get_iocb()
        try:
            if verb == "read":
                iocb.read(self._target, lbas, sizes, self._buffer, offsets)
            else:
                unit = durable and self.volatile
                iocb.write(self._target, lbas, sizes, self._buffer, offsets, force_unit_access=unit)
        except BaseException:
            self._ring.put_iocb(iocb)
            raise
        self._finish(verb, iocb)

    def _finish(self, verb: str, iocb: Iocb) -> None:
        import numpy as np

        from tutti_hal.io_uring import succeeded

        self._ring.issue_io(iocb)
        done = self._ring.wait_cqe(iocb)
        good = succeeded(done)
        if not good.all():
            row = done[int(np.argmin(good))]
            raise StoreDeviceError(
                f"{verb} blocks of namespace {self._target.nsid}",
                f"{int((~good).sum())} of {len(done)} requests failed; the first: state {int(row['state'])}, status "
                f"{int(row['sct']):X}h/{int(row['sc']):02X}h",
                "Recover the ring, then open the store anew.",
            )


@contextmanager
def open_ring_device(
    device: Device, path: Path, *, arena_bytes: int, staging_bytes: int = 1 << 20, lba_shift: int = 12
) -> Iterator[RingDevice]:
    """A store's device over a file, through a software controller and a ring of its own; all gone after the block.

    Args:
        device: where the ring's kernel runs.
        path: a file of whole blocks. The store's lock is held on it.
        arena_bytes: of the arena.
        staging_bytes: for data that lie elsewhere.
        lba_shift: log2 of the block.

    Raises:
        StoreAbsent, StoreLocked: as `lock`.
        TuttiError: the controller or the ring cannot be made.
    """
    import os

    import numpy as np

    from tutti_hal.io_uring import Drive, Ring, RingOptions
    from tutti_hal.nvme.device_memory import attach
    from tutti_hal.nvme.software import (
        ControllerConfig,
        Direct,
        FileNamespace,
        SoftwareController,
        VolatileCache,
    )

    with ExitStack() as stack:
        stack.callback(os.close, lock(path))
        blocks = path.stat().st_size >> lba_shift
        namespace = FileNamespace(path=path, lba_shift=lba_shift, blocks=blocks, direct=Direct.PREFERRED)
        config = ControllerConfig(namespaces=(namespace,), volatile_cache=VolatileCache.DECLARED)
        controller = stack.enter_context(SoftwareController(config))
        handle, dma = attach(device, controller, stack)
        memory = dma.allocate(arena_bytes + staging_bytes)
        stack.callback(memory.close)
        options = RingOptions(depth=64, batch_limit=1024, batches=2, buffers=1)
        ring = stack.enter_context(Ring.init_queue(device, [Drive(handle=handle, dma=dma)], options))
        seen = memory.buffer.numpy(np.uint8, memory.nbytes, offset=memory.skip)
        volatile = handle.controller.volatile_write_cache
        yield RingDevice(
            ring, ring.targets[0], ring.register(memory), seen, staging_bytes=staging_bytes, volatile=volatile
        )

"""Blocks of a target of the storage runtime: a store on a file, a range of a drive, or a set striped over drives.

The runtime says where each block lies and moves it; a flush goes to every drive of the target.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from tutti_hal.errors import StorageError, StoreDeviceError, StoreOptionInvalid
from tutti_hal.storage import Flags, Operation, Reason, RuntimeState, Status, make_requests
from tutti_hal.store.device import Piece
from tutti_hal.store.file_device import lock
from tutti_hal.store.staged import StagedDevice

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from tutti_hal.storage import Memory, StorageRuntime

#: Bytes of one request at most, so that it fits a batch beside others.
_REQUEST_BYTES = 1 << 20


class StorageDevice(StagedDevice):
    """An open target as a `BlockDevice`. Runtime, target and memory stay the caller's and outlive it.

    Others may use the runtime at the same time: where a batch finds no room, it waits for theirs.

    Args:
        runtime: running.
        target: its handle.
        memory: host-visible memory of the runtime: the arena, then ``staging_bytes`` for what lies elsewhere.
        staging_bytes: of the memory's end; a multiple of the block.

    Raises:
        StoreOptionInvalid: no room for staging; a target whose blocks a drive may write in part, since it lies on
            drives of different blocks.
        StorageError: the target is not open.
    """

    def __init__(self, runtime: StorageRuntime, target: int, memory: Memory, *, staging_bytes: int) -> None:
        info = runtime.target(target)
        if info.atomic_bytes < info.block:
            raise StoreOptionInvalid(
                f"put a store on {info.uri}",
                f"its blocks have {info.block} bytes, and a drive of it writes {info.atomic_bytes} at a time",
                "Use drives of one block size: half a block must never be on the medium.",
            )
        super().__init__(
            memory.numpy(),
            staging_bytes,
            block_bytes=info.block,
            blocks=info.size // info.block,
            volatile=info.volatile,
        )
        self.uri = info.uri
        self._runtime, self._target, self._handle = runtime, target, memory.handle
        # A request of so many bytes fits a batch even if every block of it is a command of its own.
        most = min(_REQUEST_BYTES, runtime.options.ring.batch_limit * info.block)
        self._most = most // info.block * info.block

    def flush(self) -> None:
        """See `BlockDevice.flush`. It reaches every drive of the target."""
        self._finish("flush", make_requests(Operation.FLUSH, self._target))

    def close(self) -> None:
        """See `BlockDevice.close`. Runtime and target stay."""

    def _commands(self, *_: object) -> int:
        return 0

    def _run(self, verb: str, batch: Sequence[tuple[int, Piece]], durable: bool) -> None:
        import numpy as np

        rows = [
            (piece.lba * self.block_bytes + skip, at + skip, min(self._most, piece.data.nbytes - skip))
            for at, piece in batch
            for skip in range(0, piece.data.nbytes, self._most)
        ]
        where, at, sizes = np.array(rows, np.uint64).T
        requests = make_requests(
            Operation.READ if verb == "read" else Operation.WRITE,
            self._target,
            nbytes=sizes,
            target_offset=where,
            memory=self._handle,
            memory_offset=at,
            flags=Flags.DURABLE if durable else 0,
        )
        self._finish(verb, requests)

    def _finish(self, verb: str, requests: NDArray[np.void]) -> None:
        import numpy as np

        try:
            done = self._runtime.submit_all(requests)
        except StorageError as error:
            raise StoreDeviceError(f"{verb} blocks of {self.uri}", str(error), "Open the store anew.") from error
        bad = np.flatnonzero(done["status"] != Status.OK)
        if len(bad):
            row = done[bad[0]]
            raise StoreDeviceError(
                f"{verb} blocks of {self.uri}",
                f"{len(bad)} of {len(done)} requests failed; the first: {Status(int(row['status'])).name}, "
                f"{Reason(int(row['reason'])).name}, status {int(row['sct']):X}h/{int(row['sc']):02X}h",
                "Recover the runtime, or open the target again; then open the store anew.",
            )


def _unless_stopped(runtime: StorageRuntime, give_back: Callable[[], None]) -> None:
    if runtime.state is not RuntimeState.STOPPED:  # which gave everything back
        give_back()


@contextmanager
def open_storage_device(
    runtime: StorageRuntime,
    uri: str,
    *,
    arena_bytes: int,
    staging_bytes: int = 1 << 20,
    locked: Sequence[Path] = (),
) -> Iterator[StorageDevice]:
    """A store's device over a target that is opened for it; target, memory and locks are given back after the block.

    The store's lock is held on each file of a ``file://`` or ``striped:///`` target. A range of a drive has no file of
    its own: two stores on one range are for the caller to prevent, such as by a file that both name in ``locked``.

    Args:
        runtime: outlives the block.
        uri: of the target.
        arena_bytes: of the arena.
        staging_bytes: for data that lie elsewhere.
        locked: further files on which the store's lock is held.

    Raises:
        StoreAbsent, StoreLocked: as `lock`.
        StorageError: the target cannot be opened, or there is no memory.
        StoreOptionInvalid: as `StorageDevice`.
    """
    from tutti_hal.storage.uri import parse

    parsed = parse(uri)
    files = [Path(member) for member in parsed.members] if parsed.of_files else []
    with ExitStack() as stack:
        for path in [*files, *locked]:
            stack.callback(os.close, lock(path, shared=not parsed.writable))
        target = runtime.open(uri)
        stack.callback(_unless_stopped, runtime, lambda: runtime.close(target))
        memory = runtime.allocate(arena_bytes + staging_bytes)
        stack.callback(_unless_stopped, runtime, lambda: runtime.unregister(memory))
        yield StorageDevice(runtime, target, memory, staging_bytes=staging_bytes)

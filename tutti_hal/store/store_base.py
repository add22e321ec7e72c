"""A store that was opened: what it holds, its objects' bytes, its checkpoints and its end. `Store` changes it."""

from __future__ import annotations

import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Self

from tutti_hal.errors import ObjectAbsent, ObjectDamaged, StoreClosed, StoreDeviceError, StoreOptionInvalid
from tutti_hal.store import format as fmt
from tutti_hal.store.checkpoint import write_checkpoint
from tutti_hal.store.checksum import crc32c
from tutti_hal.store.device import BlockDevice, Piece
from tutti_hal.store.eviction import Lru, Policy, SegmentedLru
from tutti_hal.store.index import Index
from tutti_hal.store.keys import Key, all_to_bytes, printable, to_bytes
from tutti_hal.store.log import Log
from tutti_hal.store.options import StoreOptions, StoreStatus
from tutti_hal.store.records import EntryRow, Op
from tutti_hal.store.recovery import Recovered, recover
from tutti_hal.store.space import Space

if TYPE_CHECKING:
    from types import TracebackType

    import numpy as np
    from numpy.typing import NDArray


class StoreBase:
    """A store without what changes it: see `Store`."""

    def __init__(self, device: BlockDevice, options: StoreOptions, state: Recovered) -> None:
        """Use `open`."""
        self.device, self.options, self.superblock = device, options, state.superblock
        self._lock = threading.RLock()
        self._recovered = state
        self._index = Index(_policy(options.eviction), state.entries.values())
        self._log = self._make_log(state)
        self._space = self._make_space()
        self._checkpoint = state.checkpoint
        self._since_checkpoint = 0
        self._failed = ""

    def _make_log(self, state: Recovered) -> Log:
        return Log(self.device, state.superblock, state.segments, state.next_transaction, state.next_segment)

    def _make_space(self) -> Space:
        return Space(self._log, self._index, self.options.quota_bytes, self.options.eviction != "none")

    # ---- opening ----

    @classmethod
    def open(cls, device: BlockDevice, options: StoreOptions | None = None) -> Self:
        """Finds the store on a device. Blocks for the recovery, which costs what was logged since the last checkpoint.

        Raises:
            StoreAbsent: there is none.
            StoreVersionUnknown: it has another version of the format.
            StoreDamaged: its structures are broken as no loss of power breaks them.
            StoreOptionInvalid: an option, or a device with other blocks.
            StoreDeviceError: the device failed.
        """
        options = options or StoreOptions()
        if options.quota_bytes < 0 or options.checkpoint_every < 0:
            raise StoreOptionInvalid("open the store", f"a number is below 0: {options}", "Give 0 or more.")
        _policy(options.eviction)
        if not options.read_only:
            # A process that died may have left writes in the drive's cache: what is seen now must stay.
            device.flush()
        return cls(device, options, recover(device, options.way))

    # ---- getting ----

    def get(self, key: Key) -> bytes:
        """The bytes of an object, verified.

        Raises:
            ObjectAbsent: there is none; says when it was deleted or evicted, as long as that is remembered.
            ObjectDamaged: its bytes are not those that were committed.
            KeyInvalid, StoreClosed, StoreDeviceError: see `put_many`.
        """
        (found,) = self.get_many([key])
        if found is None:
            raise self._absent(to_bytes(key, self.superblock.key_limit))
        return found.tobytes()

    def get_many(self, keys: Sequence[Key], *, verify: bool = True) -> list[NDArray[np.uint8] | None]:
        """The bytes of objects, all in one batch of the device; None for keys without one.

        Args:
            keys: whose; they must differ.
            verify: whether payloads are summed and compared with what was committed.

        Raises:
            ObjectDamaged, KeyInvalid, StoreClosed, StoreDeviceError: as `get`.
        """
        import numpy as np

        raw = all_to_bytes(keys, self.superblock.key_limit)
        size = self.superblock.block_bytes
        with self._working("get objects"):
            entries = [self._index.object(key) for key in raw]
            pieces: list[Piece] = []
            found: list[NDArray[np.uint8] | None] = []
            for entry in entries:
                if entry is None:
                    found.append(None)
                    continue
                data = np.empty(fmt.payload_blocks(entry.payload_bytes, size) * size, np.uint8)
                pieces += self._log.payload_pieces(entry, data)
                found.append(data[: entry.payload_bytes])
                self._index.policy.use(entry.key)
            if pieces:
                self.device.read(pieces)
        if verify:
            for entry, payload in zip(entries, found, strict=True):
                if entry is not None and payload is not None:
                    _verify(entry, payload)
        return found

    def get_into(self, keys: Sequence[Key], targets: Sequence[NDArray[np.uint8]], *, verify: bool = True) -> None:
        """Reads objects into memory of the caller's, all in one batch.

        Whole blocks of the device's arena move without a copy.

        Args:
            keys: whose; they must differ, and each must have an object.
            targets: one for each, as long as its object and a whole number of blocks.
            verify: as `get_many`.

        Raises:
            ObjectAbsent: a key has none; nothing was read.
            StoreOptionInvalid: a target has another length.
            ObjectDamaged, KeyInvalid, StoreClosed, StoreDeviceError: as `get`.
        """
        raw = all_to_bytes(keys, self.superblock.key_limit)
        with self._working("get objects"):
            entries = []
            pieces: list[Piece] = []
            for key, target in zip(raw, targets, strict=True):
                entry = self._index.object(key)
                if entry is None:
                    raise self._absent(key)
                if target.nbytes != entry.payload_bytes or target.nbytes % self.superblock.block_bytes:
                    raise StoreOptionInvalid(
                        f"read {printable(key)} into {target.nbytes} bytes",
                        f"it has {entry.payload_bytes}, and blocks have {self.superblock.block_bytes}",
                        "Give a target of its length, of whole blocks; else use get_many.",
                    )
                entries.append(entry)
                pieces += self._log.payload_pieces(entry, target)
            for entry in entries:
                self._index.policy.use(entry.key)
            if pieces:
                self.device.read(pieces)
        if verify:
            for entry, target in zip(entries, targets, strict=True):
                _verify(entry, target)

    def _absent(self, key: bytes) -> ObjectAbsent:
        entry = self._index.entries.get(key)
        found = "it has none"
        if entry is not None and entry.op is not Op.PUT:
            reason = f" ({entry.reason.name.lower()})" if entry.op is Op.EVICT else ""
            found = f"it was {'evicted' if entry.op is Op.EVICT else 'deleted'}{reason} at version {entry.version}"
        return ObjectAbsent(f"get the object of {printable(key)}", found, "Put it first.")

    # ---- asking ----

    def __contains__(self, key: Key) -> bool:
        raw = to_bytes(key, self.superblock.key_limit)
        with self._working("look for an object"):
            return self._index.object(raw) is not None

    def __len__(self) -> int:
        return self._index.objects

    def entry(self, key: Key) -> EntryRow | None:
        """The newest record of a key, a deletion or eviction too while it is remembered; None where there is none."""
        raw = to_bytes(key, self.superblock.key_limit)
        with self._working("look for an object"):
            return self._index.entries.get(raw)

    def entries(self) -> list[EntryRow]:
        """Every object's record, by key."""
        with self._working("list objects"):
            return sorted((e for e in self._index.entries.values() if e.op is Op.PUT), key=lambda e: e.key)

    def prefix(self, keys: Sequence[Key]) -> int:
        """How many of the first keys have objects, up to the first one that has none."""
        raw = [to_bytes(key, self.superblock.key_limit) for key in keys]
        with self._working("look for objects"):
            for count, key in enumerate(raw):
                if self._index.object(key) is None:
                    return count
        return len(raw)

    @property
    def status(self) -> StoreStatus:
        """What the store holds and has done."""
        with self._working("look at the store"):
            used = [s for s in self._log.segments if s.in_use]
            live = sum(s.live_blocks for s in used)
            return StoreStatus(
                superblock=self.superblock,
                objects=self._index.objects,
                object_bytes=self._index.object_bytes,
                remembered=len(self._index.entries) - self._index.objects,
                quota_bytes=self.options.quota_bytes,
                free_segments=len(self._log.free_segments()),
                live_blocks=live,
                dead_blocks=sum(s.end - 1 for s in used) - live,
                next_transaction=self._log.next_transaction,
                checkpoint=self._checkpoint,
                recovered_by=self._recovered.way,
                scanned_records=self._recovered.scanned,
                notes=tuple(self._recovered.notes),
                space=self._space.counters,
            )

    # ---- upkeep ----

    def checkpoint(self) -> int:
        """Writes a checkpoint, so that the next recovery reads only what is logged after it. Returns its number."""
        with self._working("write a checkpoint", write=True):
            self._checkpoint += 1
            write_checkpoint(
                self.device,
                self.superblock,
                self._checkpoint,
                self._log.segments,
                list(self._index.entries.values()),
                next_transaction=self._log.next_transaction,
                next_segment=self._log.next_segment,
            )
            self._since_checkpoint = 0
            return self._checkpoint

    @contextmanager
    def _working(self, tried: str, *, write: bool = False) -> Iterator[None]:
        """Holds the store for one call. An error of the device in a call that writes leaves it failed."""
        with self._lock:
            if self._failed:
                raise StoreClosed(tried, self._failed, "Open the store anew.")
            if write and self.options.read_only:
                raise StoreClosed(tried, "it was opened read-only", "Open it for writing.")
            try:
                yield
            except StoreDeviceError as error:
                if write:
                    self._failed = f"its device failed: {error.found}"
                raise

    def close(self) -> None:
        """Writes a checkpoint if something was logged since the last one, and closes the device. Idempotent."""
        with self._lock:
            if self._failed == "it is closed":
                return
            try:
                if self._since_checkpoint and not self._failed and not self.options.read_only:
                    self.checkpoint()
            finally:
                self._failed = "it is closed"
                self.device.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


def _policy(name: str) -> Policy:
    if name == "segmented":
        return SegmentedLru()
    if name in ("none", "lru"):
        return Lru()
    raise StoreOptionInvalid("choose a policy of eviction", f"there is no {name!r}", "Use none, lru or segmented.")


def _verify(entry: EntryRow, payload: NDArray[np.uint8]) -> None:
    found = crc32c(payload)
    if found != entry.payload_crc:
        raise ObjectDamaged(
            f"get the object of {printable(entry.key)}",
            f"CRC-32C {found:08X} and not {entry.payload_crc:08X}; segment {entry.segment}, block {entry.block}",
            "Delete it and put it again; `tutti-hal store fsck` finds others.",
        )

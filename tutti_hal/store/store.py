"""The object store: keys and bytes on blocks, with one rule.

Before a commit: the previous version, or absence if there was none. After an acknowledged commit: exactly the new
bytes. In between: either. An acknowledged object vanishes only by a logged eviction or deletion.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Self

from tutti_hal.errors import (
    ObjectAbsent,
    ObjectDamaged,
    ObjectPinned,
    ObjectTooLarge,
    StoreClosed,
    StoreDeviceError,
    StoreFull,
    StoreOptionInvalid,
)
from tutti_hal.store import format as fmt
from tutti_hal.store.checkpoint import write_checkpoint
from tutti_hal.store.checksum import crc32c
from tutti_hal.store.device import BlockDevice, Piece
from tutti_hal.store.eviction import Lru, Policy, SegmentedLru
from tutti_hal.store.format import EntryRow, Op, Reason, SegmentHeader, Superblock
from tutti_hal.store.index import Index
from tutti_hal.store.keys import Key, all_to_bytes, printable, to_bytes
from tutti_hal.store.log import Log, Record
from tutti_hal.store.recovery import Recovered, Way, recover
from tutti_hal.store.space import Reserve, Space, SpaceCounters

if TYPE_CHECKING:
    from types import TracebackType

    import numpy as np
    from numpy.typing import NDArray


@dataclass(frozen=True)
class FormatOptions:
    """How a store is laid out on its device.

    Attributes:
        segment_bytes: of a segment: the unit of compaction, and more than the largest object.
        objects: for how many objects a checkpoint has room, at keys of 64 bytes.
        key_limit: bytes of a key, at most.
    """

    segment_bytes: int = 64 << 20
    objects: int = 65536
    key_limit: int = 1024


@dataclass(frozen=True)
class StoreOptions:
    """How a store is run.

    Attributes:
        quota_bytes: of all objects together; 0 for none.
        eviction: ``none``, ``lru`` or ``segmented``: what goes when there is no room.
        checkpoint_every: transactions after which a checkpoint is written; 0: only when asked, and at `Store.close`.
        way: how the state is found.
        read_only: nothing is written, not even when recovering.
    """

    quota_bytes: int = 0
    eviction: str = "none"
    checkpoint_every: int = 1024
    way: Way = Way.CHECKPOINT
    read_only: bool = False


@dataclass(frozen=True)
class StoreStatus:
    """What a store holds now, and what it has done since it was opened."""

    superblock: Superblock
    objects: int
    object_bytes: int
    remembered: int
    quota_bytes: int
    free_segments: int
    live_blocks: int
    dead_blocks: int
    next_transaction: int
    checkpoint: int
    recovered_by: Way
    scanned_records: int
    notes: tuple[str, ...]
    space: SpaceCounters


class Store:
    """A store on a device. A context manager; thread safe, one caller at a time. Make it with `format` and `open`.

    The store owns the device from `open` on and closes it. After an error of the device the store refuses everything:
    what is durable is known again when it is opened anew.
    """

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

    # ---- making and opening ----

    @staticmethod
    def format(
        device: BlockDevice, options: FormatOptions | None = None, *, store_id: bytes | None = None
    ) -> Superblock:
        """Makes an empty store on a device; whatever was there is gone. Blocks; the device stays the caller's.

        Args:
            device: where.
            options: how it is laid out.
            store_id: 16 bytes; random when None.

        Raises:
            StoreOptionInvalid: the layout cannot be.
            StoreDeviceError: the device failed.
        """
        import numpy as np

        options = options or FormatOptions()
        superblock = fmt.plan(
            store_id or os.urandom(16),
            device.block_bytes,
            device.blocks,
            segment_blocks=options.segment_bytes // device.block_bytes,
            objects=options.objects,
            key_limit=options.key_limit,
        )
        # First the old superblocks go: a store that is half made is none.
        empty = np.zeros(device.block_bytes, np.uint8)
        device.write([Piece(lba, empty) for lba in superblock.copies])
        device.flush()
        headers = [fmt.seal_segment(superblock, SegmentHeader(0, n, False)) for n in range(superblock.segments)]
        device.write(
            [Piece(superblock.segment_lba(n), np.frombuffer(block, np.uint8)) for n, block in enumerate(headers)]
        )
        device.write([Piece(superblock.checkpoint_lba(slot), empty) for slot in range(2)])
        device.flush()
        write_checkpoint(device, superblock, 1, [], [], next_transaction=1, next_segment=1)
        block = np.frombuffer(fmt.seal_superblock(superblock), np.uint8)
        for lba in superblock.copies:
            device.write_durable(Piece(lba, block))
        return superblock

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

    # ---- putting ----

    def put(self, key: Key, data: Any) -> int:
        """Puts one object; durable when this returns. As `put_many`. Returns its version."""
        return self.put_many([(key, data)])[0]

    def put_many(self, items: Sequence[tuple[Key, Any]], *, checksums: Sequence[int] | None = None) -> list[int]:
        """Puts objects, each durable when this returns: one commit for as many as a segment has room for.

        Args:
            items: keys, and contiguous buffers of bytes (``bytes``, arrays). Memory of the device's arena is written
                from where it lies, without a copy.
            checksums: CRC-32C of each payload, where a kernel has summed them already. They are believed.

        Returns:
            The version of each object: a number that grows with every transaction.

        Raises:
            KeyInvalid: a key that cannot be, or stands there twice.
            ObjectTooLarge: an object does not fit a segment.
            StoreFull: no room, and eviction makes none. Nothing was put, unless the batch took several commits.
            StoreClosed, StoreDeviceError: see the class.
        """
        keys = all_to_bytes((key for key, _ in items), self.superblock.key_limit)
        payloads = [_bytes_of(data) for _, data in items]
        self._check_sizes(keys, payloads)
        sums = [crc32c(one) for one in payloads] if checksums is None else list(checksums)
        with self._working("put objects", write=True):
            self._check_rows(keys)
            old = [self._index.object(key) for key in keys]
            more = sum(p.nbytes for p in payloads) - sum(e.payload_bytes for e in old if e is not None)
            self._space.make_quota(more, frozenset(keys))
            records = [Record(Op.PUT, *row) for row in zip(keys, payloads, sums, strict=True)]
            entries: list[EntryRow] = []
            for batch in self._transactions(records):
                entries += self._space.append(batch, Reserve.PUT)
            self._after_transactions()
            return [entry.version for entry in entries]

    def _check_sizes(self, keys: Sequence[bytes], payloads: Sequence[NDArray[np.uint8]]) -> None:
        for key, payload in zip(keys, payloads, strict=True):
            blocks = self._log.record_blocks(len(key), payload.nbytes)
            if blocks > self._log.segment_room:
                raise ObjectTooLarge(
                    f"put {payload.nbytes} bytes as {printable(key)}",
                    f"that takes {blocks} blocks, and a segment has room for {self._log.segment_room}",
                    "Cut the object, or make the store with larger segments.",
                )

    def _check_rows(self, keys: Sequence[bytes]) -> None:
        """A checkpoint must have room for every key, those that are remembered as deleted among them."""
        superblock = self.superblock
        room = (superblock.checkpoint_blocks - 1) * superblock.block_bytes
        room -= superblock.segments * fmt.segment_row_bytes()
        new = sum(fmt.entry_row_bytes(len(key)) for key in keys if key not in self._index.entries)
        if self._index.row_bytes + new > room:
            raise StoreFull(
                f"put {len(keys)} objects",
                f"a checkpoint has room for {room} bytes of keys, and {self._index.row_bytes} are taken",
                "Make the store for more objects: FormatOptions.objects.",
            )

    def _transactions(self, records: Sequence[Record]) -> Iterator[list[Record]]:
        room = self._log.segment_room
        batch: list[Record] = []
        taken = 0
        for record in records:
            assert record.payload is not None
            blocks = self._log.record_blocks(len(record.key), record.payload.nbytes)
            if taken + blocks > room:
                yield batch
                batch, taken = [], 0
            batch.append(record)
            taken += blocks
        if batch:
            yield batch

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

    # ---- dropping ----

    def delete(self, keys: Sequence[Key]) -> int:
        """Deletes objects, durably, all or none unless they take several segments. Returns how many there were.

        Raises:
            ObjectPinned: one of them is pinned; nothing was deleted.
            KeyInvalid, StoreFull, StoreClosed, StoreDeviceError: see `put_many`.
        """
        return self._drop(keys, Op.DELETE, Reason.NONE)

    def evict(self, keys: Sequence[Key]) -> int:
        """Evicts objects by name; as `delete`, but the log says that it was an eviction."""
        return self._drop(keys, Op.EVICT, Reason.ASKED)

    def _drop(self, keys: Sequence[Key], op: Op, reason: Reason) -> int:
        raw = all_to_bytes(keys, self.superblock.key_limit)
        with self._working("delete objects", write=True):
            there = [key for key in raw if self._index.object(key) is not None]
            for key in there:
                if self._index.pins[key]:
                    raise ObjectPinned(f"drop {printable(key)}", "it is pinned", "Wait until its readers are done.")
            if there:
                self._space.drop(there, op, reason)
                self._after_transactions()
            return len(there)

    @contextmanager
    def pin(self, keys: Sequence[Key]) -> Iterator[None]:
        """Keeps objects from eviction and deletion within a block. They may be put anew. Pins end with the process.

        Raises:
            ObjectAbsent: a key has no object; nothing is pinned.
        """
        raw = all_to_bytes(keys, self.superblock.key_limit)
        with self._working("pin objects"):
            for key in raw:
                if self._index.object(key) is None:
                    raise self._absent(key)
            self._index.pins.update(raw)
        try:
            yield
        finally:
            with self._lock:
                self._index.pins.subtract(raw)
                for key in raw:
                    if not self._index.pins[key]:
                        del self._index.pins[key]

    # ---- upkeep ----

    def _after_transactions(self) -> None:
        self._since_checkpoint += 1
        if self.options.checkpoint_every and self._since_checkpoint >= self.options.checkpoint_every:
            self.checkpoint()

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

    def compact(self, segments: int = 1) -> int:
        """Empties up to so many segments that hold superseded records. Returns how many were emptied.

        Raises:
            StoreClosed, StoreDeviceError: see the class.
        """
        with self._working("compact the store", write=True):
            done = 0
            while done < segments and self._space.compact_one():
                done += 1
            return done

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


def _bytes_of(data: Any) -> NDArray[np.uint8]:
    import numpy as np

    try:
        view = memoryview(data)
        flat = view.cast("B") if view.nbytes else memoryview(b"")
    except TypeError as error:
        raise StoreOptionInvalid("put an object", str(error), "Give bytes or a contiguous array.") from error
    return np.frombuffer(flat, np.uint8)


def _verify(entry: EntryRow, payload: NDArray[np.uint8]) -> None:
    found = crc32c(payload)
    if found != entry.payload_crc:
        raise ObjectDamaged(
            f"get the object of {printable(entry.key)}",
            f"CRC-32C {found:08X} and not {entry.payload_crc:08X}; segment {entry.segment}, block {entry.block}",
            "Delete it and put it again; `tutti-hal store fsck` finds others.",
        )

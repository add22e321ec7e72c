"""The object store: keys and bytes on blocks, with one rule.

Before a commit: the previous version, or absence if there was none. After an acknowledged commit: exactly the new
bytes. In between: either. An acknowledged object vanishes only by a logged eviction or deletion.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from tutti_hal.errors import ObjectPinned, ObjectTooLarge, StoreFull, StoreOptionInvalid
from tutti_hal.store import format as fmt
from tutti_hal.store.checkpoint import write_checkpoint
from tutti_hal.store.checksum import crc32c
from tutti_hal.store.device import BlockDevice, Piece
from tutti_hal.store.keys import Key, all_to_bytes, printable
from tutti_hal.store.log import Record
from tutti_hal.store.options import FormatOptions
from tutti_hal.store.records import EntryRow, Op, Reason, SegmentHeader, Superblock
from tutti_hal.store.space import Reserve
from tutti_hal.store.store_base import StoreBase

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray


class Store(StoreBase):
    """A store on a device. A context manager; thread safe, one caller at a time. Make it with `format` and `open`.

    The store owns the device from `open` on and closes it. After an error of the device the store refuses everything:
    what is durable is known again when it is opened anew.
    """

    # ---- making ----

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


def _bytes_of(data: Any) -> NDArray[np.uint8]:
    import numpy as np

    try:
        view = memoryview(data)
        flat = view.cast("B") if view.nbytes else memoryview(b"")
    except TypeError as error:
        raise StoreOptionInvalid("put an object", str(error), "Give bytes or a contiguous array.") from error
    return np.frombuffer(flat, np.uint8)

"""Room: compaction gives back what superseded records hold, eviction what the policy gives up.

Reserves make sure that neither ever stops the other: puts leave two free segments; deletions and evictions one, unless
nothing can be compacted; and a compaction may take the last one, because it gives one back.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from enum import IntEnum
from typing import TYPE_CHECKING

from tutti_hal.errors import StoreFull
from tutti_hal.store.checksum import crc32c
from tutti_hal.store.index import Index
from tutti_hal.store.log import Log, Record, Segment, moved_record
from tutti_hal.store.records import EntryRow, Op, Reason

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray


class Reserve(IntEnum):
    """Free segments that a kind of record leaves alone."""

    PUT = 2
    DROP = 1
    MOVE = 0


@dataclass
class SpaceCounters:
    """What making room has done since the store was opened."""

    compactions: int = 0
    moved_records: int = 0
    moved_bytes: int = 0
    evictions: int = 0
    evicted_bytes: int = 0
    damaged_segments: int = 0


class Space:
    """Appends records where there is room, and makes room.

    Args:
        log, index: of the store.
        quota_bytes: of all objects together; 0 for none.
        evict: whether objects may go to make room for others.
    """

    def __init__(self, log: Log, index: Index, quota_bytes: int, evict: bool) -> None:
        self.log, self.index = log, index
        self.quota_bytes, self.evict = quota_bytes, evict
        self.counters = SpaceCounters()
        self._damaged: set[int] = set()

    # ---- appending ----

    def append(self, records: Sequence[Record], reserve: Reserve) -> list[EntryRow]:
        """One transaction, for which there is room by now; the index follows it when it is durable.

        Raises:
            StoreFull: there is no room.
        """
        blocks = sum(self._blocks(record) for record in records)
        self._ensure(blocks, reserve, {record.key for record in records})
        entries = self.log.append(records)
        for entry in entries:
            self._adopt(entry)
        return entries

    def _blocks(self, record: Record) -> int:
        return self.log.record_blocks(len(record.key), 0 if record.payload is None else record.payload.nbytes)

    def _adopt(self, entry: EntryRow) -> None:
        old = self.index.set(entry)
        if old is not None:
            self.log.segments[old.segment].live_blocks -= self.log.entry_blocks(old)
        self.log.segments[entry.segment].live_blocks += self.log.entry_blocks(entry)

    # ---- making room ----

    def _ensure(self, blocks: int, reserve: Reserve, keep: Collection[bytes]) -> None:
        while not self._has_room(blocks, reserve):
            if reserve is not Reserve.MOVE and self.compact_one(blocks):
                continue
            if reserve is Reserve.PUT and self._evict_segment(keep):
                continue
            if reserve is Reserve.DROP and self.log.free_segments():
                # The last one: what is dropped makes the segment that it lies in fit into what is left of this one.
                break
            raise StoreFull(
                f"write {blocks} blocks",
                f"{len(self.log.free_segments())} segments are free and {self._dead_blocks()} blocks superseded",
                "Delete or unpin objects, allow eviction, or use a larger device.",
            )
        if self.log.head_room < blocks:
            self.log.open_segment()

    def _has_room(self, blocks: int, reserve: Reserve) -> bool:
        return self.log.head_room >= blocks or len(self.log.free_segments()) > reserve

    def _dead_blocks(self) -> int:
        return sum(s.end - 1 - s.live_blocks for s in self.log.segments if s.in_use)

    # ---- compaction ----

    def compact_one(self, blocks: int = 2) -> bool:
        """Empties the segment with the least that is live, if that gives room back. Returns whether it did.

        Either a segment more is free then, or the head has room for so many blocks: so whoever waits for room and calls
        this again comes to an end.
        """
        head_room, free = self.log.head_room, self.log.free_segments()
        closed = [s for s in self.log.segments if s.in_use and s is not self.log.head and s.number not in self._damaged]
        for segment in sorted(closed, key=lambda one: (one.live_blocks, one.sequence)):
            fits = segment.live_blocks <= head_room or not segment.live_blocks
            # What is moved goes with a commit of its own, and perhaps with another one where the head has an end.
            gains = bool(free) and segment.live_blocks + 2 + blocks <= self.log.segment_room
            if not fits and not gains:
                return False
            if self._empty(segment):
                return True
        return False

    def _empty(self, segment: Segment) -> bool:
        """Moves what is live out of a segment, then frees it. False where an object in it is damaged: it stays."""
        entries = [one for one in self.index.entries.values() if one.segment == segment.number]
        self._forget_deletions(entries, segment)
        entries = [one for one in entries if one.key in self.index.entries]
        records = []
        for entry in sorted(entries, key=lambda one: one.block):
            payload = self._payload(entry)
            if entry.payload_bytes and (payload is None or crc32c(payload) != entry.payload_crc):
                # To copy it would be to vouch for bytes that nobody committed.
                self._damaged.add(segment.number)
                self.counters.damaged_segments += 1
                return False
            records.append(moved_record(entry, payload))
        for batch in self._batches(records):
            self.append(batch, Reserve.MOVE)
            self.counters.moved_records += len(batch)
            self.counters.moved_bytes += sum(0 if one.payload is None else one.payload.nbytes for one in batch)
        self.log.free(segment)
        self.counters.compactions += 1
        self.prune()
        return True

    def _payload(self, entry: EntryRow) -> NDArray[np.uint8] | None:
        import numpy as np

        if entry.op is not Op.PUT:
            return None
        size = self.log.superblock.block_bytes
        data = np.empty(-(-entry.payload_bytes // size) * size, np.uint8)
        self.log.device.read(self.log.payload_pieces(entry, data))
        return data[: entry.payload_bytes]

    def _batches(self, records: Sequence[Record]) -> list[list[Record]]:
        """Records in transactions: the first fills what the head has left, the others fit a segment."""
        batches: list[list[Record]] = []
        room = self.log.head_room
        for record in records:
            blocks = self._blocks(record)
            if blocks > room:
                room = self.log.segment_room
                batches.append([])
            elif not batches:
                batches.append([])
            batches[-1].append(record)
            room -= blocks
        return batches

    # ---- deletions that need no memory ----

    def _oldest(self, without: Segment | None = None) -> int:
        used = [s.sequence for s in self.log.segments if s.in_use and s is not without]
        return min(used, default=self.log.next_segment)

    def _forget_deletions(self, entries: Sequence[EntryRow], segment: Segment) -> None:
        """Of a segment that is about to be freed: deletions of objects that lie in no other segment any more."""
        oldest = self._oldest(without=segment)
        for entry in entries:
            if entry.op is not Op.PUT and entry.birth < oldest:
                self.log.segments[entry.segment].live_blocks -= self.log.entry_blocks(entry)
                self.index.forget(entry.key)

    def prune(self) -> None:
        """Forgets deletions and evictions that nothing in the log could contradict.

        An older record of the key can lie only in a segment that was opened no later than the one in which the deletion
        was first written. When all of those are free, durably, a scan finds none, whether it finds the deletion or not.
        """
        oldest = self._oldest()
        for entry in [one for one in self.index.entries.values() if one.op is not Op.PUT and one.birth < oldest]:
            self.log.segments[entry.segment].live_blocks -= self.log.entry_blocks(entry)
            self.index.forget(entry.key)

    # ---- eviction ----

    def make_quota(self, more_bytes: int, keep: Collection[bytes]) -> None:
        """Evicts until the quota has room for so many bytes more.

        Raises:
            StoreFull: what may be evicted is not enough, or nothing may; then nothing was evicted.
        """
        if not self.quota_bytes:
            return
        over = self.index.object_bytes + more_bytes - self.quota_bytes
        if over <= 0:
            return
        victims = self._victims(over, keep) if self.evict else None
        if victims is None:
            raise StoreFull(
                f"put {more_bytes} bytes more",
                f"the objects have {self.index.object_bytes} bytes and the quota is {self.quota_bytes}",
                "Delete or unpin objects, allow eviction, or raise the quota.",
            )
        self.drop(victims, Op.EVICT, Reason.QUOTA)

    def _evict_segment(self, keep: Collection[bytes]) -> bool:
        """Evicts all of the segment that has the object which would go first. False where nothing may go.

        A full device needs whole segments: objects from here and there would leave holes, which only copying fills.
        """
        if not self.evict:
            return False
        for first in self.index.policy.victims():
            place = self.index.entries[first].segment
            if first in keep or self.index.pins[first] or self.log.segments[place] is self.log.head:
                continue
            there = [one for one in self.index.entries.values() if one.segment == place and one.op is Op.PUT]
            victims = [one.key for one in there if one.key not in keep and not self.index.pins[one.key]]
            self.drop(victims, Op.EVICT, Reason.SPACE)
            return True
        return False

    def _victims(self, amount: int, keep: Collection[bytes]) -> list[bytes] | None:
        """The first objects of the policy that have so many bytes together; None where all have fewer."""
        chosen: list[bytes] = []
        for key in self.index.policy.victims():
            if amount <= 0:
                break
            if key in keep or self.index.pins[key]:
                continue
            amount -= self.index.entries[key].payload_bytes
            chosen.append(key)
        return None if amount > 0 else chosen

    def drop(self, keys: Sequence[bytes], op: Op, reason: Reason = Reason.NONE) -> None:
        """Logs that keys have no object any more, in as few transactions as segments have room for."""
        for batch in self._batches([Record(op, key, reason=reason) for key in keys]):
            sizes = [self.index.entries[record.key].payload_bytes for record in batch]
            self.append(batch, Reserve.DROP)
            if op is Op.EVICT:
                self.counters.evictions += len(batch)
                self.counters.evicted_bytes += sum(sizes)

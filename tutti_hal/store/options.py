"""How a store is made and run, and what it says of itself."""

from __future__ import annotations

from dataclasses import dataclass

from tutti_hal.store.records import Superblock
from tutti_hal.store.recovery import Way
from tutti_hal.store.space import SpaceCounters


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

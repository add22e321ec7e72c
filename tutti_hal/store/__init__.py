"""The object store: keys and bytes on a drive, durable by one commit, recovered by checkpoint or by scan.

``docs/store.md`` is the user's guide, ``docs/store_format.md`` what lies on the device.
"""

from tutti_hal.store.device import BlockDevice, MemoryDevice, Piece
from tutti_hal.store.file_device import FileDevice
from tutti_hal.store.options import FormatOptions, StoreOptions, StoreStatus
from tutti_hal.store.records import EntryRow, Op, Reason, Superblock
from tutti_hal.store.recovery import Way
from tutti_hal.store.store import Store

__all__ = [
    "BlockDevice",
    "EntryRow",
    "FileDevice",
    "FormatOptions",
    "MemoryDevice",
    "Op",
    "Piece",
    "Reason",
    "Store",
    "StoreOptions",
    "StoreStatus",
    "Superblock",
    "Way",
]

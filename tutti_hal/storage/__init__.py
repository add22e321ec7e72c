"""The storage layer: targets by URI, registered memory, batches of requests, on one ring over any number of drives."""

from tutti_hal.io_uring.layout import Access
from tutti_hal.io_uring.options import RingOptions
from tutti_hal.io_uring.recovery import RecoveryLimits
from tutti_hal.storage.drives import BlockSource, SoftwareDrive, StorageDrive, open_software_drives
from tutti_hal.storage.memory import Memory
from tutti_hal.storage.options import RuntimeOptions
from tutti_hal.storage.outcomes import IoState, OpenOutcome, RuntimeState, Submission
from tutti_hal.storage.prepare import prepare_file
from tutti_hal.storage.records import (
    NO_DRIVE,
    Flags,
    Operation,
    initial_dtype,
    make_requests,
    request_dtype,
    result_dtype,
)
from tutti_hal.storage.runtime import StorageRuntime
from tutti_hal.storage.status import EXPLAINED, Explanation, Reason, Status
from tutti_hal.storage.targets import TargetInfo
from tutti_hal.storage.uri import path_uri

__all__ = [
    "EXPLAINED",
    "NO_DRIVE",
    "Access",
    "BlockSource",
    "Explanation",
    "Flags",
    "IoState",
    "Memory",
    "OpenOutcome",
    "Operation",
    "Reason",
    "RecoveryLimits",
    "RingOptions",
    "RuntimeOptions",
    "RuntimeState",
    "SoftwareDrive",
    "Status",
    "StorageDrive",
    "StorageRuntime",
    "Submission",
    "TargetInfo",
    "initial_dtype",
    "make_requests",
    "open_software_drives",
    "path_uri",
    "prepare_file",
    "request_dtype",
    "result_dtype",
]

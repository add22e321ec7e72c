"""The storage layer: handles, requests, memory, and what a URI leads to."""

from __future__ import annotations

from typing import ClassVar

from tutti_hal.errors.base import TuttiError


class StorageError(TuttiError):
    """The storage runtime refuses what was asked of it.

    Attributes:
        status: name of the `tutti_hal.storage.Status` that stands for it, where a number must do.
    """

    id = "TT-STORAGE"
    status: ClassVar[str] = "INVALID_ARGUMENT"


class HandleInvalid(StorageError):
    """A handle of another runtime, of another kind, or of something that was closed."""

    id = "TT-STORAGE-HANDLE"
    status = "NOT_FOUND"


class StorageStopped(StorageError):
    """The runtime drains or has stopped, and takes nothing new."""

    id = "TT-STORAGE-STOPPED"
    status = "NOT_READY"


class StorageBusy(StorageError):
    """Requests in flight use it, or a drive may still move its data."""

    id = "TT-STORAGE-BUSY"
    status = "BUSY"


class StorageTimeout(StorageError):
    """It did not end within the time that the caller gave; it goes on."""

    id = "TT-STORAGE-TIMEOUT"
    status = "TIMEOUT"


class StorageExhausted(StorageError):
    """A table of the runtime is full."""

    id = "TT-STORAGE-EXHAUSTED"
    status = "RESOURCE_EXHAUSTED"


class RequestsInvalid(StorageError):
    """Requests that are no array of the request record, or columns that cannot become one."""

    id = "TT-STORAGE-REQUESTS"


class RequestsFailed(StorageError):
    """Requests of a batch did not end well, and the caller asked for all or an error."""

    id = "TT-STORAGE-FAILED"
    status = "DEVICE_ERROR"


class MemoryRefused(StorageError):
    """Memory that cannot be registered: of another device, closed, registered already, or not in whole pages."""

    id = "TT-STORAGE-MEMORY"


class ArgumentInvalid(StorageError):
    """A caller in another language passed no pointer, a wrong size of a record, or a number without a meaning."""

    id = "TT-STORAGE-ARGUMENT"


class CApiUnbuildable(StorageError):
    """The C library of the storage runtime cannot be built for this Python."""

    id = "TT-STORAGE-C-API"
    status = "UNSUPPORTED"


class DrivesInvalid(StorageError):
    """Drives that cannot be used together, or none."""

    id = "TT-STORAGE-DRIVES"


class UriInvalid(StorageError):
    """A URI of an unknown scheme, or one whose parts are wrong."""

    id = "TT-STORAGE-URI"


class TargetError(StorageError):
    """What a URI leads to cannot be used."""

    id = "TT-STORAGE-TARGET"
    status = "UNSUPPORTED"


class TargetMissing(TargetError):
    """There is no such file, drive or namespace."""

    id = "TT-STORAGE-MISSING"
    status = "NOT_FOUND"


class TargetDenied(TargetError):
    """The system does not let this process open it so."""

    id = "TT-STORAGE-DENIED"
    status = "PERMISSION_DENIED"


class TargetKindWrong(TargetError):
    """A directory, a pipe or another thing that has no blocks of its own."""

    id = "TT-STORAGE-KIND"


class TargetSizeWrong(TargetError):
    """An empty file, one whose end is inside a block, or a range beyond the end."""

    id = "TT-STORAGE-SIZE"
    status = "OUT_OF_RANGE"


class FilesystemRefused(TargetError):
    """On this file system a file's offsets are no offsets of a drive."""

    id = "TT-STORAGE-FILESYSTEM"


class ExtentRefused(TargetError):
    """A piece of the file has no place on the drive that may be read and written past the file system."""

    id = "TT-STORAGE-EXTENT"


class NotDirect(TargetError):
    """The file cannot be opened past the page cache."""

    id = "TT-STORAGE-DIRECT"


class DeviceStackRefused(TargetError):
    """Between the file system and the drives there is a device that does more than to shift offsets."""

    id = "TT-STORAGE-STACK"


class DeviceUnserved(TargetError):
    """None of the runtime's drives serves the block device on which the file lies."""

    id = "TT-STORAGE-UNSERVED"
    status = "NOT_FOUND"


class TargetMoved(TargetError):
    """The file is no longer where it was when it was opened."""

    id = "TT-STORAGE-MOVED"
    status = "STALE"


class StripeInvalid(TargetError):
    """Members, unit or rotation of a striped set do not go together."""

    id = "TT-STORAGE-STRIPE"
    status = "INVALID_ARGUMENT"

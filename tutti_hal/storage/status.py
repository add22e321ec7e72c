"""How a request stands: one number that says what to do about it, and one that says why."""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum


class Status(IntEnum):
    """How a request, or an item of a batch, stands. The values are part of the ABI; zeroed memory says NOT_RUN."""

    #: Nothing happened to it.
    NOT_RUN = 0
    OK = 1
    #: Accepted; its end is not known yet.
    PENDING = 2
    INVALID_ARGUMENT = 3
    OUT_OF_RANGE = 4
    #: No such thing, or not any more.
    NOT_FOUND = 5
    PERMISSION_DENIED = 6
    UNSUPPORTED = 7
    #: The runtime or the drive takes nothing now.
    NOT_READY = 8
    BUSY = 9
    #: There is no room at this moment: submit it again when something else has ended.
    RESOURCE_EXHAUSTED = 10
    #: The file moved: open it again.
    STALE = 11
    #: No answer in time. The drive may still move the data until `StorageRuntime.recover`.
    TIMEOUT = 12
    CANCELLED = 13
    DEVICE_ERROR = 14
    #: The drive says that the data are lost or wrong.
    DATA_LOSS = 15
    INTERNAL = 16


class Reason(IntEnum):
    """Why a request stands as it does; `EXPLAINED` has words and status of each."""

    NONE = 0
    # Refused by submit: it never ran.
    OPERATION_UNKNOWN = 1
    FLAGS_UNKNOWN = 2
    QUEUE_CLASS_ABSENT = 3
    MEMORY_HANDLE = 4
    TARGET_HANDLE = 5
    LENGTH_ZERO = 6
    LENGTH_UNALIGNED = 7
    TARGET_UNALIGNED = 8
    MEMORY_UNALIGNED = 9
    TARGET_BOUNDS = 10
    MEMORY_BOUNDS = 11
    MEMORY_ACCESS = 12
    MEMORY_CLOSED = 13
    TARGET_READ_ONLY = 14
    TARGET_MOVED = 15
    COMMANDS_TOO_MANY = 16
    # Refused by submit for the moment.
    BATCH_FULL = 32
    BATCHES_TAKEN = 33
    RESULTS_HELD = 34
    # Accepted, and ended so.
    DRIVE_STATUS = 64
    MEDIA_ERROR = 65
    DRIVE_FAILED = 66
    DRIVE_GONE = 67
    NO_ANSWER = 68
    STARVED = 69
    STOPPED = 70
    LAUNCH_FAILED = 71
    REFUSED_BY_DEVICE = 72


@dataclass(frozen=True)
class Explanation:
    """What a reason means.

    Attributes:
        status: the status that goes with it.
        ran: whether the drive may have seen any of it.
        again: whether the same request may succeed later without anybody's help.
        text: one sentence.
    """

    status: Status
    ran: bool
    again: bool
    text: str


def _refused(status: Status, text: str) -> Explanation:
    return Explanation(status, ran=False, again=False, text=text)


def _later(text: str) -> Explanation:
    return Explanation(Status.RESOURCE_EXHAUSTED, ran=False, again=True, text=text)


EXPLAINED: dict[Reason, Explanation] = {
    Reason.NONE: Explanation(Status.OK, ran=True, again=False, text="It ended well."),
    Reason.OPERATION_UNKNOWN: _refused(Status.INVALID_ARGUMENT, "The operation has no meaning."),
    Reason.FLAGS_UNKNOWN: _refused(Status.INVALID_ARGUMENT, "A flag has no meaning, or none for this operation."),
    Reason.QUEUE_CLASS_ABSENT: _refused(Status.INVALID_ARGUMENT, "The runtime has no queues of this class."),
    Reason.MEMORY_HANDLE: _refused(Status.NOT_FOUND, "The memory handle is not of this runtime, or no longer."),
    Reason.TARGET_HANDLE: _refused(Status.NOT_FOUND, "The target handle is not of this runtime, or no longer."),
    Reason.LENGTH_ZERO: _refused(Status.INVALID_ARGUMENT, "It has no length."),
    Reason.LENGTH_UNALIGNED: _refused(Status.INVALID_ARGUMENT, "The length is no multiple of the target's block."),
    Reason.TARGET_UNALIGNED: _refused(Status.INVALID_ARGUMENT, "The target offset is no multiple of its block."),
    Reason.MEMORY_UNALIGNED: _refused(Status.INVALID_ARGUMENT, "The memory offset is no multiple of 4 bytes."),
    Reason.TARGET_BOUNDS: _refused(Status.OUT_OF_RANGE, "It reaches past the end of the target."),
    Reason.MEMORY_BOUNDS: _refused(Status.OUT_OF_RANGE, "It reaches past the end of the memory."),
    Reason.MEMORY_ACCESS: _refused(Status.PERMISSION_DENIED, "The memory is not registered for this direction."),
    Reason.MEMORY_CLOSED: _refused(Status.NOT_FOUND, "The memory was closed while it was registered."),
    Reason.TARGET_READ_ONLY: _refused(Status.PERMISSION_DENIED, "The target was opened for reading."),
    Reason.TARGET_MOVED: _refused(Status.STALE, "The file is no longer where it was: open it again."),
    Reason.COMMANDS_TOO_MANY: _refused(Status.OUT_OF_RANGE, "It needs more commands than any batch holds."),
    Reason.BATCH_FULL: _later("The batch is full: submit it again."),
    Reason.BATCHES_TAKEN: _later("All batches are in flight: wait for one, then submit it again."),
    Reason.RESULTS_HELD: _later("Too many results are not released: release some, then submit it again."),
    Reason.DRIVE_STATUS: Explanation(Status.DEVICE_ERROR, True, False, "The drive ended it with an error (sct, sc)."),
    Reason.MEDIA_ERROR: Explanation(Status.DATA_LOSS, True, False, "The drive says that data are lost (sct, sc)."),
    Reason.DRIVE_FAILED: Explanation(
        Status.NOT_READY, False, False, "The drive's queue had failed before: recover, then submit it again."
    ),
    Reason.DRIVE_GONE: Explanation(Status.DEVICE_ERROR, True, False, "The drive is gone: its registers read all ones."),
    Reason.NO_ANSWER: Explanation(Status.TIMEOUT, True, False, "No answer in time; recover before the memory goes."),
    Reason.STARVED: Explanation(
        Status.RESOURCE_EXHAUSTED, False, True, "It got no place on its queue in time: submit it again."
    ),
    Reason.STOPPED: Explanation(Status.CANCELLED, True, False, "It was cancelled; it may have been carried out."),
    Reason.LAUNCH_FAILED: Explanation(Status.INTERNAL, False, False, "The kernel was not launched or did not end."),
    Reason.REFUSED_BY_DEVICE: Explanation(
        Status.INTERNAL, False, False, "The device found a request that does not fit its tables."
    ),
}

"""Batches in flight: what was handed to the ring, and how its requests ended."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING

from tutti_hal.io_uring.layout import State, Why
from tutti_hal.storage.records import NO_DRIVE, result_dtype
from tutti_hal.storage.status import EXPLAINED, Reason, Status

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from tutti_hal.io_uring import Iocb
    from tutti_hal.shim import Stream

#: Statuses (SCT 2) by which a drive says that data are lost or wrong: write fault, unrecovered read error, end-to-end
#: guard, application and reference tag checks.
_MEDIA = (0x80, 0x81, 0x82, 0x83, 0x84)

#: From what is worst for a request of several pieces: first where data may still move.
_WORST_FIRST = (
    Reason.NO_ANSWER,
    Reason.DRIVE_GONE,
    Reason.STOPPED,
    Reason.LAUNCH_FAILED,
    Reason.REFUSED_BY_DEVICE,
    Reason.MEDIA_ERROR,
    Reason.DRIVE_STATUS,
    Reason.DRIVE_FAILED,
    Reason.STARVED,
    Reason.NONE,
)


@dataclass
class InFlight:
    """A batch that the ring has.

    Attributes:
        iocb: its control block.
        stream: where it was issued.
        owner, nbytes, drive: of each of the ring's requests: the caller's request, bytes, drive.
        memory, targets: distinct slots that it uses.
        torn: issuing it was interrupted, so that its event may not be recorded: the stream tells its end.
    """

    iocb: Iocb
    stream: Stream
    owner: NDArray[np.int64]
    nbytes: NDArray[np.uint64]
    drive: NDArray[np.uint32]
    memory: NDArray[np.int64]
    targets: NDArray[np.int64]
    torn: bool = False


@dataclass
class Operation:
    """One submit with accepted requests, until its results are released.

    Attributes:
        initial: how each request stood after submit.
        tags: of the requests.
        results: None until it has ended.
    """

    initial: NDArray[np.void]
    tags: NDArray[np.uint32]
    results: NDArray[np.void] | None = None


@cache
def statuses() -> NDArray[np.uint8]:
    """The status of each reason, by number."""
    import numpy as np

    table = np.full(256, Status.INTERNAL, np.uint8)
    for reason, explained in EXPLAINED.items():
        table[reason] = explained.status
    table.flags.writeable = False
    return table


@cache
def _severity() -> NDArray[np.uint8]:
    import numpy as np

    table = np.zeros(256, np.uint8)
    for rank, reason in enumerate(reversed(_WORST_FIRST)):
        table[reason] = rank
    table.flags.writeable = False
    return table


def reasons_of(completions: NDArray[np.void]) -> NDArray[np.uint8]:
    """A `Reason` for each of the ring's completions."""
    import numpy as np

    by_state = np.full(256, Reason.REFUSED_BY_DEVICE, np.uint8)
    by_state[State.IN_FLIGHT] = by_state[State.TIMED_OUT] = Reason.NO_ANSWER
    by_state[State.GONE] = Reason.DRIVE_GONE
    by_state[State.STOPPED] = Reason.STOPPED
    reasons: NDArray[np.uint8] = by_state[completions["state"]]
    ended = completions["state"] == State.COMPLETED
    failed = (completions["sct"] != 0) | (completions["sc"] != 0)
    media = (completions["sct"] == 2) & np.isin(completions["sc"], _MEDIA)
    reasons[ended] = np.where(failed, np.where(media, Reason.MEDIA_ERROR, Reason.DRIVE_STATUS), Reason.NONE)[ended]
    not_run = completions["state"] == State.NOT_RUN
    for why, reason in (
        (Why.UNREACHED, Reason.LAUNCH_FAILED),
        (Why.QUEUE_FAILED, Reason.DRIVE_FAILED),
        (Why.STOPPED, Reason.STOPPED),
        (Why.STARVED, Reason.STARVED),
    ):
        reasons[not_run & (completions["why"] == why)] = reason
    return reasons


def results_of(operation: Operation, flight: InFlight, completions: NDArray[np.void]) -> NDArray[np.void]:
    """A result for each request of a submit: the refused keep their reason, others have their worst piece's.

    Args:
        operation: the submit.
        flight: what the ring had of it.
        completions: the ring's, one for each of its requests.
    """
    import numpy as np

    results = np.zeros(len(operation.initial), result_dtype())
    results["tag"] = operation.tags
    results["status"] = operation.initial["status"]
    results["reason"] = operation.initial["reason"]
    results["drive"] = NO_DRIVE
    reasons = reasons_of(completions)
    # Last wins below: the worst piece of each request, and of equals the first.
    order = np.lexsort((-np.arange(len(reasons)), _severity()[reasons]))
    worst = np.full(len(results), -1, np.int64)
    worst[flight.owner[order]] = order
    ran = np.flatnonzero(worst >= 0)
    piece = worst[ran]
    results["reason"][ran] = reasons[piece]
    results["status"][ran] = statuses()[reasons[piece]]
    for name in ("sct", "sc", "dnr"):
        results[name][ran] = completions[name][piece]
    results["drive"][ran] = np.where(reasons[piece] == 0, NO_DRIVE, flight.drive[piece])
    np.add.at(results["commands"], flight.owner, completions["commands"])
    np.add.at(results["done_bytes"], flight.owner, np.where(reasons == 0, flight.nbytes, 0).astype(np.uint64))
    first = np.full(len(results), np.iinfo(np.uint64).max, np.uint64)
    # What was never given to a drive has no times.
    timed = completions["submitted_ns"] > 0
    np.minimum.at(first, flight.owner[timed], completions["submitted_ns"][timed])
    results["submitted_ns"] = np.where(first == np.iinfo(np.uint64).max, 0, first)
    np.maximum.at(results["completed_ns"], flight.owner, completions["completed_ns"])
    results.flags.writeable = False
    return results

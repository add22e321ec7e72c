"""The records in which requests go in and results come out: NumPy structured arrays of fixed layout."""

from __future__ import annotations

import operator
from enum import IntEnum, IntFlag
from typing import TYPE_CHECKING, Any

from tutti_hal.errors import RequestsInvalid

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import ArrayLike, NDArray

#: ``drive`` of a result that no drive failed.
NO_DRIVE = 0xFFFF_FFFF


class Operation(IntEnum):
    """What a request does. Zeroed memory is no operation."""

    READ = 1
    WRITE = 2
    #: Makes durable what completed on the target's drives before it was submitted. No memory, no offsets, no length.
    FLUSH = 3


class Flags(IntFlag):
    """What a request may ask for besides."""

    #: The write is durable when it completes (force unit access).
    DURABLE = 1


def request_dtype() -> np.dtype[Any]:
    """The record of one request, 48 bytes.

    Fields: ``operation`` an `Operation`; ``flags`` `Flags`; ``queue_class`` 0 for the runtime's default of the
    direction, else the number of a class of the ring, counted from 1; ``tag`` the caller's own number, which comes
    back in the result; ``nbytes`` how much; ``memory`` and ``target`` handles; ``memory_offset`` and
    ``target_offset`` where, in bytes.
    """
    import numpy as np

    return np.dtype(
        [
            ("operation", "u1"),
            ("flags", "u1"),
            ("queue_class", "u1"),
            ("reserved", "u1"),
            ("tag", "<u4"),
            ("nbytes", "<u8"),
            ("memory", "<u8"),
            ("memory_offset", "<u8"),
            ("target", "<u8"),
            ("target_offset", "<u8"),
        ]
    )


def initial_dtype() -> np.dtype[Any]:
    """How one request stands after submit, 2 bytes: ``status``, PENDING if accepted; ``reason``, why it was not."""
    import numpy as np

    return np.dtype([("status", "u1"), ("reason", "u1")])


def result_dtype() -> np.dtype[Any]:
    """The record of one request's end, 48 bytes.

    Fields: ``status`` a `Status`, ``reason`` a `Reason`; ``sct``, ``sc``, ``dnr`` of the drive that ended it worst;
    ``tag`` of the request; ``drive`` the runtime's number of that drive, `NO_DRIVE` when all went well; ``commands``
    into how many it was split; ``done_bytes`` how much drives completed without an error, in pieces that need not be
    its beginning; ``submitted_ns`` of its first and ``completed_ns`` of its last command, in the device's clock.
    """
    import numpy as np

    return np.dtype(
        [
            ("status", "u1"),
            ("reason", "u1"),
            ("sct", "u1"),
            ("sc", "u1"),
            ("dnr", "?"),
            ("reserved", "u1", (3,)),
            ("tag", "<u4"),
            ("drive", "<u4"),
            ("commands", "<u4"),
            ("reserved_2", "<u4"),
            ("done_bytes", "<u8"),
            ("submitted_ns", "<u8"),
            ("completed_ns", "<u8"),
        ]
    )


def make_requests(
    operation: ArrayLike,
    target: ArrayLike,
    *,
    nbytes: ArrayLike = 0,
    target_offset: ArrayLike = 0,
    memory: ArrayLike = 0,
    memory_offset: ArrayLike = 0,
    flags: ArrayLike = 0,
    queue_class: ArrayLike = 0,
    tag: ArrayLike | None = None,
) -> NDArray[np.void]:
    """Requests from columns, each a scalar or an array; see `request_dtype`. ``tag`` None numbers them from 0.

    Raises:
        RequestsInvalid: columns of different lengths, or a number that does not fit its field.
    """
    import numpy as np

    columns = {
        "operation": operation,
        "flags": flags,
        "queue_class": queue_class,
        "nbytes": nbytes,
        "memory": memory,
        "memory_offset": memory_offset,
        "target": target,
        "target_offset": target_offset,
    }
    if tag is not None:
        columns["tag"] = tag
    record = request_dtype()
    try:
        flat = np.broadcast_arrays(*(_whole(name, column) for name, column in columns.items()))
    except ValueError as error:
        raise RequestsInvalid("make requests", str(error), "Pass arrays of one length, or scalars.") from None
    rows = np.zeros(flat[0].size, record)
    for name, column in zip(columns, flat, strict=True):
        limit = np.iinfo(record[name]).max
        if column.size and int(column.max()) > limit:
            raise RequestsInvalid("make requests", f"{name} has {int(column.max())}", f"Use 0 to {limit}.")
        rows[name] = column.ravel()
    if tag is None:
        rows["tag"] = np.arange(len(rows), dtype=np.uint32)
    return rows


def _whole(name: str, value: ArrayLike) -> NDArray[np.uint64]:
    import numpy as np

    array = np.asarray(value)
    if not array.size:
        return np.zeros(array.shape, np.uint64)
    if array.dtype.kind == "f" and isinstance(value, (list, tuple)):
        # NumPy makes floats of a list with numbers on both sides of 2^63.
        array = np.array(value, object)
    if array.dtype.kind == "O" or (array.dtype.kind == "i" and bool((array < 0).any())):
        try:
            return np.array([operator.index(v) for v in array.ravel()], np.uint64).reshape(array.shape)
        except (OverflowError, TypeError, ValueError):
            pass
    elif array.dtype.kind in "iu":
        return array.astype(np.uint64, copy=False)
    raise RequestsInvalid("make requests", f"{name} is {value!r}", "Pass whole numbers from 0 to 2^64 - 1.")


def check_requests(requests: NDArray[np.void]) -> NDArray[np.void]:
    """The requests as one dimension; nothing is copied where they are one already.

    Raises:
        RequestsInvalid: no array of `request_dtype`.
    """
    import numpy as np

    if not isinstance(requests, np.ndarray) or requests.dtype != request_dtype():
        found = getattr(requests, "dtype", type(requests).__name__)
        raise RequestsInvalid(
            "submit requests", f"found {found}", "Pass an array of request_dtype(), as make_requests(...) gives."
        )
    return requests.ravel()

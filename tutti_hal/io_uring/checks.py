"""What requests must keep to, over arrays: numbers, metadata, protection, pieces. The first that does not is named."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from tutti_hal.errors import BufferInvalid, RequestInvalid
from tutti_hal.io_uring.layout import Protect

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import ArrayLike, NDArray


def whole(what: str, name: str, value: ArrayLike) -> NDArray[np.uint64]:
    """The value as unsigned 64-bit numbers; refuses what is not a whole number >= 0."""
    import numpy as np

    array = np.asarray(value)
    fix = "Pass whole numbers from 0 to 2^64 - 1."
    if array.dtype.kind == "O":
        # Python integers above 2^63 arrive so.
        try:
            return np.array([int(v) for v in array.ravel()], np.uint64).reshape(array.shape)
        except (OverflowError, TypeError, ValueError) as error:
            raise RequestInvalid(what, f"{name} is {value!r}", fix) from error
    if array.dtype.kind not in "iu":
        raise RequestInvalid(what, f"{name} has type {array.dtype}", fix)
    if array.dtype.kind == "i" and bool((array < 0).any()):
        raise RequestInvalid(what, f"{name} has {int(array.min())}", fix)
    return array.astype(np.uint64, copy=False)


def broadcast(what: str, *first: NDArray[np.uint64], **named: ArrayLike) -> list[NDArray[np.uint64]]:
    """All as flat arrays of one length."""
    import numpy as np

    columns = [*first, *(whole(what, name, value) for name, value in named.items())]
    try:
        return [column.ravel() for column in np.broadcast_arrays(*columns)]
    except ValueError:
        shapes = ", ".join(str(column.shape) for column in columns)
        raise RequestInvalid(
            what, f"target, lba, nbytes and offset have the shapes {shapes}", "Pass arrays of one length, or scalars."
        ) from None


def refuse_any(
    error: type[Any], what: str, bad: NDArray[np.bool_], found: Callable[[int], str], fix: Callable[[int], str]
) -> None:
    """Raise for the first request that is bad."""
    if bad.any():
        first = int(bad.argmax())
        raise error(what, found(first), fix(first))


def check_metadata(
    what: str,
    of: Callable[[int], str],
    offsets: NDArray[np.uint64],
    counts: NDArray[np.uint64],
    lba_bytes: NDArray[np.uint64],
    beside: NDArray[np.uint64],
    room: int,
) -> None:
    """Refuses requests whose metadata have no place: ``beside`` bytes a block, in metadata memory of ``room`` bytes.

    Raises:
        BufferInvalid: no such memory, or too little.
        RequestInvalid: the offset is not that of a block.
    """
    import numpy as np

    apart = beside > 0
    if not apart.any():
        return
    refuse_any(
        BufferInvalid,
        what,
        apart & (room == 0),
        lambda i: (
            f"{of(i)} has {int(beside[i])} bytes of metadata a block apart, and the buffer has no memory for them"
        ),
        lambda _: (
            "Register it with metadata: ring.register(data, metadata=...); or let the drive make them "
            "(Protect.ACTION) where they are protection information alone."
        ),
    )
    refuse_any(
        RequestInvalid,
        what,
        apart & (offsets % lba_bytes != 0),
        lambda i: f"{of(i)} has offset {int(offsets[i])}, and its metadata lie apart",
        lambda i: f"Use a multiple of the block, {int(lba_bytes[i])} bytes: it says where the metadata are.",
    )
    ends = (offsets // lba_bytes + counts) * beside
    refuse_any(
        BufferInvalid,
        what,
        apart & (ends > np.uint64(room)),
        lambda i: f"{of(i)} has metadata up to byte {int(ends[i])} of a metadata memory of {room}",
        lambda _: "Register more metadata memory, or stay inside.",
    )


def check_protection(what: str, of: Callable[[int], str], kinds: NDArray[np.uint64], protect: Protect) -> None:
    """Refuses what a namespace's protection information, of these types, does not have.

    Raises:
        RequestInvalid: none at all, or a reference tag of type 3, which has none that could be checked.
    """
    if not protect:
        return
    refuse_any(
        RequestInvalid,
        what,
        kinds == 0,
        lambda i: f"{of(i)} asks for {protect!r}, and the namespace has no protection information",
        lambda _: "Leave protect out.",
    )
    if Protect.REFERENCE in protect:
        refuse_any(
            RequestInvalid,
            what,
            kinds == 3,
            lambda i: f"{of(i)} checks the reference tag, and the protection information is of type 3",
            lambda _: "Check the guard and the application tag.",
        )


def split_at_pieces(
    what: str,
    of: Callable[[int], str],
    offsets: NDArray[np.uint64],
    sizes: NDArray[np.uint64],
    block_bytes: NDArray[np.uint64],
    most: NDArray[np.uint64],
    piece: int,
) -> NDArray[np.uint64]:
    """The most blocks of one command of each request, so that none crosses a multiple of ``piece`` bytes.

    Raises:
        RequestInvalid: a request crosses one and does not begin at one, or its blocks do.
    """
    import numpy as np

    each = np.uint64(piece)
    crosses = offsets // each != (offsets + sizes - np.uint64(1)) // each
    if not crosses.any():
        return most
    refuse_any(
        RequestInvalid,
        what,
        crosses & ((offsets % each != 0) | (each % block_bytes != 0)),
        lambda i: f"{of(i)} takes {int(sizes[i])} bytes at {int(offsets[i])} of a buffer in pieces of {piece}",
        lambda i: (
            "Begin at a piece, or stay inside one."
            if piece % int(block_bytes[i]) == 0
            else f"Stay inside a piece: blocks of {int(block_bytes[i])} bytes lie across them."
        ),
    )
    return np.where(crosses, np.gcd(most, each // block_bytes), most)

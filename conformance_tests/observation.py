"""What a case has seen, as JSON keeps it: plain values, and arrays with dtype and shape.

An observation is data and nothing else, so that anybody can judge it again without the device it came from.
"""

from __future__ import annotations

import base64
import math
import re
import zlib
from collections.abc import Callable, Mapping
from enum import Enum
from typing import TYPE_CHECKING, Any

from tutti_hal.conformance_tests.drawn import SHORTEST_BYTES, Source, restored, without

if TYPE_CHECKING:
    import numpy as np

#: Key of an encoded array.
ARRAY_KEY = "$array"

#: An array whose raw bytes exceed this is refused: a case observes what it needs to be judged, and no more.
ARRAY_LIMIT_BYTES = 64 << 20

#: Nor may all arrays of one outcome together be larger than this when they are decoded.
TOTAL_LIMIT_BYTES = 256 << 20

#: An array that zlib packs to less than one part in so many is small enough.
_SMALL = 8

#: Element types that an array may have.
_DTYPE = re.compile(r"[<|][biufcSUV][0-9]{1,6}")


class ObservationInvalid(TypeError):
    """A case returned something that JSON cannot keep, or a package holds a damaged array."""


def encode(value: Any, where: str = "observations", source: Source | None = None) -> Any:
    """An observation in the form that a package keeps.

    Args:
        value: None, bool, int, float, str, bytes (as hexadecimal text), enum members (as their values), NumPy scalars
            and arrays, and lists, tuples and string-keyed mappings of these.
        where: the name used in an error.
        source: what the case drew at random, so that what it saw of that need not be kept; None: all bytes are kept.

    Raises:
        ObservationInvalid: anything else; it names the place.
    """
    if isinstance(value, float) and not math.isfinite(value):
        raise ObservationInvalid(f"{where}: JSON has no {value}; observe an array, or the bits")
    if value is None or (isinstance(value, bool | int | float | str) and not isinstance(value, Enum)):
        return value
    if isinstance(value, Enum):
        return encode(value.value, where, source)
    if isinstance(value, bytes | bytearray):
        return bytes(value).hex()
    if isinstance(value, Mapping):
        wrong = [key for key in value if not isinstance(key, str)]
        if wrong:
            raise ObservationInvalid(f"{where}: the key {wrong[0]!r} is not text")
        return {key: encode(one, f"{where}.{key}", source) for key, one in value.items()}
    if isinstance(value, list | tuple):
        return [encode(one, f"{where}[{index}]", source) for index, one in enumerate(value)]
    if hasattr(value, "dtype") and hasattr(value, "tobytes"):
        return _encode_numpy(value, where, source)
    raise ObservationInvalid(f"{where}: {type(value).__name__} is not an observation")


def _encode_numpy(value: Any, where: str, source: Source | None) -> Any:
    if value.shape == ():
        return encode(value.item(), where)
    if value.dtype.hasobject:
        raise ObservationInvalid(f"{where}: an array of Python objects is not an observation")
    if value.nbytes > ARRAY_LIMIT_BYTES:
        raise ObservationInvalid(
            f"{where}: {value.nbytes} bytes; observe a summary of what is over {ARRAY_LIMIT_BYTES}"
        )
    little = value.astype(value.dtype.newbyteorder("<"), copy=False)
    data = little.tobytes()
    packed, drawn = zlib.compress(data, 6), {}
    if source is not None and len(packed) > max(SHORTEST_BYTES, len(data) // _SMALL):
        pieces = source.pieces(data)
        if pieces:
            packed, drawn = zlib.compress(without(data, pieces), 6), {"drawn": [list(piece) for piece in pieces]}
    text = base64.b64encode(packed).decode("ascii")
    return {ARRAY_KEY: {"dtype": little.dtype.str, "shape": list(value.shape), "zlib64": text, **drawn}}


def decode(value: Any, seed: int = 0) -> Any:
    """The reverse of :func:`encode`, as far as types go: arrays are arrays again, tuples stay lists.

    Safe for what a stranger wrote: nothing is unpacked beyond the size that an array states, nor beyond the limits.

    Args:
        value: as :func:`encode` gave it.
        seed: of the instance, from which it drew whatever was random.

    Raises:
        ObservationInvalid: an array is damaged, or the arrays are too large.
    """
    return _Decoder(Source(seed)).decode(value)


class _Decoder:
    """Decodes one outcome, and counts what its arrays hold."""

    def __init__(self, source: Source) -> None:
        self._source = source
        self._left = TOTAL_LIMIT_BYTES

    def decode(self, value: Any) -> Any:
        if isinstance(value, list):
            return [self.decode(one) for one in value]
        if isinstance(value, dict):
            if set(value) == {ARRAY_KEY}:
                return self._array(value[ARRAY_KEY])
            return {key: self.decode(one) for key, one in value.items()}
        return value

    def _array(self, table: Any) -> np.ndarray[Any, Any]:
        import numpy as np

        try:
            name, shape = table["dtype"], table["shape"]
            if not isinstance(name, str) or not _DTYPE.fullmatch(name):
                raise ValueError("an element type that no observation has")
            if not isinstance(shape, list) or not all(type(one) is int and one >= 0 for one in shape):
                raise ValueError("its shape is not a list of lengths")
            dtype = np.dtype(name)
            size = math.prod(shape) * dtype.itemsize
            if size > min(ARRAY_LIMIT_BYTES, self._left):
                raise ValueError(f"{size} bytes are more than an outcome may hold")
            self._left -= size
            raw = self._bytes_of(table, size)
            return np.frombuffer(raw, dtype).reshape(shape)
        except (AttributeError, IndexError, KeyError, TypeError, ValueError, zlib.error) as error:
            raise ObservationInvalid(f"a damaged array: {error}") from None

    def _bytes_of(self, table: Any, size: int) -> bytes:
        pieces = table.get("drawn", [])
        drawn = sum(piece[2] for piece in pieces) if isinstance(pieces, list) else 0
        if not 0 <= drawn <= size:
            raise ValueError(f"its pieces are more than the {size} bytes that its shape says")
        rest = _unpacked(base64.b64decode(table["zlib64"], validate=True), size - drawn)
        return restored(rest, pieces, self._source) if "drawn" in table else rest


def _unpacked(packed: bytes, size: int) -> bytes:
    """Unpack to exactly ``size`` bytes; a stream that holds more or less is refused before it is unpacked further."""
    stream = zlib.decompressobj()
    raw = stream.decompress(packed, size + 1)
    if len(raw) != size or not stream.eof or stream.unused_data:
        raise ValueError(f"it does not hold the {size} bytes that its shape says")
    return raw


def refusal(call: Callable[[], Any]) -> dict[str, Any]:
    """What a call was refused with, as an observation; ``{"refused": False}`` where it was not.

    Returns:
        ``refused`` with the class name as ``error``, the stable ``id``, the contract's name of the vendor's number as
        ``canonical`` (empty where the shim refused before asking the vendor), ``call``, ``capability`` and what was
        ``found``.

    Raises:
        Exception: whatever else than a typed error of the product is raised.
    """
    from tutti_hal.errors import TuttiError

    try:
        call()
    except TuttiError as error:
        words = {name: str(getattr(error, name, "")) for name in ("canonical", "call", "capability", "found")}
        return {"refused": True, "error": type(error).__name__, "id": error.id, **words}
    return {"refused": False}

"""Structures declared as bit fields: one declaration, from which encoding, decoding and range checks follow.

NVMe structures are little-endian throughout, so a structure is one long integer: a field is its lowest bit and its
width. A codec carries every value that fits its field, also those that a specification forbids: conformance tests
must be able to say them. Reserved bits are written as zero and ignored when read, as the specification asks; use
`Layout.reserved_bits` to see them.
"""

from __future__ import annotations

import dataclasses
from functools import cache
from typing import Any, ClassVar, Self, cast

from tutti_hal.errors import NvmeFieldRange, NvmeSizeWrong

_KEY = "nvme-layout"


@dataclasses.dataclass(frozen=True, slots=True)
class Place:
    """Where a field lies, and what it holds."""

    lsb: int
    width: int
    kind: str
    item: type[Layout] | None = None
    count: int = 1
    #: The bytes of the structure that hold the field, or parts of it.
    span: slice = dataclasses.field(init=False, compare=False)
    #: Whether the field begins and ends between bytes.
    whole_bytes: bool = dataclasses.field(init=False, compare=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "span", slice(self.lsb // 8, (self.lsb + self.width + 7) // 8))
        object.__setattr__(self, "whole_bytes", self.lsb % 8 == 0 and self.width % 8 == 0)

    @property
    def mask(self) -> int:
        """The field's bits, at their place in the structure."""
        return ((1 << self.width) - 1) << self.lsb


def bits(lsb: int, width: int, default: int = 0) -> Any:
    """An unsigned integer of `width` bits, its lowest at bit `lsb` of the structure."""
    return dataclasses.field(default=default, metadata={_KEY: Place(lsb, width, "int")})


def flag(lsb: int, default: bool = False) -> Any:
    """One bit, as a bool."""
    return dataclasses.field(default=default, metadata={_KEY: Place(lsb, 1, "flag")})


def uint(byte: int, nbytes: int, default: int = 0) -> Any:
    """An unsigned integer of whole bytes at a byte offset."""
    return bits(8 * byte, 8 * nbytes, default)


def dword(index: int, lsb: int = 0, width: int = 32, default: int = 0) -> Any:
    """Bits `lsb` to `lsb + width - 1` of dword `index`."""
    return bits(32 * index + lsb, width, default)


def dword_flag(index: int, bit: int) -> Any:
    """Bit `bit` of dword `index`, as a bool."""
    return flag(32 * index + bit)


def text(byte: int, nbytes: int) -> Any:
    """ASCII, padded on the right with spaces, as serial numbers are. Decoding takes the padding off."""
    return dataclasses.field(default="", metadata={_KEY: Place(8 * byte, 8 * nbytes, "text")})


def name(byte: int, nbytes: int) -> Any:
    """UTF-8, ended and padded with zero bytes, as NQNs are."""
    return dataclasses.field(default="", metadata={_KEY: Place(8 * byte, 8 * nbytes, "name")})


def raw(byte: int, nbytes: int) -> Any:
    """Bytes as they are, always exactly `nbytes` long."""
    return dataclasses.field(default=bytes(nbytes), metadata={_KEY: Place(8 * byte, 8 * nbytes, "raw")})


def items(byte: int, item: type[Layout], count: int) -> Any:
    """`count` structures of one kind, side by side; fewer may be given, the rest is zero."""
    return dataclasses.field(default=(), metadata={_KEY: Place(8 * byte, 8 * item.SIZE * count, "items", item, count)})


@cache
def _declared(cls: Any) -> tuple[tuple[str, Place], ...]:
    return tuple((f.name, f.metadata[_KEY]) for f in dataclasses.fields(cls) if _KEY in f.metadata)


@cache
def _declared_mask(fields: tuple[tuple[str, Place], ...]) -> int:
    mask = 0
    for _, place in fields:
        mask |= place.mask
    return mask


class Layout:
    """Base of every structure: `SIZE` bytes, little-endian, fields declared with the functions of this module.

    Subclasses are frozen dataclasses with keyword-only fields. Construction raises `NvmeFieldRange` for a value that
    does not fit its field.
    """

    __slots__ = ()
    SIZE: ClassVar[int]

    def __post_init__(self) -> None:
        for field, place in self._places():
            _check(type(self).__name__, field, place, getattr(self, field))

    @classmethod
    def _places(cls) -> tuple[tuple[str, Place], ...]:
        # mypy takes no class as hashable.
        return _declared(cast("Any", cls))

    @classmethod
    def places(cls) -> dict[str, Place]:
        """The declared fields by name, in the order of their declaration: where each lies and what it holds."""
        return dict(cls._places())

    def encode(self) -> bytes:
        """The structure's `SIZE` bytes, reserved bits zero."""
        blob = bytearray(self.SIZE)
        for field, place in self._places():
            value = getattr(self, field)
            if place.whole_bytes:
                blob[place.span] = _to_bytes(place, value)
            else:
                held = int.from_bytes(blob[place.span], "little") | int(value) << place.lsb % 8
                blob[place.span] = held.to_bytes(place.span.stop - place.span.start, "little")
        return bytes(blob)

    @classmethod
    def decode(cls, data: bytes | bytearray | memoryview) -> Self:
        """Reads a structure from exactly `SIZE` bytes; reserved bits are ignored.

        Raises:
            NvmeSizeWrong: `data` has another length.
            NvmeFieldRange: a text field holds bytes that are no text.
        """
        if len(data) != cls.SIZE:
            raise NvmeSizeWrong(f"decode {cls.__name__}", f"{len(data)} bytes", f"Pass exactly {cls.SIZE} bytes.")
        blob = bytes(data)
        values: dict[str, Any] = {}
        for field, place in cls._places():
            piece = blob[place.span]
            if place.whole_bytes:
                values[field] = _from_bytes(cls.__name__, field, place, piece)
            else:
                number = int.from_bytes(piece, "little") >> place.lsb % 8 & (1 << place.width) - 1
                values[field] = bool(number) if place.kind == "flag" else number
        return cls(**values)

    @classmethod
    def reserved_bits(cls, data: bytes | bytearray | memoryview) -> tuple[int, ...]:
        """The numbers of the set bits that belong to no declared field; empty in a clean structure."""
        if len(data) != cls.SIZE:
            raise NvmeSizeWrong(
                f"look at the reserved bits of {cls.__name__}",
                f"{len(data)} bytes",
                f"Pass exactly {cls.SIZE} bytes.",
            )
        left = int.from_bytes(data, "little") & ~_declared_mask(cls._places())
        found = []
        while left:
            low = left & -left
            found.append(low.bit_length() - 1)
            left ^= low
        return tuple(found)


class Register(Layout):
    """A structure of four or eight bytes that travels as one integer."""

    __slots__ = ()

    @property
    def value(self) -> int:
        """The register as an integer."""
        return int.from_bytes(self.encode(), "little")

    @classmethod
    def from_value(cls, value: int) -> Self:
        """Reads the register from an integer.

        Raises:
            NvmeFieldRange: negative, or wider than the register.
        """
        if not 0 <= value < 1 << (8 * cls.SIZE):
            raise NvmeFieldRange(
                f"read {cls.__name__}", f"{value:#x}", f"Pass an unsigned value of {8 * cls.SIZE} bits."
            )
        return cls.decode(value.to_bytes(cls.SIZE, "little"))


def _refuse(structure: str, field: str, found: str, fix: str) -> NvmeFieldRange:
    return NvmeFieldRange(f"set {structure}.{field}", found, fix)


def _check(structure: str, field: str, place: Place, value: Any) -> None:
    size = place.width // 8
    match place.kind:
        case "int":
            # bool is an int in Python; a flag given where a number belongs is a slip, not a value.
            if isinstance(value, bool) or not isinstance(value, int):
                raise _refuse(structure, field, f"{value!r} is no integer", "Pass an unsigned integer.")
            if not 0 <= value < 1 << place.width:
                raise _refuse(structure, field, f"{value:#x}", f"It has {place.width} bits.")
        case "flag":
            if not isinstance(value, bool):
                raise _refuse(structure, field, f"{value!r} is no bool", "Pass True or False.")
        case "text":
            if not isinstance(value, str) or not value.isascii() or len(value) > size:
                raise _refuse(structure, field, repr(value), f"Pass at most {size} ASCII characters.")
            if value != value.rstrip(" "):
                raise _refuse(structure, field, repr(value), "Leave trailing spaces out: they are the padding.")
        case "name":
            if not isinstance(value, str) or "\0" in value or len(value.encode()) >= size:
                raise _refuse(structure, field, repr(value), f"Pass at most {size - 1} bytes of UTF-8 without NUL.")
        case "raw":
            if not isinstance(value, bytes) or len(value) != size:
                raise _refuse(structure, field, f"{value!r:.60}", f"Pass exactly {size} bytes.")
        case _:
            if len(value) > place.count or not all(type(v) is place.item for v in value):
                assert place.item is not None
                raise _refuse(
                    structure,
                    field,
                    f"{len(value)} items",
                    f"Pass at most {place.count} of {place.item.__name__}.",
                )


def _to_bytes(place: Place, value: Any) -> bytes:
    size = place.width // 8
    match place.kind:
        case "int":
            return int(value).to_bytes(size, "little")
        case "text":
            return str(value).encode("ascii").ljust(size)
        case "name":
            return str(value).encode().ljust(size, b"\0")
        case "raw":
            return bytes(value)
        case _:
            return b"".join(v.encode() for v in value).ljust(size, b"\0")


def _from_bytes(structure: str, field: str, place: Place, piece: bytes) -> Any:
    match place.kind:
        case "int":
            return int.from_bytes(piece, "little")
        case "text":
            # Zero bytes are no legal padding, and drives (and QEMU) write them all the same.
            return _text(structure, field, piece.rstrip(b"\0"), "ascii").rstrip(" ")
        case "name":
            return _text(structure, field, piece.split(b"\0", 1)[0], "utf-8")
        case "raw":
            return piece
        case _:
            assert place.item is not None
            size = place.item.SIZE
            return tuple(place.item.decode(piece[k * size : (k + 1) * size]) for k in range(place.count))


def _text(structure: str, field: str, piece: bytes, encoding: str) -> str:
    try:
        return piece.decode(encoding)
    except UnicodeDecodeError as error:
        raise NvmeFieldRange(
            f"decode {structure}.{field}", f"{piece!r} is not {encoding}", "The sender must write text there."
        ) from error

"""Every structure: bytes -> fields -> bytes, every declared bit by itself, and refusals."""

from __future__ import annotations

import dataclasses
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tutti_hal.errors import NvmeFieldRange, NvmeSizeWrong
from tutti_hal.nvme import commands, features, identify, namespace, registers, sgl
from tutti_hal.nvme.cqe import Cqe
from tutti_hal.nvme.layout import Layout
from tutti_hal.nvme.sqe import Sqe


def _structures(base: type[Layout]) -> list[type[Layout]]:
    found: list[type[Layout]] = []
    for cls in base.__subclasses__():
        # A dataclass with slots exists twice: as written, and rebuilt with slots. Only the latter is reachable.
        if "__slots__" in vars(cls) and dataclasses.is_dataclass(cls):
            found.append(cls)
        found += _structures(cls)
    return found


STRUCTURES = sorted(
    {
        value
        for module in (commands, features, identify, namespace, registers, sgl)
        for value in vars(module).values()
        if isinstance(value, type) and issubclass(value, Layout) and dataclasses.is_dataclass(value)
    }
    | {Sqe, Cqe},
    key=lambda cls: cls.__name__,
)

by_structure = pytest.mark.parametrize("structure", STRUCTURES, ids=lambda cls: cls.__name__)


def test_all_structures_are_covered() -> None:
    assert len(STRUCTURES) >= 40
    assert {cls.__name__ for cls in _structures(Layout)} <= {cls.__name__ for cls in STRUCTURES}


@by_structure
def test_fields_lie_inside_and_do_not_overlap(structure: type[Layout]) -> None:
    seen = 0
    for name, place in structure.places().items():
        assert place.mask >> (8 * structure.SIZE) == 0, name
        assert place.mask & seen == 0, f"{name} overlaps an earlier field"
        seen |= place.mask


@by_structure
def test_each_declared_bit_lands_in_one_field(structure: type[Layout]) -> None:
    """Setting one bit of the bytes changes exactly the field that owns it, and encodes back to that bit."""
    zero = structure.decode(bytes(structure.SIZE))
    owners = {
        bit: name
        for name, place in structure.places().items()
        if place.kind in ("int", "flag", "raw", "items")
        for bit in range(place.lsb, place.lsb + place.width)
    }
    # Every bit of every number and flag; of long byte strings and arrays every 61st.
    for bit in [b for b in sorted(owners) if structure.places()[owners[b]].width <= 128 or b % 61 == 0]:
        data = (1 << bit).to_bytes(structure.SIZE, "little")
        read = structure.decode(data)
        changed = [f for f in structure.places() if getattr(read, f) != getattr(zero, f)]
        reserved_inside_item = structure.places()[owners[bit]].kind == "items" and not changed
        assert changed == [owners[bit]] or reserved_inside_item
        assert read.encode() == _with_padding(structure, bytes(structure.SIZE) if reserved_inside_item else data)


@by_structure
def test_reserved_bits_are_seen_and_not_kept(structure: type[Layout]) -> None:
    declared = 0
    for place in structure.places().values():
        declared |= place.mask
    reserved = [b for b in range(8 * structure.SIZE) if not declared >> b & 1][:64]
    for bit in reserved:
        data = (1 << bit).to_bytes(structure.SIZE, "little")
        assert structure.reserved_bits(data) == (bit,)
        assert structure.decode(data) == structure.decode(bytes(structure.SIZE))
    assert structure.reserved_bits(structure().encode()) == ()


def _with_padding(structure: type[Layout], data: bytes) -> bytes:
    """Text fields that were zero bytes come back as spaces."""
    out = bytearray(data)
    for place in structure.places().values():
        if place.kind == "text":
            span = slice(place.lsb // 8, (place.lsb + place.width) // 8)
            out[span] = bytes(out[span]).rstrip(b"\0").ljust(place.width // 8)
    return bytes(out)


def _values(structure: type[Layout]) -> st.SearchStrategy[Any]:
    kinds: dict[str, st.SearchStrategy[Any]] = {}
    printable = st.characters(min_codepoint=33, max_codepoint=126)
    for name, place in structure.places().items():
        match place.kind:
            case "int":
                kinds[name] = st.integers(0, (1 << place.width) - 1)
            case "flag":
                kinds[name] = st.booleans()
            case "text":
                kinds[name] = st.text(printable, max_size=place.width // 8)
            case "name":
                kinds[name] = st.text(printable, max_size=place.width // 8 - 1)
            case "raw":
                size = place.width // 8
                kinds[name] = st.binary(min_size=min(size, 16), max_size=min(size, 16)).map(
                    lambda b, n=size: b.ljust(n, b"\x5a")
                )
            case _:
                assert place.item is not None
                kinds[name] = st.lists(_values(place.item), min_size=place.count, max_size=place.count).map(tuple)
    small = {k: v for k, v in kinds.items() if structure.places()[k].kind != "items"}
    return st.builds(structure, **small)


@by_structure
@settings(max_examples=20, deadline=None)
@given(data=st.data())
def test_round_trip(structure: type[Layout], data: st.DataObject) -> None:
    value = data.draw(_values(structure))
    blob = value.encode()
    assert len(blob) == structure.SIZE
    assert structure.reserved_bits(blob) == ()
    back = structure.decode(blob)
    items = [n for n, p in structure.places().items() if p.kind == "items"]
    # An empty list of items reads back as that many zero items.
    assert dataclasses.replace(back, **dict.fromkeys(items, ())) == value
    assert back.encode() == blob


@by_structure
def test_refusals(structure: type[Layout]) -> None:
    with pytest.raises(NvmeSizeWrong, match="TT-NVME-SIZE"):
        structure.decode(bytes(structure.SIZE - 1))
    with pytest.raises(NvmeSizeWrong):
        structure.decode(bytes(structure.SIZE + 1))
    with pytest.raises(NvmeSizeWrong):
        structure.reserved_bits(b"")
    for name, place in structure.places().items():
        wrong: dict[str, tuple[Any, ...]] = {
            "int": (-1, 1 << place.width, True, 1.0, "1", None),
            "flag": (0, 1, None),
            "text": ("x" * (place.width // 8 + 1), "\xe9", "pad ", b"x"),
            "name": ("x" * (place.width // 8), "a\0b", 3),
            "raw": (b"", bytes(place.width // 8 + 1), "x"),
            "items": ((1,), tuple(place.item() for _ in range(place.count + 1)) if place.item else ()),
        }
        for value in wrong[place.kind]:
            with pytest.raises(NvmeFieldRange, match="TT-NVME-FIELD"):
                structure(**{name: value})


def test_register_value_range() -> None:
    with pytest.raises(NvmeFieldRange):
        registers.Capabilities.from_value(1 << 64)
    with pytest.raises(NvmeFieldRange):
        registers.Version.from_value(-1)
    assert registers.Version.from_value(0x00010403) == registers.Version(major=1, minor=4, tertiary=3)
    assert str(registers.Version(major=2)) == "2.0.0"


def test_text_fields_as_drives_send_them() -> None:
    blob = bytearray(4096)
    blob[4:24] = b"S123\0\0".ljust(20, b"\0")
    blob[24:64] = b"A model".ljust(40)
    blob[768:1024] = b"nqn.2014-08.org.nvmexpress:uuid:x".ljust(256, b"\0")
    read = identify.IdentifyController.decode(bytes(blob))
    assert (read.sn, read.mn, read.subnqn) == ("S123", "A model", "nqn.2014-08.org.nvmexpress:uuid:x")
    blob[24] = 0xE9
    with pytest.raises(NvmeFieldRange, match="mn"):
        identify.IdentifyController.decode(bytes(blob))

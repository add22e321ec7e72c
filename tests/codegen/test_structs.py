"""Shared records: the layout in C and in NumPy comes from one table and is the same."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tutti_hal.codegen.structs import SCALARS, Struct, load_all, load_structs, struct
from tutti_hal.errors import GenerationError, SpecError
from tutti_hal.paths import templates_dir

_SIZES = {"u8": 1, "u16": 2, "u32": 4, "u64": 8, "i32": 4, "i64": 8, "f32": 4, "f64": 8}
_SIZES |= {"word32": 4, "word64": 8, "quad": 16}


def test_offsets_and_dtype_agree() -> None:
    record = struct("sample", [("a", "u32"), ("b", "u8[4]"), ("c", "word64"), ("q", "quad[2]")])
    dtype = record.dtype()
    assert record.offsets == {"a": 0, "b": 4, "c": 8, "q": 16}
    assert record.size == dtype.itemsize == 48
    assert {name: dtype.fields[name][1] for name in dtype.names} == record.offsets
    assert dtype["q"].shape == (2, 4)
    assert record.shared


def test_structs_hold_structs() -> None:
    inner = struct("inner", [("x", "u32"), ("y", "u32")])
    outer = struct("outer", [("head", "u64"), ("rows", "inner[3]")], known={"inner": inner})
    assert outer.size == 32
    assert outer.dtype()["rows"].shape == (3,)
    assert not outer.shared


@pytest.mark.parametrize(
    ("fields", "word"),
    [
        ([("a", "u8"), ("b", "u32")], "padding before it"),
        ([("a", "u64"), ("b", "u32")], "padding at the end"),
        ([("a", "u32"), ("a", "u32")], "repeated"),
        ([("a", "int")], "'int'"),
        ([("a", "u32[0]")], "u32\\[0\\]"),
        ([("A", "u32")], "'A'"),
        ([], "no fields"),
        ([("a",)], "field"),
    ],
)
def test_bad_layouts_are_refused(fields: list[tuple[str, ...]], word: str) -> None:
    with pytest.raises(GenerationError, match=word):
        struct("bad", fields)


@pytest.mark.parametrize("align", [3, 4, 12])
def test_alignment_below_the_natural_or_no_power_of_two_is_refused(align: int) -> None:
    with pytest.raises(GenerationError, match="align"):
        struct("bad", [("a", "u64")], align=align)


def test_tables_are_refused_with_their_name(tmp_path: Path) -> None:
    folder = tmp_path / "structs"
    folder.mkdir()
    (folder / "a.yaml").write_text("structs:\n  one: {fields: [[x, u32]]}\n")
    (folder / "b.yaml").write_text("structs:\n  one: {fields: [[x, u32]]}\n")
    with pytest.raises(GenerationError, match=r"declared again in b\.yaml"):
        load_all(tmp_path)
    (folder / "b.yaml").write_text("structs:\n  two: {fields: [[x, u32]], colour: red}\n")
    with pytest.raises(SpecError, match="colour"):
        load_structs(folder / "b.yaml")
    (folder / "b.yaml").write_text("other: 1\n")
    with pytest.raises(SpecError, match="structs"):
        load_structs(folder / "b.yaml")
    (folder / "b.yaml").write_text("structs: {two: {fields: [[x, u32]]}, two: {fields: [[y, u64]]}}\n")
    with pytest.raises(SpecError, match="already given"):
        load_structs(folder / "b.yaml")


_FIELDS = st.lists(st.tuples(st.sampled_from(sorted(_SIZES)), st.integers(0, 5)), min_size=1, max_size=8)


@given(rows=_FIELDS)
def test_layout_is_what_c_would_do_or_is_refused(rows: list[tuple[str, int]]) -> None:
    fields = [(f"f{i}", f"{kind}[{n}]" if n else kind) for i, (kind, n) in enumerate(rows)]
    offset, padded = 0, False
    for kind, n in rows:
        padded |= offset % _SIZES[kind] != 0
        offset += _SIZES[kind] * max(n, 1)
    padded |= offset % max(_SIZES[kind] for kind, _ in rows) != 0
    if padded:
        with pytest.raises(GenerationError):
            struct("any", fields)
    else:
        made = struct("any", fields)
        assert made.size == made.dtype().itemsize == offset


def _compile(tmp_path: Path, records: list[Struct]) -> subprocess.CompletedProcess[str]:
    """The C text of records, compiled against stand-ins for the opaque types; runs no code of ours."""
    lines = ["#include <stdint.h>", "template <class T> struct tt_is_shared { static constexpr bool value = false; };"]
    lines += ["struct tt_word32 { uint32_t bits; };", "struct tt_word64 { uint64_t bits; };"]
    lines += ["struct alignas(16) tt_quad { uint32_t bits[4]; };"]
    lines += [record.c_text() for record in records]
    for record in records:
        dtype = record.dtype()
        lines += [
            f"static_assert(__builtin_offsetof({record.name}, {name}) == {dtype.fields[name][1]});"
            for name in dtype.names
        ]
        lines.append(f"static_assert(sizeof({record.name}) == {dtype.itemsize});")
    source = tmp_path / "structs.cpp"
    source.write_text("\n".join(lines))
    command = ["g++", "-std=c++20", "-Wall", "-Wextra", "-Werror", "-fsyntax-only", str(source)]
    return subprocess.run(command, capture_output=True, text=True, check=False)


def test_the_c_compiler_agrees_with_numpy(tmp_path: Path) -> None:
    one = struct("one", [("a", "u8[8]"), ("b", "f64"), ("c", "word32[2]"), ("d", "u64")], about="One of each.")
    two = struct(
        "two", [("q", "quad"), ("rows", "one[2]"), ("end", "u64[2]"), ("pad", "u8[32]")], align=64, known={"one": one}
    )
    assert two.size == 128
    done = _compile(tmp_path, [one, two, *load_all(templates_dir()).values()])
    assert done.returncode == 0, done.stderr


def test_a_wrong_offset_does_not_compile(tmp_path: Path) -> None:
    one = struct("one", [("a", "u64"), ("b", "u64")])
    object.__setattr__(one.fields[1], "offset", 4)
    assert "static assertion failed" in _compile(tmp_path, [one]).stderr


def test_every_scalar_has_its_size_in_numpy() -> None:
    for name in _SIZES:
        dtype = struct("one", [("a", name)]).dtype()
        assert dtype.itemsize == SCALARS[name].size == _SIZES[name]
        assert dtype["a"].itemsize == _SIZES[name]

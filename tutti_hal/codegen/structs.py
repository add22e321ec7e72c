"""Records that host and device share: one table, rendered as a C struct and given as a NumPy dtype.

The table lives beside the templates, in ``kernels_templates/structs/*.yaml``::

    structs:
      ring_request:
        about: One request, as the host packs it.
        fields:
          - [lba, u64, first logical block]
          - [status, word32]
          - [pad, "u32[3]"]

There is no implicit padding: a field that is not aligned, or a size that is no multiple of the alignment, is refused,
so that every compiler and NumPy agree by construction. The C text repeats each offset as a ``static_assert``.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tutti_hal.codegen import text
from tutti_hal.errors import GenerationError
from tutti_hal.spec import schema
from tutti_hal.spec.nodes import Problems, read

if TYPE_CHECKING:
    import numpy as np


@dataclass(frozen=True)
class Scalar:
    """One element type: its C name, NumPy code and lanes of an element, its size and alignment in bytes."""

    c_name: str
    numpy: str
    size: int
    align: int
    lanes: int = 1
    shared: bool = False


#: Type names of the table. The shared ones are opaque in C: only primitives work on them.
SCALARS: Mapping[str, Scalar] = {
    "u8": Scalar("uint8_t", "u1", 1, 1),
    "u16": Scalar("uint16_t", "<u2", 2, 2),
    "u32": Scalar("uint32_t", "<u4", 4, 4),
    "u64": Scalar("uint64_t", "<u8", 8, 8),
    "i32": Scalar("int32_t", "<i4", 4, 4),
    "i64": Scalar("int64_t", "<i8", 8, 8),
    "f32": Scalar("float", "<f4", 4, 4),
    "f64": Scalar("double", "<f8", 8, 8),
    "word32": Scalar("tt_word32", "<u4", 4, 4, shared=True),
    "word64": Scalar("tt_word64", "<u8", 8, 8, shared=True),
    "quad": Scalar("tt_quad", "<u4", 16, 16, lanes=4, shared=True),
}

_TYPE = re.compile(r"^([A-Za-z_]\w*)(?:\[(\d+)\])?$")
_NAME = re.compile(r"^[a-z][a-z0-9_]*$")


@dataclass(frozen=True)
class Field:
    """One field: where it lies (bytes), how often it repeats (0: not an array), what it means."""

    name: str
    kind: Scalar | Struct
    count: int
    offset: int
    about: str

    @property
    def size(self) -> int:
        """Bytes that the field takes."""
        return self.kind.size * max(self.count, 1)


@dataclass(frozen=True)
class Struct:
    """A shared record: the same layout in C on every vendor, and in NumPy."""

    name: str
    fields: tuple[Field, ...]
    size: int
    align: int
    about: str = ""

    @property
    def c_name(self) -> str:
        """The C type's name; the table's name is used as it is."""
        return self.name

    @property
    def shared(self) -> bool:
        """True when a field is an opaque word: the struct then cannot be copied in C."""
        return any(field.kind.shared for field in self.fields)

    @property
    def offsets(self) -> dict[str, int]:
        """Byte offset of each field."""
        return {field.name: field.offset for field in self.fields}

    def c_text(self) -> str:
        """The record in C, with its size and every offset asserted."""
        lines = [text.comment(self.about)] if self.about else []
        natural = max(field.kind.align for field in self.fields)
        lines.append(f"struct {f'alignas({self.align}) ' if self.align > natural else ''}{self.name} {{")
        for field in self.fields:
            if field.about:
                lines.append(text.comment(field.about, text.INDENT))
            count = f"[{field.count}]" if field.count else ""
            lines.append(f"{text.INDENT}{field.kind.c_name} {field.name}{count};")
        lines.append("};")
        lines.append(f"static_assert(sizeof({self.name}) == {self.size} && alignof({self.name}) == {self.align});")
        for field in self.fields:
            lines.append(f"static_assert(__builtin_offsetof({self.name}, {field.name}) == {field.offset});")
        if self.shared:
            lines.append(f"template <> struct tt_is_shared<{self.name}> {{")
            lines.append(f"{text.INDENT}static constexpr bool value = true;")
            lines.append("};")
        return "\n".join(lines)

    def dtype(self) -> np.dtype[Any]:
        """The NumPy structured dtype of the same layout; ``itemsize`` is ``size``."""
        import numpy as np

        return np.dtype(
            {
                "names": [field.name for field in self.fields],
                "formats": [_numpy_format(field) for field in self.fields],
                "offsets": [field.offset for field in self.fields],
                "itemsize": self.size,
            }
        )


def _numpy_format(field: Field) -> Any:
    shape = (field.count,) if field.count else ()
    if isinstance(field.kind, Struct):
        return (field.kind.dtype(), shape)
    return (field.kind.numpy, (*shape, field.kind.lanes) if field.kind.lanes > 1 else shape)


def _refuse(name: str, found: str, fix: str) -> GenerationError:
    return GenerationError(f"lay out struct {name}", found, fix)


def struct(
    name: str,
    fields: Iterable[Sequence[str]],
    *,
    about: str = "",
    align: int = 0,
    known: Mapping[str, Struct] | None = None,
) -> Struct:
    """Lay out one shared record.

    Args:
        name: the C type's name.
        fields: ``(name, type)`` or ``(name, type, about)``; a type is one of ``SCALARS``, or a struct of ``known``,
            with ``[n]`` behind it for an array.
        about: what a record is, for the comment in C.
        align: alignment in bytes wanted beyond the natural one (a cache line); a power of two.
        known: structs that a field may hold.

    Raises:
        GenerationError: bad or repeated name, unknown type, a field that is not aligned, a size that needs padding.
    """
    known = known or {}
    if not _NAME.match(name):
        raise _refuse(name, "not a C name in lower case", "Use letters, digits and underscores.")
    laid: list[Field] = []
    offset, widest = 0, 1
    for row in fields:
        if not 2 <= len(row) <= 3:
            raise _refuse(name, f"field {row!r}", "Write [name, type] or [name, type, about].")
        field_name, type_name = str(row[0]), str(row[1])
        if not _NAME.match(field_name) or any(field_name == other.name for other in laid):
            raise _refuse(name, f"field name {field_name!r} is bad or repeated", "Give each field its own name.")
        match = _TYPE.match(type_name)
        kind: Scalar | Struct | None = None
        if match:
            kind = SCALARS.get(match[1]) or known.get(match[1])
        if match is None or kind is None or match[2] == "0":
            types = ", ".join([*SCALARS, *known])
            raise _refuse(
                name, f"field {field_name} has type {type_name!r}", f"Use one of {types}, or an array of one."
            )
        if offset % kind.align:
            raise _refuse(
                name,
                f"field {field_name} at offset {offset} is not aligned to {kind.align}",
                f"Put {kind.align - offset % kind.align} bytes of padding before it, by name.",
            )
        count = int(match[2] or 0)
        laid.append(Field(field_name, kind, count, offset, str(row[2]) if len(row) == 3 else ""))
        offset += kind.size * max(count, 1)
        widest = max(widest, kind.align)
    if not laid:
        raise _refuse(name, "no fields", "Give it at least one.")
    if align and (align & (align - 1) or align < widest):
        raise _refuse(name, f"align {align}", f"Use a power of two of at least {widest}.")
    widest = max(widest, align)
    if offset % widest:
        raise _refuse(
            name,
            f"size {offset} is not a multiple of {widest}",
            f"Put {widest - offset % widest} bytes of padding at the end, by name.",
        )
    return Struct(name, tuple(laid), offset, widest, about)


def load_structs(path: Path) -> dict[str, Struct]:
    """Every struct of one table, in the order of the file; later ones may hold earlier ones.

    Raises:
        SpecError: the file is not a table of structs; it lists every bad entry with file, line and key.
        GenerationError: a struct cannot be laid out.
    """
    entry = schema.Struct(
        {"fields": schema.ListOf(schema.ListOf(schema.Text(empty=True), least=2), least=1)},
        {"about": schema.Text(), "align": schema.Int(1, 4096)},
    )
    table = schema.Struct({"structs": schema.MapOf(entry, pattern=r"[a-z][a-z0-9_]*", noun="struct")})
    problems = Problems()
    value = table.check(read(path), problems)
    problems.raise_if_any(f"load the structs of {path}")
    found: dict[str, Struct] = {}
    for name, body in value["structs"].items():
        about, align = body.get("about", ""), body.get("align", 0)
        found[name] = struct(name, body["fields"], about=about, align=align, known=found)
    return found


def load_all(templates: Path) -> dict[str, Struct]:
    """The structs of every table beside the templates; a name may be used once.

    Raises:
        SpecError, GenerationError: a table is bad, or two tables use one name.
    """
    found: dict[str, Struct] = {}
    for path in sorted((templates / "structs").glob("*.yaml")):
        for name, entry in load_structs(path).items():
            if name in found:
                raise _refuse(name, f"declared again in {path.name}", "Give each struct its own name.")
            found[name] = entry
    return found

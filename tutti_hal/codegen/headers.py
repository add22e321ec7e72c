"""The three headers of a vendor: the contract (the same text for all), the vendor's macros, its lowerings."""

from __future__ import annotations

import re
import textwrap
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tutti_hal.codegen import text
from tutti_hal.codegen.structs import load_all
from tutti_hal.spec import Primitive, Spec

if TYPE_CHECKING:
    from tutti_hal.record import Arch, Record


@dataclass(frozen=True)
class SharedType:
    """One opaque type of cuda_like.h: its name, bits of an element, elements, what it is for, a pointer's name."""

    name: str
    bits: int
    count: int
    about: str
    pointer: str

    @property
    def size(self) -> int:
        """Bytes; also the alignment."""
        return self.bits // 8 * self.count


SHARED_TYPES = (
    SharedType("tt_word32", 32, 1, "A 32-bit word.", "word"),
    SharedType("tt_word64", 64, 1, "A 64-bit word.", "word"),
    SharedType(
        "tt_quad", 32, 4, "Four 32-bit words, moved by one vector access; they may become visible separately.", "quad"
    ),
    SharedType("tt_mmio32", 32, 1, "A 32-bit device register.", "reg"),
)
_OPAQUE = re.compile(rf"(const )?({'|'.join(shared.name for shared in SHARED_TYPES)}) \*")

#: Names of cuda_like.h and of the vendor header that are neither primitives nor capabilities.
_EXTRA_NAMES = frozenset(
    {
        *(shared.name for shared in SHARED_TYPES),
        "tt_u32x4",
        "tt_mask",
        "tt_is_shared",
        "tt_address_as",
        "tt_block_threads",
        "tt_thread_rank",
        "tt_wave_index",
        "tt_global_index_x",
        "tt_global_size_x",
        "TT_WAVE_WIDTH",
    }
)


def known_names(spec: Spec, templates: Path) -> frozenset[str]:
    """Every ``tt_`` and ``TT_`` name that a kernel template may use."""
    names = {primitive.c_name for primitive in spec.primitives.values()}
    names.update(capability_macro(name) for name in spec.capabilities)
    names.update(load_all(templates))
    return frozenset(names | _EXTRA_NAMES)


def capability_macro(capability: str) -> str:
    """The name of a capability in C: ``wave.ballot`` -> ``TT_HAS_WAVE_BALLOT``."""
    return "TT_HAS_" + re.sub(r"\W", "_", capability).upper()


def headers(record: Record, arch: Arch, spec: Spec, run: Callable[[str, Mapping[str, Any]], str]) -> dict[str, str]:
    """Relative path -> text of each header of one arch.

    Args:
        record: the vendor's record.
        arch: one of its archs.
        spec: the contract.
        run: renders one layer template with the words given.

    Raises:
        GenerationError: a lowering or a layer template does not render.
    """
    layer = {"vendor": record.vendor, "arch": arch}
    functions = [
        _definition(primitive, body)
        for primitive in spec.primitives.values()
        if primitive.kind == "function" and (body := record.lower(primitive, arch)) is not None
    ]
    texts = {
        "cuda_like.h": run("layers/cuda_like.h.j2", _contract_words(spec)),
        f"gpu_vendor/{record.vendor}.h": run("layers/vendor.h.j2", layer | _vendor_words(record, arch, spec)),
        f"gpu_vendor/{record.vendor}_primitives.cuh": run("layers/primitives.cuh.j2", layer | {"functions": functions}),
    }
    return {name: content.strip("\n") + "\n" for name, content in texts.items()}


def _contract_words(spec: Spec) -> dict[str, Any]:
    families = []
    for members in spec.families.values():
        first = members[0]
        if first.kind != "function":
            continue
        grouped: dict[str | None, list[str]] = {}
        for member in members:
            grouped.setdefault(member.capability, []).append(_signature(member) + ";")
        families.append(
            {
                "comment": text.comment(f"{first.contract} Never: {first.never[:1].lower()}{first.never[1:]}"),
                "groups": [
                    {"guard": capability_macro(capability) if capability else "", "declarations": declarations}
                    for capability, declarations in grouped.items()
                ],
            }
        )
    return {"families": families, "shared_types": SHARED_TYPES}


def _vendor_words(record: Record, arch: Arch, spec: Spec) -> dict[str, Any]:
    lowered = [(p, record.lower(p, arch)) for p in spec.primitives.values() if p.kind == "macro"]
    return {
        "detection": " || ".join(f"defined({name})" for name in record.detection.macros),
        "excludes": " || ".join(f"defined({name})" for name in record.detection.excludes),
        "defines": dict(arch.defines),
        "prelude": record.device_prelude.strip("\n"),
        "capabilities": [
            (capability_macro(name), int(arch.capabilities[name]))
            for name, capability in spec.capabilities.items()
            if capability.scope == "arch"
        ],
        "mask_bits": arch.mask_bits if arch.capabilities["wave.ballot"] else 0,
        "macros": [_macro(primitive, expansion) for primitive, expansion in lowered if expansion is not None],
    }


def declare(ctype: str, name: str) -> str:
    """A parameter as C writes it."""
    return f"{ctype}{'' if ctype.endswith('*') else ' '}{name}"


def _signature(primitive: Primitive, rename: Mapping[str, str] | None = None) -> str:
    names = rename or {}
    params = [declare(p.ctype, names.get(p.name, p.name)) for p in primitive.params]
    return text.listed(f"TT_DEVICE TT_INLINE {declare(primitive.returns, primitive.c_name)}(", params, ")")


def _definition(primitive: Primitive, body: str) -> str:
    """A primitive as a function. In its body a pointer to an opaque type is a plain pointer of the same name."""
    opened = []
    rename: dict[str, str] = {}
    for param in primitive.params:
        match = _OPAQUE.fullmatch(param.ctype)
        if match:
            shared = next(shared for shared in SHARED_TYPES if shared.name == match[2])
            rename[param.name] = shared.pointer
            opened.append(f"{match[1] or ''}uint{shared.bits}_t *{param.name} = tt_raw::of({shared.pointer});")
    return text.function(_signature(primitive, rename), "\n".join([*opened, textwrap.dedent(body)]))


def _macro(primitive: Primitive, expansion: str) -> str:
    params = f"({', '.join(p.name for p in primitive.params)})" if primitive.params else ""
    lines = [line.rstrip() for line in expansion.strip("\n").split("\n")]
    if primitive.id == "attribute.shared":
        # What the lanes of a block share is reached by primitives alone, as all shared memory is.
        lines.insert(0, 'static_assert(tt_is_shared<type>::value, "TT_SHARED holds opaque words only");')
    name = f"#define {primitive.c_name}{params}"
    return text.continued([f"{name} {lines[0]}".rstrip()] if len(lines) == 1 else [name, *lines])

"""Kernels made twice: through the header generated for CUDA, and in plain CUDA; and what a compiler makes of them.

``shim_unit`` and ``plain_unit`` have one kernel a primitive. ``twin_of`` is a rendered unit in which each use of the
generated header is put in plain words from :mod:`tests.isa.plain_cuda`, by substitution in its text.
"""

from __future__ import annotations

import re
import shutil
import struct
import subprocess
from collections import Counter
from collections.abc import Callable, Collection, Iterable
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.isa import plain_cuda as plain
from tutti_hal.spec import Parameter, Primitive

#: A section without bytes in the file, and where an ELF file's header says how its sections lie.
_NO_BITS, _SECTIONS_AT, _SECTION_SIZES_AT = 8, 40, 58

_INCLUDE = '#include "gpu_vendor/cuda_primitives.cuh"'
_INSTRUCTION = re.compile(r"^\s+/\*[0-9a-f]{4,6}\*/\s+(?:@!?U?P\w+\s+)?([A-Z][\w.]*)", re.MULTILINE)


# ---- one kernel a primitive ----


def kernel_name(primitive: str, form: str = "") -> str:
    """The kernel that calls one primitive in one form."""
    return "k_" + primitive.replace(".", "_") + form


def shim_unit(primitives: Iterable[Primitive]) -> str:
    """A unit that calls each primitive through the generated header."""
    lines = [_INCLUDE]
    for one in primitives:
        if one.kind == "macro":
            lines.append(plain.MACROS[one.id][0].replace("NAME", kernel_name(one.id)))
        else:
            lines += _kernels(one, one.c_name, one.c_name, _SHIM)
    return "\n".join(lines) + "\n"


def plain_unit(primitives: Iterable[Primitive]) -> str:
    """The same kernels in plain CUDA."""
    lines = ["#include <cstdio>"]
    for one in primitives:
        if one.kind == "macro":
            lines.append(plain.MACROS[one.id][1].replace("NAME", kernel_name(one.id)))
            continue
        lines.append(_function(one, "plain_" + one.c_name))
        if one.id in plain.CLASSIC:
            lines.append(_function(one, "classic_" + one.c_name, plain.CLASSIC[one.id]))
        lines += _kernels(one, "plain_" + one.c_name, "classic_" + one.c_name, _PLAIN)
    return "\n".join(lines) + "\n"


@dataclass(frozen=True)
class _Dialect:
    """How the arguments of a call are written.

    Attributes:
        quad: the type of four words.
        pointer: a type of the contract -> the type of a kernel's parameter.
        at: a type of the contract -> the address that was read from memory, as a pointer.
    """

    quad: str
    pointer: Callable[[str], str]
    at: Callable[[str], str]


def _kernels(one: Primitive, call: str, classic: str, words: _Dialect) -> list[str]:
    """The kernels of one primitive.

    An address is read from memory, as the ring has all of its: the compiler cannot tell where it leads. An atomic has
    two kernels more: one drops the result, one is given the address as the kernel's own parameter.
    """
    lines = [_kernel(one, kernel_name(one.id), call, words)]
    if one.id in plain.CLASSIC:
        lines.append(_kernel(one, kernel_name(one.id, "_dropped"), call, words, dropped=True))
        lines.append(_kernel(one, kernel_name(one.id, "_known"), classic, words, known=True))
    return lines


def _kernel(
    one: Primitive, name: str, call: str, words: _Dialect, *, dropped: bool = False, known: bool = False
) -> str:
    params: list[str] = []
    given: list[str] = []
    for param in one.params:
        if param.ctype.endswith("*") and known:
            params.append(f"{words.pointer(param.ctype)}{param.name}")
            given.append(param.name)
        elif param.ctype.endswith("*"):
            params.append("const unsigned long long *at")
            given.append(words.at(param.ctype))
        elif param.ctype == "tt_u32x4":
            parts = [f"{param.name}_{part}" for part in "xyzw"]
            params += [f"unsigned int {part}" for part in parts]
            given.append(f"{words.quad}{{{', '.join(parts)}}}")
        else:
            params.append(f"{_plain_type(param.ctype)} {param.name}")
            given.append(param.name)
    body = f"{call}({', '.join(given)})"
    if one.returns == "tt_u32x4":
        params.append("unsigned int *out")
        body = f"const auto found = {body}; out[0] = found.x; out[1] = found.y; out[2] = found.z; out[3] = found.w"
    elif one.returns != "void" and not dropped:
        params.append(f"{_plain_type(one.returns)} *out")
        body = f"*out = {body}"
    return f'extern "C" __global__ void {name}({", ".join(params)}) {{ {body}; }}'


def _function(one: Primitive, name: str, expression: str = "") -> str:
    """A plain spelling as a function."""
    expression = expression or plain.EXPRESSIONS.get(one.id, "")
    body = f"{'' if one.returns == 'void' else 'return '}{expression};" if expression else plain.BODIES[one.id]
    params = ", ".join(_plain_parameter(param) for param in one.params)
    return f"__device__ __forceinline__ {_plain_type(one.returns)} {name}({params}) {{ {body} }}"


def _plain_parameter(param: Parameter) -> str:
    const = "const " if param.ctype.startswith("const ") else ""
    return f"{const}{_plain_type(param.ctype)} {param.name}"


def _plain_type(ctype: str) -> str:
    return plain.TYPES.get(ctype.removeprefix("const "), ctype)


_SHIM = _Dialect(
    "tt_u32x4",
    lambda ctype: ctype,
    lambda ctype: f"tt_address_as<{ctype.removeprefix('const ').removesuffix(' *')}>(*at)",
)
_PLAIN = _Dialect("uint4", _plain_type, lambda ctype: f"reinterpret_cast<{_plain_type(ctype)}>(*at)")


# ---- a rendered unit in plain words ----


def twin_of(source: str, primitives: Iterable[Primitive]) -> str:
    """A rendered unit without the generated header.

    Shared words become plain integers, attributes the words of CUDA, ``tt_address_as`` a cast. What is an expression in
    the table stands where the call stood; what is none is a function of the call's name.
    """
    head = ["#include <cstdint>", "#include <cstdio>"]
    for one in primitives:
        if one.kind != "function":
            continue
        if one.id in plain.EXPRESSIONS:
            # What the contract asks for more than the plain spelling does is named in DEARER; here both have it.
            expression = plain.AS_CONTRACTED.get(one.id, plain.EXPRESSIONS[one.id])
            for param in one.params:
                expression = re.sub(rf"\b{param.name}\b", f"({param.name})", expression)
            head.append(f"#define {one.c_name}({', '.join(param.name for param in one.params)}) ({expression})")
        else:
            head.append(_function(one, one.c_name))
    text = re.sub(r"template <> struct tt_is_shared<\w+> \{.*?\};", "", source, flags=re.DOTALL)
    text = re.sub(r"tt_address_as<((?:const )?\w+)>\(", r"reinterpret_cast<\1 *>(", text)
    for word, means in plain.WORDS.items():
        text = re.sub(rf"\b{word}\b", means, text)
    assert _INCLUDE in text
    return text.replace(_INCLUDE, "\n".join(head))


# ---- what the compiler makes of a unit ----


@dataclass(frozen=True)
class Compiled:
    """A cubin.

    Attributes:
        path: its file.
        sections: name -> bytes; zeros for one that has none in the file.
    """

    path: Path
    sections: dict[str, bytes]

    def made_of(self, kernel: str) -> tuple[bytes, ...]:
        """A kernel's instructions, encoded, with what the scheduler is told of each; its bounds; its block's memory."""
        kinds = ("text", "nv.info", "nv.shared")
        text, *others = (self.sections.get(f".{kind}.{kernel}", b"") for kind in kinds)
        assert text, f"{kernel} is not in {self.path.name}"
        return text, *others


def nvcc() -> str:
    """The compiler.

    Skips the test where there is none.
    """
    found = shutil.which("nvcc") or "/usr/local/cuda/bin/nvcc"
    if not Path(found).exists():
        pytest.skip("nvcc is not on this machine: nothing can be compiled for CUDA here")
    return found


def compile_unit(unit: Path, arch: str, flags: Collection[str]) -> Compiled:
    """The cubin of a unit, whose headers lie beside it."""
    output = unit.with_suffix(f".{arch}.cubin")
    command = [nvcc(), *flags, "-I", str(unit.parent), str(unit), "-o", str(output)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=300, check=False)
    assert done.returncode == 0, done.stderr[:2000]
    return Compiled(output, _sections(output.read_bytes()))


def _sections(image: bytes) -> dict[str, bytes]:
    (at,) = struct.unpack_from("<Q", image, _SECTIONS_AT)
    size, count, names = struct.unpack_from("<3H", image, _SECTION_SIZES_AT)
    rows = [struct.unpack_from("<IIQQQQ", image, at + row * size) for row in range(count)]

    def name(offset: int) -> str:
        since = rows[names][4] + offset
        return image[since : image.index(b"\0", since)].decode()

    return {name(row[0]): bytes(row[5]) if row[1] == _NO_BITS else image[row[4] : row[4] + row[5]] for row in rows}


def opcodes(listing: str, kernel: str) -> Counter[str]:
    """How many there are of each instruction of a kernel; what fills up its end is left out."""
    text = listing.partition(f"\n.text.{kernel}:\n")[2].partition("\n\t.section")[0]
    found = Counter(_INSTRUCTION.findall(text))
    assert found["EXIT"], f"{kernel} is not in the listing"
    del found["NOP"]
    return found

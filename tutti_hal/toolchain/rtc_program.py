"""A run-time compiler with the field's call shapes, as a program: ``python -m tutti_hal.toolchain.rtc_program``.

It runs in a process of its own: a compiler that never ends, or that dies, ends no one else. The unit goes to the
library as one text, with the headers that lie beside it put in where it includes them; the C headers that no run-time
compiler has are given to it by name.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from tutti_hal.errors import BuildError

_INCLUDE = re.compile(r'^#include "([^"]+)"\s*$', re.MULTILINE)

#: The parts of <stdint.h> that rendered code uses. 64 bits are long long, as where a run-time compiler has them itself.
_STDINT = """#pragma once
typedef signed char int8_t;
typedef unsigned char uint8_t;
typedef short int16_t;
typedef unsigned short uint16_t;
typedef int int32_t;
typedef unsigned int uint32_t;
typedef long long int64_t;
typedef unsigned long long uint64_t;
typedef unsigned long uintptr_t;
typedef unsigned long size_t;
"""
_HEADERS = {"stdint.h": _STDINT, "cstdint": _STDINT, "stddef.h": _STDINT, "cstddef": _STDINT}


def flattened(file: Path, seen: set[Path] | None = None) -> str:
    """A unit's text with every header that lies beside it put in once, in place of its first inclusion."""
    done = set() if seen is None else seen
    done.add(file.resolve())

    def put(match: re.Match[str]) -> str:
        header = (file.parent / match[1]).resolve()
        if not header.is_file():
            return match[0]
        return "" if header in done else flattened(header, done)

    return _INCLUDE.sub(put, file.read_text(encoding="utf-8"))


class _Library:
    """The functions of one run-time compiler, under one prefix."""

    def __init__(self, path: str, prefix: str) -> None:
        import cffi

        self.ffi: Any = cffi.FFI()
        self.prefix = prefix
        self.ffi.cdef(
            f"int {prefix}Version(int *, int *);"
            f"int {prefix}CreateProgram(void **, const char *, const char *, int, const char **, const char **);"
            f"int {prefix}CompileProgram(void *, int, const char **);"
            f"int {prefix}GetProgramLogSize(void *, size_t *);int {prefix}GetProgramLog(void *, char *);"
            f"int {prefix}GetCodeSize(void *, size_t *);int {prefix}GetCode(void *, char *);"
            f"int {prefix}GetFatBinSize(void *, size_t *);int {prefix}GetFatBin(void *, char *);"
            f"int {prefix}GetBitcodeSize(void *, size_t *);int {prefix}GetBitcode(void *, char *);"
            f"int {prefix}DestroyProgram(void **);const char *{prefix}GetErrorString(int);"
        )
        self.library: Any = self.ffi.dlopen(path)

    def call(self, name: str, *args: Any) -> int:
        return int(getattr(self.library, self.prefix + name)(*args))

    def demand(self, name: str, *args: Any) -> None:
        code = self.call(name, *args)
        if code:
            try:
                text = self.ffi.string(getattr(self.library, self.prefix + "GetErrorString")(code)).decode()
            except AttributeError:
                text = "no text"
            raise BuildError(f"call {self.prefix}{name}", f"it returned {code} ({text})", "See the vendor's manual.")

    def text(self, program: Any, what: str) -> bytes:
        size = self.ffi.new("size_t *")
        self.demand(f"Get{what}Size", program, size)
        data = self.ffi.new("char[]", max(1, size[0]))
        self.demand(f"Get{what}", program, data)
        return bytes(self.ffi.buffer(data, size[0]))


def main(argv: Sequence[str]) -> int:
    """Compile one unit: ``LIBRARY PREFIX CODE UNIT OUTPUT FLAG...``; or ``LIBRARY PREFIX --version``."""
    library = _Library(argv[0], argv[1])
    ffi = library.ffi
    if argv[2] == "--version":
        numbers = ffi.new("int[2]")
        library.demand("Version", numbers, numbers + 1)
        print(f"{numbers[0]}.{numbers[1]}")
        return 0
    code, unit, output, flags = argv[2], Path(argv[3]), Path(argv[4]), argv[5:]
    program = ffi.new("void **")
    texts = [ffi.new("char[]", text.encode()) for text in _HEADERS.values()]
    names = [ffi.new("char[]", name.encode()) for name in _HEADERS]
    source = ffi.new("char[]", flattened(unit).encode())
    library.demand(
        "CreateProgram",
        *(program, source, ffi.new("char[]", unit.name.encode()), len(names)),
        *(ffi.new("char *[]", texts), ffi.new("char *[]", names)),
    )
    words = [ffi.new("char[]", flag.encode()) for flag in flags]
    failed = library.call("CompileProgram", program[0], len(words), ffi.new("char *[]", words) if words else ffi.NULL)
    sys.stderr.write(library.text(program[0], "ProgramLog").rstrip(b"\0").decode(errors="replace"))
    if not failed:
        output.write_bytes(library.text(program[0], code))
    library.call("DestroyProgram", program)
    return 1 if failed else 0


if __name__ == "__main__":
    try:
        sys.exit(main(sys.argv[1:]))
    except (BuildError, OSError, AttributeError) as error:
        print(error, file=sys.stderr)
        sys.exit(2)

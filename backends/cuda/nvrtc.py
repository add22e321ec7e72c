"""NVRTC behind the face of an offline compiler: ``python -m tutti_hal.backends.cuda.nvrtc --arch sm_90 ...``.

A process of its own, because importing the bindings costs a quarter of a second, and so that a compiler that crashes or
hangs does not take the caller with it. Prints what ptxas and the compiler said.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from importlib.util import find_spec
from pathlib import Path

#: What the rendered units include of a C++ library; NVRTC brings no headers of its own.
_HEADERS = {
    "stdint.h": """#pragma once
typedef signed char int8_t;
typedef unsigned char uint8_t;
typedef short int16_t;
typedef unsigned short uint16_t;
typedef int int32_t;
typedef unsigned int uint32_t;
typedef long int64_t;
typedef unsigned long uint64_t;
typedef long intptr_t;
typedef unsigned long uintptr_t;
// The front end has no such builtin; this is how it spells an address that is a constant.
#define __builtin_offsetof(type, member) __INTADDR__(&(((type *)0)->member))
""",
    "cstdint": "#pragma once\n#include <stdint.h>\n",
    "cstdio": "#pragma once\n",  # printf is built in
}

_TO_GET = 'To get it: pip install "tutti-hal[cuda]", or put a toolkit with nvcc on PATH.'


def installed() -> bool:
    """Whether the bindings are installed. They are not imported."""
    try:
        return find_spec("cuda.core") is not None and find_spec("cuda.bindings") is not None
    except ModuleNotFoundError:
        return False


def compile_unit(unit: Path, arch: str, includes: list[str], output: Path) -> str:
    """Compile a rendered unit to a cubin; returns what the compiler and ptxas printed.

    Raises:
        Exception: whatever the bindings raise where NVRTC is missing or refuses the unit; it differs by version.
    """
    from cuda.core import Program, ProgramOptions  # type: ignore[import-not-found,import-untyped,unused-ignore]

    class Log(list[str]):
        """What is printed, whichever way the bindings write it."""

        def write(self, text: str | bytes) -> int:
            self.append(text if isinstance(text, str) else text.decode(errors="replace"))
            return len(text)

    log = Log()
    with tempfile.TemporaryDirectory() as folder:
        for name, text in _HEADERS.items():
            Path(folder, name).write_text(text, encoding="utf-8")
        options = ProgramOptions(
            name=str(unit),
            arch=arch,
            std="c++20",
            ptxas_options=["-v"],
            include_path=[folder, *includes],
        )
        code = Program(unit.read_text(encoding="utf-8"), "c++", options).compile("cubin", logs=log).code
    output.write_bytes(bytes(code))
    return "".join(log)


def version() -> str:
    """What a toolchain prints of itself, in the words of nvcc: ``release 13.0, ...``.

    Raises:
        Exception: NVRTC cannot be loaded.
    """
    from cuda.bindings import nvrtc  # type: ignore[import-not-found,import-untyped,unused-ignore]

    _, major, minor = nvrtc.nvrtcVersion()
    return f"NVRTC, release {major}.{minor}"


def main(argv: list[str] | None = None) -> int:
    """The command line. 0, or 1 with the compiler's words on standard error."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--version", action="store_true")
    parser.add_argument("--arch")
    parser.add_argument("-I", dest="includes", action="append", default=[])
    parser.add_argument("-o", dest="output", type=Path)
    parser.add_argument("unit", type=Path, nargs="?")
    given = parser.parse_args(argv)
    try:
        found = version()
    except Exception as error:  # the bindings raise other classes in each version
        print(f"NVRTC cannot be loaded: {type(error).__name__}: {error}. {_TO_GET}", file=sys.stderr)
        return 1
    try:
        if given.version:
            print(found)
        else:
            print(compile_unit(given.unit, given.arch, given.includes, given.output), file=sys.stderr)
    except Exception as error:
        print(f"{type(error).__name__}: {error}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())

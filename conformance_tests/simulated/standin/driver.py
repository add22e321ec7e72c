"""The drivers: ``mcc``, ``mxcc``, ``cucc``, ``hipcc``, ``clang++`` of a simulated SDK."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from tutti_hal.conformance_tests.simulated.container import wrap
from tutti_hal.conformance_tests.simulated.standin.dialects import DIALECTS, Dialect
from tutti_hal.conformance_tests.simulated.standin.options import Options, Refused, parse
from tutti_hal.conformance_tests.simulated.standin.rewrite import module_source, refuse

#: As kernels of HOST are compiled: two places that ask for the active lanes stay two. One place stays one, and blocks
#: keep the order of the source: lanes that move together meet at a place, those that are behind first.
_FLAGS = (
    *("-std=gnu++20", "-fPIC", "-fvisibility=hidden", "-fno-exceptions", "-fno-rtti", "-fno-strict-aliasing"),
    *("-fno-crossjumping", "-fno-tree-tail-merge", "-fno-thread-jumps", "-fno-reorder-blocks", "-g1"),
)
#: Of code that was rewritten, and of words that other compilers know.
_QUIET = (
    *("-Wno-unknown-pragmas", "-Wno-unused-function", "-Wno-unused-parameter", "-Wno-attributes"),
    *("-Wno-unused-local-typedefs", "-Wno-volatile"),
)
_LIMIT_S = 300


def main(driver: str | Dialect, root: str, words: Sequence[str]) -> int:
    """Run a driver of the SDK at ``root``; its exit status. Prints as compilers do.

    Args:
        driver: the name of one of ours, or the dialect of an SDK that is offered from elsewhere.
        root: the SDK root.
        words: the command line behind the driver's name.
    """
    dialect = DIALECTS[driver] if isinstance(driver, str) else driver
    try:
        return _run(dialect, Path(root), parse(dialect, words))
    except Refused as error:
        print(f"{dialect.driver}: error: {error}", file=sys.stderr)
        return 1


def _run(dialect: Dialect, root: Path, options: Options) -> int:
    sdk = json.loads((root / "sdk.json").read_text(encoding="utf-8"))
    if options.version:
        print(dialect.version.format(sdk=sdk["sdk"]))
        return 0
    variable, other = dialect.platform
    if variable and os.environ.get(variable) != "amd" and shutil.which(other):
        raise Refused(f"{other} is on PATH and {variable} is not 'amd': the other vendor's compiler would be called")
    source = _input(options)
    arch = _arch(dialect, options, source, sdk)
    preprocess = _preprocess(dialect, root, options, source, arch, sdk)
    if options.stage in ("macros", "preprocess"):
        return _forward([*preprocess, *(["-dM"] if options.stage == "macros" else [])], options.output)
    if options.only != "device":
        raise Refused("the simulated compiler makes device code alone: ask for the device pass")
    text = _named(_named(_output(preprocess), source.parent, ""), root, "<sdk>/")
    foreign = _folders(root, sdk)
    refuse(dialect, tuple(int(part) for part in sdk["sdk"].split(".")), text, foreign)
    width = int(sdk["archs"][arch])
    module = module_source(dialect, text, foreign).replace("SIM_WIDTH", str(width))
    payload = _compile(options, module)
    if options.stage != "check":
        (options.output or Path("a.out")).write_bytes(wrap(dialect.vendor, arch, payload))
    return 0


def _input(options: Options) -> Path:
    if len(options.inputs) != 1:
        raise Refused("no input files" if not options.inputs else "one source at a time makes a module")
    if not options.inputs[0].is_file():
        raise Refused(f"no such file or directory: '{options.inputs[0]}'")
    return options.inputs[0]


def _arch(dialect: Dialect, options: Options, source: Path, sdk: Mapping[str, Any]) -> str:
    """The one arch of the compilation; the SDK's own where none was named."""
    if len(options.archs) > 1:
        raise Refused("one arch at a time makes a module that the simulated loader takes")
    arch = options.archs[0] if options.archs else str(sdk["arch"])
    ours = options.language in dialect.languages if options.language else source.suffix in dialect.suffixes
    if not ours:
        raise Refused(dialect.foreign.format(arch=arch) or f"'{options.language}' is not the language of this compiler")
    arch = str(sdk["arch"]) if arch == "native" else arch
    if arch not in sdk["archs"]:
        raise Refused(f"unknown arch '{arch}'; this compiler has {', '.join(sdk['archs'])}")
    return arch


def _macros(dialect: Dialect, only: str, arch: str, width: int) -> dict[str, str]:
    found = {**dialect.both, **(dialect.host if only == "host" else dialect.device)}
    digits = int("".join(one for one in arch if one.isdigit()) or "0") * dialect.number
    words = {"arch": arch, "number": str(digits), "wave": str(width)}
    return {name.format(**words): value.format(**words) for name, value in found.items()}


def _preprocess(
    dialect: Dialect, root: Path, options: Options, source: Path, arch: str, sdk: Mapping[str, Any]
) -> list[str]:
    width = int(sdk["archs"][arch])
    macros = _macros(dialect, options.only, arch, width)
    numbers = [int(part) for part in (*sdk["sdk"].split("."), "0", "0")[:3]]
    own = {
        "SIM_WAVE_WIDTH": str(width),
        "SIM_CLOCK_KHZ": f"{dialect.clock_khz}u",
        "SIM_SDK_NUMBER": str(numbers[0] * 10000 + numbers[1] * 100 + numbers[2]),
    }
    prelude = [] if options.only == "host" else [word for name in dialect.prelude for word in ("-include", name)]
    return [
        *(_compiler(), "-E", "-x", "c++", *_FLAGS, options.optimise),
        *(f"-D{name}={value}" for name, value in (*macros.items(), *own.items())),
        *(word for folder in _folders(root, sdk) for word in ("-I", folder)),
        *prelude,
        *options.preprocessing,
        str(source),
    ]


def _folders(root: Path, sdk: Mapping[str, Any]) -> tuple[str, ...]:
    """Where the compiler's own headers lie."""
    return str(root / "include"), str(Path(__file__).parents[1] / "device"), str(sdk["host_include"])


def _compiler() -> str:
    named = os.environ.get("TUTTI_HOST_CXX", "").split()
    found = next((path for name in (*named[-1:], "g++", "c++") if (path := shutil.which(name))), None)
    if found is None:
        raise Refused("no g++ is on PATH, of which the simulated compiler is made")
    return found


def _output(command: Sequence[str]) -> str:
    done = subprocess.run(command, capture_output=True, text=True, timeout=_LIMIT_S, check=False)
    sys.stderr.write(done.stderr)
    if done.returncode:
        raise Refused("the source cannot be preprocessed")
    return done.stdout


def _named(text: str, folder: Path, name: str) -> str:
    """Preprocessed text in which the files below a folder are named from it: where they lie is no content."""
    return re.sub(rf'^(# \d+ "){re.escape(str(folder))}/', rf"\1{name}", text, flags=re.MULTILINE)


def _forward(command: Sequence[str], output: Path | None) -> int:
    more = ["-o", str(output)] if output else []
    return subprocess.run([*command, *more], timeout=_LIMIT_S, check=False).returncode


def _compile(options: Options, module: str) -> bytes:
    """The HOST module of a rewritten source."""
    with tempfile.TemporaryDirectory(prefix="tutti-sim-") as folder:
        unit, made = Path(folder, "module.ii"), Path(folder, "module.so")
        unit.write_text(module, encoding="utf-8")
        plain = (f"-ffile-prefix-map={folder}=.", f"-fdebug-prefix-map={Path.cwd()}=.")
        command = [_compiler(), *_FLAGS, options.optimise, *options.warnings, *_QUIET, *plain]
        done = subprocess.run(
            [*command, "-shared", "-fpreprocessed", "-x", "c++", str(unit), "-o", str(made)],
            capture_output=True,
            text=True,
            timeout=_LIMIT_S,
            check=False,
        )
        sys.stderr.write(done.stderr)
        if done.returncode:
            raise Refused("the source cannot be compiled")
        return made.read_bytes()

"""Builds the C library: the header's functions, each a call of Python, with the interpreter linked in."""

from __future__ import annotations

import contextlib
import io
import os
import re
import shlex
import shutil
import subprocess
import sys
import sysconfig
import tempfile
from dataclasses import dataclass
from pathlib import Path

from tutti_hal.errors import BuildError, CApiUnbuildable, CompilerMissing
from tutti_hal.native import declarations

_HERE = Path(__file__).parent
HEADER = _HERE / "tutti_storage.h"
#: Of a thread's last error, in bytes.
_FAULT = "typedef struct tutti_fault { char id[64]; char text[8128]; } tutti_fault;"
#: What the front writes by itself.
_OWN = ("version", "error_id", "error")
_DOING = "build the C library of the storage runtime"
_INIT = """
from tutti_hal.storage.c_api.calls import install
from _tutti_storage import ffi
install(ffi)
"""


@dataclass(frozen=True)
class Built:
    """What `build` wrote.

    Attributes:
        header: ``tutti_storage.h``.
        library: ``libtutti_storage.so``.
        package: ``tutti_storage.pc``, for pkg-config.
        flags: what a C compiler needs to be told.
    """

    header: Path
    library: Path
    package: Path
    flags: str


@dataclass(frozen=True)
class Function:
    """A function of the header.

    Attributes:
        name: without ``tutti_storage_``.
        parameters: as the header writes them.
    """

    name: str
    parameters: str

    @property
    def names(self) -> list[str]:
        """Of its parameters."""
        return [re.findall(r"\w+", one)[-1] for one in self.parameters.split(",")]


def functions(header: str) -> list[Function]:
    """The functions of the header that Python stands behind, in order."""
    found = re.findall(r"TUTTI_STORAGE_API tutti_status tutti_storage_(\w+)\(([^)]*)\);", header)
    return [Function(name, " ".join(parameters.split())) for name, parameters in found]


def types(header: str) -> str:
    """The part of the header that declares types and numbers, as cffi reads it."""
    before_asserts = header[: header.index("#if defined(__cplusplus) && __cplusplus")]
    return declarations(before_asserts)


def inner_declarations(header: str) -> str:
    """The Python functions behind the header's, in C: the same, and where to say what went wrong."""
    lines = [f"int32_t py_{one.name}({one.parameters}, tutti_fault *fault);" for one in functions(header)]
    return "\n".join([*lines, "int32_t py_end(tutti_fault *fault);"])


def _front(header: str) -> str:
    declared = inner_declarations(header).replace("int32_t py_", "static int32_t py_")
    bodies = []
    for one in functions(header):
        after = "\n    if (said == TUTTI_STATUS_OK)\n        pthread_once(&ending, end_once);"
        bodies.append(
            f"tutti_status tutti_storage_{one.name}({one.parameters}) {{\n"
            "    tutti_status said = begin();\n"
            "    if (said == TUTTI_STATUS_OK)\n"
            f"        said = end(py_{one.name}({', '.join(one.names)}, &last));"
            f"{after if one.name == 'create' else ''}\n    return said;\n}}\n"
        )
    start = "#define TUTTI_STORAGE_BUILDING\n#include <stdint.h>\n#include <stddef.h>\n"
    body = (_HERE / "front.c").read_text(encoding="utf-8")
    # cffi's own start of Python comes later in the file than this.
    early = "static int cffi_start_python(void);"
    return "\n".join([start, header, _FAULT, early, declared, body, *bodies])


def source(header: str) -> str:
    """The library's C source: cffi's, with the front in it. ``python.c`` is beside it."""
    import cffi

    ffi = cffi.FFI()
    ffi.cdef(f"{types(header)}\n{_FAULT}")
    ffi.cdef(f'extern "Python" {{\n{inner_declarations(header)}\n}}')
    ffi.embedding_api("")
    ffi.embedding_init_code(_INIT)
    ffi.set_source("_tutti_storage", _front(header))
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "source.c"
        with contextlib.redirect_stdout(io.StringIO()):
            ffi.emit_c_code(str(path))
        return path.read_text(encoding="utf-8")


def build(folder: Path) -> Built:
    """Writes header, library and package file for the Python that runs this. Blocks for seconds.

    The library finds this Python, and the environment it is in, by their paths: it belongs to this installation.
    Nothing that was there is replaced before all of it is made.

    Args:
        folder: where to; made if it is not there.

    Raises:
        CApiUnbuildable: there is no shared libpython or no Python.h, or the folder cannot be written.
        CompilerMissing: no C compiler.
        BuildError: it refuses the source.
    """
    compiler = _compiler()
    library, include = _shared_python(), _include()
    header = HEADER.read_text(encoding="utf-8")
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=folder) as inside:
            place = Path(inside)
            (place / "library.c").write_text(source(header), encoding="utf-8")
            command = [
                *compiler,
                *("-std=gnu11", "-O2", "-shared", "-fPIC", "-fvisibility=hidden", "-pthread"),
                f'-DTUTTI_PYTHON="{_quoted(sys.executable)}"',
                *("-I", str(include)),
                *("-o", str(place / "libtutti_storage.so"), str(place / "library.c"), str(_HERE / "python.c")),
                *(str(library), f"-Wl,-rpath,{library.parent}", "-Wl,-soname,libtutti_storage.so"),
            ]
            done = subprocess.run(command, capture_output=True, text=True, check=False)
            if done.returncode:
                raise BuildError(_DOING, done.stderr, f"The command was: {shlex.join(command)}.")
            (place / "tutti_storage.h").write_text(header, encoding="utf-8")
            where = folder.resolve()
            flags = f"-I{where} -L{where} -Wl,-rpath,{where} -ltutti_storage"
            (place / "tutti_storage.pc").write_text(_package(where), encoding="utf-8")
            names = ("tutti_storage.h", "libtutti_storage.so", "tutti_storage.pc")
            made = [(place / name).replace(folder / name) for name in names]
    except OSError as error:
        raise CApiUnbuildable(_DOING, str(error), "Name a folder that can be written.") from error
    return Built(made[0], made[1], made[2], flags)


def _package(where: Path) -> str:
    from tutti_hal import __version__

    return (
        f"prefix={where}\n\n"
        "Name: tutti_storage\n"
        "Description: GPU-driven storage: targets, memory and requests\n"
        f"Version: {__version__}\n"
        "Cflags: -I${prefix}\n"
        "Libs: -L${prefix} -Wl,-rpath,${prefix} -ltutti_storage\n"
    )


def _quoted(path: str) -> str:
    return path.replace("\\", "\\\\").replace('"', '\\"')


def _compiler() -> list[str]:
    given = os.environ.get("CC")
    if given:
        return shlex.split(given)
    for name in ("cc", "gcc", "clang"):
        if shutil.which(name):
            return [name]
    raise CompilerMissing(_DOING, "no cc, gcc or clang in PATH", "sudo apt-get install gcc, or set CC.")


def _include() -> Path:
    folder = Path(sysconfig.get_paths()["include"])
    if not (folder / "Python.h").is_file():
        raise CApiUnbuildable(_DOING, f"no Python.h in {folder}", f"sudo apt-get install {_python()}-dev.")
    return folder


def _python() -> str:
    return f"python{sys.version_info.major}.{sys.version_info.minor}"


def _shared_python() -> Path:
    """The shared library of the interpreter that runs this."""
    name = f"lib{_python()}{getattr(sys, 'abiflags', '')}.so"
    variables = [sysconfig.get_config_var(key) for key in ("LIBDIR", "LIBPL")]
    folders = [Path(one) for one in variables if one] + [Path(sys.base_prefix) / "lib"]
    multiarch = sysconfig.get_config_var("MULTIARCH")
    if multiarch:
        folders += [folder / multiarch for folder in folders]
    for folder in folders:
        for found in (folder / name, folder / f"{name}.1.0"):
            if found.is_file():
                return found
    raise CApiUnbuildable(
        _DOING,
        f"no {name} in {', '.join(map(str, dict.fromkeys(folders)))}: this Python has no shared library of itself",
        f"sudo apt-get install lib{_python()}-dev, or build Python with --enable-shared.",
    )

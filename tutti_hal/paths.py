"""Where the installed package keeps what is not Python: headers, templates, the native library.

Works the same from a wheel and from an editable install, where the package is spread over several folders.
"""

from __future__ import annotations

import os
from importlib.resources import files
from pathlib import Path

import tutti_hal
from tutti_hal.errors import NativeError


def package_file(*parts: str) -> Path:
    """The path of a file or folder inside the installed package.

    Raises:
        NativeError: nothing of that name is installed.
    """
    path = Path(str(files("tutti_hal").joinpath(*parts)))
    if path.exists():
        return path
    # A source tree, as the build that pins a profile runs in, spreads the package without an importer that says so.
    for root in tutti_hal.__path__:
        path = Path(root, *parts)
        if path.exists():
            return path
    raise NativeError(
        f"find {'/'.join(parts)} in the installed package",
        "it is not there",
        "Install the package again: pip install .",
    )


#: Names another build of the native library, say one with sanitizers; for development.
LIBRARY_VARIABLE = "TUTTI_NATIVE_LIBRARY"


def native_library() -> Path:
    """The shared library with the engine, the HOST runtime and the software controller.

    Raises:
        NativeError: it is not installed, or the variable :data:`LIBRARY_VARIABLE` names no file.
    """
    named = os.environ.get(LIBRARY_VARIABLE)
    if not named:
        return package_file("lib", "libtutti_native.so")
    if not Path(named).is_file():
        raise NativeError(
            f"load the native library that {LIBRARY_VARIABLE} names",
            f"no file {named}",
            "Unset the variable, or mend it.",
        )
    return Path(named)


def include_dir() -> Path:
    """The folder to pass as ``-I`` so that ``#include "tutti/..."`` resolves."""
    return package_file("include")


def templates_dir() -> Path:
    """The folder of the kernel templates."""
    return package_file("kernels_templates")

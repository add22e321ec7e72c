"""The native library, loaded once, with its C declarations read from the installed headers.

The headers are the contract; nothing is declared twice. They are written so that, once the preprocessor lines and the
export mark are taken out, what remains is what cffi's parser understands.
"""

from __future__ import annotations

import re
from functools import cache
from typing import Any

from tutti_hal.errors import NativeError
from tutti_hal.paths import include_dir, native_library

#: The version of the C ABI that this package was written for (``TT_ABI_VERSION``).
ABI_VERSION = 1

#: Every header of the C ABI that Python calls into, in the order of their includes.
_HEADERS = ("abi.h", "port.h", "engine.h", "host_runtime.h", "controller.h", "small_drive.h", "checksum.h", "files.h")


def declarations(text: str) -> str:
    """The part of a header that declares: no comments, no preprocessor, no export marks, no linkage braces."""
    text = re.sub(r"/\*.*?\*/", "", text, flags=re.S)
    text = re.sub(r"#ifdef __cplusplus\n.*?#endif\n", "", text, flags=re.S)
    text = re.sub(r"^[ \t]*#(?:\\\n|[^\n])*$", "", text, flags=re.M)
    return text.replace("TT_EXPORT ", "")


@cache
def ffi_and_library() -> tuple[Any, Any]:
    """The cffi ``FFI`` and the opened library.

    Loading takes a few milliseconds, once per process; calls release the GIL. Thread safe.

    Raises:
        NativeError: the library is missing, cannot be loaded, or is of another ABI version.
    """
    import cffi

    ffi = cffi.FFI()
    for name in _HEADERS:
        header = include_dir() / "tutti" / name
        if header.exists():
            ffi.cdef(declarations(header.read_text(encoding="utf-8")))
    path = native_library()
    try:
        library: Any = ffi.dlopen(str(path))
    except OSError as error:
        raise NativeError(f"load {path}", str(error), "Install the package again: pip install .") from error
    found = int(library.tt_abi_version())
    if found != ABI_VERSION:
        raise NativeError(
            f"load {path}",
            f"ABI version {found}, wanted {ABI_VERSION}",
            "Install the package again: pip install .",
        )
    return ffi, library

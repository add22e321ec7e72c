"""Loading and unloading kernel modules in the guest, by system calls: the host's userland need not have kmod."""

from __future__ import annotations

import ctypes
import errno
import os
import time
from pathlib import Path

# x86-64 system call numbers.
FINIT_MODULE = 313
DELETE_MODULE = 176


def _call(number: int, *words: object) -> None:
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.syscall(ctypes.c_long(number), *words):
        code = ctypes.get_errno()
        raise OSError(code, os.strerror(code))


def load(file: Path, parameters: str = "") -> None:
    """Insert a module; OSError with the kernel's number when it refuses."""
    with file.open("rb") as image:
        _call(FINIT_MODULE, ctypes.c_int(image.fileno()), ctypes.c_char_p(parameters.encode()), ctypes.c_int(0))


def unload(name: str, *, patience_s: float = 0.0) -> None:
    """Remove a module; OSError (EWOULDBLOCK while it is in use). With ``patience_s``, try again for so long."""
    deadline = time.monotonic() + patience_s
    while True:
        try:
            _call(DELETE_MODULE, ctypes.c_char_p(name.encode()), ctypes.c_int(os.O_NONBLOCK))
        except OSError as why:
            if why.errno not in (errno.EWOULDBLOCK, errno.EBUSY) or time.monotonic() >= deadline:
                raise
            time.sleep(0.05)
        else:
            return


def is_loaded(name: str) -> bool:
    """Whether the kernel has the module."""
    return Path("/sys/module", name, "refcnt").exists()


def users(name: str) -> int:
    """How often the module is held."""
    return int(Path("/sys/module", name, "refcnt").read_text())

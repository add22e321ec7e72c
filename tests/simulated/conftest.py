"""Simulated SDK roots and their libraries, made once a process."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from tutti_hal.conformance_tests.simulated import abi as abis
from tutti_hal.conformance_tests.simulated.abi import Abi
from tutti_hal.conformance_tests.simulated.root import make_root
from tutti_hal.paths import package_file

FOLDER = package_file("conformance_tests", "simulated")

#: Every version of every vendor that is simulated, with the default arch.
EVERY = [(vendor, sdk) for vendor in ("musa", "maca", "hip") for sdk in abis.versions(FOLDER / vendor)]


@dataclass(frozen=True)
class Opened:
    """A simulated SDK whose libraries are loaded, with their functions under the vendor's names."""

    abi: Abi
    root: Path
    ffi: Any
    libraries: tuple[Any, ...]

    def __getattr__(self, name: str) -> Any:
        """A function, from whichever library has it."""
        for library in self.libraries:
            if hasattr(library, name):
                return getattr(library, name)
        raise AttributeError(name)


@cache
def opened(vendor: str, sdk: str, arch: str) -> Opened:
    """A root's libraries through cffi, declared from the ABI's own signatures."""
    import cffi

    found = abis.load(FOLDER / vendor, sdk)
    root = make_root(FOLDER / vendor, arch, sdk)
    ffi = cffi.FFI()
    names = [found.errors.type, found.attribute_type, *(one.type for one in found.numbers.values() if one.type)]
    for name in names:
        ffi.cdef(f"typedef int {name};")
        ffi.cdef(f"enum {name} {{ {name}_any = 0, ... }};".replace(", ...", ", "))
    for text in found.types.values():
        ffi.cdef(text)
    for layout in found.structs:
        ffi.cdef(f"struct {layout.name} {{ char bytes[{layout.bytes}]; }};")
        if layout.typedef:
            ffi.cdef(f"typedef struct {layout.name} {layout.typedef};")
    for functions in found.functions.values():
        for one in functions:
            ffi.cdef(f"{one.returns} {one.name}({one.parameters});")
    libraries = tuple(ffi.dlopen(str(root / "lib" / one.file)) for one in found.libraries if one.functions)
    return Opened(found, root, ffi, libraries)


@pytest.fixture
def open_sdk() -> Callable[..., Opened]:
    """Opens a simulated SDK: vendor, version (the default when None), arch (the default when None)."""

    def open_(vendor: str, sdk: str | None = None, arch: str | None = None) -> Opened:
        folder = FOLDER / vendor
        return opened(vendor, sdk or abis.versions(folder)[0], arch or abis.archs(folder)[0])

    return open_

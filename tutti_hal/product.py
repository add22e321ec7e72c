"""The files that make up the installed product, and their sums."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from hashlib import sha256
from pathlib import Path

import tutti_hal
from tutti_hal.backend import discover
from tutti_hal.errors import NativeError
from tutti_hal.paths import native_library, package_file

#: Parts of the package that an editable install keeps in folders of their own.
_PARTS = ("backends", "kernels_templates", "conformance_tests", "lib", "include", "aot", "pinned.json")

#: Certificates of real runs are about the product and no part of it.
_NOT_PRODUCT = ("conformance_tests/registry/",)

_LIBRARY = "lib/libtutti_native.so"

#: What is built, and so differs from machine to machine without any source being another.
BUILT = ("lib/", "aot/")


def product_files(vendor: str = "") -> dict[str, Path]:
    """Name -> path of every file of the installed product, and of the backend of ``vendor`` where it lies elsewhere.

    Names are those of a wheel, wherever the files are. The native library is the one in use (``TUTTI_NATIVE_LIBRARY``).
    """
    found = dict(_below(Path(tutti_hal.__file__).parent, ""))
    for part in _PARTS:
        try:
            place = package_file(part)
        except NativeError:
            continue
        found |= {part: place} if place.is_file() else dict(_below(place, f"{part}/"))
    if _LIBRARY in found:
        found[_LIBRARY] = native_library()
    for backend in (finding.backend for finding in discover() if vendor and finding.name == vendor):
        if backend is not None and f"backends/{vendor}/__init__.py" not in found:
            found |= dict(_below(backend.descriptor.folder, f"backend/{vendor}/"))
    return {name: path for name, path in sorted(found.items()) if not name.startswith(_NOT_PRODUCT)}


def _below(folder: Path, prefix: str) -> Iterator[tuple[str, Path]]:
    for path in folder.rglob("*"):
        parts = path.relative_to(folder).parts
        if path.is_file() and not any(part == "__pycache__" or part.startswith(".") for part in parts):
            yield f"{prefix}{'/'.join(parts)}", path


def file_sums(files: Mapping[str, Path]) -> dict[str, str]:
    """Name -> SHA-256."""
    return {name: sha256(path.read_bytes()).hexdigest() for name, path in files.items()}


def sums_digest(sums: Mapping[str, str]) -> str:
    """One SHA-256 over names and sums."""
    return sha256("".join(f"{total}  {name}\n" for name, total in sorted(sums.items())).encode()).hexdigest()


def sources_digest(sums: Mapping[str, str]) -> str:
    """One SHA-256 over names and sums, what a build makes left out."""
    return sums_digest({name: total for name, total in sums.items() if not name.startswith(BUILT)})

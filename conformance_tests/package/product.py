"""Which product was certified: the sum of every installed file, and the commit of a checkout."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterator, Mapping, Sequence
from hashlib import sha256
from pathlib import Path
from typing import Any

import tutti_hal
from tutti_hal import __version__
from tutti_hal.backend import discover
from tutti_hal.errors import NativeError
from tutti_hal.paths import native_library, package_file

#: Parts of the package that an editable install keeps in folders of their own.
_PARTS = ("backends", "kernels_templates", "conformance_tests", "lib", "include", "aot", "pinned.json")

#: Certificates of real runs are about the product and no part of it.
_NOT_PRODUCT = ("conformance_tests/registry/",)

_LIBRARY = "lib/libtutti_native.so"

#: Seconds after which git is taken for hung.
_GIT_LIMIT_S = 10.0


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


def product(vendor: str, extra_cases: Sequence[str] = ()) -> dict[str, Any]:
    """As ``product.json`` holds it.

    Args:
        vendor: whose backend was certified.
        extra_cases: files and folders of cases beside the suite's own.
    """
    sums = file_sums(product_files(vendor))
    return {
        "package": "tutti-hal",
        "version": __version__,
        "sha256": sums_digest(sums),
        "source": source(),
        "cases": case_sums(extra_cases),
        "files": sums,
    }


def sums_digest(sums: Mapping[str, str]) -> str:
    """One SHA-256 over names and sums."""
    return sha256("".join(f"{total}  {name}\n" for name, total in sorted(sums.items())).encode()).hexdigest()


def case_sums(paths: Sequence[str]) -> dict[str, str]:
    """File name -> SHA-256 of the extra cases' files; where two share a name, a number follows the second's."""
    found: dict[str, str] = {}
    for path in map(Path, paths):
        for file in sorted(path.glob("case_*.py")) if path.is_dir() else [path]:
            name, number = file.name, 2
            while name in found:
                name, number = f"{file.name}#{number}", number + 1
            found[name] = sha256(file.read_bytes()).hexdigest()
    return found


def source() -> dict[str, Any] | None:
    """Commit of the checkout that the package is run from, and whether files differ from it; None for a wheel."""
    folder = Path(tutti_hal.__file__).parent
    if _git(folder, "ls-files", "--error-unmatch", "__init__.py") is None:
        return None
    commit, changes = _git(folder, "rev-parse", "HEAD"), _git(folder, "status", "--porcelain", "--untracked-files=no")
    if commit is None or changes is None:
        return None
    return {"commit": commit, "changed": bool(changes)}


def _git(folder: Path, *words: str) -> str | None:
    # GIT_OPTIONAL_LOCKS: looking at a checkout must not write into it.
    environment = {**os.environ, "GIT_OPTIONAL_LOCKS": "0", "LC_ALL": "C"}
    try:
        done = subprocess.run(
            ["git", "-C", str(folder), *words],
            capture_output=True,
            text=True,
            timeout=_GIT_LIMIT_S,
            check=True,
            stdin=subprocess.DEVNULL,
            env=environment,
        )
    except (OSError, subprocess.SubprocessError):
        return None
    return done.stdout.strip()

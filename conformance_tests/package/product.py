"""Which product was certified: the sum of every installed file, and the commit of a checkout."""

from __future__ import annotations

from collections.abc import Sequence
from hashlib import sha256
from pathlib import Path
from typing import Any

import tutti_hal
from tutti_hal import __version__
from tutti_hal.conformance_tests.package.history import git
from tutti_hal.product import file_sums as file_sums
from tutti_hal.product import product_files as product_files
from tutti_hal.product import sums_digest as sums_digest


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
    if git(folder, "ls-files", "--error-unmatch", "__init__.py") is None:
        return None
    commit, changes = git(folder, "rev-parse", "HEAD"), git(folder, "status", "--porcelain", "--untracked-files=no")
    if commit is None or changes is None:
        return None
    return {"commit": commit.decode().strip(), "changed": bool(changes)}

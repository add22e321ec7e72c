"""Whether the files of a product are those of a commit in the history at hand."""

from __future__ import annotations

import io
import os
import subprocess
import tarfile
from collections.abc import Mapping
from dataclasses import dataclass, field
from hashlib import sha256
from pathlib import Path
from typing import Any

import tutti_hal

#: Seconds after which git is taken for hung.
_LIMIT_S = 60.0

#: Folder of the repository -> beginning of the names that its files have in the product.
_ROOMS = {
    "tutti_hal/": "",
    "backends/": "backends/",
    "kernels_templates/": "kernels_templates/",
    "conformance_tests/": "conformance_tests/",
}

#: Names of product files that a build makes, or that lie in a repository of the vendor's own.
_ELSEWHERE = ("lib/", "include/", "aot/", "pinned.json", "backend/")

#: Certificates are no part of the product.
_NOT_PRODUCT = "conformance_tests/registry/"

#: What the native library is made of.
_NATIVE = ("native", "cmake", "CMakeLists.txt")


@dataclass(frozen=True)
class Known:
    """What is known of a product that is not the installed one.

    Attributes:
        sure: whether its files are, one by one, those of a commit of this history.
        said: what is known, or why nothing is, in words.
        commit: that it names; empty where it names none.
        strange: whether the history at hand shows that there never was such a commit.
        astray: product file -> what the commit that it names has in its place, in words.
    """

    sure: bool
    said: str
    commit: str = ""
    strange: bool = False
    astray: Mapping[str, str] = field(default_factory=dict)


def known(product: Mapping[str, Any]) -> Known:
    """Look for a product (as ``product.json`` holds it) in the history of the checkout that this one is run from.

    Blocks for about a second. Files that a build makes are left out.
    """
    source = product["source"]
    if not source:
        return Known(False, f"version {product['version']}, a wheel; which one is not known here")
    commit, at = str(source["commit"]), f"commit {source['commit'][:12]}"
    root = _root()
    if root is None:
        return Known(False, f"{at}, by its own word: there is no history here to look it up in", commit)
    if git(root, "cat-file", "-e", f"{commit}^{{commit}}") is None:
        shallow = (git(root, "rev-parse", "--is-shallow-repository") or b"").strip() != b"false"
        return Known(False, f"{at}, by its own word: the history here has no such commit", commit, not shallow)
    if git(root, "merge-base", "--is-ancestor", commit, "HEAD") is None:
        return Known(False, f"{at}, which is not in the history of what is installed", commit, True)
    then = _files(root, commit)
    if then is None:
        return Known(False, f"{at}, whose files cannot be read here", commit)
    stated = {name: total for name, total in product["files"].items() if not name.startswith(_ELSEWHERE)}
    differ = sorted(name for name in {*stated, *then} if stated.get(name) != then.get(name))
    if not differ:
        return Known(True, f"{at}, file by file", commit)
    astray = {name: f"{at} has {then.get(name, 'no such file')}" for name in differ}
    return Known(False, f"{at} with changes of its own", commit, astray=astray)


def same_native(commit: str) -> bool:
    """Whether the sources of the native library are today those of a commit."""
    root = _root()
    return root is not None and git(root, "diff", "--quiet", commit, "--", *_NATIVE) is not None


def _root() -> Path | None:
    folder = Path(tutti_hal.__file__).parent
    if git(folder, "ls-files", "--error-unmatch", "__init__.py") is None:
        return None
    top = git(folder, "rev-parse", "--show-toplevel")
    return Path(os.fsdecode(top).strip()) if top else None


def _files(root: Path, commit: str) -> dict[str, str] | None:
    """Name in the product -> SHA-256, of a commit."""
    packed = git(root, "archive", "--format=tar", commit, *(room.rstrip("/") for room in _ROOMS))
    if packed is None:
        return None
    found: dict[str, str] = {}
    with tarfile.open(fileobj=io.BytesIO(packed)) as archive:
        for member in archive:
            data = archive.extractfile(member) if member.isfile() else None
            room = next((room for room in _ROOMS if member.name.startswith(room)), None)
            if data is None or room is None:
                continue
            name = _ROOMS[room] + member.name.removeprefix(room)
            hidden = any(part.startswith(".") or part == "__pycache__" for part in name.split("/"))
            if not hidden and not name.startswith(_NOT_PRODUCT):
                found[name] = sha256(data.read()).hexdigest()
    return found


def git(folder: Path, *words: str) -> bytes | None:
    """What git says of a checkout; None where it fails, is not there or takes longer than a minute. Writes nothing."""
    # GIT_OPTIONAL_LOCKS: looking at a checkout must not write into it.
    environment = {**os.environ, "GIT_OPTIONAL_LOCKS": "0", "LC_ALL": "C"}
    try:
        done = subprocess.run(
            ["git", "-C", str(folder), *words],
            capture_output=True,
            timeout=_LIMIT_S,
            check=True,
            stdin=subprocess.DEVNULL,
            env=environment,
        )
    except (OSError, subprocess.SubprocessError):
        return None
    return done.stdout

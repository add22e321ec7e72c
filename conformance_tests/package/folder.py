"""A package's files, read once into memory, from a folder that may be hostile."""

from __future__ import annotations

import os
import stat
from pathlib import Path

from tutti_hal.conformance_tests.package.findings import Findings, printable
from tutti_hal.conformance_tests.package.layout import (
    FILE_LIMIT_BYTES,
    FILES,
    FILES_LIMIT,
    MANIFEST,
    NAME,
    OPTIONAL,
    PACKED,
    RECORD,
    RECORD_FILES,
    RUN,
    TOTAL_LIMIT_BYTES,
)
from tutti_hal.conformance_tests.package.packing import ENDING

_KINDS = {
    stat.S_IFLNK: "a symbolic link",
    stat.S_IFIFO: "a pipe",
    stat.S_IFSOCK: "a socket",
    stat.S_IFCHR: "a device",
    stat.S_IFBLK: "a device",
}


def is_package(folder: Path) -> bool:
    """Whether a folder looks like a package of ours, good or bad."""
    return any((folder / name).is_file() for name in (RUN, MANIFEST))


def read_folder(folder: Path, findings: Findings) -> dict[str, bytes]:
    """Name -> contents of every file that may be in a package; whatever else lies there is refused and not opened.

    Each file is read once, so that what is hashed is what is judged.
    """
    names: list[str] = []
    _walk(folder, "", names, findings)
    files: dict[str, bytes] = {}
    total = 0
    for name in sorted(names):
        data = _read(folder / name, min(FILE_LIMIT_BYTES, TOTAL_LIMIT_BYTES - total), name, findings)
        if data is not None:
            files[name] = data
            total += len(data)
    for name in (*FILES, *(f"{RECORD}/{one}" for one in RECORD_FILES)):
        if name not in names and f"{name}{ENDING}" not in names and name not in OPTIONAL:
            findings.refuse(name, 0, "the file is missing", "every package has one")
    return files


def _walk(folder: Path, under: str, names: list[str], findings: Findings) -> None:
    try:
        entries = sorted(os.scandir(folder), key=lambda entry: entry.name)
    except OSError as error:
        findings.refuse(under or ".", 0, f"the folder cannot be read: {error.strerror}")
        return
    for entry in entries:
        name = f"{under}{entry.name}"
        try:
            mode = entry.stat(follow_symlinks=False).st_mode
        except OSError as error:
            findings.refuse(printable(name), 0, f"cannot be looked at: {error.strerror}")
            continue
        if len(names) >= FILES_LIMIT:
            findings.refuse(under or ".", 0, f"more than {FILES_LIMIT} files", "a package as certify writes it")
            return
        if not NAME.fullmatch(name):
            findings.refuse(printable(name), 0, "no name of a package's file", "letters, digits, '_', '-' and '.'")
        elif kind := _KINDS.get(stat.S_IFMT(mode)):
            findings.refuse(name, 0, f"{kind}, which is not followed", "a plain file")
        elif stat.S_ISDIR(mode):
            if name.split("/")[0] != RECORD or name.count("/") > 8:
                findings.refuse(name, 0, "a folder that no package has", f"only {RECORD}/")
            else:
                _walk(folder / entry.name, f"{name}/", names, findings)
        elif under or name in FILES or (name.endswith(ENDING) and name.removesuffix(ENDING) in PACKED):
            names.append(name)
        else:
            findings.refuse(name, 0, "a file that no package has", "no file beside those that certify writes")


def _read(path: Path, limit: int, name: str, findings: Findings) -> bytes | None:
    try:
        # Not through a link that was put there since, and without waiting for whoever writes a pipe.
        number = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
        with os.fdopen(number, "rb") as file:
            if not stat.S_ISREG(os.fstat(number).st_mode):
                findings.refuse(name, 0, "not a plain file")
                return None
            data = file.read(limit + 1)
    except OSError as error:
        findings.refuse(name, 0, f"cannot be read: {error.strerror}")
        return None
    if len(data) > limit:
        findings.refuse(name, 0, f"more than {limit} bytes", "a package as certify writes it")
        return None
    return data

"""A vendor's SDK on this machine: which root, whether it is whole, which version. Files alone; nothing is loaded."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from tutti_hal.backend import Probe
from tutti_hal.errors import ProfileUnusable, SdkDefective, SdkForeign, SdkIncomplete, SdkMissing

if TYPE_CHECKING:
    from tutti_hal.record import Record


@dataclass(frozen=True)
class Root:
    """A root of an SDK that was found to be whole.

    Attributes:
        path: the folder.
        said_by: the variable that named it, or ``default``.
        version: what it says of itself, or None.
    """

    path: Path
    said_by: str
    version: str | None


def roots(record: Record, environ: Mapping[str, str] | None = None) -> Iterator[tuple[Path, str]]:
    """Where the SDK may be, best first: each folder, and the variable that names it or ``default``."""
    env = os.environ if environ is None else environ
    for name in record.sdk.env:
        if env.get(name):
            yield Path(env[name]), name
    for place in record.sdk.default:
        yield Path(place), "default"


def find_root(record: Record, environ: Mapping[str, str] | None = None, system: Path = Path("/")) -> Root:
    """The SDK's root. A variable that is set is meant: what it names must be the SDK, and no default replaces it.

    Args:
        record: the vendor's record.
        environ: the environment; the process's when None.
        system: what the default folders are below; another than ``/`` for tests.

    Raises:
        SdkMissing: no variable names a root, and none of the defaults is there.
        SdkForeign: a folder is there, and is no SDK of this vendor.
        SdkIncomplete: it is this vendor's, and a library that the record names is missing.
        SdkDefective: its version has a defect that cannot be lived with.
    """
    tried, looked = f"find the SDK of {record.vendor}", []
    for path, said_by in roots(record, environ):
        place = path if said_by != "default" else system / path.relative_to("/")
        if said_by == "default" and not (place / record.sdk.marker).is_file():
            looked.append(f"{path} (no SDK there)" if place.is_dir() else f"{path} (absent)")
            continue
        if not place.is_dir():
            raise SdkMissing(tried, f"{said_by} names {path}, which is no folder", f"Correct {said_by}, or unset it.")
        if not (place / record.sdk.marker).is_file():
            whose = _whose(place, record)
            raise SdkForeign(
                tried,
                f"{said_by} names {path}, which has no {record.sdk.marker}{whose}",
                f"Let {said_by} name the root of this vendor's SDK, or unset it.",
            )
        version = record.sdk.version.read(place) if record.sdk.version is not None else None
        return _checked(record, Root(place, said_by, version), tried)
    unset = [f"${name} (not set)" for name in record.sdk.env]
    raise SdkMissing(tried, f"looked at {', '.join([*unset, *looked])}", f"To get it: {record.sdk.install}.")


def _checked(record: Record, root: Root, tried: str) -> Root:
    if record.host_api.libraries and not any(library.is_file() for library in libraries(record, root)):
        folders = ", ".join(f"{name}/" for name in record.sdk.lib)
        raise SdkIncomplete(
            tried,
            f"{root.path} is half installed: it has {record.sdk.marker}, and none of "
            f"{', '.join(record.host_api.libraries)} in {folders}",
            f"Install the rest of it ({record.sdk.install}).",
        )
    for quirk in record.quirks_for(root.version) if root.version else ():
        if quirk.refuse:
            raise SdkDefective(
                tried, f"SDK {root.version} in {root.path} has the defect {quirk.id}: {quirk.text}", quirk.refuse
            )
    return root


def _whose(place: Path, record: Record) -> str:
    """Whose SDK a folder is, where the marker of another installed backend's record tells it."""
    from tutti_hal.backend import discover

    for finding in discover():
        if finding.backend is None or finding.name == record.vendor:
            continue
        try:
            marker = finding.backend.record.sdk.marker
        except Exception:  # a third party's record: it must not spoil this message
            continue
        if marker and (place / marker).is_file():
            return f"; it is the SDK of {finding.name}"
    return ""


def libraries(record: Record, root: Root) -> Iterator[Path]:
    """Where each of the record's libraries would be below a root, in the record's order."""
    for name in record.host_api.libraries:
        for folder in record.sdk.lib:
            yield root.path / folder / name


def look_for(folder: Path, environ: Mapping[str, str] | None = None, system: Path = Path("/")) -> Probe:
    """What a backend's probe says, from its record: SDK, devices and their archs. Initialises no driver.

    Args:
        folder: where the record lies.
        environ: the environment; the process's when None.
        system: the root of the file system that is looked at; another than ``/`` for tests.
    """
    from tutti_hal.record import load_record

    record = load_record(folder)
    archs = device_archs(record, system)
    nodes = [str(node) for pattern in record.sdk.devices for node in sorted(system.glob(pattern.lstrip("/")))]
    devices = f"devices: {', '.join(archs or nodes)}" if archs or nodes else "no device"
    try:
        root = find_root(record, environ, system)
    except ProfileUnusable as error:
        return Probe(False, f"{error.found} ({devices}). {error.fix}", archs)
    what = f"SDK {root.version or 'of unknown version'} in {root.path}"
    if archs or nodes:
        return Probe(True, f"{what}; {devices}", archs, root.version)
    known = record.sdk.described
    where = ", ".join([*record.sdk.devices, *([known.files] if known else [])])
    return Probe(False, f"{what}, and no device: {where} tell of none. Load the driver.", (), root.version)


def device_archs(record: Record, system: Path = Path("/")) -> tuple[str, ...]:
    """Archs of the devices that the record's files describe, in order without repeats."""
    known = record.sdk.described
    if known is None:
        return ()
    names = []
    for file in sorted(system.glob(known.files.lstrip("/")), key=_natural):
        try:
            match = re.search(known.pattern, file.read_text(encoding="utf-8", errors="replace"))
        except OSError:
            continue
        if match and match[1] in known.archs:
            names.append(known.archs[match[1]])
    return tuple(dict.fromkeys(names))


def _natural(path: Path) -> list[tuple[int, str]]:
    return [(int(word), "") if word.isdigit() else (0, word) for word in re.split(r"(\d+)", str(path))]

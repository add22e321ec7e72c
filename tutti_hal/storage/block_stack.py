"""Devices under a file system: partitions, loop devices and linear mappings shift offsets; all else is refused.

What the kernel tells in sysfs is enough for partitions, loop devices and md. The table of a dm device is not in sysfs:
``dmsetup`` is asked for it, which takes root.
"""

from __future__ import annotations

import os
import subprocess
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from tutti_hal.errors import DeviceStackRefused, DeviceUnserved
from tutti_hal.storage.drives import BlockSource

if TYPE_CHECKING:
    from tutti_hal.storage.places import Place

_SECTOR = 512
_DEPTH = 8


@dataclass(frozen=True)
class Span:
    """A range of a device that lies at a range of the one below.

    Attributes:
        start, nbytes: of the upper device.
        source: the lower one.
        offset: there.
    """

    start: int
    nbytes: int
    source: BlockSource
    offset: int


@dataclass(frozen=True)
class Stretch:
    """A range of a device that lies on a drive.

    Attributes:
        start, nbytes: of the device.
        place: the drive.
        offset: byte of its namespace.
    """

    start: int
    nbytes: int
    place: Place
    offset: int


def read_dm_table(major: int, minor: int) -> str:
    """A dm device's table: lines of ``start length type arguments``, in sectors.

    Raises:
        OSError: there is no ``dmsetup``, or it may not look.
    """
    done = subprocess.run(
        ["dmsetup", "table", "-j", str(major), "-m", str(minor)],
        capture_output=True,
        text=True,
        check=False,
        timeout=10,
    )
    if done.returncode:
        raise OSError(done.stderr.strip() or f"dmsetup ended with {done.returncode}")
    return done.stdout


class BlockStack:
    """What lies under a block device.

    Args:
        sysfs: where sysfs is mounted.
        dm_table: what tells a dm device's table.
    """

    def __init__(self, sysfs: Path = Path("/sys"), dm_table: Callable[[int, int], str] = read_dm_table) -> None:
        self._sysfs, self._dm_table = sysfs, dm_table

    def route(self, doing: str, source: BlockSource, served: Mapping[BlockSource, Place]) -> list[Stretch]:
        """Where all of a device lies on drives that are served, in order.

        Raises:
            DeviceUnserved: a part of it lies on a device that no drive serves.
            DeviceStackRefused: a device on the way does more than to shift offsets.
        """
        return self._route(doing, source, served, [source])

    def _route(
        self, doing: str, source: BlockSource, served: Mapping[BlockSource, Place], path: list[BlockSource]
    ) -> list[Stretch]:
        place = served.get(source)
        if place is not None:
            return [Stretch(0, place.nbytes, place, 0)]
        spans = self.below(doing, source) if source.kind == "device" and len(path) <= _DEPTH else ()
        if not spans:
            names = ", ".join(str(one) for one in served) or "none"
            way = " on ".join(str(one) for one in path)
            raise DeviceUnserved(
                doing, f"it lies on {way}, and the drives serve: {names}", "Give the runtime a drive over that device."
            )
        found = []
        for span in spans:
            for part in self._route(doing, span.source, served, [*path, span.source]):
                low = max(span.offset, part.start)
                high = min(span.offset + span.nbytes, part.start + part.nbytes)
                if low < high:
                    start = span.start + low - span.offset
                    found.append(Stretch(start, high - low, part.place, part.offset + low - part.start))
        return found

    def below(self, doing: str, source: BlockSource) -> tuple[Span, ...]:
        """The next devices down, and where there; none for a drive itself.

        Raises:
            DeviceStackRefused: md, or a dm target that is not linear, or a dm table that cannot be read.
        """
        folder = self._sysfs / "dev" / "block" / f"{source.major}:{source.minor}"
        if (folder / "partition").exists():
            parent = (folder.resolve() / ".." / "dev").resolve()
            major, minor = parent.read_text(encoding="ascii").strip().split(":")
            start, sectors = (int((folder / name).read_text(encoding="ascii")) for name in ("start", "size"))
            whole = BlockSource("device", int(major), int(minor))
            return (Span(0, sectors * _SECTOR, whole, start * _SECTOR),)
        if (folder / "loop" / "backing_file").exists():
            return (self._loop(doing, source, folder),)
        if (folder / "md").exists():
            level = (folder / "md" / "level").read_text(encoding="ascii").strip()
            raise DeviceStackRefused(
                doing, f"it lies on {source}, an md array ({level})", "Use striped:// over the drives instead."
            )
        if (folder / "dm").exists():
            return self._dm(doing, source, folder)
        return ()

    def _loop(self, doing: str, source: BlockSource, folder: Path) -> Span:
        loop = folder / "loop"
        # A space in the name is told as it is, a deleted file by a word behind it.
        path = loop.joinpath("backing_file").read_text(encoding="utf-8").rstrip("\n")
        offset = int(loop.joinpath("offset").read_text(encoding="ascii"))
        sectors = int((folder / "size").read_text(encoding="ascii"))
        try:
            found = os.stat(path)  # noqa: PTH116
        except OSError as error:
            raise DeviceStackRefused(
                doing, f"it lies on {source}, a loop over {path}: {error.strerror}", "Keep the loop's file."
            ) from None
        file = BlockSource("file", os.major(found.st_dev), os.minor(found.st_dev), found.st_ino)
        return Span(0, sectors * _SECTOR, file, offset)

    def _dm(self, doing: str, source: BlockSource, folder: Path) -> tuple[Span, ...]:
        kind = (folder / "dm" / "uuid").read_text(encoding="utf-8").strip().split("-")[0] or "without uuid"
        name = (folder / "dm" / "name").read_text(encoding="utf-8").strip()
        what = f"it lies on {source}, the dm device {name} ({kind})"
        try:
            table = self._dm_table(source.major, source.minor)
        except (OSError, subprocess.SubprocessError) as error:
            raise DeviceStackRefused(
                doing, f"{what}, whose table cannot be read: {error}", "Run as root with dmsetup, or use the drive."
            ) from None
        return parse_dm_table(doing, what, table)


def parse_dm_table(doing: str, what: str, table: str) -> tuple[Span, ...]:
    """The spans of a dm table whose targets are all linear.

    Raises:
        DeviceStackRefused: one is not, or a line is not understood.
    """
    spans = []
    for line in table.splitlines():
        fields = line.split()
        if len(fields) < 3:
            continue
        if fields[2] != "linear":
            raise DeviceStackRefused(
                doing, f"{what}, a {fields[2]} target: it does more than to shift offsets", "Use the drives themselves."
            )
        try:
            start, sectors, below = int(fields[0]), int(fields[1]), int(fields[4])
            major, minor = (int(part) for part in fields[3].split(":"))
        except (ValueError, IndexError):
            raise DeviceStackRefused(doing, f"{what}, whose table says '{line}'", "Use the drive itself.") from None
        lower = BlockSource("device", major, minor)
        spans.append(Span(start * _SECTOR, sectors * _SECTOR, lower, below * _SECTOR))
    if not spans:
        raise DeviceStackRefused(doing, f"{what}, whose table is empty", "Use the drive itself.")
    return tuple(spans)

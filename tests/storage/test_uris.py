"""URIs, and devices under file systems as sysfs tells them."""

from __future__ import annotations

import os
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from storage_rig import MIB, Rig

from tutti_hal.errors import (
    DeviceStackRefused,
    DeviceUnserved,
    DrivesInvalid,
    StripeInvalid,
    TargetMissing,
    TargetSizeWrong,
    UriInvalid,
)
from tutti_hal.storage import SoftwareDrive, path_uri
from tutti_hal.storage.block_stack import BlockStack, parse_dm_table
from tutti_hal.storage.drives import BlockSource
from tutti_hal.storage.uri import parse

pytestmark = pytest.mark.storage


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("/data/a.bin", "no scheme ''"),
        ("fil:///data/a.bin", "no scheme 'fil'; did you mean 'file'"),
        ("file://host/a", "both 'host' and '/a'"),
        ("file://a", "a host 'a'"),
        ("file:///", "it names nothing"),
        ("file:///a?mod=r", "no option 'mod'; did you mean 'mode'"),
        ("file:///a?mode=w", "mode=w"),
        ("file:///a?mode=r&mode=r", "given twice"),
        ("file:///a#b", "a fragment '#b'"),
        ("file:///a%00b", "it names nothing"),
        ("file:///a\ud800b", "a character that no path has"),
        ("raw://", "it names nothing|is not one drive"),
        ("raw://d0,d1", "is not one drive"),
        ("raw://d0?offset=-1", "offset=-1"),
        ("raw://d0?offset=4k", "offset=4k"),
        ("raw://d0?size=99999999999TiB", "size=99999999999TiB"),
        ("striped://d0,,d1?unit=4096", "it names nothing"),
        ("striped:///a,b?unit=4096", "paths and drives together"),
    ],
)
def test_uris_that_are_none(text: str, words: str) -> None:
    with Rig() as rig, pytest.raises(UriInvalid, match=words):
        rig.runtime.open(text)


def test_uris_taken_apart() -> None:
    odd = "/data/a b,c?d#e%.bin"
    assert parse(path_uri(odd)).members == (odd,)
    uri = parse("striped:///x/a%2Cb,/x/c?unit=18KiB&rotation=3")
    assert (uri.members, uri.number("unit", 0), uri.number("rotation", 0)) == (("/x/a,b", "/x/c"), 18432, 3)
    assert parse("raw://d0?mode=r").writable is False


def test_ranges_of_namespaces() -> None:
    with Rig(SoftwareDrive(name="fast", nbytes=MIB), SoftwareDrive(name="small", nbytes=8192, lba_bytes=512)) as rig:
        opened = rig.runtime.open("raw://fast?offset=512KiB")
        assert rig.runtime.target(opened).size == MIB // 2
        for text, kind, words in (
            ("raw://fats", TargetMissing, "no drive 'fats'; did you mean 'fast'"),
            ("raw://fast?offset=2MiB", TargetSizeWrong, "0 bytes at 2097152 of 1048576"),
            ("raw://fast?offset=512KiB&size=1MiB", TargetSizeWrong, "1048576 bytes at 524288"),
            ("raw://fast?offset=512", TargetSizeWrong, "blocks of 4096"),
            ("raw://fast?size=0", TargetSizeWrong, "0 bytes"),
            ("striped://fast,small", StripeInvalid, "no unit"),
            ("striped://fast,small?unit=18KiB", StripeInvalid, "Pad the unit, such as to 20480"),
            ("striped://fast,small?unit=2MiB", StripeInvalid, "members hold 1048576 bytes at most"),
        ):
            with pytest.raises(kind, match=words):
                rig.runtime.open(text)


def drive_files(tmp_path: Path) -> Path:
    path = tmp_path / "a.img"
    path.write_bytes(bytes(MIB))
    return path


def test_drives_of_one_source_are_refused(tmp_path: Path) -> None:
    path = drive_files(tmp_path)
    with pytest.raises(DrivesInvalid, match="two have the source file"):
        Rig(SoftwareDrive(name="a", path=path), SoftwareDrive(name="b", path=path))


class Sys:
    """A sysfs of our own."""

    def __init__(self, root: Path) -> None:
        self.root = root
        (root / "dev" / "block").mkdir(parents=True)

    def device(self, number: str, path: str, **files: str) -> None:
        folder = self.root / "devices" / path
        folder.mkdir(parents=True)
        for name, text in {"dev": number, **files}.items():
            file = folder / name.replace("__", "/")
            file.parent.mkdir(exist_ok=True)
            file.write_text(text + "\n", encoding="utf-8")
        (self.root / "dev" / "block" / number).symlink_to(folder)


def place(nbytes: int) -> Any:
    return SimpleNamespace(nbytes=nbytes)


def source(number: str) -> BlockSource:
    major, minor = number.split(":")
    return BlockSource("device", int(major), int(minor))


def test_a_partition_and_a_linear_volume_on_it(tmp_path: Path) -> None:
    sys = Sys(tmp_path)
    sys.device("259:0", "nvme0n1", size="4096")
    sys.device("259:1", "nvme0n1/nvme0n1p1", size="1024", start="2048", partition="1")
    sys.device("253:0", "dm-0", size="600", dm__name="vg-lv", dm__uuid="LVM-abc")
    table = "0 400 linear 259:1 100\n400 200 linear 259:1 700\n"
    stack = BlockStack(tmp_path, lambda major, minor: table if (major, minor) == (253, 0) else "")
    drive = place(4096 * 512)
    served = {source("259:0"): drive}
    (part,) = stack.route("t", source("259:1"), served)
    assert (part.start, part.nbytes, part.place, part.offset) == (0, 1024 * 512, drive, 2048 * 512)
    found = [
        (one.start // 512, one.nbytes // 512, one.offset // 512) for one in stack.route("t", source("253:0"), served)
    ]
    assert found == [(0, 400, 2148), (400, 200, 2748)]
    # A drive over the partition itself is found before the whole one.
    assert stack.route("t", source("253:0"), {source("259:1"): drive})[1].offset == 700 * 512


def test_a_loop_over_a_file(tmp_path: Path) -> None:
    image = drive_files(tmp_path)
    sys = Sys(tmp_path)
    sys.device("7:3", "loop3", size="1024", loop__backing_file=str(image), loop__offset="4096")
    found = image.stat()
    file = BlockSource("file", os.major(found.st_dev), os.minor(found.st_dev), found.st_ino)
    (one,) = BlockStack(tmp_path).route("t", source("7:3"), {file: place(MIB)})
    assert (one.start, one.nbytes, one.offset) == (0, 1024 * 512, 4096)
    image.unlink()
    with pytest.raises(DeviceStackRefused, match="a loop over"):
        BlockStack(tmp_path).route("t", source("7:3"), {file: place(MIB)})


def test_devices_that_do_more_than_to_shift_offsets(tmp_path: Path) -> None:
    sys = Sys(tmp_path)
    sys.device("9:0", "md0", size="10", md__level="raid5")
    sys.device("253:1", "dm-1", size="10", dm__name="secret", dm__uuid="CRYPT-LUKS2-x")
    sys.device("253:2", "dm-2", size="10", dm__name="other", dm__uuid="LVM-y")
    sys.device("8:0", "sda", size="10")

    def table(_: int, minor: int) -> str:
        if minor == 2:
            raise OSError("not root")
        return "0 10 crypt aes 0 8:0 0\n"

    stack = BlockStack(tmp_path, table)
    for number, kind, words in (
        ("9:0", DeviceStackRefused, "an md array .raid5.*striped://"),
        ("253:1", DeviceStackRefused, "secret .CRYPT., a crypt target"),
        ("253:2", DeviceStackRefused, "whose table cannot be read: not root"),
        ("8:0", DeviceUnserved, "it lies on device 8:0, and the drives serve: device 259:0"),
    ):
        with pytest.raises(kind, match=words):
            stack.route("t", source(number), {source("259:0"): place(1)})


@pytest.mark.parametrize("text", ["", "0 10 linear 8 0", "0 10 linear 8:0", "0 x linear 8:0 0"])
def test_dm_tables_that_are_not_understood(text: str) -> None:
    with pytest.raises(DeviceStackRefused):
        parse_dm_table("t", "it lies on x", text)

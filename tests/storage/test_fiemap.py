"""Extents as the kernel tells them: the loop, the judgement of every flag, holes and edges. Vectors written by hand."""

from __future__ import annotations

import struct
from typing import Any

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from tutti_hal.errors import ExtentRefused, FilesystemRefused, TargetSizeWrong
from tutti_hal.storage import filesystems
from tutti_hal.storage.fiemap import JUDGEMENTS, ExtentFlag, judge, read_raw

pytestmark = pytest.mark.storage

BLOCK = 4096
#: Of ``include/uapi/linux/fiemap.h``.
NUMBERS = {
    "LAST": 0x1,
    "UNKNOWN": 0x2,
    "DELALLOC": 0x4,
    "ENCODED": 0x8,
    "DATA_ENCRYPTED": 0x80,
    "NOT_ALIGNED": 0x100,
    "DATA_INLINE": 0x200,
    "DATA_TAIL": 0x400,
    "UNWRITTEN": 0x800,
    "MERGED": 0x1000,
    "SHARED": 0x2000,
}


def extent(logical: int, physical: int, length: int, flags: int = 0) -> bytes:
    """``struct fiemap_extent``, by its offsets: 0, 8, 16, flags at 40; 56 bytes."""
    raw = bytearray(56)
    struct.pack_into("<QQQ", raw, 0, logical, physical, length)
    struct.pack_into("<I", raw, 40, flags)
    return bytes(raw)


def test_flags_have_the_kernels_numbers_and_each_is_judged() -> None:
    assert {flag.name: int(flag) for flag in ExtentFlag} == NUMBERS
    assert set(JUDGEMENTS) == set(ExtentFlag)
    assert {flag.name for flag, one in JUDGEMENTS.items() if one.usable} == {"LAST", "MERGED"}
    for one in JUDGEMENTS.values():
        assert one.why
        assert one.usable or one.fix


@pytest.mark.parametrize("name", sorted(set(NUMBERS) - {"LAST", "MERGED"}))
def test_a_flag_that_is_not_usable_refuses_by_its_name(name: str) -> None:
    raw = extent(0, 8 * BLOCK, BLOCK) + extent(BLOCK, 99 * BLOCK, BLOCK, NUMBERS[name] | 1)
    with pytest.raises(ExtentRefused, match=f"at byte 4096 is FIEMAP_EXTENT_{name}: "):
        judge("t", raw, 2 * BLOCK, BLOCK)


@pytest.mark.parametrize("bit", [0x10, 0x20, 0x40, 0x4000, 0x8000_0000])
def test_a_flag_of_the_future_is_refused(bit: int) -> None:
    with pytest.raises(ExtentRefused, match=f"flag {bit:#x}, which is not known"):
        judge("t", extent(0, BLOCK, BLOCK, bit), BLOCK, BLOCK)


def test_what_is_allocated_behind_the_end_is_cut() -> None:
    raw = extent(0, 10 * BLOCK, 4 * BLOCK) + extent(4 * BLOCK, 50 * BLOCK, BLOCK, NUMBERS["UNWRITTEN"] | 1)
    assert judge("t", raw, 3 * BLOCK, BLOCK) == [(0, 10 * BLOCK, 3 * BLOCK)]


@pytest.mark.parametrize("count", [1, 2, 16, 17, 40])
def test_few_extents_and_many_are_judged_alike(count: int) -> None:
    """Few go one by one, many as arrays."""
    raw = b"".join(extent(at * BLOCK, (3 * at + 5) * BLOCK, BLOCK, 0x1000) for at in range(count))
    assert judge("t", raw, count * BLOCK, BLOCK) == [(at * BLOCK, (3 * at + 5) * BLOCK, BLOCK) for at in range(count)]
    spoilt = raw[: 56 * (count - 1)] + extent((count - 1) * BLOCK, 0, BLOCK, NUMBERS["SHARED"])
    with pytest.raises(ExtentRefused, match="FIEMAP_EXTENT_SHARED"):
        judge("t", spoilt, count * BLOCK, BLOCK)


@pytest.mark.parametrize(
    ("raw", "size", "error", "words"),
    [
        (b"", BLOCK, ExtentRefused, "no extents at all"),
        (extent(0, BLOCK, BLOCK), 0, TargetSizeWrong, "empty"),
        (extent(0, BLOCK, BLOCK), 100, TargetSizeWrong, "100 bytes, which end inside a block"),
        (extent(BLOCK, BLOCK, BLOCK), 2 * BLOCK, ExtentRefused, "a hole from byte 0 to 4096"),
        (extent(0, BLOCK, BLOCK), 2 * BLOCK, ExtentRefused, "a hole from byte 4096 to its end at 8192"),
        (extent(0, 0, 2 * BLOCK) + extent(BLOCK, 8 * BLOCK, BLOCK), 2 * BLOCK, ExtentRefused, "overlap at byte 4096"),
        (extent(0, 512, BLOCK), BLOCK, ExtentRefused, "at byte 512 of the device, and blocks of 4096"),
        (extent(0, 0, 512) + extent(512, BLOCK, 7 * 512), BLOCK, ExtentRefused, "512 bytes at byte 0"),
    ],
)
def test_gaps_overlaps_and_places_inside_blocks(raw: bytes, size: int, error: type[Any], words: str) -> None:
    with pytest.raises(error, match=words):
        judge("t", raw, size, BLOCK)


class Kernel:
    """Answers FIEMAP over a list of extents, a few at a time."""

    def __init__(self, extents: list[bytes], most: int) -> None:
        self.extents, self.most, self.calls = extents, most, []

    def __call__(self, fd: int, number: int, buffer: bytearray) -> int:
        assert (fd, number) == (3, 0xC020660B)
        start, length, flags, _, room, _ = struct.unpack_from("<QQIIII", buffer)
        self.calls.append((start, flags))
        told = [
            one
            for one in self.extents
            if struct.unpack_from("<Q", one)[0] + struct.unpack_from("<Q", one, 16)[0] > start
            and struct.unpack_from("<Q", one)[0] < start + length
        ][: min(room, self.most)]
        struct.pack_into("<I", buffer, 20, len(told))
        for index, one in enumerate(told):
            buffer[32 + 56 * index : 88 + 56 * index] = one
        return 0


@given(st.integers(1, 700), st.integers(1, 600))
@example(1500, 1364)
@settings(max_examples=15, deadline=None)
def test_any_number_of_extents_is_read_by_any_number_of_calls(count: int, most: int) -> None:
    extents = [extent(at * BLOCK, (7 * at + 3) * BLOCK, BLOCK, int(at == count - 1)) for at in range(count)]
    kernel = Kernel(extents, most)
    assert read_raw(3, count * BLOCK, sync=True, ioctl=kernel) == b"".join(extents)
    # Dirty pages are written back once, by the first call.
    assert [flags for _, flags in kernel.calls] == [1] + [0] * (len(kernel.calls) - 1)


def test_a_kernel_that_does_not_advance_ends() -> None:
    stuck = extent(0, BLOCK, BLOCK)

    def same(_: int, __: int, buffer: bytearray) -> int:
        struct.pack_into("<I", buffer, 20, 1)
        buffer[32:88] = stuck
        return 0

    with pytest.raises(ExtentRefused, match="after byte 4096 the next ends at 4096"):
        read_raw(3, 1 << 20, sync=False, ioctl=same)


@pytest.mark.parametrize(
    ("magic", "words"),
    [
        (0x9123683E, "btrfs: its offsets are of a space of its own"),
        (0x2FC12FC1, "zfs"),
        (0x794C7630, "overlay: the file lies on another file system below"),
        (0x01021994, "tmpfs: the file is memory"),
        (0x6969, "nfs"),
        (0x1234, "type 0x1234, which is not known"),
    ],
)
def test_file_systems_where_offsets_mean_nothing(magic: int, words: str) -> None:
    with pytest.raises(FilesystemRefused, match=words):
        filesystems.check_filesystem("t", magic)


@pytest.mark.parametrize("magic", [0xEF53, 0x58465342])
def test_file_systems_where_they_do(magic: int) -> None:
    assert filesystems.check_filesystem("t", magic).name in ("ext4", "xfs")


def test_a_mount_with_data_in_its_journal() -> None:
    line = "29 1 254:0 / /data rw,relatime shared:1 - ext4 /dev/vda {}\n"
    other = "30 1 254:1 / /x rw - ext4 /dev/vdb rw,data=journal\n"
    filesystems.check_mount("t", (254, 0), line.format("rw,data=ordered") + other)
    with pytest.raises(FilesystemRefused, match="/data is mounted with data=journal"):
        filesystems.check_mount("t", (254, 0), line.format("rw,data=journal"))


@pytest.mark.parametrize(
    ("number", "value", "words"),
    [(0x80086601, struct.pack("=q", 0x84000), "journal"), (0x801C581F, struct.pack("=L", 1) + bytes(24), "realtime")],
)
def test_attributes_by_which_extents_lie(
    monkeypatch: pytest.MonkeyPatch, number: int, value: bytes, words: str
) -> None:
    def ioctl(_: int, asked: int, buffer: bytearray) -> int:
        buffer[:] = value if asked == number else bytes(len(buffer))
        return 0

    monkeypatch.setattr("tutti_hal.storage.filesystems.fcntl.ioctl", ioctl)
    with pytest.raises(FilesystemRefused, match=words):
        filesystems.check_attributes("t", 3)

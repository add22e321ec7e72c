"""Extents as the kernel tells them: the loop, the judgement of every flag, holes and edges. Vectors written by hand."""

from __future__ import annotations

import struct
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from tutti_hal.errors import ExtentRefused, FilesystemRefused, TargetSizeWrong
from tutti_hal.native import ffi_and_library
from tutti_hal.storage import filesystems
from tutti_hal.storage.fiemap import JUDGEMENTS, ExtentFlag, Judged, extents_stuck, fiemap_dtype, judge
from tutti_hal.storage.open_files import Stage, read_extents

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
    """Answers FIEMAP over a list of extents, a few at a time, in the kernel's place."""

    def __init__(self, extents: list[bytes], most: int) -> None:
        self.extents, self.most, self.calls = extents, most, []

    def answer(self, fd: int, buffer: memoryview) -> None:
        assert fd == 3
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


def told_by(
    answer: Callable[[int, memoryview], None], fds: list[int], sizes: list[int], *, sync: bool, error: int = 0
) -> tuple[Any, Any]:
    """What the native loop makes of such answers."""
    ffi, _ = ffi_and_library()

    @ffi.callback("int(void *, int, void *)", error=5)
    def call(_: Any, fd: int, fiemap: Any) -> int:
        answer(fd, memoryview(ffi.buffer(fiemap, 32 + 56 * 512)))
        return error

    return read_extents(fds, sizes, sync=sync, call=call)


@given(st.integers(1, 700), st.integers(1, 600))
@example(1500, 1364)
@settings(max_examples=15, deadline=None)
def test_any_number_of_extents_is_read_by_any_number_of_calls(count: int, most: int) -> None:
    extents = [extent(at * BLOCK, (7 * at + 3) * BLOCK, BLOCK, int(at == count - 1)) for at in range(count)]
    kernel = Kernel(extents, most)
    rows, found = told_by(kernel.answer, [3], [count * BLOCK], sync=True)
    assert (rows["stage"].tolist(), rows["extents"].tolist()) == ([Stage.READY], [count])
    assert found.tobytes() == b"".join(extents)
    # Dirty pages are written back once, by the first call.
    assert [flags for _, flags in kernel.calls] == [1] + [0] * (len(kernel.calls) - 1)


def test_a_kernel_that_does_not_advance_ends() -> None:
    stuck = extent(0, BLOCK, BLOCK)

    def same(_: int, buffer: memoryview) -> None:
        struct.pack_into("<I", buffer, 20, 1)
        buffer[32:88] = stuck

    rows, found = told_by(same, [3], [1 << 20], sync=False)
    assert rows["stage"].tolist() == [Stage.STUCK]
    error = extents_stuck("t", found)
    assert isinstance(error, ExtentRefused)
    assert "after byte 4096 the next ends at 4096" in str(error)


def test_a_kernel_that_tells_more_than_there_is_room_for_is_not_believed() -> None:
    def boast(_: int, buffer: memoryview) -> None:
        struct.pack_into("<I", buffer, 20, 1 << 31)
        buffer[32 : 32 + 56 * 16] = b"".join(extent(at * BLOCK, at * BLOCK, BLOCK, int(at == 15)) for at in range(16))

    rows, found = told_by(boast, [3], [16 * BLOCK], sync=False)
    assert (rows["extents"].tolist(), len(found)) == ([16], 16)


def test_of_many_files_one_that_is_not_told_leaves_the_others_alone() -> None:
    """Shared out among threads, and told in the order of the files."""
    count = 400

    def answer(fd: int, buffer: memoryview) -> None:
        pieces = fd % 3 + 1
        struct.pack_into("<I", buffer, 20, pieces)
        for at in range(pieces):
            buffer[32 + 56 * at : 88 + 56 * at] = extent(
                at * BLOCK, (fd * 8 + at) * BLOCK, BLOCK, int(at == pieces - 1)
            )

    sizes = [(fd % 3 + 1) * BLOCK for fd in range(count)]
    rows, found = told_by(answer, list(range(count)), sizes, sync=False)
    assert rows["extents"].tolist() == [fd % 3 + 1 for fd in range(count)]
    assert found["physical"].tolist() == [(fd * 8 + at) * BLOCK for fd in range(count) for at in range(fd % 3 + 1)]
    rows, found = told_by(answer, [1, 2], sizes[1:3], sync=False, error=95)
    assert (rows["stage"].tolist(), rows["error"].tolist(), len(found)) == ([Stage.EXTENTS] * 2, [95] * 2, 0)


files = st.lists(
    st.tuples(
        st.integers(0, 9), st.lists(st.tuples(st.integers(0, 9), st.integers(0, 9), st.sampled_from([1, 1, 1, 8])))
    ),
    min_size=1,
    max_size=6,
)


@given(files)
@settings(max_examples=200, deadline=None)
def test_files_are_judged_together_as_each_alone(files: list[tuple[int, list[tuple[int, int, int]]]]) -> None:
    """Whatever the kernel tells of one file, others fare as they would without it."""
    raws, sizes = [], []
    for blocks, told in files:
        at, raw = 0, b""
        for skip, length, flags in told:
            # Mostly without a gap, and now and then nothing right.
            at += skip if skip < 2 else 0
            raw += extent(at * BLOCK, (skip + 7 * at) * BLOCK, length * BLOCK, flags)
            at += length
        raws.append(raw)
        sizes.append((at if blocks > 3 else blocks) * BLOCK)
    together = np.frombuffer(b"".join(raws), fiemap_dtype())
    counts = np.array([len(raw) // 56 for raw in raws])
    judged = Judged(together, counts, np.array(sizes, np.uint64), BLOCK)
    for index, (raw, size) in enumerate(zip(raws, sizes, strict=True)):
        if index in judged.refused:
            with pytest.raises((ExtentRefused, TargetSizeWrong)) as error:
                judge("t", raw, size, BLOCK)
            assert str(judged.refusal(index, "t")) == str(error.value)
            continue
        alone = judge("t", raw, size, BLOCK)
        mine = judged.owner == index
        assert (
            list(
                zip(
                    *(column[mine].tolist() for column in (judged.logical, judged.physical, judged.length)), strict=True
                )
            )
            == alone
        )
        # By the text of the rule: whole, in order, without a gap.
        assert [logical for logical, _, _ in alone] == [sum(one[2] for one in alone[:at]) for at in range(len(alone))]
        assert sum(length for _, _, length in alone) == size


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
    ("attributes", "extended", "words"), [(0x84000, 0, "journal"), (0x80000, 0x1, "realtime"), (0x80000, 0x2, None)]
)
def test_attributes_by_which_extents_lie(attributes: int, extended: int, words: str | None) -> None:
    refused = filesystems.attributes_refused(np.array([attributes], np.uint32), np.array([extended], np.uint32))
    assert refused.tolist() == [words is not None]
    if words is not None:
        assert words in str(filesystems.attribute_refusal("t", attributes))

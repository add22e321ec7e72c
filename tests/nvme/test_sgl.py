"""SGLs: built, and walked by an oracle written from the rules' text; random lists of another hand; every refusal."""

from __future__ import annotations

import random
import struct
from collections.abc import Iterator

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tutti_hal.errors import SglInvalid
from tutti_hal.nvme import sgl
from tutti_hal.nvme.sgl import Piece, SglDescriptor, SglSupport

# The specification's numbers, not the package's.
DATA, BUCKET, SEGMENT, LAST = 0x00, 0x10, 0x20, 0x30


def raw(kind: int, address: int, length: int) -> bytes:
    return struct.pack("<QI3xB", address, length, kind)


def support(**fields: bool | int) -> SglSupport:
    return SglSupport(**{"supported": 1, "bit_bucket": True, **fields})  # type: ignore[arg-type]


class Memory:
    def __init__(self, *pieces: tuple[int, bytes]) -> None:
        self.pieces = dict(pieces)

    def read(self, bus: int, nbytes: int) -> bytes:
        data = self.pieces[bus]
        assert nbytes == len(data)
        return data


def device_finds(first: bytes, memory: Memory, nbytes: int, to_host: bool) -> Iterator[tuple[int | None, int]]:
    """What a drive moves, by the text, given that the list is legal."""
    queue = [first]
    left = nbytes
    while queue:
        address, length, kind = struct.unpack("<QI3xB", queue.pop(0))
        if kind in (SEGMENT, LAST):
            assert not queue
            blob = memory.read(address, length)
            queue = [blob[k : k + 16] for k in range(0, length, 16)]
        elif kind == DATA or (kind == BUCKET and to_host):
            used = min(length, left)
            if used:
                yield (address if kind == DATA else None), used
            left -= used
    assert left == 0


def as_pairs(pieces: tuple[Piece, ...]) -> list[tuple[int | None, int]]:
    return [(p.bus, p.nbytes) for p in pieces]


@settings(max_examples=100, deadline=None)
@given(data=st.data())
def test_built_sgls_lead_a_drive_to_the_data(data: st.DataObject) -> None:
    unit = data.draw(st.sampled_from([1, 4]))
    count = data.draw(st.one_of(st.integers(1, 3), st.integers(1, 300)))
    rng = random.Random(data.draw(st.integers(0, 2**32)))
    runs, at = [], unit * rng.randrange(1 << 40)
    for _ in range(count):
        nbytes = unit * rng.randint(1, 70_000)
        runs.append((at, nbytes))
        at += nbytes + rng.choice((0, unit, 1 << 20))
    space, where = [], 1 << 50
    for _ in range(count + 2):
        size = 16 * rng.choice((0, 1, 2, 3, 17, 256)) + rng.choice((0, 8))
        space.append((where, size))
        where += size + 8 * rng.randint(1, 100)
    space.append((where, 16 * count))
    plan = sgl.build(runs, support(supported=2 if unit == 4 else 1), space)
    joined = [list(run) for run in runs[:1]]
    for bus, nbytes in runs[1:]:
        if sum(joined[-1]) == bus:
            joined[-1][1] += nbytes
        else:
            joined.append([bus, nbytes])
    memory = Memory(*plan.segments)
    total = sum(n for _, n in runs)
    found = list(device_finds(plan.descriptor.encode(), memory, total, True))
    assert found == [tuple(j) for j in joined]
    assert as_pairs(sgl.walk(plan.descriptor, total, support(), memory.read, to_host=False)) == found
    for bus, content in plan.segments:
        assert any(start <= bus and bus + len(content) <= start + size for start, size in space)
    if len(joined) == 1:
        assert plan.segments == ()


@st.composite
def lists(draw: st.DrawFn) -> tuple[bytes, Memory, int, int]:
    """A legal list: (first descriptor, its segments, bytes of a read, bytes of a write)."""
    rng = random.Random(draw(st.integers(0, 2**32)))
    segments = draw(st.integers(0, 5))

    def block() -> tuple[bytes, int, int]:
        length = rng.choice((0, 1, 16, 4096, 1 << 20))
        if rng.random() < 0.25:
            return raw(BUCKET, 0, length), length, 0
        return raw(DATA, rng.randrange(1 << 60), length), length, length

    if segments == 0:
        descriptor, read, write = block()
        return descriptor, Memory(), read, write
    read = write = 0
    pieces = []
    following = b""
    for k in reversed(range(segments)):
        blob = b""
        for _ in range(rng.randint(0 if following else 1, 40)):
            descriptor, r, w = block()
            blob, read, write = blob + descriptor, read + r, write + w
        blob += following
        address = 8 * rng.randrange(1 << 50) + (k << 58)
        pieces.append((address, blob))
        following = raw(SEGMENT if following else LAST, address, len(blob))
    return following, Memory(*pieces), read, write


@settings(max_examples=100, deadline=None)
@given(made=lists())
def test_walk_follows_lists_that_another_hand_wrote(made: tuple[bytes, Memory, int, int]) -> None:
    first, memory, read, write = made
    for nbytes, to_host in ((read, True), (write, False)):
        pieces = sgl.walk(SglDescriptor.decode(first), nbytes, support(), memory.read, to_host=to_host)
        assert as_pairs(pieces) == list(device_finds(first, memory, nbytes, to_host))
        assert sum(p.nbytes for p in pieces) == nbytes
        # One byte more is missing somewhere; one less is too much, unless the controller allows it.
        with pytest.raises(SglInvalid) as caught:
            sgl.walk(SglDescriptor.decode(first), nbytes + 1, support(), memory.read, to_host=to_host)
        assert caught.value.status_code == 0x0F
        if nbytes:
            with pytest.raises(SglInvalid) as caught:
                sgl.walk(SglDescriptor.decode(first), nbytes - 1, support(), memory.read, to_host=to_host)
            assert caught.value.status_code == 0x0F
            excess = sgl.walk(
                SglDescriptor.decode(first), nbytes - 1, support(excess_length=True), memory.read, to_host=to_host
            )
            assert sum(p.nbytes for p in excess) == nbytes - 1


S = 0x9000  # where segments lie
_ok = raw(DATA, 0x1000, 64)
REFUSALS: list[tuple[str, bytes, dict[int, bytes], dict[str, bool | int], int]] = [
    ("SGLs not supported", _ok, {}, {"supported": 0}, 0x02),
    ("SGL support reserved", _ok, {}, {"supported": 3}, 0x02),
    ("too short", raw(DATA, 0x1000, 63), {}, {}, 0x0F),
    ("too long", raw(DATA, 0x1000, 65), {}, {}, 0x0F),
    ("data that wrap", raw(DATA, (1 << 64) - 32, 64), {}, {}, 0x0F),
    ("segment of length zero", raw(LAST, S, 0), {}, {}, 0x0D),
    ("segment of 24 bytes", raw(LAST, S, 24), {}, {}, 0x0D),
    ("segment off a qword", raw(LAST, S + 4, 16), {}, {}, 0x0D),
    ("segment that wraps", raw(LAST, (1 << 64) - 16, 32), {}, {}, 0x0D),
    ("segment in a last segment", raw(LAST, S, 32), {S: _ok + raw(SEGMENT, 0xA000, 16)}, {}, 0x0D),
    ("last segment in a last segment", raw(LAST, S, 32), {S: _ok + raw(LAST, 0xA000, 16)}, {}, 0x0D),
    ("segment before the end", raw(SEGMENT, S, 32), {S: raw(SEGMENT, 0xA000, 16) + _ok}, {}, 0x0E),
    ("last segment before the end", raw(SEGMENT, S, 32), {S: raw(LAST, 0xA000, 16) + _ok}, {}, 0x0E),
    ("keyed data", raw(0x40, 0x1000, 64), {}, {"keyed": True}, 0x11),
    ("transport data", raw(0x5A, 0x1000, 64), {}, {"transport": True}, 0x11),
    ("vendor type", raw(0xF0, 0x1000, 64), {}, {}, 0x11),
    ("reserved type", raw(0x60, 0x1000, 64), {}, {}, 0x11),
    ("bit bucket that is not supported", raw(BUCKET, 0, 64), {}, {"bit_bucket": False}, 0x11),
    ("offset that is not supported", raw(0x01, 0x1000, 64), {}, {}, 0x11),
    ("offset into a buffer that is not used", raw(0x01, 0x1000, 64), {}, {"offset": True}, 0x16),
    ("reserved subtype", raw(0x02, 0x1000, 64), {}, {}, 0x11),
    ("address off a dword", raw(DATA, 0x1002, 64), {}, {"supported": 2}, 0x1E),
    ("length off a dword", raw(LAST, S, 32), {S: raw(DATA, 0x1000, 62) + raw(DATA, 0x2000, 2)}, {"supported": 2}, 0x1E),
]


@pytest.mark.parametrize(("why", "first", "memory", "caps", "code"), REFUSALS, ids=[r[0] for r in REFUSALS])
def test_walk_refuses(why: str, first: bytes, memory: dict[int, bytes], caps: dict[str, bool | int], code: int) -> None:
    with pytest.raises(SglInvalid, match="TT-NVME-SGL") as caught:
        sgl.walk(SglDescriptor.decode(first), 64, support(**caps), Memory(*memory.items()).read, to_host=True)
    assert (caught.value.status_type, caught.value.status_code) == (0, code), why


def test_metadata_length_has_a_status_of_its_own() -> None:
    for length in (7, 9):
        with pytest.raises(SglInvalid) as caught:
            sgl.walk(
                SglDescriptor.decode(raw(DATA, 0x1000, length)),
                8,
                support(),
                Memory().read,
                to_host=True,
                metadata=True,
            )
        assert caught.value.status_code == 0x10


def test_a_chain_without_end_ends() -> None:
    loop = raw(SEGMENT, S, 16)
    with pytest.raises(SglInvalid) as caught:
        sgl.walk(SglDescriptor.decode(loop), 64, support(), Memory((S, loop)).read, to_host=True, max_descriptors=1000)
    assert caught.value.status_code == 0x0E


def test_reading_a_segment_may_fail() -> None:
    with pytest.raises(KeyError):
        sgl.walk(SglDescriptor.decode(raw(LAST, S, 16)), 64, support(), Memory().read, to_host=True)


BUILD_REFUSALS: list[tuple[str, list[tuple[int, int]], dict[str, bool | int], list[tuple[int, int]], int]] = [
    ("SGLs not supported", [(0x1000, 64)], {"supported": 0}, [], 0x02),
    ("no data", [], {}, [], 0x0F),
    ("an empty run", [(0x1000, 0)], {}, [], 0x0F),
    ("a run that wraps", [((1 << 64) - 1, 2)], {}, [], 0x0F),
    ("an address off a dword", [(0x1002, 64)], {"supported": 2}, [], 0x1E),
    ("a length off a dword", [(0x1000, 62)], {"supported": 2}, [], 0x1E),
    ("a segment off a qword", [(0x1000, 64), (0x3000, 64)], {}, [(S + 4, 64)], 0x0D),
    ("no segment space", [(0x1000, 64), (0x3000, 64)], {}, [], 0x0E),
    ("pieces that hold one descriptor", [(0x1000, 64), (0x3000, 64)], {}, [(S, 16), (S + 64, 16)], 0x0E),
]


@pytest.mark.parametrize(("why", "runs", "caps", "space", "code"), BUILD_REFUSALS, ids=[r[0] for r in BUILD_REFUSALS])
def test_build_refuses(
    why: str,
    runs: list[tuple[int, int]],
    caps: dict[str, bool | int],
    space: list[tuple[int, int]],
    code: int,
) -> None:
    with pytest.raises(SglInvalid, match="TT-NVME-SGL") as caught:
        sgl.build(runs, support(**caps), space)
    assert (caught.value.status_type, caught.value.status_code) == (0, code), why


def test_runs_that_touch_are_one_descriptor() -> None:
    plan = sgl.build([(0x1000, 4096), (0x2000, 65536)], support())
    assert plan.descriptor == SglDescriptor(address=0x1000, length=69632)
    assert plan.segments == ()


def test_runs_beyond_32_bits_are_cut() -> None:
    huge = 5 << 30
    assert sgl.merge([(1 << 40, huge)]) == (
        (1 << 40, 0xFFFF_F000),
        ((1 << 40) + 0xFFFF_F000, huge - 0xFFFF_F000),
    )
    plan = sgl.build([(1 << 40, huge)], support(supported=2), [(S, 64)])
    assert plan.descriptor.type == sgl.SglType.LAST_SEGMENT
    assert plan.descriptor.length == 32

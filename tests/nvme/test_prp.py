"""PRPs: built, and walked by an oracle written from the rules' text; walked, and built by one; every refusal."""

from __future__ import annotations

import random
import struct
from collections.abc import Iterator
from dataclasses import dataclass, field

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tutti_hal.errors import PrpInvalid
from tutti_hal.nvme import prp
from tutti_hal.nvme.prp import PrpPair

PAGES = (4096, 8192, 16384, 32768, 65536)


@dataclass
class Memory:
    """List memory, one qword at a time; reading what was never written fails."""

    words: dict[int, int] = field(default_factory=dict)
    reads: list[tuple[int, int]] = field(default_factory=list)

    def write(self, bus: int, data: bytes) -> None:
        for k in range(0, len(data), 8):
            assert bus + k not in self.words, "two lists overlap"
            self.words[bus + k] = struct.unpack_from("<Q", data, k)[0]

    def read(self, bus: int, nbytes: int) -> bytes:
        assert nbytes % 8 == 0
        assert nbytes > 0
        self.reads.append((bus, nbytes))
        return b"".join(struct.pack("<Q", self.words[bus + k]) for k in range(0, nbytes, 8))


def device_finds(pair: PrpPair, nbytes: int, page: int, memory: Memory) -> Iterator[tuple[int, int]]:
    """What a drive reads, by the text: an offset in the first page only, PRP2 a page or a list, lists chained."""
    offset = pair.prp1 % page
    in_first = min(page - offset, nbytes)
    yield pair.prp1, in_first
    left = nbytes - in_first
    if left == 0:
        return
    if offset + nbytes <= 2 * page:
        yield pair.prp2, left
        return
    at = pair.prp2
    while left:
        if at % page == page - 8 and left > page:
            at = memory.words[at]
            assert at % page == 0
            continue
        bus = memory.words[at]
        at += 8
        assert bus % page == 0
        yield bus, min(page, left)
        left -= min(page, left)


@st.composite
def transfers(draw: st.DrawFn) -> tuple[int, list[tuple[int, int]]]:
    """A page size and runs that PRPs can say."""
    page = draw(st.sampled_from(PAGES))
    pages = draw(st.one_of(st.integers(1, 4), st.integers(1, 1400)))
    offset = 4 * draw(st.one_of(st.just(0), st.integers(0, page // 4 - 1), st.just(page // 4 - 1)))
    tail = draw(st.one_of(st.just(page), st.integers(1, page)))
    if pages == 1:
        tail = max(1, min(tail, page - offset))
    rng = random.Random(draw(st.integers(0, 2**32)))
    mean_run = draw(st.sampled_from([1, 3, 50, 10_000]))
    runs: list[tuple[int, int]] = []
    left, base = pages, rng.randrange(1, 1 << 30)
    while left:
        count = min(left, rng.randint(1, mean_run))
        runs.append((base * page, count * page))
        base += count + rng.choice((0, 1, 7, 1 << 20))
        left -= count
    if pages == 1:
        return page, [(runs[0][0] + offset, tail)]
    runs[0] = (runs[0][0] + offset, runs[0][1] - offset)
    runs[-1] = (runs[-1][0], runs[-1][1] - page + tail)
    return page, runs


@st.composite
def list_spaces(draw: st.DrawFn, page: int, entries: int) -> list[tuple[int, int]]:
    """Enough list memory: one piece or many, the first anywhere on a qword, the others whole pages."""
    first = 8 * draw(st.one_of(st.just(0), st.integers(0, page // 8 - 1), st.just(page // 8 - 1)))
    pages = 3 + entries * 8 // (page - 8)
    base = draw(st.integers(1 << 40, 1 << 41)) * page
    if draw(st.booleans()):
        return [(base + first, pages * page - first)]
    order = list(range(pages))
    random.Random(draw(st.integers(0, 2**32))).shuffle(order)
    return [(base + 2 * order[0] * page + first, page - first), *((base + 2 * k * page, page) for k in order[1:])]


def flat(pieces: list[tuple[int, int]], page: int) -> list[tuple[int, int]]:
    """Runs cut at page ends: what any correct walk must give."""
    cut = []
    for start, nbytes in pieces:
        at, end = start, start + nbytes
        while at < end:
            step = min(end - at, page - at % page)
            cut.append((at, step))
            at += step
    return cut


@settings(max_examples=100, deadline=None)
@given(data=st.data())
def test_built_prps_lead_a_drive_to_the_data(data: st.DataObject) -> None:
    page, runs = data.draw(transfers())
    nbytes = sum(n for _, n in runs)
    pages = flat(runs, page)
    space = data.draw(list_spaces(page, len(pages)))
    plan = prp.build(runs, page, space)
    memory = Memory()
    for bus, content in plan.lists:
        assert any(start <= bus and bus + len(content) <= start + size for start, size in space)
        memory.write(bus, content)
    assert list(device_finds(plan.pair, nbytes, page, memory)) == pages
    assert list(prp.walk(plan.pair, nbytes, page, memory.read)) == pages
    # A list is read with one read a page, and nothing beyond its last entry is touched.
    assert memory.reads == [(bus, len(content)) for bus, content in plan.lists]
    written = sum(len(content) for _, content in plan.lists)
    needed = prp.list_bytes_needed(nbytes, runs[0][0] % page, page, space[0][0] % page)
    assert written == needed
    if len(pages) <= 2:
        assert plan.lists == ()
        assert plan.pair.prp2 == (pages[1][0] if len(pages) == 2 else 0)


@settings(max_examples=80, deadline=None)
@given(data=st.data())
def test_walk_follows_lists_that_another_hand_wrote(data: st.DataObject) -> None:
    """The lists are laid down qword by qword: last qword of a page is a pointer exactly when more than it remains."""
    page, runs = data.draw(transfers())
    pages = flat(runs, page)
    nbytes = sum(n for _, n in runs)
    memory = Memory()
    prp2 = 0
    if len(pages) == 2:
        prp2 = pages[1][0]
    elif len(pages) > 2:
        at = prp2 = (1 << 50) + 8 * data.draw(st.integers(0, page // 8 - 1))
        fresh = (1 << 51) // page * page
        entries = [bus for bus, _ in pages[1:]]
        while entries:
            if at % page == page - 8 and len(entries) > 1:
                memory.words[at] = fresh
                at, fresh = fresh, fresh + 3 * page
            memory.words[at] = entries.pop(0)
            at += 8
    assert list(prp.walk(PrpPair(prp1=pages[0][0], prp2=prp2), nbytes, page, memory.read)) == pages


@pytest.mark.parametrize("page", PAGES)
def test_boundaries(page: int) -> None:
    base = 16 * page
    # Ends with the first page; one byte more; two pages; one byte more.
    assert prp.build([(base + 4, page - 4)], page).pair == PrpPair(prp1=base + 4)
    assert prp.build([(base + 4, page - 3)], page).pair == PrpPair(prp1=base + 4, prp2=base + page)
    assert prp.build([(base + 4, 2 * page - 4)], page).pair == PrpPair(prp1=base + 4, prp2=base + page)
    with pytest.raises(PrpInvalid, match="list space"):
        prp.build([(base + 4, 2 * page - 3)], page)
    plan = prp.build([(base + 4, 2 * page - 3)], page, [(page, 16)])
    assert plan.pair.prp2 == page
    assert plan.lists == ((page, struct.pack("<QQ", base + page, base + 2 * page)),)
    assert prp.list_bytes_needed(2 * page - 4, 4, page) == 0
    assert prp.list_bytes_needed(2 * page - 3, 4, page) == 16


@pytest.mark.parametrize("slots", [1, 2, 3, 512])
def test_first_list_that_starts_inside_a_page(slots: int) -> None:
    """`slots` qwords to the end of the page: exactly as many entries need no chain, one more needs one."""
    page = 4096
    start = (1 << 30) + page - 8 * slots
    exactly = [(1 << 40, (slots + 1) * page)] if slots > 1 else [(1 << 40, 3 * page)]
    spare = 1 << 31
    plan = prp.build(exactly, page, [(start, 8 * slots), (spare, page)])
    if slots > 1:
        assert [bus for bus, _ in plan.lists] == [start]
    plan = prp.build([(1 << 40, (slots + 2) * page)], page, [(start, 8 * slots), (spare, page)])
    (first, content), (second, rest) = plan.lists
    assert (first, second, len(content)) == (start, spare, 8 * slots)
    assert struct.unpack_from("<Q", content, len(content) - 8) == (spare,)
    assert len(rest) == 16


def test_entries() -> None:
    assert prp.entries([(0x10_0004, 0x1FFC)], 4096) == (0x10_0004, 0x10_1000)
    assert prp.entries([(0x10_0000, 0x1000), (0x30_0000, 1)], 4096) == (0x10_0000, 0x30_0000)


BUILD_REFUSALS = [
    ("a start off a dword", [(0x1002, 64)], 4096, [], 0x13),
    ("a joint inside a page", [(0x1000, 2048), (0x3800, 2048)], 4096, [], 0x13),
    ("a run that ends inside a page", [(0x1000, 2048), (0x3000, 2048)], 4096, [], 0x13),
    ("a run that starts inside a page", [(0x1000, 4096), (0x3800, 2048)], 4096, [], 0x13),
    ("no data", [], 4096, [], 0x02),
    ("an empty run", [(0x1000, 0)], 4096, [], 0x02),
    ("a negative length", [(0x1000, -4096)], 4096, [], 0x02),
    ("an address that wraps", [((1 << 64) - 4096, 8192)], 4096, [], 0x02),
    ("a page of no power of two", [(0x1000, 64)], 5000, [], 0x02),
    ("a page below 4 KiB", [(0x1000, 64)], 2048, [], 0x02),
    ("a page of zero", [(0x1000, 64)], 0, [], 0x02),
    ("a negative page", [(0x1000, 64)], -4096, [], 0x02),
    ("no list space", [(0x1000, 3 * 4096)], 4096, [], 0x02),
    ("too little list space", [(0x1000, 4 * 4096)], 4096, [(0x9000, 16)], 0x02),
    ("a list off a qword", [(0x1000, 3 * 4096)], 4096, [(0x9004, 4096)], 0x13),
    ("a chained list inside a page", [(0x1000, 4 * 4096)], 4096, [(0x9FF8, 8), (0xB008, 4088)], 0x13),
    ("a list that ends before its page does", [(0x1000, 6 * 4096)], 4096, [(0x9000, 16), (0xB000, 4096)], 0x02),
]


@pytest.mark.parametrize(("why", "runs", "page", "space", "code"), BUILD_REFUSALS, ids=[r[0] for r in BUILD_REFUSALS])
def test_build_refuses(
    why: str, runs: list[tuple[int, int]], page: int, space: list[tuple[int, int]], code: int
) -> None:
    with pytest.raises(PrpInvalid, match="TT-NVME-PRP") as caught:
        prp.build(runs, page, space)
    assert (caught.value.status_type, caught.value.status_code) == (0, code), why


def _words(*pairs: tuple[int, int]) -> Memory:
    return Memory(words=dict(pairs))


P = 4096
WALK_REFUSALS = [
    ("PRP1 off a dword", PrpPair(prp1=0x1001), 16, _words(), 0x13),
    ("PRP1 zero", PrpPair(prp1=0), 16, _words(), 0x02),
    ("PRP2 missing", PrpPair(prp1=0x1000), 2 * P, _words(), 0x02),
    ("PRP2 inside a page", PrpPair(prp1=0x1000, prp2=0x3004), 2 * P, _words(), 0x13),
    ("list pointer off a qword", PrpPair(prp1=0x1000, prp2=0x3004), 3 * P, _words(), 0x13),
    ("list pointer missing", PrpPair(prp1=0x1000), 3 * P, _words(), 0x02),
    ("entry inside a page", PrpPair(prp1=0x1000, prp2=0x3000), 3 * P, _words((0x3000, 0x5000), (0x3008, 0x6008)), 0x13),
    ("entry zero", PrpPair(prp1=0x1000, prp2=0x3000), 3 * P, _words((0x3000, 0x5000), (0x3008, 0)), 0x02),
    ("chain inside a page", PrpPair(prp1=0x1000, prp2=0x3FF8), 3 * P, _words((0x3FF8, 0x5008)), 0x13),
    ("chain zero", PrpPair(prp1=0x1000, prp2=0x3FF8), 3 * P, _words((0x3FF8, 0)), 0x02),
]


@pytest.mark.parametrize(("why", "pair", "nbytes", "memory", "code"), WALK_REFUSALS, ids=[r[0] for r in WALK_REFUSALS])
def test_walk_refuses(why: str, pair: PrpPair, nbytes: int, memory: Memory, code: int) -> None:
    with pytest.raises(PrpInvalid, match="TT-NVME-PRP") as caught:
        prp.walk(pair, nbytes, P, memory.read)
    assert (caught.value.status_type, caught.value.status_code) == (0, code), why


def test_walk_of_nothing_and_of_what_is_not_needed() -> None:
    assert prp.walk(PrpPair(prp1=0x1003), 0, 4096, Memory().read) == ()
    # PRP2 is not looked at when PRP1's page is enough.
    assert prp.walk(PrpPair(prp1=0x1FFC, prp2=0x3), 4, 4096, Memory().read) == ((0x1FFC, 4),)


@pytest.mark.parametrize("page", [0, -4096, 2048, 5000])
def test_walk_refuses_what_is_no_page(page: int) -> None:
    with pytest.raises(PrpInvalid, match="page size"):
        prp.walk(PrpPair(prp1=0x1000), 16, page, Memory().read)


def test_reading_a_list_may_fail() -> None:
    def fault(bus: int, nbytes: int) -> bytes:
        raise LookupError(f"{nbytes} at {bus:#x}")

    with pytest.raises(LookupError, match="0x3000"):
        prp.walk(PrpPair(prp1=0x1000, prp2=0x3000), 3 * 4096, 4096, fault)


@pytest.mark.parametrize(
    "arguments", [(0, 0, 4096), (1, -1, 4096), (1, 4096, 4096), (1, 0, 4096, 4), (1, 0, 4096, 4096), (1, 0, 1000)]
)
def test_list_size_refuses(arguments: tuple[int, ...]) -> None:
    with pytest.raises(PrpInvalid):
        prp.list_bytes_needed(*arguments)

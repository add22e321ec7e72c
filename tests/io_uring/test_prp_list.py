"""The static PRP list, read as a drive reads it: a walker written from the specification's rules."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tutti_hal.errors import BufferInvalid
from tutti_hal.io_uring.prp_list import fill, page_addresses, plan

pytestmark = pytest.mark.ring


def walk(memory: dict[int, np.ndarray], at: int, count: int, page_bytes: int) -> list[int]:
    """Page addresses that a drive reads for ``count`` entries from a list that begins at ``at``."""
    found = []
    while True:
        page, place = at & ~(page_bytes - 1), (at & (page_bytes - 1)) // 8
        words = memory[page]
        while place < page_bytes // 8:
            last_place = place == page_bytes // 8 - 1
            left = count - len(found)
            if last_place and left > 1:
                break
            found.append(int(words[place]))
            if len(found) == count:
                return found
            place += 1
        at = int(words[-1])


def device_list_start(pages: int, page_bytes: int, first: int, last: int, bus: np.ndarray) -> int:
    """The rule of ring_list in kernels/ring_command.j2."""
    layout = plan(pages, page_bytes)
    skewed = last % layout.entries == 0
    place = first + (layout.skew if skewed else 0)
    row = place // layout.entries + (layout.plain_pages if skewed else 0)
    return int(bus[row]) + 8 * (place % layout.entries)


@given(data=st.data(), shift=st.sampled_from([6, 12]), pages=st.integers(3, 1600), seed=st.integers(0, 99))
def test_every_transfer_finds_its_pages(data: st.DataObject, shift: int, pages: int, seed: int) -> None:
    page_bytes = 1 << shift
    pages = pages if shift == 12 else pages % 60 + 3
    first = data.draw(st.integers(1, pages - 2))
    last = data.draw(st.integers(first + 1, pages - 1))
    rng = np.random.default_rng(seed)
    layout = plan(pages, page_bytes)
    places = rng.permutation(4 * (pages + layout.pages))[: pages + layout.pages].astype(np.uint64)
    addresses, bus = (places[:pages] + 1) * np.uint64(page_bytes), (places[pages:] + 1) * np.uint64(page_bytes)
    words = fill(layout, addresses, bus)
    memory = {int(address): words[row] for row, address in enumerate(bus)}
    start = device_list_start(pages, page_bytes, first, last, bus)
    assert walk(memory, start, last - first + 1, page_bytes) == [int(a) for a in addresses[first : last + 1]]


@given(shift=st.sampled_from([9, 12]), pages=st.integers(1, 1300), power=st.integers(0, 6), data=st.data())
def test_in_pieces_every_place_holds_a_page(shift: int, pages: int, power: int, data: st.DataObject) -> None:
    page_bytes, piece = 1 << shift, 1 << power
    layout = plan(pages, page_bytes, piece)
    assert (layout.pages, layout.skewed_pages) == (-(-pages * 8 // page_bytes), 0)
    addresses = np.arange(1, pages + 1, dtype=np.uint64) * np.uint64(3 * page_bytes)
    bus = (np.arange(layout.pages, dtype=np.uint64) * np.uint64(2) + np.uint64(1 << 30)) * np.uint64(page_bytes)
    memory = {int(address): row for address, row in zip(bus, fill(layout, addresses, bus), strict=True)}
    start = data.draw(st.integers(0, (pages - 1) // piece)) * piece
    last = data.draw(st.integers(start, min(start + piece, pages) - 1))
    first = data.draw(st.integers(start, last))
    if last - first >= 2:
        row, place = divmod(first + 1, layout.entries)
        found = walk(memory, int(bus[row]) + 8 * place, last - first, page_bytes)
        assert found == [int(a) for a in addresses[first + 1 : last + 1]]


def test_a_second_list_only_where_a_transfer_may_need_it() -> None:
    assert plan(511, 4096).skewed_pages == 0
    assert plan(512, 4096).skewed_pages == 2
    assert plan(4096, 4096, 1024).skewed_pages > 0, "a piece of more than a list page goes through a chain"


def test_without_the_skewed_list_a_pointer_is_read_as_data() -> None:
    """Why there are two: the walker itself shows the fault of one."""
    page_bytes, pages = 64, 30
    layout = plan(pages, page_bytes)
    addresses = np.arange(1, pages + 1, dtype=np.uint64) * np.uint64(page_bytes) + np.uint64(1 << 20)
    bus = np.arange(1, layout.pages + 1, dtype=np.uint64) * np.uint64(page_bytes)
    words = fill(layout, addresses, bus)
    memory = {int(address): words[row] for row, address in enumerate(bus)}
    last = layout.entries
    assert walk(memory, int(bus[0]) + 8, last, page_bytes)[-1] == int(bus[1])


def test_pages_of_runs() -> None:
    assert list(page_addresses([(0x4000, 8192), (0x10000, 4096)], 4096)) == [0x4000, 0x5000, 0x10000]
    for bad in ([(0x4001, 4096)], [(0x4000, 100)], [(0x4000, 0)]):
        with pytest.raises(BufferInvalid):
            page_addresses(bad, 4096)

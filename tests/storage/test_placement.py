"""Positions to places: extents and stripes beside models that go byte by byte, or unit by unit."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tutti_hal.errors import StripeInvalid
from tutti_hal.storage.extents import ExtentTable, Pieces, join, make_extents
from tutti_hal.storage.stripes import StripeTable, plan

pytestmark = pytest.mark.storage

lengths = st.lists(st.integers(1, 9), min_size=1, max_size=12)


def leaf(sizes: list[int], row: int, seed: int) -> tuple[list[tuple[int, int]], np.ndarray]:
    """Extents of these lengths at places of their own; and (row, physical) of every byte."""
    places = np.random.default_rng(seed).permutation(len(sizes)) * 100
    pieces, truth, position = [], [], 0
    for size, place in zip(sizes, places.tolist(), strict=True):
        pieces.append((position, place, size))
        truth += [(row, place + at) for at in range(size)]
        position += size
    return truth, make_extents(pieces, row)


def bytes_of(pieces: Pieces, owner: int) -> list[tuple[int, int]]:
    """(row, physical) of every byte of a range, in order of ``skip``; fails where pieces leave gaps or overlap."""
    mine = sorted(
        (int(pieces.skip[i]), int(pieces.nbytes[i]), int(pieces.row[i]), int(pieces.physical[i]))
        for i in np.flatnonzero(pieces.owner == owner)
    )
    found: list[tuple[int, int]] = []
    for skip, nbytes, row, physical in mine:
        assert skip == len(found)
        found += [(row, physical + at) for at in range(nbytes)]
    return found


@given(st.lists(lengths, min_size=1, max_size=6), st.data())
@settings(max_examples=60, deadline=None)
def test_ranges_of_many_leaves(leaves: list[list[int]], data: st.DataObject) -> None:
    made = [leaf(sizes, row, row) for row, sizes in enumerate(leaves)]
    table = ExtentTable()
    bases = table.add([extents for _, extents in made])
    closed = data.draw(st.sets(st.integers(0, len(leaves) - 1), max_size=len(leaves) - 1))
    first_of_them = data.draw(st.integers(0, len(closed)))
    for some in (sorted(closed)[:first_of_them], sorted(closed)[first_of_them:]):
        table.remove([bases[number] for number in some], [made[number][1] for number in some])
    asked = []
    for number, sizes in enumerate(leaves):
        if number in closed:
            continue
        total = sum(sizes)
        first = data.draw(st.integers(0, total - 1))
        asked.append((number, first, data.draw(st.integers(1, total - first))))
    order = data.draw(st.permutations(asked))
    positions = np.array([bases[number] + first for number, first, _ in order], np.uint64)
    nbytes = np.array([count for _, _, count in order], np.uint64)
    found = table.look_up(positions, nbytes)
    joined = join(found)
    assert len(joined.owner) <= len(found.owner)
    for owner, (number, first, count) in enumerate(order):
        truth = made[number][0][first : first + count]
        assert bytes_of(found, owner) == truth
        assert bytes_of(joined, owner) == truth


def test_neighbours_on_the_drive_become_one() -> None:
    table = ExtentTable()
    (base,) = table.add([make_extents([(0, 4096, 4096), (4096, 8192, 4096), (8192, 4096 * 9, 4096)], 0)])
    found = join(table.look_up(np.array([base], np.uint64), np.array([3 * 4096], np.uint64)))
    assert found.nbytes.tolist() == [8192, 4096]
    assert found.physical.tolist() == [4096, 4096 * 9]


def dealt(sizes: list[int], unit: int, rotation: int) -> list[tuple[int, int]]:
    """The model: (member, unit of it) of each unit of a set, dealt out row by row to whoever has room."""
    rows = [size // unit for size in sizes]
    places: list[tuple[int, int]] = []
    row, zone_first, members = 0, 0, [n for n, room in enumerate(rows) if room > 0]
    while members:
        now = [n for n, room in enumerate(rows) if room > row]
        if now != members:
            members, zone_first = now, len(places)
            continue
        for place in range(len(members)):
            number = len(places) - zone_first
            del place
            places.append((members[(number + rotation) % len(members)], row))
        row += 1
    return places


@given(
    st.lists(st.integers(0, 40), min_size=1, max_size=6),
    st.sampled_from([1, 2, 3, 5, 18]),
    st.integers(0, 9),
    st.data(),
)
@settings(max_examples=80, deadline=None)
def test_stripes_over_members_of_any_sizes(sizes: list[int], unit: int, rotation: int, data: st.DataObject) -> None:
    truth = dealt(sizes, unit, rotation)
    if not truth:
        with pytest.raises(StripeInvalid):
            plan(sizes, [1] * len(sizes), unit, rotation)
        return
    layout = plan(sizes, [1] * len(sizes), unit, rotation)
    assert layout.size == unit * len(truth)
    # Every unit of every member is used once: nothing of a large drive is left over.
    assert len(set(truth)) == len(truth) == sum(size // unit for size in sizes)
    table, bases = StripeTable(), [1000 * number for number in range(len(sizes))]
    table.add(plan([7], [1], 7), [9_999])  # another set before it
    base = table.add(layout, bases)
    first = data.draw(st.integers(0, layout.size - 1))
    count = data.draw(st.integers(1, layout.size - first))
    found = table.spread(np.array([base + first], np.uint64), np.array([count], np.uint64))
    expected = [
        (0, bases[truth[at // unit][0]] + truth[at // unit][1] * unit + at % unit) for at in range(first, first + count)
    ]
    assert bytes_of(found, 0) == expected
    assert int(found.nbytes.max()) <= unit


def test_a_layer_spreads_only_with_rotation() -> None:
    """The same two units of 8 sets: without rotation on two of the four members, with one of each set on all."""
    unit = 18 * 1024

    def members(rotate: bool) -> set[int]:
        used = set()
        for chunk in range(8):
            table = StripeTable()
            base = table.add(
                plan([10 * unit] * 4, [512] * 4, unit, chunk if rotate else 0), [n << 40 for n in range(4)]
            )
            found = table.spread(np.array([base + 2 * unit], np.uint64), np.array([2 * unit], np.uint64))
            used |= {int(where) >> 40 for where in found.physical}
        return used

    assert members(False) == {2, 3}
    assert members(True) == {0, 1, 2, 3}


@pytest.mark.parametrize(
    ("sizes", "blocks", "unit", "rotation", "words"),
    [
        ([], [], 512, 0, "there is no member"),
        ([1 << 20], [4096], 18 * 1024, 0, "blocks of 4096 bytes. Pad the unit, such as to 20480"),
        ([1 << 20], [512], 0, 0, "blocks of 512"),
        ([1 << 20], [512], 512, -1, "rotation -1"),
        ([512, 1024], [512, 512], 2048, 0, "members hold 1024 bytes at most"),
    ],
)
def test_sets_that_cannot_be(sizes: list[int], blocks: list[int], unit: int, rotation: int, words: str) -> None:
    with pytest.raises(StripeInvalid, match=words):
        plan(sizes, blocks, unit, rotation)

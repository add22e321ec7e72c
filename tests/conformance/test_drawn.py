"""What a case drew at random is kept as places in its source, and comes back byte for byte."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tutti_hal.conformance_tests.drawn import LIMIT_BYTES, Source, restored, without
from tutti_hal.conformance_tests.observation import ObservationInvalid, decode, encode

pytestmark = pytest.mark.suite

SEED = 0x1234_5678_9ABC


def kept(value: Any, seed: int = SEED) -> Any:
    return encode({"x": value}, source=Source(seed))["x"]["$array"]


def back(table: Any, seed: int = SEED) -> Any:
    return decode({"x": {"$array": table}}, seed)["x"]


def test_what_generators_make_is_the_raw_output_in_its_order() -> None:
    """The one thing about NumPy that a package rests on; its raw output is promised never to change."""
    draw = np.random.default_rng(SEED)
    taken = [
        draw.integers(0, 256, 1000, np.uint8),
        draw.integers(0, 1 << 32, 64, np.uint32),
        draw.integers(0, 256, 999, np.uint8),
        np.frombuffer(draw.bytes(4096), np.uint8),
        draw.integers(0, 1 << 64, 64, np.uint64),
    ]
    raw = Source(SEED).take(0, 1 << 16)
    places = [raw.find(one.tobytes()) for one in taken]
    assert places == sorted(places)
    assert places[0] == 0
    assert Source(0).take(0, 16).hex() == "5f82c2d9cfeb0fa321d7d982f8bd1045"


def test_drawn_data_is_small_and_exact() -> None:
    draw = np.random.default_rng(SEED)
    data = draw.integers(0, 256, 1 << 20, np.uint8)
    table = kept(data)
    assert table["drawn"] == [[0, 0, 1 << 20]]
    assert len(str(table)) < 200
    assert (back(table) == data).all()
    assert "drawn" not in kept(data, SEED + 1)
    assert "drawn" not in kept(np.zeros(1 << 20, np.uint8))


def test_a_block_in_the_wrong_place_is_another_observation() -> None:
    data = np.random.default_rng(SEED).integers(0, 256, 8 * 512, np.uint8)
    moved = data.copy()
    moved[512:1024], moved[1024:1536] = data[1024:1536], data[512:1024]
    table = kept(moved)
    assert table["drawn"] == [[0, 0, 512], [512, 1024, 512], [1024, 512, 512], [1536, 1536, 2560]]
    assert (back(table) == moved).all()
    flipped = data.copy()
    flipped[700] ^= 1
    assert (back(kept(flipped)) == flipped).all()


@given(st.data())
def test_whatever_is_mixed_comes_back(given_data: st.DataObject) -> None:
    raw = Source(SEED).take(0, 1 << 15)
    parts = []
    for _ in range(given_data.draw(st.integers(1, 6))):
        if given_data.draw(st.booleans()):
            start = given_data.draw(st.integers(0, 1 << 14))
            parts.append(raw[start : start + given_data.draw(st.integers(0, 2000))])
        else:
            parts.append(given_data.draw(st.binary(max_size=90)))
    data = b"".join(parts)
    pieces = Source(SEED).pieces(data)
    assert restored(without(data, pieces), [list(one) for one in pieces], Source(SEED)) == data
    array = np.frombuffer(data, np.uint8)
    assert back(kept(array)).tobytes() == data


def test_pieces_are_found_wherever_words_begin() -> None:
    raw = Source(SEED).take(0, 1 << 16)
    for start in (4, 60, 512, 5000):
        data = b"\xa5" * 20 + raw[start : start + 400] + b"\xa5" * 40
        assert [piece[2] for piece in Source(SEED).pieces(data)] == [400], start


@pytest.mark.parametrize(
    "pieces",
    [
        pytest.param(7, id="a number"),
        pytest.param([[0, 0]], id="two numbers"),
        pytest.param([[0, 0, -64]], id="negative"),
        pytest.param([[0, 0, 64.0]], id="a fraction"),
        pytest.param([[0, 0, True]], id="a truth"),
        pytest.param([[0, 0, 4]], id="very short"),
        pytest.param([[0, LIMIT_BYTES, 64]], id="beyond the source"),
        pytest.param([[0, 0, 1 << 60]], id="endless"),
        pytest.param([[64, 0, 64], [0, 0, 64]], id="in another order"),
        pytest.param([[0, 0, 128], [64, 0, 64]], id="overlapping"),
        pytest.param([[4096, 0, 128]], id="past the end"),
        pytest.param([["0", 0, 64]], id="a text"),
        pytest.param("x", id="text"),
        pytest.param({}, id="a table"),
    ],
)
def test_damaged_pieces_are_refused(pieces: Any) -> None:
    table = {**kept(np.random.default_rng(SEED).integers(0, 256, 1024, np.uint8)), "drawn": pieces}
    with pytest.raises(ObservationInvalid, match="a damaged array"):
        back(table)

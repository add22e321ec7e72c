"""Placement: a bijection, in bounds, and balanced for every layer."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tutti_hal.workload.placement import Placement
from tutti_hal.workload.shapes import LLAMA_3_8B


@given(st.integers(1, 9), st.integers(1, 40), st.integers(1, 6), st.integers(1, 7))
def test_places_are_distinct_aligned_and_in_bounds(layers: int, slots: int, drives: int, blocks: int) -> None:
    placement = Placement(LLAMA_3_8B.scaled(layers=layers, blocks_per_hash=blocks), slots, drives)
    places = set()
    for layer in range(layers):
        drive, offset = placement.locate(np.arange(slots), layer)
        assert drive.shape == offset.shape == (slots, 2 * blocks)
        assert drive.min() >= 0
        assert drive.max() < drives
        assert offset.min() >= 0
        assert offset.max() + LLAMA_3_8B.tensor_bytes <= placement.drive_bytes
        assert not (offset % LLAMA_3_8B.tensor_bytes).any()
        places.update(zip(drive.ravel().tolist(), offset.ravel().tolist(), strict=True))
        # Round-robin: in every layer the drives' shares differ by one tensor at most.
        shares = np.bincount(drive.ravel(), minlength=drives)
        assert shares.max() - shares.min() <= 1
    assert len(places) == layers * slots * 2 * blocks


@pytest.mark.parametrize("layer", [0, 1, 31])
def test_every_layer_of_one_request_uses_all_drives(layer: int) -> None:
    placement = Placement(LLAMA_3_8B.scaled(blocks_per_hash=1), slots=256, drives=4)
    drive, _ = placement.locate(np.arange(24), layer)
    assert np.bincount(drive.ravel(), minlength=4).tolist() == [12, 12, 12, 12]


def test_no_drive_holds_the_first_tensor_of_every_layer() -> None:
    placement = Placement(LLAMA_3_8B.scaled(blocks_per_hash=1), slots=8, drives=4)
    first = [int(placement.locate(np.array([0]), layer)[0][0, 0]) for layer in range(4)]
    assert sorted(first) == [0, 1, 2, 3]

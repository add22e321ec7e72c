"""KV shapes against the arithmetic of the published table (facts: gpu-nvme 3.1)."""

from __future__ import annotations

import pytest

from tutti_hal.errors import ShapeError
from tutti_hal.workload.shapes import LLAMA_3_8B, scaling_note


def test_llama_3_8b_weighs_what_the_table_says() -> None:
    assert LLAMA_3_8B.tensor_bytes == 32 * 1024
    assert LLAMA_3_8B.hash_bytes == 512 * 128 * 1024  # 128 KiB a token over all layers
    assert (LLAMA_3_8B.layers, LLAMA_3_8B.full_blocks_per_hash) == (32, 32)


def test_scaling_is_said_exactly() -> None:
    small = LLAMA_3_8B.scaled(layers=8, blocks_per_hash=1)
    note = scaling_note(LLAMA_3_8B, small)
    assert "8 of 32 layers" in note
    assert "1 of 32 blocks" in note
    assert "0.78%" in note
    assert small.tensor_bytes == LLAMA_3_8B.tensor_bytes
    assert scaling_note(LLAMA_3_8B, LLAMA_3_8B) == ""


@pytest.mark.parametrize("change", [{"layers": 0}, {"blocks_per_hash": 0}, {"blocks_per_hash": 33}])
def test_impossible_shapes_are_refused(change: dict[str, int]) -> None:
    with pytest.raises(ShapeError):
        LLAMA_3_8B.scaled(**change)

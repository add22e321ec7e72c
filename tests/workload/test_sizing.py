"""Sizing: the budget is kept, explicit wishes too, and everything left out is said."""

from __future__ import annotations

import pytest

from tutti_hal.errors import SizingError
from tutti_hal.workload.generator import generate_trace
from tutti_hal.workload.shapes import LLAMA_3_8B
from tutti_hal.workload.sizing import fit
from tutti_hal.workload.trace import TraceRequest

MIB = 1 << 20


def test_layers_are_halved_until_the_budget_holds() -> None:
    trace = generate_trace(0, 60)
    wide = fit(trace, LLAMA_3_8B, drives=4, cache_bytes=512 * MIB, budget_bytes=1 << 62)
    assert wide.shape.layers == 32
    for layers in (16, 8, 1):
        tight = fit(trace, LLAMA_3_8B, drives=4, cache_bytes=512 * MIB, budget_bytes=wide.moved_bytes * layers // 32)
        assert tight.shape.layers == layers
        assert tight.moved_bytes <= wide.moved_bytes * layers // 32
        assert f"{layers} of 32 layers" in tight.notes[0]
    assert all(s.placement.drive_bytes * 4 <= 512 * MIB + 4 * LLAMA_3_8B.hash_bytes for s in (wide, tight))
    assert wide.arena_bytes <= 256 * MIB


def test_explicit_layers_and_blocks_are_kept_whatever_the_budget() -> None:
    sizing = fit(
        generate_trace(0, 4),
        LLAMA_3_8B,
        drives=2,
        cache_bytes=1024 * MIB,
        budget_bytes=1,
        layers=32,
        blocks_per_hash=2,
    )
    assert (sizing.shape.layers, sizing.shape.blocks_per_hash) == (32, 2)
    assert "over the budget of 0" in sizing.notes[1]


def test_ends_of_long_requests_are_left_out_and_that_is_said() -> None:
    long = TraceRequest(0, 100 * 512, 1, tuple(range(100)))
    sizing = fit([long], LLAMA_3_8B, drives=4, cache_bytes=64 * MIB, budget_bytes=1 << 62)
    assert sizing.limit == 16
    assert "1 request(s) longer than 16 hash ids: the 84 ids" in sizing.notes[1]


def test_a_cache_that_holds_nothing_is_refused() -> None:
    with pytest.raises(SizingError, match="--cache-mib"):
        fit(generate_trace(0, 4), LLAMA_3_8B, drives=4, cache_bytes=3 * MIB, budget_bytes=1, layers=32)


def test_more_layers_than_the_model_has_are_refused() -> None:
    with pytest.raises(SizingError, match="Llama-3-8B has 32"):
        fit(generate_trace(0, 4), LLAMA_3_8B, drives=4, cache_bytes=512 * MIB, budget_bytes=1, layers=33)

"""The generated trace against the published statistics of the Mooncake conversation trace (facts: gpu-nvme 3.5)."""

from __future__ import annotations

import statistics
from pathlib import Path

import pytest

from tutti_hal.workload.generator import generate_trace
from tutti_hal.workload.trace import TraceRequest, read_trace, write_trace


@pytest.fixture(scope="module")
def long_trace() -> tuple[TraceRequest, ...]:
    return generate_trace(seed=5, count=4000)


def _reuse(requests: tuple[TraceRequest, ...]) -> float:
    seen: set[int] = set()
    hits = total = 0
    for request in requests:
        hits += sum(i in seen for i in request.hash_ids)
        total += len(request.hash_ids)
        seen.update(request.hash_ids)
    return hits / total


def test_lengths_follow_the_published_ones(long_trace: tuple[TraceRequest, ...]) -> None:
    inputs = [r.input_length for r in long_trace]
    assert statistics.mean(inputs) == pytest.approx(12_035, rel=0.06)
    assert statistics.median(inputs) == pytest.approx(6_909, rel=0.06)
    assert max(inputs) <= 126_195
    assert statistics.mean(r.output_length for r in long_trace) == pytest.approx(343, rel=0.03)


def test_reuse_follows_the_published_one(long_trace: tuple[TraceRequest, ...]) -> None:
    assert _reuse(long_trace) == pytest.approx(0.366, abs=0.03)


def test_share_and_depth_of_later_turns_follow_the_published_ones(long_trace: tuple[TraceRequest, ...]) -> None:
    seen: set[int] = set()
    shares = []
    for request in long_trace:
        prefix = 0
        while prefix < len(request.hash_ids) and request.hash_ids[prefix] in seen:
            prefix += 1
        if prefix > 1:
            shares.append(prefix / len(request.hash_ids))
        seen.update(request.hash_ids)
    assert len(shares) / len(long_trace) == pytest.approx(0.39, abs=0.08)
    assert statistics.mean(shares) == pytest.approx(0.71, abs=0.05)


def test_arrivals_come_ten_in_three_seconds(long_trace: tuple[TraceRequest, ...]) -> None:
    assert {r.timestamp_ms % 3000 for r in long_trace} == {0}
    assert len(long_trace) / (long_trace[-1].timestamp_ms / 3000) == pytest.approx(10, rel=0.05)


def test_an_id_always_has_the_same_predecessor(long_trace: tuple[TraceRequest, ...]) -> None:
    before: dict[int, int] = {}
    for request in long_trace:
        for first, second in zip((-1, *request.hash_ids), request.hash_ids, strict=False):
            assert before.setdefault(second, first) == first


def test_new_ids_are_numbered_in_order_of_appearance(long_trace: tuple[TraceRequest, ...]) -> None:
    seen = [i for request in long_trace for i in request.hash_ids]
    assert list(dict.fromkeys(seen)) == list(range(len(set(seen))))


@pytest.mark.parametrize("seed", range(20))
def test_even_a_short_trace_shares_prefixes(seed: int) -> None:
    assert _reuse(generate_trace(seed, 8)) > 0.02


def test_seed_decides_and_count_does_not() -> None:
    assert generate_trace(1, 50) == generate_trace(1, 200)[:50]
    assert generate_trace(1, 50) != generate_trace(2, 50)


def test_generated_trace_passes_the_reader(tmp_path: Path, long_trace: tuple[TraceRequest, ...]) -> None:
    write_trace(tmp_path / "t.jsonl", long_trace)
    assert read_trace(tmp_path / "t.jsonl") == long_trace


def test_count_below_one_is_refused() -> None:
    with pytest.raises(ValueError, match="at least 1"):
        generate_trace(0, 0)

"""The block cache against a list-based model of LRU, and its invariants."""

from __future__ import annotations

import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tutti_hal.errors import CacheError
from tutti_hal.workload.cache import BlockCache, plan
from tutti_hal.workload.generator import generate_trace


@st.composite
def prefix_trees(draw: st.DrawFn) -> list[list[int]]:
    """Requests whose ids are paths from the root of one tree, so that an id has one predecessor for ever."""
    parents = {0: -1}
    for node in range(1, draw(st.integers(1, 40))):
        parents[node] = draw(st.integers(0, node - 1))
    paths = []
    for _ in range(draw(st.integers(1, 30))):
        node = draw(st.sampled_from(sorted(parents)))
        path = []
        while node >= 0:
            path.append(node)
            node = parents[node]
        paths.append(path[::-1])
    return paths


@given(prefix_trees(), st.integers(1, 12), st.data())
def test_cache_is_lru_bounded_and_prefix_closed(paths: list[list[int]], capacity: int, data: st.DataObject) -> None:
    limit = data.draw(st.integers(1, capacity))
    cache = BlockCache(capacity, limit)
    model: list[int] = []  # most recent last
    parent = {second: first for path in paths for first, second in itertools.pairwise(path)}
    for path in paths:
        part = path[:limit]
        expected_hits = []
        for i in part:
            if i not in model:
                break
            expected_hits.append(i)
        before = set(model)
        model = [i for i in model if i not in part] + part[::-1]
        model = model[-capacity:]
        got = cache.admit(path)
        assert [e.hash_id for e in got.hits] == expected_hits
        assert [e.hash_id for e in got.misses] == part[len(expected_hits) :]
        assert got.beyond == len(path) - len(part)
        assert got.evicted == len((before | set(part)) - set(model))
        residents = cache.residents()
        assert [e.hash_id for e in residents] == model
        assert len({e.slot for e in residents}) == len(residents)
        assert all(0 <= e.slot < capacity for e in residents)
        held = {e.hash_id for e in residents}
        assert all(parent[i] in held for i in held if i in parent and limit == capacity)
        slots = {e.hash_id: e.slot for e in residents}
        assert all(slots[e.hash_id] == e.slot for e in got.hits + got.misses)


def test_a_resident_id_behind_a_missing_one_is_written_again_in_place() -> None:
    cache = BlockCache(4)
    first = cache.admit([1, 2])
    second = cache.admit([7, 2])  # breaks the format's promise: 2 had the predecessor 1
    assert second.hits == ()
    assert second.misses[1] == first.misses[1]


def test_small_cache_evicts_and_large_one_does_not() -> None:
    trace = generate_trace(3, 60)
    distinct = len({i for r in trace for i in r.hash_ids})
    small, large = plan(trace, 64), plan(trace, distinct)
    assert sum(p.evicted for p in small) > 0
    assert sum(p.evicted for p in large) == 0
    assert sum(len(p.misses) for p in large) == distinct
    assert sum(len(p.hits) for p in small) < sum(len(p.hits) for p in large)


@pytest.mark.parametrize(("capacity", "limit"), [(0, None), (4, 0), (4, 5)])
def test_impossible_caches_are_refused(capacity: int, limit: int | None) -> None:
    with pytest.raises(CacheError):
        BlockCache(capacity, limit)

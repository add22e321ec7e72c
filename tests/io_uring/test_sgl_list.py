"""SGL descriptors of pieces, read as a drive reads them: a walker written from the specification's rules."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tutti_hal.io_uring.sgl_list import fill, plan

pytestmark = pytest.mark.ring


def walk(memory: dict[int, bytes], low: int, high: int, page_bytes: int) -> list[tuple[int, int]]:
    """(address, bytes) that a descriptor names; refuses what a strict drive refuses."""
    kind, length = high >> 60, high & 0xFFFFFFFF
    assert (high >> 32) & 0x0FFF_FFFF == 0
    if kind == 0:
        return [(low, length)]
    found: list[tuple[int, int]] = []
    while True:
        assert kind in (2, 3)
        assert length
        assert length % 16 == 0
        assert low // page_bytes == (low + length - 1) // page_bytes, "a segment lies in one list page"
        raw = np.frombuffer(memory[low // page_bytes], np.uint64).reshape(-1, 2)
        at = low % page_bytes // 16
        entries = [(int(a), int(b)) for a, b in raw[at : at + length // 16]]
        last = kind == 3
        body, tail = (entries, None) if last else (entries[:-1], entries[-1])
        assert body, "a segment holds more than the next one"
        assert all(b >> 60 == 0 for _, b in body)
        found += [(a, b & 0xFFFFFFFF) for a, b in body]
        if tail is None:
            return found
        low, high = tail
        kind, length = high >> 60, high & 0xFFFFFFFF


@given(
    shift=st.sampled_from([6, 9, 12]),
    pages=st.integers(1, 300),
    power=st.integers(0, 7),
    breaks=st.floats(0, 1),
    seed=st.integers(0, 1000),
)
def test_every_piece_names_its_pages(shift: int, pages: int, power: int, breaks: float, seed: int) -> None:
    page_bytes, piece_bytes = 1 << shift, 1 << shift + power
    rng = np.random.default_rng(seed)
    jumps = np.where(rng.random(pages) < breaks, rng.integers(2, 9, pages), 1)
    bus = (np.cumsum(jumps).astype(np.uint64) + np.uint64(77)) * np.uint64(page_bytes)
    layout = plan(bus, page_bytes, piece_bytes)
    space = (rng.permutation(4096)[: -(-layout.nbytes // page_bytes)].astype(np.uint64)) * np.uint64(page_bytes)
    words = fill(layout, bus, page_bytes, space)
    raw = words.tobytes().ljust(len(space) * page_bytes, b"\0")
    memory = {int(a) // page_bytes: raw[i * page_bytes : (i + 1) * page_bytes] for i, a in enumerate(space)}
    each = 1 << power
    for piece in range(-(-pages // each)):
        runs = walk(memory, int(words[piece, 0]), int(words[piece, 1]), page_bytes)
        named = [a + at for a, n in runs for at in range(0, n, page_bytes)]
        assert named == [int(a) for a in bus[piece * each : (piece + 1) * each]]
        assert all(a + n != b for (a, n), (b, _) in itertools.pairwise(runs)), "runs are merged"
    assert layout.whole_pieces_only == any(int(w) >> 60 for w in words[: layout.pieces, 1])


def test_pieces_in_one_run_cost_one_descriptor() -> None:
    bus = np.arange(64, dtype=np.uint64) * np.uint64(4096)
    assert plan(bus, 4096, 65536).nbytes == 4 * 16

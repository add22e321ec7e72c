"""Spoils: distinct objects, all read later, inside their tensors; and the replay notices each of them."""

from __future__ import annotations

import numpy as np
import pytest

from tests.workload.fakes import FakeTransport
from tutti_hal.errors import FaultError
from tutti_hal.workload.cache import plan
from tutti_hal.workload.compute import ComputeStandIn
from tutti_hal.workload.faults import choose_spoils
from tutti_hal.workload.generator import generate_trace
from tutti_hal.workload.oracle import Oracle
from tutti_hal.workload.placement import Placement
from tutti_hal.workload.replay import Replay, ReplayResult
from tutti_hal.workload.shapes import KvShape
from tutti_hal.workload.summary import WrongObject, judge

SHAPE = KvShape("tiny", layers=3, kv_heads=1, head_dim=16, element_bytes=2, tokens_per_block=16, blocks_per_hash=2)
PLANS = plan(generate_trace(4, 30), 64, 32)
PLACEMENT = Placement(SHAPE, 64, 3)


@pytest.mark.parametrize("seed", range(5))
def test_every_spoilt_object_is_noticed_by_name_and_place(seed: int) -> None:
    spoils = choose_spoils(PLANS, PLACEMENT, 9, seed)
    assert len({s.name for s in spoils}) == 9
    assert spoils != choose_spoils(PLANS, PLACEMENT, 9, seed + 1)
    transport = FakeTransport(3, PLACEMENT.drive_bytes, 32 * SHAPE.hash_bytes)
    replay = Replay(transport, PLACEMENT, Oracle(SHAPE, 7), ComputeStandIn(0))

    def spoil(request: int, _plan: object) -> None:
        for s in spoils:
            if s.request == request:
                transport.media[s.drive][s.drive_offset] ^= 1

    replay.before_request = spoil
    result = ReplayResult(tuple(replay.run(PLANS)), replay.layers())
    mismatches = [w.mismatch for w in result.wrong]
    assert {m.name for m in mismatches} == {s.name for s in spoils}
    places = {s.name: s.drive_offset % SHAPE.tensor_bytes for s in spoils}
    assert all(places[m.name] == m.first_byte for m in mismatches)


def test_more_than_is_ever_read_is_refused() -> None:
    read = {e.hash_id for p in PLANS for e in p.hits}
    most = len(read) * SHAPE.tensors_per_hash
    assert len(choose_spoils(PLANS, PLACEMENT, most, 0)) == most
    with pytest.raises(FaultError, match=f"only {most} are ever read"):
        choose_spoils(PLANS, PLACEMENT, most + 1, 0)


def test_verdict_names_each_reason() -> None:
    transport = FakeTransport(3, PLACEMENT.drive_bytes, 32 * SHAPE.hash_bytes)
    replay = Replay(transport, PLACEMENT, Oracle(SHAPE, 7), ComputeStandIn(0))
    result = ReplayResult(tuple(replay.run(PLANS)), replay.layers())
    assert judge(result, [], 0).verified
    wrong = WrongObject("hash 1 layer 2 K block 0", 2, 4711, "drive2.img", 1, 2)
    verdict = judge(result, [wrong], 1)
    assert not verdict.verified
    assert all(word in verdict.reasons[0] for word in ("hash 1 layer 2 K block 0", "drive 2", "drive2.img", "4711"))
    missed = judge(result, [wrong], 3)
    assert "2 of 3 objects spoilt on purpose were NOT noticed" in missed.reasons[1]


def test_a_run_without_a_hit_is_not_verified() -> None:
    transport = FakeTransport(3, PLACEMENT.drive_bytes, 32 * SHAPE.hash_bytes)
    replay = Replay(transport, PLACEMENT, Oracle(SHAPE, 7), ComputeStandIn(0))
    result = ReplayResult(tuple(replay.run(PLANS[:1])), replay.layers())
    assert result.wrong == ()
    verdict = judge(result, [], 0)
    assert not verdict.verified
    assert "no hash id was hit" in verdict.reasons[0]
    assert np.isclose(result.read_overlap, 0.0)

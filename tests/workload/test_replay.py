"""The replay over an in-memory fake: what it moves, in which order, and that it sees every kind of wrong byte."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pytest

from tests.workload.fakes import FakeTransport
from tutti_hal.errors import TransportError
from tutti_hal.workload.cache import RequestPlan, plan
from tutti_hal.workload.compute import ComputeStandIn
from tutti_hal.workload.generator import generate_trace
from tutti_hal.workload.oracle import Oracle, TensorName
from tutti_hal.workload.placement import Placement
from tutti_hal.workload.replay import Replay, ReplayResult
from tutti_hal.workload.shapes import KvShape
from tutti_hal.workload.transport import Direction

SHAPE = KvShape("tiny", layers=3, kv_heads=1, head_dim=16, element_bytes=2, tokens_per_block=16, blocks_per_hash=1)
SLOTS, LIMIT = 64, 32


@dataclass
class Bench:
    transport: FakeTransport
    placement: Placement
    replay: Replay
    plans: tuple[RequestPlan, ...]

    def run(self) -> ReplayResult:
        return ReplayResult(tuple(self.replay.run(self.plans)), self.replay.layers())


@pytest.fixture
def bench() -> Bench:
    placement = Placement(SHAPE, SLOTS, 4)
    transport = FakeTransport(4, placement.drive_bytes, LIMIT * SHAPE.hash_bytes)
    replay = Replay(transport, placement, Oracle(SHAPE, 7), ComputeStandIn(0))
    return Bench(transport, placement, replay, plan(generate_trace(2, 40), SLOTS, LIMIT))


def test_a_whole_replay_verifies_and_adds_up(bench: Bench) -> None:
    result = bench.run()
    assert result.wrong == ()
    assert result.hits == sum(len(p.hits) for p in bench.plans) > 40
    assert result.misses == sum(len(p.misses) for p in bench.plans)
    assert sum(r.evicted for r in result.requests) > 0
    assert result.bytes_read == result.hits * SHAPE.hash_bytes == sum(bench.transport.read)
    assert result.bytes_written == result.misses * SHAPE.hash_bytes == sum(bench.transport.written)
    assert sum(layer.bytes_read for layer in result.layers) == result.bytes_read
    assert sum(layer.bytes_written for layer in result.layers) == result.bytes_written
    assert bench.transport.in_flight == []


def test_reads_of_the_next_layer_are_in_flight_during_compute(bench: Bench) -> None:
    seen = []

    class Spy(ComputeStandIn):
        def run(self) -> float:
            seen.append([p._direction for p in bench.transport.in_flight])
            return 0.0

    bench.replay.compute = Spy(0)
    both = next(p for p in bench.plans if p.hits and p.misses)
    # The cache must hold what is hit: run everything before it first.
    list(bench.replay.run(bench.plans[: bench.plans.index(both)]))
    seen.clear()
    list(bench.replay.run([both]))
    assert seen == [[Direction.READ], [Direction.WRITE, Direction.READ], [Direction.WRITE]]


def test_each_layer_is_one_batch_a_direction(bench: Bench) -> None:
    bench.run()
    begun = [entry for entry in bench.transport.log if entry[0] == "begin"]
    assert len(begun) == SHAPE.layers * sum(bool(p.hits) + bool(p.misses) for p in bench.plans)


@pytest.mark.parametrize("at", [0, SHAPE.tensor_bytes - 1])
def test_a_byte_flipped_on_a_drive_is_found_by_name_and_place(bench: Bench, at: int) -> None:
    index, victim = next((i, p) for i, p in enumerate(bench.plans) if p.hits)
    entry = victim.hits[-1]

    def spoil(request: int, _plan: RequestPlan) -> None:
        if request == index:
            drive, offset = bench.placement.locate(np.array([entry.slot]), 1)
            bench.transport.media[drive[0, 1]][offset[0, 1] + at] ^= 0x40

    bench.replay.before_request = spoil
    wrong = bench.run().wrong
    assert [w.mismatch.name for w in wrong] == [TensorName(entry.hash_id, 1, 1)]
    assert (wrong[0].mismatch.first_byte, wrong[0].mismatch.differing_bytes) == (at, 1)
    assert wrong[0].slot == entry.slot


def test_lost_writes_are_found(bench: Bench) -> None:
    bench.transport.lose_writes = True
    result = bench.run()
    assert len(result.wrong) > 0


def test_reads_that_do_nothing_are_found_even_when_the_arena_holds_the_right_bytes(bench: Bench) -> None:
    plans = plan(generate_trace(2, 1) * 2, SLOTS, LIMIT)  # the same request twice: the second reads what the first made
    moved = bench.transport.move
    bench.transport.move = lambda d, t: None if d is Direction.READ else moved(d, t)  # type: ignore[method-assign]
    results = list(bench.replay.run(plans))
    assert results[1].hits == len(plans[0].misses)
    assert len(results[1].wrong) == results[1].hits * SHAPE.tensors_per_hash


def test_a_misplaced_write_is_found(bench: Bench) -> None:
    moved = bench.transport.move

    def swap(direction: Direction, transfer: np.void) -> None:
        if direction is Direction.WRITE:
            transfer = transfer.copy()
            transfer["drive"] = (transfer["drive"] + 1) % 4
        moved(direction, transfer)

    bench.transport.move = swap  # type: ignore[method-assign]
    assert bench.run().wrong != ()


@pytest.mark.parametrize("direction", list(Direction))
def test_a_refused_command_ends_the_replay_with_nothing_in_flight(bench: Bench, direction: Direction) -> None:
    bench.transport.refuse = lambda d, drive: d is direction and drive == 2
    with pytest.raises(TransportError, match="drive 2"):
        bench.run()
    assert bench.transport.in_flight == []


def test_ctrl_c_leaves_nothing_in_flight(bench: Bench) -> None:
    class Interrupted(ComputeStandIn):
        def run(self) -> float:
            if len(bench.transport.in_flight) == 2:
                raise KeyboardInterrupt
            return 0.0

    bench.replay.compute = Interrupted(0)
    with pytest.raises(KeyboardInterrupt):
        bench.run()
    assert bench.transport.in_flight == []


def test_a_plan_larger_than_the_arena_is_refused(bench: Bench) -> None:
    with pytest.raises(ValueError, match="bytes of arena"):
        list(bench.replay.run(plan(generate_trace(2, 40), 128, 128)))


def test_compute_stand_in_takes_about_what_was_asked() -> None:
    stand_in = ComputeStandIn(2000)
    assert stand_in.repeats >= 1
    fastest = min(stand_in.run() for _ in range(20))
    assert 0.0005 < fastest < 0.02
    assert ComputeStandIn(0).run() < 0.001
    with pytest.raises(ValueError, match="negative"):
        ComputeStandIn(-1)

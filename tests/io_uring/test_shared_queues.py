"""Submission queues that share a completion queue: which ones do, and how the host makes them work again."""

from __future__ import annotations

import numpy as np
import pytest
from ring_rig import BLOCK, Rig

from tutti_hal.errors import DepthInvalid, RingBusy, RingError
from tutti_hal.io_uring import Health, Iocb, QueueRecovery, RecoveryLimits, RingOptions, State, Step, succeeded
from tutti_hal.nvme.software import FaultAction, FaultRule

pytestmark = pytest.mark.ring

LIMITS = RecoveryLimits(abort_ns=400_000, recreate_ns=600_000, reset_ns=2_000_000)
_READ = 0x02
#: Lanes 0 to 31 use the first queue of two, the others the second.
COUNT = 32 + 12


def options(**fields: object) -> RingOptions:
    small = {"depth": 33, "lanes": 32, "block": 31, "batch_limit": 64, "limit_ns": 200_000}
    return RingOptions(**small | {"queues": (2,), "queues_per_cq": 2} | fields)


def reads(rig: Rig) -> Iocb:
    iocb = rig.ring.get_iocb()
    at = np.arange(COUNT)
    iocb.read(rig.ring.targets[0], at, BLOCK, rig.buffer, at * BLOCK)
    return iocb


def fail(rig: Rig, action: FaultAction, lba: int) -> list[str]:
    """Reads of which one meets a fault; the states of those through each queue, without repetition."""
    rig.drives[0].inject(FaultRule(action=action, opcode=_READ, lbas=(lba, lba), count=1))
    states = [State(value).name for value in rig.run(reads(rig))["state"]]
    assert states[lba] == "TIMED_OUT"
    return states


def steps(result: QueueRecovery) -> tuple[int, list[Step], Step | None]:
    return result.row, [failure.step for failure in result.failures], result.step


def works(rig: Rig) -> bool:
    written, read, exact = rig.round_trip(COUNT)
    return bool(succeeded(written).all() and succeeded(read).all() and exact)


def test_queues_of_a_class_share() -> None:
    sizes = options(queues=(3, 0, 2))
    assert sizes.completion_groups == (range(2), range(2, 3), range(3, 5))
    assert [sizes.sharing(row) for row in (0, 1, 2, 4)] == [range(2), range(2), range(2, 3), range(3, 5)]
    assert sizes.sharing(5 + 4) == range(8, 10)
    apart = options(queues=(3,), queues_per_cq=1)
    assert apart.completion_groups == (range(1), range(1, 2), range(2, 3))


@pytest.mark.parametrize("fields", [{"queues_per_cq": 0}, {"queues_per_cq": 1 << 16}])
def test_a_number_that_cannot_be_is_refused(fields: dict[str, int]) -> None:
    with pytest.raises(DepthInvalid, match="queues_per_cq"):
        options(**fields)


def test_more_commands_than_entries_need_a_completion_queue_of_their_own() -> None:
    assert options(command_limit=32).commands == 32
    assert options(command_limit=33, queues_per_cq=1).commands == 33
    with pytest.raises(DepthInvalid, match="shares its completion queue"):
        _ = options(command_limit=33).commands


@pytest.mark.parametrize("first_ticket", [0, (1 << 32) - 5])
def test_pairs_and_counters_are_each_ones_own(first_ticket: int) -> None:
    with Rig("sim-w32", options(first_ticket=first_ticket)) as rig:
        assert [(pair.qid, pair.cqid) for pair in rig.handles[0].pairs] == [(1, 1), (2, 1)]
        assert works(rig)
        first, second = rig.ring.statistics().queues
        assert (first.completions, second.completions) == (62, 26)
        assert (first.commands, second.commands) == (62, 26)
        assert first.reaps > 0 == second.reaps
        assert first.cq_doorbells > 0 == second.cq_doorbells


@pytest.mark.parametrize("lba", [3, 40])
def test_a_lost_completion_needs_new_queues_for_all_that_share(lba: int) -> None:
    with Rig("sim-w32", options()) as rig:
        assert works(rig)
        sick = int(lba >= 32)
        states = fail(rig, FaultAction.LOST, lba)
        assert set(states[32:] if sick == 0 else states[:32]) == {"COMPLETED"}
        health = [queue.health for queue in rig.ring.statistics().queues]
        assert health == [Health.TIMED_OUT if row == sick else Health(0) for row in (0, 1)]
        results = rig.ring.recover(LIMITS)
        failed = {row: [Step.ABORT] if row == sick else [] for row in (0, 1)}
        assert [steps(one) for one in results] == [(row, failed[row], Step.RECREATE) for row in (0, 1)]
        assert [one.unknown for one in results] == [int(row == sick) for row in (0, 1)]
        assert rig.ring.recover(LIMITS) == ()
        assert works(rig)


def test_an_abort_leaves_the_other_queue_as_it_was() -> None:
    with Rig("sim-w32", options()) as rig:
        assert works(rig)
        fail(rig, FaultAction.STUCK, 40)
        before = rig.ring.statistics().queues
        assert [steps(one) for one in rig.ring.recover(LIMITS)] == [(1, [], Step.ABORT)]
        first, second = rig.ring.statistics().queues
        assert first == before[0]
        assert (second.lates, second.quarantined, second.health) == (1, 1, Health(0))
        assert works(rig)


def test_a_completion_word_that_a_killed_kernel_held_needs_everything_anew() -> None:
    """It is the first queue's; the sick command is the second's."""
    with Rig("sim-w32", options()) as rig:
        fail(rig, FaultAction.STUCK, 40)
        tables = rig.ring._tables
        tables.close_queue(0, tables.read_words(0))
        results = rig.ring.recover(LIMITS)
        assert [steps(one) for one in results] == [(row, [Step.ABORT], Step.RECREATE) for row in (0, 1)]
        assert isinstance(results[0].failures[0].error, RingError)
        assert works(rig)


def test_a_batch_in_flight_that_may_use_one_of_them_is_waited_for() -> None:
    with Rig("sim-w32", options()) as rig:
        fail(rig, FaultAction.STUCK, 40)
        flying = reads(rig)
        rig.ring.issue_io(flying)
        with pytest.raises(RingBusy, match="queue 1"):
            rig.ring.recover(LIMITS)
        states = [State(value).name for value in rig.ring.wait_cqe(flying)["state"]]
        assert (set(states[:31]), set(states[31:])) == ({"COMPLETED"}, {"NOT_RUN"})
        assert [one.row for one in rig.ring.recover(LIMITS)] == [1]
        assert works(rig)

"""Failed queues made to work again: which step helps against which fault, in which time, and what goes on meanwhile."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from ring_rig import BLOCK, Rig, drive

from tutti_hal.backends.host.sim import SimOptions
from tutti_hal.errors import CommandFailed, ControllerFatal, ControllerGone, RecoveryFailed, RingBusy, RingError
from tutti_hal.io_uring import (
    Drive,
    Health,
    Iocb,
    QueueRecovery,
    RecoveryLimits,
    RingOptions,
    State,
    Step,
    Why,
    succeeded,
    tables,
)
from tutti_hal.io_uring.layout import dtype
from tutti_hal.nvme.software import FaultAction, FaultRule

pytestmark = pytest.mark.ring

LIMIT_NS = 200_000
#: Long against an admin command in the virtual clock.
LIMITS = RecoveryLimits(abort_ns=400_000, recreate_ns=600_000, reset_ns=2_000_000)
_ABORT, _DELETE_SQ, _READ = 0x08, 0x00, 0x02


def options(**fields: object) -> RingOptions:
    small = {"depth": 8, "lanes": 8, "block": 4, "batch_limit": 64, "limit_ns": LIMIT_NS}
    return RingOptions(**small | fields)


def fault(action: FaultAction, lba: int = 3, **fields: object) -> FaultRule:
    return FaultRule(action=action, opcode=_READ, lbas=(lba, lba), **{"count": 1} | fields)


def admin(opcode: int, status: tuple[int, int] = (0, 6)) -> FaultRule:
    return FaultRule(action=FaultAction.STATUS, qid=0, opcode=opcode, status=status)


def reads(rig: Rig, count: int = 8, target: int = 0) -> Iocb:
    iocb = rig.ring.get_iocb()
    at = np.arange(count)
    iocb.read(rig.ring.targets[target], at, BLOCK, rig.buffer, at * BLOCK)
    return iocb


def fail(rig: Rig, *rules: FaultRule) -> list[str]:
    """Reads on drive 0 under faults; the states they end with."""
    for rule in rules:
        rig.drives[0].inject(rule)
    done = rig.run(reads(rig))
    return [State(value).name for value in done["state"]]


def steps(result: QueueRecovery) -> tuple[list[Step], Step | None]:
    return [failure.step for failure in result.failures], result.step


def works(rig: Rig, count: int = 20) -> bool:
    """Whether a round trip over every queue moves its bytes, several laps of them."""
    written, read, exact = rig.round_trip(count)
    return bool(succeeded(written).all() and succeeded(read).all() and exact)


@pytest.mark.parametrize("arch", ["sim-w32", "sim-w64", "sim-w128", "threads-w32"])
def test_a_stuck_command_is_aborted_and_its_queue_goes_on(arch: str) -> None:
    limit_ns = LIMIT_NS if arch.startswith("sim") else 200_000_000
    with Rig(arch, options(limit_ns=limit_ns)) as rig:
        assert works(rig)
        pairs = rig.handles[0].pairs
        assert fail(rig, fault(FaultAction.STUCK), fault(FaultAction.STUCK, 5)).count("TIMED_OUT") == 2
        with pytest.raises(RingBusy, match="recover"):
            rig.ring.unregister(rig.buffer)
        before = rig.ring.statistics().queues[0]
        (result,) = rig.ring.recover()
        assert steps(result) == ([], Step.ABORT)
        assert (result.unknown, result.aborted, result.before) == (2, 2, before)
        after = rig.ring.statistics().queues[0]
        assert (after.commands, after.completions) == (before.commands, before.completions)
        assert (after.lates, after.strays, after.health) == (2, 0, Health(0))
        assert rig.handles[0].pairs == pairs
        assert rig.drives[0].counters.admin_commands[_ABORT] == 2
        for _ in range(3):
            assert works(rig)
        assert rig.ring.recover() == ()
        rig.ring.unregister(rig.buffer)


def test_a_queue_with_other_sizes_goes_on_after_aborts() -> None:
    for sizes in ({"depth": 2}, {"depth": 5, "cq_depth": 3}, {"depth": 3, "cq_depth": 32, "command_limit": 7}):
        with Rig("sim-w32", options(**sizes)) as rig:
            assert works(rig, 7)
            assert "TIMED_OUT" in fail(rig, fault(FaultAction.STUCK))
            assert [one.step for one in rig.ring.recover(LIMITS)] == [Step.ABORT], sizes
            for _ in range(3):
                assert works(rig), sizes


def test_a_lost_completion_needs_a_new_queue() -> None:
    with Rig("sim-w32", options()) as rig:
        assert works(rig)
        assert fail(rig, fault(FaultAction.LOST)).count("TIMED_OUT") == 1
        (result,) = rig.ring.recover(LIMITS)
        assert steps(result) == ([Step.ABORT], Step.RECREATE)
        assert (result.unknown, result.aborted, result.before.quarantined) == (1, 0, 1)
        assert rig.ring.statistics().queues[0].commands == 0
        assert rig.handles[0].epoch == 0
        assert works(rig)
        assert rig.ring.statistics().total("strays") == 0


def test_identifiers_do_not_come_back_in_the_generation_in_which_they_were_lost() -> None:
    with Rig("sim-w32", options(depth=2, lanes=1, block=1)) as rig:
        used: list[int] = []
        for action in (FaultAction.LOST, FaultAction.STUCK, FaultAction.LOST, FaultAction.LOST):
            rig.drives[0].inject(fault(action, 0))
            iocb = reads(rig, 1)
            rig.run(iocb)
            used += iocb.results["identifier"][:1].tolist()
            rig.ring.recover(LIMITS)
        assert len(set(used)) == len(used)


def test_an_identifier_that_a_life_did_not_use_keeps_its_generation_through_it() -> None:
    with Rig("sim-w32", options(depth=3, lanes=1, block=1)) as rig:
        used: list[int] = []
        for count, lost in ((8, False), (1, True), (1, True), (8, False)):
            if lost:
                rig.drives[0].inject(fault(FaultAction.LOST, 0))
            iocb = reads(rig, count)
            rig.run(iocb)
            used += iocb.results["identifier"][:count].tolist()
            assert len(rig.ring.recover(LIMITS)) == lost
        assert len(set(used)) == len(used)


@pytest.mark.parametrize("when", ["before", "during"])
def test_a_late_completion_is_taken_by_the_host_and_not_believed(when: str) -> None:
    with Rig("sim-w32", options()) as rig:
        late = LIMIT_NS + LIMIT_NS // 4 if when == "before" else LIMIT_NS * 50
        assert fail(rig, fault(FaultAction.DELAY, delay_ns=late)).count("TIMED_OUT") == 1
        assert rig.world is not None
        if when == "before":
            while rig.drives[0].counters.cqes_posted < rig.drives[0].counters.sqes_fetched:
                rig.world.run(256)
        (result,) = rig.ring.recover(LIMITS)
        assert steps(result) == ([], Step.ABORT)
        assert result.aborted == (when == "during")
        assert rig.ring.statistics().total("lates") == 1
        assert works(rig)


@pytest.mark.parametrize("step", [Step.RECREATE, Step.RESET])
def test_what_would_come_after_a_step_does_not_come(step: Step) -> None:
    """The drive still has a command when its queue, or all of it, is made anew: neither data nor completion follow."""
    with Rig("sim-w32", options()) as rig:
        assert fail(rig, fault(FaultAction.DELAY, delay_ns=LIMIT_NS * 8)).count("TIMED_OUT") == 1
        rig.drives[0].inject(admin(_ABORT))
        if step is Step.RESET:
            rig.drives[0].inject(admin(_DELETE_SQ))
        (result,) = rig.ring.recover(LIMITS)
        assert result.step is step
        assert isinstance(result.failures[0].error, CommandFailed)
        rig.drives[0].clear_faults()
        rig.data[:] = 0x5A
        assert rig.world is not None
        until = rig.world.now_ns + LIMIT_NS * 10
        while rig.world.now_ns < until:
            rig.world.run(4096)
        assert (rig.data == 0x5A).all()
        assert works(rig)
        assert (rig.ring.statistics().total("strays"), rig.ring.statistics().total("lates")) == (0, 0)


def test_repeated_completions_that_the_host_finds_are_counted_and_end_nothing() -> None:
    with Rig("sim-w32", options()) as rig:
        twice = FaultRule(action=FaultAction.DUPLICATE, opcode=_READ, lbas=(4, 7))
        stranger = FaultRule(action=FaultAction.UNKNOWN_CID, opcode=_READ, lbas=(1, 1))
        assert fail(rig, fault(FaultAction.STUCK), twice, stranger).count("TIMED_OUT") == 1
        (result,) = rig.ring.recover(LIMITS)
        assert steps(result) == ([], Step.ABORT)
        counted = rig.ring.statistics()
        assert (counted.total("strays"), counted.total("lates"), counted.total("completions")) == (5, 1, 7)
        rig.drives[0].clear_faults()
        assert works(rig)


def test_a_drive_that_says_it_aborted_and_did_not_is_not_believed_for_ever() -> None:
    with Rig("sim-w32", options()) as rig:
        assert fail(rig, fault(FaultAction.STUCK)).count("TIMED_OUT") == 1
        rig.drives[0].inject(admin(_ABORT, (0, 0)))
        (result,) = rig.ring.recover(LIMITS)
        assert steps(result) == ([Step.ABORT], Step.RECREATE)
        assert result.aborted == 1
        assert LIMITS.abort_ns <= result.took_ns <= (LIMITS.abort_ns + LIMITS.recreate_ns) * 1.1
        assert works(rig)


@pytest.mark.parametrize("placed", [False, True])
def test_a_fatal_drive_is_reset_and_the_other_one_is_left_alone(placed: bool) -> None:

    def adjust(_: Rig, one: Drive) -> Drive:
        return replace(one, sq_dma=one.dma, cq_dma=one.dma) if placed else one

    with Rig(
        "sim-w32",
        options(queues=(1, 1)),
        drives=[drive(), drive()],
        adjust=adjust,
    ) as rig:
        assert works(rig)
        other = rig.ring.statistics().queues[2:]
        assert "TIMED_OUT" in fail(rig, fault(FaultAction.FATAL_STOP, 2))
        epochs = [handle.epoch for handle in rig.handles]
        results = rig.ring.recover(LIMITS)
        # The queue of the other class was well, but a reset takes all queues of a drive.
        assert [one.row for one in results] == [0, 1]
        assert steps(results[0]) == ([Step.ABORT, Step.RECREATE], Step.RESET)
        assert steps(results[1]) == ([], Step.RESET)
        assert all(isinstance(failure.error, ControllerFatal) for failure in results[0].failures)
        assert [handle.epoch for handle in rig.handles] == [epochs[0] + 1, epochs[1]]
        assert rig.ring.statistics().queues[2:] == other
        rig.drives[0].clear_faults()
        for queue_class in (0, 1):
            iocb = rig.ring.get_iocb()
            iocb.read(rig.ring.targets[0], np.arange(20), BLOCK, rig.buffer, 0, queue_class=queue_class)
            assert succeeded(rig.run(iocb)).all()
        assert works(rig)


def test_a_drive_that_does_not_come_back_is_told_and_may_be_tried_again() -> None:
    with Rig("sim-w32", options(), drives=[drive(), drive()]) as rig:
        assert "TIMED_OUT" in fail(rig, fault(FaultAction.FATAL_STOP, 2))
        rig.drives[0].inject(FaultRule(action=FaultAction.READY_STUCK, immediate=True))
        rig.drives[1].inject(fault(FaultAction.STUCK))
        rig.run(reads(rig, target=1))
        assert rig.world is not None
        began = rig.world.now_ns
        with pytest.raises(RecoveryFailed, match=r"TT-RING-RECOVERY.*1 do not work") as caught:
            rig.ring.recover(LIMITS)
        assert rig.world.now_ns - began <= (LIMITS.abort_ns + LIMITS.recreate_ns + LIMITS.reset_ns) * 1.1
        first, second = caught.value.results
        assert steps(first) == ([Step.ABORT, Step.RECREATE, Step.RESET], None)
        assert (first.works, second.step) == (False, Step.ABORT)
        # Its buffers stay; its queue takes nothing; the other drive goes on.
        with pytest.raises(RingBusy):
            rig.ring.unregister(rig.buffer)
        assert (rig.run(reads(rig))["state"] == State.NOT_RUN).all()
        assert succeeded(rig.run(reads(rig, target=1))).all()
        # Only power makes it well. A register write wakes it: it is an agent that acts when something happens.
        rig.drives[0].clear_faults()
        rig.drives[0].power_cut(survive=1.0)
        rig.world.store(rig.drives[0].bar_address + 0xC, 0)
        rig.world.run(4096)
        (again,) = rig.ring.recover(LIMITS)
        assert again.step is Step.RESET
        assert works(rig)


def test_a_drive_that_comes_back_another_one_is_not_gone_on_with() -> None:
    with Rig("sim-w32", options()) as rig:
        assert "TIMED_OUT" in fail(rig, fault(FaultAction.FATAL_STOP, 2))
        was = rig.ring._targets[0]
        rig.ring._targets[0] = replace(was, blocks=was.blocks * 2)
        with pytest.raises(RecoveryFailed, match="its namespaces are"):
            rig.ring.recover(LIMITS)
        assert (rig.run(reads(rig))["state"] == State.NOT_RUN).all()


def test_a_drive_that_is_gone_is_not_tried_further() -> None:
    with Rig("sim-w32", options(), drives=[drive(), drive()]) as rig:
        assert "GONE" in fail(rig, FaultRule(action=FaultAction.GONE, opcode=_READ, nth=3))
        with pytest.raises(RecoveryFailed) as caught:
            rig.ring.recover(LIMITS)
        assert isinstance(caught.value.__cause__, ControllerGone)
        (result,) = caught.value.results
        assert steps(result) == ([Step.ABORT], None)
        assert result.before.health & Health.GONE
        assert set(rig.run(reads(rig))["state"].tolist()) == {State.GONE}
        assert succeeded(rig.run(reads(rig, target=1))).all()


def test_a_kernel_that_was_killed_leaves_a_queue_that_is_made_anew() -> None:
    """Its words do not add up: then nothing of them is believed."""
    with Rig("sim-w32", options()) as rig:
        assert fail(rig, fault(FaultAction.STUCK)).count("TIMED_OUT") == 1
        tables = rig.ring._tables
        tables.close_queue(0, tables.read_words(0))
        (result,) = rig.ring.recover(LIMITS)
        assert steps(result) == ([Step.ABORT], Step.RECREATE)
        assert isinstance(result.failures[0].error, RingError)
        assert works(rig)


@pytest.mark.parametrize("arch", ["sim-w32", "threads-w32"])
@pytest.mark.parametrize("action", [FaultAction.STUCK, FaultAction.LOST, FaultAction.FATAL_STOP])
def test_a_batch_on_another_drive_goes_on_meanwhile(arch: str, action: FaultAction) -> None:
    sim = arch.startswith("sim")
    limit_ns = 2_000_000 if sim else 900_000_000
    how = SimOptions(policy="random", seed=5) if sim else None
    with Rig(arch, options(limit_ns=limit_ns), drives=[drive(), drive()], sim=how) as rig:
        assert works(rig)
        assert "TIMED_OUT" in fail(rig, fault(action))
        slow = FaultRule(action=FaultAction.DELAY, opcode=_READ, lbas=(0, 40), delay_ns=limit_ns // 2)
        rig.drives[1].inject(slow)
        flying = reads(rig, 12, target=1)
        rig.ring.issue_io(flying)
        (result,) = rig.ring.recover()
        assert result.works
        assert not rig.ring.query(flying), "it was recovered while the batch was in flight"
        rig.drives[0].clear_faults()
        rig.drives[1].clear_faults()
        # The recovered queue takes commands beside that batch.
        assert succeeded(rig.run(reads(rig))).all()
        assert succeeded(rig.ring.wait_cqe(flying)).all()
        assert works(rig)


def test_a_queue_in_use_is_not_recovered_and_no_drive_in_use_is_reset() -> None:
    with Rig("sim-w32", options(queues=(1, 1))) as rig:
        assert fail(rig, fault(FaultAction.LOST)).count("TIMED_OUT") == 1
        rig.drives[0].inject(fault(FaultAction.DELAY, 20, delay_ns=LIMIT_NS // 2))
        rig.drives[0].inject(admin(_DELETE_SQ))
        flying = rig.ring.get_iocb()
        flying.read(rig.ring.targets[0], 20, BLOCK, rig.buffer, 0, queue_class=1)
        rig.ring.issue_io(flying)
        with pytest.raises(RecoveryFailed) as caught:
            rig.ring.recover(LIMITS)
        assert isinstance(caught.value.__cause__, RingBusy)
        assert steps(caught.value.results[0]) == ([Step.ABORT, Step.RECREATE, Step.RESET], None)
        assert succeeded(rig.ring.wait_cqe(flying)).all()
        same = reads(rig)
        rig.ring.issue_io(same)
        with pytest.raises(RingBusy, match="queue 0"):
            rig.ring.recover(LIMITS)
        assert (rig.ring.wait_cqe(same)["state"] == State.NOT_RUN).all()
        assert [one.step for one in rig.ring.recover(LIMITS)] == [Step.RESET, Step.RESET]
        rig.drives[0].clear_faults()
        assert works(rig)


def test_one_drive_may_be_recovered_by_itself() -> None:
    with Rig("sim-w32", options(), drives=[drive(), drive()]) as rig:
        for number in (0, 1):
            rig.drives[number].inject(fault(FaultAction.STUCK))
            rig.run(reads(rig, target=number))
        assert [one.drive for one in rig.ring.recover(LIMITS, drive=1)] == [1]
        assert [bool(one.health) for one in rig.ring.statistics().queues] == [True, False]
        assert [one.drive for one in rig.ring.recover(LIMITS)] == [0]
        assert works(rig)


@pytest.mark.parametrize("name", ["abort_ns", "recreate_ns", "reset_ns"])
def test_a_step_without_time_is_refused(name: str) -> None:
    with pytest.raises(RingError, match=name):
        RecoveryLimits(**{name: 0})


# ---- a queue that has no place ----


def take_all_places(rig: Rig, row: int) -> None:
    """As if others held every place of a queue and gave none back."""
    device = rig.ring._tables
    where = device._plan.private[row].state
    states = tables.section(device._image, where).view(dtype("ring_queue_state"))
    states[0] = device.read_words(row).state
    states[0]["credits"] = 0
    device._upload(where)


@pytest.mark.parametrize("arch", ["sim-w32", "sim-w128"])
def test_a_lane_without_a_place_on_one_queue_goes_on_with_the_others(arch: str) -> None:
    with Rig(arch, options(lanes=1, block=1), drives=[drive(), drive()]) as rig:
        take_all_places(rig, 0)
        at = np.arange(12)
        iocb = rig.ring.get_iocb()
        iocb.read(at % 2, at, BLOCK, rig.buffer, at * BLOCK)
        done = rig.run(iocb)
        assert done["state"].tolist() == [State.NOT_RUN, State.COMPLETED] * 6
        assert set(done["why"][0::2].tolist()) == {Why.STARVED}


@pytest.mark.parametrize("arch", ["sim-w32", "threads-w32"])
def test_a_lane_without_a_place_says_that_the_drive_is_gone(arch: str) -> None:
    limit_ns = LIMIT_NS if arch.startswith("sim") else 100_000_000
    with Rig(arch, options(limit_ns=limit_ns)) as rig:
        take_all_places(rig, 0)
        rig.drives[0].inject(FaultRule(action=FaultAction.GONE, immediate=True))
        assert (rig.run(reads(rig))["state"] == State.GONE).all()
        assert rig.ring.statistics().queues[0].health == Health.GONE

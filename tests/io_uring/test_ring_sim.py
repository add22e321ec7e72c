"""The ring in the deterministic world: schedules, weak memory, faults, and deadlines that are exact."""

import numpy as np
import pytest
from ring_rig import BLOCK, Rig, drive

from tutti_hal.backends.host.sim import SimOptions
from tutti_hal.io_uring import Health, RingOptions, State, Why, succeeded
from tutti_hal.nvme.software import CompletionOrder, FaultAction, FaultRule

pytestmark = pytest.mark.ring

#: Long against what a command takes in the virtual clock, short in steps.
LIMIT_NS = 2_000_000


def options(**fields: object) -> RingOptions:
    """Two partial waves of four lanes, unless a test says otherwise."""
    small = {"depth": 8, "lanes": 8, "block": 4, "batch_limit": 64, "limit_ns": LIMIT_NS}
    return RingOptions(**small | fields)


@pytest.mark.parametrize("arch", ["sim-w32", "sim-w64", "sim-w128"])
@pytest.mark.parametrize("policy", ["fair", "lockstep", "random", "starve-one", "pct", "one-lane"])
def test_every_schedule_moves_every_byte(arch: str, policy: str) -> None:
    for seed, depth in ((1, 2), (2, 3), (3, 8)):
        how = SimOptions(policy=policy, seed=seed, pct_depth=3)
        with Rig(arch, options(depth=depth), sim=how, data_bytes=1 << 16) as rig:
            written, read, exact = rig.round_trip(17)
            note = f"{arch} {policy} seed={seed} depth={depth}"
            assert succeeded(written).all(), note
            assert succeeded(read).all(), note
            assert exact, note
            assert rig.ring.statistics().total("strays") == 0, note
            assert rig.drives[0].counters.bad_doorbells == 0, note


@pytest.mark.parametrize("seed", range(3))
def test_several_drives_queues_and_orders(seed: int) -> None:
    drives = [drive(order=CompletionOrder.REVERSE, order_window=4, hold_ns=5000), drive(order=CompletionOrder.RANDOM)]
    with Rig("sim-w32", options(queues=(2,)), drives=drives, sim=SimOptions(policy="random", seed=seed)) as rig:
        written, read, exact = rig.round_trip(32)
        assert succeeded(written).all()
        assert succeeded(read).all()
        assert exact


def test_the_controller_counts_every_doorbell_that_the_ring_counts() -> None:
    how = SimOptions(policy="fair")
    with Rig("sim-w32", options(depth=64, lanes=32, block=32, batch_limit=512), sim=how) as rig:
        assert rig.round_trip(256)[2]
        counted = rig.ring.statistics()
        assert rig.world is not None
        rig.world.run(2000)  # the drive takes the last doorbells
        seen = rig.drives[0].queue_counters(counted.queues[0].qid)
        assert (seen.sq_doorbells, seen.commands) == (counted.total("doorbells"), 512)
        assert seen.cq_doorbells == counted.total("cq_doorbells")
        assert counted.doorbells_per_command <= 1 / 8


def test_a_lost_completion_ends_at_its_deadline_and_the_queue_is_made_anew() -> None:
    with Rig("sim-w32", options(queues=(1, 1))) as rig:
        target = rig.ring.targets[0]
        rig.drives[0].inject(FaultRule(action=FaultAction.LOST, lbas=(5, 5), count=1))
        iocb = rig.ring.get_iocb()
        iocb.read(target, np.arange(8), BLOCK, rig.buffer, np.arange(8) * BLOCK)
        iocb.read(target, np.arange(8), BLOCK, rig.buffer, np.arange(8) * BLOCK, queue_class=1)
        done = rig.run(iocb)
        lost = np.flatnonzero(done["state"] == State.TIMED_OUT)
        assert len(lost) == 1
        assert lost[0] % 8 == 5
        assert succeeded(np.delete(done, lost)).all()
        took = int(done["completed_ns"][lost[0]] - done["submitted_ns"][lost[0]])
        assert LIMIT_NS <= took <= LIMIT_NS * 1.1
        sick = [queue for queue in rig.ring.statistics().queues if queue.health]
        assert [(queue.health, queue.quarantined) for queue in sick] == [(Health.TIMED_OUT, 1)]

        # The failed queue takes nothing more; the other one goes on.
        failed_class = 0 if lost[0] < 8 else 1
        iocb = rig.ring.get_iocb()
        iocb.read(target, 0, BLOCK, rig.buffer, 0, queue_class=failed_class)
        iocb.read(target, 0, BLOCK, rig.buffer, 0, queue_class=1 - failed_class)
        done = rig.run(iocb)
        assert (int(done["state"][0]), int(done["why"][0])) == (State.NOT_RUN, Why.QUEUE_FAILED)
        assert succeeded(done[1:]).all()

        assert len(rig.ring.recover()) == 1
        assert rig.round_trip(20)[2]


def test_a_repeated_completion_is_counted_and_changes_nothing() -> None:
    with Rig("sim-w32", options()) as rig:
        rig.drives[0].inject(FaultRule(action=FaultAction.DUPLICATE, nth=3, count=2))
        rig.drives[0].inject(FaultRule(action=FaultAction.UNKNOWN_CID, nth=8, count=1))
        written, read, exact = rig.round_trip(20)
        assert succeeded(written).all()
        assert succeeded(read).all()
        assert exact
        assert rig.ring.statistics().total("strays") == 3
        assert rig.ring.statistics().total("completions") == 40


def test_a_late_completion_is_counted_and_not_believed() -> None:
    with Rig("sim-w32", options(), sim=SimOptions(policy="fair")) as rig:
        late = FaultRule(action=FaultAction.DELAY, lbas=(2, 2), count=1, delay_ns=LIMIT_NS + LIMIT_NS // 2)
        slow = FaultRule(action=FaultAction.DELAY, lbas=(3, 3), count=1, delay_ns=LIMIT_NS // 2)
        rig.drives[0].inject(late)
        rig.drives[0].inject(slow)
        iocb = rig.ring.get_iocb()
        iocb.read(rig.ring.targets[0], np.arange(8), BLOCK, rig.buffer, np.arange(8) * BLOCK)
        done = rig.run(iocb)
        assert list(np.flatnonzero(done["state"] == State.TIMED_OUT)) == [2]
        assert rig.ring.statistics().total("quarantined") == 1
        # Let it come, and let lanes see it.
        assert rig.world is not None
        while rig.drives[0].counters.cqes_posted < rig.drives[0].counters.sqes_fetched:
            rig.world.run(256)
        iocb = rig.ring.get_iocb()
        iocb.read(rig.ring.targets[0], np.arange(8), BLOCK, rig.buffer, 0)
        assert (rig.run(iocb)["state"] == State.NOT_RUN).all()
        counted = rig.ring.statistics()
        assert (counted.total("lates"), counted.total("strays"), counted.total("completions")) == (1, 0, 7)


def test_a_drive_that_is_gone_is_found_at_the_deadline() -> None:
    with Rig("sim-w32", options()) as rig:
        rig.drives[0].inject(FaultRule(action=FaultAction.GONE, nth=4))
        iocb = rig.ring.get_iocb()
        iocb.read(rig.ring.targets[0], np.arange(30), BLOCK, rig.buffer, 0)
        done = rig.run(iocb)
        ended = done[done["state"] != State.COMPLETED]
        assert len(ended) >= 27
        assert (ended["state"] == State.GONE).all()
        assert rig.ring.statistics().queues[0].health & Health.GONE


def test_a_stopped_ring_gives_nothing_to_a_drive() -> None:
    with Rig("sim-w32", options()) as rig:
        rig.ring.stop()
        iocb = rig.ring.get_iocb()
        iocb.read(rig.ring.targets[0], np.arange(4), BLOCK, rig.buffer, 0)
        done = rig.run(iocb)
        assert (done["state"] == State.NOT_RUN).all()
        assert (done["why"] == Why.STOPPED).all()
        assert rig.drives[0].counters.io_commands == {}
        rig.ring.resume()
        assert rig.round_trip(8)[2]


def test_more_commands_than_entries_rest_on_the_reported_head() -> None:
    for seed in range(3):
        how = SimOptions(policy="random", seed=seed)
        wide = options(depth=3, cq_depth=32, command_limit=20)
        with Rig("sim-w32", wide, drives=[drive(order=CompletionOrder.RANDOM, hold_ns=4000)], sim=how) as rig:
            written, _, exact = rig.round_trip(40)
            assert succeeded(written).all()
            assert exact


def test_an_identifier_comes_back_in_a_new_generation() -> None:
    with Rig("sim-w32", options(depth=2, lanes=1, block=1)) as rig:
        iocb = rig.ring.get_iocb()
        iocb.read(rig.ring.targets[0], np.arange(12), BLOCK, rig.buffer, 0)
        rig.run(iocb)
        assert len(set(iocb.results["identifier"][:12].tolist())) == 12
        assert 0xFFFF not in iocb.results["identifier"][:12]


def test_one_seed_is_one_run() -> None:
    runs = []
    for _ in range(2):
        with Rig("sim-w32", options(), sim=SimOptions(policy="random", seed=77)) as rig:
            rig.round_trip(17)
            assert rig.world is not None
            runs.append((rig.world.steps, rig.world.now_ns))
    assert runs[0] == runs[1]

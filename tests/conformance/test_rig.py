"""The rig of the L5 cases: what it makes, what it keeps to, and that every way to lie is found out by some case."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from tutti_hal.conformance_tests.ablations import ablated
from tutti_hal.conformance_tests.catalogue import catalogue, select
from tutti_hal.conformance_tests.controller_mutations import CONTROLLER_MUTATIONS, mutation
from tutti_hal.conformance_tests.drives import BufferDma
from tutti_hal.conformance_tests.errors import ControllerMutationUnknown, DriveSilent
from tutti_hal.conformance_tests.execute import execute, prepare
from tutti_hal.conformance_tests.judgement import Judgement, judge
from tutti_hal.conformance_tests.oracle.nvme import OK, PAGE, READ, rw
from tutti_hal.conformance_tests.rig import BLOCK, SPOILT, Rig, drive, raw_host
from tutti_hal.conformance_tests.run import Run
from tutti_hal.conformance_tests.subject import Subject, SubjectSpec, facts_of, profile_of
from tutti_hal.conformance_tests.terms import Terms
from tutti_hal.conformance_tests.verdict import Verdict
from tutti_hal.errors import QueuesRefused
from tutti_hal.nvme.software_config import FaultAction, FaultRule
from tutti_hal.spec import load_spec

pytestmark = pytest.mark.suite

ARCHS = ("sim-w32", "threads-w32")


def run_of(spec: SubjectSpec, scratch: Path) -> Run:
    subject = Subject(spec)
    if subject.facts.simulated:
        subject.reset_world(policy="random", seed=5)
    return Run(subject, {}, 5, scratch)


@pytest.fixture(params=ARCHS)
def run(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Run]:
    one = run_of(SubjectSpec("host", str(request.param)), tmp_path)
    with one.closing:
        yield one


def test_data_go_in_and_out_whole(run: Run) -> None:
    with Rig(run) as rig:
        rig.put(b"abc", 7)
        image = rig.get()
        assert bytes(image[7:10]) == b"abc"
        assert set(image[:7]) | set(image[10:]) == {SPOILT}
        assert len(image) == rig.memory.nbytes


def test_what_ends_is_told_in_plain_values(run: Run) -> None:
    with Rig(run, faults=[FaultRule(action=FaultAction.STATUS, lbas=(1, 1), status=(2, 0x81), dnr=True)]) as rig:
        ended = rig.submit("read", lba=np.arange(3), offset=np.arange(3) * BLOCK)
        assert ended["state"] == ["COMPLETED"] * 3
        assert ended["status"].tolist() == [[0, 0], [2, 0x81], [0, 0]]
        assert ended["dnr"].tolist() == [False, True, False]
        counted = rig.counted()
        assert counted["drives"][0]["io"] == {"2": 3}
        assert counted["queues"][0]["fetched"] == 3


def test_what_a_case_leaves_open_is_closed_with_its_run(tmp_path: Path) -> None:
    for arch in ARCHS:
        one = run_of(SubjectSpec("host", arch), tmp_path)
        with one.closing:
            rig = Rig(one)
            rig.submit("read")
        with pytest.raises(Exception, match=r"closed|free|closing"):
            rig.get()
        rig.close()


def test_a_kernel_that_failed_does_not_keep_the_rig_from_closing(tmp_path: Path) -> None:
    one = run_of(SubjectSpec("host", "sim-w32"), tmp_path)
    with one.closing:
        one.subject.reset_world(policy="fair", max_steps=2000)
        with pytest.raises(Exception, match="steps"), Rig(one) as rig:
            rig.submit("read", lba=np.arange(64), offset=0)
        with Rig(one) as rig:
            assert rig.submit("read")["state"] == ["COMPLETED"]


def test_stale_memory_is_not_clean(run: Run) -> None:
    with Rig(run) as rig:
        dma = BufferDma(run.device, rig.iommus[0], "mapped", stale=0x5A)
        memory = dma.allocate(100)
        assert memory.read(0, 4) == b"\x5a" * 4
        assert list(dma.live) == [memory.address]
        memory.close()
        assert not dma.live


@pytest.mark.parametrize("contiguous", [False, True])
def test_drives_that_are_apart_reach_the_same_memory_elsewhere(run: Run, contiguous: bool) -> None:
    with Rig(run, drives=[drive(), drive()], apart=True, contiguous=contiguous) as rig:
        one, other = rig.mappings
        assert (one.address, one.nbytes) == (other.address, other.nbytes)
        assert {bus for bus, _ in one.runs}.isdisjoint(bus for bus, _ in other.runs)
    with Rig(run, drives=[drive(), drive()]) as rig:
        assert rig.mappings[0] is rig.mappings[1]
        assert rig.iommus[0] is rig.iommus[1]


def test_an_ablation_bounds_the_drives(tmp_path: Path) -> None:
    one = run_of(ablated(SubjectSpec("host", "threads-w32"), "one-queue"), tmp_path)
    with one.closing:
        with Rig(one) as rig:
            assert rig.controllers[0].config.io_queues == 1
        with pytest.raises(QueuesRefused):
            Rig(one, {"queues": (2,)})


def test_queues_lie_where_the_ablated_record_has_them(tmp_path: Path) -> None:
    plain = run_of(SubjectSpec("host", "threads-w32"), tmp_path)
    with plain.closing, Rig(plain) as rig:
        assert rig.memory.buffer.kind == plain.profile.record.placement["data"]
    bound = run_of(ablated(SubjectSpec("host", "threads-w32"), "host-queues"), tmp_path)
    with bound.closing, Rig(bound, places={"data": "device"}) as rig:
        assert rig.memory.buffer.kind == "mapped"


def test_the_suites_own_host_says_that_a_drive_is_silent(run: Run) -> None:
    with raw_host(run, drive(), faults=[FaultRule(action=FaultAction.LOST, count=1)]) as host:
        bus = host.allocate(PAGE).bus()
        with pytest.raises(DriveSilent, match="not of 0"):
            host.io(rw(READ, 0, 1, prp1=bus))
        assert host.io(rw(READ, 0, 1, prp1=bus)).status == OK


# ---- controller mutations ----

#: Mutation -> a case that finds it.
KILLERS = {
    "write.dropped": "controller/read_after_write",
    "read.empty": "controller/read_after_write",
    "read.corrupt": "ring/round_trip:depth=8,waves=partial",
    "read.status_late": "ring/round_trip:depth=8,waves=partial",
    "compare.always_equal": "controller/read_after_write",
    "write_zeroes.dropped": "controller/deallocate",
    "deallocate.dropped": "controller/deallocate",
    "flush.dropped": "controller/cache:survive=0",
    "create_cq.unchecked": "controller/queues_refused",
    "delete_sq.dropped": "controller/deleted_queue",
    "identify.empty": "nvme/identify",
    "abort.says_done": "controller/deleted_queue",
    "range.unchecked": "controller/refused:clause=command.lba_range",
    "status.other": "controller/read_after_write",
    "completion.lost": "ring/round_trip:depth=8,waves=partial",
    "completion.twice": "ring/round_trip:depth=8,waves=partial",
    "completion.stranger": "ring/round_trip:depth=8,waves=partial",
    "completion.stuck": "ring/round_trip:depth=8,waves=partial",
    "status.fatal": "ring/round_trip:depth=8,waves=partial",
    "registers.gone": "ring/round_trip:depth=8,waves=partial",
    "ready.stuck": "controller/reset",
    "order.fifo": "ring/order:order=reverse",
    "mdts.unlimited": "controller/refused:clause=command.mdts",
}


def verdict_of(spec: SubjectSpec, glob: str) -> Judgement:
    profile = profile_of(spec)
    facts = {spec.arch: facts_of(profile, spec.arch)}
    [instance] = select(catalogue().instances(facts | {"": facts_of(profile, "")}), [glob])
    subject = Subject(spec)
    prepare(subject, instance)
    outcome = execute(subject, instance, instance.seed(1))
    return judge(instance, outcome, facts[spec.arch], Terms(load_spec()))


def test_every_mutation_has_its_killer_and_a_sentence() -> None:
    assert set(KILLERS) == set(CONTROLLER_MUTATIONS)
    for one in CONTROLLER_MUTATIONS.values():
        assert one.says.endswith(".")
        assert one.rules or one.config


@pytest.mark.parametrize("name", CONTROLLER_MUTATIONS)
def test_a_lying_controller_is_found_out(name: str) -> None:
    honest, lying = (verdict_of(SubjectSpec("host", "sim-w32", controller=c), KILLERS[name]) for c in ("", name))
    assert (honest.verdict, lying.verdict) == (Verdict.PASS, Verdict.FAIL), (honest.reason, lying.reason)


def test_an_unknown_mutation_names_the_near_miss() -> None:
    assert mutation("") is None
    with pytest.raises(ControllerMutationUnknown, match=r"write\.dropped"):
        mutation("write.droped")

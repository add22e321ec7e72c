"""Campaigns: the reference model as a state machine, what they have found, and proof that the model can say no."""

from __future__ import annotations

import tempfile
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, precondition, rule, run_state_machine_as_test

from tutti_hal.conformance_tests.campaign.executor import Executor, execute
from tutti_hal.conformance_tests.campaign.model import Model, judge
from tutti_hal.conformance_tests.campaign.session import Trial, attempt, campaign, draw, load, save, schedule
from tutti_hal.conformance_tests.campaign.shrink import shrink
from tutti_hal.conformance_tests.campaign.steps import STATES, Ask, Setting, Space, Step, Workload
from tutti_hal.conformance_tests.errors import ReplayInvalid
from tutti_hal.conformance_tests.run import Run
from tutti_hal.conformance_tests.subject import Subject, SubjectSpec

pytestmark = pytest.mark.ring

REPLAYS = sorted((Path(__file__).parent / "replays").glob("*.json"))
ARCH = "sim-w32"
BLOCKS = 16


@pytest.fixture(scope="module")
def subject() -> Subject:
    return Subject(SubjectSpec("host", ARCH))


def setting(**options: Any) -> Setting:
    spaces = (Space(0, 1, 9, BLOCKS), Space(1, 1, 9, BLOCKS))
    sizes = {"depth": 3, "queues": (1,), "lanes": 6, "block": 3, "batch_limit": 64, "limit_ns": 200_000}
    return Setting(spaces, ({"mdts": 1}, {"mdts": 1, "order": "RANDOM"}), sizes | options, 1 << 16, timely=False)


class Machine(RuleBasedStateMachine):
    """Hypothesis picks the steps; the model says after each what may have been seen."""

    subject: Subject

    def __init__(self) -> None:
        super().__init__()
        self.stack = ExitStack()
        self.tag = 0
        self.asks: list[Ask] = []

    @initialize(seed=st.integers(1, 1 << 20), depth=st.sampled_from((2, 3, 8)), lanes=st.sampled_from((1, 6)))
    def begin(self, seed: int, depth: int, lanes: int) -> None:
        self.subject.reset_world(**schedule(seed))
        scratch = self.stack.enter_context(tempfile.TemporaryDirectory())
        run = Run(self.subject, {}, seed, Path(scratch))
        self.stack.enter_context(run.closing)
        made = setting(depth=depth, lanes=lanes)
        self.executor = self.stack.enter_context(Executor(run, made))
        self.model = Model(made, simulated=True)

    def do(self, step: Step) -> None:
        self.model.step(step, self.executor.do(step))
        assert not self.model.wrong, self.model.wrong

    @rule(
        verb=st.sampled_from(("read", "write", "compare", "write_zeroes", "flush")),
        space=st.integers(0, 1),
        lba=st.integers(0, BLOCKS - 1),
        blocks=st.integers(1, 12),
    )
    def ask(self, verb: str, space: int, lba: int, blocks: int) -> None:
        blocks = 0 if verb == "flush" else min(blocks, BLOCKS - lba)
        tags: tuple[int, ...] = ()
        if verb == "write":
            tags = tuple(range(self.tag + 1, self.tag + 1 + blocks))
            self.tag += blocks
        elif verb == "compare":
            tags = (0,) * blocks
        self.asks.append(Ask(verb, space, lba if blocks else 0, blocks, tags))

    @precondition(lambda self: self.asks)
    @rule(stopped=st.sampled_from((False, False, False, True)))
    def issue(self, stopped: bool) -> None:
        asks, self.asks = tuple(self.asks), []
        self.do(Step("stopped" if stopped else "batch", asks))

    @rule(
        drive=st.integers(0, 1),
        action=st.sampled_from(("STATUS", "STATUS_LATE", "DUPLICATE", "UNKNOWN_CID", "LOST", "STUCK")),
        opcode=st.sampled_from((None, 1, 2)),
        nth=st.integers(1, 3),
        count=st.integers(1, 2),
    )
    def fault(self, drive: int, action: str, opcode: int | None, nth: int, count: int) -> None:
        fields: dict[str, Any] = {"action": action, "opcode": opcode, "lbas": None, "nth": nth, "count": count}
        more = {"status": (2, 0x81), "dnr": True, "crd": 1} if action.startswith("STATUS") else {}
        self.do(Step("fault", drive=drive, rule={**fields, "rate": 1.0, **more}))

    @rule(drive=st.integers(0, 1))
    def clear(self, drive: int) -> None:
        self.do(Step("clear", drive=drive))

    @rule()
    def recover(self) -> None:
        self.do(Step("recover"))

    def teardown(self) -> None:
        if hasattr(self, "executor"):
            self.do(Step("recover"))
            self.model.end(self.executor.stored())
        self.stack.close()
        assert not hasattr(self, "model") or not self.model.wrong, self.model.wrong


def test_the_ring_keeps_to_the_model(subject: Subject) -> None:
    machine = type("Bound", (Machine,), {"subject": subject})
    run_state_machine_as_test(  # type: ignore[no-untyped-call]
        machine,
        settings=settings(
            max_examples=25,
            stateful_step_count=25,
            deadline=None,
            derandomize=True,
            suppress_health_check=list(HealthCheck),
        ),
    )


@pytest.mark.parametrize("path", REPLAYS, ids=lambda path: path.stem)
def test_what_a_campaign_found_is_right_now(path: Path) -> None:
    profile, trial = load(path)
    assert attempt(Subject(SubjectSpec(profile, trial.arch)), trial) == ()


# ---- the model can say no ----


def observed(subject: Subject, steps: tuple[Step, ...]) -> tuple[Workload, dict[str, Any]]:
    workload = Workload(setting(), steps)
    subject.reset_world(**schedule(1))
    with tempfile.TemporaryDirectory() as scratch:
        run = Run(subject, {}, 1, Path(scratch))
        with run.closing:
            return workload, execute(run, workload)


STEPS = (
    Step("batch", (Ask("write", 0, 2, 3, (1, 2, 3)), Ask("write", 1, 0, 1, (4,)))),
    Step("batch", (Ask("read", 0, 2, 3), Ask("read", 1, 5, 1))),
)


def spoil(name: str, seen: dict[str, Any]) -> None:
    first, second = seen["steps"]
    match name:
        case "another block was read":
            second["held"][0] = 3
        case "a block was torn":
            second["held"][1] = -1
        case "a write touched its source":
            first["held"][0] = 0
        case "bytes beside changed":
            second["beside"] = 1
        case "a status that no rule gives":
            second["ended"][0, 3] = 0x81
        case "an end that no rule gives":
            second["ended"][1, 0] = 3
        case "not run without a reason":
            first["ended"][1, 0] = 0
        case "a command too many":
            second["fetched"][0]["2"] += 1
        case "a stray of nobody's":
            second["strays"][0] = 1
        case "a queue is marked":
            second["sick"][1] = True
        case "other blocks in the end":
            seen["stored"][0][2] = 0


LIES = (
    *("another block was read", "a block was torn", "a write touched its source", "bytes beside changed"),
    *("a status that no rule gives", "an end that no rule gives", "not run without a reason", "a command too many"),
    *("a stray of nobody's", "a queue is marked", "other blocks in the end"),
)


def test_the_model_finds_nothing_wrong_with_the_truth(subject: Subject) -> None:
    workload, seen = observed(subject, STEPS)
    assert judge(workload, seen, simulated=True).wrong == []


def test_what_was_given_up_may_be_fetched_two_looks_later_and_no_more(subject: Subject) -> None:
    workload, seen = observed(subject, (*STEPS, STEPS[1], STEPS[1]))
    seen["steps"][1]["ended"][0, 0] = STATES.index("TIMED_OUT")
    for look in seen["steps"][1:3]:
        look["fetched"][0]["2"] -= 1

    def told() -> list[int]:
        return [one.step for one in judge(workload, seen, simulated=False).wrong if "commands of opcode" in one.what]

    assert told() == []
    seen["steps"][3]["fetched"][0]["2"] += 1
    assert told() == [3]


@pytest.mark.parametrize("lie", LIES)
def test_the_model_notices(subject: Subject, lie: str) -> None:
    workload, seen = observed(subject, STEPS)
    spoil(lie, seen)
    assert judge(workload, seen, simulated=True).wrong


def test_a_lying_drive_is_found_made_small_and_replayed(tmp_path: Path) -> None:
    liar = Subject(SubjectSpec("host", ARCH, controller="read.corrupt"))
    tally = campaign({ARCH: liar}, commands=5000, seed=1, mixes=("clean",))
    assert tally.failed is not None
    assert tally.failed.workload.commands <= 8
    path = tmp_path / "replay.json"
    save(path, "host", tally.failed, tally.wrong)
    profile, trial = load(path)
    assert (profile, trial) == ("host", tally.failed)
    assert attempt(liar, trial) == tally.wrong


def test_a_seed_draws_one_workload_and_a_file_keeps_it() -> None:
    one, two = (draw(ARCH, 7, "recovery", simulated=True) for _ in range(2))
    assert one == two != draw(ARCH, 8, "recovery", simulated=True)
    assert Workload.from_json(one.workload.to_json()) == one.workload


def test_what_is_no_replay_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "x.json"
    path.write_text('{"format": 0}')
    with pytest.raises(ReplayInvalid, match="format 0"):
        load(path)


def test_shrinking_keeps_what_fails() -> None:
    trial: Trial = draw(ARCH, 3, "clean", simulated=True)
    asks = [ask for step in trial.workload.steps if step.kind == "batch" for ask in step.asks]
    wanted = asks[len(asks) // 2]

    def fails(workload: Workload) -> bool:
        return any(wanted in step.asks for step in workload.steps)

    small = shrink(trial.workload, fails)
    assert [step.asks for step in small.steps] == [(wanted,)]
    assert replace(small, steps=()).commands == 0

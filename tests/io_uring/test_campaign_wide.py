"""Wide campaigns: the truth passes, each lie is noticed, a lying drive is found, made small and replayed."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tutti_hal.conformance_tests.campaign import __main__ as command
from tutti_hal.conformance_tests.campaign.session import attempt as narrow_attempt
from tutti_hal.conformance_tests.campaign.steps import STATES, Setting, Space
from tutti_hal.conformance_tests.campaign.wide.blocks import Blocks
from tutti_hal.conformance_tests.campaign.wide.draw import Generator, draw
from tutti_hal.conformance_tests.campaign.wide.execution import execute_wide, pattern, tags_of
from tutti_hal.conformance_tests.campaign.wide.model import judge_wide
from tutti_hal.conformance_tests.campaign.wide.session import attempt, load, repeatable, save, wide_campaign
from tutti_hal.conformance_tests.campaign.wide.tables import READ, WRITE, WideBatch, WideStep, WideTrial
from tutti_hal.conformance_tests.campaign.wide.view import View
from tutti_hal.conformance_tests.campaign.workload import MIXES
from tutti_hal.conformance_tests.errors import ReplayInvalid
from tutti_hal.conformance_tests.run import Run
from tutti_hal.conformance_tests.subject import Subject, SubjectSpec

pytestmark = pytest.mark.ring

ARCH = "threads-w32"
#: The first seed whose trial has deep queues: shallow ones wait for the machine to take turns.
SEED = 2


@pytest.fixture(scope="module")
def subject() -> Subject:
    return Subject(SubjectSpec("host", ARCH))


@pytest.mark.parametrize("mix", MIXES)
def test_the_ring_keeps_to_the_model(subject: Subject, mix: str) -> None:
    tally = wide_campaign({ARCH: subject}, commands=6000, seed=SEED, mixes=(mix,), length=3000)
    assert (tally.wrong, tally.commands >= 6000) == ((), True)
    assert min(tally.examined[name] for name in ("ring.request.data_exact", "ring.request.status_reported")) > 5000


def test_a_trial_ends_in_time_and_is_judged_as_far_as_it_came(subject: Subject) -> None:
    tally = wide_campaign({ARCH: subject}, commands=10**9, seed=SEED, mixes=("clean",), time_limit_s=0.5)
    assert (tally.trials, tally.wrong) == (1, ())
    assert 0 < tally.commands < draw(ARCH, SEED, "clean").commands


def test_a_command_that_an_earlier_rule_delayed_may_end_well(subject: Subject) -> None:
    """The first rule that strikes wins: a later one that always strikes has none of the commands that it took."""
    fields = {"opcode": 1, "lbas": None, "nth": 1, "count": 0, "status": (2, 0x80), "dnr": False, "crd": 0}
    delay = WideStep("fault", rule={**fields, "action": "DELAY", "rate": 0.5, "delay_ns": 1000})
    status = WideStep("fault", rule={**fields, "action": "STATUS", "rate": 1.0})
    writes = batch(*[(WRITE, 0, lba, 1) for lba in range(40)], tag=1)
    assert attempt(subject, trial(delay, status, writes)) == ()
    # The other way round the delay has none.
    assert "ring.request.status_reported" in clauses_of_a_lie(subject, trial(status, delay, writes))


# ---- the model can say no ----


def trial(*steps: WideStep, blocks: int = 64, timely: bool = True) -> WideTrial:
    spaces = (Space(0, 1, 9, blocks), Space(1, 1, 9, blocks))
    options = {"depth": 64, "queues": (1,), "lanes": 32, "block": 32, "batch_limit": 256}
    setting = Setting(spaces, ({"mdts": 1}, {"mdts": 1}), options, 1 << 18, timely)
    return WideTrial(ARCH, 1, "clean", setting, steps)


def batch(*asks: tuple[int, int, int, int], tag: int = 0) -> WideStep:
    """Requests (verb, space, lba, blocks), their data one behind the other; writes hold tags from ``tag``."""
    ends = np.cumsum([512 * ask[3] for ask in asks])
    rows = [(verb, space, 0, lba, n, end - 512 * n) for (verb, space, lba, n), end in zip(asks, ends, strict=True)]
    tags: list[int] = []
    for verb, _, _, n in asks:
        tags += range(tag + len(tags), tag + len(tags) + n) if verb == WRITE else [0] * n
    return WideStep("batch", WideBatch(np.array(rows, np.int64), np.array(tags, np.int64)))


STEPS = (
    batch((WRITE, 0, 2, 3), (WRITE, 1, 0, 20), tag=1),
    batch((READ, 0, 2, 3), (READ, 1, 5, 1)),
    WideStep(
        "fault",
        rule={
            "action": "STATUS",
            "opcode": 1,
            "lbas": None,
            "nth": 1,
            "count": 0,
            "rate": 1.0,
            "status": (2, 0x81),
            "dnr": True,
            "crd": 1,
        },
    ),
    batch((WRITE, 0, 2, 1), (READ, 0, 3, 1), tag=50),
    batch((READ, 0, 2, 1), (READ, 0, 2, 1)),
)


def clauses_of_a_lie(subject: Subject, made: WideTrial) -> set[str]:
    """What is wrong with a trial where the first request of the last batch is said to have ended well."""
    with tempfile.TemporaryDirectory() as scratch:
        run = Run(subject, {}, 1, Path(scratch))
        with run.closing:
            seen = execute_wide(run, made)
    seen["steps"][-1]["ended"][0, 2:6] = 0
    return {one.clause for one in judge_wide(made, seen).wrong}


@pytest.fixture(scope="module")
def truth(subject: Subject) -> dict[str, Any]:
    with tempfile.TemporaryDirectory() as scratch:
        run = Run(subject, {}, 1, Path(scratch))
        with run.closing:
            return execute_wide(run, trial(*STEPS))


def spoil(name: str, seen: dict[str, Any]) -> None:
    first, second, _, third, fourth = seen["steps"]
    match name:
        case "another block was read":
            second["held"][0] = 3
        case "a block was torn":
            second["held"][1] = -1
        case "nothing was read":
            second["held"][2] = -2
        case "words beside changed":
            first["beside"] = 1
        case "a status that no rule gives":
            second["ended"][0, 2:4] = 2, 0x81
        case "a rule that did not strike":
            third["ended"][0, 2:6] = 0
        case "the rule's status with another retry delay":
            third["ended"][0, 5] = 2
        case "what failed was written":
            fourth["held"][:] = 50
        case "two reads that do not agree":
            fourth["held"][1] = 7
        case "an end that no rule gives":
            second["ended"][1, 0] = 3
        case "not run without a reason":
            first["ended"][1, 0] = 0
        case "another drive's queue":
            second["ended"][0, 6] = 1
        case "a command too few of a long request":
            first["ended"][1, 7] = 1
        case "a command too many":
            second["counters"]["fetched"][0][2] += 1
        case "a strike too many":
            third["counters"]["hits"][0] += 1
        case "a stray of nobody's":
            second["counters"]["strays"][0] = 1
        case "a queue is marked":
            second["counters"]["sick"][1] = True
        case "other blocks in the end":
            seen["stored"][2] = 0
        case "memory that changed later":
            seen["untouched"] = 1


LIES = (
    *("another block was read", "a block was torn", "nothing was read", "words beside changed"),
    *("a status that no rule gives", "a rule that did not strike", "the rule's status with another retry delay"),
    *("what failed was written", "two reads that do not agree", "an end that no rule gives"),
    *("not run without a reason", "another drive's queue", "a command too few of a long request"),
    *("a command too many", "a strike too many", "a stray of nobody's", "a queue is marked"),
    *("other blocks in the end", "memory that changed later"),
)


def copied(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: copied(one) for key, one in value.items()}
    if isinstance(value, list):
        return [copied(one) for one in value]
    return value.copy() if isinstance(value, np.ndarray) else value


def test_the_model_finds_nothing_wrong_with_the_truth(truth: dict[str, Any]) -> None:
    assert judge_wide(trial(*STEPS), truth).wrong == []


@pytest.mark.parametrize("lie", LIES)
def test_the_model_notices(truth: dict[str, Any], lie: str) -> None:
    seen = copied(truth)
    spoil(lie, seen)
    assert judge_wide(trial(*STEPS), seen).wrong


@pytest.mark.parametrize("fetched", [3, 4])
def test_what_was_given_up_may_be_fetched_after_a_later_look_and_no_more(truth: dict[str, Any], fetched: int) -> None:
    """In real time a drive may be slower than a deadline, and than whoever counts its commands, once or twice."""
    made = trial(*STEPS, timely=False)
    seen = copied(truth)
    seen["steps"][1]["ended"][1, 0] = STATES.index("TIMED_OUT")
    batches = [at for at, step in enumerate(seen["steps"]) if "counters" in step]
    assert {1, 3, 4} <= set(batches)
    for look in (seen["steps"][at] for at in batches if 1 <= at < fetched):
        look["counters"]["fetched"][1][READ] -= 1
    assert not [one for one in judge_wide(made, seen).wrong if "commands that drive" in one.what]
    for later in seen["steps"][fetched:]:
        later["counters"]["fetched"][1][READ] += 1
    assert [one.step for one in judge_wide(made, seen).wrong if "commands that drive" in one.what] == [fetched]


# ---- what it is made of ----


def test_blocks_that_two_write_at_once_hold_either_until_somebody_looks() -> None:
    setting = trial().setting
    blocks = Blocks(setting)
    view = View(setting, batch((WRITE, 0, 4, 1), (WRITE, 0, 4, 1), tag=8).batch)  # type: ignore[arg-type]
    sure = np.ones(2, bool)
    blocks.begin(view, (sure, ~sure))
    blocks.settle()
    at = np.array([4, 4, 4])
    assert blocks.may_hold(at, np.array([8, 9, 0])).tolist() == [True, True, False]
    looking = View(setting, batch((READ, 0, 4, 1)).batch)  # type: ignore[arg-type]
    blocks.begin(looking, (np.zeros(1, bool), np.zeros(1, bool)))
    assert not blocks.learn(at[:2], np.array([9, 8])).all()
    assert blocks.may_hold(at, np.array([8, 9, 0])).sum() == 1


def test_a_request_is_split_where_mdts_says() -> None:
    setting = trial().setting
    view = View(setting, batch((WRITE, 1, 0, 33), (READ, 0, 2, 16)).batch)  # type: ignore[arg-type]
    assert view.parts.tolist() == [3, 1]
    assert view.first_lba.tolist() == [0, 16, 32, 2]
    assert view.last_lba.tolist() == [15, 31, 32, 17]


@pytest.mark.parametrize("size", [512, 4096])
def test_tags_of_blocks(size: int) -> None:
    tags = np.array([0, 1, 77, (1 << 39) + 5], np.int64)
    data = pattern(tags, size)
    assert tags_of(data).tolist() == tags.tolist()
    data[2, -1] ^= np.uint64(1)
    data[0, 3] = 9
    assert tags_of(data).tolist() == [-1, 1, -1, tags[3]]
    assert tags_of(np.full((1, size // 8), 0xEEEEEEEEEEEEEEEE, np.uint64)).tolist() == [-2]


def test_a_seed_draws_one_trial_and_a_file_keeps_it() -> None:
    one, two = (draw(ARCH, 7, "recovery", 500).to_json() for _ in range(2))
    assert one == two != draw(ARCH, 8, "recovery", 500).to_json()
    assert WideTrial.from_json(one).to_json() == one


def test_every_seed_draws_queues_that_the_drives_have() -> None:
    for seed in range(300):
        options = Generator(np.random.default_rng(seed), "faults").setting.options
        assert max(options["depth"], options.get("cq_depth", 0)) <= 1024


# ---- planted faults ----


@pytest.mark.parametrize(
    "liar", ["read.corrupt", "write.dropped", "compare.always_equal", "write_zeroes.dropped", "completion.twice"]
)
def test_a_lying_drive_is_found(liar: str) -> None:
    lying = Subject(SubjectSpec("host", ARCH, controller=liar))
    wrong = attempt(lying, draw(ARCH, SEED, "clean", 3000))
    assert wrong


def test_what_was_found_is_made_small_replayed_and_repeated_in_a_simulated_world(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    lying = Subject(SubjectSpec("host", ARCH, controller="read.corrupt"))
    tally = wide_campaign({ARCH: lying}, commands=5000, seed=SEED, mixes=("clean",), length=400)
    assert tally.failed is not None
    assert tally.failed.commands <= 8
    # The fault is the drive's alone and needs no race: so it comes again each time.
    assert tally.again == (5, 5)
    path = tmp_path / "replay.json"
    save(path, "host", tally)
    profile, small = load(path)
    assert (profile, small.to_json()) == ("host", tally.failed.to_json())
    assert command.main(["--replay", str(path), "--controller", "read.corrupt"]) == 1
    assert command.main(["--replay", str(path)]) == 0
    simulated = Subject(SubjectSpec("host", "sim-w32", controller="read.corrupt"))
    found = repeatable({"sim-w32": simulated}, small)
    assert found is not None
    assert narrow_attempt(simulated, found[0]) == found[1]
    capsys.readouterr()


def test_what_is_no_replay_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "x.json"
    path.write_text('{"format": "wide-0"}')
    with pytest.raises(ReplayInvalid, match="wide-0"):
        load(path)


def test_a_simulated_arch_is_no_subject_of_a_wide_campaign(capsys: pytest.CaptureFixture[str]) -> None:
    assert command.main(["--wide", "--arch", "sim-w32", "--commands", "10"]) == 2
    assert "time is real" in capsys.readouterr().err

"""The runner: whatever a case does, it gets the right verdict, and the next case runs."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from tests.conformance.runs import (
    FACTS,
    LIMITS,
    OPTIONS,
    PLANTED,
    TERMS,
    Ran,
    gone,
    instances,
    pids,
    short,
    wait_until,
)
from tutti_hal.conformance_tests.case import Instance
from tutti_hal.conformance_tests.judgement import judge
from tutti_hal.conformance_tests.outcome import End, Outcome
from tutti_hal.conformance_tests.runner.pool import run_instances
from tutti_hal.conformance_tests.runner.shop import Shop
from tutti_hal.conformance_tests.session import RunOptions
from tutti_hal.conformance_tests.terms import ExpectedSkip, Terms
from tutti_hal.conformance_tests.verdict import SkipReason, Verdict
from tutti_hal.spec import load_spec

pytestmark = [pytest.mark.suite, pytest.mark.slow]  # it starts many processes

Runs = Callable[..., Ran]


@pytest.fixture
def state(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder where planted cases leave something."""
    folder = tmp_path / "state"
    folder.mkdir()
    monkeypatch.setenv("TUTTI_PLANTED", str(folder))
    return folder


@pytest.fixture
def run(state: Path) -> Runs:
    def runs(
        *names: str,
        options: RunOptions = OPTIONS,
        terms: Terms = TERMS,
        reruns: int = 20,
        kernel_log: Path = Path("/nonexistent"),
        on_start: Callable[[Instance], None] | None = None,
        on_end: Callable[[Instance, Outcome], None] | None = None,
    ) -> Ran:
        chosen = instances(*names)
        told: list[str] = []
        ended: dict[str, Outcome] = {}

        def start(instance: Instance) -> None:
            told.append(instance.id)
            if on_start is not None:
                on_start(instance)

        def end(instance: Instance, outcome: Outcome) -> None:
            assert instance.id not in ended
            ended[instance.id] = outcome
            if on_end is not None:
                on_end(instance, outcome)

        shop = Shop(LIMITS, reruns, kernel_log)
        found, watched = run_instances(options, FACTS, terms, chosen, on_start=start, on_end=end, shop=shop)
        assert found == ended
        assert list(found) == [one.id for one in chosen]
        started = {one for one, outcome in found.items() if outcome.end is not End.NOT_RUN}
        assert sorted(told) == sorted(started)
        judgements = {one.id: judge(one, found[one.id], FACTS[one.arch], terms) for one in chosen}
        return Ran(
            {short(one): outcome for one, outcome in found.items()},
            {short(one): judgement for one, judgement in judgements.items()},
            watched,
        )

    return runs


PASSES = [f"passes:n={n}" for n in range(4)]


def test_passing_cases_share_a_worker_and_leave_no_trace(run: Runs) -> None:
    ran = run("passes")
    assert {ran.verdict(name) for name in PASSES} == {Verdict.PASS}
    assert len(set(pids(ran, PASSES))) == 1
    assert pids(ran, PASSES)[0] != os.getpid()
    assert all(outcome.log == () and outcome.alone is None for outcome in ran.outcomes.values())
    assert ran.watched["workers"] == 1


def test_a_failure_is_run_again_alone_and_fails_again(run: Runs) -> None:
    ran = run("passes:n=0", "fails", "passes:n=1")
    assert ran.verdict("fails") is Verdict.FAIL
    assert ran.reason("fails") == "the value: found 2, wanted 1"
    assert ran.outcomes["fails"].alone == {"failed_alone": True, "failed_again": False, "after": []}
    assert len(set(pids(ran, PASSES[:2]))) == 1  # a failed check spoils no worker


def test_a_flaky_case_is_named_so(run: Runs) -> None:
    ran = run("flaky:key=a", "passes:n=0", "flaky:key=b")
    first, later = (ran.reason(f"flaky:key={key}") for key in "ab")
    assert ran.verdict("flaky:key=a") is ran.verdict("flaky:key=b") is Verdict.FAIL
    assert "FLAKY: it passed when it was run alone again" in first
    assert "FLAKY: it passed when it was run alone, and when its batch was run again" in later
    alone = ran.outcomes["flaky:key=b"].alone
    assert alone is not None
    assert alone["after"] == ["plant/flaky:key=a", "plant/passes:n=0"]


def test_a_case_that_another_spoils_is_named_order_dependent(run: Runs) -> None:
    ran = run("passes:n=0", "spoils", "spoiled", "passes:n=1")
    assert ran.verdict("spoils") is Verdict.PASS
    assert ran.verdict("spoiled") is Verdict.FAIL
    assert "ORDER DEPENDENT: it passes alone and fails after plant/passes:n=0, plant/spoils" in ran.reason("spoiled")
    assert ran.verdict("passes:n=1") is Verdict.PASS


def test_reruns_have_a_limit_that_is_said(run: Runs) -> None:
    ran = run("fails", "lies", "raises", reruns=1)
    assert ran.outcomes["fails"].alone == {"failed_alone": True, "failed_again": False, "after": []}
    assert "left_out" in (ran.outcomes["lies"].alone or {})
    assert ran.watched["rerun_alone"] == 1
    assert ran.watched["not_rerun_alone"] == 2


def test_predecessors_have_a_limit_that_is_said(run: Runs, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tutti_hal.conformance_tests.runner.slot.PREDECESSORS", 1)
    ran = run("spoils", "passes:n=0", "spoiled")
    alone = ran.outcomes["spoiled"].alone
    assert alone is not None
    assert alone["after"] == ["plant/passes:n=0"]
    assert not alone["failed_again"]
    assert alone["left_out"] == "1 instances before these were not run again"


@pytest.mark.parametrize(
    ("name", "told"),
    [
        ("hangs_in_python", "in hangs_in_python"),
        ("hangs_in_native", "in hangs_in_native"),
        ("hangs_in_kernel", "in hangs_in_kernel"),
        ("hangs_deaf", ""),
    ],
)
def test_a_hanging_case_is_killed_and_says_where_it_was(run: Runs, state: Path, name: str, told: str) -> None:
    ran = run("passes:n=0", name, "passes:n=1", reruns=0)
    assert ran.verdict(name) is Verdict.TIMEOUT
    assert ran.reason(name) == f"killed after {2.0 if name == 'hangs_in_kernel' else 0.7} s"
    assert ran.outcomes[name].detail["phase"] == "case"
    assert told in "\n".join(ran.outcomes[name].log)
    assert ran.verdict("passes:n=1") is Verdict.PASS
    if name == "hangs_deaf":
        wait_until(lambda: gone(int((state / "child").read_text(encoding="ascii"))))


def test_a_worker_that_does_not_leave_is_the_last_cases_time_out(run: Runs) -> None:
    ran = run("passes:n=0", "leaves_a_thread", "passes:n=1", "traps")
    assert ran.verdict("passes:n=0") is Verdict.PASS
    assert ran.verdict("passes:n=1") is Verdict.TIMEOUT  # its worker held a thread, whoever started it
    assert "when the worker was to leave; ORDER DEPENDENT" in ran.reason("passes:n=1")
    assert "plant/leaves_a_thread" in ran.reason("passes:n=1")
    assert ran.verdict("traps") is Verdict.PASS


@pytest.mark.parametrize(
    ("name", "reason"),
    [
        ("segfaults", "the process died: SIGSEGV"),
        ("leaves", "the process died: exit code 7"),
        ("exits", "the process died: exit code 3"),
    ],
)
def test_a_crashing_case_fails_and_the_next_one_runs_in_another_worker(run: Runs, name: str, reason: str) -> None:
    ran = run("passes:n=0", name, "passes:n=1")
    assert ran.verdict(name) is Verdict.FAIL
    assert ran.reason(name) == reason
    assert (ran.outcomes[name].alone or {})["failed_alone"]
    assert ran.verdict("passes:n=1") is Verdict.PASS
    assert len(set(pids(ran, PASSES[:2]))) == 2


def test_a_crash_shows_where_it_was(run: Runs) -> None:
    log = "\n".join(run("segfaults").outcomes["segfaults"].log)
    assert "Fatal Python error: Segmentation fault" in log
    assert "in segfaults" in log


def test_a_worker_that_dies_after_the_case_is_that_cases_crash(run: Runs) -> None:
    ran = run("dies_afterwards")
    assert ran.verdict("dies_afterwards") is Verdict.FAIL
    assert "the process died after the case" in ran.reason("dies_afterwards")
    assert "exit code 9" in ran.reason("dies_afterwards")


def test_a_worker_that_somebody_kills_is_a_crash_that_does_not_come_again(run: Runs, state: Path) -> None:
    def kill() -> None:
        wait_until((state / "slow").exists)
        wait_until(lambda: bool((state / "slow").read_text(encoding="ascii")))
        os.kill(int((state / "slow").read_text(encoding="ascii")), 9)

    killer = threading.Thread(target=kill)
    killer.start()
    ran = run("slow", "passes:n=0")
    killer.join()
    assert ran.verdict("slow") is Verdict.FAIL
    assert "the process died: SIGKILL; FLAKY" in ran.reason("slow")
    assert ran.verdict("passes:n=0") is Verdict.PASS


def test_a_case_whose_observations_do_not_fit_is_an_error(run: Runs) -> None:
    ran = run("lies", "vacuous", "raises", "returns_rubbish", "passes:n=0")
    assert ran.reason("lies") == "the judge raised KeyError: 'value'"
    assert ran.reason("vacuous") == "vacuous: nothing was examined for prim.crc.check_value"
    assert ran.reason("raises") == "the case raised ZeroDivisionError: planted"
    assert "object is not an observation" in ran.reason("returns_rubbish:n=0")
    assert "type is not an observation" in ran.reason("returns_rubbish:n=2")
    wrong = ["lies", "vacuous", "raises", *(f"returns_rubbish:n={n}" for n in range(3))]
    assert {ran.verdict(name) for name in wrong} == {Verdict.ERROR}
    assert ran.verdict("passes:n=0") is Verdict.PASS


def test_a_skip_counts_only_where_it_is_expected(run: Runs) -> None:
    unexpected = run("skips", "passes:n=0")
    assert unexpected.verdict("skips") is Verdict.FAIL
    assert unexpected.reason("skips").startswith("an unexpected skip (machine): a second moon")
    listed = Terms(load_spec(), skips=(ExpectedSkip("plant/skips", SkipReason.MACHINE, "There is one moon."),))
    expected = run("skips", "passes:n=0", terms=listed)
    assert expected.verdict("skips") is Verdict.SKIP
    assert expected.outcomes["skips"].alone is None


def test_a_line_that_nobody_foresaw_fails_the_case_that_was_running(run: Runs) -> None:
    ran = run(*(f"chatters:where={w}" for w in ("python", "native", "sanitizer", "foreseen")), "passes:n=0")
    chatter = {where: ran.outcomes[f"chatters:where={where}"].log for where in ("python", "native", "sanitizer")}
    assert chatter["python"] == ("chatter of Python",)
    assert chatter["native"] == ("chatter of C",)
    assert "AddressSanitizer" in chatter["sanitizer"][0]
    for where in chatter:
        assert ran.verdict(f"chatters:where={where}") is Verdict.FAIL
        assert "an unexpected line in the log" in ran.reason(f"chatters:where={where}")
    assert ran.verdict("chatters:where=foreseen") is Verdict.PASS
    assert ran.verdict("passes:n=0") is Verdict.PASS


def test_a_line_that_comes_after_the_case_is_its_own_while_its_worker_lives(run: Runs) -> None:
    ran = run("chatters:where=late")
    assert ran.outcomes["chatters:where=late"].log == ("chatter of a thread",)
    assert ran.verdict("chatters:where=late") is Verdict.FAIL


def test_a_device_left_failed_is_brought_back(run: Runs) -> None:
    ran = run("traps", "uses_the_device")
    assert {judgement.verdict for judgement in ran.judgements.values()} == {Verdict.PASS}
    assert ran.watched["workers"] == 1


def test_a_device_that_cannot_be_brought_back_is_lost_and_the_next_worker_has_another(run: Runs) -> None:
    ran = run("loses_the_device", "uses_the_device")
    assert ran.verdict("loses_the_device") is Verdict.DEVICE_LOST
    assert "its reset was refused: it does not answer" in ran.reason("loses_the_device")
    assert ran.verdict("uses_the_device") is Verdict.PASS


def test_what_does_not_compile_is_refused_and_not_run_again(run: Runs) -> None:
    ran = run("does_not_compile", "uses_the_device")
    assert ran.outcomes["does_not_compile"].end is End.REFUSED
    assert ran.verdict("does_not_compile") is Verdict.FAIL
    assert ran.outcomes["does_not_compile"].alone is None
    assert ran.verdict("uses_the_device") is Verdict.PASS


def test_several_workers_share_the_work(run: Runs) -> None:
    ran = run("passes", "uses_the_device", "spoiled", options=replace(OPTIONS, jobs=2))
    assert {judgement.verdict for judgement in ran.judgements.values()} == {Verdict.PASS}
    assert ran.watched["jobs"] == 2
    assert len({*pids(ran, PASSES), *pids(ran, ["uses_the_device"])}) == 2


def test_nothing_new_is_started_after_the_time_limit(run: Runs) -> None:
    ran = run("slow", "passes", options=replace(OPTIONS, time_limit_s=2.0))
    assert ran.verdict("slow") is Verdict.PASS
    assert {ran.verdict(name) for name in PASSES} == {Verdict.NOT_TESTED}
    assert ran.reason("passes:n=0") == "the time limit of 2 s was reached"


def test_what_the_plan_skips_is_not_run(state: Path) -> None:
    chosen = instances("passes")
    failing = Terms(load_spec(), expected_failures={"prim.crc.check_value": "It fails for now."})
    assert run_instances(OPTIONS, FACTS, failing, chosen)[0] == {}
    assert run_instances(OPTIONS, FACTS, TERMS, ())[0] == {}


INTERRUPTED = """
import sys
from tutti_hal.conformance_tests.catalogue import catalogue, select
from tutti_hal.conformance_tests.runner.pool import run_instances
from tutti_hal.conformance_tests.session import RunOptions
from tutti_hal.conformance_tests.subject import SubjectSpec, facts_of, profile_of
from tutti_hal.conformance_tests.terms import Terms
from tutti_hal.spec import load_spec

subject = SubjectSpec("host", cases=(sys.argv[1],))
facts = {"": facts_of(profile_of(subject), "")}
chosen = select(catalogue(subject.cases).instances(facts), ["plant/waits", "plant/passes"])
try:
    run_instances(RunOptions(subject, (), jobs=2), facts, Terms(load_spec()), chosen)
except KeyboardInterrupt:
    sys.exit(130)
"""


@pytest.mark.parametrize(("signum", "code"), [(signal.SIGINT, 130), (signal.SIGKILL, -9)])
def test_an_interrupted_run_leaves_no_process(state: Path, tmp_path: Path, signum: int, code: int) -> None:
    scratch = tmp_path / "scratch"
    scratch.mkdir()
    command = [sys.executable, "-c", INTERRUPTED, str(PLANTED)]
    with subprocess.Popen(command, env={**os.environ, "TMPDIR": str(scratch)}) as process:
        wait_until(lambda: (state / "waits").exists() and "." in (state / "waits").read_text(encoding="ascii"))
        worker, child, _ = (state / "waits").read_text(encoding="ascii").split()
        process.send_signal(signum)
        assert process.wait(20) == code
    wait_until(lambda: gone(int(worker)))
    if signum == signal.SIGINT:  # a run that is itself killed can only see to it that its workers die
        wait_until(lambda: gone(int(child)))
        assert not list(scratch.iterdir())
    else:
        os.kill(int(child), signal.SIGKILL)

"""Workers that a nursery forks: they run, die, are told of and end like those that are started from nothing."""

from __future__ import annotations

import dataclasses
import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.conformance.runs import FACTS, LIMITS, SUBJECT, TERMS, gone, instances, wait_until
from tutti_hal.conformance_tests.judgement import judge
from tutti_hal.conformance_tests.outcome import End
from tutti_hal.conformance_tests.runner.nursery import Nursery
from tutti_hal.conformance_tests.runner.process import WorkerProcess
from tutti_hal.conformance_tests.runner.shop import Shop
from tutti_hal.conformance_tests.verdict import Verdict

#: An interpreter that is full takes a moment to leave, and more on a busy machine.
PATIENT = dataclasses.replace(LIMITS, leave_s=20.0)

pytestmark = pytest.mark.suite


@pytest.fixture(scope="module")
def nursery() -> Iterator[Nursery]:
    with Nursery([SUBJECT]) as one:
        yield one


@pytest.fixture
def shop(nursery: Nursery) -> Iterator[Shop]:
    with Shop(PATIENT, nursery=nursery) as one:
        yield one


def run(worker: WorkerProcess, name: str) -> tuple[End, Verdict, dict[str, object]]:
    [one] = instances(name)
    outcome = worker.run(one, 1).outcome
    return outcome.end, judge(one, outcome, FACTS[""], TERMS).verdict, dict(outcome.observations)


def test_each_worker_is_a_process_of_its_own_with_its_own_variables(shop: Shop, tmp_path: Path) -> None:
    one, other = (shop.start(SUBJECT, {"TUTTI_PLANTED": str(tmp_path)}) for _ in range(2))
    first, second = run(one, "passes:n=0"), run(other, "passes:n=0")
    assert (first[1], second[1]) == (Verdict.PASS, Verdict.PASS)
    assert (first[2]["pid"], second[2]["pid"]) == (one.pid, other.pid)
    assert os.getpid() not in (one.pid, other.pid)
    assert one.pid != other.pid
    assert os.getpgid(one.pid) == one.pid
    assert run(one, "passes:n=1")[2]["pid"] == one.pid
    # It leaves by itself when there is nothing left to do.
    assert one.leave() is None
    assert gone(one.pid)
    assert not gone(other.pid)


def test_a_failure_a_hang_and_a_crash_are_told_apart(shop: Shop, tmp_path: Path) -> None:
    def end(name: str) -> tuple[End, Verdict]:
        return run(shop.start(SUBJECT, {"TUTTI_PLANTED": str(tmp_path)}), name)[:2]

    assert end("fails") == (End.OBSERVED, Verdict.FAIL)
    assert end("hangs_in_python") == (End.TIMED_OUT, Verdict.TIMEOUT)
    assert end("segfaults")[0] is End.CRASHED


def test_output_belongs_to_the_worker_that_wrote_it(shop: Shop) -> None:
    noisy, silent = shop.start(SUBJECT), shop.start(SUBJECT)
    run(noisy, "chatters:where=native")
    run(silent, "passes:n=0")
    assert noisy.lines()
    assert silent.lines() == []


def test_nothing_outlives_the_nursery() -> None:
    with Nursery([]) as nursery, Shop(PATIENT, nursery=nursery) as shop:
        worker = shop.start(SUBJECT)
        assert run(worker, "passes:n=0")[1] is Verdict.PASS
        nursery.__exit__(None, None, None)
        wait_until(lambda: gone(worker.pid))
        assert run(worker, "passes:n=1")[0] is End.CRASHED
        with pytest.raises(OSError, match=r"."):
            shop.start(SUBJECT)

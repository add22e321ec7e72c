"""What the tests of the runner share: planted cases, on what terms they run, and small helpers."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from pathlib import Path

from tutti_hal.conformance_tests.case import Instance
from tutti_hal.conformance_tests.catalogue import catalogue, select
from tutti_hal.conformance_tests.judgement import Judgement
from tutti_hal.conformance_tests.outcome import Outcome
from tutti_hal.conformance_tests.runner.process import Limits
from tutti_hal.conformance_tests.session import RunOptions
from tutti_hal.conformance_tests.subject import SubjectSpec, facts_of, profile_of
from tutti_hal.conformance_tests.terms import Terms
from tutti_hal.conformance_tests.verdict import Verdict
from tutti_hal.spec import load_spec

PLANTED = Path(__file__).with_name("planted.py")
ARCH = "threads-w32"
SUBJECT = SubjectSpec("host", cases=(str(PLANTED),))
FACTS = {arch: facts_of(profile_of(SUBJECT), arch) for arch in ("", ARCH)}
OPTIONS = RunOptions(SUBJECT, (ARCH,), jobs=1)
TERMS = Terms(load_spec())
LIMITS = Limits(compile_s=60.0, grace_s=0.3, leave_s=1.0)


class Ran:
    """What a run gave back, by the last part of the instances' names."""

    def __init__(self, outcomes: dict[str, Outcome], judgements: dict[str, Judgement], watched: dict[str, object]):
        self.outcomes = outcomes
        self.judgements = judgements
        self.watched = watched

    def verdict(self, name: str) -> Verdict:
        return self.judgements[name].verdict

    def reason(self, name: str) -> str:
        return self.judgements[name].reason


def instances(*names: str) -> tuple[Instance, ...]:
    """Planted instances in the order of ``names``: case names or ids without ``plant/``."""
    known = [one for one in catalogue(SUBJECT.cases).instances(FACTS) if one.case.name.startswith("plant/")]
    return tuple(one for name in names for one in select(known, [f"plant/{name}"]))


def short(instance_id: str) -> str:
    return instance_id.removeprefix("plant/").replace(f":arch={ARCH}", "")


def gone(pid: int) -> bool:
    """Whether a process is dead; a zombie that nobody has reaped yet is."""
    try:
        return Path(f"/proc/{pid}/stat").read_text(encoding="ascii").rpartition(")")[2].split()[0] == "Z"
    except FileNotFoundError:
        return True


def wait_until(condition: Callable[[], bool], seconds: float = 20.0) -> None:
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end, "it did not come"
        time.sleep(0.02)


def pids(ran: Ran, names: Sequence[str]) -> list[int]:
    return [int(ran.outcomes[name].observations["pid"]) for name in names]

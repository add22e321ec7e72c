"""Many workloads, one seed after the other, on the archs of a profile; what is wrong is made small and kept."""

from __future__ import annotations

import json
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tutti_hal.conformance_tests.campaign.executor import execute
from tutti_hal.conformance_tests.campaign.model import Wrong, judge
from tutti_hal.conformance_tests.campaign.shrink import shrink
from tutti_hal.conformance_tests.campaign.steps import Workload
from tutti_hal.conformance_tests.campaign.workload import MIXES, Generator
from tutti_hal.conformance_tests.errors import ReplayInvalid
from tutti_hal.conformance_tests.run import Run
from tutti_hal.errors import LaunchFailed, TuttiError

if TYPE_CHECKING:
    from tutti_hal.conformance_tests.subject import Subject

#: Version of the replay file.
FORMAT = 1

#: Commands of a workload: where time is virtual short ones show as much, elsewhere starting one is what costs.
LENGTH = {True: 400, False: 2000}

#: Clause that stands for a launch that failed.
_BROKEN = "ring.timeout.kernel_ends"


@dataclass(frozen=True)
class Trial:
    """One workload on one arch under one schedule.

    Attributes:
        arch: of the profile.
        seed: of the schedule, where the arch is simulated.
        workload: what is done.
    """

    arch: str
    seed: int
    workload: Workload

    @property
    def commands(self) -> int:
        """Commands that it submits where nothing fails."""
        return self.workload.commands

    def to_json(self) -> dict[str, Any]:
        """As a plain table."""
        return {"arch": self.arch, "seed": self.seed, "workload": self.workload.to_json()}


@dataclass
class Tally:
    """What a campaign has done so far.

    Attributes:
        commands: given to drives by batches, as the model counts them.
        trials: workloads that were run.
        seconds: of wall clock.
        examined: clause -> values compared.
        by_arch: arch -> commands.
        failed: the first trial that was wrong, made small; None while none was.
        wrong: what was wrong with it.
    """

    commands: int = 0
    trials: int = 0
    seconds: float = 0.0
    examined: Counter[str] = field(default_factory=Counter)
    by_arch: Counter[str] = field(default_factory=Counter)
    failed: Trial | None = None
    wrong: tuple[Wrong, ...] = ()


def attempt(subject: Subject, trial: Trial, examined: Counter[str] | None = None) -> tuple[Wrong, ...]:
    """Run one trial and judge it; what was wrong.

    A launch that fails, such as a deadlock of the simulated world, is wrong like any other; the device is reset.
    """
    simulated = subject.facts.simulated
    if simulated:
        subject.reset_world(**schedule(trial.seed))
    with tempfile.TemporaryDirectory(prefix="tutti-campaign-") as scratch:
        run = Run(subject, {}, trial.seed, Path(scratch))
        try:
            with run.closing:
                seen = execute(run, trial.workload)
        except LaunchFailed as error:
            subject.device.reset()
            return (Wrong(0, _BROKEN, "a launch", error.found[:200], "that it ends"),)
        except TuttiError as error:
            return (Wrong(0, _BROKEN, "a call of the ring", f"{type(error).__name__}: {error.found[:200]}", "none"),)
    model = judge(trial.workload, seen, simulated=simulated)
    if examined is not None:
        examined.update(model.examined)
    return tuple(model.wrong)


def schedule(seed: int) -> dict[str, Any]:
    """Options of the simulated world for a seed: random and PCT schedules take turns."""
    policy = {"policy": "pct", "pct_depth": 3} if seed % 3 == 2 else {"policy": "random"}
    return {**policy, "seed": seed % 2**62 + 1}


def draw(arch: str, seed: int, mix: str, *, simulated: bool, length: int = 0) -> Trial:
    """The trial of a seed."""
    workload = Generator(seed, mix, simulated=simulated).workload(length or LENGTH[simulated])
    return Trial(arch, seed, workload)


def campaign(
    subjects: Mapping[str, Subject],
    *,
    commands: int,
    seed: int,
    mixes: Sequence[str] = MIXES,
    time_limit_s: float = 0.0,
    say: Callable[[Tally], None] = lambda _: None,
) -> Tally:
    """Run trials until so many commands were given out, the time is over, or something is wrong.

    Args:
        subjects: arch -> subject; they take turns.
        commands: at least.
        seed: of the first trial; the following ones count up.
        mixes: take turns as well.
        time_limit_s: 0 is none. A trial that began is ended.
        say: called after each trial.
    """
    tally, began = Tally(), time.monotonic()
    archs = list(subjects)
    while tally.commands < commands and not tally.wrong:
        if time_limit_s and time.monotonic() - began > time_limit_s:
            break
        number = tally.trials
        arch, mix = archs[number % len(archs)], mixes[number // len(archs) % len(mixes)]
        subject = subjects[arch]
        trial = draw(arch, seed + number, mix, simulated=subject.facts.simulated)
        tally.wrong = attempt(subject, trial, tally.examined)
        if tally.wrong:
            tally.failed, tally.wrong = smaller(subject, trial, tally.wrong)
        tally.trials += 1
        tally.commands += trial.workload.commands
        tally.by_arch[arch] += trial.workload.commands
        tally.seconds = time.monotonic() - began
        say(tally)
    return tally


def smaller(subject: Subject, trial: Trial, wrong: tuple[Wrong, ...]) -> tuple[Trial, tuple[Wrong, ...]]:
    """The trial with as few steps and requests as still break the same clause; and what is wrong with it then."""
    clauses = {one.clause for one in wrong}
    found = {"wrong": wrong}

    def fails(workload: Workload) -> bool:
        now = attempt(subject, Trial(trial.arch, trial.seed, workload))
        if not clauses & {one.clause for one in now}:
            return False
        found["wrong"] = now
        return True

    small = shrink(trial.workload, fails)
    return Trial(trial.arch, trial.seed, small), found["wrong"]


def save(path: Path, profile: str, trial: Trial, wrong: Sequence[Wrong]) -> None:
    """Write a replay file; it holds the command that runs it."""
    table = {
        "format": FORMAT,
        "profile": profile,
        **trial.to_json(),
        "wrong": [asdict(one) for one in wrong],
        "command": f"python -m tutti_hal.conformance_tests.campaign --replay {path}",
    }
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(table, indent=1) + "\n", encoding="utf-8")


def load(path: Path) -> tuple[str, Trial]:
    """The profile and the trial of a replay file.

    Raises:
        ReplayInvalid: it is none.
    """
    try:
        table = json.loads(path.read_text(encoding="utf-8"))
        if table["format"] != FORMAT:
            raise ValueError(f"format {table['format']}")
        return table["profile"], Trial(table["arch"], table["seed"], Workload.from_json(table["workload"]))
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise ReplayInvalid(
            f"replay {path}", f"{type(error).__name__}: {error}", "Give a file that a campaign of this version wrote."
        ) from error

"""Many wide trials, one seed after the other; what is wrong is made small, as far as real time lets it come again.

A trial's requests, rules and drives come from its seed, and so do again; the order in which lanes and drives take turns
does not. So a candidate for shrinking is run a few times, and what is kept says how often it failed in runs of its own.
"""

from __future__ import annotations

import json
import math
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tutti_hal.conformance_tests.campaign.model import Wrong
from tutti_hal.conformance_tests.campaign.session import Trial
from tutti_hal.conformance_tests.campaign.session import attempt as narrow_attempt
from tutti_hal.conformance_tests.campaign.shrink import fewer
from tutti_hal.conformance_tests.campaign.wide.draw import draw
from tutti_hal.conformance_tests.campaign.wide.execution import WideExecutor
from tutti_hal.conformance_tests.campaign.wide.model import WideModel
from tutti_hal.conformance_tests.campaign.wide.tables import WideStep, WideTrial, parts_of
from tutti_hal.conformance_tests.campaign.workload import MIXES
from tutti_hal.conformance_tests.errors import ReplayInvalid
from tutti_hal.conformance_tests.run import Run
from tutti_hal.errors import LaunchFailed, TuttiError

if TYPE_CHECKING:
    from tutti_hal.conformance_tests.subject import Subject

#: Kind and version of the replay file.
FORMAT = "wide-1"

_BROKEN = "ring.timeout.kernel_ends"

#: Runs of a candidate until it counts as one that does not fail; and those by which a small trial is rated.
_TRIES, _RATED = 3, 5
#: Seconds for shrinking, and schedules that are tried in a simulated world.
_SHRINK_S = 120.0
_SCHEDULES = 40


@dataclass
class WideTally:
    """What a wide campaign has done so far.

    Attributes:
        commands: given to drives by batches.
        trials: that were run.
        seconds: of wall clock.
        examined: clause -> values compared.
        by_arch: arch -> commands.
        unexplained: requests that had no end without a rule: a machine that was late.
        failed: the first trial that was wrong, made small; None while none was.
        wrong: what was wrong with it.
        again: how often it failed, and how often it was run, when it was small.
    """

    commands: int = 0
    trials: int = 0
    seconds: float = 0.0
    examined: Counter[str] = field(default_factory=Counter)
    by_arch: Counter[str] = field(default_factory=Counter)
    unexplained: int = 0
    failed: WideTrial | None = None
    wrong: tuple[Wrong, ...] = ()
    again: tuple[int, int] = (0, 0)


def attempt(
    subject: Subject, trial: WideTrial, tally: WideTally | None = None, *, end: float = math.inf
) -> tuple[Wrong, ...]:
    """Run a trial, judging each step as it is done; what was wrong. It ends with the first step that is.

    Args:
        subject: of the trial's arch.
        trial: that is run.
        tally: that what was done is added to.
        end: of the monotonic clock, after which no further step begins once a batch was done; what namespaces hold is
            judged all the same.
    """
    model = WideModel(trial.setting)
    commands = 0
    with tempfile.TemporaryDirectory(prefix="tutti-campaign-") as scratch:
        run = Run(subject, {}, trial.seed, Path(scratch))
        try:
            with run.closing, WideExecutor(run, trial.setting) as executor:
                for step in trial.steps:
                    if commands and time.monotonic() > end:
                        model.end(executor.stored(), executor.untouched())
                        break
                    model.step(step, executor.do(step))
                    commands += 0 if step.batch is None else int(parts_of(trial.setting, step.batch).sum())
                    if model.wrong:
                        break
                else:
                    model.end(executor.stored(), executor.untouched())
        except LaunchFailed as error:
            subject.device.reset()
            return (Wrong(0, _BROKEN, "a launch", error.found[:200], "that it ends"),)
        except TuttiError as error:
            return (Wrong(0, _BROKEN, "a call of the ring", f"{type(error).__name__}: {error.found[:200]}", "none"),)
    if tally is not None:
        tally.examined.update(model.examined)
        tally.unexplained += model.unexplained
        tally.commands += commands
        tally.by_arch[trial.arch] += commands
    return tuple(model.wrong)


def wide_campaign(
    subjects: Mapping[str, Subject],
    *,
    commands: int,
    seed: int,
    mixes: Sequence[str] = MIXES,
    time_limit_s: float = 0.0,
    say: Callable[[WideTally], None] = lambda _: None,
    length: int = 0,
) -> WideTally:
    """As ``campaign``, with wide trials of about ``length`` commands, 0 for as many as suit their queues.

    Archs whose time is simulated are no subjects for it.
    """
    tally, began = WideTally(), time.monotonic()
    archs = list(subjects)
    end = began + time_limit_s if time_limit_s else math.inf
    while tally.commands < commands and not tally.wrong and time.monotonic() < end:
        number = tally.trials
        arch, mix = archs[number % len(archs)], mixes[number // len(archs) % len(mixes)]
        trial = draw(arch, seed + number, mix, length)
        tally.wrong = attempt(subjects[arch], trial, tally, end=end)
        tally.trials += 1
        if tally.wrong:
            tally.failed, tally.wrong, tally.again = smaller(subjects[arch], trial, tally.wrong)
        tally.seconds = time.monotonic() - began
        say(tally)
    return tally


def smaller(
    subject: Subject, trial: WideTrial, wrong: tuple[Wrong, ...], *, time_limit_s: float = _SHRINK_S
) -> tuple[WideTrial, tuple[Wrong, ...], tuple[int, int]]:
    """The trial with as few steps and requests as still broke the same clause in one of some runs.

    Returns:
        That trial, what was wrong with it, and how often it failed of how many runs in the end. 0 of them: it did not
        come again at all, and is as long as it was.
    """
    clauses = {one.clause for one in wrong}
    found = {"wrong": wrong}
    end = time.monotonic() + time_limit_s

    def once(candidate: WideTrial) -> bool:
        now = attempt(subject, candidate)
        if not clauses & {one.clause for one in now}:
            return False
        found["wrong"] = now
        return True

    def fails(steps: tuple[WideStep, ...]) -> bool:
        return any(time.monotonic() < end and once(trial.but(steps)) for _ in range(tries))

    # Nothing after the step that was wrong matters, unless it was seen in the end alone. What comes again each time
    # needs one run of each candidate.
    upto = trial.steps[: max(one.step for one in wrong) + 1]
    came = [once(trial.but(upto)) for _ in range(_TRIES)]
    tries = 1 if all(came) else _TRIES
    steps = fewer(upto if any(came) else trial.steps, fails)
    for number in reversed(range(len(steps))):
        batch = steps[number].batch
        if batch is None or len(batch.asks) < 2:
            continue

        def with_rows(rows: tuple[int, ...], at: int = number, base: tuple[WideStep, ...] = steps) -> tuple[Any, ...]:
            import numpy as np

            was = base[at]
            assert was.batch is not None
            return (*base[:at], replace(was, batch=was.batch.take(np.array(rows))), *base[at + 1 :])

        steps = with_rows(fewer(tuple(range(len(batch.asks))), lambda rows: fails(with_rows(rows))))
    small = trial.but(steps)
    return small, found["wrong"], (sum(once(small) for _ in range(_RATED)), _RATED)


def repeatable(subjects: Mapping[str, Subject], trial: WideTrial) -> tuple[Trial, tuple[Wrong, ...]] | None:
    """The same requests in a simulated world, under a schedule in which they fail too; None when none was found.

    Args:
        subjects: arch -> subject, of simulated archs; the first one with waves of the trial's width comes first.
        trial: a small one.
    """
    workload = trial.narrow()
    for arch, subject in subjects.items():
        for seed in range(1, _SCHEDULES + 1):
            narrow = Trial(arch, seed, workload)
            wrong = narrow_attempt(subject, narrow)
            if wrong:
                return narrow, wrong
    return None


def save(path: Path, profile: str, tally: WideTally) -> None:
    """Write a replay file of the failed trial; it holds the command that runs it, and says how often it came again."""
    if tally.failed is None:
        raise ValueError("no trial has failed")
    failed, runs = tally.again
    table = {
        "format": FORMAT,
        "profile": profile,
        **tally.failed.to_json(),
        "wrong": [asdict(one) for one in tally.wrong],
        "reproduced": f"{failed} of {runs} runs; requests, rules and drives are the same each time, turns are not",
        "command": f"python -m tutti_hal.conformance_tests.campaign --replay {path}",
    }
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(table) + "\n", encoding="utf-8")


def is_wide(path: Path) -> bool:
    """Whether a replay file is one of a wide trial. What cannot be read is none."""
    try:
        return bool(json.loads(path.read_text(encoding="utf-8"))["format"] == FORMAT)
    except (OSError, ValueError, KeyError, TypeError):
        return False


def load(path: Path) -> tuple[str, WideTrial]:
    """The profile and the trial of a replay file.

    Raises:
        ReplayInvalid: it is none of a wide trial.
    """
    try:
        table = json.loads(path.read_text(encoding="utf-8"))
        if table["format"] != FORMAT:
            raise ValueError(f"format {table['format']}")
        return table["profile"], WideTrial.from_json(table)
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise ReplayInvalid(
            f"replay {path}", f"{type(error).__name__}: {error}", "Give a file that a campaign of this version wrote."
        ) from error

"""Run one instance in this process, and say how it ended. Whatever the case does wrong is part of the answer."""

from __future__ import annotations

import tempfile
import time
import traceback
from pathlib import Path
from typing import Any

from tutti_hal.conformance_tests.case import Instance
from tutti_hal.conformance_tests.drawn import Source
from tutti_hal.conformance_tests.observation import ObservationInvalid, encode
from tutti_hal.conformance_tests.outcome import End, Outcome
from tutti_hal.conformance_tests.run import Run, Skipped
from tutti_hal.conformance_tests.subject import Subject
from tutti_hal.errors import LaunchFailed, TuttiError
from tutti_hal.expectations import load_expectations

_TRACE_LINES = 12


def prepare(subject: Subject, instance: Instance) -> None:
    """Compile what the instance launches, before its budget starts.

    Raises:
        BuildError, GenerationError: it cannot be compiled; :func:`execute` would meet the same.
    """
    for kernel_set in instance.case.kernels:
        subject.compile(kernel_set)


def execute(subject: Subject, instance: Instance, seed: int) -> Outcome:
    """Run an instance. Blocks until it has ended; the budget is the caller's to watch.

    The world, where there is one, is reset with the instance's seed first. A device that the case left failed is reset;
    where that cannot be, the end is LOST, unless the case failed it on purpose: then the detail says that this process
    is spent.

    Args:
        subject: of the instance's arch.
        instance: what to run.
        seed: the instance's own (:meth:`Instance.seed`).
    """
    began = time.perf_counter()
    with tempfile.TemporaryDirectory(prefix="tutti-case-") as scratch:
        run = Run(subject, instance.axes, seed, Path(scratch))
        if instance.case.fails_device:
            for pattern in load_expectations(subject.profile.record.folder).failure_log:
                run.foresee(pattern)
        end, detail, observations = _observe(subject, instance, run)
        lost = _recover(subject, instance)
    if lost and instance.case.fails_device and not subject.facts.capabilities["error.recoverable"]:
        detail = {**detail, "spent": lost}
    elif lost:
        end, detail = End.LOST, {**detail, "said": lost}
    seconds = time.perf_counter() - began
    return Outcome(instance.id, seed, end, detail, observations, (), tuple(run.foreseen), seconds)


def _observe(subject: Subject, instance: Instance, run: Run) -> tuple[End, dict[str, Any], dict[str, Any]]:
    try:
        if instance.arch and subject.facts.simulated:
            subject.reset_world(policy="random", seed=run.seed or 1)
        with run.closing:
            observations = instance.case.observe(run)
        return End.OBSERVED, {}, dict(encode(observations, source=Source(run.seed)))
    except Skipped as skipped:
        return End.SKIPPED, {"reason": str(skipped.reason), "why": skipped.why}, {}
    except Exception as error:
        return *ended_by(error), {}


def ended_by(error: Exception) -> tuple[End, dict[str, Any]]:
    """How an exception that left a case, or what prepared it, ends the run; with the detail."""
    said = {"error": type(error).__name__, "said": str(error), "trace": _trace(error)}
    if isinstance(error, TuttiError):
        return End.REFUSED, {**said, "id": error.id, "said": error.found}
    if isinstance(error, ObservationInvalid):
        return End.RAISED, {**said, "trace": []}
    return End.RAISED, said


def _trace(error: BaseException) -> list[str]:
    lines = "".join(traceback.format_exception(error)).splitlines()
    return lines[-_TRACE_LINES:]


def _recover(subject: Subject, instance: Instance) -> str:
    """Bring a failed device back, so that the next case finds it well; why not, where that fails."""
    if not instance.arch or "device" not in subject.__dict__:
        return ""
    try:
        subject.device.memory_info()
        return ""
    except LaunchFailed as error:
        if not subject.facts.capabilities["error.recoverable"]:
            return f"the device failed, and this vendor brings none back: {error.found}"
    except TuttiError as error:
        return f"the device answers {error.id}: {error.found}"
    try:
        subject.device.reset()
        subject.device.memory_info()
    except TuttiError as error:
        return f"the device failed and its reset was refused: {error.found}"
    return ""

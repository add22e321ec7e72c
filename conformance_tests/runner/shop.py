"""What all places of work share: a folder, the processes that live, the kernel's log, and the cost of running again."""

from __future__ import annotations

import itertools
import tempfile
import threading
from collections.abc import Mapping
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from tutti_hal.conformance_tests.runner.nursery import Nursery
from tutti_hal.conformance_tests.runner.process import Limits, WorkerProcess
from tutti_hal.conformance_tests.runner.watch import KERNEL_LOG, KernelLog
from tutti_hal.conformance_tests.subject import SubjectSpec

#: How many failures of a run are run again alone.
RERUNS = 20


class Stopped(Exception):
    """The run is over; no worker may be started."""


class Shop:
    """Shared by the slots of a run; for any thread. A context manager: at its end no worker lives, and no file is left.

    Args:
        limits: of every worker.
        reruns: how many failures are run again alone.
        kernel_log: the log to watch.
        environment: variables that every worker gets beside those of this process.
        nursery: what forks the workers; the caller's. They are started from nothing where there is none.
    """

    def __init__(
        self,
        limits: Limits | None = None,
        reruns: int = RERUNS,
        kernel_log: Path = KERNEL_LOG,
        environment: Mapping[str, str] | None = None,
        nursery: Nursery | None = None,
    ) -> None:
        self._nursery = nursery
        self.kernel_log = KernelLog(kernel_log)
        self._environment = dict(environment or {})
        self._limits = limits or Limits()
        self._folder = tempfile.TemporaryDirectory(prefix="tutti-run-", ignore_cleanup_errors=True)
        self._numbers = itertools.count(1)
        self._lock = threading.Lock()
        self._living: set[WorkerProcess] = set()
        self._stopped = False
        self._started = 0
        self._reruns, self._rerun, self._left_out = reruns, 0, 0

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()
        for worker in tuple(self._living):
            self.end(worker)
        self.kernel_log.__exit__(kind, error, trace)
        self._folder.cleanup()

    def start(self, spec: SubjectSpec, environment: Mapping[str, str] | None = None) -> WorkerProcess:
        """Start a worker, with these variables beside our own; give it back with :meth:`end`.

        Raises:
            Stopped: the run is over.
        """
        with self._lock:
            if self._stopped:
                raise Stopped
            self._started += 1
            variables = {**self._environment, **(environment or {})}
            folder = Path(self._folder.name) / str(next(self._numbers))
            worker = WorkerProcess(spec, folder, self._limits, variables, self._nursery)
            self._living.add(worker)
            return worker

    def end(self, worker: WorkerProcess) -> None:
        """End a worker at once, if it has not left, and remove its files."""
        worker.close()
        with self._lock:
            self._living.discard(worker)

    def stop(self) -> None:
        """Kill every worker, and start no more. Whoever waits for one of them is told that it died."""
        with self._lock:
            self._stopped = True
            living = tuple(self._living)
        for worker in living:
            worker.kill()

    def check(self) -> None:
        """Go on only while the run does.

        Raises:
            Stopped: the run is over; what died just now was killed.
        """
        if self._stopped:
            raise Stopped

    def may_rerun(self) -> bool:
        """Whether one more failure may be run again alone; counts it."""
        with self._lock:
            allowed = self._rerun < self._reruns
            self._rerun += allowed
            self._left_out += not allowed
            return allowed

    def watched(self) -> dict[str, Any]:
        """What was watched and how, for the environment of a run."""
        return {
            "output": "every line on standard output and error of a worker",
            "kernel_log": self.kernel_log.said,
            "workers": self._started,
            "rerun_alone": self._rerun,
            "not_rerun_alone": self._left_out,
        }

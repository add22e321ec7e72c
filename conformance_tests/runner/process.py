"""One worker process, seen from the run: started, given instances, watched, ended."""

from __future__ import annotations

import contextlib
import os
import select
import shutil
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tutti_hal.conformance_tests.case import Instance
from tutti_hal.conformance_tests.outcome import End, Outcome
from tutti_hal.conformance_tests.runner.channel import Channel, ChannelBroken
from tutti_hal.conformance_tests.runner.nursery import ForkedProcess, Nursery
from tutti_hal.conformance_tests.subject import SubjectSpec

#: How long compiling what an instance launches may take, before its own budget starts.
COMPILE_LIMIT_S = 120.0

#: How long a worker that is told to end may take for its last words.
GRACE_S = 2.0

#: How long a worker without work may take to leave.
LEAVE_LIMIT_S = 20.0

_LOG_LINES = 500
_LINE_CHARACTERS = 2000


@dataclass(frozen=True)
class Limits:
    """Limits of a worker, in seconds; see the constants of this module."""

    compile_s: float = COMPILE_LIMIT_S
    grace_s: float = GRACE_S
    leave_s: float = LEAVE_LIMIT_S


@dataclass(frozen=True)
class Ended:
    """How an instance ended in a worker.

    Attributes:
        outcome: without its log.
        ran: whether the case itself was started.
    """

    outcome: Outcome
    ran: bool


class WorkerProcess:
    """A worker. Starting it does not wait for it.

    Args:
        spec: the subject that it keeps.
        folder: a fresh folder for its log and its temporary files; removed with it.
        limits: of its work.
        environment: variables that it gets beside those of this process.
        nursery: what forks it; it is started from nothing where there is none.
    """

    def __init__(
        self,
        spec: SubjectSpec,
        folder: Path,
        limits: Limits,
        environment: Mapping[str, str] | None = None,
        nursery: Nursery | None = None,
    ) -> None:
        self._limits = limits
        self._folder = folder
        scratch = folder / "tmp"
        scratch.mkdir(parents=True)
        log = folder / "log"
        ours, theirs = socket.socketpair()
        variables = {**(environment or {}), "TMPDIR": str(scratch)}
        with theirs, log.open("ab") as out:
            self._process: subprocess.Popen[bytes] | ForkedProcess
            if nursery is not None:
                try:
                    self._process = nursery.fork(out.fileno(), theirs.fileno(), variables)
                except OSError:
                    ours.close()
                    raise
            else:
                command = [sys.executable, "-m", f"{__package__}.worker", str(theirs.fileno()), str(os.getpid())]
                self._process = subprocess.Popen(
                    command,
                    stdin=subprocess.DEVNULL,
                    stdout=out,
                    stderr=out,
                    pass_fds=[theirs.fileno()],
                    start_new_session=True,
                    env={**os.environ, **variables},
                )
        self._death = os.pidfd_open(self._process.pid)
        self._log = log.open("rb")
        self._rest = b""
        self._channel = Channel(ours, (self._death,))
        self._reaping = threading.Lock()
        with contextlib.suppress(OSError):  # it died at once; the first instance says so
            self._channel.send({"subject": spec.to_json()})

    @property
    def pid(self) -> int:
        """Of the process, and of its process group."""
        return self._process.pid

    def alive(self) -> bool:
        """Whether it has not died."""
        return not self._dies_within(0.0)

    def run(self, instance: Instance, seed: int) -> Ended:
        """Run an instance. Blocks until it has ended, its budget is over, or the worker has died."""
        case = instance.case
        place = {"module": case.module, "file": case.source.rpartition(":")[0]}
        order = {"id": instance.id, "case": case.name, "axes": dict(instance.axes), "seed": seed, **place}
        began = time.monotonic()
        ran, limit = False, self._limits.compile_s

        def ended(end: End, detail: dict[str, Any]) -> Ended:
            detail["phase"] = "case" if ran else "compile"
            return Ended(Outcome(instance.id, seed, end, detail, seconds=time.monotonic() - began), ran)

        try:
            self._channel.send(order)
            while (message := self._channel.receive(began + limit)) is not None:
                if message.get("said") == "begins":
                    ran, limit, began = True, case.budget_s, time.monotonic()
                    continue
                return Ended(Outcome.from_json(message["outcome"]), bool(message["ran"]))
        except TimeoutError:
            self.kill(gently=True)
            return ended(End.TIMED_OUT, {"budget_s": limit})
        except (ChannelBroken, KeyError, ValueError, TypeError) as error:
            self.kill()
            return ended(End.CRASHED, {"signal": f"its channel carried nonsense ({error})"})
        except OSError:
            pass  # it died between two instances; told like any other death
        return ended(End.CRASHED, self._death_detail())

    def lines(self) -> list[str]:
        """What was written to standard output and error since the last call, as lines.

        A line that is not ended yet is held back while the worker lives.
        """
        data = self._rest + self._log.read()
        whole, newline, self._rest = data.rpartition(b"\n")
        if not self.alive():
            whole, newline, self._rest = whole + newline + self._rest, b"", b""
        found = [line[:_LINE_CHARACTERS] for line in whole.decode("utf-8", "replace").splitlines()]
        more = len(found) - _LOG_LINES
        return found if more <= 0 else [*found[:_LOG_LINES], f"... and {more} lines more"]

    def leave(self) -> tuple[End, dict[str, Any]] | None:
        """Let it end by itself; None where it did so with code 0. Ends whatever it left behind."""
        self._channel.end()
        if not self._dies_within(self._limits.leave_s):
            self.kill(gently=True)
            return End.TIMED_OUT, {"budget_s": self._limits.leave_s, "phase": "exit"}
        code = self._reap()
        return None if code == 0 else (End.CRASHED, {**_death_of(code), "phase": "exit"})

    def kill(self, *, gently: bool = False) -> None:
        """End it and its process group; ``gently``: after it had a moment to say where it is."""
        if gently and self.alive():
            self._process.send_signal(signal.SIGTERM)
            self._dies_within(self._limits.grace_s)
        self._reap()

    def close(self) -> None:
        """End it, if it still lives, and remove its files."""
        self.kill()
        self._channel.close()
        self._log.close()
        os.close(self._death)
        shutil.rmtree(self._folder, ignore_errors=True)

    def _dies_within(self, seconds: float) -> bool:
        """Whether it is dead by then; it is not reaped, so that its group keeps its number."""
        if self._process.returncode is not None:
            return True
        poll = select.poll()
        poll.register(self._death, select.POLLIN)
        return bool(poll.poll(seconds * 1000))

    def _reap(self) -> int:
        """Kill what lives of its process group, and return its code."""
        with self._reaping:
            if self._process.returncode is None:
                with contextlib.suppress(ProcessLookupError):
                    os.killpg(self.pid, signal.SIGKILL)
            return self._process.wait()

    def _death_detail(self) -> dict[str, Any]:
        if not self._dies_within(self._limits.grace_s):
            self.kill()
            return {"signal": "it closed its channel and went on"}
        return _death_of(self._reap())


def _death_of(code: int) -> dict[str, Any]:
    if code >= 0:
        return {"code": code}
    try:
        return {"signal": signal.Signals(-code).name}
    except ValueError:
        return {"signal": f"signal {-code}"}

"""Workers without their start: a process that has the suite loaded, and opened no device, forks them.

A worker that starts from nothing spends most of a second on imports and on reading the record, more than many an
instance takes. The self-test starts thousands. For vendors without hardware only: what a driver does when it is first
asked may not survive a fork.

``python -m tutti_hal.conformance_tests.runner.nursery FD PARENT`` serves the socket FD: each message is an order for a
worker, with three descriptors: its log, its channel, and a link by which its end is told.
"""

from __future__ import annotations

import contextlib
import json
import os
import select
import signal
import socket
import subprocess
import sys
import tempfile
import threading
from collections.abc import Mapping, Sequence
from types import TracebackType
from typing import Self

from tutti_hal.conformance_tests.subject import SubjectSpec

_MESSAGE_BYTES = 1 << 16


class ForkedProcess:
    """A worker forked by a nursery, with what :class:`subprocess.Popen` has of a process.

    Args:
        pid: of the process, and of its process group.
        link: to the nursery; it is the parent, and waits for the process when it is asked to.
    """

    def __init__(self, pid: int, link: socket.socket) -> None:
        self.pid = pid
        self.returncode: int | None = None
        self._link = link

    def send_signal(self, number: int) -> None:
        """Send a signal to a process that has not been waited for."""
        if self.returncode is None:
            os.kill(self.pid, number)

    def wait(self) -> int:
        """Its return code, negative for a signal. Blocks until it is dead."""
        if self.returncode is None:
            with self._link:
                told = b""
                with contextlib.suppress(OSError):  # the nursery is gone, and its children with it
                    self._link.send(b"wait")
                    told = self._link.recv(_MESSAGE_BYTES)
                self.returncode = int(told) if told else -signal.SIGKILL
        return self.returncode


class Nursery:
    """Forks workers; for any thread. A context manager: at its end the process is gone, and its workers with it.

    Args:
        subjects: those whose profiles are read once, for all workers.
    """

    def __init__(self, subjects: Sequence[SubjectSpec]) -> None:
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        command = [sys.executable, "-m", __name__, str(theirs.fileno()), str(os.getpid())]
        # A process that forks has one thread.
        alone = {**os.environ, "OPENBLAS_NUM_THREADS": "1", "OMP_NUM_THREADS": "1"}
        with theirs:
            self._process = subprocess.Popen(command, stdin=subprocess.DEVNULL, pass_fds=[theirs.fileno()], env=alone)
        self._control = ours
        self._lock = threading.Lock()
        self._control.send(json.dumps([one.to_json() for one in subjects]).encode())

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._control.close()
        self._process.kill()
        self._process.wait()

    def fork(self, log: int, channel: int, environment: Mapping[str, str]) -> ForkedProcess:
        """A worker whose output goes to ``log`` and which serves ``channel``, in a session of its own.

        Raises:
            OSError: the nursery is gone.
        """
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        with contextlib.ExitStack() as undo:
            undo.callback(ours.close)
            with theirs, self._lock:
                order = json.dumps(dict(environment)).encode()
                socket.send_fds(self._control, [order], [log, channel, theirs.fileno()])
                told = self._control.recv(_MESSAGE_BYTES)
            if not told:
                raise ConnectionResetError("the nursery is gone")
            undo.pop_all()
        return ForkedProcess(int(told), ours)


def main(argv: list[str]) -> int:
    """Serve the socket until its other end is closed; in a forked worker, serve that one's channel instead."""
    from tutti_hal.conformance_tests.runner import worker

    worker.die_with(int(argv[2]))
    control = socket.socket(fileno=int(argv[1]))
    os.set_inheritable(control.fileno(), False)
    warm = worker.warm([SubjectSpec.from_json(one) for one in json.loads(control.recv(_MESSAGE_BYTES))])
    own = os.getpid()
    channel = _serve(control)
    if channel is None:
        return 0
    worker.die_with(own)
    return worker.serve(channel, warm)


def _serve(control: socket.socket) -> socket.socket | None:
    """Fork what is ordered, and wait for whom it is asked to; in a worker its channel, None at the end."""
    poll = select.poll()
    poll.register(control, select.POLLIN)
    links: dict[int, tuple[socket.socket, int]] = {}
    while True:
        for descriptor, _ in poll.poll():
            if descriptor != control.fileno():
                poll.unregister(descriptor)
                link, pid = links.pop(descriptor)
                _wait(link, pid)
                continue
            order, given, _, _ = socket.recv_fds(control, _MESSAGE_BYTES, 3)
            if not order:
                return None
            log, channel, link_descriptor = given
            pid = os.fork()
            if pid == 0:
                for other, _ in links.values():
                    other.close()
                control.close()
                os.close(link_descriptor)
                return _born(json.loads(order), log, channel)
            os.close(log)
            os.close(channel)
            links[link_descriptor] = socket.socket(fileno=link_descriptor), pid
            poll.register(link_descriptor, select.POLLIN)
            control.send(str(pid).encode())


def _wait(link: socket.socket, pid: int) -> None:
    """Wait for a worker, and tell whoever asked for it."""
    with link:
        if not link.recv(_MESSAGE_BYTES):  # nobody will ask any more
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        code = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
        with contextlib.suppress(OSError):
            link.send(str(code).encode())


def _born(environment: Mapping[str, str], log: int, channel: int) -> socket.socket:
    """What a fresh process would have: a session, its output, its variables."""
    os.setsid()
    for descriptor in (1, 2):
        os.dup2(log, descriptor)
    os.close(log)
    os.environ.update(environment)
    tempfile.tempdir = None
    return socket.socket(fileno=channel)


if __name__ == "__main__":
    sys.exit(main(sys.argv))

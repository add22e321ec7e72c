"""The host's half: starts a machine, hands it cases, answers what they ask, and never waits without a limit."""

from __future__ import annotations

import ctypes
import json
import os
import signal
import socket
import subprocess
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Any

from rig.case import Case
from rig.errors import RigError
from rig.protocol import Lines, Message, encode
from rig.qemu import Files

# A case that outlives its own limit in the guest by this much has taken the guest with it.
GRACE_S = 20.0


class GuestDied(Exception):
    """The guest ended, hangs or speaks nonsense; the console's last lines are in the message."""


class EmulatorCrashed(GuestDied):
    """QEMU ended by an assertion of its own: no word about what ran in it. Seen of TCG while a guest maps PCI bars."""


@dataclass(frozen=True)
class End:
    """How a case ended: ``verdict`` is pass, fail or skip; ``log`` is what the kernel said meanwhile.

    ``hung``: the case's process had to be ended, or died.
    """

    verdict: str
    why: str
    checks: int
    log: tuple[str, ...]
    expects: tuple[str, ...]
    hung: bool = False


def end_with_parent() -> None:
    """In a child: be killed when the rig is, however it ends (Linux's PR_SET_PDEATHSIG)."""
    ctypes.CDLL(None).prctl(1, signal.SIGKILL)


Answerer = Callable[[str, Mapping[str, Any], "GuestProcess"], Any]


class Monitor:
    """QEMU's machine protocol: one command at a time."""

    def __init__(self, path: Path, timeout_s: float = 10.0) -> None:
        self._socket = socket.socket(socket.AF_UNIX)
        self._socket.settimeout(timeout_s)
        self._socket.connect(str(path))
        self._lines = Lines()
        self._waiting: list[Message] = []
        self._next()
        self.command("qmp_capabilities")

    def command(self, name: str, **arguments: Any) -> Any:
        """Run a command and return its result; RuntimeError with QEMU's words when it is refused."""
        self._socket.sendall(json.dumps({"execute": name, "arguments": arguments}).encode() + b"\n")
        while True:
            reply = self._next()
            if "error" in reply:
                raise RuntimeError(f"{name}: {reply['error'].get('desc')}")
            if "return" in reply:
                return reply["return"]

    def wait_event(self, name: str, timeout_s: float = 20.0) -> Message:
        """Wait for an event; TimeoutError when it does not come."""
        deadline = time.monotonic() + timeout_s
        while time.monotonic() < deadline:
            message = self._next()
            if message.get("event") == name:
                return message
        raise TimeoutError(name)

    def _next(self) -> Message:
        while not self._waiting:
            data = self._socket.recv(1 << 16)
            if not data:
                raise RuntimeError("QEMU closed its monitor")
            self._waiting += self._lines.feed(data)
        return self._waiting.pop(0)

    def close(self) -> None:
        """Close the connection."""
        self._socket.close()


class GuestProcess:
    """A running machine and the channel to its agent. A context manager: leaving it ends the machine."""

    def __init__(self, argv: Sequence[str], files: Files, *, boot_timeout_s: float, answer: Answerer) -> None:
        self.files = files
        self.release = ""
        self.boot_log: tuple[str, ...] = ()
        self._argv = list(argv)
        self._boot_timeout_s = boot_timeout_s
        self._answer = answer
        self._lines = Lines()
        self._waiting: list[Message] = []
        self._process: subprocess.Popen[bytes] | None = None
        self._channel: socket.socket | None = None

    def __enter__(self) -> GuestProcess:
        self.files.folder.mkdir(parents=True, exist_ok=True)
        self.files.console.write_bytes(b"")
        with (self.files.folder / "qemu.log").open("wb") as log:
            self._process = subprocess.Popen(
                self._argv,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                start_new_session=True,
                preexec_fn=end_with_parent,  # noqa: PLW1509 (the rig has one thread)
            )
        try:
            deadline = time.monotonic() + self._boot_timeout_s
            self._channel = self._connect(deadline)
            ready = self._receive(deadline)
            if "ready" not in ready:
                raise GuestDied(f"the agent began with {ready}")
            self.release = str(ready["ready"])
            self.boot_log = tuple(ready["log"])
        except BaseException:
            self.end()
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.end()

    def end(self) -> None:
        """End the machine: by its agent when it answers, else by its process group. Safe to call twice."""
        process = self._process
        if process is None:
            return
        if self._channel is not None:
            try:
                self._channel.sendall(encode({"stop": True}))
                process.wait(timeout=1.0)
            except (OSError, subprocess.TimeoutExpired):
                pass
            self._channel.close()
            self._channel = None
        if process.poll() is None:
            os.killpg(process.pid, signal.SIGKILL)
            process.wait()
        self._process = None
        self.files.gpu.unlink(missing_ok=True)

    def run(self, case: Case, say: Callable[[str], None], limit_s: float | None = None) -> End:
        """Run one case in the guest, for ``limit_s`` or its own limit; GuestDied when the guest does not come back."""
        limit_s = limit_s or case.timeout_s
        self._send({"run": case.where, "timeout_s": limit_s})
        deadline = time.monotonic() + limit_s + GRACE_S
        while True:
            message = self._receive(deadline)
            if "say" in message:
                say(str(message["say"]))
            elif "ask" in message:
                self._send(self._reply(message))
            elif "end" in message:
                return End(
                    str(message["end"]),
                    str(message["why"]),
                    int(message["checks"]),
                    tuple(message["log"]),
                    tuple(message["expects"]),
                    bool(message.get("hung")),
                )
            else:
                raise GuestDied(f"the agent said {message}")

    def monitor(self) -> Monitor:
        """A connection to QEMU's monitor; the caller closes it."""
        return Monitor(self.files.monitor)

    def console_tail(self, lines: int = 40) -> str:
        """The end of what the serial console and QEMU itself wrote."""
        parts = []
        for path in (self.files.folder / "qemu.log", self.files.console):
            if path.exists():
                parts += path.read_text(errors="replace").splitlines()[-lines:]
        return "\n".join(f"    {line}" for line in parts)

    def _reply(self, message: Message) -> Message:
        try:
            return {"answer": self._answer(str(message["ask"]), message["with"], self)}
        except (RuntimeError, OSError, LookupError, TimeoutError) as why:
            return {"refused": f"{type(why).__name__}: {why}"}

    def _send(self, message: Message) -> None:
        if self._channel is None:
            raise GuestDied("the channel is closed")
        try:
            self._channel.settimeout(10.0)
            self._channel.sendall(encode(message))
        except OSError as why:
            raise GuestDied(f"the channel broke ({why})\n{self.console_tail()}") from None

    def _connect(self, deadline: float) -> socket.socket:
        while time.monotonic() < deadline:
            self._must_live()
            channel = socket.socket(socket.AF_UNIX)
            try:
                channel.connect(str(self.files.channel))
            except OSError:
                channel.close()
                time.sleep(0.05)
                continue
            return channel
        raise RigError("starting QEMU", "it opened no channel", f"see {self.files.folder / 'qemu.log'}")

    def _must_live(self) -> None:
        if self._process is not None and self._process.poll() is not None:
            raise self._death(f"QEMU ended with {self._process.returncode}")

    def _death(self, how: str) -> GuestDied:
        said = (self.files.folder / "qemu.log").read_text(errors="replace")
        kind = EmulatorCrashed if "Assertion `" in said else GuestDied
        return kind(f"{how}\n{self.console_tail()}")

    def _receive(self, deadline: float) -> Message:
        while not self._waiting:
            left = deadline - time.monotonic()
            if left <= 0 or self._channel is None:
                raise GuestDied(f"no word from the guest in time\n{self.console_tail()}")
            self._must_live()
            self._channel.settimeout(min(left, 1.0))
            try:
                data = self._channel.recv(1 << 16)
            except TimeoutError:
                continue
            except OSError as why:
                raise self._death(f"the channel broke ({why})") from None
            if not data:
                raise self._death("the guest ended")
            self._waiting += self._lines.feed(data)
        return self._waiting.pop(0)

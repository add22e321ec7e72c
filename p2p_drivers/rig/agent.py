"""The guest's half: takes cases from the channel, runs each in a process of its own, and reports how it ended.

Runs in the guest as ``python -m rig.agent``, with the host's root (and so the product's environment) below it.
"""

from __future__ import annotations

import contextlib
import os
import select
import signal
import sys
import time
import traceback
from pathlib import Path
from typing import Any

from rig import kernel_log
from rig.case import Failed, Guest, Skipped, body_of
from rig.protocol import Lines, Message, encode

PORTS = Path("/sys/class/virtio-ports")
SETTLE_S = 0.2


class HostGone(Exception):
    """The channel ended."""


class Channel:
    """The virtio port to the host: messages out, and one message in at a time."""

    def __init__(self, fd: int) -> None:
        self._fd = fd
        self._lines = Lines()
        self._waiting: list[Message] = []

    @classmethod
    def open(cls, timeout_s: float = 10.0) -> Channel:
        """Open the port named ``rig``; TimeoutError when the guest has none."""
        deadline = time.monotonic() + timeout_s
        while time.monotonic() < deadline:
            for port in PORTS.glob("*/name"):
                if port.read_text().strip() == "rig":
                    return cls(os.open(Path("/dev") / port.parent.name, os.O_RDWR))
            time.sleep(0.1)
        raise TimeoutError("no virtio port named rig")

    def send(self, message: Message) -> None:
        """Send one message, blocking until the port took it."""
        data = encode(message)
        while data:
            data = data[os.write(self._fd, data) :]

    def receive(self) -> Message:
        """Wait for one message; HostGone when the host closed the channel."""
        while not self._waiting:
            data = os.read(self._fd, 1 << 16)
            if not data:
                raise HostGone
            self._waiting += self._lines.feed(data)
        return self._waiting.pop(0)


class KernelLog:
    """New records of /dev/kmsg since the last look."""

    def __init__(self) -> None:
        self._fd = os.open("/dev/kmsg", os.O_RDONLY | os.O_NONBLOCK)

    def new(self) -> list[str]:
        """The kernel's records since the last call, oldest first; one line says so when some were overwritten."""
        found: list[str] = []
        while True:
            try:
                text = kernel_log.record(os.read(self._fd, 8192).decode(errors="replace"))
            except BlockingIOError:
                return found
            except BrokenPipeError:
                found.append("WARNING: rig: records of the kernel log were lost")
                continue
            if text is not None:
                found.append(text)


def perform(where: str, channel: Channel) -> Message:
    """Run one case in this process and return how it ended, without its log."""

    def ask(verb: str, **details: Any) -> Any:
        channel.send({"ask": verb, "with": details})
        reply = channel.receive()
        if "refused" in reply:
            raise Failed(f"the host could not {verb}: {reply['refused']}")
        return reply.get("answer")

    guest = Guest(ask, lambda text: channel.send({"say": text}))
    try:
        body_of(where)(guest)
    except Skipped as why:
        return {"end": "skip", "why": str(why), "checks": guest.checks, "expects": guest.expected}
    except Failed as why:
        at = traceback.extract_tb(why.__traceback__)
        place = next((f" ({frame.name}:{frame.lineno})" for frame in reversed(at) if "/cases/" in frame.filename), "")
        return {"end": "fail", "why": f"{why}{place}", "checks": guest.checks, "expects": guest.expected}
    except Exception:
        return {"end": "fail", "why": traceback.format_exc(limit=-6), "checks": guest.checks, "expects": guest.expected}
    if not guest.checks:
        return {"end": "fail", "why": "vacuous: the case checked nothing", "checks": 0, "expects": guest.expected}
    return {"end": "pass", "why": "", "checks": guest.checks, "expects": guest.expected}


def supervise(where: str, timeout_s: float, channel: Channel) -> Message:
    """Run one case in a child, for at most ``timeout_s``; the child alone uses the channel meanwhile."""
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        os.setsid()
        try:
            os.write(writing, encode(perform(where, channel)))
        finally:
            os._exit(0)
    os.close(writing)
    deadline = time.monotonic() + timeout_s
    data = b""
    ended = False
    while not ended and time.monotonic() < deadline:
        ready, _, _ = select.select([reading], [], [], max(0.0, deadline - time.monotonic()))
        if ready:
            piece = os.read(reading, 1 << 16)
            data += piece
            ended = not piece or b"\n" in data
    os.close(reading)
    # The whole group: a case's own children end with it.
    with contextlib.suppress(ProcessLookupError):
        os.killpg(child, signal.SIGKILL)
    os.waitpid(child, 0)
    found = Lines().feed(data) if b"\n" in data else []
    if found:
        return found[0]
    why = f"not done after {timeout_s:.0f} s" if not ended else "the case's process died"
    return {"end": "fail", "why": why, "checks": 0, "expects": [], "hung": True}


def main() -> int:
    """Serve the host until it says stop or closes the channel."""
    channel = Channel.open()
    log = KernelLog()
    started = log.new()
    channel.send({"ready": os.uname().release, "log": started})
    while True:
        try:
            message = channel.receive()
        except HostGone:
            return 1
        if "stop" in message:
            return 0
        result = supervise(message["run"], float(message["timeout_s"]), channel)
        # What the kernel does late (a free after a grace period, a work item) belongs to this case.
        time.sleep(SETTLE_S)
        channel.send({**result, "log": log.new()})


if __name__ == "__main__":
    sys.exit(main())

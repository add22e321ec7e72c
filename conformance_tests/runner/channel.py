"""JSON lines over a socket of one's own, with a deadline: how the run and a worker speak."""

from __future__ import annotations

import contextlib
import json
import select
import socket
import time
from collections.abc import Mapping
from typing import Any

_CHUNK_BYTES = 1 << 20


class ChannelBroken(Exception):
    """The other side said something that is no message."""


class Channel:
    """One end. For one thread at a time.

    Args:
        sock: a connected stream socket; the channel owns it.
        watched: file descriptors whose readiness means that the other side has ended, though the socket may be held
            open by a process that it left behind.
    """

    def __init__(self, sock: socket.socket, watched: tuple[int, ...] = ()) -> None:
        self._sock = sock
        self._watched = watched
        self._buffer = bytearray()
        self._searched = 0

    def send(self, message: Mapping[str, Any]) -> None:
        """Send one message. Blocks until the other side has room.

        Raises:
            OSError: the other side has gone.
        """
        self._sock.sendall(json.dumps(message, separators=(",", ":")).encode("ascii") + b"\n")

    def receive(self, deadline: float | None = None) -> dict[str, Any] | None:
        """The next message, or None where the other side has ended.

        Args:
            deadline: on the monotonic clock, in seconds; None waits for ever.

        Raises:
            TimeoutError: nothing came until then.
            ChannelBroken: what came is not a message.
        """
        while (line := self._line()) is None:
            if not self._more(deadline):
                return None
        try:
            message = json.loads(line)
        except ValueError as error:
            raise ChannelBroken(f"not JSON: {error}") from None
        if not isinstance(message, dict):
            raise ChannelBroken(f"not a message: {type(message).__name__}")
        return message

    def end(self) -> None:
        """Say that nothing more will be sent; what the other side still sends can be received."""
        with contextlib.suppress(OSError):  # the other side has gone
            self._sock.shutdown(socket.SHUT_WR)

    def close(self) -> None:
        """Close this end."""
        self._sock.close()

    def _line(self) -> bytes | None:
        end = self._buffer.find(b"\n", self._searched)
        if end < 0:
            self._searched = len(self._buffer)
            return None
        line = bytes(self._buffer[:end])
        del self._buffer[: end + 1]
        self._searched = 0
        return line

    def _more(self, deadline: float | None) -> bool:
        poll = select.poll()
        for descriptor in (self._sock.fileno(), *self._watched):
            poll.register(descriptor, select.POLLIN)
        left = None if deadline is None else max(0.0, deadline - time.monotonic()) * 1000
        ready = {descriptor for descriptor, _ in poll.poll(left)}
        if not ready:
            raise TimeoutError
        if self._sock.fileno() not in ready:
            return False
        try:
            data = self._sock.recv(_CHUNK_BYTES)
        except OSError:
            return False
        self._buffer += data
        return bool(data)

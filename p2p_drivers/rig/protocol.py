"""What host and guest say to each other: one JSON object a line, in both directions, over a virtio channel.

Host to guest: ``{"run": "module:name", "timeout_s": s}``, ``{"answer": ...}`` or ``{"refused": "why"}`` after an ask,
and ``{"stop": true}``.
Guest to host: ``{"ready": release}``, ``{"say": text}``, ``{"ask": verb, "with": {...}}``, and for each case one
``{"end": "pass" | "fail" | "skip", "why": text, "checks": n, "log": [...], "expects": [...]}``.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

Message = dict[str, Any]
LIMIT = 4 << 20


def encode(message: Mapping[str, Any]) -> bytes:
    """One line."""
    return json.dumps(message, separators=(",", ":")).encode() + b"\n"


class Lines:
    """Cuts a stream of bytes into messages; ValueError for a line that is no JSON object or is too long."""

    def __init__(self) -> None:
        self._rest = b""

    def feed(self, data: bytes) -> list[Message]:
        """The messages that ``data`` completes, in order."""
        *whole, self._rest = (self._rest + data).split(b"\n")
        if len(self._rest) > LIMIT:
            raise ValueError(f"a line is longer than {LIMIT} bytes")
        found: list[Message] = []
        for line in filter(None, whole):
            message = json.loads(line)
            if not isinstance(message, dict):
                raise ValueError(f"not a message: {line[:80]!r}")
            found.append(message)
        return found

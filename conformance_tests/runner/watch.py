"""The kernel's log while cases run: what a driver says when it is in trouble is a failure of the case."""

from __future__ import annotations

import os
import re
import threading
from pathlib import Path
from types import TracebackType
from typing import Self

#: Where the kernel's log is read.
KERNEL_LOG = Path("/dev/kmsg")

#: How a line of it is marked in an outcome.
PREFIX = "kernel: "

#: What makes a line of the kernel's log a failure.
SERIOUS = re.compile(
    r"""\bBUG:|\bWARNING:|\bOops\b|Call\ Trace:|general\ protection|Internal\ error:|Unable\ to\ handle\ kernel
    |\bXid\b|\bNVRM:.*\b(error|fail)|\bAER:.*\berror|PCIe\ Bus\ Error
    |\bDMAR:.*\bfault|IO_PAGE_FAULT|\biommu\b.*\bfault|\bSMMU\b.*\bfault
    |\bnvme\d*\b.*(\btimeout\b|controller\ is\ down|resetting\ controller|I/O\ Error)
    |\bhung_task\b|blocked\ for\ more\ than|soft\ lockup|hard\ LOCKUP|rcu.*detected\ stalls
    |\bKASAN\b|\bUBSAN\b|\bKCSAN\b|\bKFENCE\b""",
    re.VERBOSE | re.IGNORECASE,
)

_READ_BYTES = 1 << 16


class KernelLog:
    """Follows the kernel's log from now on. For any thread. A context manager.

    Args:
        path: the log, in the form of ``/dev/kmsg``.

    Attributes:
        refused: why it is not watched; empty where it is.
        overrun: whether the kernel dropped lines before they were read.
    """

    def __init__(self, path: Path = KERNEL_LOG) -> None:
        self._lock = threading.Lock()
        self._found: list[str] = []
        self._rest = b""
        self._descriptor = -1
        self.refused = ""
        self.overrun = False
        try:
            self._descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
            os.lseek(self._descriptor, 0, os.SEEK_END)
        except OSError as error:
            self.refused = f"{path}: {error.strerror}"

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._descriptor >= 0:
            os.close(self._descriptor)
            self._descriptor = -1

    def mark(self) -> int:
        """A place in the log: now."""
        with self._lock:
            self._poll()
            return len(self._found)

    def since(self, mark: int) -> tuple[str, ...]:
        """The serious lines from ``mark`` until now, each with :data:`PREFIX`."""
        with self._lock:
            self._poll()
            return tuple(self._found[mark:])

    @property
    def said(self) -> str:
        """How it was watched, for the environment of a run."""
        if self.refused:
            return f"not watched ({self.refused})"
        return "watched, but the kernel dropped lines unread" if self.overrun else "watched"

    def _poll(self) -> None:
        if self.refused or self._descriptor < 0:
            return
        while True:
            try:
                data = os.read(self._descriptor, _READ_BYTES)
            except BlockingIOError:
                return
            except BrokenPipeError:  # lines were overwritten before they were read; what is left follows
                self.overrun = True
                continue
            except OSError as error:
                self.refused = f"reading it: {error.strerror}"
                return
            if not data:
                return
            *whole, self._rest = (self._rest + data).split(b"\n")
            for line in whole:
                self._take(line.decode("utf-8", "replace"))

    def _take(self, line: str) -> None:
        if line.startswith(" "):  # a key of the record before it
            return
        head, semicolon, message = line.partition(";")  # priority,sequence,microseconds,flags;message
        text = message if semicolon else head
        if SERIOUS.search(text):
            self._found.append(PREFIX + text)

"""A bound on the time of code that chews what a stranger wrote."""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType


class OutOfTime(BaseException):
    """The body of :func:`cpu_limit` took too long. No ``except Exception`` on the way may keep it."""


@contextmanager
def cpu_limit(seconds: float) -> Iterator[None]:
    """Let the body use so much CPU time of this process; regular expressions are interrupted as well.

    Outside the main thread there is no limit, for Python has no way to interrupt another.

    Raises:
        OutOfTime: the time is over.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return

    def stop(_number: int, _frame: FrameType | None) -> None:
        raise OutOfTime

    before = signal.signal(signal.SIGVTALRM, stop)
    signal.setitimer(signal.ITIMER_VIRTUAL, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_VIRTUAL, 0)
        signal.signal(signal.SIGVTALRM, before)

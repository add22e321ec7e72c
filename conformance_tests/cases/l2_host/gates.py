"""A gate before a stream: how the host holds work back, and how it acts while a kernel runs."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from tutti_hal.conformance_tests.run import Run
    from tutti_hal.shim import Buffer, Kernel, Stream

#: How long a kernel waits for the host, or for another kernel, before it gives up: by the device's own clock, so that
#: a broken product ends as a failure and never as a hang.
PATIENCE_NS = 2_000_000_000

#: What a gate's kernel stores when its patience ends; to this, the value is added with which the gate was opened.
LOST_PATIENCE = 5
#: What it stores when the gate was opened with 1.
OPENED = LOST_PATIENCE + 1

_RUNNING, _FLAG, _ANSWER = 0, 4, 8


def long_beside_a_call(run: Run) -> tuple[int, ...]:
    """Nanoseconds that a kernel may take so that it still runs when the host's next call begins, to be tried in turn.

    A busy machine may keep the host away for longer than the first; a virtual clock goes on only while the device runs.
    """
    return (3_000_000, 50_000_000, 500_000_000) if run.world is None else (50_000,)


def poke(run: Run, buffer: Buffer, value: int, offset: int = 0) -> None:
    """Store a 32-bit word of mapped memory from the host, also while a kernel runs."""
    if run.world is not None:
        run.world.store(buffer.host_address + offset, value)
    else:
        buffer.numpy("uint32", 1, offset)[0] = value


def peek(run: Run, buffer: Buffer, offset: int = 0) -> int:
    """Load a 32-bit word of mapped memory from the host, also while a kernel runs."""
    if run.world is not None:
        return int(run.world.load(buffer.host_address + offset))
    return int(buffer.numpy("uint32", 1, offset)[0])


def launch_on(stream: Stream, kernel: Kernel, grid: Any, block: Any, *args: Any, **options: Any) -> None:
    """Launch on any stream and do not wait; ``options`` go to ``LaunchConfig``. Raises as ``Stream.launch``."""
    from tutti_hal.shim import LaunchConfig

    stream.launch(LaunchConfig(grid, block, **options), kernel, *args)


class Gate:
    """Holds a stream back: a kernel on it waits until the host opens the gate, or until its patience ends.

    Needs the kernel set ``probe_host`` and the capability ``memory.mapped``.
    """

    def __init__(self, run: Run, stream: Stream) -> None:
        #: What it holds back.
        self.stream = stream
        self._run = run
        self._words = run.buffer(16)
        kernel = run.kernel("probe_host", "host_await")
        running, flag, answer = (self._words[at : at + 4] for at in (_RUNNING, _FLAG, _ANSWER))
        launch_on(stream, kernel, 1, 1, running, flag, answer, LOST_PATIENCE, PATIENCE_NS)
        run.closing.callback(self.open)

    def runs(self) -> bool:
        """Wait until the kernel says that it runs; False where it does not within a second."""
        end = time.monotonic() + 1
        while time.monotonic() < end:
            if peek(self._run, self._words, _RUNNING) == 1:
                return True
            if self._run.world is not None:
                self._run.world.run(200)
            else:
                time.sleep(0.0002)
        return False

    def open(self, value: int = 1) -> None:
        """Let the stream go on. Does no harm the second time."""
        if not self._words.closed:
            poke(self._run, self._words, value, _FLAG)

    @property
    def answer(self) -> int:
        """What the kernel stored when it ended: :data:`OPENED`, :data:`LOST_PATIENCE`, or 0 while it has not."""
        return peek(self._run, self._words, _ANSWER)


@contextmanager
def held_stream(run: Run) -> Iterator[Gate]:
    """A stream of its own behind a gate. At the end the gate is opened, and the stream's work has ended."""
    with run.device.create_stream() as stream:
        gate = Gate(run, stream)
        try:
            yield gate
        finally:
            gate.open()
            stream.synchronize()


def mend(run: Run) -> bool:
    """Bring back a device that a kernel failed, where the vendor can; whether it did. Else the process is spent."""
    if run.facts.capabilities["error.recoverable"]:
        run.device.reset()
        return True
    return False


def said(run: Run, name: str, *args: Any) -> str:
    """The contract's name of what a raw host call returned; ``Success``, or the vendor's number where it has none."""
    code = run.device.code(name, *args)
    if code == 0:
        return "Success"
    run.device.runtime.failure(name, code)  # takes it out of the thread's last error
    return run.device.runtime.record.errors.name_of(code) or str(code)

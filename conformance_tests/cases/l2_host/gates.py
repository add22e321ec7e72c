"""A gate before a stream: how the host holds work back, and how it acts while a kernel runs."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from tutti_hal.conformance_tests.run import Run
    from tutti_hal.shim import Buffer, Kernel, Stream

#: How long a kernel waits for the host, or for another kernel, before it gives up: by the device's own clock, so that
#: a broken product ends as a failure and never as a hang.
PATIENCE_NS = 2_000_000_000

_RUNNING, _FLAG, _ANSWER = 0, 4, 8


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
        self._run = run
        self._words = run.buffer(16)
        kernel = run.kernel("probe_host", "host_await")
        running, flag, answer = (self._words[at : at + 4] for at in (_RUNNING, _FLAG, _ANSWER))
        launch_on(stream, kernel, 1, 1, running, flag, answer, 5, PATIENCE_NS)
        run.closing.callback(self.open)

    def open(self) -> None:
        """Let the stream go on. Does no harm the second time."""
        if not self._words.closed:
            poke(self._run, self._words, 1, _FLAG)

    @property
    def answer(self) -> int:
        """What the kernel stored when it ended: 6 after the gate was opened, 5 when its patience ended, else 0."""
        return peek(self._run, self._words, _ANSWER)


def said(run: Run, name: str, *args: Any) -> str:
    """The contract's name of what a raw host call returned; ``Success``, or the vendor's number where it has none."""
    code = run.device.code(name, *args)
    if code == 0:
        return "Success"
    run.device.runtime.failure(name, code)  # takes it out of the thread's last error
    return run.device.runtime.record.errors.name_of(code) or str(code)

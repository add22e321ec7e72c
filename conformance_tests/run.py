"""What a case holds in its hands while it observes."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn

from tutti_hal.conformance_tests.seen import Axis, Facts
from tutti_hal.conformance_tests.verdict import SkipReason

if TYPE_CHECKING:
    import numpy as np

    from tutti_hal.conformance_tests.subject import Subject
    from tutti_hal.profile import Profile
    from tutti_hal.shim import Buffer, Device, Kernel, Stream


class Skipped(Exception):
    """Raised by :meth:`Run.skip`."""

    def __init__(self, reason: SkipReason, why: str) -> None:
        super().__init__(why)
        self.reason = reason
        self.why = why


class Run:
    """One run of one instance. What is opened through it is closed when the case ends, in reverse order.

    Attributes:
        axes: the instance's own axes.
        seed: the instance's own seed; draw everything random from :attr:`random`.
        facts: what is declared of the arch.
        subject: what is under test.
        scratch: an empty folder for the case, removed afterwards.
        closing: where a case registers what is to be undone.
    """

    def __init__(self, subject: Subject, axes: Mapping[str, Axis], seed: int, scratch: Path) -> None:
        self.subject = subject
        self.axes = axes
        self.seed = seed
        self.scratch = scratch
        self.closing = ExitStack()
        self.foreseen: list[str] = []
        self._random: np.random.Generator | None = None
        self._stream: Stream | None = None

    @property
    def facts(self) -> Facts:
        """What is declared of the arch."""
        return self.subject.facts

    @property
    def profile(self) -> Profile:
        """The profile under test, its record the one in force."""
        return self.subject.profile

    @property
    def device(self) -> Device:
        """Device 0 of the arch, shared with the other cases of the worker: leave it as it was found."""
        return self.subject.device

    @property
    def world(self) -> Any:
        """The simulated world, None where there is none. It was reset with the instance's seed before the case."""
        return self.subject.world

    @property
    def random(self) -> np.random.Generator:
        """The source of everything random, seeded by the instance."""
        if self._random is None:
            import numpy as np

            self._random = np.random.default_rng(self.seed)
        return self._random

    @property
    def stream(self) -> Stream:
        """A stream of the case's own, made when first asked for."""
        if self._stream is None:
            self._stream = self.closing.enter_context(self.device.create_stream())
        return self._stream

    def buffer(self, nbytes: int, kind: str = "mapped", *, fill: int | None = 0) -> Buffer:
        """Memory of the case's own; ``fill`` sets each byte first, None leaves it as it came."""
        buffer: Buffer = self.closing.enter_context(self.device.allocate(nbytes, kind))
        if fill is not None:
            self.stream.fill(buffer, fill)
            self.stream.synchronize()
        return buffer

    def array(self, values: Any, kind: str = "mapped") -> Buffer:
        """Memory of the case's own that holds a NumPy array's bytes; read it back with :meth:`read`."""
        import numpy as np

        data = np.ascontiguousarray(values)
        buffer = self.buffer(max(data.nbytes, 1), kind, fill=None)
        self.stream.copy(buffer, data)
        self.stream.synchronize()
        return buffer

    def read(self, buffer: Any, dtype: Any, shape: Any = -1) -> np.ndarray[Any, Any]:
        """The contents of a buffer as an array of one's own, after the case's stream has ended its work."""
        import numpy as np

        self.stream.synchronize()
        data = np.zeros(buffer.nbytes, np.uint8)
        self.stream.copy(data, buffer)
        self.stream.synchronize()
        size = np.dtype(dtype).itemsize
        values: np.ndarray[Any, Any] = data[: len(data) // size * size].view(dtype).reshape(shape).copy()
        return values

    def kernel(self, kernel_set: str, name: str) -> Kernel:
        """A kernel of one of the case's kernel sets, on device 0."""
        return self.subject.kernel(kernel_set, name)

    def launch(self, kernel: Kernel, grid: Any, block: Any, *args: Any, wait: bool = True, **options: Any) -> None:
        """Launch on the case's stream; with ``wait`` until it has ended. ``options`` go to ``LaunchConfig``."""
        from tutti_hal.shim import LaunchConfig, launch

        launch(self.stream, LaunchConfig(grid, block, **options), kernel, *args)
        if wait:
            self.stream.synchronize()

    def schedules(self, count: int, **options: Any) -> Iterator[int]:
        """Reset the world for each of ``count`` schedules, all from the instance's seed; one pass where there is none.

        Yields:
            The index of the schedule. Random and pct schedulers take turns, unless ``policy`` is given.
        """
        if self.world is None:
            yield 0
            return
        for index in range(count):
            policy = options.get("policy", "pct" if index % 3 == 2 else "random")
            more = {"pct_depth": 3} if policy == "pct" else {}
            self.subject.reset_world(**{**more, **options, "policy": policy, "seed": (self.seed + index) % 2**63 or 1})
            yield index

    def foresee(self, pattern: str) -> None:
        """Declare that log lines which match a regular expression belong to the case and are no fault."""
        re.compile(pattern)
        self.foreseen.append(pattern)

    def skip(self, reason: SkipReason, why: str) -> NoReturn:
        """End the case as skipped: for what the machine or its tools lack, never for what the vendor lacks (`needs`).

        The skip fails the run unless the machine's list of expected skips has it.
        """
        raise Skipped(reason, why)

    def wants_silicon(self, why: str) -> None:
        """Skip where the SDK is simulated: for what the vendor's SDK has, and only a device of its own can show.

        Args:
            why: what a simulated device lacks, as a sentence's beginning.
        """
        if self.facts.kind == "simulated":
            self.skip(SkipReason.MACHINE, f"{why}, and the SDK is simulated")

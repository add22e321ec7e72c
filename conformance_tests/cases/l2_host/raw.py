"""What the host cases share: calls past the shim's own checks, and which kinds of memory are claimed."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tutti_hal.conformance_tests.observation import refusal
from tutti_hal.conformance_tests.run import Run
from tutti_hal.conformance_tests.verdict import SkipReason

if TYPE_CHECKING:
    from tutti_hal.shim import Buffer, Device

#: More memory than any machine has, and less than overflows a size.
FAR_TOO_MUCH = 1 << 60

#: Kinds of memory that `Device.allocate` makes, and the capability that each needs ("": none).
KIND_NEEDS = {
    "device": "",
    "pinned": "memory.pinned",
    "mapped": "memory.mapped",
    "managed": "memory.managed",
}


def kinds_of(capabilities: Mapping[str, bool]) -> tuple[str, ...]:
    """The kinds of memory that are claimed, in order. A judge asks it too, so that none goes unobserved."""
    return tuple(kind for kind, need in KIND_NEEDS.items() if not need or capabilities[need])


def ask(device: Device, name: str, *args: Any) -> dict[str, Any]:
    """Ask the vendor itself, with arguments that the shim would not pass; what it was refused with.

    The device is the calling thread's current one meanwhile. The vendor's last error is taken away.
    """
    with device.current():
        return refusal(lambda: device.call(name, *args))


def pointer(device: Device, address: int) -> Any:
    """A number as the ``void *`` that host functions take."""
    return device.runtime.ffi.cast("void *", address)


def out(device: Device, ctype: str, value: Any = None) -> Any:
    """Room for one result."""
    ffi = device.runtime.ffi
    return ffi.new(ctype) if value is None else ffi.new(ctype, value)


def device_count(device: Device) -> int:
    """How many devices the vendor reports, of all archs."""
    count = out(device, "int *")
    device.call("GetDeviceCount", count)
    return int(count[0])


def locked_kib() -> int:
    """Memory of this process that the kernel counts as locked or pinned."""
    status = Path("/proc/self/status").read_text(encoding="ascii")
    return sum(int(line.split()[1]) for line in status.splitlines() if line.startswith(("VmLck", "VmPin")))


def second_device(run: Run) -> Device:
    """Device 1 of the arch; skips the case on a machine that has only one."""
    if len(run.device.runtime.ordinals(run.facts.arch)) < 2:
        run.skip(SkipReason.MACHINE, f"there is one device of {run.facts.arch}, and the case needs two")
    return run.subject.open_device(1)


@contextmanager
def held_stream(run: Run) -> Iterator[Hold]:
    """A stream of its own whose work waits behind a kernel, until it is let go; at the latest after a few seconds.

    Needs ``memory.mapped`` and the kernel set ``probe_host``.
    """
    words = run.buffer(64)
    with run.device.create_stream() as stream:
        hold = Hold(run, stream, words)
        try:
            yield hold
        finally:
            hold.let_go()
            stream.synchronize()


class Hold:
    """See :func:`held_stream`; ``stream`` is what the case enqueues its work on."""

    #: Long enough for what a case does meanwhile, short enough for the case to end within its budget.
    PATIENCE_NS = 5_000_000_000

    def __init__(self, run: Run, stream: Any, words: Buffer) -> None:
        from tutti_hal.shim import LaunchConfig

        self.run = run
        self.stream = stream
        self.words = words
        kernel = run.kernel("probe_host", "host_await")
        stream.launch(LaunchConfig(1, 1), kernel, words, words[4:8], words[8:12], 1, self.PATIENCE_NS)

    def runs(self) -> bool:
        """Wait until the kernel says that it runs; False where it does not within a second."""
        import time

        end = time.monotonic() + 1
        while time.monotonic() < end:
            if peek(self.run, self.words, 0) == 1:
                return True
            if self.run.world is not None:
                self.run.world.run(200)
            else:
                time.sleep(0.0002)
        return False

    def let_go(self) -> None:
        """Let the kernel end."""
        poke(self.run, self.words, 1, 1)

    @property
    def answer(self) -> int:
        """What the kernel stored when it ended, 0 before: 2 where it was let go, 1 where it lost patience."""
        return peek(self.run, self.words, 2)


def peek(run: Run, words: Buffer, index: int) -> int:
    """What the host reads now in a mapped word, also while kernels run."""
    if run.world is not None:
        return int(run.world.load(words.host_address + 4 * index))
    import numpy as np

    return int(words.numpy(np.uint32)[index])


def poke(run: Run, words: Buffer, index: int, value: int) -> None:
    """Let the host store into a mapped word now, also while kernels run."""
    if run.world is not None:
        run.world.store(words.host_address + 4 * index, value)
        return
    import numpy as np

    words.numpy(np.uint32)[index] = value

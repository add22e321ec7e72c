"""A drive that the kernel's own nvme driver keeps and that a run was given, for the cases of L7.

The cases write to namespace 1 and reset the drive. So nothing is used that was not given by name: the environment
variable :data:`GIVEN` holds the PCI function of a drive whose contents may be lost. Without it they are skipped.
"""

from __future__ import annotations

import errno
import fcntl
import mmap
import os
import re
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tutti_hal.conformance_tests.oracle.nvme import CQE_BYTES, PAGE, READ, SQE_BYTES, Cqe, rw
from tutti_hal.conformance_tests.verdict import SkipReason
from tutti_hal.errors import ModuleRefused, NotSupported, TuttiError
from tutti_hal.nvme.kernel_controller import KernelController

if TYPE_CHECKING:
    from tutti_hal.conformance_tests.run import Run
    from tutti_hal.nvme.kernel_memory import HostPages, PinnedMemory, StandInPages
    from tutti_hal.nvme.queues import QueuePair

#: Names the drive, such as ``0000:01:00.0``.
GIVEN = "TUTTI_CERTIFY_DRIVE"

#: Where memory lies that a drive is to reach.
PLACES = ("host", "device")

#: What memory holds where nothing is put.
SPOILT = 0xEE

_MODULE = Path("/sys/module/tutti_p2p/parameters")
_PATIENCE_S = 20.0


def given(run: Run) -> str:
    """The PCI function of the drive that the run may use up; skips the case where it was given none."""
    name = os.environ.get(GIVEN, "")
    if not name:
        run.skip(SkipReason.MACHINE, f"no drive was given whose contents may be lost ({GIVEN})")
    return name


@contextmanager
def attached(run: Run) -> Iterator[KernelController]:
    """The drive, attached, and nobody else's meanwhile."""
    name = given(run)
    with KernelController.open(name, run.device) as drive, alone(drive.name):
        yield drive


@contextmanager
def alone(name: str) -> Iterator[None]:
    """Keep other cases off the drive: their workers share it."""
    fd = os.open(f"/dev/{name}", os.O_RDONLY | os.O_CLOEXEC)
    try:
        fcntl.flock(fd, fcntl.LOCK_EX)
        yield
    finally:
        os.close(fd)


def pages(run: Run, drive: KernelController, place: str) -> HostPages | StandInPages:
    """Memory for the drive in a place; skips the case where the machine has no device memory that a drive reaches."""
    if place == "host":
        return drive.host_pages
    try:
        return drive.stand_in()
    except NotSupported:
        run.skip(SkipReason.MACHINE, "no memory of a device is here that the drive could reach")


def refused(call: Callable[[], object]) -> dict[str, Any]:
    """What a call says that is to be refused: the class of the error and, of the module's, its errno and cause."""
    try:
        call()
    except ModuleRefused as error:
        return {"error": type(error).__name__, "errno": errno.errorcode.get(error.errno, ""), "cause": error.cause}
    except TuttiError as error:
        return {"error": type(error).__name__, "errno": "", "cause": ""}
    return {"error": "", "errno": "", "cause": ""}


def until(holds: Callable[[], bool], limit_s: float = _PATIENCE_S) -> bool:
    """Wait for something; whether it came in time."""
    deadline = time.monotonic() + limit_s
    while not holds():
        if time.monotonic() > deadline:
            return False
        time.sleep(0.005)
    return True


# ---- memory ----


def fill(run: Run, memory: PinnedMemory, value: int = SPOILT) -> None:
    """Each byte of it, and wait."""
    run.stream.fill(memory.buffer, value)
    run.stream.synchronize()


def put(run: Run, memory: PinnedMemory, data: Any) -> None:
    """Bytes at its beginning, and wait."""
    run.stream.copy(memory.buffer.part(0, len(data)), data)
    run.stream.synchronize()


def get(run: Run, memory: PinnedMemory) -> Any:
    """All of its bytes."""
    import numpy as np

    image = np.zeros(memory.nbytes, np.uint8)
    run.stream.copy(image, memory.buffer)
    run.stream.synchronize()
    return image


# ---- the drive as the kernel's own driver sees it ----


def block_device(name: str) -> str:
    """Path of namespace 1; its number is the subsystem's, which need not be the controller's."""
    found = [one.name for one in Path(f"/sys/class/nvme/{name}").iterdir() if re.fullmatch(r"nvme\d+n1", one.name)]
    return f"/dev/{found[0]}"


def stock_read(name: str, offset: int, nbytes: int) -> Any:
    """What the kernel's driver reads of namespace 1, past its page cache."""
    import numpy as np

    fd = os.open(block_device(name), os.O_RDONLY | os.O_DIRECT | os.O_CLOEXEC)
    try:
        with mmap.mmap(-1, nbytes) as room:
            if os.preadv(fd, [room], offset) != nbytes:
                raise OSError(errno.EIO, "short read", block_device(name))
            return np.frombuffer(room[:], np.uint8)
    finally:
        os.close(fd)


def stock_write(name: str, offset: int, data: Any) -> None:
    """Let the kernel's driver write to namespace 1, past its page cache."""
    fd = os.open(block_device(name), os.O_WRONLY | os.O_DIRECT | os.O_CLOEXEC)
    try:
        with mmap.mmap(-1, len(data)) as room:
            room[:] = bytes(data)
            if os.pwritev(fd, [room], offset) != len(data):
                raise OSError(errno.EIO, "short write", block_device(name))
    finally:
        os.close(fd)


def reset(name: str) -> None:
    """Let the kernel's driver reset the drive."""
    Path(f"/sys/class/nvme/{name}/reset_controller").write_text("1")


def take_back(memory: PinnedMemory) -> None:
    """Let the owner of the stand-in's memory take it back, as when a device's memory is freed."""
    (_MODULE / "sim_revoke").write_text(str(memory.offset))


# ---- a queue pair that the suite drives itself ----


class Plain:
    """Commands of the suite's own encoding on a queue pair whose rings lie in host memory."""

    def __init__(self, drive: KernelController, depth: int = 32) -> None:
        self.drive = drive
        self.pair: QueuePair = drive.create_queue_pair(depth)
        self.depth = depth
        self.tail = self.head = 0
        self.phase = 1

    def send(self, entry: bytes) -> None:
        """One command, and the doorbell."""
        self.pair.sq_memory.write(self.tail * SQE_BYTES, entry)
        self.tail = (self.tail + 1) % self.depth
        self.drive.write_sq_tail(self.pair, self.tail)

    def next(self, limit_s: float = _PATIENCE_S) -> Cqe | None:
        """The next completion; None where it does not come."""
        found: list[Cqe] = []

        def came() -> bool:
            entry = Cqe.decode(self.pair.cq_memory.read(self.head * CQE_BYTES, CQE_BYTES))
            if entry.phase == self.phase:
                found.append(entry)
            return bool(found)

        if not until(came, limit_s):
            return None
        self.head = (self.head + 1) % self.depth
        self.phase ^= self.head == 0
        self.drive.write_cq_head(self.pair, self.head)
        return found[0]

    def read_pages(self, memory: PinnedMemory, slba: int, count: int, block_bytes: int) -> None:
        """Send reads of a page each, into the first pages of a memory."""
        for number in range(count):
            bus = bus_of(memory, number * PAGE)
            per_page = PAGE // block_bytes
            self.send(rw(READ, slba + number * per_page, per_page, cid=number, prp1=bus))


def bus_of(memory: PinnedMemory, offset: int) -> int:
    """Where a byte of pinned memory lies on the bus."""
    for bus, length in memory.runs:
        if offset < length:
            return bus + offset
        offset -= length
    raise IndexError(offset)


@contextmanager
def plain(run: Run) -> Iterator[tuple[KernelController, Plain]]:
    """The drive and a queue pair that the suite drives itself."""
    with ExitStack() as stack:
        drive = stack.enter_context(attached(run))
        yield drive, Plain(drive)

"""What the module's cases need in the guest: the module, its clients, memory of both kinds, a queue pair to read with.

Only requests of the module's own interface and bytes of the NVMe specification: the product's rings have cases of
their own.
"""

from __future__ import annotations

import ctypes
import errno
import mmap
import os
import struct
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from rig.case import Failed, Guest
from rig.qemu import GPU_BDF, MIB, drive_bdf, stamp

if TYPE_CHECKING:
    from tutti_hal.nvme import p2p_uapi

NODE = "/dev/tutti_p2p"
PAGE = 4096
GRANULE = 65536
_SYS_FINIT_MODULE = 313
_SYS_DELETE_MODULE = 176
_libc = ctypes.CDLL(None, use_errno=True)


def module_file() -> Path:
    """The module for the running kernel: $TUTTI_P2P_MODULE, else below p2p_drivers/build."""
    chosen = os.environ.get("TUTTI_P2P_MODULE")
    return Path(chosen) if chosen else Path(__file__).parent.parent / "build" / os.uname().release / "tutti_p2p.ko"


def unload() -> int:
    """Take the module out; 0 or an errno."""
    if _libc.syscall(_SYS_DELETE_MODULE, b"tutti_p2p", os.O_NONBLOCK) == 0:
        return 0
    return ctypes.get_errno()


def load(parameters: str = f"sim={GPU_BDF}") -> None:
    """Put the module in, with the stand-in's bar as GPU memory; again when it is there already."""
    if Path("/sys/module/tutti_p2p").exists() and unload():
        raise Failed("the module is in use from an earlier case")
    function = Path(f"/sys/bus/pci/devices/{GPU_BDF}")
    # A driver that is bound has enabled it, and the kernel does not let user space do so beside it.
    if not (function / "driver").exists():
        (function / "enable").write_text("1")
    fd = os.open(module_file(), os.O_RDONLY)
    try:
        if _libc.syscall(_SYS_FINIT_MODULE, fd, parameters.encode(), 0):
            raise Failed(f"the module does not load: {os.strerror(ctypes.get_errno())}")
    finally:
        os.close(fd)
    wait_for(lambda: Path(NODE).exists(), "the device node")


def wait_for(holds: Callable[[], bool], what: str, limit_s: float = 20.0) -> None:
    """Wait until something holds; Failed when it does not in time."""
    deadline = time.monotonic() + limit_s
    while not holds():
        if time.monotonic() > deadline:
            raise Failed(f"not in time: {what}")
        time.sleep(0.01)


def in_child(guest: Guest, body: Callable[[], None], what: str) -> None:
    """Run checks in a child, which may give up its rights; Failed with what it says when one does not hold."""
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            body()
        except BaseException as why:
            os.write(writing, f"{type(why).__name__}: {why}".encode()[:1000])
        os._exit(0)
    os.close(writing)
    said = b""
    while piece := os.read(reading, 1000):
        said += piece
    os.close(reading)
    os.waitpid(child, 0)
    guest.equal(said.decode(), "", what)


class Memory:
    """Bytes that a drive may reach: anonymous memory of this process, or a range of the stand-in's bar."""

    def __init__(self, length: int, *, gpu_offset: int | None = None) -> None:
        self.length = length
        self.gpu_offset = gpu_offset
        if gpu_offset is None:
            self.map = mmap.mmap(-1, length)
        else:
            fd = os.open(f"/sys/bus/pci/devices/{GPU_BDF}/resource2", os.O_RDWR)
            self.map = mmap.mmap(fd, length, offset=gpu_offset)
            os.close(fd)
        self.map[:] = bytes(length)

    @property
    def provider(self) -> int:
        """TUTTI_P2P_PROVIDER_HOST or _SIM."""
        return 1 if self.gpu_offset is None else 2

    @property
    def address(self) -> int:
        """As a pin names it."""
        if self.gpu_offset is not None:
            return self.gpu_offset
        return ctypes.addressof(ctypes.c_char.from_buffer(self.map))


@dataclass
class Pinned:
    """A pin, its memory, and its runs for one controller."""

    handle: int
    memory: Memory
    runs: list[p2p_uapi.Run]

    def bus(self, offset: int) -> int:
        """Where a byte of it lies on the bus."""
        for run in self.runs:
            if offset < run.length:
                return run.bus + offset
            offset -= run.length
        raise IndexError(offset)


class Client:
    """One open file of the module, negotiated. A context manager."""

    def __init__(self, guest: Guest) -> None:
        from tutti_hal.nvme import p2p_uapi

        self.guest = guest
        self.uapi = p2p_uapi
        self.fd = os.open(NODE, os.O_RDWR | os.O_CLOEXEC)
        self.mapped: list[QueuePair] = []
        self.must(p2p_uapi.Negotiate(version_min=1, version_max=1))

    def __enter__(self) -> Client:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Close the file and what is mapped of it: everything is given back."""
        for pair in self.mapped:
            pair.unmap()
        self.mapped.clear()
        if self.fd >= 0:
            os.close(self.fd)
            self.fd = -1

    def ask(self, request: p2p_uapi.R) -> tuple[int, p2p_uapi.R]:
        """One request: 0 or an errno, and the answer."""
        return self.uapi.request(self.fd, request)

    def must(self, request: p2p_uapi.R) -> p2p_uapi.R:
        """One request that has to succeed."""
        error, answer = self.ask(request)
        if error:
            refused = getattr(answer, "refused", 0)
            raise Failed(f"{type(request).__name__}: {errno.errorcode.get(error, error)}, refused {refused}, {answer}")
        return answer

    def refuse(self, request: p2p_uapi.Request, wanted: int, what: str) -> None:
        """One request that has to fail in one way."""
        error, _ = self.ask(request)
        self.guest.equal(errno.errorcode.get(error, error), errno.errorcode[wanted], what)

    def provider(self, name: str) -> int:
        """The number of a provider by its name, in any case; Failed when the module has none of it."""
        for index in range(1000):
            error, found = self.ask(self.uapi.DescribeProvider(index=index))
            if error:
                break
            if found.name.decode() == name.lower():
                return found.id
        raise Failed(f"the module has no provider {name}")

    def attach_request(self, drive: int = 0, *, of: int | None = None) -> p2p_uapi.Attach:
        """An Attach for drive `drive`; `of` names another drive's character device. Its file stays open."""
        domain, bus, rest = drive_bdf(drive).split(":")
        slot, function = rest.split(".")
        name = controller_name(drive if of is None else of)
        return self.uapi.Attach(
            domain=int(domain, 16),
            bus=int(bus, 16),
            devfn=int(slot, 16) << 3 | int(function),
            nvme_fd=os.open(f"/dev/{name}", os.O_RDWR | os.O_CLOEXEC),
        )

    def attach(self, drive: int = 0) -> p2p_uapi.Attach:
        """Attach a drive."""
        request = self.attach_request(drive)
        try:
            return self.must(request)
        finally:
            os.close(request.nvme_fd)

    def pin_request(
        self, memory: Memory, controllers: Sequence[int]
    ) -> tuple[p2p_uapi.Pin, ctypes.Array[ctypes.c_uint]]:
        """A Pin and the array that it points to."""
        array = (ctypes.c_uint * len(controllers))(*controllers)
        return self.uapi.Pin(
            provider=memory.provider,
            address=memory.address,
            length=memory.length,
            nr_controllers=len(controllers),
            controllers=ctypes.addressof(array),
        ), array

    def runs(self, pin: int, controller: int) -> list[p2p_uapi.Run]:
        """All runs of a pin, asked for in two parts."""
        total = self.must(self.uapi.Runs(pin=pin, controller=controller)).total
        buffer = ctypes.create_string_buffer(16 * total)
        half = total // 2
        for first, capacity in ((0, half), (half, total - half)):
            if capacity:
                self.must(
                    self.uapi.Runs(
                        pin=pin,
                        controller=controller,
                        first=first,
                        capacity=capacity,
                        runs=ctypes.addressof(buffer) + 16 * first,
                    )
                )
        return [self.uapi.Run(*struct.unpack_from("<QQ", buffer, 16 * index)) for index in range(total)]

    def pin(self, memory: Memory, controller: int) -> Pinned:
        """Pin memory for one controller."""
        request, array = self.pin_request(memory, [controller])
        answer = self.must(request)
        del array
        return Pinned(answer.pin, memory, self.runs(answer.pin, controller))

    def queue_request(self, controller: int, rings: Pinned, entries: int = 16) -> p2p_uapi.QueueCreate:
        """A QueueCreate with both rings in one pin: submission at 0, completion at the second page."""
        return self.uapi.QueueCreate(
            controller=controller,
            sq_pin=rings.handle,
            cq_pin=rings.handle,
            cq_offset=PAGE,
            sq_entries=entries,
            cq_entries=entries,
        )

    def queue(self, controller: int, rings: Pinned, entries: int = 16) -> QueuePair:
        """A queue pair with its doorbells mapped; its rings are cleared first."""
        rings.memory.map[: 2 * PAGE] = bytes(2 * PAGE)
        pair = QueuePair(self, self.must(self.queue_request(controller, rings, entries)), rings.memory, entries)
        self.mapped.append(pair)
        return pair

    def watch(self) -> mmap.mmap:
        """The watch page."""
        return mmap.mmap(self.fd, PAGE, flags=mmap.MAP_SHARED)

    def next_event(self) -> p2p_uapi.Event | None:
        """The next event, if there is one."""
        error, event = self.ask(self.uapi.Event())
        return None if error == errno.EAGAIN else event

    def events(self, count: int) -> list[tuple[int, int, int]]:
        """Wait for events: kind, handle, cause of each."""
        found: list[tuple[int, int, int]] = []

        def enough() -> bool:
            event = self.next_event()
            if event is not None:
                found.append((event.kind, event.handle, event.cause))
            return len(found) >= count

        wait_for(enough, f"{count} events, {found} came")
        return found


def controller_name(drive: int) -> str:
    """The name nvmeN of a drive, by its PCI address."""
    return next(Path(f"/sys/bus/pci/devices/{drive_bdf(drive)}/nvme").iterdir()).name


class QueuePair:
    """A queue pair driven from here: one command in flight at a time."""

    def __init__(self, client: Client, made: p2p_uapi.QueueCreate, memory: Memory, entries: int) -> None:
        self.handle = made.queue
        self.qid = made.qid
        self.entries = entries
        self.mapping = mmap.mmap(client.fd, made.doorbell_bytes, flags=mmap.MAP_SHARED, offset=made.doorbell_offset)
        self.bells = memoryview(self.mapping).cast("I")
        self.sq_bell, self.cq_bell = made.sq_doorbell // 4, made.cq_doorbell // 4
        self.ring = memory.map
        self.tail = self.head = 0
        self.phase = 1

    def unmap(self) -> None:
        """Let the doorbells go: a mapping keeps the file open."""
        self.bells.release()
        self.mapping.close()

    def submit(self, opcode: int, data: Pinned, lba: int) -> None:
        """A read (2) or write (1) of two pages at the start of ``data``, by PRP: they need not touch on the bus."""
        blocks = 2 * PAGE // 512
        entry = struct.pack("<BBHI16xQQQI12x", opcode, 0, self.tail, 1, data.bus(0), data.bus(PAGE), lba, blocks - 1)
        self.ring[64 * self.tail : 64 * self.tail + 64] = entry
        self.tail = (self.tail + 1) % self.entries
        self.bells[self.sq_bell] = self.tail

    def complete(self, limit_s: float = 10.0) -> int | None:
        """The status field of the next completion; None when it does not come."""
        deadline = time.monotonic() + limit_s
        place = PAGE + 16 * self.head
        while True:
            (status,) = struct.unpack_from("<H", self.ring, place + 14)
            if status & 1 == self.phase:
                break
            if time.monotonic() > deadline:
                return None
        self.head = (self.head + 1) % self.entries
        self.phase ^= self.head == 0
        self.bells[self.cq_bell] = self.head
        return int(status) >> 1

    def read(self, data: Pinned, lba: int) -> int | None:
        """Read two pages and wait."""
        self.submit(2, data, lba)
        return self.complete()


def check_reads(guest: Guest, pair: QueuePair, data: Pinned, what: str, drive: int = 0) -> None:
    """Stamps of the image, read into both pages of the data: each was not there before."""
    for mib in (0, 3, 17, 200):
        data.memory.map[: 2 * PAGE] = b"\xa5" * (2 * PAGE)
        guest.equal(pair.read(data, mib * MIB // 512), 0, f"{what}: status of a read at MiB {mib}")
        wanted = stamp(drive, 0, mib)
        guest.equal(data.memory.map[: len(wanted)], wanted, f"{what}: bytes at MiB {mib}")
        guest.check(data.memory.map[PAGE : 2 * PAGE] != b"\xa5" * PAGE, f"{what}: the second page was written")


@contextmanager
def client(guest: Guest) -> Iterator[Client]:
    """The module, loaded afresh, and one client; the module goes out again, which nothing may hold."""
    load()
    with Client(guest) as opened:
        yield opened
    # A file that the last process closed is released a little later.
    time.sleep(0.05)
    guest.equal(unload(), 0, "the module unloads")

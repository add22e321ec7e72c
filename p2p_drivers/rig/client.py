"""A user of the module in the guest: memory of each kind, pins, queue pairs, and commands with their completions.

The requests are the product's own binding (``tutti_hal.nvme.p2p_uapi``). Submission and completion entries are packed
here, apart from the product's codecs, so that a mistake in those is not shared.
"""

from __future__ import annotations

import ctypes
import errno
import fcntl
import mmap
import os
import struct
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

from rig import modules
from rig.case import Guest
from rig.qemu import GPU_BDF
from tutti_hal.nvme import p2p_uapi as uapi

NODE = "/dev/tutti_p2p"
FAKE_NODE = "/dev/fake_gpu"
PAGE = 4096
GRANULE = 65536
READ, WRITE = 2, 1
R = TypeVar("R", bound=uapi.Request)


class Refusal(Exception):
    """The module refused a request; ``number`` is the errno and ``answer`` the structure as it came back."""

    def __init__(self, what: str, number: int, answer: uapi.Request) -> None:
        super().__init__(f"{what}: {errno.errorcode.get(number, number)} {answer}")
        self.number = number
        self.answer = answer


@contextmanager
def loaded(*vendors: str, plain: bool = False, parameters: str = "") -> Iterator[None]:
    """The module under test, and fake drivers of ``vendors`` ("gpu" alone is the GPU without a vendor's symbols).

    At the end each is unloaded; one that is still held is an OSError, and so the case fails.
    """
    fakes = Path(os.environ["RIG_FAKES_PLAIN" if plain else "RIG_FAKES"])
    names = [f"fake_{name}" for name in ("gpu", *(vendor for vendor in vendors if vendor != "gpu"))] if vendors else []
    for name in names:
        modules.load(fakes / f"{name}.ko")
    modules.load(Path(os.environ["RIG_PRODUCT"]) / "tutti_p2p.ko", f"sim={GPU_BDF} {parameters}".strip())
    try:
        yield
    finally:
        modules.unload("tutti_p2p", patience_s=5.0)
        for name in reversed(names):
            if modules.is_loaded(name):
                modules.unload(name, patience_s=5.0)


@dataclass(frozen=True)
class DriveAt:
    """A drive as the guest's kernel has it: ``name`` is nvmeN."""

    name: str
    bdf: str

    @property
    def devfn(self) -> tuple[int, int, int]:
        """Domain, bus and devfn."""
        domain, bus, rest = self.bdf.split(":")
        slot, function = rest.split(".")
        return int(domain, 16), int(bus, 16), int(slot, 16) * 8 + int(function, 16)

    def block_device(self, namespace: int = 1) -> str:
        """Path of a namespace's block device."""
        return f"/dev/{self.name}n{namespace}"

    def state(self) -> str:
        """What the driver says of the controller."""
        return Path("/sys/class/nvme", self.name, "state").read_text().strip()


def drive(index: int, timeout_s: float = 20.0) -> DriveAt:
    """Drive ``index`` of the machine, by its serial number; waits until the kernel has it live."""
    deadline = time.monotonic() + timeout_s
    while True:
        for serial in Path("/sys/class/nvme").glob("nvme*/serial"):
            try:
                if serial.read_text().strip() != f"rig{index}":
                    continue
                found = DriveAt(serial.parent.name, (serial.parent / "device").resolve().name)
                if found.state() == "live" and Path(found.block_device()).exists():
                    return found
            except OSError:
                continue
        if time.monotonic() >= deadline:
            raise TimeoutError(f"no live drive with serial rig{index}")
        time.sleep(0.1)


class Memory:
    """Memory that can be pinned: how the module is told of it, and how this process reads and writes it."""

    provider = uapi.Provider.HOST

    def __init__(self, view: mmap.mmap, address: int, length: int) -> None:
        self.view = view
        self.address = address
        self.length = length
        self.fd = -1

    def close(self) -> None:
        """Give it back to its owner."""
        self.view.close()

    def write(self, offset: int, data: bytes) -> None:
        """Store bytes."""
        self.view[offset : offset + len(data)] = data

    def read(self, offset: int, length: int) -> bytes:
        """Load bytes."""
        return self.view[offset : offset + length]


class HostMemory(Memory):
    """Pages of this process."""

    def __init__(self, length: int) -> None:
        view = mmap.mmap(-1, length)
        anchor = ctypes.c_char.from_buffer(view)
        address = ctypes.addressof(anchor)
        del anchor
        super().__init__(view, address, length)


class BarMemory(Memory):
    """A range of the stand-in's bar, by the module's provider for test rigs."""

    provider = uapi.Provider.SIM

    def __init__(self, length: int, offset: int = GRANULE) -> None:
        fd = os.open(f"/sys/bus/pci/devices/{GPU_BDF}/resource2", os.O_RDWR)
        try:
            view = mmap.mmap(fd, length, offset=offset)
        finally:
            os.close(fd)
        super().__init__(view, offset, length)


class FakeGpu:
    """The fake GPU driver's node, as a vendor's runtime would use it."""

    ALLOC = (3 << 30) | (24 << 16) | (ord("F") << 8) | 1
    FREE = (1 << 30) | (8 << 16) | (ord("F") << 8) | 2
    STATS = (2 << 30) | (24 << 16) | (ord("F") << 8) | 3
    EXPORT = (3 << 30) | (24 << 16) | (ord("F") << 8) | 4
    MOVE = (3 << 30) | (24 << 16) | (ord("F") << 8) | 5

    def __init__(self) -> None:
        self.fd = os.open(FAKE_NODE, os.O_RDWR | os.O_CLOEXEC)

    def close(self) -> None:
        """As when the process ends: everything it allocated is freed."""
        os.close(self.fd)

    def alloc(self, length: int) -> tuple[int, int]:
        """Allocate; the device's address and the offset in the bar."""
        data = bytearray(struct.pack("=QQQ", length, 0, 0))
        fcntl.ioctl(self.fd, self.ALLOC, data, True)
        _, address, offset = struct.unpack("=QQQ", data)
        return address, offset

    def free(self, address: int) -> None:
        """Free; importers are called back first."""
        fcntl.ioctl(self.fd, self.FREE, struct.pack("=Q", address))

    def stats(self) -> dict[str, int]:
        """What the fake driver counts."""
        data = bytearray(24)
        fcntl.ioctl(self.fd, self.STATS, data, True)
        names = ("objects", "zombies", "holds", "mapped", "callbacks", "violations")
        return dict(zip(names, struct.unpack("=6I", data), strict=True))

    def export(self, address: int, length: int) -> int:
        """A dma-buf of a range."""
        data = bytearray(struct.pack("=QQiI", address, length, -1, 0))
        fcntl.ioctl(self.fd, self.EXPORT, data, True)
        fd: int = struct.unpack("=QQiI", data)[2]
        return fd

    def move(self, fd: int) -> int:
        """Tell importers of a dma-buf that it moves; how many still pin it."""
        data = bytearray(struct.pack("=QQiI", 0, 0, fd, 0))
        fcntl.ioctl(self.fd, self.MOVE, data, True)
        pins: int = struct.unpack("=QQiI", data)[3]
        return pins


class VendorMemory(Memory):
    """Memory of the fake GPU, by a vendor's provider or as a dma-buf."""

    def __init__(self, gpu: FakeGpu, provider: uapi.Provider, length: int) -> None:
        self.device_address, self.offset = gpu.alloc(length)
        super().__init__(mmap.mmap(gpu.fd, length, offset=self.offset), self.device_address, length)
        self.provider = provider
        if provider is uapi.Provider.DMABUF:
            self.fd = gpu.export(self.device_address, length)
            self.address = 0


@dataclass
class Pinned:
    """A pin: its handle, its memory, and where it lies on one controller's bus."""

    handle: int
    memory: Memory
    page_size: int
    runs: tuple[tuple[int, int], ...]

    def bus(self, offset: int) -> int:
        """Bus address of a byte."""
        at = 0
        for bus, length in self.runs:
            if offset < at + length:
                return bus + offset - at
            at += length
        raise IndexError(f"offset {offset:#x} of {at:#x}")


class Client:
    """An open node, negotiated."""

    def __init__(self) -> None:
        self.fd = os.open(NODE, os.O_RDWR | os.O_CLOEXEC)
        self.features = self.ask(uapi.Negotiate(version_min=1, version_max=uapi.VERSION)).features

    def close(self) -> None:
        """Close the file: the module undoes everything."""
        os.close(self.fd)

    def __enter__(self) -> Client:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def ask(self, structure: R) -> R:
        """One request; Refusal when it fails."""
        number, answer = uapi.request(self.fd, structure)
        if number:
            raise Refusal(type(structure).__name__, number, answer)
        return answer

    def refused(self, structure: uapi.Request) -> int:
        """The errno of a request that should fail; 0 when it did not."""
        return uapi.request(self.fd, structure)[0]

    def attach(self, which: DriveAt) -> uapi.Attach:
        """Attach a drive."""
        fd = os.open(f"/dev/{which.name}", os.O_RDWR)
        try:
            domain, bus, devfn = which.devfn
            return self.ask(uapi.Attach(domain=domain, bus=bus, devfn=devfn, nvme_fd=fd))
        finally:
            os.close(fd)

    def pin(self, memory: Memory, controllers: Sequence[int]) -> Pinned:
        """Pin memory for controllers; the runs are those of the first."""
        handles = (ctypes.c_uint32 * len(controllers))(*controllers)
        answer = self.ask(
            uapi.Pin(
                provider=memory.provider,
                address=memory.address,
                length=memory.length,
                fd=memory.fd,
                nr_controllers=len(controllers),
                controllers=ctypes.addressof(handles),
            )
        )
        return Pinned(answer.pin, memory, answer.page_size, self.runs(answer.pin, controllers[0]))

    def runs(self, pin: int, controller: int, piece: int = 7) -> tuple[tuple[int, int], ...]:
        """A pin's runs, asked for ``piece`` at a time."""
        found: list[tuple[int, int]] = []
        space = ctypes.create_string_buffer(16 * piece)
        while True:
            request = uapi.Runs(
                pin=pin, controller=controller, first=len(found), capacity=piece, runs=ctypes.addressof(space)
            )
            answer = self.ask(request)
            found += [struct.unpack_from("=QQ", space, 16 * index) for index in range(answer.count)]
            if len(found) >= answer.total or not answer.count:
                return tuple(found)

    def unpin(self, handle: int) -> None:
        """Unpin."""
        self.ask(uapi.Unpin(pin=handle))

    def event(self, timeout_s: float = 5.0) -> uapi.Event:
        """The next event; Refusal (EAGAIN) when none comes in time."""
        deadline = time.monotonic() + timeout_s
        while True:
            try:
                return self.ask(uapi.Event())
            except Refusal as why:
                if why.number != errno.EAGAIN or time.monotonic() >= deadline:
                    raise
            time.sleep(0.01)

    def usage(self) -> uapi.Usage:
        """What this user holds."""
        return self.ask(uapi.Usage())


class QueuePair:
    """A queue pair with both rings in one pin, driven by this process: one command at a time."""

    SQ_BYTES = 4096

    def __init__(self, client: Client, controller: int, ring: Pinned, offset: int = 0, entries: int = 16) -> None:
        self.client = client
        self.entries = entries
        self._ring = ring
        self._sq = offset
        self._cq = offset + self.SQ_BYTES
        ring.memory.write(offset, bytes(2 * self.SQ_BYTES))
        self.made = client.ask(
            uapi.QueueCreate(
                controller=controller,
                sq_pin=ring.handle,
                cq_pin=ring.handle,
                sq_offset=self._sq,
                cq_offset=self._cq,
                sq_entries=entries,
                cq_entries=entries,
            )
        )
        self._doorbells = mmap.mmap(client.fd, self.made.doorbell_bytes, offset=self.made.doorbell_offset)
        self._words = memoryview(self._doorbells).cast("I")
        self._tail = self._head = 0
        self._phase = 1
        self._cid = 0

    def release_doorbells(self) -> None:
        """Take the mapping down."""
        self._words.release()
        self._doorbells.close()

    def delete(self) -> None:
        """Delete the queue pair."""
        self.release_doorbells()
        self.client.ask(uapi.QueueDelete(queue=self.made.queue))

    def submit(self, opcode: int, nsid: int, slba: int, blocks: int, prp1: int, prp2: int = 0) -> None:
        """Put one command into the ring and ring the doorbell."""
        self._cid = (self._cid + 1) & 0xFFFF
        entry = struct.pack(
            "<IIQQQQQIIII", opcode | self._cid << 16, nsid, 0, 0, prp1, prp2, slba, (blocks - 1) & 0xFFFF, 0, 0, 0
        )
        self._ring.memory.write(self._sq + 64 * self._tail, entry)
        self._tail = (self._tail + 1) % self.entries
        self._words[self.made.sq_doorbell // 4] = self._tail

    def wait(self, timeout_s: float = 10.0) -> int | None:
        """Status field (without the phase) of the next completion; None when none comes in time."""
        deadline = time.monotonic() + timeout_s
        while True:
            raw = self._ring.memory.read(self._cq + 16 * self._head, 16)
            status: int = struct.unpack_from("<H", raw, 14)[0]
            if status & 1 == self._phase:
                break
            if time.monotonic() >= deadline:
                return None
            time.sleep(0)
        self._head = (self._head + 1) % self.entries
        self._phase ^= self._head == 0
        self._words[self.made.cq_doorbell // 4] = self._head
        return status >> 1

    def transfer(
        self,
        opcode: int,
        slba: int,
        data: Pinned,
        offset: int,
        length: int,
        *,
        block: int,
        nsid: int = 1,
        lists: Pinned,
    ) -> int | None:
        """Move ``length`` bytes between ``slba`` and ``data`` at ``offset``; PRP lists go to the end of ``lists``.

        At most 2 MiB: one page of list. Returns the status, None when no completion came.
        """
        pages = [data.bus(offset)]
        at = offset + PAGE - pages[0] % PAGE
        while at < offset + length:
            pages.append(data.bus(at))
            at += PAGE
        second = pages[1] if len(pages) == 2 else 0
        if len(pages) > 2:
            place = lists.memory.length - PAGE
            lists.memory.write(place, b"".join(struct.pack("<Q", page) for page in pages[1:]))
            second = lists.bus(place)
        self.submit(opcode, nsid, slba, length // block, pages[0], second)
        return self.wait()


def block_bytes(device: str) -> int:
    """Logical block size of a namespace."""
    return int(Path("/sys/class/block", Path(device).name, "queue/logical_block_size").read_text())


def stock_read(device: str, offset: int, length: int) -> bytes:
    """What the kernel's own driver reads, past its cache."""
    fd = os.open(device, os.O_RDONLY | os.O_DIRECT)
    try:
        with mmap.mmap(-1, length) as page:
            if os.preadv(fd, [page], offset) != length:
                raise OSError(errno.EIO, f"short read of {device}")
            return page[:]
    finally:
        os.close(fd)


def stock_write(device: str, offset: int, data: bytes) -> None:
    """Write by the kernel's own driver, past its cache."""
    fd = os.open(device, os.O_WRONLY | os.O_DIRECT)
    try:
        with mmap.mmap(-1, len(data)) as page:
            page[:] = data
            if os.pwritev(fd, [page], offset) != len(data):
                raise OSError(errno.EIO, f"short write of {device}")
    finally:
        os.close(fd)


def check_clean(guest: Guest, gpu: FakeGpu, client: Client | None = None) -> None:
    """Nothing is held of the GPU, no rule was broken, and the user is charged for nothing."""
    stats = gpu.stats()
    for name in ("holds", "mapped", "violations", "zombies"):
        guest.equal(stats[name], 0, f"the GPU driver's count of {name}")
    if client is not None:
        usage = client.usage()
        guest.equal((usage.pins, usage.bytes, usage.queues), (0, 0, 0), "what the user is charged for")

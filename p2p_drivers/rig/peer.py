"""A vendor's memory in the guest, by the fake of its driver; whole transfers; and what the stock driver sees."""

from __future__ import annotations

import errno
import fcntl
import mmap
import os
import re
import struct
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from rig import modules, p2p
from rig.case import Guest
from rig.p2p import PAGE

if TYPE_CHECKING:
    from tutti_hal.nvme import p2p_uapi

READ, WRITE = 2, 1


@contextmanager
def drivers(*vendors: str, plain: bool = False) -> Iterator[FakeGpu]:
    """The fake GPU's driver and those of ``vendors``, and an open file of the GPU.

    At the end each is unloaded; one that is still held is an OSError, and so the case fails.
    """
    folder = Path(os.environ["RIG_FAKES_PLAIN" if plain else "RIG_FAKES"])
    names = [f"fake_{name}" for name in ("gpu", *vendors)]
    done: list[str] = []
    try:
        for name in names:
            modules.load(folder / f"{name}.ko")
            done.append(name)
        gpu = FakeGpu()
        try:
            yield gpu
        finally:
            gpu.close()
    finally:
        for name in reversed(done):
            modules.unload(name, patience_s=5.0)


class FakeGpu:
    """The fake GPU driver's node, as a vendor's runtime would use it."""

    ALLOC = 3 << 30 | 24 << 16 | ord("F") << 8 | 1
    FREE = 1 << 30 | 8 << 16 | ord("F") << 8 | 2
    STATS = 2 << 30 | 24 << 16 | ord("F") << 8 | 3
    EXPORT = 3 << 30 | 24 << 16 | ord("F") << 8 | 4
    MOVE = 3 << 30 | 24 << 16 | ord("F") << 8 | 5

    def __init__(self) -> None:
        self.fd = os.open("/dev/fake_gpu", os.O_RDWR | os.O_CLOEXEC)

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


class VendorMemory(p2p.Memory):
    """Memory of the fake GPU, by a vendor's provider or as a dma-buf."""

    def __init__(self, gpu: FakeGpu, provider: int, length: int) -> None:
        self.device_address, offset = gpu.alloc(length)
        self.length = length
        self.map = mmap.mmap(gpu.fd, length, offset=offset)
        self._provider = provider
        self.fd = gpu.export(self.device_address, length) if provider == p2p_dmabuf() else -1

    @property
    def provider(self) -> int:
        """Its vendor's."""
        return self._provider

    @property
    def address(self) -> int:
        """Of the device; 0 in a dma-buf."""
        return 0 if self.fd >= 0 else self.device_address

    def close(self) -> None:
        """Let the mapping and the dma-buf go."""
        self.map.close()
        if self.fd >= 0:
            os.close(self.fd)
            self.fd = -1


def p2p_dmabuf() -> int:
    """The provider of dma-bufs."""
    from tutti_hal.nvme.p2p_uapi import Provider

    return Provider.DMABUF


def pin_request(client: p2p.Client, memory: p2p.Memory, controller: int) -> tuple[int, p2p_uapi.Pin]:
    """Ask for a pin of any memory: 0 or an errno, and the answer."""
    request, array = client.pin_request(memory, [controller])
    request.fd = getattr(memory, "fd", -1)
    found = client.ask(request)
    del array
    return found


def pin(client: p2p.Client, memory: p2p.Memory, controller: int) -> p2p.Pinned:
    """Pin any memory for one controller; an OSError when it is refused."""
    error, answer = pin_request(client, memory, controller)
    if error:
        raise OSError(error, f"pin: {errno.errorcode.get(error)}")
    return p2p.Pinned(answer.pin, memory, client.runs(answer.pin, controller))


def submit(pair: p2p.QueuePair, opcode: int, nsid: int, slba: int, blocks: int, prp1: int, prp2: int) -> None:
    """Put one command into the ring and ring the doorbell."""
    entry = struct.pack("<BBHI16xQQQI12x", opcode, 0, pair.tail, nsid, prp1, prp2, slba, blocks - 1)
    pair.ring[64 * pair.tail : 64 * pair.tail + 64] = entry
    pair.tail = (pair.tail + 1) % pair.entries
    pair.bells[pair.sq_bell] = pair.tail


def transfer(
    pair: p2p.QueuePair,
    opcode: int,
    slba: int,
    data: p2p.Pinned,
    offset: int,
    length: int,
    *,
    block: int,
    lists: p2p.Pinned,
    nsid: int = 1,
) -> int | None:
    """Move ``length`` bytes (at most 2 MiB) between ``slba`` and ``data`` at ``offset``; a PRP list ends ``lists``.

    Returns the status field, None when no completion came.
    """
    pages = [data.bus(offset)]
    at = offset + PAGE - pages[0] % PAGE
    while at < offset + length:
        pages.append(data.bus(at))
        at += PAGE
    second = pages[1] if len(pages) == 2 else 0
    if len(pages) > 2:
        place = lists.memory.length - PAGE
        entries = b"".join(struct.pack("<Q", page) for page in pages[1:])
        lists.memory.map[place : place + len(entries)] = entries
        second = lists.bus(place)
    submit(pair, opcode, nsid, slba, length // block, pages[0], second)
    return pair.complete()


def block_device(drive: int, namespace: int = 1) -> str:
    """Path of a namespace's block device.

    Its number is that of the drive's subsystem, which is another than the controller's once a driver was bound again.
    """
    name = p2p.controller_name(drive)
    for child in Path(f"/sys/class/nvme/{name}").iterdir():
        if re.fullmatch(rf"nvme\d+n{namespace}", child.name):
            return f"/dev/{child.name}"
    raise FileNotFoundError(errno.ENOENT, "no block device", f"{name}, namespace {namespace}")


def stock_read(path: str, offset: int, length: int) -> bytes:
    """What the kernel's own driver reads, past the page cache."""
    fd = os.open(path, os.O_RDONLY | os.O_DIRECT)
    try:
        with mmap.mmap(-1, length) as pages:
            if os.preadv(fd, [pages], offset) != length:
                raise OSError(errno.EIO, f"short read of {path}")
            return pages[:]
    finally:
        os.close(fd)


def stock_write(path: str, offset: int, data: bytes) -> None:
    """Write by the kernel's own driver, past the page cache."""
    fd = os.open(path, os.O_WRONLY | os.O_DIRECT)
    try:
        with mmap.mmap(-1, len(data)) as pages:
            pages[:] = data
            if os.pwritev(fd, [pages], offset) != len(data):
                raise OSError(errno.EIO, f"short write of {path}")
    finally:
        os.close(fd)


def check_clean(guest: Guest, gpu: FakeGpu, client: p2p.Client) -> None:
    """Nothing is held of the GPU, no rule of its driver was broken, and the user is charged for nothing."""
    stats = gpu.stats()
    for name in ("holds", "mapped", "violations", "zombies"):
        guest.equal(stats[name], 0, f"the GPU driver's count of {name}")
    usage = client.must(client.uapi.Usage())
    guest.equal((usage.pins, usage.bytes, usage.queues), (0, 0, 0), "what the user is charged for")

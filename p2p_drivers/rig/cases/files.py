"""A mounted ext4, busy, and extra queue pairs that read and write a file's blocks where the file system put them."""

from __future__ import annotations

import fcntl
import hashlib
import mmap
import os
import shutil
import signal
import struct
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from rig.case import Guest, case
from rig.qemu import MIB, Iommu, Machine

FIEMAP = 0xC020660B
SYNC = 1
# Extent flags with which the bytes on the drive are not the file's: unknown, delayed, encoded, inline, tail, unwritten.
NOT_PLAIN = 0x2 | 0x4 | 0x8 | 0x80 | 0x100 | 0x200 | 0x400 | 0x800
PIECE = 131072


def extents(file: Path, room: int = 128) -> list[tuple[int, int, int]]:
    """Logical offset, offset on the device and length of each extent that holds the file's plain bytes."""
    data = bytearray(32 + 56 * room)
    struct.pack_into("=QQIIII", data, 0, 0, (1 << 64) - 1, SYNC, 0, room, 0)
    with file.open("rb") as opened:
        fcntl.ioctl(opened, FIEMAP, data, True)
    found = []
    for index in range(struct.unpack_from("=I", data, 20)[0]):
        logical, physical, length, _, _, flags = struct.unpack_from("=QQQQQI", data, 32 + 56 * index)
        if not flags & NOT_PLAIN:
            found.append((logical, physical, length))
    return found


@contextmanager
def busy(folder: Path) -> Iterator[None]:
    """Another process writes, syncs and reads back a file of its own past the page cache, until the end."""
    child = os.fork()
    if child == 0:
        try:
            with mmap.mmap(-1, MIB) as pages:
                while True:
                    sent = os.urandom(MIB)
                    (folder / "busy").write_bytes(sent)
                    fd = os.open(folder / "busy", os.O_RDWR | os.O_DIRECT)
                    os.fsync(fd)
                    os.preadv(fd, [pages], 0)
                    os.close(fd)
                    if pages[:] != sent:
                        os._exit(1)
        finally:
            os._exit(2)
    try:
        yield
        ended, status = os.waitpid(child, os.WNOHANG)
        if ended:
            raise RuntimeError(f"the busy process ended with {status}: what it wrote is not what it read")
    finally:
        if os.waitpid(child, os.WNOHANG) == (0, 0):
            os.kill(child, signal.SIGKILL)
            os.waitpid(child, 0)


def digest(file: Path) -> str:
    """SHA-256 of the file's bytes on the drive: read past the page cache."""
    found = hashlib.sha256()
    at = 0
    fd = os.open(file, os.O_RDONLY | os.O_DIRECT)
    try:
        with mmap.mmap(-1, MIB) as pages:
            while count := os.preadv(fd, [pages], at):
                found.update(pages[:count])
                at += count
    finally:
        os.close(fd)
    return found.hexdigest()


@case((Machine(), Machine(iommu=Iommu.TRANSLATE)), timeout_s=300)
def extents_of_a_busy_file_system(guest: Guest) -> None:
    """Two files, one in many pieces, are read and written through their extents; sums agree, e2fsck is content."""
    from rig import p2p, peer

    for tool in ("mkfs.ext4", "e2fsck", "mount", "umount"):
        if shutil.which(tool) is None:
            guest.skip(f"{tool} is not on the host")
    device = peer.block_device(0)
    folder = Path("/mnt/rig")
    folder.mkdir(parents=True, exist_ok=True)
    subprocess.run(["mkfs.ext4", "-q", "-F", "-b", "4096", device], check=True, timeout=60)
    subprocess.run(["mount", "-t", "ext4", device, folder], check=True, timeout=30)
    try:
        whole, pieces, between = folder / "whole", folder / "pieces", folder / "between"
        whole.write_bytes(os.urandom(2 * MIB))
        with pieces.open("wb") as one, between.open("wb") as other:
            for _ in range(12):
                for opened in (one, other):
                    opened.write(os.urandom(3 * 4096))
                    opened.flush()
                    os.fsync(opened.fileno())
        os.sync()
        with busy(folder), p2p.client(guest) as client:
            drive = client.attach()
            rings = client.pin(p2p.Memory(p2p.GRANULE), drive.controller)
            memory = p2p.Memory(4 * p2p.GRANULE, gpu_offset=0)
            data = client.pin(memory, drive.controller)
            pair = client.queue(drive.controller, rings)
            for file in (whole, pieces):
                places = extents(file)
                guest.equal(
                    sum(length for _, _, length in places), file.stat().st_size, f"{file.name}: bytes in extents"
                )
                if file is pieces:
                    guest.check(len(places) > 3, f"{file.name} lies in {len(places)} extents")
                wanted = file.read_bytes()
                fresh = os.urandom(len(wanted))
                found = bytearray(len(wanted))
                for opcode in (peer.READ, peer.WRITE):
                    for logical, physical, length in places:
                        for at in range(0, length, PIECE):
                            size = min(PIECE, length - at)
                            if opcode == peer.WRITE:
                                memory.map[:size] = fresh[logical + at : logical + at + size]
                            slba = (physical + at) // 512
                            status = peer.transfer(pair, opcode, slba, data, 0, size, block=512, lists=rings)
                            guest.equal(status, 0, f"{file.name}: status at {logical + at:#x}")
                            if opcode == peer.READ:
                                found[logical + at : logical + at + size] = memory.map[:size]
                guest.check(bytes(found) == wanted, f"{file.name}: bytes read through extents")
                guest.equal(digest(file), hashlib.sha256(fresh).hexdigest(), f"{file.name}: sum of what was written")
            time.sleep(0.2)
            client.must(client.uapi.QueueDelete(queue=pair.handle))
    finally:
        subprocess.run(["umount", folder], check=True, timeout=60)
    checked = subprocess.run(["e2fsck", "-f", "-n", device], capture_output=True, text=True, timeout=60, check=False)
    guest.equal(checked.returncode, 0, f"e2fsck: {checked.stdout[-200:]}")


@case(fresh=True, timeout_s=120)
def drive_is_unplugged(guest: Guest) -> None:
    """The drive is taken out of its slot with commands in flight: events, no byte afterwards, a clean end."""
    from rig import p2p

    with p2p.client(guest) as client:
        drive = client.attach()
        rings = client.pin(p2p.Memory(p2p.GRANULE, gpu_offset=0), drive.controller)
        data = client.pin(p2p.Memory(p2p.GRANULE, gpu_offset=MIB), drive.controller)
        pair = client.queue(drive.controller, rings, entries=64)
        p2p.check_reads(guest, pair, data, "before")
        for number in range(40):
            pair.submit(2, data, number * 16)
        guest.ask("unplug", device="nvme0")
        kinds, removed = client.uapi.EventKind, int(client.uapi.Cause.REMOVED)
        wanted = {(int(kinds.QUEUE), pair.handle, removed), (int(kinds.CONTROLLER), drive.controller, removed)}
        guest.equal(set(client.events(2)), wanted, "the events")
        data.memory.map[: 2 * p2p.PAGE] = b"\x5a" * (2 * p2p.PAGE)
        time.sleep(0.3)
        guest.equal(data.memory.map[: 2 * p2p.PAGE], b"\x5a" * (2 * p2p.PAGE), "the canary")
        guest.check(not Path("/sys/class/nvme/nvme0").exists(), "the drive is gone")
        client.must(client.uapi.Detach(controller=drive.controller))
        usage = client.must(client.uapi.Usage())
        guest.equal(usage.queues, 0, "queue pairs charged after the drive was detached")

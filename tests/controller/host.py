"""A host of its own for judging the controller: encodings written from the specification's text.

It imports nothing of `tutti_hal.nvme` but the controller under test: registers, SQEs, CQEs and Identify are read and
written here by byte offset.
"""

from __future__ import annotations

import ctypes
import struct
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

from tutti_hal.nvme.software import ControllerConfig, MemoryNamespace, SoftwareController

PAGE = 4096

CAP, VS, CC, CSTS, AQA, ASQ, ACQ, CRTO, DOORBELLS = 0x00, 0x08, 0x14, 0x1C, 0x24, 0x28, 0x30, 0x68, 0x1000

# (SCT, SC)
OK = (0, 0x00)
INVALID_OPCODE = (0, 0x01)
INVALID_FIELD = (0, 0x02)
CID_CONFLICT = (0, 0x03)
DATA_TRANSFER = (0, 0x04)
ABORTED = (0, 0x07)
SQ_DELETED = (0, 0x08)
INVALID_NAMESPACE = (0, 0x0B)
SEQUENCE = (0, 0x0C)
SGL_SEGMENT = (0, 0x0D)
SGL_COUNT = (0, 0x0E)
SGL_DATA_LENGTH = (0, 0x0F)
SGL_METADATA_LENGTH = (0, 0x10)
SGL_TYPE = (0, 0x11)
PRP_OFFSET = (0, 0x13)
SGL_GRANULARITY = (0, 0x1E)
WRITE_PROTECTED = (0, 0x20)
LBA_RANGE = (0, 0x80)
CAPACITY = (0, 0x81)
CQ_INVALID = (1, 0x00)
QUEUE_ID = (1, 0x01)
QUEUE_SIZE = (1, 0x02)
EVENT_LIMIT = (1, 0x05)
VECTOR = (1, 0x08)
LOG_PAGE = (1, 0x09)
QUEUE_DELETION = (1, 0x0C)
NOT_SAVEABLE = (1, 0x0D)
UNRECOVERED_READ = (2, 0x81)
COMPARE_FAILURE = (2, 0x85)


class Memory:
    """Mapped pages: a Python buffer, its host address, and where each byte lies on the bus."""

    def __init__(
        self, drive: SoftwareController, nbytes: int, *, contiguous: bool = False, alignment: int = PAGE
    ) -> None:
        self._dma = drive.dma.allocate(nbytes, contiguous=contiguous, alignment=alignment)
        self.nbytes = self._dma.nbytes
        self.address = self._dma.address
        self.runs = list(self._dma.runs)
        self.view = memoryview((ctypes.c_char * self.nbytes).from_address(self.address)).cast("B")

    def bus(self, offset: int) -> int:
        """The bus address of byte `offset`."""
        for bus, length in self.runs:
            if offset < length:
                return bus + offset
            offset -= length
        raise IndexError(offset)

    def pages(self) -> list[int]:
        """Bus addresses of its 4 KiB pages, in the order of its bytes."""
        return [bus + at for bus, length in self.runs for at in range(0, length, PAGE)]

    def put(self, offset: int, data: bytes) -> None:
        self.view[offset : offset + len(data)] = data

    def get(self, offset: int, nbytes: int) -> bytes:
        return bytes(self.view[offset : offset + nbytes])

    def word(self, offset: int) -> int:
        return ctypes.c_uint32.from_address(self.address + offset).value

    def close(self) -> None:
        self._dma.close()


@dataclass(frozen=True)
class Cqe:
    """One completion."""

    result: int
    sqhd: int
    sqid: int
    cid: int
    status: tuple[int, int]
    crd: int
    dnr: bool


def sqe(
    opcode: int,
    *,
    cid: int = 0,
    nsid: int = 0,
    fuse: int = 0,
    psdt: int = 0,
    mptr: int = 0,
    prp1: int = 0,
    prp2: int = 0,
    sgl: bytes | None = None,
    dwords: dict[int, int] | None = None,
) -> bytes:
    """64 bytes of a submission queue entry; `dwords` sets command dwords 2, 3 and 10 to 15."""
    words = [0] * 16
    words[0] = opcode | fuse << 8 | psdt << 14 | cid << 16
    words[1] = nsid
    words[4], words[5] = mptr & 0xFFFFFFFF, mptr >> 32
    words[6], words[7] = prp1 & 0xFFFFFFFF, prp1 >> 32
    words[8], words[9] = prp2 & 0xFFFFFFFF, prp2 >> 32
    if sgl is not None:
        words[6:10] = struct.unpack("<4I", sgl)
    for index, value in (dwords or {}).items():
        words[index] = value
    return struct.pack("<16I", *words)


def rw(opcode: int, slba: int, blocks: int, *, flags: int = 0, **rest: Any) -> bytes:
    """Read, write, compare, write zeroes, verify: `blocks` is 1-based here. `flags` is or-ed to dword 12."""
    dwords = {10: slba & 0xFFFFFFFF, 11: slba >> 32, 12: (blocks - 1) | flags}
    return sqe(opcode, dwords=dwords, **{"nsid": 1, **rest})


@dataclass
class Queue:
    """An SQ/CQ pair (or an SQ on another's CQ)."""

    qid: int
    depth: int
    cq_depth: int
    sq: Memory
    cq: Memory
    cqid: int
    tail: int = 0
    head: int = 0
    phase: int = 1
    next_cid: int = 0
    sqhd: int = 0
    seen: list[Cqe] = field(default_factory=list)


class Host:
    """Drives one controller. `pause` is what a wait does in each turn: sleep, or step a simulated world."""

    def __init__(
        self,
        drive: SoftwareController,
        *,
        load: Callable[[int], int] | None = None,
        store: Callable[[int, int], None] | None = None,
        pause: Callable[[], None] | None = None,
        timeout: float = 20.0,
    ) -> None:
        self.drive = drive
        self._load = load or (lambda address: int(ctypes.c_uint32.from_address(address).value))
        self._store = store or self._plain_store
        self._pause = pause or (lambda: time.sleep(0.00002))
        self._timeout = timeout
        self.page = PAGE
        self.queues: dict[int, Queue] = {}
        self.memory: list[Memory] = []

    @staticmethod
    def _plain_store(address: int, value: int) -> None:
        ctypes.c_uint32.from_address(address).value = value

    # -- registers --

    def load(self, offset: int) -> int:
        return self._load(self.drive.bar_address + offset)

    def store(self, offset: int, value: int) -> None:
        self._store(self.drive.bar_address + offset, value)

    def load64(self, offset: int) -> int:
        return self.load(offset) | self.load(offset + 4) << 32

    def store64(self, offset: int, value: int) -> None:
        self.store(offset, value & 0xFFFFFFFF)
        self.store(offset + 4, value >> 32)

    def doorbell(self, qid: int, *, cq: bool = False) -> int:
        stride = 4 << (self.load(CAP + 4) & 0xF)
        return DOORBELLS + (2 * qid + cq) * stride

    def wait(self, condition: Callable[[], Any], timeout: float | None = None) -> Any:
        """Until the condition holds; None when it does not in time."""
        deadline = time.monotonic() + (self._timeout if timeout is None else timeout)
        while True:
            value = condition()
            if value:
                return value
            if time.monotonic() > deadline:
                return None
            self._pause()

    def allocate(self, nbytes: int, *, contiguous: bool = False, alignment: int = PAGE) -> Memory:
        memory = Memory(self.drive, nbytes, contiguous=contiguous, alignment=alignment)
        self.memory.append(memory)
        return memory

    def ring_memory(self, nbytes: int) -> Memory:
        """Contiguous, aligned to the memory page size."""
        return self.allocate(nbytes, contiguous=True, alignment=self.page)

    # -- bring-up --

    def enable(self, *, depth: int = 32, mps: int = 0, cc: int = 0x00460000) -> None:
        """Disable, admin queues, enable, wait for RDY."""
        self.store(CC, 0)
        # CFS too: the registers are polled, and a fatal state of before may still show.
        assert self.wait(lambda: self.load(CSTS) & 3 == 0), "RDY or CFS stays set"
        self.page = PAGE << mps
        sq = self.ring_memory(depth * 64)
        cq = self.ring_memory(depth * 16)
        self.store(AQA, (depth - 1) | (depth - 1) << 16)
        self.store64(ASQ, sq.bus(0))
        self.store64(ACQ, cq.bus(0))
        queue = Queue(0, depth, depth, sq, cq, 0)
        self.queues = {0: queue}
        self.store(CC, cc | mps << 7 | 1)
        assert self.wait(lambda: self.load(CSTS) & 3), "neither RDY nor CFS"
        assert self.load(CSTS) & 3 == 1, "CFS"

    def set_queue_count(self, pairs: int) -> tuple[int, int]:
        """Set Features 07h: (SQs, CQs) granted."""
        cqe = self.admin(sqe(0x09, dwords={10: 7, 11: (pairs - 1) | (pairs - 1) << 16}))
        assert cqe.status == OK, cqe
        return (cqe.result & 0xFFFF) + 1, (cqe.result >> 16) + 1

    def create_pair(self, qid: int, depth: int, *, cq_depth: int | None = None, cqid: int | None = None) -> Queue:
        """A contiguous SQ on a CQ of its own, or on the CQ `cqid` that exists."""
        cq_depth = cq_depth or depth
        sq = self.ring_memory(depth * 64)
        if cqid is None:
            cq = self.ring_memory(cq_depth * 16)
            made = self.admin(sqe(0x05, prp1=cq.bus(0), dwords={10: (cq_depth - 1) << 16 | qid, 11: 1}))
            assert made.status == OK, made
        else:
            cq = self.queues[cqid].cq
        target = qid if cqid is None else cqid
        made = self.admin(sqe(0x01, prp1=sq.bus(0), dwords={10: (depth - 1) << 16 | qid, 11: target << 16 | 1}))
        assert made.status == OK, made
        queue = Queue(qid, depth, cq_depth, sq, cq, target)
        self.queues[qid] = queue
        return queue

    # -- commands --

    def send(self, qid: int, entries: list[bytes], *, ring: bool = True, keep_cids: bool = False) -> list[int]:
        """Puts SQEs behind the tail, with fresh CIDs, and rings once."""
        queue = self.queues[qid]
        cids = []
        for entry in entries:
            cid = struct.unpack_from("<H", entry, 2)[0] if keep_cids else queue.next_cid
            if not keep_cids:
                queue.next_cid = (queue.next_cid + 1) % 0xFFFF
            queue.sq.put(queue.tail * 64, entry[:2] + struct.pack("<H", cid) + entry[4:])
            queue.tail = (queue.tail + 1) % queue.depth
            cids.append(cid)
        if ring:
            self.ring(qid)
        return cids

    def ring(self, qid: int) -> None:
        self.store(self.doorbell(qid), self.queues[qid].tail)

    def poll(self, qid: int, *, ring: bool = True) -> list[Cqe]:
        """CQEs that are there now, of the CQ of queue `qid`."""
        queue = self.queues[self.queues[qid].cqid]
        found = []
        while len(found) < queue.cq_depth:
            last = self._load(queue.cq.address + queue.head * 16 + 12)
            if last >> 16 & 1 != queue.phase:
                break
            result, _, ids, _ = struct.unpack("<4I", queue.cq.get(queue.head * 16, 16))
            found.append(
                Cqe(
                    result=result,
                    sqhd=ids & 0xFFFF,
                    sqid=ids >> 16,
                    cid=last & 0xFFFF,
                    status=(last >> 25 & 7, last >> 17 & 0xFF),
                    crd=last >> 28 & 3,
                    dnr=bool(last >> 31),
                )
            )
            queue.head += 1
            if queue.head == queue.cq_depth:
                queue.head, queue.phase = 0, 1 - queue.phase
        if found and ring:
            self.store(self.doorbell(queue.qid, cq=True), queue.head)
        return found

    def collect(self, qid: int, count: int, timeout: float | None = None) -> list[Cqe]:
        """Waits for `count` CQEs; fewer when they do not come in time."""
        found: list[Cqe] = []

        def enough() -> bool:
            found.extend(self.poll(qid))
            return len(found) >= count

        self.wait(enough, timeout)
        return found

    def run(self, qid: int, entry: bytes) -> Cqe:
        """One command, start to end."""
        [cid] = self.send(qid, [entry])
        found = self.collect(qid, 1)
        assert len(found) == 1, f"no completion of {entry.hex()}"
        assert found[0].cid == cid
        return found[0]

    def admin(self, entry: bytes) -> Cqe:
        return self.run(0, entry)

    def io(self, entry: bytes) -> Cqe:
        return self.run(1, entry)

    def identify(self, cns: int, nsid: int = 0, *, csi: int = 0) -> tuple[Cqe, bytes]:
        page = self.allocate(PAGE)
        page.put(0, b"\xa5" * PAGE)
        cqe = self.admin(sqe(0x06, nsid=nsid, prp1=page.bus(0), dwords={10: cns, 11: csi << 24}))
        return cqe, page.get(0, PAGE)

    def close(self) -> None:
        for memory in self.memory:
            memory.close()


@contextmanager
def running(config: ControllerConfig, *, threads: int = 1, queues: int = 1, depth: int = 64) -> Iterator[Host]:
    """A controller in threads, enabled, with `queues` I/O queue pairs of ids 1..queues."""
    with SoftwareController(config) as drive:
        host = Host(drive)
        drive.start(threads)
        try:
            host.enable()
            if queues:
                host.set_queue_count(queues)
            for qid in range(1, queues + 1):
                host.create_pair(qid, depth)
            yield host
        finally:
            drive.stop()


def small(**changes: Any) -> ControllerConfig:
    """One memory namespace of 4096 blocks of 512 bytes; fields of the namespace as `ns_...`."""
    of_namespace = {name[3:]: changes.pop(name) for name in list(changes) if name.startswith("ns_")}
    namespace = MemoryNamespace(**{"nsid": 1, "lba_shift": 9, "blocks": 4096, **of_namespace})
    return ControllerConfig(namespaces=(namespace,), **changes)


def block_descriptor(address: int, length: int, kind: int = 0, subtype: int = 0) -> bytes:
    """One SGL descriptor."""
    return struct.pack("<QI3xB", address, length, kind << 4 | subtype)


def pattern(nbytes: int, seed: int) -> bytes:
    """Bytes that differ from seed to seed and from place to place."""
    out = bytearray()
    state = (seed * 0x9E3779B97F4A7C15 + 1) & (2**64 - 1)
    while len(out) < nbytes:
        state = (state * 6364136223846793005 + 1442695040888963407) & (2**64 - 1)
        out += struct.pack("<Q", state ^ state >> 29)
    return bytes(out[:nbytes])

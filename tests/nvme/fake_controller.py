"""A small controller for the handle's tests, written from the specification's text: it uses no codec of the package.

It runs on the caller's thread: a doorbell only records, `pause()` lets a millisecond of its clock pass and serves what
was recorded. So every wait of the handle is exact, and a lost answer costs no real time.
"""

from __future__ import annotations

import ctypes
import struct
from collections.abc import Callable
from dataclasses import dataclass, field

from tutti_hal.nvme.handle import ControllerHandle, HandleOptions

MS = 1_000_000
ONES = 0xFFFF_FFFF


class FakeMemory:
    """Host memory whose pages lie at bus addresses that are not the host's."""

    def __init__(self, bus: FakeBus, nbytes: int, contiguous: bool, alignment: int) -> None:
        page = max(4096, alignment)
        self.nbytes = -(-nbytes // page) * page
        self._raw = ctypes.create_string_buffer(self.nbytes + page)
        base = ctypes.addressof(self._raw)
        self.address = (base + page - 1) // page * page
        self.runs: list[tuple[int, int]] = []
        step = self.nbytes if contiguous else page
        for at in range(0, self.nbytes, step):
            where = bus.take(step, page)
            bus.ranges.append((where, step, self.address + at))
            self.runs.append((where, step))
        self._bus = bus
        self.closed = False
        bus.live.append(self)

    def read(self, offset: int, nbytes: int) -> bytes:
        assert 0 <= offset <= offset + nbytes <= self.nbytes
        assert not self.closed
        return ctypes.string_at(self.address + offset, nbytes)

    def write(self, offset: int, data: bytes) -> None:
        assert 0 <= offset <= offset + len(data) <= self.nbytes
        assert not self.closed
        ctypes.memmove(self.address + offset, data, len(data))

    def load32(self, offset: int) -> int:
        assert offset % 4 == 0
        return int(struct.unpack("<I", self.read(offset, 4))[0])

    def close(self) -> None:
        assert not self.closed, "closed twice"
        self.closed = True
        self._bus.live.remove(self)
        starts = {bus for bus, _ in self.runs}
        self._bus.ranges = [r for r in self._bus.ranges if r[0] not in starts]


class FakeBus:
    """Hands memory out and translates bus addresses."""

    def __init__(self) -> None:
        self.ranges: list[tuple[int, int, int]] = []
        self.live: list[FakeMemory] = []
        self._next = 0x7_0000_0000
        #: Ignore the wish for contiguous memory, as an allocator without any would.
        self.scatter = False
        self.fail_after: int | None = None

    def take(self, nbytes: int, alignment: int) -> int:
        where = -(-self._next // alignment) * alignment
        # A hole after each piece: touching runs would hide a mix-up.
        self._next = where + nbytes + alignment
        return where

    def allocate(self, nbytes: int, *, contiguous: bool = False, alignment: int = 4096) -> FakeMemory:
        if self.fail_after is not None:
            if self.fail_after == 0:
                raise MemoryError("no DMA memory")
            self.fail_after -= 1
        return FakeMemory(self, nbytes, contiguous and not self.scatter, alignment)

    def host(self, bus: int, nbytes: int) -> int:
        for start, length, host in self.ranges:
            if start <= bus and bus + nbytes <= start + length:
                return host + bus - start
        raise AssertionError(f"DMA outside of all memory: {nbytes} bytes at {bus:#x}")

    def read(self, bus: int, nbytes: int) -> bytes:
        return ctypes.string_at(self.host(bus, nbytes), nbytes)

    def write(self, bus: int, data: bytes) -> None:
        ctypes.memmove(self.host(bus, len(data)), data, len(data))


@dataclass
class Queue:
    """One queue as the device sees it."""

    address: Callable[[int, int], int]  # (byte offset, length) -> bus
    depth: int
    head: int = 0
    tail: int = 0
    phase: int = 1
    cqid: int = 0


@dataclass
class FakeController:
    """The knobs are fields; what was seen is in the lists at the end."""

    bus: FakeBus = field(default_factory=FakeBus)
    mqes: int = 1023
    cqr: int = 1
    to: int = 2
    dstrd: int = 0
    mpsmin: int = 0
    mpsmax: int = 4
    css: int = 0x01
    vs: int = 0x0001_0400
    ready_after_ms: int = 5
    not_ready_after_ms: int = 5
    stuck_not_ready: bool = False
    stuck_ready: bool = False
    fail_on_enable: bool = False
    shutdown_after_ms: int = 3
    stuck_shutdown: bool = False
    granted: int = 8
    #: Grant so many completion queues; None: as many as submission queues.
    granted_cq: int | None = None
    refuse_queues: bool = False
    namespaces: dict[int, bytes] = field(default_factory=dict)
    identify: bytes = b""
    nvm_identify: bytes | None = None
    aerl: int = 3
    #: (opcode) -> never answered.
    lost: set[int] = field(default_factory=set)
    #: opcode -> (sct, sc, dnr): answered with this status.
    failing: dict[int, tuple[int, int, int]] = field(default_factory=dict)
    base: int | None = 0x5000_0000
    crto: int = 0

    def __post_init__(self) -> None:
        self.now = 0
        self.cc = 0
        self.aqa = self.asq = self.acq = 0
        self.rdy = 0
        self.cfs = 0
        self.shst = 0
        self.gone = False
        self._timers: list[tuple[int, Callable[[], None]]] = []
        self.sqs: dict[int, Queue] = {}
        self.cqs: dict[int, Queue] = {}
        self.log: list[tuple[int, int]] = []  # (opcode, cdw10)
        self.stores: list[tuple[int, int]] = []
        self.store_times: list[int] = []
        self.features: dict[int, int] = {}
        self.held: list[tuple[int, int]] = []  # outstanding event requests: (cid, sqid)
        self.withheld: list[int] = []  # cids of lost commands
        if not self.identify:
            self.identify = self.make_identify()

    # ---- identify data ----

    def make_identify(self, **patch: bytes) -> bytes:
        data = bytearray(4096)
        data[0:4] = struct.pack("<HH", 0x1B36, 0x1AF4)
        data[4:24] = b"FAKE0001".ljust(20)
        data[24:64] = b"Fake NVMe controller".ljust(40)
        data[64:72] = b"1.0".ljust(8)
        data[77] = 5
        struct.pack_into("<I", data, 80, self.vs)
        data[111] = 1
        data[259] = self.aerl
        data[512] = 0x66
        data[513] = 0x44
        struct.pack_into("<I", data, 516, 256)
        struct.pack_into("<H", data, 520, 0b1000_1101)
        data[525] = 0b111
        struct.pack_into("<I", data, 536, 1 | 1 << 16)
        for at, piece in patch.items():
            offset = int(at[1:])
            data[offset : offset + len(piece)] = piece
        return bytes(data)

    @staticmethod
    def make_namespace(blocks: int, lbads: int = 12, ms: int = 0, inline: bool = False) -> bytes:
        data = bytearray(4096)
        struct.pack_into("<QQQ", data, 0, blocks, blocks, blocks)
        data[25] = 1
        data[26] = 1 | (16 if inline else 0)
        struct.pack_into("<HBB", data, 132, ms, lbads, 0)
        struct.pack_into("<H", data, 46, 32)
        return bytes(data)

    # ---- registers ----

    @property
    def address(self) -> int | None:
        return self.base

    def now_ns(self) -> int:
        return self.now

    def _cap(self) -> int:
        return (
            self.mqes
            | self.cqr << 16
            | self.to << 24
            | self.dstrd << 32
            | self.css << 37
            | self.mpsmin << 48
            | self.mpsmax << 52
            | (1 if self.crto else 0) << 59
        )

    def load32(self, offset: int) -> int:
        if self.gone:
            return ONES
        cap = self._cap()
        values = {
            0x00: cap & ONES,
            0x04: cap >> 32,
            0x08: self.vs,
            0x14: self.cc,
            0x1C: self.rdy | self.cfs << 1 | self.shst << 2,
            0x24: self.aqa,
            0x28: self.asq & ONES,
            0x2C: self.asq >> 32,
            0x30: self.acq & ONES,
            0x34: self.acq >> 32,
            0x68: self.crto,
        }
        return values[offset]

    def store32(self, offset: int, value: int) -> None:
        assert 0 <= value <= ONES
        self.stores.append((offset, value))
        self.store_times.append(self.now)
        if self.gone:
            return
        if offset >= 0x1000:
            self._ring(offset - 0x1000, value)
            return
        match offset:
            case 0x14:
                self._configure(value)
            case 0x24:
                assert not self.cc & 1, "AQA written while enabled"
                self.aqa = value
            case 0x28:
                self.asq = self.asq & ~ONES | value
            case 0x2C:
                self.asq = self.asq & ONES | value << 32
            case 0x30:
                self.acq = self.acq & ~ONES | value
            case 0x34:
                self.acq = self.acq & ONES | value << 32
            case _:
                raise AssertionError(f"store to {offset:#x}")

    def _after(self, ms: int, what: Callable[[], None]) -> None:
        self._timers.append((self.now + ms * MS, what))

    def _configure(self, value: int) -> None:
        old, self.cc = self.cc, value
        if value & 1 and not old & 1:
            assert not self.rdy, "EN set while RDY is 1: undefined by the specification"
            assert value & ~1 == old, "the other fields must be there before EN is set"
            mps = value >> 7 & 15
            assert self.mpsmin <= mps <= self.mpsmax, "MPS out of range"
            assert value >> 16 & 15 == 6
            assert value >> 20 & 15 == 4
            self._timers.clear()
            if self.fail_on_enable:
                self._after(1, lambda: setattr(self, "cfs", 1))
            elif not self.stuck_not_ready:
                self._after(self.ready_after_ms, self._become_ready)
        elif old & 1 and not value & 1:
            self._timers.clear()
            if not self.stuck_ready:
                self._after(self.not_ready_after_ms, self._stop)
        elif value >> 14 & 3 and not self.stuck_shutdown:
            self.shst = 1
            self._after(self.shutdown_after_ms, lambda: setattr(self, "shst", 2))

    def _become_ready(self) -> None:
        page = 1 << 12 + (self.cc >> 7 & 15)
        assert self.asq % page == 0
        assert self.acq % page == 0
        asq, acq = self.asq, self.acq
        self.sqs = {0: Queue(lambda o, _n: asq + o, (self.aqa & 0xFFF) + 1)}
        self.cqs = {0: Queue(lambda o, _n: acq + o, (self.aqa >> 16 & 0xFFF) + 1)}
        self.rdy = 1

    def _stop(self) -> None:
        self.rdy = self.cfs = self.shst = 0
        self.sqs.clear()
        self.cqs.clear()
        self.held.clear()

    def pause(self) -> None:
        self.now += MS
        due = [what for at, what in self._timers if at <= self.now]
        self._timers = [t for t in self._timers if t[0] > self.now]
        for what in due:
            what()
        self.serve()

    # ---- queues ----

    def _ring(self, offset: int, value: int) -> None:
        stride = 4 << self.dstrd
        assert offset % stride == 0, "not a doorbell"
        qid, is_cq = divmod(offset // stride, 2)
        queue = (self.cqs if is_cq else self.sqs)[qid]
        assert 0 <= value < queue.depth, "doorbell beyond the queue"
        if is_cq:
            queue.head = value
        else:
            queue.tail = value

    def serve(self) -> None:
        if not self.rdy or self.cfs or self.gone or not self.sqs:
            return
        admin = self.sqs[0]
        while admin.head != admin.tail:
            sqe = self.bus.read(admin.address(admin.head * 64, 64), 64)
            admin.head = (admin.head + 1) % admin.depth
            self._admin(sqe)

    def complete(self, cid: int, sct: int = 0, sc: int = 0, result: int = 0, dnr: int = 0) -> None:
        cq = self.cqs[0]
        following = (cq.tail + 1) % cq.depth
        assert following != cq.head, "completion queue overrun"
        status = sc | sct << 8 | dnr << 14
        blob = struct.pack("<IIHHHH", result, 0, self.sqs[0].head, 0, cid, status << 1 | cq.phase)
        at = cq.address(cq.tail * 16, 16)
        self.bus.write(at, blob[:12])
        self.bus.write(at + 12, blob[12:])
        cq.tail = following
        if cq.tail == 0:
            cq.phase ^= 1

    def _admin(self, sqe: bytes) -> None:
        op, flags, cid, nsid = struct.unpack_from("<BBHI", sqe, 0)
        prp1, _prp2 = struct.unpack_from("<QQ", sqe, 24)
        cdw10, cdw11 = struct.unpack_from("<II", sqe, 40)
        assert flags == 0, "PSDT and FUSE must be zero in admin commands over PCIe"
        self.log.append((op, cdw10))
        if op in self.lost:
            self.withheld.append(cid)
            return
        if op in self.failing:
            sct, sc, dnr = self.failing[op]
            self.complete(cid, sct, sc, dnr=dnr)
            return
        match op:
            case 0x06:
                self._identify(cid, cdw10 & 0xFF, nsid, cdw11 >> 24, prp1)
            case 0x09:
                self._set_feature(cid, cdw10 & 0xFF, cdw11)
            case 0x0A:
                self.complete(cid, result=self.features.get(cdw10 & 0xFF, 0))
            case 0x05:
                self._create_cq(cid, cdw10, cdw11, prp1)
            case 0x01:
                self._create_sq(cid, cdw10, cdw11, prp1)
            case 0x00:
                known = self.sqs.pop(cdw10 & 0xFFFF, None)
                self.complete(cid, *(() if known else (1, 1)))
            case 0x04:
                self._delete_cq(cid, cdw10 & 0xFFFF)
            case 0x08:
                self.complete(cid, result=1)
            case 0x0C:
                if len(self.held) > self.aerl:
                    self.complete(cid, 1, 5)
                else:
                    self.held.append((cid, 0))
            case 0x02:
                numd = (cdw10 >> 16 | (cdw11 & 0xFFFF) << 16) + 1
                self.bus.write(prp1, bytes((cdw10 & 0xFF,)) * (4 * numd))
                self.complete(cid)
            case _:
                self.complete(cid, 0, 1, dnr=1)

    def _identify(self, cid: int, cns: int, nsid: int, csi: int, prp1: int) -> None:
        data: bytes | None = None
        match cns:
            case 0:
                if not 1 <= nsid <= 256:
                    self.complete(cid, 0, 0x0B, dnr=1)
                    return
                data = self.namespaces.get(nsid, bytes(4096))
            case 1:
                data = self.identify
            case 2:
                active = sorted(n for n, d in self.namespaces.items() if n > nsid and any(d))
                data = struct.pack(f"<{len(active[:1024])}I", *active[:1024]).ljust(4096, b"\0")
            case 6 if csi == 0:
                data = self.nvm_identify
        if data is None:
            self.complete(cid, 0, 2, dnr=1)
            return
        self.bus.write(prp1, data)
        self.complete(cid)

    def _set_feature(self, cid: int, fid: int, value: int) -> None:
        if fid != 7:
            self.features[fid] = value
            self.complete(cid)
            return
        if len(self.cqs) > 1:
            self.complete(cid, 0, 0x0C, dnr=1)
        elif self.refuse_queues or value & 0xFFFF == 0xFFFF or value >> 16 == 0xFFFF:
            self.complete(cid, 0, 2, dnr=1)
        else:
            ncq = self.granted if self.granted_cq is None else self.granted_cq
            self.features[7] = (ncq - 1) << 16 | self.granted - 1
            self.complete(cid, result=self.features[7])

    def _queue(self, cid: int, cdw10: int, pc: int, prp1: int, entry: int) -> Queue | None:
        qid, depth = cdw10 & 0xFFFF, (cdw10 >> 16) + 1
        page = 1 << 12 + (self.cc >> 7 & 15)
        if 7 not in self.features or not 1 <= qid <= self.granted:
            self.complete(cid, 1, 1, dnr=1)
        elif not 2 <= depth <= self.mqes + 1:
            self.complete(cid, 1, 2, dnr=1)
        elif self.cqr and not pc:
            self.complete(cid, 0, 2, dnr=1)
        elif prp1 % page:
            self.complete(cid, 0, 0x13, dnr=1)
        elif pc:
            return Queue(lambda o, _n: prp1 + o, depth)
        else:
            pages = -(-depth * entry // page)
            listing = struct.unpack(f"<{pages}Q", self.bus.read(prp1, 8 * pages))
            assert all(p % page == 0 for p in listing)
            return Queue(lambda o, _n: listing[o // page] + o % page, depth)
        return None

    def _create_cq(self, cid: int, cdw10: int, cdw11: int, prp1: int) -> None:
        qid = cdw10 & 0xFFFF
        if qid in self.cqs:
            self.complete(cid, 1, 1, dnr=1)
            return
        queue = self._queue(cid, cdw10, cdw11 & 1, prp1, 16)
        if queue is not None:
            for k in range(queue.depth):
                assert self.bus.read(queue.address(16 * k, 16), 16) == bytes(16), "CQ memory not zeroed"
            self.cqs[qid] = queue
            self.complete(cid)

    def _create_sq(self, cid: int, cdw10: int, cdw11: int, prp1: int) -> None:
        qid, cqid = cdw10 & 0xFFFF, cdw11 >> 16
        if cqid not in self.cqs or cqid == 0:
            self.complete(cid, 1, 0, dnr=1)
            return
        if qid in self.sqs:
            self.complete(cid, 1, 1, dnr=1)
            return
        queue = self._queue(cid, cdw10, cdw11 & 1, prp1, 64)
        if queue is not None:
            queue.cqid = cqid
            self.sqs[qid] = queue
            self.complete(cid)

    def _delete_cq(self, cid: int, qid: int) -> None:
        if qid not in self.cqs or qid == 0:
            self.complete(cid, 1, 1, dnr=1)
        elif any(q.cqid == qid for k, q in self.sqs.items() if k):
            self.complete(cid, 1, 0x0C, dnr=1)
        else:
            del self.cqs[qid]
            self.complete(cid)

    def event(self, result: int) -> None:
        cid, _ = self.held.pop(0)
        self.complete(cid, result=result)


def opened(fake: FakeController, **options: int) -> ControllerHandle:
    """The handle under test, over a fake."""
    return ControllerHandle.open(fake, fake.bus, HandleOptions(**options))

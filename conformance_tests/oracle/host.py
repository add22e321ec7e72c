"""A host that drives one controller by the suite's own encodings: registers, queues, commands."""

from __future__ import annotations

import ctypes
import struct
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from tutti_hal.conformance_tests.errors import DriveSilent
from tutti_hal.conformance_tests.oracle.nvme import (
    ACQ,
    AQA,
    ASQ,
    CAP,
    CC,
    CC_ENTRY_SIZES,
    CQE_BYTES,
    CREATE_CQ,
    CREATE_SQ,
    CSTS,
    IDENTIFY,
    OK,
    PAGE,
    SET_FEATURES,
    SQE_BYTES,
    Cqe,
    doorbell_offset,
    sqe,
)

if TYPE_CHECKING:
    from tutti_hal.nvme.software import SoftwareController

_POLL_S = 0.00002


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

    def bus(self, offset: int = 0) -> int:
        """The bus address of byte ``offset``."""
        for bus, length in self.runs:
            if offset < length:
                return bus + offset
            offset -= length
        raise IndexError(offset)

    def pages(self) -> list[int]:
        """Bus addresses of its 4 KiB pages, in the order of its bytes."""
        return [bus + at for bus, length in self.runs for at in range(0, length, PAGE)]

    def put(self, offset: int, data: bytes) -> None:
        """Copy bytes in."""
        self.view[offset : offset + len(data)] = data

    def get(self, offset: int, nbytes: int) -> bytes:
        """Copy bytes out."""
        return bytes(self.view[offset : offset + nbytes])

    def word(self, offset: int) -> int:
        """One double word, in one piece."""
        return ctypes.c_uint32.from_address(self.address + offset).value

    def close(self) -> None:
        """Give it back."""
        self._dma.close()


@dataclass
class Queue:
    """An SQ and its CQ (or an SQ on another's CQ), as the host keeps them."""

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
    """Drives one controller.

    Args:
        drive: running, or stepped by ``pause``.
        load, store: of a register or a word of queue memory, by address; plain accesses by default.
        pause: what a wait does in each turn: sleep, or step a simulated world.
        timeout: seconds after which a wait gives up.
    """

    def __init__(
        self,
        drive: SoftwareController,
        *,
        load: Callable[[int], int] | None = None,
        store: Callable[[int, int], None] | None = None,
        pause: Callable[[], Any] | None = None,
        timeout: float = 20.0,
    ) -> None:
        self.drive = drive
        self._load = load or (lambda address: int(ctypes.c_uint32.from_address(address).value))
        self._store = store or _plain_store
        self._pause = pause or (lambda: time.sleep(_POLL_S))
        self._timeout = timeout
        self.page = PAGE
        self.queues: dict[int, Queue] = {}
        self.memory: list[Memory] = []

    # ---- registers ----

    def load(self, offset: int) -> int:
        """Read a register."""
        return self._load(self.drive.bar_address + offset)

    def store(self, offset: int, value: int) -> None:
        """Write a register."""
        self._store(self.drive.bar_address + offset, value)

    def load64(self, offset: int) -> int:
        """Read two registers as one."""
        return self.load(offset) | self.load(offset + 4) << 32

    def store64(self, offset: int, value: int) -> None:
        """Write two registers, the lower first."""
        self.store(offset, value & 0xFFFFFFFF)
        self.store(offset + 4, value >> 32)

    def doorbell(self, qid: int, *, cq: bool = False) -> int:
        """The offset of a queue's doorbell."""
        return doorbell_offset(qid, self.load(CAP + 4) & 0xF, cq=cq)

    def wait(self, condition: Callable[[], Any], timeout: float | None = None) -> Any:
        """Until the condition holds; its value, None when it does not in time."""
        deadline = time.monotonic() + (self._timeout if timeout is None else timeout)
        while True:
            value = condition()
            if value:
                return value
            if time.monotonic() > deadline:
                return None
            self._pause()

    def require(self, what: str, condition: Callable[[], Any]) -> None:
        """Wait for a condition.

        Raises:
            DriveSilent: it does not come.
        """
        if not self.wait(condition):
            raise DriveSilent(f"wait until {what}", "it did not happen in time", "Look at what the drive was asked.")

    # ---- memory ----

    def allocate(self, nbytes: int, *, contiguous: bool = False, alignment: int = PAGE) -> Memory:
        """Memory that the controller reaches, in pieces on the bus unless ``contiguous``."""
        memory = Memory(self.drive, nbytes, contiguous=contiguous, alignment=alignment)
        self.memory.append(memory)
        return memory

    def ring_memory(self, nbytes: int) -> Memory:
        """Contiguous, aligned to the memory page size."""
        return self.allocate(nbytes, contiguous=True, alignment=self.page)

    # ---- bring-up ----

    def enable(self, *, depth: int = 32, mps: int = 0, cc: int = CC_ENTRY_SIZES) -> None:
        """Disable, admin queues, enable, wait for RDY.

        Raises:
            DriveSilent: RDY does not follow, or CFS is set instead.
        """
        self.store(CC, 0)
        # CFS too: the registers are polled, and a fatal state of before may still show.
        self.require("RDY and CFS are clear", lambda: self.load(CSTS) & 3 == 0)
        self.page = PAGE << mps
        sq = self.ring_memory(depth * SQE_BYTES)
        cq = self.ring_memory(depth * CQE_BYTES)
        self.store(AQA, (depth - 1) | (depth - 1) << 16)
        self.store64(ASQ, sq.bus())
        self.store64(ACQ, cq.bus())
        self.queues = {0: Queue(0, depth, depth, sq, cq, 0)}
        self.store(CC, cc | mps << 7 | 1)
        self.require("RDY or CFS is set", lambda: self.load(CSTS) & 3)
        if self.load(CSTS) & 3 != 1:
            raise DriveSilent("enable the drive", "CSTS.CFS is set", "Look at what it was configured with.")

    def set_queue_count(self, pairs: int) -> tuple[int, int]:
        """Set Features 07h: (SQs, CQs) granted."""
        cqe = self.demand(sqe(SET_FEATURES, dwords={10: 7, 11: (pairs - 1) | (pairs - 1) << 16}))
        return (cqe.result & 0xFFFF) + 1, (cqe.result >> 16) + 1

    def create_pair(self, qid: int, depth: int, *, cq_depth: int | None = None, cqid: int | None = None) -> Queue:
        """A contiguous SQ on a CQ of its own, or on the CQ ``cqid`` that exists."""
        cq_depth = cq_depth or depth
        sq = self.ring_memory(depth * SQE_BYTES)
        target = qid if cqid is None else cqid
        if cqid is None:
            cq = self.ring_memory(cq_depth * CQE_BYTES)
            self.demand(sqe(CREATE_CQ, prp1=cq.bus(), dwords={10: (cq_depth - 1) << 16 | qid, 11: 1}))
        else:
            cq = self.queues[cqid].cq
        self.demand(sqe(CREATE_SQ, prp1=sq.bus(), dwords={10: (depth - 1) << 16 | qid, 11: target << 16 | 1}))
        queue = Queue(qid, depth, cq_depth, sq, cq, target)
        self.queues[qid] = queue
        return queue

    # ---- commands ----

    def send(self, qid: int, entries: Sequence[bytes], *, ring: bool = True, keep_cids: bool = False) -> list[int]:
        """Put SQEs behind the tail, with fresh CIDs unless they are kept, and ring once."""
        queue = self.queues[qid]
        cids = []
        for entry in entries:
            cid = struct.unpack_from("<H", entry, 2)[0] if keep_cids else queue.next_cid
            if not keep_cids:
                queue.next_cid = (queue.next_cid + 1) % 0xFFFF
            queue.sq.put(queue.tail * SQE_BYTES, entry[:2] + struct.pack("<H", cid) + entry[4:])
            queue.tail = (queue.tail + 1) % queue.depth
            cids.append(cid)
        if ring:
            self.ring(qid)
        return cids

    def ring(self, qid: int) -> None:
        """Write a queue's tail doorbell."""
        self.store(self.doorbell(qid), self.queues[qid].tail)

    def poll(self, qid: int, *, ring: bool = True) -> list[Cqe]:
        """CQEs that are there now, of the CQ of queue ``qid``."""
        queue = self.queues[self.queues[qid].cqid]
        found: list[Cqe] = []
        while len(found) < queue.cq_depth:
            last = self._load(queue.cq.address + queue.head * CQE_BYTES + 12)
            if last >> 16 & 1 != queue.phase:
                break
            entry = queue.cq.get(queue.head * CQE_BYTES, 12) + struct.pack("<I", last)
            found.append(Cqe.decode(entry))
            queue.head += 1
            if queue.head == queue.cq_depth:
                queue.head, queue.phase = 0, 1 - queue.phase
        if found and ring:
            self.store(self.doorbell(queue.qid, cq=True), queue.head)
        return found

    def collect(self, qid: int, count: int, timeout: float | None = None) -> list[Cqe]:
        """Wait for ``count`` CQEs; fewer when they do not come in time."""
        found: list[Cqe] = []

        def enough() -> bool:
            found.extend(self.poll(qid))
            return len(found) >= count

        self.wait(enough, timeout)
        return found

    def run(self, qid: int, entry: bytes) -> Cqe:
        """One command, start to end.

        Raises:
            DriveSilent: it is not completed, or another command is.
        """
        [cid] = self.send(qid, [entry])
        found = self.collect(qid, 1)
        if [one.cid for one in found] != [cid]:
            raise DriveSilent(
                f"run the command {entry[:4].hex()} on queue {qid}",
                f"completions of {[one.cid for one in found]} came, not of {cid}",
                "Look at what the drive posted.",
            )
        return found[0]

    def demand(self, entry: bytes) -> Cqe:
        """An admin command that must succeed.

        Raises:
            DriveSilent: it did not.
        """
        cqe = self.admin(entry)
        if cqe.status != OK:
            raise DriveSilent(
                f"run the admin command {entry[:4].hex()}", f"status {cqe.status}", "Look at what the drive was asked."
            )
        return cqe

    def admin(self, entry: bytes) -> Cqe:
        """One admin command."""
        return self.run(0, entry)

    def io(self, entry: bytes) -> Cqe:
        """One command on I/O queue 1."""
        return self.run(1, entry)

    def identify(self, cns: int, nsid: int = 0, *, csi: int = 0) -> tuple[Cqe, bytes]:
        """Identify into a page that holds another pattern before."""
        page = self.allocate(PAGE)
        page.put(0, b"\xa5" * PAGE)
        cqe = self.admin(sqe(IDENTIFY, nsid=nsid, prp1=page.bus(), dwords={10: cns, 11: csi << 24}))
        return cqe, page.get(0, PAGE)

    def close(self) -> None:
        """Give all memory back."""
        for memory in self.memory:
            memory.close()


def _plain_store(address: int, value: int) -> None:
    ctypes.c_uint32.from_address(address).value = value

"""The admin queue: one command at a time, and Asynchronous Event Requests beside them."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from tutti_hal.errors import CommandFailed, ControllerTimeout, QueueInvalid
from tutti_hal.nvme.cqe import CQE_BYTES, Cqe
from tutti_hal.nvme.opcodes import AdminOpcode
from tutti_hal.nvme.registers import cq_head_offset, sq_tail_offset
from tutti_hal.nvme.sqe import CID_FORBIDDEN, SQE_BYTES, Sqe

if TYPE_CHECKING:
    from tutti_hal.nvme.bringup import RegisterAccess
    from tutti_hal.nvme.memory import DmaMemory

#: AQA has 12 bits, 0-based.
MAX_ADMIN_DEPTH = 4096


def contiguous_bus(memory: DmaMemory, nbytes: int, alignment: int, what: str) -> int:
    """The bus address of memory that must be one aligned run.

    Raises:
        QueueInvalid: too small, in pieces, or misaligned.
    """
    bus, length = memory.runs[0]
    if length < nbytes:
        raise QueueInvalid(
            f"place {what}",
            f"{nbytes} bytes needed, {len(memory.runs)} runs of which the first has {length}",
            "Allocate it contiguous on the bus.",
        )
    if bus % alignment:
        raise QueueInvalid(f"place {what}", f"bus address {bus:#x}", f"Align it to {alignment} bytes.")
    return bus


class AdminQueue:
    """Submission and completion queue 0.

    Not thread safe. The caller owns the memory and keeps it until the controller is disabled. Commands that ran into
    their deadline keep their CID for good: a completion that comes late is counted in `late`, never believed.

    Args:
        access: the registers.
        sq: memory of the submission queue, `depth` x 64 bytes.
        cq: memory of the completion queue, `depth` x 16 bytes.
        depth: entries of both.
        dstrd: CAP.DSTRD.
    """

    def __init__(self, access: RegisterAccess, sq: DmaMemory, cq: DmaMemory, depth: int, dstrd: int) -> None:
        if not 2 <= depth <= MAX_ADMIN_DEPTH:
            raise QueueInvalid("create the admin queue", f"{depth} entries", f"It has 2 to {MAX_ADMIN_DEPTH} entries.")
        self._access = access
        self._sq = sq
        self._cq = cq
        self.depth = depth
        self._tail_doorbell = sq_tail_offset(0, dstrd)
        self._head_doorbell = cq_head_offset(0, dstrd)
        self._tail = 0
        self._sq_head = 0
        self._cq_head = 0
        self._phase = True
        self._next_cid = 0
        self._waiting: dict[int, str] = {}
        self._done: dict[int, Cqe] = {}
        self._quarantined: set[int] = set()
        #: Completions of commands that had run into their deadline.
        self.late = 0
        #: Completions that belong to no command.
        self.unexpected = 0
        # A stale entry of an earlier life must not look new: the first pass of the controller writes phase 1.
        cq.write(0, bytes(depth * CQE_BYTES))

    @property
    def outstanding(self) -> int:
        """Commands submitted and not completed, event requests among them."""
        return len(self._waiting)

    def submit(self, sqe: Sqe, tried: str) -> int:
        """Writes one command and rings; returns its CID at once.

        Raises:
            QueueInvalid: the queue is full.
            ControllerGone: the registers read all ones.
            ControllerFatal: CFS is set.
        """
        self._access.healthy_status(tried)
        self.poll()
        following = (self._tail + 1) % self.depth
        if following == self._sq_head or len(self._waiting) + len(self._quarantined) >= self.depth - 1:
            raise QueueInvalid(
                tried, f"the admin queue is full ({self.depth} entries)", "Wait for completions, or open it deeper."
            )
        cid = self._take_cid()
        self._sq.write(self._tail * SQE_BYTES, replace(sqe, cid=cid).encode())
        self._tail = following
        self._waiting[cid] = tried
        self._access.registers.store32(self._tail_doorbell, self._tail)
        return cid

    def _take_cid(self) -> int:
        while True:
            cid = self._next_cid
            self._next_cid = (cid + 1) % CID_FORBIDDEN
            if cid not in self._waiting and cid not in self._done and cid not in self._quarantined:
                return cid

    def poll(self) -> int:
        """Takes what has completed; returns how many entries that were. Never blocks."""
        found = 0
        while True:
            at = self._cq_head * CQE_BYTES
            # Dword 3 first: it is written last, and only what is read after it belongs to it.
            dword3 = self._cq.load32(at + 12)
            if bool(dword3 >> 16 & 1) != self._phase:
                break
            cqe = Cqe.decode(self._cq.read(at, 12) + dword3.to_bytes(4, "little"))
            self._cq_head += 1
            if self._cq_head == self.depth:
                self._cq_head = 0
                self._phase = not self._phase
            self._take(cqe)
            found += 1
        if found:
            self._access.registers.store32(self._head_doorbell, self._cq_head)
        return found

    def _take(self, cqe: Cqe) -> None:
        if cqe.sqhd < self.depth:
            self._sq_head = cqe.sqhd
        if cqe.cid in self._waiting:
            del self._waiting[cqe.cid]
            self._done[cqe.cid] = cqe
        elif cqe.cid in self._quarantined:
            self._quarantined.discard(cqe.cid)
            self.late += 1
        else:
            self.unexpected += 1

    def result(self, cid: int) -> Cqe | None:
        """Takes the completion of a submitted command, or None while there is none. Never blocks."""
        self.poll()
        return self._done.pop(cid, None)

    def wait(self, cid: int, timeout_ns: int) -> Cqe:
        """Waits for one command.

        Raises:
            CommandFailed: it completed with an error status.
            ControllerTimeout: no completion in time. The controller may still use the command's memory.
            ControllerGone: the registers read all ones.
            ControllerFatal: CFS was set.
        """
        tried = self._waiting.get(cid, "wait for an admin command")
        registers = self._access.registers
        began = registers.now_ns()
        deadline = self._access.deadline_ns(timeout_ns)
        while True:
            late = registers.now_ns() >= deadline
            cqe = self.result(cid)
            if cqe is not None:
                return check(cqe, tried)
            self._access.healthy_status(tried)
            if late:
                self._waiting.pop(cid, None)
                self._quarantined.add(cid)
                raise ControllerTimeout(
                    tried,
                    f"no completion after {max(deadline - began, 0) / 1e9:g} s",
                    "Reset the controller, then try again.",
                )
            registers.pause()

    def execute(self, sqe: Sqe, tried: str, timeout_ns: int) -> Cqe:
        """`submit`, then `wait`; raises what they raise."""
        return self.wait(self.submit(sqe, tried), timeout_ns)


def check(cqe: Cqe, tried: str) -> Cqe:
    """Passes a completion on when it says success.

    Raises:
        CommandFailed: it does not.
    """
    status = cqe.status
    if not status.ok:
        again = "It may be tried again." if status.may_retry else "The same command would fail again."
        raise CommandFailed(
            tried,
            f"{status}: {status.meaning.text}",
            again,
            status_type=status.sct,
            status_code=status.sc,
            do_not_retry=status.dnr,
        )
    return cqe


def describe(sqe: Sqe) -> str:
    """A few words on an admin command, for messages."""
    try:
        name = AdminOpcode(sqe.opcode).name.lower().replace("_", " ")
    except ValueError:
        name = f"admin command {sqe.opcode:02x}h"
    return f"run {name}"

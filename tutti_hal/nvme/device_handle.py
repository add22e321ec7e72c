"""A device controller as a ring sees it: limits, one namespace, queue pairs. There is no admin queue behind it."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING

from tutti_hal.errors import NamespaceInvalid, QueueInvalid, QueuesRefused
from tutti_hal.nvme.cqe import CQE_BYTES
from tutti_hal.nvme.namespace import IdentifyNamespace, LbaFormat
from tutti_hal.nvme.queues import ControllerLimits, NamespaceInfo, QueuePair, check_depth
from tutti_hal.nvme.registers import cq_head_offset, sq_tail_offset
from tutti_hal.nvme.sgl import SglSupport
from tutti_hal.nvme.sqe import SQE_BYTES

if TYPE_CHECKING:
    from tutti_hal.nvme.bus_memory import BusDma, BusMap, BusMemory
    from tutti_hal.nvme.memory import DmaMemory

#: The one namespace.
NSID = 1
PAGE_BYTES = 4096
#: Doorbells lie 32 bytes apart: a sector of a device's cache each.
DSTRD = 3
#: Deepest queue.
MAX_DEPTH = 1 << 16
#: How long a wait of a ring's recovery may take: nothing here is waited for.
_WAIT_NS = 1_000_000_000


class DeviceHandle:
    """Queue pairs and limits of a device controller. Not thread safe.

    Queues are made, and deleted, only while the controller's kernel does not run: memory is allocated and given back,
    and the kernel reads the table of queues once.
    """

    def __init__(
        self, registers: BusMemory, dma: BusDma, bus: BusMap, *, blocks: int, lba_bytes: int, mdts: int, queues: int
    ) -> None:
        """Made by `DeviceController`."""
        self._registers, self._dma, self._bus, self._most = registers, dma, bus, queues
        self._blocks, self._lba_bytes = blocks, lba_bytes
        self._pairs: dict[int, QueuePair] = {}
        self._owned: dict[int, list[DmaMemory]] = {}
        self._granted: int | None = None
        self._deadline_ns: int | None = None
        #: Pairs that were made since the kernel ran last: it begins them at entry 0.
        self.fresh: set[int] = set()
        self.page_bytes = PAGE_BYTES
        self.epoch = 0
        self.limits = ControllerLimits(
            page_bytes=PAGE_BYTES,
            mdts_bytes=mdts,
            max_depth=MAX_DEPTH,
            contiguous_queues=True,
            dstrd=DSTRD,
            sgl=SglSupport(supported=2),
            volatile_write_cache=False,
            flush_all_namespaces=True,
            compare=False,
            write_zeroes=False,
            dataset_management=False,
            verify=False,
            shadow_doorbells=False,
            max_outstanding=None,
            memory_buffer_bytes=0,
        )

    # ---- namespaces ----

    def namespaces(self) -> tuple[int, ...]:
        """The one."""
        return (NSID,)

    def namespace(self, nsid: int) -> NamespaceInfo:
        """What a ring needs to know of it.

        Raises:
            NamespaceInvalid: another one.
        """
        if nsid != NSID:
            raise NamespaceInvalid(f"use namespace {nsid}", "it does not exist", f"Active namespaces: {NSID}.")
        shift = self._lba_bytes.bit_length() - 1
        return NamespaceInfo(
            nsid=NSID,
            lba_bytes=self._lba_bytes,
            metadata_bytes=0,
            metadata_inline=False,
            capacity_lba=self._blocks,
            protection=0,
            boundary_lba=0,
            write_granularity_lba=1,
            write_alignment_lba=1,
            atomic_write_lba=1,
            identify=IdentifyNamespace(
                nsze=self._blocks,
                ncap=self._blocks,
                nuse=self._blocks,
                lbaf=(LbaFormat(lbads=shift), *[LbaFormat()] * 63),
            ),
        )

    # ---- queue pairs ----

    @property
    def pairs(self) -> tuple[QueuePair, ...]:
        """The I/O queue pairs that exist."""
        return tuple(self._pairs.values())

    def grant_queues(self, wanted: int, *, minimum: int = 1) -> int:
        """Asks for I/O queue pairs; returns how many there may be. Before the first queue.

        Raises:
            QueueInvalid: queues exist already.
            QueuesRefused: fewer than `minimum`.
        """
        tried = f"ask for {wanted} I/O queue pairs"
        if self._pairs:
            raise QueueInvalid(tried, f"{len(self._pairs)} pairs exist", "Ask once, before the first queue.")
        granted = min(wanted, self._most)
        if granted < minimum:
            raise QueuesRefused(tried, f"{granted} granted, {minimum} needed", "Use fewer queues, or raise the option.")
        self._granted = granted
        return granted

    def create_queue_pair(
        self,
        depth: int,
        *,
        qid: int | None = None,
        cq_depth: int | None = None,
        sq_memory: DmaMemory | None = None,
        cq_memory: DmaMemory | None = None,
        priority: int = 0,
        completes_to: QueuePair | None = None,
    ) -> QueuePair:
        """Creates a queue pair; the arguments are those of `ControllerHandle.create_queue_pair`.

        Raises:
            DeviceControllerServing: the kernel runs.
            QueueInvalid: a depth, id or memory that does not fit, or a shared completion queue, which there is not.
            QueuesRefused: all that were granted are in use.
        """
        tried = "create a queue pair"
        self._bus.check(tried)
        if completes_to is not None:
            raise QueueInvalid(tried, "the device controller has no shared completion queues", "Use queues_per_cq=1.")
        cq_depth = depth if cq_depth is None else cq_depth
        check_depth(depth, MAX_DEPTH, "a submission queue")
        check_depth(cq_depth, MAX_DEPTH, "a completion queue")
        if self._granted is None:
            self.grant_queues(self._most)
        free = [one for one in range(1, (self._granted or 0) + 1) if one not in self._pairs]
        if not free:
            raise QueuesRefused(tried, f"all {self._granted} are in use", "Delete one first.")
        if qid is not None and qid not in free:
            raise QueueInvalid(f"{tried} {qid}", f"it exists, or is not one of {self._granted}", "Use a free one.")
        qid = free[0] if qid is None else qid
        owned = self._owned.setdefault(qid, [])
        if sq_memory is None:
            owned.append(sq_memory := self._dma.allocate(depth * SQE_BYTES))
        if cq_memory is None:
            owned.append(cq_memory := self._dma.allocate(cq_depth * CQE_BYTES))
        self._require_whole(sq_memory, depth * SQE_BYTES)
        self._require_whole(cq_memory, cq_depth * CQE_BYTES)
        tail, head = sq_tail_offset(qid, DSTRD), cq_head_offset(qid, DSTRD)
        pair = QueuePair(
            qid=qid,
            cqid=qid,
            depth=depth,
            cq_depth=cq_depth,
            priority=priority,
            sq_address=sq_memory.address,
            cq_address=cq_memory.address,
            sq_bus=sq_memory.runs[0][0],
            cq_bus=cq_memory.runs[0][0],
            sq_tail_offset=tail,
            cq_head_offset=head,
            sq_tail_address=self._registers.address + tail,
            cq_head_address=self._registers.address + head,
            epoch=self.epoch,
            sq_memory=sq_memory,
            cq_memory=cq_memory,
        )
        self._begin(pair)
        self._pairs[qid] = pair
        return pair

    def _require_whole(self, memory: DmaMemory, nbytes: int) -> None:
        if len(memory.runs) != 1 or memory.nbytes < nbytes or memory.runs[0][0] % PAGE_BYTES:
            raise QueueInvalid(
                "place a queue",
                f"{memory.nbytes} bytes in {len(memory.runs)} runs at {memory.runs[0][0]:#x}",
                f"Give one run of {nbytes} bytes or more that begins a page.",
            )

    def _begin(self, pair: QueuePair) -> None:
        """A pair as it is before its first command: doorbells at 0, no completion that looks new."""
        pair.cq_memory.write(0, bytes(pair.cq_depth * CQE_BYTES))
        for offset in (pair.sq_tail_offset, pair.cq_head_offset):
            self._registers.write(offset, bytes(4))
        self.fresh.add(pair.qid)

    def _require_pair(self, pair: QueuePair, tried: str) -> None:
        if self._pairs.get(pair.qid) != pair:
            raise QueueInvalid(tried, "it is no pair of this controller any more", "Use one of `pairs`.")

    def delete_queue_pair(self, pair: QueuePair) -> None:
        """Deletes a queue pair, and gives back the memory that was allocated here.

        Raises:
            DeviceControllerServing: the kernel runs.
            QueueInvalid: there is no such pair.
        """
        tried = f"delete queue pair {pair.qid}"
        self._bus.check(tried)
        self._require_pair(pair, tried)
        del self._pairs[pair.qid]
        for memory in self._owned.pop(pair.qid, []):
            memory.close()

    def recreate_queue_pairs(self, pairs: Sequence[QueuePair]) -> list[QueuePair]:
        """Begins pairs anew over the same memory.

        Raises:
            DeviceControllerServing: the kernel runs.
            QueueInvalid: there is no such pair.
        """
        for pair in pairs:
            self._bus.check(f"create queue pair {pair.qid} again")
            self._require_pair(pair, f"create queue pair {pair.qid} again")
        for pair in pairs:
            self._begin(pair)
        return list(pairs)

    def write_cq_head(self, pair: QueuePair, slot: int) -> None:
        """Tells the controller that the completions before a slot were taken.

        Raises:
            QueueInvalid: there is no such pair.
        """
        self._require_pair(pair, f"take completions of queue pair {pair.qid}")
        self._registers.write(pair.cq_head_offset, slot.to_bytes(4, "little"))

    # ---- what recovery asks for ----

    def abort(self, sqid: int, cid: int) -> bool:
        """Never: a command that was fetched is completed in its round."""
        del sqid, cid
        return False

    def reset(self) -> None:
        """Forgets all queue pairs.

        Raises:
            DeviceControllerServing: the kernel runs.
        """
        self._bus.check("reset a device controller")
        for pair in self.pairs:
            self.delete_queue_pair(pair)
        self._granted = None
        self.epoch += 1

    @contextmanager
    def within(self, timeout_ns: int) -> Iterator[None]:
        """Bounds waits inside, in this process's clock."""
        before, end = self._deadline_ns, self.now_ns + timeout_ns
        self._deadline_ns = end if before is None else min(before, end)
        try:
            yield
        finally:
            self._deadline_ns = before

    @property
    def now_ns(self) -> int:
        """The clock of this process."""
        return time.monotonic_ns()

    @property
    def deadline_ns(self) -> int:
        """When waits end."""
        return self.now_ns + _WAIT_NS if self._deadline_ns is None else self._deadline_ns

    def pause(self) -> None:
        """Lets a moment pass."""
        time.sleep(0.0001)

"""I/O queue pairs: asking for them, creating, deleting and re-creating them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from tutti_hal.errors import CommandFailed, QueueInvalid, QueuesRefused
from tutti_hal.nvme import commands, prp
from tutti_hal.nvme.admin import contiguous_bus
from tutti_hal.nvme.admin_commands import AdminCommands
from tutti_hal.nvme.cqe import CQE_BYTES
from tutti_hal.nvme.features import Feature, NumberOfQueues
from tutti_hal.nvme.prp import PrpPair
from tutti_hal.nvme.queues import ControllerLimits, QueuePair, check_depth
from tutti_hal.nvme.registers import cq_head_offset, sq_tail_offset
from tutti_hal.nvme.sqe import SQE_BYTES

if TYPE_CHECKING:
    from tutti_hal.nvme.bringup import RegisterAccess
    from tutti_hal.nvme.memory import Dma, DmaMemory


#: How many pairs are asked for when the first is created without `grant_queues`.
_USUAL_PAIRS = 64

#: SCT and SC of "there is no such queue".
_QID_INVALID = (1, 0x01)


@dataclass(frozen=True, slots=True)
class _Placement:
    """Where a queue lies: `bus` is its own address when it is whole, else that of the list of its pages."""

    memory: DmaMemory
    bus: int
    listing: DmaMemory | None = None

    @property
    def whole(self) -> bool:
        return self.listing is None


@dataclass(frozen=True, slots=True)
class _CompletionQueue:
    """A completion queue, there or to be made."""

    cqid: int
    depth: int
    place: _Placement

    @classmethod
    def of(cls, pair: QueuePair) -> _CompletionQueue:
        return cls(pair.cqid, pair.cq_depth, _Placement(pair.cq_memory, pair.cq_bus, pair.cq_listing))


class QueueCommands(AdminCommands):
    """The middle layer of `handle.ControllerHandle`: I/O queues."""

    def __init__(self, access: RegisterAccess, dma: Dma, command_timeout_ns: int) -> None:
        super().__init__(access, dma, command_timeout_ns)
        self._granted: int | None = None
        #: Counts resets: a queue pair of an earlier epoch no longer exists.
        self.epoch = 0
        self.limits: ControllerLimits

    @property
    def pairs(self) -> tuple[QueuePair, ...]:
        """The I/O queue pairs that exist."""
        return tuple(self._pairs.values())

    def grant_queues(self, wanted: int, *, minimum: int = 1) -> int:
        """Asks for I/O queue pairs; returns how many were granted, which may be fewer. Before the first queue.

        Raises:
            QueueInvalid: queues exist already.
            QueuesRefused: fewer than `minimum`, or the request failed.
        """
        tried = f"ask for {wanted} I/O queue pairs"
        if self._pairs:
            raise QueueInvalid(tried, f"{len(self._pairs)} pairs exist", "Ask once, before the first queue.")
        request = NumberOfQueues.request(wanted, wanted)
        try:
            answer = self.set_feature(Feature.NUMBER_OF_QUEUES, request.value)
        except CommandFailed as error:
            raise QueuesRefused(tried, error.found, "Another driver may hold all queues of this drive.") from error
        # More than was asked for may be granted; what was not asked for is not used.
        granted = min(NumberOfQueues.from_value(answer).pairs, wanted)
        self._granted = granted
        if granted < minimum:
            raise QueuesRefused(tried, f"{granted} granted, {minimum} needed", "Use fewer queues, or another drive.")
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
        """Creates an I/O completion queue and the submission queue that completes to it.

        Args:
            depth: entries of the submission queue, 2 to the controller's limit; any number, not only powers of two.
            qid: 1 to the number granted; None takes the lowest free one.
            cq_depth: entries of the completion queue; None takes `depth`.
            sq_memory: memory for the SQEs, page aligned on the bus and kept by the caller until the pair is deleted;
                None allocates it here. In pieces only where the controller allows it (CAP.CQR = 0).
            cq_memory: the same for the CQEs; it is zeroed here.
            priority: QPRIO, for weighted arbitration.
            completes_to: a pair whose completion queue this one shares. None is made then, and `cq_depth` and
                `cq_memory` mean nothing; it goes with the last pair that completes to it.

        Raises:
            QueueInvalid: a depth, id or memory that does not fit, or `completes_to` is of no use any more.
            QueuesRefused: no queues were granted yet and the controller grants none, or all are in use.
        """
        self._require_open("create a queue pair")
        if completes_to is not None:
            self._require_pair(completes_to, f"share the completion queue of queue pair {completes_to.qid}")
        cq_depth = depth if cq_depth is None else cq_depth
        check_depth(depth, self.limits.max_depth, "a submission queue")
        check_depth(cq_depth, self.limits.max_depth, "a completion queue")
        qid = self._free_qid(qid)
        before = len(self._memory)
        try:
            sq = self._place(sq_memory, depth * SQE_BYTES, "a submission queue")
            if completes_to is None:
                place = self._place(cq_memory, cq_depth * CQE_BYTES, "a completion queue")
                cq = _CompletionQueue(qid, cq_depth, place)
            else:
                cq = _CompletionQueue.of(completes_to)
        except QueueInvalid:
            self._release(self._memory[before:])
            raise
        try:
            if completes_to is None:
                self._create_cq(cq)
            try:
                pair = self._create_sq(qid, depth, sq, cq, priority)
            except CommandFailed:
                if completes_to is None:
                    self.execute(commands.delete_cq(qid))
                raise
        except CommandFailed:
            # The controller said no, so it does not use the memory. After any other failure it might.
            self._release(self._memory[before:])
            raise
        self._pairs[qid] = pair
        return pair

    def _create_cq(self, cq: _CompletionQueue) -> None:
        # Stale entries of an earlier life must not look new: the first pass of the controller writes phase 1.
        cq.place.memory.write(0, bytes(cq.depth * CQE_BYTES))
        self.execute(commands.create_cq(cq.cqid, cq.depth, PrpPair(prp1=cq.place.bus), contiguous=cq.place.whole))

    def _create_sq(self, qid: int, depth: int, sq: _Placement, cq: _CompletionQueue, priority: int) -> QueuePair:
        prps = PrpPair(prp1=sq.bus)
        self.execute(commands.create_sq(qid, depth, prps, cqid=cq.cqid, contiguous=sq.whole, priority=priority))
        dstrd = self.limits.dstrd
        base = self._access.registers.address
        tail, head = sq_tail_offset(qid, dstrd), cq_head_offset(cq.cqid, dstrd)
        return QueuePair(
            qid=qid,
            cqid=cq.cqid,
            depth=depth,
            cq_depth=cq.depth,
            priority=priority,
            sq_address=sq.memory.address,
            cq_address=cq.place.memory.address,
            sq_bus=sq.bus,
            cq_bus=cq.place.bus,
            sq_tail_offset=tail,
            cq_head_offset=head,
            sq_tail_address=None if base is None else base + tail,
            cq_head_address=None if base is None else base + head,
            epoch=self.epoch,
            sq_memory=sq.memory,
            cq_memory=cq.place.memory,
            sq_listing=sq.listing,
            cq_listing=cq.place.listing,
        )

    def _free_qid(self, qid: int | None) -> int:
        if self._granted is None:
            self.grant_queues(max(_USUAL_PAIRS, qid or 0))
        assert self._granted is not None
        if qid is None:
            # The identifier of a completion queue that others still share is not free either.
            taken = set(self._pairs) | {pair.cqid for pair in self._pairs.values()}
            free = next((q for q in range(1, self._granted + 1) if q not in taken), None)
            if free is None:
                raise QueuesRefused(
                    "create a queue pair", f"all {self._granted} granted pairs exist", "Ask for more with grant_queues."
                )
            return free
        if not 1 <= qid <= self._granted:
            raise QueueInvalid(f"create queue pair {qid}", f"{self._granted} pairs are granted", "Use 1 to that.")
        if qid in self._pairs:
            raise QueueInvalid(f"create queue pair {qid}", "it exists", "Delete it first, or take another id.")
        return qid

    def _place(self, memory: DmaMemory | None, nbytes: int, what: str) -> _Placement:
        if memory is None:
            memory = self._allocate(nbytes)
        if memory.nbytes < nbytes:
            raise QueueInvalid(f"place {what}", f"{nbytes} bytes needed, {memory.nbytes} given", "Give more memory.")
        if memory.runs[0][1] >= nbytes or self.limits.contiguous_queues:
            return _Placement(memory, contiguous_bus(memory, nbytes, self.page_bytes, what))
        listing = self._page_list(memory, nbytes, what)
        return _Placement(memory, contiguous_bus(listing, 8, self.page_bytes, "a queue's page list"), listing)

    def _page_list(self, memory: DmaMemory, nbytes: int, what: str) -> DmaMemory:
        """Writes the list of the pages of a queue in pieces."""
        runs: list[tuple[int, int]] = []
        left = nbytes
        for bus, length in memory.runs:
            if left:
                runs.append((bus, min(length, left)))
                left -= min(length, left)
        pages = prp.entries(runs, self.page_bytes)
        if pages[0] % self.page_bytes:
            raise QueueInvalid(f"place {what}", f"bus address {pages[0]:#x}", f"Align it to {self.page_bytes} bytes.")
        if 8 * len(pages) > self.page_bytes:
            raise QueueInvalid(f"place {what}", f"{len(pages)} pages", "Use contiguous memory for a queue this deep.")
        listing = self._allocate(self.page_bytes)
        listing.write(0, b"".join(page.to_bytes(8, "little") for page in pages))
        return listing

    def delete_queue_pair(self, pair: QueuePair) -> None:
        """Deletes the submission queue, then its completion queue unless others share it.

        What is outstanding is aborted.
        Memory that the handle allocated for the pair is given back; the caller's stays the caller's.

        Raises:
            QueueInvalid: it is no pair of this handle, or of an earlier epoch.
        """
        self._delete([pair])
        self._release(self._owned([pair]))

    def _owned(self, pairs: Sequence[QueuePair]) -> list[DmaMemory]:
        """What of the memory of deleted pairs was allocated here, and is not that of a completion queue still used."""
        held = [m for pair in pairs for m in (pair.sq_memory, pair.cq_memory, pair.sq_listing, pair.cq_listing)]
        used = [m for pair in self._pairs.values() for m in (pair.cq_memory, pair.cq_listing)]
        return [m for m in self._memory if any(m is h for h in held) and not any(m is u for u in used)]

    def _sharing(self, pair: QueuePair) -> list[QueuePair]:
        """All pairs that complete where this one does, itself among them."""
        return [other for other in self._pairs.values() if other.cqid == pair.cqid]

    def _require_pair(self, pair: QueuePair, tried: str) -> None:
        if pair.epoch != self.epoch or self._pairs.get(pair.qid) != pair:
            raise QueueInvalid(tried, "it does not exist any more", "Use `pairs`.")

    def _delete(self, pairs: Sequence[QueuePair]) -> None:
        """Deletes submission queues of one completion queue, and that when nobody is left who completes to it."""
        for pair in pairs:
            self._require_pair(pair, f"delete queue pair {pair.qid}")
        for pair in pairs:
            try:
                self.execute(commands.delete_sq(pair.qid))
            except CommandFailed as error:
                # An earlier attempt may have come this far: then the rest is what is left.
                if (error.status_type, error.status_code) != _QID_INVALID:
                    raise
        if len(pairs) == len(self._sharing(pairs[0])):
            self.execute(commands.delete_cq(pairs[0].cqid))
        for pair in pairs:
            del self._pairs[pair.qid]

    def write_cq_head(self, pair: QueuePair, slot: int) -> None:
        """Tells the controller that the completions before a slot were taken: for a host that takes them itself.

        Raises:
            QueueInvalid: it is no pair of this handle, or of an earlier epoch.
        """
        self._require_pair(pair, f"take completions of queue pair {pair.qid}")
        self._access.registers.store32(pair.cq_head_offset, slot)

    def pause(self) -> None:
        """Lets a moment pass, as the handle's own waits do between two looks."""
        self._access.registers.pause()

    def recreate_queue_pair(self, pair: QueuePair) -> QueuePair:
        """Deletes a pair and creates it again over the same memory: head, tail and phase start anew.

        This is how a queue gets well after a command that never completed. See `recreate_queue_pairs`.
        """
        return self.recreate_queue_pairs([pair])[0]

    def recreate_queue_pairs(self, pairs: Sequence[QueuePair]) -> list[QueuePair]:
        """Deletes all pairs of one completion queue, then that, and creates everything again over the same memory.

        Returns:
            The new pairs in the order of the old ones. Should the controller refuse, none is left, nor their memory.

        Raises:
            QueueInvalid: one does not exist any more, or they are not all the pairs of one completion queue.
            CommandFailed: the controller refused.
        """
        tried = f"create queue pairs {', '.join(str(pair.qid) for pair in pairs)} again"
        for pair in pairs:
            self._require_pair(pair, tried)
        if not pairs or {pair.qid for pair in pairs} != {pair.qid for pair in self._sharing(pairs[0])}:
            raise QueueInvalid(tried, "they are not all the pairs of one completion queue", "Give all that share it.")
        cq = _CompletionQueue.of(pairs[0])
        self._delete(pairs)
        fresh: list[QueuePair] = []
        try:
            self._create_cq(cq)
            try:
                for pair in pairs:
                    sq = _Placement(pair.sq_memory, pair.sq_bus, pair.sq_listing)
                    fresh.append(self._create_sq(pair.qid, pair.depth, sq, cq, pair.priority))
            except CommandFailed:
                for one in fresh:
                    self.execute(commands.delete_sq(one.qid))
                self.execute(commands.delete_cq(cq.cqid))
                raise
        except CommandFailed:
            self._release(self._owned(pairs))
            raise
        self._pairs.update((pair.qid, pair) for pair in fresh)
        return fresh

"""What a handle tells about a controller, its namespaces and its I/O queues: all that a ring needs to drive them."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from tutti_hal.errors import NamespaceInvalid, QueueInvalid
from tutti_hal.nvme.cqe import CQE_BYTES
from tutti_hal.nvme.sqe import SQE_BYTES

if TYPE_CHECKING:
    from tutti_hal.nvme.identify import IdentifyController
    from tutti_hal.nvme.memory import DmaMemory
    from tutti_hal.nvme.namespace import IdentifyNamespace
    from tutti_hal.nvme.sgl import SglSupport


@dataclass(frozen=True, slots=True, kw_only=True)
class ControllerLimits:
    """What a controller can take."""

    #: Memory page size that CC.MPS selects: the unit of PRPs.
    page_bytes: int
    #: Longest transfer of one command, or None when there is no limit.
    mdts_bytes: int | None
    #: Entries of the deepest I/O queue.
    max_depth: int
    #: I/O queue memory must be contiguous on the bus (CAP.CQR).
    contiguous_queues: bool
    #: Doorbell stride exponent.
    dstrd: int
    sgl: SglSupport
    volatile_write_cache: bool
    #: Flush takes NSID FFFFFFFFh.
    flush_all_namespaces: bool
    compare: bool
    write_zeroes: bool
    dataset_management: bool
    verify: bool
    #: Shadow doorbells are supported: another driver of this controller may have turned them on.
    shadow_doorbells: bool
    #: Commands that one queue should have outstanding at most (MAXCMD), or None when the controller does not say.
    max_outstanding: int | None
    #: Bytes of the controller memory buffer, which is never used.
    memory_buffer_bytes: int
    #: Longest Verify and Write Zeroes in bytes, or None when there is no limit of their own.
    verify_bytes: int | None = None
    write_zeroes_bytes: int | None = None

    def max_blocks(self, namespace: NamespaceInfo) -> int:
        """The most blocks of one read or write of a namespace: what MDTS and the NLB field allow.

        Raises:
            NamespaceInvalid: not even one block fits.
        """
        if self.mdts_bytes is None:
            return 1 << 16
        blocks = min(self.mdts_bytes // namespace.transfer_bytes_per_block, 1 << 16)
        if blocks == 0:
            raise NamespaceInvalid(
                f"transfer blocks of namespace {namespace.nsid}",
                f"a block takes {namespace.transfer_bytes_per_block} bytes, MDTS allows {self.mdts_bytes}",
                "Format the namespace with smaller blocks.",
            )
        return blocks


@dataclass(frozen=True, slots=True, kw_only=True)
class NamespaceInfo:
    """An active namespace of the NVM command set."""

    nsid: int
    #: Data bytes of a block.
    lba_bytes: int
    #: Metadata bytes of a block.
    metadata_bytes: int
    #: Metadata travel behind each block's data in the same buffer; else in a buffer of their own (MPTR).
    metadata_inline: bool
    #: Blocks.
    capacity_lba: int
    #: End-to-end protection type, 0 when there is none.
    protection: int
    #: Optimal I/O boundary in blocks, 0 when none is given: a command should not cross a multiple of it.
    boundary_lba: int
    #: Preferred granularity and alignment of writes in blocks, 1 when the namespace does not say.
    write_granularity_lba: int
    write_alignment_lba: int
    #: Longest write that a power failure leaves wholly done or wholly undone, in blocks.
    atomic_write_lba: int
    identify: IdentifyNamespace = field(repr=False)

    @property
    def transfer_bytes_per_block(self) -> int:
        """Bytes that one block takes in the data buffer."""
        return self.lba_bytes + (self.metadata_bytes if self.metadata_inline else 0)

    @property
    def capacity_bytes(self) -> int:
        """Data bytes in all."""
        return self.capacity_lba * self.lba_bytes

    @classmethod
    def of(cls, nsid: int, data: IdentifyNamespace, controller: IdentifyController) -> NamespaceInfo:
        """From Identify Namespace, and what Identify Controller says of all namespaces.

        Raises:
            NamespaceInvalid: inactive (zeroes), or a format that cannot be used.
        """
        if not data.active:
            raise NamespaceInvalid(
                f"use namespace {nsid}", "it is inactive: Identify answers zeroes", "Use an id of the active list."
            )
        return cls(
            nsid=nsid,
            lba_bytes=data.lba_bytes,
            metadata_bytes=data.metadata_bytes,
            metadata_inline=data.metadata_inline,
            capacity_lba=data.nsze,
            protection=data.protection,
            boundary_lba=data.noiob,
            write_granularity_lba=data.npwg + 1 if data.io_hints else 1,
            write_alignment_lba=data.npwa + 1 if data.io_hints else 1,
            atomic_write_lba=(data.nawupf if data.own_atomicity else controller.awupf) + 1,
            identify=data,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class QueuePair:
    """An I/O submission queue with the completion queue that it completes to: everything that a ring needs.

    Addresses are host virtual unless they are called `bus`; doorbell addresses are None when kernels cannot reach the
    registers. Valid until it is deleted, re-created, or `epoch` is no longer the handle's.
    """

    qid: int
    #: Identifier of the completion queue: `qid`, unless the pair was made to share another one's.
    cqid: int
    depth: int
    cq_depth: int
    #: QPRIO of the submission queue.
    priority: int
    sq_address: int
    cq_address: int
    #: Bus address of the first byte; of the PRP list of its pages when the memory is in pieces.
    sq_bus: int
    cq_bus: int
    sq_tail_offset: int
    cq_head_offset: int
    sq_tail_address: int | None
    cq_head_address: int | None
    epoch: int
    sqe_bytes: int = SQE_BYTES
    cqe_bytes: int = CQE_BYTES
    sq_memory: DmaMemory = field(repr=False, compare=False)
    cq_memory: DmaMemory = field(repr=False, compare=False)
    #: The lists of the pages of queues in pieces; None for whole ones.
    sq_listing: DmaMemory | None = field(default=None, repr=False, compare=False)
    cq_listing: DmaMemory | None = field(default=None, repr=False, compare=False)


def check_depth(depth: int, max_depth: int, what: str) -> None:
    """Refuses a depth that this controller cannot take.

    Raises:
        QueueInvalid: below 2, or above the controller's limit.
    """
    if isinstance(depth, bool) or not isinstance(depth, int) or depth < 2:
        raise QueueInvalid(
            f"create {what}", f"depth {depth!r}", "A queue has at least 2 entries: one of them always stays free."
        )
    if depth > max_depth:
        raise QueueInvalid(f"create {what}", f"depth {depth}", f"At most {max_depth} entries are possible here.")

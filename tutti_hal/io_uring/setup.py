"""What a ring makes on its drives before its first launch: targets of their namespaces, and queue pairs."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import ExitStack, suppress
from typing import TYPE_CHECKING

from tutti_hal.errors import ControllerGone, NamespaceAbsent, NamespaceInvalid, RingError
from tutti_hal.io_uring.batch import Target
from tutti_hal.io_uring.layout import CQE_BYTES, SQE_BYTES

if TYPE_CHECKING:
    from tutti_hal.io_uring.options import Drive, RingOptions
    from tutti_hal.nvme.memory import Dma, DmaMemory
    from tutti_hal.nvme.queues import NamespaceInfo, QueuePair

#: Bytes of protection information in a block's metadata.
PROTECTION_BYTES = 8


def find_targets(drives: Sequence[Drive]) -> list[Target]:
    """One target for each active namespace of each drive, or for those that `Drive.namespaces` names.

    Raises:
        NamespaceInvalid: protection information that the ring does not know, or a block beyond the transfer limit.
        NamespaceAbsent: no namespace at all, or none of a number that `Drive.namespaces` has.
    """
    targets: list[Target] = []
    for number, drive in enumerate(drives):
        for nsid in _chosen(number, drive):
            space = drive.handle.namespace(nsid)
            _check_protection(number, space)
            targets.append(_target(len(targets), number, drive, space))
    if not targets:
        raise NamespaceAbsent(
            f"make a ring over {len(drives)} drives",
            "none has an active namespace",
            "Create and attach a namespace, or give another drive.",
        )
    return targets


def _check_protection(number: int, space: NamespaceInfo) -> None:
    # Guards of more than 16 bits need a host that says it knows them (LBAFEE), which nobody says here.
    if space.protection > 3 or (space.protection and space.metadata_bytes < PROTECTION_BYTES):
        raise NamespaceInvalid(
            f"make a ring over drive {number}",
            f"namespace {space.nsid} has protection information of type {space.protection} in "
            f"{space.metadata_bytes} bytes of metadata",
            "Format it with protection information of type 1, 2 or 3, or leave it out of Drive.namespaces.",
        )


def _target(row: int, number: int, drive: Drive, space: NamespaceInfo) -> Target:
    inline = space.metadata_bytes if space.metadata_inline else 0
    beside = space.metadata_bytes - inline
    # With PRACT metadata that are nothing but protection information do not move.
    stripped = space.protection != 0 and space.metadata_bytes == PROTECTION_BYTES
    most = drive.handle.limits.max_blocks(space)
    return Target(
        row=row,
        drive=number,
        nsid=space.nsid,
        block_bytes=space.lba_bytes + inline,
        blocks=space.capacity_lba,
        # A descriptor's length has 32 bits.
        max_blocks=min(most, 0xFFFF_FFFF // (space.lba_bytes + inline)),
        lba_bytes=space.lba_bytes,
        action_block_bytes=space.lba_bytes + (0 if stripped else inline),
        metadata_bytes=beside,
        action_metadata_bytes=0 if stripped else beside,
        protection=space.protection,
        application_tag=drive.application_tag,
        application_mask=drive.application_mask,
    )


def _chosen(number: int, drive: Drive) -> Sequence[int]:
    active = drive.handle.namespaces()
    if drive.namespaces is None:
        return active
    for nsid in drive.namespaces:
        if nsid not in active:
            raise NamespaceAbsent(
                f"make a ring over namespace {nsid} of drive {number}",
                f"its active namespaces are: {', '.join(map(str, active)) or 'none'}",
                "Name active ones in Drive.namespaces.",
            )
    return drive.namespaces


def create_pairs(drive: Drive, options: RingOptions, stack: ExitStack) -> list[QueuePair]:
    """A drive's queue pairs; the stack deletes them, then gives back the memory in which they were placed.

    Raises:
        QueueInvalid: a depth that the drive does not allow.
        QueuesRefused: the drive grants fewer pairs.
        RingError: kernels cannot reach the doorbells.
    """
    handle, wanted = drive.handle, options.queues_per_drive
    handle.grant_queues(wanted, minimum=wanted)
    pairs: list[QueuePair] = []
    # In this order queues that share a completion queue have identifiers side by side, as kernels need it.
    for row in range(wanted):
        first = options.sharing(row).start
        cq_dma = drive.cq_dma if row == first else None
        pair = handle.create_queue_pair(
            options.depth,
            qid=row + 1,
            cq_depth=options.completion_depth,
            sq_memory=_place(drive.sq_dma or drive.dma, options.depth * SQE_BYTES, handle.page_bytes, stack),
            cq_memory=_place(cq_dma or drive.dma, options.completion_depth * CQE_BYTES, handle.page_bytes, stack),
            completes_to=None if row == first else pairs[first],
        )
        stack.callback(_delete_pair, drive, pair.qid)
        pairs.append(pair)
        if pair.sq_tail_address is None:
            raise RingError(
                "make a ring",
                f"the doorbells of {pair} have no address for kernels",
                "Map the drive's registers for the device, or use the bounce path.",
            )
    return pairs


def _place(dma: Dma, nbytes: int, alignment: int, stack: ExitStack) -> DmaMemory:
    memory = dma.allocate(nbytes, contiguous=True, alignment=alignment)
    stack.callback(memory.close)
    return memory


def _delete_pair(drive: Drive, qid: int) -> None:
    for pair in drive.handle.pairs:
        if pair.qid == qid:
            # A drive that is gone has no queues any more.
            with suppress(ControllerGone):
                drive.handle.delete_queue_pair(pair)

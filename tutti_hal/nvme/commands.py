"""What single commands put into their SQE: dwords 10 to 15 as layouts, and functions that build whole SQEs.

The functions take counts as people count (1-based) and encode them as the wire does (0-based). A CID is set by who
owns the queue: `dataclasses.replace(sqe, cid=...)`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar, Self

from tutti_hal.errors import NvmeFieldRange
from tutti_hal.nvme.layout import Layout, bits, dword, dword_flag, uint
from tutti_hal.nvme.opcodes import AdminOpcode, NvmOpcode
from tutti_hal.nvme.sqe import DataPointer, Sqe

if TYPE_CHECKING:
    from collections.abc import Sequence

#: The most blocks of one command: NLB is 16 bits and 0-based.
MAX_BLOCKS = 1 << 16

#: The most ranges of one Dataset Management command.
MAX_DSM_RANGES = 256


class CommandDwords(Layout):
    """Base of the layouts of dwords 10 to 15: 24 bytes, dword 0 here is dword 10 there."""

    __slots__ = ()
    SIZE: ClassVar[int] = 24

    @classmethod
    def of(cls, sqe: Sqe) -> Self:
        """Reads these dwords from an SQE."""
        return cls.decode(sqe.command_bytes)


@dataclass(frozen=True, kw_only=True, slots=True)
class TransferDwords(CommandDwords):
    """Read, Write, Compare, Verify, Write Zeroes, Write Uncorrectable. `nlb` is 0-based."""

    slba: int = uint(0, 8)
    nlb: int = dword(2, 0, 16)
    dtype: int = dword(2, 20, 4)
    stc: bool = dword_flag(2, 24)
    #: Write Zeroes only.
    deac: bool = dword_flag(2, 25)
    check_ref: bool = dword_flag(2, 26)
    check_app: bool = dword_flag(2, 27)
    check_guard: bool = dword_flag(2, 28)
    pract: bool = dword_flag(2, 29)
    fua: bool = dword_flag(2, 30)
    lr: bool = dword_flag(2, 31)
    dsm: int = dword(3, 0, 8)
    dspec: int = dword(3, 16, 16)
    ref_tag: int = dword(4)
    app_tag: int = dword(5, 0, 16)
    app_mask: int = dword(5, 16, 16)


@dataclass(frozen=True, kw_only=True, slots=True)
class DsmDwords(CommandDwords):
    """Dataset Management. `nr` is 0-based."""

    nr: int = dword(0, 0, 8)
    idr: bool = dword_flag(1, 0)
    idw: bool = dword_flag(1, 1)
    ad: bool = dword_flag(1, 2)


@dataclass(frozen=True, kw_only=True, slots=True)
class DsmRange(Layout):
    """One range of Dataset Management, 16 bytes. `nlb` is 1-based, unlike everywhere else."""

    SIZE: ClassVar[int] = 16

    attributes: int = uint(0, 4)
    nlb: int = uint(4, 4)
    slba: int = uint(8, 8)


@dataclass(frozen=True, kw_only=True, slots=True)
class IdentifyDwords(CommandDwords):
    """Identify."""

    cns: int = dword(0, 0, 8)
    cntid: int = dword(0, 16, 16)
    cnssid: int = dword(1, 0, 16)
    csi: int = dword(1, 24, 8)
    uuid_index: int = dword(4, 0, 7)


@dataclass(frozen=True, kw_only=True, slots=True)
class CreateCqDwords(CommandDwords):
    """Create I/O Completion Queue. `qsize` is 0-based."""

    qid: int = dword(0, 0, 16)
    qsize: int = dword(0, 16, 16)
    pc: bool = dword_flag(1, 0)
    ien: bool = dword_flag(1, 1)
    iv: int = dword(1, 16, 16)


@dataclass(frozen=True, kw_only=True, slots=True)
class CreateSqDwords(CommandDwords):
    """Create I/O Submission Queue. `qsize` is 0-based."""

    qid: int = dword(0, 0, 16)
    qsize: int = dword(0, 16, 16)
    pc: bool = dword_flag(1, 0)
    qprio: int = dword(1, 1, 2)
    cqid: int = dword(1, 16, 16)
    nvmsetid: int = dword(2, 0, 16)


@dataclass(frozen=True, kw_only=True, slots=True)
class DeleteQueueDwords(CommandDwords):
    """Delete I/O Submission Queue, Delete I/O Completion Queue."""

    qid: int = dword(0, 0, 16)


@dataclass(frozen=True, kw_only=True, slots=True)
class AbortDwords(CommandDwords):
    """Abort."""

    sqid: int = dword(0, 0, 16)
    cid: int = dword(0, 16, 16)


@dataclass(frozen=True, kw_only=True, slots=True)
class SetFeaturesDwords(CommandDwords):
    """Set Features; `value` is dword 11, whose meaning is in `features`."""

    fid: int = dword(0, 0, 8)
    save: bool = dword_flag(0, 31)
    value: int = dword(1)
    cdw12: int = dword(2)
    cdw13: int = dword(3)
    uuid_index: int = dword(4, 0, 7)
    cdw15: int = dword(5)


@dataclass(frozen=True, kw_only=True, slots=True)
class GetFeaturesDwords(CommandDwords):
    """Get Features."""

    fid: int = dword(0, 0, 8)
    sel: int = dword(0, 8, 3)
    cdw11: int = dword(1)
    uuid_index: int = dword(4, 0, 7)


@dataclass(frozen=True, kw_only=True, slots=True)
class GetLogPageDwords(CommandDwords):
    """Get Log Page. `numd` is 0-based, in dwords, over two fields of the wire."""

    lid: int = dword(0, 0, 8)
    lsp: int = dword(0, 8, 7)
    rae: bool = dword_flag(0, 15)
    numd: int = bits(16, 32)
    lsi: int = dword(1, 16, 16)
    lpo: int = uint(8, 8)
    uuid_index: int = dword(4, 0, 7)
    ot: bool = dword_flag(4, 23)
    csi: int = dword(4, 24, 8)


@dataclass(frozen=True, kw_only=True, slots=True)
class FormatDwords(CommandDwords):
    """Format NVM."""

    lbaf_low: int = dword(0, 0, 4)
    mset: bool = dword_flag(0, 4)
    pi: int = dword(0, 5, 3)
    pil: bool = dword_flag(0, 8)
    ses: int = dword(0, 9, 3)
    lbaf_high: int = dword(0, 12, 2)


def command(
    opcode: int,
    dwords: CommandDwords | None = None,
    *,
    nsid: int = 0,
    data: DataPointer | None = None,
    mptr: int = 0,
    metadata_sgl: bool = False,
) -> Sqe:
    """An SQE with CID 0 from its parts.

    Raises:
        NvmeFieldRange: a value does not fit its field.
    """
    blob = bytes(24) if dwords is None else dwords.encode()
    words = {f"cdw{10 + k}": int.from_bytes(blob[4 * k : 4 * k + 4], "little") for k in range(6)}
    sqe = Sqe(opcode=opcode, nsid=nsid, mptr=mptr, **words)
    return sqe if data is None else sqe.with_data(data, metadata_sgl)


def transfer(
    opcode: NvmOpcode,
    *,
    nsid: int,
    slba: int,
    blocks: int,
    data: DataPointer | None = None,
    mptr: int = 0,
    metadata_sgl: bool = False,
    fua: bool = False,
    limited_retry: bool = False,
    pract: bool = False,
    check_guard: bool = False,
    check_app: bool = False,
    check_ref: bool = False,
    deallocate: bool = False,
    ref_tag: int = 0,
    app_tag: int = 0,
    app_mask: int = 0,
    dsm: int = 0,
) -> Sqe:
    """Read, Write, Compare, Verify, Write Zeroes or Write Uncorrectable of `blocks` blocks from `slba`.

    Args:
        opcode: which of them.
        nsid: the namespace.
        slba: the first block.
        blocks: how many, 1 to 65,536.
        data: the buffer; none for Verify, Write Zeroes and Write Uncorrectable.
        mptr: bus address of separate metadata (or of its SGL descriptor, with `metadata_sgl`).
        metadata_sgl: see `mptr`.
        fua: the command completes only when the data are durable, or are read from the media.
        limited_retry: the drive should give up early.
        pract: the drive inserts or strips protection information.
        check_guard: check the guard.
        check_app: check the application tag.
        check_ref: check the reference tag.
        deallocate: Write Zeroes may deallocate.
        ref_tag: initial (writes) or expected (reads) reference tag.
        app_tag: application tag.
        app_mask: which bits of it are compared.
        dsm: hints on access.

    Raises:
        NvmeFieldRange: no such transfer, or a value does not fit its field.
    """
    if not 1 <= blocks <= MAX_BLOCKS:
        raise NvmeFieldRange("build a transfer", f"{blocks} blocks", f"One command moves 1 to {MAX_BLOCKS} blocks.")
    if slba + blocks > 1 << 64:
        raise NvmeFieldRange("build a transfer", f"{blocks} blocks from {slba:#x}", "The range wraps.")
    dwords = TransferDwords(
        slba=slba,
        nlb=blocks - 1,
        deac=deallocate,
        check_ref=check_ref,
        check_app=check_app,
        check_guard=check_guard,
        pract=pract,
        fua=fua,
        lr=limited_retry,
        dsm=dsm,
        ref_tag=ref_tag,
        app_tag=app_tag,
        app_mask=app_mask,
    )
    return command(opcode, dwords, nsid=nsid, data=data, mptr=mptr, metadata_sgl=metadata_sgl)


def flush(nsid: int) -> Sqe:
    """Flush of one namespace, or of all with NSID FFFFFFFFh where VWC allows it."""
    return command(NvmOpcode.FLUSH, nsid=nsid)


def encode_dsm_ranges(ranges: Sequence[DsmRange]) -> bytes:
    """The data of a Dataset Management command.

    Raises:
        NvmeFieldRange: none, or more than 256.
    """
    if not 1 <= len(ranges) <= MAX_DSM_RANGES:
        raise NvmeFieldRange("encode DSM ranges", f"{len(ranges)} ranges", f"Give 1 to {MAX_DSM_RANGES}.")
    return b"".join(r.encode() for r in ranges)


def deallocate(nsid: int, ranges: int, data: DataPointer) -> Sqe:
    """Dataset Management that deallocates `ranges` ranges; `data` names what `encode_dsm_ranges` made.

    Raises:
        NvmeFieldRange: not 1 to 256 ranges.
    """
    if not 1 <= ranges <= MAX_DSM_RANGES:
        raise NvmeFieldRange("build a Dataset Management command", f"{ranges} ranges", f"1 to {MAX_DSM_RANGES}.")
    return command(NvmOpcode.DATASET_MANAGEMENT, DsmDwords(nr=ranges - 1, ad=True), nsid=nsid, data=data)


def identify(cns: int, data: DataPointer, *, nsid: int = 0, cntid: int = 0, cnssid: int = 0, csi: int = 0) -> Sqe:
    """Identify; `data` names 4096 bytes."""
    dwords = IdentifyDwords(cns=cns, cntid=cntid, cnssid=cnssid, csi=csi)
    return command(AdminOpcode.IDENTIFY, dwords, nsid=nsid, data=data)


def _qsize(depth: int) -> int:
    if not 2 <= depth <= 1 << 16:
        raise NvmeFieldRange("create a queue", f"{depth} entries", "A queue has 2 to 65,536 entries.")
    return depth - 1


def create_cq(qid: int, depth: int, data: DataPointer, *, contiguous: bool = True, vector: int | None = None) -> Sqe:
    """Create I/O Completion Queue of `depth` entries; `vector` None leaves interrupts off.

    With `contiguous` PRP1 is the queue's bus address, else that of a PRP list of its pages.

    Raises:
        NvmeFieldRange: the depth is below 2 or above 65,536.
    """
    dwords = CreateCqDwords(qid=qid, qsize=_qsize(depth), pc=contiguous, ien=vector is not None, iv=vector or 0)
    return command(AdminOpcode.CREATE_CQ, dwords, data=data)


def create_sq(qid: int, depth: int, data: DataPointer, *, cqid: int, contiguous: bool = True, priority: int = 0) -> Sqe:
    """Create I/O Submission Queue of `depth` entries that completes to `cqid`; see `create_cq`.

    Raises:
        NvmeFieldRange: the depth is below 2 or above 65,536.
    """
    dwords = CreateSqDwords(qid=qid, qsize=_qsize(depth), pc=contiguous, qprio=priority, cqid=cqid)
    return command(AdminOpcode.CREATE_SQ, dwords, data=data)


def delete_cq(qid: int) -> Sqe:
    """Delete I/O Completion Queue. Its submission queues must be gone."""
    return command(AdminOpcode.DELETE_CQ, DeleteQueueDwords(qid=qid))


def delete_sq(qid: int) -> Sqe:
    """Delete I/O Submission Queue. What is outstanding in it is aborted."""
    return command(AdminOpcode.DELETE_SQ, DeleteQueueDwords(qid=qid))


def abort(sqid: int, cid: int) -> Sqe:
    """Abort of one command. Bit 0 of the result is 0 when it was aborted, 1 when not."""
    return command(AdminOpcode.ABORT, AbortDwords(sqid=sqid, cid=cid))


def set_features(fid: int, value: int, *, save: bool = False, nsid: int = 0, data: DataPointer | None = None) -> Sqe:
    """Set Features; `value` is dword 11."""
    return command(AdminOpcode.SET_FEATURES, SetFeaturesDwords(fid=fid, save=save, value=value), nsid=nsid, data=data)


def get_features(fid: int, *, select: int = 0, cdw11: int = 0, nsid: int = 0, data: DataPointer | None = None) -> Sqe:
    """Get Features; the value comes back in dword 0 of the completion."""
    return command(AdminOpcode.GET_FEATURES, GetFeaturesDwords(fid=fid, sel=select, cdw11=cdw11), nsid=nsid, data=data)


def get_log_page(
    lid: int,
    nbytes: int,
    data: DataPointer,
    *,
    offset: int = 0,
    retain: bool = False,
    nsid: int = 0xFFFF_FFFF,
) -> Sqe:
    """Get Log Page of `nbytes` bytes from `offset`; `retain` keeps the event that led to it.

    Raises:
        NvmeFieldRange: length or offset are no multiples of 4, or the length is zero.
    """
    if nbytes < 4 or nbytes % 4 or offset % 4:
        raise NvmeFieldRange("read a log page", f"{nbytes} bytes from {offset}", "Pass positive multiples of 4.")
    dwords = GetLogPageDwords(lid=lid, rae=retain, numd=nbytes // 4 - 1, lpo=offset)
    return command(AdminOpcode.GET_LOG_PAGE, dwords, nsid=nsid, data=data)


def async_event_request() -> Sqe:
    """Asynchronous Event Request: completes when an event happens."""
    return command(AdminOpcode.ASYNC_EVENT_REQUEST)

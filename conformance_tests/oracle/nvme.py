"""Entries, registers and statuses of NVMe by byte offset, from the text of the specification.

It imports nothing of the product: what it says is what the product is held against.
"""

from __future__ import annotations

import struct
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

PAGE = 4096
SQE_BYTES, CQE_BYTES = 64, 16

# Registers, by byte offset in BAR0.
CAP, VS, CC, CSTS, AQA, ASQ, ACQ, CRTO, DOORBELLS = 0x00, 0x08, 0x14, 0x1C, 0x24, 0x28, 0x30, 0x68, 0x1000

#: CC with 64-byte SQEs and 16-byte CQEs, without EN and the page size.
CC_ENTRY_SIZES = 0x0046_0000

# Admin opcodes.
DELETE_SQ, CREATE_SQ, GET_LOG, DELETE_CQ, CREATE_CQ, IDENTIFY, ABORT = 0x00, 0x01, 0x02, 0x04, 0x05, 0x06, 0x08
SET_FEATURES, GET_FEATURES, EVENT = 0x09, 0x0A, 0x0C

# NVM opcodes.
FLUSH, WRITE, READ, COMPARE, WRITE_ZEROES, DATASET, VERIFY = 0x00, 0x01, 0x02, 0x05, 0x08, 0x09, 0x0C

#: Bit 30 of dword 12 of a write: force unit access.
FUA = 1 << 30

Status = tuple[int, int]

# Statuses as (SCT, SC).
OK: Status = (0, 0x00)
INVALID_OPCODE: Status = (0, 0x01)
INVALID_FIELD: Status = (0, 0x02)
CID_CONFLICT: Status = (0, 0x03)
DATA_TRANSFER: Status = (0, 0x04)
ABORTED: Status = (0, 0x07)
SQ_DELETED: Status = (0, 0x08)
INVALID_NAMESPACE: Status = (0, 0x0B)
SEQUENCE: Status = (0, 0x0C)
SGL_SEGMENT: Status = (0, 0x0D)
SGL_COUNT: Status = (0, 0x0E)
SGL_DATA_LENGTH: Status = (0, 0x0F)
SGL_METADATA_LENGTH: Status = (0, 0x10)
SGL_TYPE: Status = (0, 0x11)
PRP_OFFSET: Status = (0, 0x13)
SGL_GRANULARITY: Status = (0, 0x1E)
WRITE_PROTECTED: Status = (0, 0x20)
LBA_RANGE: Status = (0, 0x80)
CAPACITY: Status = (0, 0x81)
CQ_INVALID: Status = (1, 0x00)
QUEUE_ID: Status = (1, 0x01)
QUEUE_SIZE: Status = (1, 0x02)
EVENT_LIMIT: Status = (1, 0x05)
VECTOR: Status = (1, 0x08)
LOG_PAGE: Status = (1, 0x09)
QUEUE_DELETION: Status = (1, 0x0C)
NOT_SAVEABLE: Status = (1, 0x0D)
UNRECOVERED_READ: Status = (2, 0x81)
COMPARE_FAILURE: Status = (2, 0x85)


@dataclass(frozen=True)
class Cqe:
    """One completion queue entry."""

    result: int
    sqhd: int
    sqid: int
    cid: int
    status: Status
    crd: int
    dnr: bool
    phase: int = 1
    more: bool = False

    @classmethod
    def decode(cls, data: bytes) -> Cqe:
        """From its 16 bytes."""
        result, _, ids, last = struct.unpack("<4I", data)
        return cls(
            result=result,
            sqhd=ids & 0xFFFF,
            sqid=ids >> 16,
            cid=last & 0xFFFF,
            status=(last >> 25 & 7, last >> 17 & 0xFF),
            crd=last >> 28 & 3,
            dnr=bool(last >> 31),
            phase=last >> 16 & 1,
            more=bool(last >> 30 & 1),
        )


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
    dwords: Mapping[int, int] | None = None,
) -> bytes:
    """The 64 bytes of a submission queue entry; ``dwords`` sets command dwords 2, 3 and 10 to 15."""
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


def rw(opcode: int, slba: int, blocks: int, *, flags: int = 0, nsid: int = 1, **rest: Any) -> bytes:
    """Read, write, compare, write zeroes, verify: ``blocks`` is 1-based here. ``flags`` is or-ed to dword 12.

    ``rest`` goes to :func:`sqe`.
    """
    dwords = {10: slba & 0xFFFFFFFF, 11: slba >> 32, 12: (blocks - 1) | flags}
    return sqe(opcode, nsid=nsid, dwords=dwords, **rest)


def block_descriptor(address: int, length: int, kind: int = 0, subtype: int = 0) -> bytes:
    """One SGL descriptor: address, length, three reserved bytes, type and subtype."""
    return struct.pack("<QI3xB", address, length, kind << 4 | subtype)


def doorbell_offset(qid: int, dstrd: int, *, cq: bool = False) -> int:
    """Of a queue's doorbell: SQ tails at even places, CQ heads at odd ones, ``4 << dstrd`` bytes apart."""
    return DOORBELLS + (2 * qid + cq) * (4 << dstrd)

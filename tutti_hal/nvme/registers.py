"""The controller's registers: offsets in BAR0, bit layouts, doorbell arithmetic.

Source: NVM Express Base Specification, section "Controller Properties"; offsets and masks are compared with libnvme's.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum
from typing import ClassVar

from tutti_hal.errors import NvmeFieldRange
from tutti_hal.nvme.layout import Register, bits, flag

#: What every register reads as once the drive is gone.
GONE_32 = 0xFFFF_FFFF

#: The first doorbell.
DOORBELL_BASE = 0x1000

#: CAP.TO and CRTO count in units of this many nanoseconds.
TIMEOUT_UNIT_NS = 500_000_000


class Offset(IntEnum):
    """Byte offsets from the start of BAR0."""

    CAP = 0x00
    VS = 0x08
    INTMS = 0x0C
    INTMC = 0x10
    CC = 0x14
    CSTS = 0x1C
    NSSR = 0x20
    AQA = 0x24
    ASQ = 0x28
    ACQ = 0x30
    CMBLOC = 0x38
    CMBSZ = 0x3C
    BPINFO = 0x40
    BPRSEL = 0x44
    BPMBL = 0x48
    CMBMSC = 0x50
    CMBSTS = 0x58
    CMBEBS = 0x5C
    CMBSWTP = 0x60
    NSSD = 0x64
    CRTO = 0x68
    PMRCAP = 0xE00
    PMRCTL = 0xE04
    PMRSTS = 0xE08
    PMREBS = 0xE0C
    PMRSWTP = 0xE10
    PMRMSCL = 0xE14
    PMRMSCU = 0xE18


#: Registers of 64 bits; they are read and written as two 32-bit halves, low half first.
WIDE = frozenset({Offset.CAP, Offset.ASQ, Offset.ACQ, Offset.BPMBL, Offset.CMBMSC})


class ShutdownNotification(IntEnum):
    """CC.SHN."""

    NONE = 0
    NORMAL = 1
    ABRUPT = 2


class ShutdownStatus(IntEnum):
    """CSTS.SHST."""

    NORMAL_OPERATION = 0
    OCCURRING = 1
    COMPLETE = 2


class CommandSet(IntEnum):
    """CC.CSS."""

    NVM = 0
    ALL_SUPPORTED = 6
    ADMIN_ONLY = 7


@dataclass(frozen=True, kw_only=True, slots=True)
class Capabilities(Register):
    """CAP, 64 bits, read only."""

    SIZE: ClassVar[int] = 8

    mqes: int = bits(0, 16)
    cqr: bool = flag(16)
    ams: int = bits(17, 2)
    to: int = bits(24, 8)
    dstrd: int = bits(32, 4)
    nssrs: bool = flag(36)
    css: int = bits(37, 8)
    bps: bool = flag(45)
    cps: int = bits(46, 2)
    mpsmin: int = bits(48, 4)
    mpsmax: int = bits(52, 4)
    pmrs: bool = flag(56)
    cmbs: bool = flag(57)
    nsss: bool = flag(58)
    crwms: bool = flag(59)
    crims: bool = flag(60)
    nsses: bool = flag(61)

    @property
    def max_queue_entries(self) -> int:
        """The deepest I/O queue, in entries (MQES is 0-based)."""
        return self.mqes + 1

    @property
    def min_page_bytes(self) -> int:
        """The smallest memory page size that CC.MPS may select."""
        return 1 << (12 + self.mpsmin)

    @property
    def max_page_bytes(self) -> int:
        """The largest memory page size that CC.MPS may select."""
        return 1 << (12 + self.mpsmax)

    @property
    def timeout_ns(self) -> int:
        """How long RDY may take to follow EN, in nanoseconds."""
        return self.to * TIMEOUT_UNIT_NS

    @property
    def nvm_command_set(self) -> bool:
        """Whether CC.CSS = 000b selects the NVM command set (CSS bit 0)."""
        return bool(self.css & 0x01)

    @property
    def several_command_sets(self) -> bool:
        """Whether CC.CSS = 110b is allowed (CSS bit 6)."""
        return bool(self.css & 0x40)

    @property
    def doorbell_stride(self) -> int:
        """Bytes from one doorbell to the next."""
        return 4 << self.dstrd


@dataclass(frozen=True, kw_only=True, slots=True)
class Version(Register):
    """VS, also in Identify Controller as VER."""

    SIZE: ClassVar[int] = 4

    tertiary: int = bits(0, 8)
    minor: int = bits(8, 8)
    major: int = bits(16, 16)

    def __str__(self) -> str:
        return f"{self.major}.{self.minor}.{self.tertiary}"


@dataclass(frozen=True, kw_only=True, slots=True)
class Configuration(Register):
    """CC."""

    SIZE: ClassVar[int] = 4

    en: bool = flag(0)
    css: int = bits(4, 3)
    mps: int = bits(7, 4)
    ams: int = bits(11, 3)
    shn: int = bits(14, 2)
    iosqes: int = bits(16, 4)
    iocqes: int = bits(20, 4)
    crime: bool = flag(24)

    @property
    def page_bytes(self) -> int:
        """The memory page size that is selected."""
        return 1 << (12 + self.mps)


@dataclass(frozen=True, kw_only=True, slots=True)
class ControllerStatus(Register):
    """CSTS."""

    SIZE: ClassVar[int] = 4

    rdy: bool = flag(0)
    cfs: bool = flag(1)
    shst: int = bits(2, 2)
    nssro: bool = flag(4)
    pp: bool = flag(5)
    st: bool = flag(6)


@dataclass(frozen=True, kw_only=True, slots=True)
class AdminQueueAttributes(Register):
    """AQA; both sizes are 0-based."""

    SIZE: ClassVar[int] = 4

    asqs: int = bits(0, 12)
    acqs: int = bits(16, 12)


@dataclass(frozen=True, kw_only=True, slots=True)
class QueueBase(Register):
    """ASQ or ACQ: the bus address of an admin queue, in units of 4 KiB."""

    SIZE: ClassVar[int] = 8

    frame: int = bits(12, 52)

    @property
    def address(self) -> int:
        """The bus address."""
        return self.frame << 12

    @classmethod
    def at(cls, address: int) -> QueueBase:
        """The register for a bus address.

        Raises:
            NvmeFieldRange: not a multiple of 4 KiB.
        """
        if address & 0xFFF:
            raise NvmeFieldRange("place an admin queue", f"{address:#x}", "Align it to the memory page size.")
        return cls(frame=address >> 12)


@dataclass(frozen=True, kw_only=True, slots=True)
class MemoryBufferLocation(Register):
    """CMBLOC: where the controller memory buffer lies."""

    SIZE: ClassVar[int] = 4

    bir: int = bits(0, 3)
    cqmms: bool = flag(3)
    cqpds: bool = flag(4)
    cdplms: bool = flag(5)
    cdpcils: bool = flag(6)
    cdmmms: bool = flag(7)
    cqda: bool = flag(8)
    ofst: int = bits(12, 20)


@dataclass(frozen=True, kw_only=True, slots=True)
class MemoryBufferSize(Register):
    """CMBSZ: how large the controller memory buffer is and what may live in it."""

    SIZE: ClassVar[int] = 4

    sqs: bool = flag(0)
    cqs: bool = flag(1)
    lists: bool = flag(2)
    rds: bool = flag(3)
    wds: bool = flag(4)
    szu: int = bits(8, 4)
    sz: int = bits(12, 20)

    @property
    def nbytes(self) -> int:
        """The size in bytes; 0 when there is none."""
        return self.sz << (12 + 4 * self.szu)


@dataclass(frozen=True, kw_only=True, slots=True)
class MemoryBufferControl(Register):
    """CMBMSC: enables the controller memory buffer and places it in the bus address space."""

    SIZE: ClassVar[int] = 8

    cre: bool = flag(0)
    cmse: bool = flag(1)
    cba: int = bits(12, 52)


@dataclass(frozen=True, kw_only=True, slots=True)
class ReadyTimeouts(Register):
    """CRTO, in units of 500 ms."""

    SIZE: ClassVar[int] = 4

    crwmt: int = bits(0, 16)
    crimt: int = bits(16, 16)


def _doorbell(number: int, dstrd: int, qid: int) -> int:
    if not 0 <= qid <= 0xFFFF or not 0 <= dstrd <= 0xF:
        raise NvmeFieldRange(
            "locate a doorbell",
            f"queue {qid}, DSTRD {dstrd}",
            "Pass a queue id below 65536 and a 4-bit DSTRD.",
        )
    return DOORBELL_BASE + number * (4 << dstrd)


def sq_tail_offset(qid: int, dstrd: int) -> int:
    """Offset of the tail doorbell of submission queue `qid` (0 is the admin queue)."""
    return _doorbell(2 * qid, dstrd, qid)


def cq_head_offset(qid: int, dstrd: int) -> int:
    """Offset of the head doorbell of completion queue `qid` (0 is the admin queue)."""
    return _doorbell(2 * qid + 1, dstrd, qid)

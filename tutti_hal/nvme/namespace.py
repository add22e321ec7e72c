"""Identify data of namespaces: CNS 00h, the NVM part of CNS 05h, and lists of namespace ids (CNS 02h)."""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum
from typing import TYPE_CHECKING, ClassVar

from tutti_hal.errors import NamespaceInvalid, NvmeFieldRange, NvmeSizeWrong
from tutti_hal.nvme.identify import IDENTIFY_BYTES
from tutti_hal.nvme.layout import Layout, bits, flag, items, raw, uint

if TYPE_CHECKING:
    from collections.abc import Iterable

#: Ids in one namespace list.
LIST_ENTRIES = 1024

#: LBA data sizes that a drive may declare: 512 B and up. 64 KiB formats exist; above 2^31 no shift makes sense.
_LBADS_MIN, _LBADS_MAX = 9, 31


class ProtectionType(IntEnum):
    """DPS, bits 2:0: end-to-end protection of a namespace."""

    NONE = 0
    TYPE_1 = 1
    TYPE_2 = 2
    TYPE_3 = 3


@dataclass(frozen=True, kw_only=True, slots=True)
class LbaFormat(Layout):
    """LBAF, 4 bytes: metadata size, data size as a power of two, relative performance."""

    SIZE: ClassVar[int] = 4

    ms: int = uint(0, 2)
    lbads: int = uint(2, 1)
    rp: int = bits(24, 2)


@dataclass(frozen=True, kw_only=True, slots=True)
class IdentifyNamespace(Layout):
    """Identify Namespace (CNS 00h), 4096 bytes. Field names are the specification's, in lower case."""

    SIZE: ClassVar[int] = IDENTIFY_BYTES

    nsze: int = uint(0, 8)
    ncap: int = uint(8, 8)
    nuse: int = uint(16, 8)
    nsfeat: int = uint(24, 1)
    nlbaf: int = uint(25, 1)
    flbas_low: int = bits(8 * 26, 4)
    flbas_extended: bool = flag(8 * 26 + 4)
    flbas_high: int = bits(8 * 26 + 5, 2)
    mc: int = uint(27, 1)
    dpc: int = uint(28, 1)
    dps: int = uint(29, 1)
    nmic: int = uint(30, 1)
    rescap: int = uint(31, 1)
    fpi: int = uint(32, 1)
    dlfeat: int = uint(33, 1)
    nawun: int = uint(34, 2)
    nawupf: int = uint(36, 2)
    nacwu: int = uint(38, 2)
    nabsn: int = uint(40, 2)
    nabo: int = uint(42, 2)
    nabspf: int = uint(44, 2)
    noiob: int = uint(46, 2)
    nvmcap: int = uint(48, 16)
    npwg: int = uint(64, 2)
    npwa: int = uint(66, 2)
    npdg: int = uint(68, 2)
    npda: int = uint(70, 2)
    nows: int = uint(72, 2)
    mssrl: int = uint(74, 2)
    mcl: int = uint(76, 4)
    msrc: int = uint(80, 1)
    nulbaf: int = uint(82, 1)
    anagrpid: int = uint(92, 4)
    nsattr: int = uint(99, 1)
    nvmsetid: int = uint(100, 2)
    endgid: int = uint(102, 2)
    nguid: bytes = raw(104, 16)
    eui64: bytes = raw(120, 8)
    lbaf: tuple[LbaFormat, ...] = items(128, LbaFormat, 64)
    vs: bytes = raw(384, 3712)

    @property
    def active(self) -> bool:
        """Whether the namespace is active: Identify of an inactive one answers zeroes, with success."""
        return self.nsze != 0

    @property
    def own_atomicity(self) -> bool:
        """NSFEAT bit 1: NAWUN, NAWUPF and NACWU are defined and go before the controller's."""
        return bool(self.nsfeat >> 1 & 1)

    @property
    def io_hints(self) -> bool:
        """NSFEAT bit 4: NPWG, NPWA, NPDG, NPDA and NOWS are defined."""
        return bool(self.nsfeat >> 4 & 1)

    @property
    def format_index(self) -> int:
        """Which LBAF is in use: FLBAS bits 3:0, and bits 6:5 above them.

        The upper bits count only when there are more than 16 formats.
        """
        high = self.flbas_high if self.nlbaf + self.nulbaf >= 16 else 0
        return self.flbas_low | high << 4

    @property
    def lba_format(self) -> LbaFormat:
        """The LBA format in use.

        Raises:
            NamespaceInvalid: the namespace is inactive, its format index lies beyond its formats, or the block size
                is not one that can exist (LBADS 0 marks a format that is not available).
        """
        if not self.active:
            raise NamespaceInvalid(
                "read the LBA format",
                "NSZE is 0: the namespace is inactive",
                "Ask for an id of the active list.",
            )
        index = self.format_index
        if index > self.nlbaf + self.nulbaf or index >= len(self.lbaf):
            raise NamespaceInvalid(
                "read the LBA format",
                f"format {index} of {self.nlbaf + self.nulbaf + 1}",
                "The drive contradicts itself; format the namespace again.",
            )
        found = self.lbaf[index]
        if not _LBADS_MIN <= found.lbads <= _LBADS_MAX:
            raise NamespaceInvalid(
                "read the LBA format",
                f"LBADS of format {index} is {found.lbads}",
                "The block size must be 512 bytes or more; format the namespace with another LBA format.",
            )
        return found

    @property
    def lba_bytes(self) -> int:
        """Data bytes of a block, without metadata. Raises as `lba_format` does."""
        return 1 << self.lba_format.lbads

    @property
    def metadata_bytes(self) -> int:
        """Metadata bytes of a block. Raises as `lba_format` does."""
        return self.lba_format.ms

    @property
    def metadata_inline(self) -> bool:
        """Whether metadata travel behind each block's data in the same buffer (extended LBA)."""
        return self.flbas_extended and self.lba_format.ms > 0

    @property
    def transfer_bytes_per_block(self) -> int:
        """Bytes that one block takes in the data buffer. Raises as `lba_format` does."""
        return self.lba_bytes + (self.metadata_bytes if self.metadata_inline else 0)

    @property
    def protection(self) -> int:
        """End-to-end protection type, 0 when there is none (`ProtectionType`; 4 to 7 are reserved)."""
        return self.dps & 7


@dataclass(frozen=True, kw_only=True, slots=True)
class ExtendedLbaFormat(Layout):
    """ELBAF, 4 bytes: storage tag size and format of the protection information."""

    SIZE: ClassVar[int] = 4

    sts: int = bits(0, 7)
    #: 0 is 16-bit guard (8 bytes), 1 is 32-bit guard (16 bytes), 2 is 64-bit guard (16 bytes).
    pif: int = bits(7, 2)


@dataclass(frozen=True, kw_only=True, slots=True)
class IdentifyNvmNamespace(Layout):
    """Identify Namespace of the NVM command set (CNS 05h, CSI 00h), 4096 bytes."""

    SIZE: ClassVar[int] = IDENTIFY_BYTES

    lbstm: int = uint(0, 8)
    pic: int = uint(8, 1)
    elbaf: tuple[ExtendedLbaFormat, ...] = items(12, ExtendedLbaFormat, 64)


def encode_namespace_list(nsids: Iterable[int]) -> bytes:
    """A namespace list: 1024 ascending ids, zeroes after the last.

    Raises:
        NvmeFieldRange: more than 1024, not ascending, or 0 or FFFFFFFEh and above among them.
    """
    found = tuple(nsids)
    low = 0
    for nsid in found:
        if not low < nsid <= 0xFFFF_FFFD:
            raise NvmeFieldRange("encode a namespace list", f"{nsid:#x} after {low:#x}", "Give ascending valid ids.")
        low = nsid
    if len(found) > LIST_ENTRIES:
        raise NvmeFieldRange("encode a namespace list", f"{len(found)} ids", f"One list takes {LIST_ENTRIES}.")
    return b"".join(nsid.to_bytes(4, "little") for nsid in found).ljust(IDENTIFY_BYTES, b"\0")


def decode_namespace_list(data: bytes | bytearray | memoryview) -> tuple[int, ...]:
    """The ids of a namespace list, up to its first zero.

    Raises:
        NvmeSizeWrong: not 4096 bytes.
        NvmeFieldRange: the ids do not ascend; a host that asks for the rest from the last id would loop.
    """
    if len(data) != IDENTIFY_BYTES:
        raise NvmeSizeWrong("decode a namespace list", f"{len(data)} bytes", f"Pass exactly {IDENTIFY_BYTES} bytes.")
    found: list[int] = []
    for at in range(0, IDENTIFY_BYTES, 4):
        nsid = int.from_bytes(data[at : at + 4], "little")
        if nsid == 0:
            break
        if found and nsid <= found[-1]:
            raise NvmeFieldRange(
                "decode a namespace list",
                f"{nsid:#x} after {found[-1]:#x}",
                "The drive must send ascending ids.",
            )
        found.append(nsid)
    return tuple(found)

"""Identify data of a controller: CNS 01h, and CNS 06h for the NVM command set. Namespaces are in `namespace`.

Source: NVM Express Base Specification, "Identify Controller Data Structure"; offsets are compared with libnvme's.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntFlag
from typing import ClassVar

from tutti_hal.nvme.layout import Layout, bits, flag, items, name, raw, text, uint
from tutti_hal.nvme.registers import Version
from tutti_hal.nvme.sgl import SglSupport

#: Bytes of every Identify data structure.
IDENTIFY_BYTES = 4096


class OptionalAdmin(IntFlag):
    """OACS: optional admin commands."""

    SECURITY = 1 << 0
    FORMAT = 1 << 1
    FIRMWARE = 1 << 2
    NAMESPACE_MANAGEMENT = 1 << 3
    SELF_TEST = 1 << 4
    DIRECTIVES = 1 << 5
    MI = 1 << 6
    VIRTUALIZATION = 1 << 7
    DOORBELL_BUFFER = 1 << 8
    GET_LBA_STATUS = 1 << 9
    LOCKDOWN = 1 << 10


class OptionalNvm(IntFlag):
    """ONCS: optional NVM commands and features."""

    COMPARE = 1 << 0
    WRITE_UNCORRECTABLE = 1 << 1
    DATASET_MANAGEMENT = 1 << 2
    WRITE_ZEROES = 1 << 3
    SAVE_FEATURES = 1 << 4
    RESERVATIONS = 1 << 5
    TIMESTAMP = 1 << 6
    VERIFY = 1 << 7
    COPY = 1 << 8


@dataclass(frozen=True, kw_only=True, slots=True)
class PowerState(Layout):
    """One power state descriptor, 32 bytes."""

    SIZE: ClassVar[int] = 32

    mp: int = uint(0, 2)
    mxps: bool = flag(24)
    nops: bool = flag(25)
    enlat: int = uint(4, 4)
    exlat: int = uint(8, 4)
    rrt: int = bits(96, 5)
    rrl: int = bits(104, 5)
    rwt: int = bits(112, 5)
    rwl: int = bits(120, 5)
    idlp: int = uint(16, 2)
    ips: int = bits(150, 2)
    actp: int = uint(20, 2)
    apw: int = bits(176, 3)
    aps: int = bits(182, 2)


@dataclass(frozen=True, kw_only=True, slots=True)
class IdentifyController(Layout):
    """Identify Controller (CNS 01h), 4096 bytes. Field names are the specification's, in lower case."""

    SIZE: ClassVar[int] = IDENTIFY_BYTES

    vid: int = uint(0, 2)
    ssvid: int = uint(2, 2)
    sn: str = text(4, 20)
    mn: str = text(24, 40)
    fr: str = text(64, 8)
    rab: int = uint(72, 1)
    ieee: int = uint(73, 3)
    cmic: int = uint(76, 1)
    mdts: int = uint(77, 1)
    cntlid: int = uint(78, 2)
    ver: int = uint(80, 4)
    rtd3r: int = uint(84, 4)
    rtd3e: int = uint(88, 4)
    oaes: int = uint(92, 4)
    ctratt: int = uint(96, 4)
    rrls: int = uint(100, 2)
    cntrltype: int = uint(111, 1)
    fguid: bytes = raw(112, 16)
    crdt1: int = uint(128, 2)
    crdt2: int = uint(130, 2)
    crdt3: int = uint(132, 2)
    nvmsr: int = uint(253, 1)
    vwci: int = uint(254, 1)
    mec: int = uint(255, 1)
    oacs: int = uint(256, 2)
    acl: int = uint(258, 1)
    aerl: int = uint(259, 1)
    frmw: int = uint(260, 1)
    lpa: int = uint(261, 1)
    elpe: int = uint(262, 1)
    npss: int = uint(263, 1)
    avscc: int = uint(264, 1)
    apsta: int = uint(265, 1)
    wctemp: int = uint(266, 2)
    cctemp: int = uint(268, 2)
    mtfa: int = uint(270, 2)
    hmpre: int = uint(272, 4)
    hmmin: int = uint(276, 4)
    tnvmcap: int = uint(280, 16)
    unvmcap: int = uint(296, 16)
    rpmbs: int = uint(312, 4)
    edstt: int = uint(316, 2)
    dsto: int = uint(318, 1)
    fwug: int = uint(319, 1)
    kas: int = uint(320, 2)
    hctma: int = uint(322, 2)
    mntmt: int = uint(324, 2)
    mxtmt: int = uint(326, 2)
    sanicap: int = uint(328, 4)
    hmminds: int = uint(332, 4)
    hmmaxd: int = uint(336, 2)
    nsetidmax: int = uint(338, 2)
    endgidmax: int = uint(340, 2)
    anatt: int = uint(342, 1)
    anacap: int = uint(343, 1)
    anagrpmax: int = uint(344, 4)
    nanagrpid: int = uint(348, 4)
    pels: int = uint(352, 4)
    domainid: int = uint(356, 2)
    megcap: int = uint(368, 16)
    sqes_min: int = bits(8 * 512, 4)
    sqes_max: int = bits(8 * 512 + 4, 4)
    cqes_min: int = bits(8 * 513, 4)
    cqes_max: int = bits(8 * 513 + 4, 4)
    maxcmd: int = uint(514, 2)
    nn: int = uint(516, 4)
    oncs: int = uint(520, 2)
    fuses: int = uint(522, 2)
    fna: int = uint(524, 1)
    vwc: int = uint(525, 1)
    awun: int = uint(526, 2)
    awupf: int = uint(528, 2)
    icsvscc: int = uint(530, 1)
    nwpc: int = uint(531, 1)
    acwu: int = uint(532, 2)
    ocfs: int = uint(534, 2)
    sgls: int = uint(536, 4)
    mnan: int = uint(540, 4)
    maxdna: int = uint(544, 16)
    maxcna: int = uint(560, 4)
    subnqn: str = name(768, 256)
    ioccsz: int = uint(1792, 4)
    iorcsz: int = uint(1796, 4)
    icdoff: int = uint(1800, 2)
    fcatt: int = uint(1802, 1)
    msdbd: int = uint(1803, 1)
    ofcs: int = uint(1804, 2)
    dctype: int = uint(1806, 1)
    psd: tuple[PowerState, ...] = items(2048, PowerState, 32)
    vs: bytes = raw(3072, 1024)

    def max_transfer_bytes(self, min_page_bytes: int) -> int | None:
        """The longest transfer of one command (MDTS), or None when there is no limit.

        Args:
            min_page_bytes: the page size of CAP.MPSMIN, in whose units MDTS counts (not that of CC.MPS).
        """
        return None if self.mdts == 0 else min_page_bytes << self.mdts

    @property
    def version(self) -> Version:
        """VER, decoded."""
        return Version.from_value(self.ver)

    @property
    def sgl_support(self) -> SglSupport:
        """SGLS, decoded."""
        return SglSupport.from_value(self.sgls)

    @property
    def optional_admin(self) -> OptionalAdmin:
        """OACS, as flags."""
        return OptionalAdmin(self.oacs)

    @property
    def optional_nvm(self) -> OptionalNvm:
        """ONCS, as flags."""
        return OptionalNvm(self.oncs)

    @property
    def volatile_write_cache(self) -> bool:
        """Whether there is a volatile write cache: then an acknowledged write is durable only after a flush."""
        return bool(self.vwc & 1)

    @property
    def flush_all_namespaces(self) -> bool:
        """Whether Flush takes NSID FFFFFFFFh (VWC bits 2:1 are 11b; 00b is "not said", 10b is "no")."""
        return self.vwc >> 1 & 3 == 3

    @property
    def shadow_doorbells(self) -> bool:
        """Whether Doorbell Buffer Config is supported: another driver may have turned it on."""
        return bool(self.oacs & OptionalAdmin.DOORBELL_BUFFER)


@dataclass(frozen=True, kw_only=True, slots=True)
class IdentifyNvmController(Layout):
    """Identify Controller of the NVM command set (CNS 06h, CSI 00h), 4096 bytes.

    The size limits are powers of two in units of the smallest memory page (CAP.MPSMIN); 0 says "no limit given".
    """

    SIZE: ClassVar[int] = IDENTIFY_BYTES

    vsl: int = uint(0, 1)
    wzsl: int = uint(1, 1)
    wusl: int = uint(2, 1)
    dmrl: int = uint(3, 1)
    dmrsl: int = uint(4, 4)
    dmsl: int = uint(8, 8)

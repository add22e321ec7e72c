"""Submission queue entries: the 64 bytes that every command shares.

What a single command puts into its dwords 10 to 15 is in `commands`.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from enum import IntEnum
from typing import TYPE_CHECKING, ClassVar

from tutti_hal.errors import NvmeFieldRange
from tutti_hal.nvme.layout import Layout, dword, uint
from tutti_hal.nvme.prp import PrpPair
from tutti_hal.nvme.sgl import SglDescriptor

if TYPE_CHECKING:
    import numpy as np

#: Bytes of an SQE.
SQE_BYTES = 64

#: A CID that no host should use: error log entries use it for "no command".
CID_FORBIDDEN = 0xFFFF

#: NSID that names every namespace.
NSID_ALL = 0xFFFF_FFFF

#: How a command names its data: two PRPs, or one SGL descriptor.
DataPointer = PrpPair | SglDescriptor


class Psdt(IntEnum):
    """PRP or SGL for data transfer (dword 0, bits 15:14)."""

    PRP = 0
    #: SGL for data; MPTR is the address of one contiguous metadata buffer.
    SGL = 1
    #: SGL for data; MPTR is the address of one SGL descriptor for the metadata.
    SGL_METADATA_SGL = 2
    RESERVED = 3


class Fuse(IntEnum):
    """Fused operation (dword 0, bits 9:8)."""

    NONE = 0
    FIRST = 1
    SECOND = 2
    RESERVED = 3


@dataclass(frozen=True, kw_only=True, slots=True)
class Sqe(Layout):
    """A submission queue entry, 64 bytes.

    `prp1` and `prp2` are the two halves of the data pointer whatever PSDT says; `data` reads them as PSDT tells.
    """

    SIZE: ClassVar[int] = SQE_BYTES

    opcode: int = dword(0, 0, 8)
    fuse: int = dword(0, 8, 2)
    psdt: int = dword(0, 14, 2)
    cid: int = dword(0, 16, 16)
    nsid: int = dword(1)
    cdw2: int = dword(2)
    cdw3: int = dword(3)
    mptr: int = uint(16, 8)
    prp1: int = uint(24, 8)
    prp2: int = uint(32, 8)
    cdw10: int = dword(10)
    cdw11: int = dword(11)
    cdw12: int = dword(12)
    cdw13: int = dword(13)
    cdw14: int = dword(14)
    cdw15: int = dword(15)

    @property
    def data(self) -> DataPointer:
        """The data pointer, read as PSDT tells.

        Raises:
            NvmeFieldRange: PSDT is the reserved value 11b.
        """
        if self.psdt == Psdt.RESERVED:
            raise NvmeFieldRange("read the data pointer of an SQE", "PSDT is 11b", "The value is reserved.")
        if self.psdt == Psdt.PRP:
            return PrpPair(prp1=self.prp1, prp2=self.prp2)
        return SglDescriptor.decode(self.prp1.to_bytes(8, "little") + self.prp2.to_bytes(8, "little"))

    def with_data(self, data: DataPointer, metadata_sgl: bool = False) -> Sqe:
        """A copy with this data pointer and the PSDT that belongs to it.

        Args:
            data: what the command moves.
            metadata_sgl: MPTR points at an SGL descriptor, not at the metadata; only with an SGL for the data.

        Raises:
            NvmeFieldRange: `metadata_sgl` with PRPs.
        """
        if isinstance(data, PrpPair):
            if metadata_sgl:
                raise NvmeFieldRange("set a data pointer", "PRPs with a metadata SGL", "Use an SGL for the data too.")
            return replace(self, psdt=int(Psdt.PRP), prp1=data.prp1, prp2=data.prp2)
        blob = data.encode()
        return replace(
            self,
            psdt=int(Psdt.SGL_METADATA_SGL if metadata_sgl else Psdt.SGL),
            prp1=int.from_bytes(blob[:8], "little"),
            prp2=int.from_bytes(blob[8:], "little"),
        )

    @property
    def command_bytes(self) -> bytes:
        """Dwords 10 to 15, what a command's own layout in `commands` decodes."""
        return self.encode()[40:]


def sqe_dtype() -> np.dtype[np.void]:
    """NumPy's view of an array of SQEs, 64 bytes each.

    `flags` is byte 1 (FUSE in bits 1:0, PSDT in 7:6); `slba` overlays dwords 10 and 11.
    """
    import numpy as np

    names = ["opcode", "flags", "cid", "nsid", "cdw2", "cdw3", "mptr", "prp1", "prp2", "slba"]
    formats = ["u1", "u1", "<u2", "<u4", "<u4", "<u4", "<u8", "<u8", "<u8", "<u8"]
    offsets = [0, 1, 2, 4, 8, 12, 16, 24, 32, 40]
    for k in range(10, 16):
        names.append(f"cdw{k}")
        formats.append("<u4")
        offsets.append(4 * k)
    return np.dtype({"names": names, "formats": formats, "offsets": offsets, "itemsize": SQE_BYTES})

"""Completion queue entries."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

from tutti_hal.nvme.layout import Layout, dword, dword_flag
from tutti_hal.nvme.status import Status

if TYPE_CHECKING:
    import numpy as np

#: Bytes of a CQE.
CQE_BYTES = 16


@dataclass(frozen=True, kw_only=True, slots=True)
class Cqe(Layout):
    """A completion queue entry, 16 bytes.

    `result` is dword 0, and with dword 1 a 64-bit result where a command defines one. Who polls reads dword 3 first
    (`phase`), then with acquire order the rest.
    """

    SIZE: ClassVar[int] = CQE_BYTES

    result: int = dword(0)
    result_high: int = dword(1)
    sqhd: int = dword(2, 0, 16)
    sqid: int = dword(2, 16, 16)
    cid: int = dword(3, 0, 16)
    phase: bool = dword_flag(3, 16)
    sc: int = dword(3, 17, 8)
    sct: int = dword(3, 25, 3)
    crd: int = dword(3, 28, 2)
    more: bool = dword_flag(3, 30)
    dnr: bool = dword_flag(3, 31)

    @property
    def status(self) -> Status:
        """The status field without the phase bit."""
        return Status(sct=self.sct, sc=self.sc, crd=self.crd, more=self.more, dnr=self.dnr)


def cqe_dtype() -> np.dtype[np.void]:
    """NumPy's view of an array of CQEs: four little-endian dwords' worth of named fields.

    `status` holds bits 31:16 of dword 3: the phase in bit 0, the 15 bits of the status field above it.
    """
    import numpy as np

    return np.dtype(
        [
            ("result", "<u4"),
            ("result_high", "<u4"),
            ("sqhd", "<u2"),
            ("sqid", "<u2"),
            ("cid", "<u2"),
            ("status", "<u2"),
        ]
    )

"""MACA: device code for each arch made by mxcc, as the record says; nothing public tells what its kernels need."""

from __future__ import annotations

from tutti_hal.record import Record
from tutti_hal.toolchain import Toolchain


class MacaToolchain(Toolchain):
    """mxcc; the run-time compiler of the SDK where there is none. No lister is public."""

    install_hint = "install the MACA SDK, or name mxcc in TUTTI_MACA_MXCC"


def toolchain(record: Record) -> MacaToolchain:
    """The toolchain of this backend's record."""
    return MacaToolchain(record)

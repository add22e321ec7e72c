"""MUSA: device code for each arch made by mcc, as the record says; nothing public tells what its kernels need."""

from __future__ import annotations

from tutti_hal.record import Record
from tutti_hal.toolchain import Toolchain


class MusaToolchain(Toolchain):
    """mcc; the run-time compiler of the SDK where there is none. No lister is public."""

    install_hint = "install the MUSA SDK, or name mcc in TUTTI_MUSA_MCC"


def toolchain(record: Record) -> MusaToolchain:
    """The toolchain of this backend's record."""
    return MusaToolchain(record)

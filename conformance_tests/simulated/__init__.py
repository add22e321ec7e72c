"""Simulated SDKs: a vendor's own host ABI over the HOST engine, for machines without the vendor's hardware."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from tutti_hal.backend import API_VERSION
from tutti_hal.simulated_sdk import SimulatedSdk


def offer(vendor: str, folder: Path) -> SimulatedSdk:
    """A simulated SDK from a folder with an ``abi.yaml``, for an entry point of the group ``tutti_hal.simulated_sdks``.

    Reads nothing yet.

    Args:
        vendor: the vendor's name, as the entry point's.
        folder: where ``abi.yaml`` lies, and ``root`` where the SDK has more.
    """

    def archs() -> Sequence[str]:
        from tutti_hal.conformance_tests.simulated import abi

        return abi.archs(folder)

    def versions() -> Sequence[str]:
        from tutti_hal.conformance_tests.simulated import abi

        return abi.versions(folder)

    def make(arch: str, sdk: str) -> Path:
        from tutti_hal.conformance_tests.simulated.root import make_root

        return make_root(folder, arch, sdk)

    return SimulatedSdk(vendor, API_VERSION, archs, versions, make)


def _ours(vendor: str) -> SimulatedSdk:
    return offer(vendor, Path(__file__).parent / vendor)


MUSA = _ours("musa")
MACA = _ours("maca")
HIP = _ours("hip")

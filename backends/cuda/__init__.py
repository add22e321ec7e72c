"""NVIDIA CUDA. This module is the light descriptor: it imports no SDK and initialises no driver."""

from __future__ import annotations

from pathlib import Path

from tutti_hal.backend import API_VERSION, Descriptor, Probe


def probe() -> Probe:
    """Look for devices, driver and SDK from outside the process: files and one call of ``nvidia-smi``."""
    from tutti_hal.backends.cuda.detect import look

    return look()


DESCRIPTOR = Descriptor(
    name="cuda",
    api_version=API_VERSION,
    folder=Path(__file__).parent,
    module="tutti_hal.backends.cuda",
    probe=probe,
)

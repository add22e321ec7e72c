"""MetaX MACA. This module is the light descriptor: it imports no SDK and initialises no driver."""

from __future__ import annotations

from pathlib import Path

from tutti_hal.backend import API_VERSION, Descriptor, Probe


def probe() -> Probe:
    """Look for devices, driver and SDK from outside the process: files alone."""
    from tutti_hal.sdk import look_for

    return look_for(Path(__file__).parent)


DESCRIPTOR = Descriptor(
    name="maca",
    api_version=API_VERSION,
    folder=Path(__file__).parent,
    module="tutti_hal.backends.maca",
    probe=probe,
)

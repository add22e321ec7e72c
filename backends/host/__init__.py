"""HOST: kernels run on the CPU, by the package's own engine. This module is the light descriptor."""

from __future__ import annotations

from pathlib import Path

from tutti_hal.backend import API_VERSION, Descriptor, Probe


def probe() -> Probe:
    """Whether the native library is installed. It is not loaded here."""
    from tutti_hal import paths
    from tutti_hal.errors import NativeError

    try:
        paths.native_library()
    except NativeError as error:
        return Probe(usable=False, reason=str(error))
    return Probe(usable=True, reason="runs on this CPU; used only when named")


DESCRIPTOR = Descriptor(
    name="host",
    api_version=API_VERSION,
    folder=Path(__file__).parent,
    module="tutti_hal.backends.host",
    probe=probe,
)

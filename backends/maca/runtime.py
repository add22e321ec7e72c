"""Layer B of MACA: the one runtime of the core, driven by the record."""

from tutti_hal.shim.sdk_runtime import open_runtime

__all__ = ["open_runtime"]

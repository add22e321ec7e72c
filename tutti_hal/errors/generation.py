"""Rendering and compiling kernels, and the native library."""

from __future__ import annotations

from tutti_hal.errors.base import TuttiError


class GenerationError(TuttiError):
    """A template could not be rendered, or breaks the lint."""

    id = "TT-GENERATE"


class RecordIncomplete(GenerationError):
    """A record lacks host functions or primitives that its capabilities make mandatory."""

    id = "TT-RECORD-INCOMPLETE"


class BuildError(TuttiError):
    """A rendered source could not be compiled."""

    id = "TT-BUILD"


class CompilerMissing(BuildError):
    """No compiler for the profile was found."""

    id = "TT-COMPILER-MISSING"


class ArchRefused(BuildError):
    """The compiler knows no such architecture."""

    id = "TT-BUILD-ARCH"


class VendorsMixed(BuildError):
    """The macros of two vendors are defined in one translation unit."""

    id = "TT-BUILD-VENDORS"


class CacheUnwritable(BuildError):
    """The cache of compiled kernels cannot be written, and something had to be compiled."""

    id = "TT-CACHE-UNWRITABLE"


class NativeError(TuttiError):
    """The native library is missing or does not match this package."""

    id = "TT-NATIVE"

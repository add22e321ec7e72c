"""A vendor's runtime: memory, streams, modules and launches."""

from __future__ import annotations

from tutti_hal.errors.base import TuttiError


class RuntimeFailure(TuttiError):
    """A host call of a vendor's runtime was refused or failed.

    Attributes:
        vendor: the vendor's name, or empty where the shim refused before asking the vendor.
        call: canonical name of the host function, or of the shim's own operation.
        code: the vendor's number; 0 where the shim refused.
        canonical: the contract's name of that number, such as ``InvalidValue``; empty when it has none.
    """

    id = "TT-RUNTIME"

    def __init__(
        self, tried: str, found: str, fix: str, *, vendor: str = "", call: str = "", code: int = 0, canonical: str = ""
    ) -> None:
        super().__init__(tried, found, fix)
        self.vendor = vendor
        self.call = call
        self.code = code
        self.canonical = canonical


class RuntimeMissing(RuntimeFailure):
    """The vendor's runtime libraries were not found or cannot be loaded."""

    id = "TT-RUNTIME-MISSING"


class SymbolMissing(RuntimeMissing):
    """The vendor's libraries lack functions that every vendor must have; each is listed with its symbol."""

    id = "TT-RUNTIME-SYMBOL"


class OutOfMemory(RuntimeFailure):
    """Device or page-locked memory does not suffice."""

    id = "TT-RUNTIME-OUT-OF-MEMORY"


class InvalidArgument(RuntimeFailure):
    """An argument is out of range, of the wrong size, or contradicts another one."""

    id = "TT-RUNTIME-ARGUMENT"


class BadHandle(RuntimeFailure):
    """The runtime does not know a stream, event, module or kernel."""

    id = "TT-RUNTIME-BAD-HANDLE"


class UseAfterFree(RuntimeFailure):
    """An object was used after it was closed, or after its device was reset."""

    id = "TT-RUNTIME-USE-AFTER-FREE"


class WrongDevice(RuntimeFailure):
    """There is no such device, or an object belongs to another one."""

    id = "TT-RUNTIME-WRONG-DEVICE"


class WaveWidthWrong(WrongDevice):
    """A device's waves are not as wide as its architecture's, or of a width that no kernel is written for."""

    id = "TT-RUNTIME-WAVE-WIDTH"


class NotSupported(RuntimeFailure):
    """The vendor or the device lacks a capability; ``capability`` names it where the contract does."""

    id = "TT-RUNTIME-NOT-SUPPORTED"

    def __init__(
        self,
        tried: str,
        found: str,
        fix: str,
        *,
        capability: str = "",
        vendor: str = "",
        call: str = "",
        code: int = 0,
        canonical: str = "",
    ) -> None:
        super().__init__(tried, found, fix, vendor=vendor, call=call, code=code, canonical=canonical)
        self.capability = capability


class ModuleInvalid(RuntimeFailure):
    """A module is missing, damaged, of another architecture, or lacks a kernel."""

    id = "TT-RUNTIME-MODULE"


class LaunchRefused(RuntimeFailure):
    """A launch's geometry or resources cannot be had; nothing ran."""

    id = "TT-RUNTIME-LAUNCH-REFUSED"


class LaunchFailed(RuntimeFailure):
    """A kernel failed while it ran. Its device refuses all further work until it is reset."""

    id = "TT-RUNTIME-LAUNCH-FAILED"


class LaunchTimeout(LaunchFailed):
    """A kernel outran its time limit."""

    id = "TT-RUNTIME-LAUNCH-TIMEOUT"


class LaunchDeadlock(LaunchFailed):
    """No lane of a kernel could run any more."""

    id = "TT-RUNTIME-LAUNCH-DEADLOCK"

"""One tree of exceptions. Each carries a stable id, what was tried, what was found and what to do next."""

from __future__ import annotations

from typing import ClassVar


class TuttiError(Exception):
    """Base of every error that this package raises on purpose.

    Args:
        tried: what the caller asked for, in a few words.
        found: what stood in the way, with the offending value.
        fix: what to do next; one sentence.
    """

    id: ClassVar[str] = "TT-ERROR"

    def __init__(self, tried: str, found: str, fix: str) -> None:
        super().__init__(tried, found, fix)
        self.tried = tried
        self.found = found
        self.fix = fix

    def __str__(self) -> str:
        end = "" if self.found.endswith("\n") else " " if self.found.endswith((".", "?", "!")) else ". "
        return f"[{self.id}] {self.tried}: {self.found}{end}{self.fix}"


class ProfileError(TuttiError):
    """No profile could be selected."""

    id = "TT-PROFILE"


class ProfileUnknown(ProfileError):
    """The named profile does not exist."""

    id = "TT-PROFILE-UNKNOWN"


class ProfileUnusable(ProfileError):
    """The named profile exists and cannot be used here."""

    id = "TT-PROFILE-UNUSABLE"


class ProfileAmbiguous(ProfileError):
    """Several hardware vendors are usable and none was named, or none is usable."""

    id = "TT-PROFILE-AMBIGUOUS"


class SpecError(TuttiError):
    """A contract table or a vendor's record breaks its schema; ``problems`` holds each place and what is wrong."""

    id = "TT-SPEC"

    def __init__(self, tried: str, found: str, fix: str, problems: tuple[object, ...] = ()) -> None:
        super().__init__(tried, found, fix)
        self.problems = problems


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


class CacheUnwritable(BuildError):
    """The cache of compiled kernels cannot be written, and something had to be compiled."""

    id = "TT-CACHE-UNWRITABLE"


class NativeError(TuttiError):
    """The native library is missing or does not match this package."""

    id = "TT-NATIVE"


class NvmeError(TuttiError):
    """Base of everything that has to do with the NVMe wire format or a controller."""

    id = "TT-NVME"


class NvmeFieldRange(NvmeError):
    """A value does not fit into its field, or is not one that the field may hold."""

    id = "TT-NVME-FIELD"


class NvmeSizeWrong(NvmeError):
    """A byte string is shorter or longer than the structure that it should hold."""

    id = "TT-NVME-SIZE"


class NvmeAddressingError(NvmeError):
    """PRPs or SGLs break a rule; `status_type` and `status_code` are what a controller answers."""

    id = "TT-NVME-ADDRESSING"

    def __init__(self, tried: str, found: str, fix: str, status_type: int = 0, status_code: int = 0x02) -> None:
        super().__init__(tried, found, fix)
        self.status_type = status_type
        self.status_code = status_code


class PrpInvalid(NvmeAddressingError):
    """PRP entries or a PRP list break a rule."""

    id = "TT-NVME-PRP"


class SglInvalid(NvmeAddressingError):
    """SGL descriptors or segments break a rule."""

    id = "TT-NVME-SGL"


class ControllerError(NvmeError):
    """A controller could not be brought up, used or shut down."""

    id = "TT-NVME-CONTROLLER"


class ControllerGone(ControllerError):
    """A register reads all ones: the drive was removed or its link is down."""

    id = "TT-NVME-GONE"


class ControllerFatal(ControllerError):
    """The controller reports a fatal error (CSTS.CFS)."""

    id = "TT-NVME-FATAL"


class ControllerTimeout(ControllerError):
    """The controller did not do in time what it was asked for."""

    id = "TT-NVME-TIMEOUT"


class ControllerUnsupported(ControllerError):
    """The controller lacks something that this package needs, or was asked for what it cannot do."""

    id = "TT-NVME-UNSUPPORTED"


class CommandFailed(ControllerError):
    """A command completed with an error status; `status_type`, `status_code` and `do_not_retry` say which."""

    id = "TT-NVME-STATUS"

    def __init__(
        self, tried: str, found: str, fix: str, status_type: int, status_code: int, do_not_retry: bool
    ) -> None:
        super().__init__(tried, found, fix)
        self.status_type = status_type
        self.status_code = status_code
        self.do_not_retry = do_not_retry


class QueueInvalid(ControllerError):
    """A queue was asked for with an id, depth or memory that no controller, or not this one, can take."""

    id = "TT-NVME-QUEUE"


class QueuesRefused(ControllerError):
    """The controller grants no I/O queues, or fewer than are needed."""

    id = "TT-NVME-QUEUES-REFUSED"


class NamespaceInvalid(ControllerError):
    """A namespace is absent, inactive, or formatted in a way that cannot be used."""

    id = "TT-NVME-NAMESPACE"


class RingError(TuttiError):
    """The ring refuses what was asked of it."""

    id = "TT-RING"


class DepthInvalid(RingError):
    """A queue cannot have this depth or so many commands."""

    id = "TT-RING-DEPTH"


class BatchFull(RingError):
    """More requests, after splitting, than a batch holds; or every batch is in flight."""

    id = "TT-RING-BATCH"


class RequestInvalid(RingError):
    """A request has no length, or one that is no multiple of the block, or an offset that a drive cannot take."""

    id = "TT-RING-REQUEST"


class LbaOutOfRange(RingError):
    """A request reaches past the end of its namespace."""

    id = "TT-RING-LBA"


class BufferInvalid(RingError):
    """A buffer is not registered, too small for the request, or cannot be registered."""

    id = "TT-RING-BUFFER"


class NamespaceAbsent(RingError):
    """The drive has no active namespace of that number."""

    id = "TT-RING-NSID"


class RingBusy(RingError):
    """What was asked cannot be done while a batch is in flight."""

    id = "TT-RING-BUSY"


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


class SoftwareControllerError(ControllerError):
    """The software controller refused what it was asked for, or its system refused it."""

    id = "TT-CONTROLLER"


class ControllerConfigInvalid(SoftwareControllerError):
    """A field of the software controller's configuration, of a namespace or of a fault is out of its range."""

    id = "TT-CONTROLLER-CONFIG"


class ControllerBusy(SoftwareControllerError):
    """The software controller runs already, or runs in a way that excludes what was asked for."""

    id = "TT-CONTROLLER-BUSY"


class NamespaceFileError(SoftwareControllerError):
    """A file cannot serve as a namespace."""

    id = "TT-NS-FILE"


class NamespaceFileMissing(NamespaceFileError):
    """There is no such file, or no such namespace."""

    id = "TT-NS-FILE-MISSING"


class NamespaceFileShort(NamespaceFileError):
    """The file is shorter than the namespace that was declared over it."""

    id = "TT-NS-FILE-SHORT"


class NamespaceFileUneven(NamespaceFileError):
    """The file is not a whole number of blocks."""

    id = "TT-NS-FILE-UNEVEN"


class NamespaceFileReadOnly(NamespaceFileError):
    """The file cannot be opened for writing."""

    id = "TT-NS-FILE-READ-ONLY"


class NamespaceFileNotDirect(NamespaceFileError):
    """Direct I/O was demanded, and this file's file system does none."""

    id = "TT-NS-FILE-NO-DIRECT"


class NamespaceFileAlignment(NamespaceFileError):
    """Direct I/O on this file needs larger blocks than the namespace has."""

    id = "TT-NS-FILE-ALIGNMENT"


class NamespaceFileKind(NamespaceFileError):
    """Neither a regular file nor a block device."""

    id = "TT-NS-FILE-KIND"

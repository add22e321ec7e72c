"""The status field of a completion: code types, codes, what each means, and whether trying again can help."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum, IntEnum
from functools import cache
from types import MappingProxyType
from typing import TYPE_CHECKING

from tutti_hal.errors import NvmeFieldRange

if TYPE_CHECKING:
    from collections.abc import Mapping


class StatusType(IntEnum):
    """Status code type (SCT)."""

    GENERIC = 0
    COMMAND_SPECIFIC = 1
    MEDIA = 2
    PATH = 3
    VENDOR = 7


class Retry(Enum):
    """What a host may do after a status.

    DNR = 1 overrules `IF_ALLOWED` and `LATER`: `Status.may_retry` takes it into account.
    """

    #: Success: nothing to retry.
    NONE = "none"
    #: The command, its addressing or the set-up is wrong: the same command fails again.
    NEVER = "never"
    #: A transient fault or a reset: the same command may succeed at once (after CRD, where given).
    IF_ALLOWED = "if-allowed"
    #: A state that passes: the same command may succeed later.
    LATER = "later"
    #: The data are wrong or lost: drop the object and recompute it.
    DROP = "drop"
    #: A path failed: the host's path policy decides.
    PATH = "path"


@dataclass(frozen=True, slots=True)
class Meaning:
    """One row of the status table."""

    name: str
    text: str
    retry: Retry


_N, _I, _L, _D, _P = Retry.NEVER, Retry.IF_ALLOWED, Retry.LATER, Retry.DROP, Retry.PATH

_GENERIC = {
    0x00: ("success", "the command completed without error", Retry.NONE),
    0x01: ("invalid-opcode", "the opcode is unknown or not supported", _N),
    0x02: ("invalid-field", "a field holds a value that is reserved or not supported", _N),
    0x03: ("cid-conflict", "the command identifier is already in use", _N),
    0x04: ("data-transfer-error", "moving data or metadata between host and drive failed", _I),
    0x05: ("power-loss-abort", "aborted by a power loss notification", _I),
    0x06: ("internal-error", "an internal error of the drive", _I),
    0x07: ("abort-requested", "aborted by an Abort command", _I),
    0x08: ("aborted-sq-deleted", "aborted because its submission queue was deleted", _I),
    0x09: ("aborted-fused-failed", "aborted because the other fused command failed", _I),
    0x0A: ("aborted-fused-missing", "aborted because the other fused command is missing", _N),
    0x0B: ("invalid-namespace-or-format", "the namespace or its format is invalid", _N),
    0x0C: ("command-sequence-error", "the command comes out of sequence", _N),
    0x0D: ("sgl-segment-invalid", "an SGL segment or last segment descriptor is invalid", _N),
    0x0E: ("sgl-count-invalid", "the number of SGL descriptors is invalid", _N),
    0x0F: ("sgl-data-length-invalid", "the data SGL is too short or too long", _N),
    0x10: ("sgl-metadata-length-invalid", "the metadata SGL is too short or too long", _N),
    0x11: ("sgl-type-invalid", "an SGL descriptor has a type that is not supported", _N),
    0x12: ("cmb-use-invalid", "the controller memory buffer is used in a way that is not supported", _N),
    0x13: ("prp-offset-invalid", "a PRP entry has an offset that is not allowed", _N),
    0x14: ("atomic-write-unit-exceeded", "longer than the atomic write unit", _N),
    0x15: ("operation-denied", "denied for lack of access rights", _N),
    0x16: ("sgl-offset-invalid", "an SGL descriptor has an offset that is not allowed", _N),
    0x18: ("host-id-inconsistent", "host identifiers of different formats are in use", _N),
    0x19: ("keep-alive-expired", "the keep alive timer expired", _I),
    0x1A: ("keep-alive-invalid", "the keep alive timeout is invalid", _N),
    0x1B: ("aborted-preempted", "aborted by Preempt and Abort of a reservation", _N),
    0x1C: ("sanitize-failed", "the latest sanitize failed and has not been recovered", _N),
    0x1D: ("sanitize-in-progress", "a sanitize is running", _L),
    0x1E: ("sgl-granularity-invalid", "an SGL data block breaks the granularity", _N),
    0x1F: (
        "command-in-cmb-unsupported",
        "queues in the controller memory buffer do not take this command",
        _N,
    ),
    0x20: ("namespace-write-protected", "the namespace is write protected", _N),
    0x21: ("command-interrupted", "interrupted by the drive; ask again", _I),
    0x22: ("transient-transport-error", "a transient error of the transport", _I),
    0x23: ("prohibited-by-lockdown", "prohibited by the command and feature lockdown", _N),
    0x24: ("admin-media-not-ready", "an admin command needs media that are not ready", _L),
    0x80: ("lba-out-of-range", "an LBA lies beyond the namespace", _N),
    0x81: ("capacity-exceeded", "the namespace has no capacity left", _N),
    0x82: ("namespace-not-ready", "the namespace is not ready", _L),
    0x83: ("reservation-conflict", "another host holds a reservation", _N),
    0x84: ("format-in-progress", "a format is running", _L),
}

_COMMAND = {
    0x00: ("cq-invalid", "the completion queue does not exist", _N),
    0x01: ("qid-invalid", "the queue identifier is invalid or in use", _N),
    0x02: ("queue-size-invalid", "the queue size is zero or too large", _N),
    0x03: ("abort-limit-exceeded", "more Abort commands outstanding than allowed", _L),
    0x05: ("async-event-limit-exceeded", "more event requests outstanding than allowed", _N),
    0x06: ("firmware-slot-invalid", "the firmware slot is invalid or read only", _N),
    0x07: ("firmware-image-invalid", "the firmware image is invalid", _N),
    0x08: ("interrupt-vector-invalid", "the interrupt vector is invalid", _N),
    0x09: ("log-page-invalid", "the log page is invalid", _N),
    0x0A: ("format-invalid", "the LBA format is not supported", _N),
    0x0B: ("firmware-needs-reset", "firmware activation needs a conventional reset", _N),
    0x0C: ("queue-deletion-invalid", "the completion queue still has submission queues", _N),
    0x0D: ("feature-not-saveable", "the feature cannot be saved", _N),
    0x0E: ("feature-not-changeable", "the feature cannot be changed", _N),
    0x0F: ("feature-not-namespace-specific", "the feature does not belong to a namespace", _N),
    0x10: ("firmware-needs-subsystem-reset", "firmware activation needs a subsystem reset", _N),
    0x11: ("firmware-needs-controller-reset", "firmware activation needs a controller reset", _N),
    0x12: ("firmware-needs-more-time", "firmware activation exceeds the maximum time", _N),
    0x13: ("firmware-prohibited", "firmware activation is prohibited", _N),
    0x14: ("overlapping-range", "ranges overlap", _N),
    0x15: ("namespace-capacity-insufficient", "not enough capacity for the namespace", _N),
    0x16: ("namespace-id-unavailable", "no namespace identifier is free", _N),
    0x18: ("namespace-already-attached", "the namespace is attached already", _N),
    0x19: ("namespace-private", "the namespace is private", _N),
    0x1A: ("namespace-not-attached", "the namespace is not attached", _N),
    0x1B: ("thin-provisioning-unsupported", "thin provisioning is not supported", _N),
    0x1C: ("controller-list-invalid", "the controller list is invalid", _N),
    0x1D: ("self-test-in-progress", "a self-test is running", _L),
    0x1E: ("boot-partition-write-prohibited", "the boot partition is locked", _N),
    0x1F: ("controller-id-invalid", "the controller identifier is invalid", _N),
    0x20: ("secondary-controller-state-invalid", "the secondary controller is in the wrong state", _N),
    0x21: ("controller-resources-invalid", "the number of controller resources is invalid", _N),
    0x22: ("resource-id-invalid", "the resource identifier is invalid", _N),
    0x23: ("sanitize-prohibited-by-pmr", "sanitize is prohibited while the PMR is enabled", _N),
    0x24: ("ana-group-invalid", "the ANA group identifier is invalid", _N),
    0x25: ("ana-attach-failed", "attachment failed because of ANA", _N),
    0x26: ("capacity-insufficient", "not enough capacity", _N),
    0x27: ("attachment-limit-exceeded", "too many namespaces attached", _N),
    0x28: ("lockdown-unsupported", "prohibiting this command is not supported", _N),
    0x29: ("command-set-unsupported", "the I/O command set is not supported", _N),
    0x2A: ("command-set-not-enabled", "the I/O command set is not enabled", _N),
    0x2B: ("command-set-combination-rejected", "the combination of I/O command sets is rejected", _N),
    0x2C: ("command-set-invalid", "the I/O command set is invalid", _N),
    0x2D: ("id-unavailable", "no identifier is free", _N),
    0x80: ("conflicting-attributes", "the attributes conflict with each other", _N),
    0x81: ("protection-invalid", "the protection information settings are invalid", _N),
    0x82: ("write-to-read-only-range", "the range is read only", _N),
    0x83: ("command-size-limit-exceeded", "the command exceeds a size limit", _N),
    0xB6: ("zone-invalid-operation", "invalid zone operation request", _N),
    0xB7: ("zone-zrwa-unavailable", "no zone random write area resources", _L),
    0xB8: ("zone-boundary-error", "the command crosses a zone boundary", _N),
    0xB9: ("zone-full", "the zone is full", _N),
    0xBA: ("zone-read-only", "the zone is read only", _N),
    0xBB: ("zone-offline", "the zone is offline", _N),
    0xBC: ("zone-invalid-write", "the write is not at the write pointer", _N),
    0xBD: ("zone-too-many-active", "too many active zones", _L),
    0xBE: ("zone-too-many-open", "too many open zones", _L),
    0xBF: ("zone-invalid-transition", "invalid zone state transition", _N),
}

_MEDIA = {
    0x80: ("write-fault", "the data could not be written to the media", _D),
    0x81: ("unrecovered-read-error", "the data could not be read from the media", _D),
    0x82: ("guard-check-error", "the guard does not match the data", _D),
    0x83: ("application-tag-check-error", "the application tag does not match", _D),
    0x84: ("reference-tag-check-error", "the reference tag does not match", _D),
    0x85: ("compare-failure", "the data differ", _D),
    0x86: ("access-denied", "access to the LBA range is denied", _D),
    0x87: ("deallocated-or-unwritten", "the block is deallocated or was never written", _D),
    0x88: ("storage-tag-check-error", "the storage tag does not match", _D),
}

_PATH_ROWS = {
    0x00: ("internal-path-error", "an internal error of the path", _P),
    0x01: ("ana-persistent-loss", "the ANA group is lost on this path", _P),
    0x02: ("ana-inaccessible", "the ANA group is inaccessible on this path", _P),
    0x03: ("ana-transition", "the ANA group is changing", _P),
    0x60: ("controller-path-error", "the controller found a path error", _P),
    0x70: ("host-path-error", "the host found a path error", _P),
    0x71: ("aborted-by-host", "aborted by the host", _P),
}


@cache
def table() -> Mapping[tuple[int, int], Meaning]:
    """Every status with a meaning of its own, by (SCT, SC). Read only."""
    rows = {
        StatusType.GENERIC: _GENERIC,
        StatusType.COMMAND_SPECIFIC: _COMMAND,
        StatusType.MEDIA: _MEDIA,
        StatusType.PATH: _PATH_ROWS,
    }
    return MappingProxyType({(int(sct), sc): Meaning(*row) for sct, codes in rows.items() for sc, row in codes.items()})


@dataclass(frozen=True, slots=True, kw_only=True)
class Status:
    """A status field: 15 bits, the phase bit not among them.

    Raises:
        NvmeFieldRange: a part is wider than its field.
    """

    sct: int = 0
    sc: int = 0
    crd: int = 0
    more: bool = False
    dnr: bool = False

    def __post_init__(self) -> None:
        for name, value, limit in (("sct", self.sct, 8), ("sc", self.sc, 256), ("crd", self.crd, 4)):
            if not 0 <= value < limit:
                raise NvmeFieldRange(f"set Status.{name}", f"{value}", f"It is below {limit}.")

    @classmethod
    def from_field(cls, field: int) -> Status:
        """From the 15-bit field, (dword 3 of a CQE) >> 17.

        Raises:
            NvmeFieldRange: wider than 15 bits; most likely the phase bit is still in it.
        """
        if not 0 <= field < 1 << 15:
            raise NvmeFieldRange("read a status field", f"{field:#x}", "Shift dword 3 right by 17, not by 16.")
        return cls(
            sc=field & 0xFF,
            sct=field >> 8 & 7,
            crd=field >> 11 & 3,
            more=bool(field >> 13 & 1),
            dnr=bool(field >> 14 & 1),
        )

    @property
    def field(self) -> int:
        """The 15-bit field."""
        return self.sc | self.sct << 8 | self.crd << 11 | int(self.more) << 13 | int(self.dnr) << 14

    @property
    def ok(self) -> bool:
        """Success: SCT and SC are both zero."""
        return self.sct == 0 and self.sc == 0

    @property
    def meaning(self) -> Meaning:
        """What it means; codes without an entry get one made from their numbers, and are not to be retried."""
        known = table().get((self.sct, self.sc))
        if known is not None:
            return known
        kind = "vendor" if self.sct == StatusType.VENDOR or self.sc >= 0xC0 else "unknown"
        return Meaning(f"{kind}-{self.sct:x}-{self.sc:02x}", f"a {kind} status", Retry.NEVER)

    @property
    def may_retry(self) -> bool:
        """Whether the same command may succeed when sent again: the code allows it, and DNR is clear."""
        return self.meaning.retry in (Retry.IF_ALLOWED, Retry.LATER) and not self.dnr

    def __str__(self) -> str:
        extra = "".join(
            (", DNR" if self.dnr else "", ", M" if self.more else "", f", CRD {self.crd}" if self.crd else "")
        )
        return f"{self.meaning.name} ({self.sct:x}/{self.sc:02X}h{extra})"

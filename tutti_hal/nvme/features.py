"""Features: identifiers, and the values of those that a storage stack uses."""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum
from typing import ClassVar

from tutti_hal.errors import NvmeFieldRange
from tutti_hal.nvme.layout import Register, bits, flag


class Feature(IntEnum):
    """Feature identifiers (FID)."""

    ARBITRATION = 0x01
    POWER_MANAGEMENT = 0x02
    LBA_RANGE_TYPE = 0x03
    TEMPERATURE_THRESHOLD = 0x04
    ERROR_RECOVERY = 0x05
    VOLATILE_WRITE_CACHE = 0x06
    NUMBER_OF_QUEUES = 0x07
    INTERRUPT_COALESCING = 0x08
    INTERRUPT_VECTOR = 0x09
    WRITE_ATOMICITY = 0x0A
    ASYNC_EVENTS = 0x0B
    AUTONOMOUS_POWER_STATES = 0x0C
    HOST_MEMORY_BUFFER = 0x0D
    TIMESTAMP = 0x0E
    KEEP_ALIVE = 0x0F
    THERMAL_MANAGEMENT = 0x10
    NON_OPERATIONAL_POWER = 0x11
    READ_RECOVERY_LEVEL = 0x12
    PREDICTABLE_LATENCY_CONFIG = 0x13
    PREDICTABLE_LATENCY_WINDOW = 0x14
    LBA_STATUS_INTERVAL = 0x15
    HOST_BEHAVIOR = 0x16
    SANITIZE_CONFIG = 0x17
    ENDURANCE_EVENTS = 0x18
    COMMAND_SET_PROFILE = 0x19
    SPINUP = 0x1A
    SOFTWARE_PROGRESS = 0x80
    HOST_IDENTIFIER = 0x81
    RESERVATION_MASK = 0x82
    RESERVATION_PERSISTENCE = 0x83
    WRITE_PROTECTION = 0x84


class Select(IntEnum):
    """Which value Get Features returns (SEL)."""

    CURRENT = 0
    DEFAULT = 1
    SAVED = 2
    SUPPORTED = 3


@dataclass(frozen=True, kw_only=True, slots=True)
class Arbitration(Register):
    """FID 01h, dword 11. `burst` is a power of two; 7 means no limit."""

    SIZE: ClassVar[int] = 4

    burst: int = bits(0, 3)
    low_weight: int = bits(8, 8)
    medium_weight: int = bits(16, 8)
    high_weight: int = bits(24, 8)


@dataclass(frozen=True, kw_only=True, slots=True)
class ErrorRecovery(Register):
    """FID 05h, dword 11. The time limit counts in 100 ms; 0 means no limit."""

    SIZE: ClassVar[int] = 4

    time_limit: int = bits(0, 16)
    deallocated_error: bool = flag(16)


@dataclass(frozen=True, kw_only=True, slots=True)
class VolatileWriteCache(Register):
    """FID 06h, dword 11."""

    SIZE: ClassVar[int] = 4

    enable: bool = flag(0)


@dataclass(frozen=True, kw_only=True, slots=True)
class NumberOfQueues(Register):
    """FID 07h: dword 11 of the request and dword 0 of the answer; both are 0-based and leave the admin pair out.

    FFFFh is illegal in a request. An answer may be smaller or larger than what was asked for.
    """

    SIZE: ClassVar[int] = 4

    nsq: int = bits(0, 16)
    ncq: int = bits(16, 16)

    @classmethod
    def request(cls, submission: int, completion: int) -> NumberOfQueues:
        """The request for so many queues.

        Raises:
            NvmeFieldRange: below 1 or above 65,535 of either.
        """
        for what, count in (("submission", submission), ("completion", completion)):
            if not 1 <= count <= 0xFFFF:
                raise NvmeFieldRange(f"ask for {what} queues", f"{count}", "Ask for 1 to 65,535.")
        return cls(nsq=submission - 1, ncq=completion - 1)

    @property
    def pairs(self) -> int:
        """How many pairs that is, when each submission queue gets its own completion queue."""
        return min(self.nsq, self.ncq) + 1


@dataclass(frozen=True, kw_only=True, slots=True)
class InterruptCoalescing(Register):
    """FID 08h, dword 11. `threshold` is 0-based; `time` counts in 100 us."""

    SIZE: ClassVar[int] = 4

    threshold: int = bits(0, 8)
    time: int = bits(8, 8)


@dataclass(frozen=True, kw_only=True, slots=True)
class InterruptVector(Register):
    """FID 09h, dword 11."""

    SIZE: ClassVar[int] = 4

    vector: int = bits(0, 16)
    coalescing_disable: bool = flag(16)


@dataclass(frozen=True, kw_only=True, slots=True)
class WriteAtomicity(Register):
    """FID 0Ah, dword 11. `disable_normal`: AWUN and NAWUN need not be honoured."""

    SIZE: ClassVar[int] = 4

    disable_normal: bool = flag(0)


@dataclass(frozen=True, kw_only=True, slots=True)
class AsyncEvents(Register):
    """FID 0Bh, dword 11: which events are sent."""

    SIZE: ClassVar[int] = 4

    smart: int = bits(0, 8)
    namespace_attributes: bool = flag(8)
    firmware_activation: bool = flag(9)
    telemetry: bool = flag(10)
    ana_change: bool = flag(11)
    predictable_latency: bool = flag(12)
    lba_status: bool = flag(13)
    endurance_group: bool = flag(14)


class EventType(IntEnum):
    """Kind of an asynchronous event (dword 0, bits 2:0)."""

    ERROR = 0
    SMART = 1
    NOTICE = 2
    COMMAND_SET = 6
    VENDOR = 7


class EventNotice(IntEnum):
    """Information of a notice event."""

    NAMESPACE_CHANGED = 0x00
    FIRMWARE_ACTIVATION = 0x01
    TELEMETRY = 0x02
    ANA_CHANGE = 0x03
    PREDICTABLE_LATENCY = 0x04
    LBA_STATUS = 0x05
    ENDURANCE_GROUP = 0x06


class EventError(IntEnum):
    """Information of an error event."""

    INVALID_DOORBELL_REGISTER = 0x00
    INVALID_DOORBELL_VALUE = 0x01
    DIAGNOSTIC_FAILURE = 0x02
    PERSISTENT_INTERNAL = 0x03
    TRANSIENT_INTERNAL = 0x04
    FIRMWARE_IMAGE_LOAD = 0x05


@dataclass(frozen=True, kw_only=True, slots=True)
class AsyncEvent(Register):
    """Dword 0 of the completion of an Asynchronous Event Request. Reading `log_page` clears the event."""

    SIZE: ClassVar[int] = 4

    type: int = bits(0, 3)
    information: int = bits(8, 8)
    log_page: int = bits(16, 8)

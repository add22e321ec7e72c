"""Opcodes, and the small numbers that select what a command does."""

from __future__ import annotations

from enum import IntEnum


class AdminOpcode(IntEnum):
    """Commands of the admin queue."""

    DELETE_SQ = 0x00
    CREATE_SQ = 0x01
    GET_LOG_PAGE = 0x02
    DELETE_CQ = 0x04
    CREATE_CQ = 0x05
    IDENTIFY = 0x06
    ABORT = 0x08
    SET_FEATURES = 0x09
    GET_FEATURES = 0x0A
    ASYNC_EVENT_REQUEST = 0x0C
    NAMESPACE_MANAGEMENT = 0x0D
    FIRMWARE_COMMIT = 0x10
    FIRMWARE_DOWNLOAD = 0x11
    DEVICE_SELF_TEST = 0x14
    NAMESPACE_ATTACHMENT = 0x15
    KEEP_ALIVE = 0x18
    DIRECTIVE_SEND = 0x19
    DIRECTIVE_RECEIVE = 0x1A
    VIRTUALIZATION_MANAGEMENT = 0x1C
    MI_SEND = 0x1D
    MI_RECEIVE = 0x1E
    CAPACITY_MANAGEMENT = 0x20
    LOCKDOWN = 0x24
    DOORBELL_BUFFER_CONFIG = 0x7C
    FABRICS = 0x7F
    FORMAT_NVM = 0x80
    SECURITY_SEND = 0x81
    SECURITY_RECEIVE = 0x82
    SANITIZE = 0x84
    GET_LBA_STATUS = 0x86


class NvmOpcode(IntEnum):
    """Commands of the NVM command set."""

    FLUSH = 0x00
    WRITE = 0x01
    READ = 0x02
    WRITE_UNCORRECTABLE = 0x04
    COMPARE = 0x05
    WRITE_ZEROES = 0x08
    DATASET_MANAGEMENT = 0x09
    VERIFY = 0x0C
    RESERVATION_REGISTER = 0x0D
    RESERVATION_REPORT = 0x0E
    RESERVATION_ACQUIRE = 0x11
    IO_MANAGEMENT_RECEIVE = 0x12
    RESERVATION_RELEASE = 0x15
    COPY = 0x19
    IO_MANAGEMENT_SEND = 0x1D


class ZonedOpcode(IntEnum):
    """Commands that the zoned namespace command set adds."""

    ZONE_MANAGEMENT_SEND = 0x79
    ZONE_MANAGEMENT_RECEIVE = 0x7A
    ZONE_APPEND = 0x7D


class KeyValueOpcode(IntEnum):
    """Commands of the key-value command set."""

    STORE = 0x01
    RETRIEVE = 0x02
    LIST = 0x06
    DELETE = 0x10
    EXIST = 0x14


class Transfer(IntEnum):
    """Which way an opcode moves data: its two lowest bits."""

    NONE = 0
    HOST_TO_CONTROLLER = 1
    CONTROLLER_TO_HOST = 2
    BIDIRECTIONAL = 3


def transfer_of(opcode: int) -> Transfer:
    """Which way a command with this opcode may move data (bits 1:0; bits of an opcode are 8, not 7)."""
    return Transfer(opcode & 3)


class Cns(IntEnum):
    """What Identify returns (CNS)."""

    NAMESPACE = 0x00
    CONTROLLER = 0x01
    ACTIVE_NAMESPACE_LIST = 0x02
    NAMESPACE_DESCRIPTORS = 0x03
    NVM_SET_LIST = 0x04
    COMMAND_SET_NAMESPACE = 0x05
    COMMAND_SET_CONTROLLER = 0x06
    COMMAND_SET_ACTIVE_NAMESPACE_LIST = 0x07
    INDEPENDENT_NAMESPACE = 0x08
    ALLOCATED_NAMESPACE_LIST = 0x10
    ALLOCATED_NAMESPACE = 0x11
    NAMESPACE_CONTROLLER_LIST = 0x12
    CONTROLLER_LIST = 0x13
    PRIMARY_CONTROLLER_CAPABILITIES = 0x14
    SECONDARY_CONTROLLER_LIST = 0x15
    NAMESPACE_GRANULARITY = 0x16
    UUID_LIST = 0x17
    DOMAIN_LIST = 0x18
    ENDURANCE_GROUP_LIST = 0x19
    COMMAND_SETS = 0x1C


class CommandSetId(IntEnum):
    """Command set identifier (CSI)."""

    NVM = 0
    KEY_VALUE = 1
    ZONED = 2


class LogPage(IntEnum):
    """Log page identifiers that a storage stack meets."""

    SUPPORTED = 0x00
    ERROR = 0x01
    SMART = 0x02
    FIRMWARE_SLOT = 0x03
    CHANGED_NAMESPACES = 0x04
    COMMANDS_SUPPORTED = 0x05
    SELF_TEST = 0x06
    TELEMETRY_HOST = 0x07
    TELEMETRY_CONTROLLER = 0x08
    ENDURANCE_GROUP = 0x09
    ANA = 0x0C
    SANITIZE = 0x81

"""Numbers and record layouts that the ring's two halves share.

The records come from ``kernels_templates/structs/ring.yaml``; the numbers repeat ``kernels/ring_layout.j2``, and a test
compares the two.
"""

from __future__ import annotations

from enum import IntEnum, IntFlag
from functools import cache
from typing import TYPE_CHECKING, Any

from tutti_hal.codegen.structs import Struct, load_structs
from tutti_hal.paths import templates_dir

if TYPE_CHECKING:
    import numpy as np

#: Bits of a status code below the state.
STATE_SHIFT = 24
#: Bytes of a submission and of a completion queue entry.
SQE_BYTES, CQE_BYTES = 64, 16
#: Commands that one queue may have outstanding: leaves two bits of an identifier for its generation.
MAX_COMMANDS = 1 << 14
#: Flags of a command word: its end is not known (busy or quarantined); its completion came late and was counted.
COMMAND_OPEN, COMMAND_ENDED_LATE = 3 << 16, 4 << 16


class State(IntEnum):
    """How a request ended. Only COMPLETED has a status of the drive's."""

    #: Never given to a drive; `Why` says the reason, 0 when no kernel got to it.
    NOT_RUN = 0
    #: Given to a drive; its end is not known.
    IN_FLIGHT = 1
    COMPLETED = 2
    #: No completion in time. The drive may still move its data.
    TIMED_OUT = 3
    #: No completion in time, and the drive's registers read as all ones.
    GONE = 4
    #: In flight when the ring was stopped. The drive may still move its data.
    STOPPED = 5
    #: The device found a request that does not fit its buffer, namespace or drive.
    REFUSED = 6


class Why(IntEnum):
    """Why a request was not run."""

    UNREACHED = 0
    QUEUE_FAILED = 1
    STOPPED = 2
    STARVED = 3


class Health(IntFlag):
    """What is wrong with a queue; 0 is well. A queue that is not well takes no new commands."""

    TIMED_OUT = 1
    GONE = 2
    FATAL = 4
    STOPPED = 8


class Access(IntFlag):
    """What a drive may do with a registered buffer."""

    DRIVE_READS = 1
    DRIVE_WRITES = 2


class Protect(IntFlag):
    """What a command has done with protection information; the bits are those of dword 12 (PRINFO).

    The expected reference tag of a block is the low 32 bits of its number; application tag and mask are `Drive`'s.
    """

    #: PRCHK: the drive checks it, and ends the command with 2/84h, 2/83h, 2/82h where it is not what it should be.
    REFERENCE = 1 << 26
    APPLICATION = 1 << 27
    GUARD = 1 << 28
    #: PRACT: the drive makes it on writes and takes it away on reads; metadata that are nothing else do not move.
    ACTION = 1 << 29


@cache
def structs() -> dict[str, Struct]:
    """The shared records by name."""
    return load_structs(templates_dir() / "structs" / "ring.yaml")


@cache
def dtype(name: str) -> np.dtype[Any]:
    """The NumPy dtype of a shared record, such as ``ring_request``."""
    return structs()[name].dtype()


def reciprocal(length: int) -> int:
    """The factor by which the device divides by ``length`` >= 1 (see ``ring_place_of``)."""
    return ((1 << 64) - 1) // length

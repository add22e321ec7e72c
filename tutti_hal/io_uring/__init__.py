"""The ring's host half: batches of requests that GPU threads submit to drives, one copy and one launch each."""

from tutti_hal.io_uring.batch import Batch, Operation, RegisteredBuffer, Target
from tutti_hal.io_uring.completion import completion_dtype, succeeded
from tutti_hal.io_uring.iocb import Iocb
from tutti_hal.io_uring.layout import Access, Health, Protect, State, Why
from tutti_hal.io_uring.options import Drive, RingOptions
from tutti_hal.io_uring.recovery import QueueRecovery, RecoveryLimits, Step, StepFailure
from tutti_hal.io_uring.ring import Ring
from tutti_hal.io_uring.statistics import QueueStatistics, Statistics

__all__ = [
    "Access",
    "Batch",
    "Drive",
    "Health",
    "Iocb",
    "Operation",
    "Protect",
    "QueueRecovery",
    "QueueStatistics",
    "RecoveryLimits",
    "RegisteredBuffer",
    "Ring",
    "RingOptions",
    "State",
    "Statistics",
    "Step",
    "StepFailure",
    "Target",
    "Why",
    "completion_dtype",
    "succeeded",
]

"""Wire formats, and controllers as their host sees them."""

from __future__ import annotations

from tutti_hal.errors.base import TuttiError


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

"""A drive that the kernel's own driver keeps, by way of the module ``tutti_p2p``."""

from __future__ import annotations

from tutti_hal.errors.nvme import ControllerError


class KernelControllerError(ControllerError):
    """The drive cannot be used beside the kernel's own driver, or not as was asked."""

    id = "TT-KERNEL-CONTROLLER"


class ModuleAbsent(KernelControllerError):
    """The kernel module is not loaded, may not be opened, or speaks another version."""

    id = "TT-KERNEL-MODULE"


class ModuleRefused(KernelControllerError):
    """The module refused a request.

    `errno` is its error number, `cause` the name of a cause such as ``NO_SPARE`` (``NOTHING`` where it gave none), and
    `nvme_status` the status field of the drive's answer where the drive refused (else 0).
    """

    id = "TT-KERNEL-REFUSED"

    def __init__(self, tried: str, found: str, fix: str, errno: int, cause: str = "NOTHING", nvme_status: int = 0):
        super().__init__(tried, found, fix)
        self.errno = errno
        self.cause = cause
        self.nvme_status = nvme_status

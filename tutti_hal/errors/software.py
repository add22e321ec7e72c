"""The software controller, and the files that serve as its namespaces."""

from __future__ import annotations

from tutti_hal.errors.nvme import ControllerError


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

"""The drives of a runtime: a controller, one of its namespaces, and whose blocks that namespace is."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

from tutti_hal.errors import DrivesInvalid
from tutti_hal.io_uring.options import Drive

if TYPE_CHECKING:
    from contextlib import ExitStack

    from tutti_hal.nvme.memory import DmaMemory
    from tutti_hal.nvme.software import Iommu, SoftwareController
    from tutti_hal.nvme.software_config import Namespace
    from tutti_hal.shim import Buffer, Device


@dataclass(frozen=True)
class BlockSource:
    """Whose bytes a namespace has, as the system names it: a block device, or a file that holds a drive's image.

    Attributes:
        kind: ``device`` or ``file``.
        major, minor: of the block device; of the file's file system.
        inode: of the file; 0 for a device.
    """

    kind: str
    major: int
    minor: int
    inode: int = 0

    def __str__(self) -> str:
        return f"{self.kind} {self.major}:{self.minor}" + (f" inode {self.inode}" if self.inode else "")

    @classmethod
    def of(cls, path: Path) -> BlockSource:
        """What a path names.

        Raises:
            DrivesInvalid: neither a block device nor a regular file, or it cannot be looked at.
        """
        import os
        import stat

        try:
            found = path.stat()
        except OSError as error:
            raise DrivesInvalid(
                f"look at {path}", error.strerror or str(error), "Name a file or block device."
            ) from None
        if stat.S_ISBLK(found.st_mode):
            return cls("device", os.major(found.st_rdev), os.minor(found.st_rdev))
        if stat.S_ISREG(found.st_mode):
            return cls("file", os.major(found.st_dev), os.minor(found.st_dev), found.st_ino)
        raise DrivesInvalid(f"look at {path}", "neither a file nor a block device", "Name one.")


class MapMemory(Protocol):
    """Makes a piece of a device's memory reachable for one drive."""

    def __call__(self, buffer: Buffer, skip: int, nbytes: int) -> DmaMemory:
        """Maps ``nbytes`` of a buffer from byte ``skip`` on, both whole pages.

        Raises:
            TuttiError: the drive cannot reach it.
        """
        ...


@dataclass(frozen=True, kw_only=True)
class StorageDrive:
    """A namespace that the runtime may use.

    Args:
        name: by which URIs call it.
        drive: the controller, as the ring takes it.
        nsid: the namespace.
        map_memory: makes memory reachable for the controller.
        source: whose bytes the namespace has; None: only ``raw://`` and ``striped://`` reach it.
        label: what the controller is, for people: ``software, emulated``.
    """

    name: str
    drive: Drive
    nsid: int = 1
    map_memory: MapMemory
    source: BlockSource | None = None
    label: str = ""


@dataclass(frozen=True, kw_only=True)
class SoftwareDrive:
    """A software controller to be made: over a file, over a block device, or over memory.

    Args:
        name: by which URIs call it.
        path: the file or block device with its bytes; None: memory.
        nbytes: of memory, or how much of the file; 0 takes all of the file.
        lba_bytes: of a block, 512 to 65536.
        mdts: as Identify says it: the largest transfer is 2^mdts pages; 0 is no limit.
        io_queues: queue pairs that it grants.
        stands_for: the block device whose place a drive in memory takes: files on that device lead to this drive, with
            their true addresses and none of their bytes. For rehearsals and figures; the device is not touched.
    """

    name: str
    path: Path | None = None
    nbytes: int = 0
    lba_bytes: int = 4096
    mdts: int = 5
    io_queues: int = 16
    stands_for: Path | None = None

    def __post_init__(self) -> None:
        doing = f"make drive '{self.name}'"
        if self.lba_bytes not in (1 << shift for shift in range(9, 17)):
            raise DrivesInvalid(doing, f"blocks of {self.lba_bytes} bytes", "Use a power of two from 512 to 65536.")
        if self.path is None and self.nbytes < self.lba_bytes:
            raise DrivesInvalid(doing, f"{self.nbytes} bytes of memory", "Give a path, or nbytes of at least a block.")
        if self.path is not None and self.stands_for is not None:
            raise DrivesInvalid(doing, "a path and stands_for", "Only a drive in memory stands for a device.")

    def namespace(self) -> Namespace:
        """Its namespace, as the controller takes it."""
        from tutti_hal.nvme.software_config import FileNamespace, MemoryNamespace

        shift = self.lba_bytes.bit_length() - 1
        blocks = self.nbytes // self.lba_bytes
        if self.path is None:
            return MemoryNamespace(lba_shift=shift, blocks=blocks)
        return FileNamespace(path=self.path, lba_shift=shift, blocks=blocks)

    def source(self) -> BlockSource | None:
        """Whose bytes they are."""
        named = self.path or self.stands_for
        return None if named is None else BlockSource.of(named)


def host_mapper(iommu: Iommu) -> MapMemory:
    """Maps memory for a controller in this process, which moves bytes with the processor.

    Host-visible memory is mapped at the host's address, a device's own at the device's: right where that is memory of
    this process, which is for the caller to know.
    """
    from tutti_hal.nvme.device_memory import BufferMemory

    def map_memory(buffer: Buffer, skip: int, nbytes: int) -> DmaMemory:
        base = (buffer.host_address if buffer.kind.host_visible else buffer.address) + skip
        runs = iommu.map(base, nbytes)

        def release() -> None:
            if not iommu.closed:
                iommu.unmap(base)

        return BufferMemory(buffer, skip, nbytes, base, runs, release)

    return map_memory


def open_software_drives(
    device: Device,
    specs: Sequence[SoftwareDrive],
    stack: ExitStack,
    *,
    adjust: Callable[[SoftwareDrive, SoftwareController], None] | None = None,
) -> list[StorageDrive]:
    """Makes software controllers on threads, brings them up, and hands them to a stack, which ends them.

    Args:
        device: whose kernels ring their doorbells.
        specs: what to make.
        stack: owns all of it. Close the runtime first.
        adjust: called with each controller before it runs, such as to inject faults.

    Raises:
        DrivesInvalid: controllers on threads cannot serve this device, or a path is wrong.
        NamespaceFileError: a file cannot serve.
        TuttiError: a controller does not come up.
    """
    from tutti_hal.nvme.device_memory import attach, why_not_attached
    from tutti_hal.nvme.software import ControllerConfig, SoftwareController

    why_not = why_not_attached(device.profile)
    if why_not is not None:
        raise DrivesInvalid(f"serve {device} by software controllers", why_not, "Use another profile, or other drives.")
    drives = []
    for number, spec in enumerate(specs):
        config = ControllerConfig(
            namespaces=(spec.namespace(),),
            serial=f"TUTTI{number:04}",
            seed=number,
            mdts=spec.mdts,
            io_queues=spec.io_queues,
        )
        controller = stack.enter_context(SoftwareController(config))
        if adjust is not None:
            adjust(spec, controller)
        handle, dma = attach(device, controller, stack)
        drives.append(
            StorageDrive(
                name=spec.name,
                drive=Drive(handle=handle, dma=dma, namespaces=(1,)),
                map_memory=host_mapper(controller.iommu),
                source=spec.source(),
                label="software, emulated",
            )
        )
    return drives

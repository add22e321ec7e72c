"""A machine described in types, and the QEMU command line that makes it.

QEMU 10's shadow doorbells are off (``dbcs=off``): with them on, a queue made beside the driver's is never fetched from.
Drives are snapshots: what a guest writes is gone when it ends.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from enum import Enum
from pathlib import Path

from rig.errors import RigError

MIB = 1 << 20


class Iommu(Enum):
    """How the machine's IOMMU stands."""

    OFF = "off"
    TRANSLATE = "translate"
    PASSTHROUGH = "passthrough"


class Accelerator(Enum):
    """How the guest's instructions run: on the processor, or translated (slower, everywhere)."""

    KVM = "kvm"
    TCG = "tcg"


@dataclass(frozen=True)
class Namespace:
    """One namespace of a drive."""

    size_mib: int = 256
    block_bytes: int = 512


@dataclass(frozen=True)
class Drive:
    """One emulated NVMe controller; ``queues`` bounds the I/O queue pairs, ``mdts`` is the power of two of MDTS."""

    namespaces: tuple[Namespace, ...] = (Namespace(),)
    queues: int = 16
    mdts: int = 7
    shadow_doorbells: bool = False
    entries: int | None = None


@dataclass(frozen=True)
class Machine:
    """Everything that makes one guest differ from another; hashable, so that cases that want the same share a boot.

    ``gpu_mib`` is the size of the second PCI function's memory bar that stands in for GPU memory (0: none).
    """

    drives: tuple[Drive, ...] = (Drive(),)
    iommu: Iommu = Iommu.OFF
    gpu_mib: int = 256
    processors: int = 2
    memory_mib: int = 1536
    kernel_words: tuple[str, ...] = ()

    def label(self) -> str:
        """A short name for people: what differs from the plain machine."""
        plain = Machine()
        words = [f"iommu {self.iommu.value}"] if self.iommu is not plain.iommu else []
        if len(self.drives) != 1:
            words.append(f"{len(self.drives)} drives")
        for drive in self.drives[:1]:
            sizes = sorted({namespace.block_bytes for namespace in drive.namespaces})
            if sizes != [512]:
                words.append("/".join(map(str, sizes)) + " B blocks")
            if drive.queues != 16:
                words.append(f"{drive.queues} queues")
            if drive.mdts != 7:
                words.append(f"mdts {drive.mdts}")
            if drive.shadow_doorbells:
                words.append("shadow doorbells")
            if drive.entries is not None:
                words.append(f"{drive.entries} entries")
        words += self.kernel_words
        return ", ".join(words) or "plain"


# Slots of the root bus: drives from 4 up, the stand-in for a GPU at 16. A case finds devices by these.
FIRST_DRIVE_SLOT = 4
GPU_SLOT = 16


def drive_bdf(index: int) -> str:
    """PCI address of drive ``index`` in the guest: each is alone behind its root port, so that it can be unplugged."""
    return f"0000:{index + 1:02x}:00.0"


GPU_BDF = f"0000:00:{GPU_SLOT:02x}.0"


@dataclass(frozen=True)
class Files:
    """Where a run's own files lie: sockets, images, logs. All below one folder that the run deletes."""

    folder: Path

    @property
    def channel(self) -> Path:
        """Socket of the channel to the agent."""
        return self.folder / "channel"

    @property
    def monitor(self) -> Path:
        """Socket of QEMU's machine protocol."""
        return self.folder / "monitor"

    @property
    def console(self) -> Path:
        """What the guest's serial console wrote."""
        return self.folder / "console.log"

    @property
    def gpu(self) -> Path:
        """The memory behind the stand-in's bar."""
        return self.folder / "gpu"

    def image(self, drive: int, namespace: int) -> Path:
        """Image of a namespace."""
        return self.folder / f"drive{drive}-{namespace}.raw"


@dataclass(frozen=True)
class Emulator:
    """QEMU as unpacked: run through its own loader, so that its libraries need not be the host's."""

    tree: Path
    accelerator: Accelerator = Accelerator.TCG
    extra: tuple[str, ...] = field(default=())

    def program(self) -> list[str]:
        """The words that start QEMU."""
        loader = self.tree / "usr/lib64/ld-linux-x86-64.so.2"
        if not loader.exists():
            raise RigError("starting QEMU", f"{loader} is absent", f"rm -r {self.tree}; try again")
        libraries = self.tree / "usr/lib/x86_64-linux-gnu"
        path = f"{libraries}:{libraries / 'pulseaudio'}"
        binary = self.tree / "usr/bin/qemu-system-x86_64"
        shares = [word for name in ("qemu", "seabios") for word in ("-L", str(self.tree / "usr/share" / name))]
        return [str(loader), "--library-path", path, str(binary), *shares]


def make_images(machine: Machine, files: Files) -> None:
    """Make each namespace's image: sparse, its first bytes of every MiB telling drive, namespace and place."""
    files.folder.mkdir(parents=True, exist_ok=True)
    for number, drive in enumerate(machine.drives):
        for place, namespace in enumerate(drive.namespaces):
            with files.image(number, place).open("wb") as image:
                for mib in range(namespace.size_mib):
                    image.seek(mib * MIB)
                    image.write(stamp(number, place, mib))
                image.truncate(namespace.size_mib * MIB)


def stamp(drive: int, namespace: int, mib: int) -> bytes:
    """What stands at the start of each MiB of a fresh namespace, so that a read of the wrong place is seen."""
    return f"tutti drive {drive} namespace {namespace} mib {mib:08d}".encode().ljust(64, b".")


def arguments(
    machine: Machine, files: Files, kernel: Path, initrd: Path, accelerator: Accelerator, root: Path = Path("/")
) -> list[str]:
    """QEMU's arguments (after the program's own words) for ``machine`` booting ``kernel`` with ``initrd``."""
    words: list[str] = []

    def add(*more: str) -> None:
        words.extend(more)

    add("-accel", "kvm" if accelerator is Accelerator.KVM else "tcg,thread=multi")
    # The IOMMU's emulation wants the interrupt controller outside the kernel; nested KVM may refuse ARCH_CAPABILITIES.
    add("-machine", "q35" + (",kernel-irqchip=split" if accelerator is Accelerator.KVM else ""))
    add("-cpu", "host,arch-capabilities=off" if accelerator is Accelerator.KVM else "max")
    add("-smp", str(machine.processors), "-m", str(machine.memory_mib))
    add("-nodefaults", "-no-reboot", "-display", "none", "-serial", f"file:{files.console}")
    add("-kernel", str(kernel), "-initrd", str(initrd), "-append", " ".join(kernel_words(machine)))
    add("-qmp", f"unix:{files.monitor},server=on,wait=off")
    # The IOMMU stands before every device that it is to see.
    if machine.iommu is not Iommu.OFF:
        add("-device", "intel-iommu,intremap=off,caching-mode=on")
    add("-device", "virtio-serial-pci", "-chardev", f"socket,id=channel,path={files.channel},server=on,wait=off")
    add("-device", "virtserialport,chardev=channel,name=rig")
    for number, drive in enumerate(machine.drives):
        for each in drive_arguments(number, drive, files):
            add(*each)
    if machine.gpu_mib:
        add("-object", f"memory-backend-file,id=gpu,mem-path={files.gpu},size={machine.gpu_mib}M,share=on")
        add("-device", f"ivshmem-plain,id=gpu0,memdev=gpu,addr={GPU_SLOT:#x}")
    add("-virtfs", f"local,path={root},mount_tag=host,security_model=none,readonly=on,multidevs=remap")
    return words


def kernel_words(machine: Machine) -> Sequence[str]:
    """The kernel's command line for ``machine``."""
    words = ["console=ttyS0", "panic=-1", "loglevel=4", "printk.devkmsg=on", "mitigations=off"]
    if machine.iommu is not Iommu.OFF:
        words.append("intel_iommu=on")
    if machine.iommu is Iommu.PASSTHROUGH:
        words.append("iommu=pt")
    return (*words, *machine.kernel_words)


def drive_arguments(number: int, drive: Drive, files: Files) -> list[tuple[str, ...]]:
    """The devices of one drive: a root port of its own, the controller, its namespaces."""
    slot = FIRST_DRIVE_SLOT + number
    shadow = "on" if drive.shadow_doorbells else "off"
    options = f"id=nvme{number},bus=port{number},serial=rig{number},max_ioqpairs={drive.queues},mdts={drive.mdts}"
    words: list[tuple[str, ...]] = [
        ("-device", f"pcie-root-port,id=port{number},chassis={slot},slot={slot},addr={slot:#x}"),
        ("-device", f"nvme,{options},dbcs={shadow}" + (f",mqes={drive.entries - 1}" if drive.entries else "")),
    ]
    for place, namespace in enumerate(drive.namespaces):
        name = f"d{number}n{place}"
        size = namespace.block_bytes
        file = files.image(number, place)
        words.append(("-drive", f"file={file},if=none,id={name},format=raw,snapshot=on,file.locking=off"))
        block = f"logical_block_size={size},physical_block_size={size}"
        words.append(("-device", f"nvme-ns,drive={name},bus=nvme{number},nsid={place + 1},{block}"))
    return words

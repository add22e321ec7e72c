"""The guest's first file system: a busybox, the kernel modules that it needs, and one shell script.

The script inserts the modules, mounts the host's root read-only over 9p with a discarded overlay above it, and starts
the agent there with the product's own Python. It writes ``RIG`` lines to the serial console; all else goes over the
channel.
"""

from __future__ import annotations

import gzip
from collections.abc import Sequence
from pathlib import Path

from rig.kmod import Modules

WANTED = ("virtio_pci", "9pnet_virtio", "9p", "overlay", "virtio_console", "nvme", "ext4")
# Present in some lines only, or built in.
OPTIONAL = ("crc32c_intel", "crct10dif_pclmul", "udmabuf", "loop")

INIT = """#!/bin/busybox sh
/bin/busybox --install -s /bin
mount -t proc proc /proc; mount -t sysfs sys /sys; mount -t devtmpfs dev /dev
mkdir -p /dev/shm /dev/pts; mount -t tmpfs t /dev/shm; mount -t devpts p /dev/pts
echo "RIG boot $(uname -r)"
for m in $(cat /modules/order); do insmod /modules/$m || echo "RIG fault: insmod $m"; done
mount -t 9p -o trans=virtio,version=9p2000.L,ro,msize=512000,cache=loose host /host || echo "RIG fault: host's root"
mount -t tmpfs t /over; mkdir /over/upper /over/work
mount -t overlay -o lowerdir=/host,upperdir=/over/upper,workdir=/over/work over /new || echo "RIG fault: overlay"
for d in proc sys dev; do mount -o rbind /$d /new/$d; done
mount -t tmpfs t /new/run
mount -t tracefs t /sys/kernel/tracing 2>/dev/null; mount -t debugfs d /sys/kernel/debug 2>/dev/null
ip link set lo up 2>/dev/null
echo "RIG start"
@ENVIRONMENT@ chroot /new @COMMAND@
echo "RIG agent ended $?"
poweroff -f
"""

FOLDERS = ("bin", "dev", "proc", "sys", "modules", "host", "over", "new")


def _entry(name: str, mode: int, data: bytes = b"", inode: int = 0) -> bytes:
    """One member of a cpio archive in the newc format (kernel's Documentation/driver-api/early-userspace)."""
    named = name.encode() + b"\0"
    fields = (inode, mode, 0, 0, 1, 0, len(data), 0, 0, 0, 0, len(named), 0)
    head = b"070701" + b"".join(b"%08X" % value for value in fields) + named
    head += b"\0" * (-len(head) % 4)
    return head + data + b"\0" * (-len(data) % 4)


def archive(files: Sequence[tuple[str, int, bytes]], folders: Sequence[str] = FOLDERS) -> bytes:
    """A cpio archive (newc) of ``folders`` and of ``files``, each a name, permission bits and content."""
    members = [_entry(name, 0o040755, inode=number) for number, name in enumerate(folders, 1)]
    start = len(members) + 1
    members += [_entry(name, 0o100000 | mode, data, number) for number, (name, mode, data) in enumerate(files, start)]
    return b"".join(members) + _entry("TRAILER!!!", 0)


def build(
    target: Path,
    busybox: Path,
    modules: Modules,
    command: Sequence[str],
    environment: Sequence[str] = (),
    *,
    more_modules: Sequence[str] = (),
) -> Path:
    """Write the initrd to ``target`` and return it; ``command`` is what runs in the host's root as the agent.

    Words of ``command`` and of ``environment`` (NAME=value) are paths and plain options: no quoting is done.
    """
    script = INIT.replace("@COMMAND@", " ".join(command)).replace("@ENVIRONMENT@", " ".join(environment))
    inserted = modules.order((*WANTED, *more_modules), OPTIONAL)
    files = [("init", 0o755, script.encode()), ("bin/busybox", 0o755, busybox.read_bytes())]
    files += [(f"modules/{name}.ko", 0o644, image) for name, image in inserted]
    files.append(("modules/order", 0o644, "".join(f"{name}.ko\n" for name, _ in inserted).encode()))
    target.parent.mkdir(parents=True, exist_ok=True)
    target.write_bytes(gzip.compress(archive(files), 1))
    return target

"""A real file system on a loop device over an image file: the drive has the image, the files are on the mount."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest


@dataclass(frozen=True)
class Mount:
    """A mounted image.

    Attributes:
        image: the file with the device's bytes.
        device: the loop device.
        folder: where it is mounted.
    """

    image: Path
    device: Path
    folder: Path

    def drop_cache(self) -> None:
        """What is read next comes from the image: drives change it behind the loop device's page cache."""
        subprocess.run(["umount", self.folder], check=True)
        subprocess.run(["blockdev", "--flushbufs", self.device], check=True)
        subprocess.run(["mount", self.device, self.folder], check=True)


def _run(*command: object) -> str:
    done = subprocess.run([str(word) for word in command], capture_output=True, text=True, timeout=60, check=False)
    if done.returncode:
        pytest.skip(f"{command[0]}: {done.stderr.strip() or done.returncode}")
    return done.stdout.strip()


@contextmanager
def mounted(folder: Path, nbytes: int, *, offset: int = 0, options: str = "") -> Iterator[Mount]:
    """An ext4 file system from byte ``offset`` of a fresh image on. Skips where that cannot be had."""
    if os.geteuid() != 0:
        pytest.skip("loop devices and mounts need root")
    for tool in ("losetup", "mkfs.ext4", "mount", "umount", "blockdev"):
        if shutil.which(tool) is None:
            pytest.skip(f"there is no {tool}")
    image, where = folder / "drive.img", folder / "mount"
    where.mkdir()
    with image.open("wb") as file:
        file.truncate(offset + nbytes)
        os.posix_fallocate(file.fileno(), 0, offset + nbytes)
    device = Path(_run("losetup", "--find", "--show", "--direct-io=on", "-o", offset, image))
    try:
        _run("mkfs.ext4", "-q", "-b", 4096, device)
        _run("mount", *(["-o", options] if options else []), device, where)
        try:
            yield Mount(image, device, where)
        finally:
            subprocess.run(["umount", where], check=True)
    finally:
        subprocess.run(["losetup", "--detach", device], check=True)

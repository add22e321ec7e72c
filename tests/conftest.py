"""Fixtures and settings that more than one folder of tests needs."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import settings

# A loaded machine is no failure of the code; pytest's own time limit stays.
settings.register_profile("house", deadline=None)
settings.load_profile("house")


# A shell that puts the run in the background without job control has SIGINT ignored, and children inherit that: the
# tests that interrupt a child would find it deaf. `nohup` does the same with SIGHUP.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)
if signal.getsignal(signal.SIGHUP) is signal.SIG_IGN:
    signal.signal(signal.SIGHUP, signal.SIG_DFL)


@pytest.fixture
def tiny_disk(tmp_path: Path) -> Iterator[Path]:
    """A file system of 8 MiB, mounted for the test; for what happens when it is full."""
    if os.geteuid() or not shutil.which("mkfs.ext4"):
        pytest.skip("a file system of its own needs root and mkfs.ext4")
    image, folder = tmp_path / "image", tmp_path / "tiny"
    image.touch()
    os.truncate(image, 8 << 20)
    folder.mkdir()
    subprocess.run(["mkfs.ext4", "-q", "-F", str(image)], check=True)
    mounted = subprocess.run(["mount", "-o", "loop", image, folder], check=False, capture_output=True, text=True)
    if mounted.returncode:
        pytest.skip(f"mount: {mounted.stderr.strip()}")
    yield folder
    subprocess.run(["umount", folder], check=True)

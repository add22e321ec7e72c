"""Which accelerator this machine can really use: KVM when a guest boots under it, else TCG."""

from __future__ import annotations

import os
import signal
import subprocess
import time
from collections.abc import Sequence
from pathlib import Path

from rig.errors import RigError
from rig.guest import end_with_parent
from rig.qemu import Accelerator

PROBE_S = 12.0
BOOT_ID = Path("/proc/sys/kernel/random/boot_id")


def wanted(value: str | None) -> Accelerator | None:
    """What $TUTTI_RIG_ACCEL asks for; None when it is unset."""
    if not value:
        return None
    try:
        return Accelerator(value)
    except ValueError:
        raise RigError(f"TUTTI_RIG_ACCEL={value}", "no such accelerator", "set it to kvm or tcg") from None


def opens(device: Path = Path("/dev/kvm")) -> bool:
    """Whether KVM's device opens for reading and writing."""
    try:
        os.close(os.open(device, os.O_RDWR | os.O_CLOEXEC))
    except OSError:
        return False
    return True


def boots(argv: Sequence[str], console: Path, limit_s: float = PROBE_S) -> bool:
    """Start ``argv`` and say whether its serial console wrote anything within ``limit_s``; the guest is ended."""
    console.unlink(missing_ok=True)
    process = subprocess.Popen(
        list(argv),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
        preexec_fn=end_with_parent,  # noqa: PLW1509 (the rig has one thread)
    )
    try:
        deadline = time.monotonic() + limit_s
        while time.monotonic() < deadline and process.poll() is None:
            if console.exists() and console.stat().st_size:
                return True
            time.sleep(0.1)
        return False
    finally:
        if process.poll() is None:
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()


def remembered(cache: Path) -> Accelerator | None:
    """The answer found earlier since this machine booted."""
    file = cache / "accelerator.txt"
    if not file.exists():
        return None
    boot, _, name = file.read_text().strip().partition(" ")
    return Accelerator(name) if boot == BOOT_ID.read_text().strip() else None


def remember(cache: Path, found: Accelerator) -> None:
    """Keep the answer until this machine boots again."""
    (cache / "accelerator.txt").write_text(f"{BOOT_ID.read_text().strip()} {found.value}\n")

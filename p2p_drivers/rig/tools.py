"""Running programs of the host: a timeout on every one, and one clear line when a program is missing or fails."""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Sequence
from pathlib import Path
from typing import Protocol

from rig.errors import RigError

# The Debian package that brings each program which the rig calls by name.
BRINGS = {
    "apt-cache": "apt",
    "apt-get": "apt",
    "chroot": "coreutils",
    "dpkg-deb": "dpkg",
    "gcc-12": "gcc-12",
    "make": "make",
    "unshare": "util-linux",
}


class Runner(Protocol):
    """Runs one program to its end and returns what it wrote to standard output; a test gives a fake one."""

    def __call__(self, argv: Sequence[str], *, cwd: Path | None = None, timeout_s: float = 60.0) -> str:
        """Run ``argv``; RigError when it is missing, fails or takes longer than ``timeout_s``."""
        ...


def require(program: str) -> str:
    """Where ``program`` lies; RigError with the command that brings it when it is not on the path."""
    found = shutil.which(program)
    if found is None:
        package = BRINGS.get(program, program)
        raise RigError(f"looking for {program}", "it is not on the path", f"sudo apt-get install {package}")
    return found


def run(argv: Sequence[str], *, cwd: Path | None = None, timeout_s: float = 60.0) -> str:
    """Run a program to its end and return its standard output.

    Raises RigError when it is missing, exits other than 0 (with the last lines it wrote) or takes too long.
    """
    require(argv[0])
    shown = " ".join(argv[:6]) + (" ..." if len(argv) > 6 else "")
    try:
        done = subprocess.run(argv, cwd=cwd, capture_output=True, text=True, timeout=timeout_s, check=False)
    except subprocess.TimeoutExpired:
        raise RigError(f"running {shown}", f"not done after {timeout_s:.0f} s", "is the network reachable?") from None
    if done.returncode:
        lines = (done.stderr or done.stdout).strip().splitlines()
        tail = " | ".join([line for line in lines if "rror:" in line][:4] or lines[-4:])
        raise RigError(f"running {shown}", f"exit {done.returncode}: {tail}", "run it by hand to see the whole output")
    return done.stdout

"""What of CUDA is on this machine, found without initialising a driver in this process."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from collections.abc import Callable, Mapping
from pathlib import Path

from tutti_hal.backend import Probe

#: Seconds after which ``nvidia-smi`` is taken for hung.
SMI_LIMIT_S = 10.0

_DRIVER = "libcuda.so.1"


def look(
    environ: Mapping[str, str] | None = None, dev: Path = Path("/dev"), driver: Callable[[], str | None] | None = None
) -> Probe:
    """Devices, their architectures, and the SDK's version; usable where there are devices and the driver's library."""
    env = os.environ if environ is None else environ
    nodes = [node for node in dev.glob("nvidia*") if node.name.removeprefix("nvidia").isdigit()]
    sdk = sdk_version(env)
    if not nodes:
        return Probe(False, f"no device under {dev}: kernels can be generated and built for it, not run here", sdk=sdk)
    devices = f"{len(nodes)} device(s) under {dev}"
    if not (driver or driver_library)():
        reason = f"{devices}, and no libcuda.so: install the NVIDIA driver's user-space libraries"
        return Probe(False, reason, device_archs(), sdk)
    return Probe(True, devices, device_archs(), sdk)


def driver_library() -> str | None:
    """Where the loader would find the driver's library, by its search path and its cache; it is not loaded."""
    folders = [Path(one) for one in os.environ.get("LD_LIBRARY_PATH", "").split(":") if one]
    for folder in folders:
        if (folder / _DRIVER).exists():
            return str(folder / _DRIVER)
    ldconfig = shutil.which("ldconfig") or "/sbin/ldconfig"
    try:
        cache = subprocess.run([ldconfig, "-p"], capture_output=True, text=True, timeout=SMI_LIMIT_S, check=True).stdout
    except (OSError, subprocess.SubprocessError):
        return _DRIVER  # not to be told here: opening it says more
    return next((line.split("=> ")[-1].strip() for line in cache.splitlines() if _DRIVER in line), None)


def device_archs() -> tuple[str, ...]:
    """Architectures of the devices, in device order without repeats; empty where ``nvidia-smi`` cannot tell."""
    smi = shutil.which("nvidia-smi")
    if smi is None:
        return ()
    try:
        answer = subprocess.run(
            [smi, "--query-gpu=compute_cap", "--format=csv,noheader"],
            capture_output=True,
            text=True,
            timeout=SMI_LIMIT_S,
            check=True,
        ).stdout
    except (OSError, subprocess.SubprocessError):
        return ()
    names = [f"sm_{line.strip().replace('.', '')}" for line in answer.splitlines() if line.strip()]
    return tuple(dict.fromkeys(names))


def sdk_version(environ: Mapping[str, str], default: Path = Path("/usr/local/cuda")) -> str | None:
    """Version of the first toolkit among CUDA_HOME, CUDA_PATH and the default folder, by its ``cuda.h``."""
    for root in (environ.get("CUDA_HOME"), environ.get("CUDA_PATH"), default):
        if not root:
            continue
        try:
            text = (Path(root) / "include" / "cuda.h").read_text(encoding="utf-8", errors="replace")
        except OSError:
            continue
        match = re.search(r"^#define\s+CUDA_VERSION\s+(\d+)", text, re.MULTILINE)
        if match:
            number = int(match[1])
            return f"{number // 1000}.{number % 1000 // 10}"
    return None

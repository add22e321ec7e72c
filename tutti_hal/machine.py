"""Facts about the machine and the process, read from the system, without opinion.

Everything here is stable between two runs on an unchanged machine, so that the facts can be hashed: no times, no free
memory, no serial numbers, no host name.
"""

from __future__ import annotations

import hashlib
import json
import os
import platform
import re
import resource
import shutil
import subprocess
import sys
from collections.abc import Mapping, Sequence
from importlib.metadata import PackageNotFoundError, requires, version
from pathlib import Path
from typing import Any

#: Seconds after which a tool that is asked for its version is taken for hung.
VERSION_LIMIT_S = 10.0

_SYSCTLS = (
    "vm/max_map_count",
    "vm/overcommit_memory",
    "vm/nr_hugepages",
    "kernel/io_uring_disabled",
    "kernel/unprivileged_userfaultfd",
    "fs/aio-max-nr",
)

_LIMITS = {
    "memlock_bytes": resource.RLIMIT_MEMLOCK,
    "open_files": resource.RLIMIT_NOFILE,
    "processes": resource.RLIMIT_NPROC,
    "stack_bytes": resource.RLIMIT_STACK,
    "address_space_bytes": resource.RLIMIT_AS,
}


def read_text(path: Path) -> str | None:
    """The stripped text of a small system file, or None where it is not there or not readable."""
    try:
        return path.read_text(encoding="utf-8", errors="replace").strip()
    except OSError:
        return None


def python_facts() -> dict[str, Any]:
    """The interpreter."""
    return {
        "version": platform.python_version(),
        "implementation": platform.python_implementation(),
        "build_bits": 64 if sys.maxsize > 2**32 else 32,
        "in_venv": sys.prefix != sys.base_prefix,
    }


def cpu_facts(root: Path = Path("/")) -> dict[str, Any]:
    """The processor: model, how many there are, how many this process may use."""
    text = read_text(root / "proc/cpuinfo") or ""
    fields = dict(line.split(":", 1) for line in text.splitlines() if ":" in line)
    named = {key.strip(): value.strip() for key, value in fields.items()}
    flags = set(named.get("flags", named.get("Features", "")).split())
    return {
        "machine": platform.machine(),
        "model": named.get("model name") or named.get("CPU part") or "unknown",
        "count": os.cpu_count(),
        "usable": len(os.sched_getaffinity(0)),
        "has": sorted(flags & {"sse4_2", "avx2", "avx512f", "crc32", "hypervisor"}),
    }


def memory_facts(root: Path = Path("/")) -> dict[str, Any]:
    """Memory that exists, and what the process's control group may use of it (None: no limit, or none seen)."""
    total = 0
    for line in (read_text(root / "proc/meminfo") or "").splitlines():
        if line.startswith("MemTotal:"):
            total = int(line.split()[1]) * 1024
    limit = read_text(root / "sys/fs/cgroup/memory.max")
    return {
        "total_bytes": total,
        "cgroup_limit_bytes": int(limit) if limit is not None and limit.isdigit() else None,
        "page_bytes": os.sysconf("SC_PAGESIZE"),
        "transparent_huge_pages": read_text(root / "sys/kernel/mm/transparent_hugepage/enabled"),
    }


def kernel_facts(root: Path = Path("/")) -> dict[str, Any]:
    """The kernel: release, the settings that matter here, and whether an IOMMU translates."""
    line = read_text(root / "proc/cmdline") or ""
    groups = root / "sys/kernel/iommu_groups"
    return {
        "system": platform.system(),
        "release": platform.release(),
        "iommu_parameters": sorted(word for word in line.split() if "iommu" in word),
        "iommu_groups": len(list(groups.iterdir())) if groups.is_dir() else 0,
        "sysctl": {name: read_text(root / "proc/sys" / name) for name in _SYSCTLS},
        "libc": " ".join(platform.libc_ver()),
    }


def limit_facts() -> dict[str, int | None]:
    """The soft limits of this process; None: unlimited."""
    soft = {name: resource.getrlimit(number)[0] for name, number in _LIMITS.items()}
    return {name: None if value == resource.RLIM_INFINITY else value for name, value in soft.items()}


def nvme_facts(root: Path = Path("/")) -> list[dict[str, str | None]]:
    """The NVMe controllers that the kernel drives, in order of name."""
    folder = root / "sys/class/nvme"
    found = []
    for node in sorted(folder.iterdir()) if folder.is_dir() else []:
        words = ("model", "firmware_rev", "transport", "numa_node")
        found.append({"name": node.name, **{word: read_text(node / word) for word in words}})
    return found


def package_facts(name: str = "tutti-hal") -> dict[str, str | None]:
    """Versions of this package and of what it requires; None: not installed."""
    names = [name]
    for line in requires(name) or []:
        if "extra ==" not in line:
            word = line.split(";")[0]
            names.append("".join(c for c in _head(word) if c.isalnum() or c in "-_."))
    found: dict[str, str | None] = {}
    for each in names:
        try:
            found[each] = version(each)
        except PackageNotFoundError:
            found[each] = None
    return found


def _head(requirement: str) -> str:
    for index, char in enumerate(requirement):
        if char in "<>=!~ [(":
            return requirement[:index]
    return requirement


def tool_version(command: Sequence[str], pattern: str) -> str | None:
    """The first group of ``pattern`` in what a tool prints; None where it is not there, fails, hangs or differs."""
    path = shutil.which(command[0])
    if path is None:
        return None
    try:
        done = subprocess.run([path, *command[1:]], capture_output=True, text=True, timeout=VERSION_LIMIT_S, check=True)
    except (OSError, subprocess.SubprocessError):
        return None
    match = re.search(pattern, done.stdout + done.stderr)
    return match[1] if match else None


def benchmark_facts() -> dict[str, Any]:
    """The machine that a figure is taken on, named the same way beside every figure."""
    cpu = cpu_facts()
    return {
        "cpu": cpu["model"],
        "arch": cpu["machine"],
        "cpus": cpu["usable"],
        "memory_gib": round(memory_facts()["total_bytes"] / 2**30, 1),
        "kernel": platform.release(),
        "python": platform.python_version(),
        "load_1min": round(os.getloadavg()[0], 2),
    }


def digest(facts: Mapping[str, Any]) -> str:
    """The SHA-256 of facts in canonical JSON (sorted keys, no blanks, ASCII)."""
    text = json.dumps(facts, sort_keys=True, separators=(",", ":"), ensure_ascii=True)
    return hashlib.sha256(text.encode("ascii")).hexdigest()

"""The engine on aarch64, *emulated*: cross-compiled here, run under qemu-user.

What it shows is that the switch between fibres keeps what a call must keep, and that both modes run on it. It says
nothing about the memory order of a real aarch64 core: qemu-user runs on the order of its host.
"""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest

NATIVE = Path(__file__).parents[2] / "native"
KERNELS = Path(__file__).parent / "kernels"
COMPILER, EMULATOR = "aarch64-linux-gnu-g++", "qemu-aarch64"
SYSROOT = Path("/usr/aarch64-linux-gnu")

pytestmark = [pytest.mark.slow, pytest.mark.timeout(900)]

#: module, kernel, grid, block, arguments, outcome
RUNS = [
    ("schedule", "barrier_rounds", 3, 70, ("@", "@", "5"), 0),
    ("schedule", "barrier_early_exit", 1, 40, ("@",), 0),
    ("schedule", "barrier_mismatch", 1, 8, (), 2),
    ("schedule", "lock_in_wave", 1, 8, ("@", "@"), 0),
    ("schedule", "wait_across_blocks", 4, 8, ("@", "@"), 0),
    ("schedule", "fenced_handover", 1, 4, ("@", "@"), 0),
    ("schedule", "kept_registers", 2, 33, ("1000",), 0),
    ("schedule", "trap_one", 1, 40, ("5",), 4),
    ("waves", "shuffle_from_first", 1, 70, ("@",), 0),
    ("waves", "active_groups", 1, 70, ("@", "@"), 0),
]


@pytest.fixture(scope="module")
def emulated(tmp_path_factory: pytest.TempPathFactory) -> Any:
    """Cross-compile the engine, its driver and the modules; returns run(mode, module, ...)."""
    compiler, emulator = shutil.which(COMPILER), shutil.which(EMULATOR)
    missing = [name for name, found in ((COMPILER, compiler), (EMULATOR, emulator)) if found is None]
    if compiler is None or emulator is None:
        pytest.skip(f"not found: {', '.join(missing)}")
    folder = tmp_path_factory.mktemp("aarch64")
    flags = ["-std=c++20", "-O2", "-fPIC", "-Wall", "-Wextra", "-Werror", "-fno-omit-frame-pointer"]
    flags += ["-I", str(NATIVE), "-I", str(NATIVE / "include"), "-I", str(KERNELS)]

    def build(*arguments: str) -> None:
        done = subprocess.run([compiler, *flags, *arguments], capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stderr

    sources = [*sorted((NATIVE / "simt").glob("*.cpp")), NATIVE / "simt" / "switch_aarch64.S"]
    sources += [NATIVE / "controller" / "iommu.cpp", KERNELS / "sanitize_main.cpp"]
    build(*map(str, sources), "-o", str(folder / "main"), "-ldl", "-pthread")
    for name in ("schedule", "waves"):
        for mode, number in (("threads", 0), ("sim", 1)):
            defines = [f"-DTT_HOST_MODE={number}", "-DTT_WAVE_WIDTH=32"]
            build(*defines, "-shared", str(KERNELS / f"{name}.cpp"), "-o", str(folder / f"{name}-{mode}.so"))

    def run(mode: str, module: str, kernel: str, grid: int, block: int, arguments: tuple[str, ...]) -> Any:
        command = [emulator, "-L", str(SYSROOT), str(folder / "main"), mode, str(folder / f"{module}-{mode}.so")]
        command += [kernel, str(grid), str(block), *arguments]
        return subprocess.run(command, capture_output=True, text=True, check=False, timeout=120)

    return run


@pytest.mark.parametrize("mode", ["threads", "sim"])
def test_kernels_end_as_they_do_here(emulated: Any, mode: str) -> None:
    for *what, outcome in RUNS:
        done = emulated(mode, *what)
        assert done.returncode == 0, (what, done.stdout[-2000:], done.stderr[-2000:])
        assert f"outcome {outcome}\n" in done.stdout, (what, done.stdout)

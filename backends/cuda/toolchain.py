"""CUDA: a cubin for each arch, made by nvcc or at run time by NVRTC; what its kernels need, as ptxas states it."""

from __future__ import annotations

import os
import re
import shutil
import sys
import sysconfig
from collections.abc import Sequence
from importlib.metadata import PackageNotFoundError, distribution
from pathlib import Path

from tutti_hal.codegen import KernelDecl
from tutti_hal.errors import BuildError, CompilerMissing
from tutti_hal.record import Arch, Record
from tutti_hal.toolchain import Resources, Toolchain
from tutti_hal.toolchain.compiler import Compiler, run

_ENTRY = re.compile(r"Compiling entry function '(\w+)'")
_STACK = re.compile(r"(\d+) bytes stack frame, (\d+) bytes spill stores, (\d+) bytes spill loads")
_USED = re.compile(r"Used (\d+) registers")
_SHARED = re.compile(r"(\d+) bytes smem")


_NVRTC = "tutti_hal.backends.cuda.nvrtc"


class CudaToolchain(Toolchain):
    """nvcc; NVRTC where there is none; and nvdisasm for listings."""

    install_hint = (
        "install the CUDA toolkit (https://developer.nvidia.com/cuda-downloads) or name nvcc in CUDACXX, "
        'or install the run-time compiler: pip install "tutti-hal[cuda]"'
    )

    def find(self) -> Compiler:
        """The record's nvcc, else NVRTC; ``TUTTI_CUDA_NVCC=nvrtc`` asks for NVRTC.

        Raises:
            CompilerMissing: neither is there, or a variable names one that is not.
        """
        from tutti_hal.backends.cuda import nvrtc

        if os.environ.get("TUTTI_CUDA_NVCC") == "nvrtc":
            if not nvrtc.installed():
                raise self._missing(["TUTTI_CUDA_NVCC=nvrtc"])
            return _nvrtc()
        try:
            return super().find()
        except CompilerMissing:
            chain = self.record.toolchain
            named = any(os.environ.get(name) for name in chain.driver_env)
            if named or "nvrtc" not in chain.drivers or not nvrtc.installed():
                raise
            return _nvrtc()

    def command(self, compiler: Compiler, arch: Arch, unit: Path, output: Path) -> list[str]:
        """The command line that compiles one rendered unit."""
        if _NVRTC not in compiler.words:
            return super().command(compiler, arch, unit, output)
        return [*compiler.command, "--arch", arch.name, "-I", str(unit.parent), str(unit), "-o", str(output)]

    def flags(self, arch: Arch) -> tuple[str, ...]:
        """The record's flags, and ptxas's report."""
        return (*super().flags(arch), "-Xptxas", "-v")

    def resources(self, kernels: Sequence[KernelDecl], module: Path, log: str) -> tuple[Resources, ...]:
        """What ptxas printed for each kernel."""
        del module
        found: dict[str, Resources] = {}
        for part in re.split(r"(?=Compiling entry function)", log):
            entry, stack, used = _ENTRY.match(part), _STACK.search(part), _USED.search(part)
            if entry and stack and used:
                shared = _SHARED.search(part)
                found[entry[1]] = Resources(
                    entry[1],
                    registers=int(used[1]),
                    spill_bytes=int(stack[2]) + int(stack[3]),
                    shared_bytes=int(shared[1]) if shared else 0,
                    local_bytes=int(stack[1]),
                )
        return tuple(found.get(kernel.name, Resources(kernel.name)) for kernel in kernels)

    def listing(self, module: Path) -> str:
        """The SASS of a cubin, by nvdisasm."""
        tried = f"list the instructions of {module}"
        tool = _lister(self.record)
        if tool is None:
            raise CompilerMissing(
                tried,
                "no nvdisasm on PATH, in the toolkit or in site-packages",
                'To get it: pip install "nvidia-cuda-nvdisasm>=13,<14".',
            )
        done = run([tool, "-c", str(module)], tried)
        if done.returncode:
            raise BuildError(tried, done.stderr.strip()[:400], "Build the module again.")
        return done.stdout


def _nvrtc() -> Compiler:
    """The run-time compiler as a command; what tells two of them apart is the versions of its packages."""
    versions = []
    for package in ("cuda-core", "cuda-bindings", "nvidia-cuda-nvrtc", "nvidia-cuda-nvrtc-cu12"):
        try:
            versions.append(f"{package} {distribution(package).version}")
        except PackageNotFoundError:
            continue
    return Compiler(Path(sys.executable), f"nvrtc: {', '.join(versions)}", ("-m", _NVRTC))


def _lister(record: Record) -> str | None:
    found = shutil.which("nvdisasm")
    if found:
        return found
    roots = [Path(os.environ[name]) for name in record.sdk.env if os.environ.get(name)]
    roots += [Path(name) for name in record.sdk.default]
    places = [root / "bin" / "nvdisasm" for root in roots]
    # The PyPI package keeps the tool below nvidia/, in a folder that carries the toolkit's major version.
    places += sorted(Path(sysconfig.get_path("purelib"), "nvidia").glob("*/bin/nvdisasm"))
    return next((str(place) for place in places if os.access(place, os.X_OK)), None)


def toolchain(record: Record) -> CudaToolchain:
    """The toolchain of this backend's record."""
    return CudaToolchain(record)

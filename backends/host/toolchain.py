"""HOST: a shared library made by the machine's C++ compiler, against the engine's header."""

from __future__ import annotations

import re
import shutil
from collections.abc import Sequence
from pathlib import Path

from tutti_hal.codegen import KernelDecl
from tutti_hal.errors import BuildError, CompilerMissing
from tutti_hal.paths import include_dir
from tutti_hal.record import Arch, Record
from tutti_hal.toolchain import Compiler, Resources, Toolchain
from tutti_hal.toolchain.compiler import run


class HostToolchain(Toolchain):
    """g++ or clang++; what a kernel needs is its stack, for a lane's is small and fixed."""

    install_hint = "sudo apt-get install g++"

    def flags(self, arch: Arch) -> tuple[str, ...]:
        """The record's flags, and the report of stack use."""
        return (*super().flags(arch), "-fstack-usage")

    def command(self, compiler: Compiler, arch: Arch, unit: Path, output: Path) -> list[str]:
        """As for all, with the unit's folder left out of the debug information: the same input, the same bytes."""
        plain = super().command(compiler, arch, unit, output)
        return [*plain, f"-ffile-prefix-map={unit.parent}=."]

    def include_folders(self) -> tuple[Path, ...]:
        """The engine's headers."""
        return (include_dir(),)

    def headers(self) -> tuple[Path, ...]:
        """The device half of the engine, and what it includes."""
        return tuple(include_dir() / "tutti" / name for name in ("abi.h", "port.h", "engine.h", "host_device.h"))

    def resources(self, kernels: Sequence[KernelDecl], module: Path, log: str) -> tuple[Resources, ...]:
        """Stack bytes of each kernel's entry and body; what they call and the compiler did not inline is not in it."""
        del log
        used: dict[str, int] = {}
        for report in sorted(module.parent.glob("*.su")):
            for name, size in re.findall(r"\btt_(?:entry|body)_(\w+)\([^\t]*\t(\d+)", report.read_text("utf-8")):
                used[name] = used.get(name, 0) + int(size)
        return tuple(Resources(kernel.name, local_bytes=used.get(kernel.name)) for kernel in kernels)

    def listing(self, module: Path) -> str:
        """The module's instructions, by objdump."""
        tried = f"list the instructions of {module}"
        tool = shutil.which("objdump")
        if tool is None:
            raise CompilerMissing(tried, "no objdump on PATH", "To get it: sudo apt-get install binutils.")
        done = run([tool, "-d", "-C", "--no-show-raw-insn", str(module)], tried)
        if done.returncode:
            raise BuildError(tried, done.stderr.strip()[:400], "Build the module again.")
        return done.stdout


def toolchain(record: Record) -> HostToolchain:
    """The toolchain of this backend's record."""
    return HostToolchain(record)

"""HIP: a code object for each arch made by clang; registers, spills and memory as its remarks state them."""

from __future__ import annotations

import re
import shutil
from collections.abc import Sequence
from pathlib import Path

from tutti_hal.codegen import KernelDecl
from tutti_hal.errors import BuildError, CompilerMissing
from tutti_hal.record import Arch, Record
from tutti_hal.toolchain import Compiler, Resources, Toolchain
from tutti_hal.toolchain.compiler import run

_NAME = re.compile(r"Function Name: (\w+)")
_NUMBER = re.compile(r"remark: +([\w ]+(?: \[[\w/]+\])?): (\d+)")


class HipToolchain(Toolchain):
    """clang for amdgcn, and llvm-objdump for listings."""

    install_hint = "install ROCm, or sudo apt-get install clang-19 lld-19"

    def flags(self, arch: Arch) -> tuple[str, ...]:
        """The record's flags, and the table of lines, so that a listing says where an instruction comes from."""
        return (*super().flags(arch), "-gline-tables-only")

    def command(self, compiler: Compiler, arch: Arch, unit: Path, output: Path) -> list[str]:
        """As for all, with the unit's folder left out of the table of lines: the same input, the same bytes."""
        plain = super().command(compiler, arch, unit, output)
        return [*plain, f"-ffile-prefix-map={unit.parent}=.", "-fdebug-compilation-dir=."]

    def resources(self, kernels: Sequence[KernelDecl], module: Path, log: str) -> tuple[Resources, ...]:
        """What the compiler's remarks say of each kernel. Spills are registers there: each is four bytes a lane."""
        del module
        found: dict[str, Resources] = {}
        for part in re.split(r"(?=Function Name: )", log):
            name, said = _NAME.match(part), {what: int(number) for what, number in _NUMBER.findall(part)}
            if name:
                found[name[1]] = Resources(
                    name[1],
                    registers=said.get("VGPRs"),
                    spill_bytes=4 * said["VGPRs Spill"] if "VGPRs Spill" in said else None,
                    shared_bytes=said.get("LDS Size [bytes/block]"),
                    local_bytes=said.get("ScratchSize [bytes/lane]"),
                )
        return tuple(found.get(kernel.name, Resources(kernel.name)) for kernel in kernels)

    def listing(self, module: Path) -> str:
        """The instructions of a code object with their lines, by llvm-objdump."""
        tried = f"list the instructions of {module}"
        tools = [shutil.which(name) for name in ("llvm-objdump-19", "llvm-objdump")]
        tool = next((tool for tool in tools if tool), None) or self.in_roots("llvm-objdump")
        if tool is None:
            raise CompilerMissing(tried, "no llvm-objdump on PATH or in the SDK", "To get it: apt-get install llvm-19.")
        done = run([str(tool), "-d", "-l", "--no-show-raw-insn", str(module)], tried)
        if done.returncode:
            raise BuildError(tried, done.stderr.strip()[:400], "Build the module again.")
        return done.stdout


def toolchain(record: Record) -> HipToolchain:
    """The toolchain of this backend's record."""
    return HipToolchain(record)

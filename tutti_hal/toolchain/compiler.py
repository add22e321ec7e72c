"""One interface to every vendor's compiler: find it, compile a rendered unit, say what its kernels need."""

from __future__ import annotations

import os
import re
import shlex
import shutil
import subprocess
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING

from tutti_hal.codegen.kernels import KernelDecl
from tutti_hal.errors import ArchRefused, BuildError, CompilerMissing, VendorsMixed
from tutti_hal.sdk import roots
from tutti_hal.toolchain import rtc

if TYPE_CHECKING:
    from tutti_hal.codegen import Rendered
    from tutti_hal.record import Arch, Record
    from tutti_hal.record import Toolchain as RecordedToolchain

#: Seconds after which a compiler is taken for hung.
COMPILE_LIMIT_S = 600


@dataclass(frozen=True)
class Compiler:
    """A compiler that was found.

    Attributes:
        path: the driver.
        identity: path, size and time of change of the driver, and what goes with it: what tells two compilers apart
            without running them.
        words: what goes between the driver and the flags: the compiler behind a launcher, flags of a variable.
        library: the library that compiles at run time, where the driver is our own program around it.
    """

    path: Path
    identity: str
    words: tuple[str, ...] = ()
    library: Path | None = None

    @property
    def command(self) -> list[str]:
        """The command line so far."""
        return [str(self.path), *self.words]


@dataclass(frozen=True)
class Resources:
    """What one kernel needs of the device. ``None`` where the toolchain cannot tell; never a guess.

    Registers are for each lane. The others are bytes: spilled stores and loads together, static shared memory of a
    block, local (stack) memory of a lane.
    """

    kernel: str
    registers: int | None = None
    spill_bytes: int | None = None
    shared_bytes: int | None = None
    local_bytes: int | None = None


class Toolchain:
    """How one vendor's units are compiled. This class does all that the record can say; a backend adds the rest."""

    #: What to type so that the compiler is there; shown when it is not.
    install_hint = "install the vendor's SDK"

    def __init__(self, record: Record) -> None:
        self.record = record

    def find(self) -> Compiler:
        """The compiler: the record's variables first, then SDK roots that a variable names, PATH, the default roots.

        Where none is found, or the record prefers it, a run-time compiler in a process of its own.

        Raises:
            CompilerMissing: none was found, or a variable names one that is not there.
        """
        chain = self.record.toolchain
        tried: list[str] = []
        if chain.prefer_rtc and (library := rtc.find(self.record, tried)) is not None:
            return _at_run_time(chain, library)
        for variable in chain.driver_env:
            named = os.environ.get(variable)
            if named:
                # A command, as build systems have it: perhaps a launcher before the driver, perhaps flags behind it.
                try:
                    first, *words = shlex.split(named) or [""]
                except ValueError as error:
                    raise CompilerMissing(
                        f"find the compiler of profile {self.record.vendor}",
                        f"{variable} is no command line: {named} ({str(error).lower()})",
                        "Close the quotes, or unset it.",
                    ) from error
                found = shutil.which(first)
                if found is None:
                    raise self._missing([f"{variable}={named}"])
                return _compiler(Path(found), words)
            tried.append(f"${variable}")
        # A root that a variable names is meant: its compilers come before whatever is on PATH.
        named_roots = [place for place, said_by in roots(self.record) if said_by != "default"]
        for driver in chain.drivers:
            candidate = self.in_roots(driver, tried, named_roots)
            if candidate is not None:
                return _compiler(candidate)
        for driver in chain.drivers:
            tried.append(f"{driver} on PATH")
            found = shutil.which(driver)
            if found is not None:
                return _compiler(Path(found))
            candidate = self.in_roots(driver, tried)
            if candidate is not None:
                return _compiler(candidate)
        if chain.rtc is not None and (library := rtc.find(self.record, tried)) is not None:
            return _at_run_time(chain, library)
        raise self._missing(tried)

    def in_roots(self, tool: str, tried: list[str] | None = None, places: Sequence[Path] | None = None) -> Path | None:
        """A tool of the SDK, in the record's ``subdirs`` of its roots; None where there is none.

        Args:
            tool: its file name.
            tried: where to note each place that was looked at.
            places: roots to look in; every one that the record names when None.
        """
        for root in [place for place, _ in roots(self.record)] if places is None else places:
            for sub in self.record.toolchain.subdirs:
                candidate = root / sub / tool
                if tried is not None:
                    tried.append(str(candidate))
                if os.access(candidate, os.X_OK):
                    return candidate
        return None

    def _missing(self, tried: Sequence[str]) -> CompilerMissing:
        return CompilerMissing(
            f"find the compiler of profile {self.record.vendor}",
            f"looked at {', '.join(tried)}",
            f"To get it: {self.install_hint}.",
        )

    def version(self, compiler: Compiler) -> str:
        """The version that the compiler states.

        Raises:
            BuildError: it does not run, or says nothing that the record's pattern knows.
        """
        chain = self.record.toolchain
        if compiler.library is not None:
            return f"{compiler.library.name} {rtc.version(compiler.command)}"
        done = run([*compiler.command, chain.version_flag], f"ask {compiler.path} for its version", chain.environ)
        match = re.search(chain.version_pattern, done.stdout + done.stderr)
        if done.returncode or match is None:
            raise BuildError(
                f"ask {compiler.path} for its version",
                (done.stdout + done.stderr).strip()[:200] or f"exit {done.returncode}",
                "Check that the compiler runs.",
            )
        return f"{compiler.path.name} {match[1]}"

    def flags(self, arch: Arch) -> tuple[str, ...]:
        """Every flag of a compilation for ``arch``, without input, output and include folders."""
        return self.record.toolchain.flags_for(arch)

    def command(self, compiler: Compiler, arch: Arch, unit: Path, output: Path) -> list[str]:
        """The command line that compiles one rendered unit, which lies beside its headers."""
        if compiler.library is not None and self.record.toolchain.rtc is not None:
            words = (*self.record.toolchain.rtc.flags, *self.record.toolchain.filled(arch))
            return [*compiler.command, *rtc.arguments(self.record.toolchain.rtc, unit, output, words)]
        includes = [f"-I{unit.parent}", *(f"-I{path}" for path in self.include_folders())]
        return [*compiler.command, *self.flags(arch), *includes, str(unit), "-o", str(output)]

    def include_folders(self) -> tuple[Path, ...]:
        """Folders of headers that are not rendered."""
        return ()

    def headers(self) -> tuple[Path, ...]:
        """Headers that are not rendered and that a unit includes: a change of one makes compiled modules stale."""
        return ()

    def resources(self, kernels: Sequence[KernelDecl], module: Path, log: str) -> tuple[Resources, ...]:
        """What each kernel needs, read from the module or from what the compiler printed."""
        del module, log
        return tuple(Resources(kernel.name) for kernel in kernels)

    def listing(self, module: Path) -> str:
        """The module's instructions as text, each kernel under its name.

        Raises:
            CompilerMissing: the tool that lists them is not there.
            BuildError: it refused the module.
        """
        raise CompilerMissing(f"list the instructions of {module}", "no lister is known", "Use the vendor's own tool.")


def _at_run_time(chain: RecordedToolchain, library: Path) -> Compiler:
    """Our own program around a run-time compiler: a process of its own, so that one that hangs or dies is ended."""
    real = library.resolve()
    state = f":{real.stat().st_size}:{real.stat().st_mtime_ns}" if real.is_file() else ""
    prefix = chain.rtc.prefix if chain.rtc is not None else ""
    words = ("-m", rtc.PROGRAM, str(library), prefix)
    return Compiler(Path(sys.executable), f"{real}{state} {prefix}", words, library)


def _compiler(path: Path, words: Sequence[str] = ()) -> Compiler:
    files = [path, *(Path(found) for word in words if (found := shutil.which(word)))]
    parts = [f"{real}:{real.stat().st_size}:{real.stat().st_mtime_ns}" for real in (file.resolve() for file in files)]
    return Compiler(path, " ".join([*parts, *words]), tuple(words))


def run(
    command: Sequence[str], tried: str, environ: Mapping[str, str] = MappingProxyType({})
) -> subprocess.CompletedProcess[str]:
    """Run a tool to its end, within a time, and keep what it prints, in English.

    Args:
        command: the command line.
        tried: what it is for, for error messages.
        environ: variables beside those of this process, or instead of them.

    Raises:
        BuildError: it cannot be started, or does not end.
    """
    try:
        return subprocess.run(
            command,
            capture_output=True,
            text=True,
            errors="replace",
            timeout=COMPILE_LIMIT_S,
            check=False,
            stdin=subprocess.DEVNULL,
            env={**os.environ, **environ, "LC_ALL": "C"},
        )
    except subprocess.TimeoutExpired as error:
        raise BuildError(tried, f"no end after {COMPILE_LIMIT_S} s", "Run the command by hand.") from error
    except OSError as error:
        raise BuildError(tried, str(error), "Check that the compiler can be run.") from error


def compile_unit(chain: Toolchain, compiler: Compiler, arch: Arch, rendered: Rendered, folder: Path) -> Path:
    """Write a unit into ``folder`` and compile it there.

    Leaves the sources beside the module, and what the compiler printed in ``build.log``. Blocks for seconds.

    Raises:
        BuildError: the compiler refused it; the error holds what it printed, and the command.
    """
    unit = rendered.write(folder, chain.record.toolchain.suffix)
    module = folder / f"{rendered.name}{chain.record.toolchain.output}"
    command = chain.command(compiler, arch, unit, module)
    tried = f"compile {rendered.template} for {chain.record.vendor}:{arch.name}"
    done = run(command, tried, chain.record.toolchain.environ)
    log = done.stdout + done.stderr
    (folder / "build.log").write_text(log, encoding="utf-8")
    if done.returncode or not module.is_file():
        raise _refused(arch.name, log)(
            tried,
            f"exit {done.returncode}{'' if done.returncode else f' and no {module.name}'}:\n"
            f"{log.strip()[-4000:] or '(it printed nothing)'}\n",
            f"The command was: {shlex.join(command)}",
        )
    return module


#: What compilers say of an architecture that they do not know, and what the rendered header says of mixed macros.
_UNKNOWN_ARCH = re.compile(
    r"(unsupported|unknown|invalid|unrecognized|not supported|bad value)[^\n]*?(arch|target|gpu|processor)"
    r"|(arch|target|gpu|processor)[^\n]*?(unsupported|unknown|invalid|unrecognized|not supported)",
    re.IGNORECASE,
)
_MIXED = "macros of two vendors in one translation unit"


def _refused(arch: str, log: str) -> type[BuildError]:
    """The kind of error that a compiler's output stands for."""
    if _MIXED in log:
        return VendorsMixed
    told = [line for line in log.splitlines() if arch in line or "arch" in line]
    return ArchRefused if any(_UNKNOWN_ARCH.search(line) for line in told if "error" in line.lower()) else BuildError

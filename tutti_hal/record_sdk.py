"""The parts of a vendor's record that say where its SDK is and how its compilers are called."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tutti_hal.record import Arch


@dataclass(frozen=True)
class SdkVersion:
    """Where an SDK says its version.

    Attributes:
        file: relative to the SDK's root.
        pattern: regular expression; its groups, joined by dots, are the version.
        radix: 0, or the base of the digits of a version that is one number: 50200 with 100 is 5.2.0.
    """

    file: str
    pattern: str
    radix: int = 0

    def read(self, root: Path) -> str | None:
        """The version of the SDK in ``root``; None where the file is not there or does not say it."""
        try:
            match = re.search(self.pattern, (root / self.file).read_text(encoding="utf-8", errors="replace"))
        except OSError:
            return None
        if match is None:
            return None
        if not self.radix:
            return ".".join(match.groups())
        major, rest = divmod(int(match[1]), self.radix**2)
        return ".".join(map(str, (major, *divmod(rest, self.radix))))


@dataclass(frozen=True)
class DeviceFiles:
    """Files of the system that tell the devices' archs, one file a device.

    Attributes:
        files: pattern of their names.
        pattern: regular expression whose first group identifies the arch.
        archs: what the group says -> arch.
    """

    files: str
    pattern: str
    archs: Mapping[str, str]


@dataclass(frozen=True)
class Sdk:
    """Where the vendor's SDK may be: environment variables first, in order, then default folders.

    Attributes:
        env: variables that name a root, in order.
        default: roots to look at after them.
        marker: a file that every root of this vendor has, and no other vendor's; empty: roots are not looked into.
        lib: folders below a root that hold shared libraries, in order.
        include: folders below a root that hold headers, in order.
        version: where the version is said; None: nowhere.
        devices: patterns of device nodes; one that matches shows that a device is there.
        described: files that tell the archs of the devices; None: only the runtime tells.
        install: how to get it, for error messages.
    """

    env: tuple[str, ...]
    default: tuple[str, ...]
    marker: str = ""
    lib: tuple[str, ...] = ("lib", "lib64")
    include: tuple[str, ...] = ("include",)
    version: SdkVersion | None = None
    devices: tuple[str, ...] = ()
    described: DeviceFiles | None = None
    install: str = "install the vendor's SDK"


@dataclass(frozen=True)
class Rtc:
    """A library that compiles at run time, with the field's call shapes.

    Attributes:
        libraries: names, in order; looked for in the SDK's roots, then by the loader.
        prefix: of its functions.
        code: what its result is called in ``<prefix>Get<code>`` and ``<prefix>Get<code>Size``.
        flags: of every compilation; the toolchain's ``arch_flags`` follow.
    """

    libraries: tuple[str, ...]
    prefix: str
    code: str
    flags: tuple[str, ...]


@dataclass(frozen=True)
class Toolchain:
    """How device code is compiled.

    Attributes:
        drivers: compiler names, in order of preference; looked for in ``subdirs`` of the SDK roots that a variable
            names, then on PATH, then in those of the default roots.
        driver_env: environment variables that name the driver outright, in order.
        subdirs: folders under an SDK root that hold the drivers.
        suffix: suffix of a source file.
        output: suffix of what a build produces.
        flags: flags of every compilation, without the output.
        arch_flags: flags of one architecture; ``{name}`` stands for each of the arch's ``vars``.
        output_flags: flags that select the kind of output.
        environ: environment variables that every call of the driver has.
        version_flag: what makes the driver print its version.
        version_pattern: regular expression whose first group is the version.
        rtc: the library that compiles at run time, or None.
        prefer_rtc: whether it comes before the drivers, rather than where none of them is found.
    """

    drivers: tuple[str, ...]
    driver_env: tuple[str, ...]
    subdirs: tuple[str, ...]
    suffix: str
    output: str
    flags: tuple[str, ...]
    arch_flags: tuple[str, ...]
    output_flags: tuple[str, ...]
    version_flag: str
    version_pattern: str
    environ: Mapping[str, str] = field(default_factory=dict)
    rtc: Rtc | None = None
    prefer_rtc: bool = False

    def flags_for(self, arch: Arch) -> tuple[str, ...]:
        """Every flag of one architecture's compilation, in order, without input and output names."""
        return (*self.flags, *self.filled(arch), *self.output_flags)

    def filled(self, arch: Arch) -> tuple[str, ...]:
        """The flags that select one architecture, alone."""
        return tuple(flag.format_map(dict(arch.vars)) for flag in self.arch_flags)

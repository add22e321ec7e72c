"""Backends: found by entry point, described lightly, loaded only after selection.

A package offers a backend by an entry point of the group ``tutti_hal.backends`` whose object is a :class:`Descriptor`.
A plugin that fails to load is kept as a :class:`Finding` with its reason, and never disturbs the others.
"""

from __future__ import annotations

import functools
import importlib
import importlib.util
import os
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from importlib.metadata import EntryPoint, entry_points
from pathlib import Path
from types import ModuleType

from tutti_hal.record import Record, load_record

#: Entry-point group that backends are found in.
GROUP = "tutti_hal.backends"

#: Version of the descriptor's shape; a backend of another version is refused.
API_VERSION = 1

#: Comma-separated names of backends that are not to be loaded.
DISABLE_VARIABLE = "TUTTI_DISABLE_BACKENDS"


@dataclass(frozen=True)
class Probe:
    """What a backend found on this machine, without importing its SDK.

    Attributes:
        usable: whether kernels can run here.
        reason: why, or why not; one sentence that also says what to do when it is not usable.
        archs: architectures of the devices present, in device order, without repeats.
        sdk: version of the SDK found, or None.
    """

    usable: bool
    reason: str
    archs: tuple[str, ...] = ()
    sdk: str | None = None


@dataclass(frozen=True)
class Descriptor:
    """The light face of a backend: importing it must import no SDK and cost next to nothing.

    Attributes:
        name: the vendor's name, as in ``TUTTI_PROFILE`` and as in its record.
        api_version: :data:`API_VERSION` of the core that it was written for.
        folder: where ``vendor.yaml`` lies.
        module: the package that holds ``runtime`` and ``toolchain``; imported only after selection.
        probe: looks at the machine; must not raise, hang, or initialise a driver in this process.
    """

    name: str
    api_version: int
    folder: Path
    module: str
    probe: Callable[[], Probe]


@dataclass(frozen=True)
class Backend:
    """A backend that loaded: its descriptor, its record, and its two layers on demand."""

    descriptor: Descriptor

    @property
    def name(self) -> str:
        """The vendor's name."""
        return self.descriptor.name

    @functools.cached_property
    def record(self) -> Record:
        """The vendor's record, read once.

        Raises:
            SpecError: the record is wrong.
        """
        return load_record(self.descriptor.folder)

    @functools.cached_property
    def probe(self) -> Probe:
        """What the backend found on this machine, asked once. A probe that raises counts as unusable."""
        try:
            return self.descriptor.probe()
        except Exception as error:  # a third party's code: whatever it raises is a finding, not our failure
            return Probe(usable=False, reason=f"its probe raised {type(error).__name__}: {error}")

    def runtime(self) -> ModuleType:
        """Layer B of the vendor (``<module>.runtime``); imports its SDK.

        Raises:
            ImportError: the SDK, or the module, is missing.
        """
        return importlib.import_module(f"{self.descriptor.module}.runtime")

    def toolchain(self) -> ModuleType:
        """The vendor's compiler driver (``<module>.toolchain``).

        Raises:
            ImportError: the module is missing.
        """
        return importlib.import_module(f"{self.descriptor.module}.toolchain")

    def simulation(self) -> ModuleType | None:
        """The control over simulated devices (``<module>.sim``), or None where the vendor's devices are not simulated.

        It has ``simulates(arch) -> bool``, ``World``, ``SimOptions``, ``POLICIES`` and ``explore``.

        Raises:
            ImportError: the module is there and something that it imports is not.
        """
        if importlib.util.find_spec(f"{self.descriptor.module}.sim") is None:
            return None
        return importlib.import_module(f"{self.descriptor.module}.sim")


@dataclass(frozen=True)
class Finding:
    """One entry point: the backend it gave, or why it gave none."""

    name: str
    package: str
    backend: Backend | None
    problem: str


def discover(points: Iterable[EntryPoint] | None = None, environ: Mapping[str, str] | None = None) -> list[Finding]:
    """Every backend that is installed, in order of name; none is imported beyond its descriptor.

    Args:
        points: entry points to look at; the installed ones when None, and the simulated SDKs with them.
        environ: environment to read :data:`DISABLE_VARIABLE` from; the process's when None.

    Returns:
        One finding a name. It never raises: what is broken, disabled or offered twice is a finding with its reason.
    """
    from tutti_hal.simulated_sdk import discover_simulated

    found = _backends(points, environ)
    if points is None:
        found += discover_simulated({finding.name: finding for finding in found})
    return sorted(found, key=lambda finding: finding.name)


def _backends(points: Iterable[EntryPoint] | None, environ: Mapping[str, str] | None) -> list[Finding]:
    env = os.environ if environ is None else environ
    disabled = {word.strip() for word in env.get(DISABLE_VARIABLE, "").split(",")} - {""}
    named: dict[str, list[EntryPoint]] = {}
    for point in entry_points(group=GROUP) if points is None else points:
        twins = named.setdefault(point.name, [])
        if all(twin.value != point.value for twin in twins):
            twins.append(point)
    return [_finding(name, named[name], name in disabled) for name in sorted(named)]


def _finding(name: str, points: list[EntryPoint], disabled: bool) -> Finding:
    packages = " and ".join(sorted({package_of(point) for point in points}))
    how = f"disable it with {DISABLE_VARIABLE}={name}, or uninstall {packages}"
    if disabled:
        return Finding(name, packages, None, f"disabled by {DISABLE_VARIABLE}")
    if len(points) > 1:
        values = ", ".join(sorted(point.value for point in points))
        return Finding(name, packages, None, f"offered more than once ({values}, by {packages}); {how}")
    try:
        loaded = points[0].load()
    except Exception as error:  # a broken plugin must not break the others
        return Finding(
            name, packages, None, f"failed to load ({points[0].value}): {type(error).__name__}: {error}; {how}"
        )
    if not isinstance(loaded, Descriptor):
        return Finding(
            name, packages, None, f"{points[0].value} is not a Descriptor but {type(loaded).__name__}; {how}"
        )
    if loaded.api_version != API_VERSION:
        found = f"written for backend API {loaded.api_version}, this is {API_VERSION}"
        return Finding(name, packages, None, f"{found}; install versions that match, or {how}")
    if loaded.name != name:
        return Finding(name, packages, None, f"its descriptor calls itself '{loaded.name}'; {how}")
    return Finding(name, packages, Backend(loaded), "")


def package_of(point: EntryPoint) -> str:
    """The package that offers an entry point, with its version."""
    dist = point.dist
    return f"{dist.name} {dist.version}" if dist is not None else "an unknown package"

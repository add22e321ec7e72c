"""Simulated SDKs: a vendor's own libraries, headers and compiler without its hardware.

A package offers one by an entry point of the group ``tutti_hal.simulated_sdks``, named as the vendor. The profile
``<vendor>-sim[:arch[@sdk]]`` *is* that vendor's profile with its SDK root set to the simulated root: the backend's own
code finds the root, reads its version, opens its libraries and calls its compiler. It is used only when named.
"""

from __future__ import annotations

import functools
import shutil
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from importlib.metadata import EntryPoint, entry_points
from pathlib import Path
from typing import TYPE_CHECKING

from tutti_hal.backend import API_VERSION, Backend, Finding, Probe, package_of
from tutti_hal.sdk import look_for

if TYPE_CHECKING:
    from tutti_hal.record import Record

#: Entry-point group that simulated SDKs are found in.
GROUP = "tutti_hal.simulated_sdks"

#: What follows the vendor's name in the profile's.
SUFFIX = "-sim"

#: Compilers that simulated libraries and kernels are made with; one of them must be there.
_COMPILERS = ("g++", "c++", "clang++")


@dataclass(frozen=True)
class SimulatedSdk:
    """A simulated SDK that a package offers. Importing it must cost next to nothing.

    Attributes:
        vendor: whose; a backend of this name must be installed.
        api_version: :data:`tutti_hal.backend.API_VERSION` of the core that it was written for.
        archs: the architectures that its devices can be of, the default first.
        versions: the versions of the SDK that it can be, the default first.
        make: arch and version to the root; makes it where it is not there yet, which may take seconds.
    """

    vendor: str
    api_version: int
    archs: Callable[[], Sequence[str]]
    versions: Callable[[], Sequence[str]]
    make: Callable[[str, str], Path]


@dataclass(frozen=True)
class SimulatedBackend(Backend):
    """A vendor's backend over a simulated SDK."""

    sdk: SimulatedSdk

    @property
    def name(self) -> str:
        """The profile's name for it."""
        return self.sdk.vendor + SUFFIX

    @functools.cached_property
    def record(self) -> Record:
        """The vendor's record, which says that it is simulated. It still names the vendor's own SDK roots.

        Raises:
            SpecError: the record is wrong.
        """
        return replace(super().record, kind="simulated")

    @functools.cached_property
    def probe(self) -> Probe:
        """What can be simulated. Makes nothing."""
        try:
            archs, versions = tuple(self.sdk.archs()), tuple(self.sdk.versions())
        except Exception as error:  # a third party's code: whatever it raises is a finding, not our failure
            return Probe(usable=False, reason=f"what it simulates cannot be read: {type(error).__name__}: {error}")
        if not any(shutil.which(name) for name in _COMPILERS):
            return Probe(False, f"it is made with a C++ compiler ({' or '.join(_COMPILERS)}), and none is on PATH")
        known = self.record.archs
        what = f"SDK {' or '.join(versions)} of {self.sdk.vendor}, simulated on this CPU; used only when named"
        return Probe(True, what, tuple(arch for arch in archs if arch in known), versions[0])

    def version(self, asked: str | None) -> str | None:
        """The simulated version that a profile's ``@sdk`` means; the default for None. None: there is no such one."""
        for known in self.sdk.versions():
            if asked is None or f"{known}.".startswith(f"{asked}."):
                return known
        return None

    def look(self, root: Path) -> Probe:
        """What the vendor's own detection says of a simulated root: the root is its SDK, and its file system."""
        variable = super().record.sdk.env[:1]
        return look_for(self.descriptor.folder, {name: str(root) for name in variable}, root)


def at_root(record: Record, root: Path) -> Record:
    """The record with ``root`` in place of every SDK root, and of every compiler that lies elsewhere."""
    chain, rtc = record.toolchain, record.toolchain.rtc
    if rtc is not None:
        rtc = replace(rtc, libraries=tuple(str(root / sub / name) for name in rtc.libraries for sub in record.sdk.lib))
    drivers = tuple(str(root / sub / driver) for driver in chain.drivers for sub in chain.subdirs)
    return replace(
        record,
        kind="simulated",
        sdk=replace(record.sdk, env=(), default=(str(root),)),
        toolchain=replace(chain, driver_env=(), drivers=drivers, rtc=rtc),
    )


def discover_simulated(backends: Mapping[str, Finding], points: Iterable[EntryPoint] | None = None) -> list[Finding]:
    """Every simulated SDK that is installed, in order of name; what is broken is a finding with its reason.

    Args:
        backends: the findings of backends, by name.
        points: entry points to look at; the installed ones when None.
    """
    named: dict[str, EntryPoint] = {}
    for point in entry_points(group=GROUP) if points is None else points:
        named.setdefault(point.name, point)
    return [_finding(named[name], backends.get(name)) for name in sorted(named)]


def _finding(point: EntryPoint, vendor: Finding | None) -> Finding:
    package, name = package_of(point), point.name + SUFFIX
    try:
        loaded = point.load()
    except Exception as error:  # a broken plugin must not break the others
        return Finding(name, package, None, f"failed to load ({point.value}): {type(error).__name__}: {error}")
    problem = ""
    if not isinstance(loaded, SimulatedSdk):
        problem = f"{point.value} is not a SimulatedSdk but {type(loaded).__name__}"
    elif loaded.api_version != API_VERSION:
        problem = f"written for backend API {loaded.api_version}, this is {API_VERSION}; install versions that match"
    elif loaded.vendor != point.name:
        problem = f"it calls itself an SDK of '{loaded.vendor}', and is offered for '{point.name}'"
    elif vendor is None or vendor.backend is None:
        problem = f"there is no usable backend '{point.name}' that it could stand under"
    else:
        return Finding(name, package, SimulatedBackend(vendor.backend.descriptor, loaded), "")
    return Finding(name, package, None, problem)

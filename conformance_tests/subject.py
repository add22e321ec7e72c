"""What is under test in a process: a profile on one arch, its device, its modules, and its world where it has one."""

from __future__ import annotations

import tempfile
from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tutti_hal.conformance_tests.seen import Facts

if TYPE_CHECKING:
    from tutti_hal.profile import Profile
    from tutti_hal.record import Record
    from tutti_hal.shim import Device, Kernel, Module
    from tutti_hal.toolchain import Built


@dataclass(frozen=True)
class SubjectSpec:
    """A subject as data, so that a worker process, a repro line and a package name the same thing.

    Attributes:
        profile: ``vendor`` or ``vendor:arch[@sdk]``.
        arch: the arch; empty for a subject that is about the whole vendor.
        record: folder of another ``vendor.yaml`` (a mutant, an ablation); empty for the vendor's own.
        templates: another template root; empty for the installed one.
        ablation: name of the ablation in force; empty for none.
        controller: name of the controller mutation in force; empty for none.
        cases: files or folders of cases beside the suite's own.
    """

    profile: str
    arch: str = ""
    record: str = ""
    templates: str = ""
    ablation: str = ""
    controller: str = ""
    cases: tuple[str, ...] = ()

    def to_json(self) -> dict[str, Any]:
        """As a plain table."""
        return {**asdict(self), "cases": list(self.cases)}

    @classmethod
    def from_json(cls, table: Mapping[str, Any]) -> SubjectSpec:
        """The reverse of :meth:`to_json`."""
        return cls(**{**table, "cases": tuple(table["cases"])})


def profile_of(spec: SubjectSpec) -> Profile:
    """The profile of a subject, with its own record where it has one.

    Raises:
        ProfileError, SpecError: it cannot be had.
    """
    from tutti_hal.profile import parse, resolve
    from tutti_hal.record import load_record

    name = parse(spec.profile)
    wanted = replace(name, arch=spec.arch) if spec.arch else name
    profile = resolve(str(wanted))
    if not spec.record:
        return profile
    return profile.with_record(load_record(Path(spec.record)))


def facts_of(profile: Profile, arch: str) -> Facts:
    """What a judge may know of an arch, or of the vendor as a whole where ``arch`` is empty."""
    record: Record = profile.record
    if not arch:
        return Facts(record.vendor, record.kind, "", 0, 0, False, dict(record.capabilities), {})
    one = record.archs[arch]
    simulation = profile.backend.simulation()
    return Facts(
        vendor=record.vendor,
        kind=record.kind,
        arch=arch,
        wave_width=one.wave_width,
        mask_bits=one.mask_bits,
        simulated=simulation is not None and bool(simulation.simulates(one)),
        capabilities={**record.capabilities, **one.capabilities},
        limits=dict(one.limits),
    )


class Subject:
    """The subject of a process. Devices and modules are opened when they are first asked for, and then kept.

    Args:
        spec: which.
        profile: its profile, where that has been read already.
    """

    def __init__(self, spec: SubjectSpec, profile: Profile | None = None) -> None:
        self.spec = spec
        self.profile = profile or profile_of(spec)
        self.facts = facts_of(self.profile, spec.arch)
        self._modules: dict[tuple[str, int], tuple[int, Module]] = {}
        self._folder: tempfile.TemporaryDirectory[str] | None = None

    @property
    def templates(self) -> Path | None:
        """The template root, None for the installed one."""
        return Path(self.spec.templates) if self.spec.templates else None

    @cached_property
    def device(self) -> Device:
        """Device 0 of the arch."""
        return self.open_device(0)

    def open_device(self, ordinal: int) -> Device:
        """A device of the arch.

        Raises:
            WrongDevice: there is none of that ordinal.
        """
        from tutti_hal.shim import Device

        return Device(self.profile, ordinal)

    @cached_property
    def world(self) -> Any:
        """The world of device 0 (see :meth:`tutti_hal.backend.Backend.simulation`), None where it is not simulated."""
        simulation = self.profile.backend.simulation()
        return simulation.World(self.device) if simulation is not None and self.facts.simulated else None

    def reset_world(self, **options: Any) -> None:
        """Reset the world with these options (fields of its ``SimOptions``); nothing where there is no world."""
        simulation = self.profile.backend.simulation()
        if self.world is not None and simulation is not None:
            self.world.reset(simulation.SimOptions(**options))

    def built(self, kernel_set: str) -> Built:
        """Compile a kernel set for the arch, or take it from the cache.

        Raises:
            BuildError, GenerationError: as :func:`tutti_hal.toolchain.build`.
        """
        from tutti_hal.toolchain import build

        return build(self.profile, kernel_set, templates=self.templates)

    def compile(self, kernel_set: str) -> Path:
        """The file of a kernel set's module; see :meth:`built`."""
        return self.built(kernel_set).path

    def load(self, kernel_set: str, device: Device | None = None) -> Module:
        """A module of a kernel set that is the caller's to close, with its kernels' parameters declared."""
        built = self.built(kernel_set)
        return (device or self.device).load_module(built.path, built.declared)

    def module(self, kernel_set: str, device: Device | None = None) -> Module:
        """The loaded module of a kernel set; loaded again after a reset of its device."""
        where = device or self.device
        key = (kernel_set, where.ordinal)
        known = self._modules.get(key)
        if known is None or known[0] != where.generation:
            known = (where.generation, self.load(kernel_set, where))
            self._modules[key] = known
        return known[1]

    def kernel(self, kernel_set: str, name: str, device: Device | None = None) -> Kernel:
        """A kernel of a kernel set."""
        return self.module(kernel_set, device)[name]

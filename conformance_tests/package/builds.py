"""What the kernels of a run were compiled with, and what came out."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import asdict
from hashlib import sha256
from pathlib import Path
from typing import Any

from tutti_hal.conformance_tests.case import Instance
from tutti_hal.conformance_tests.outcome import End, Outcome
from tutti_hal.conformance_tests.session import Session
from tutti_hal.conformance_tests.subject import profile_of
from tutti_hal.errors import TuttiError
from tutti_hal.profile import Profile


def needed(instances: Iterable[Instance], outcomes: dict[str, Outcome]) -> list[tuple[str, str]]:
    """(arch, kernel set) of everything that the started instances launch, in order and once."""
    found = {
        (instance.arch, kernel_set): None
        for instance in instances
        if instance.arch and (end := outcomes.get(instance.id)) is not None and end.end is not End.NOT_RUN
        for kernel_set in instance.case.kernels
    }
    return list(found)


def builds(session: Session) -> dict[str, Any]:
    """As ``build.json`` holds it: one entry for each kernel set on each arch; compiles what the cache has lost."""
    subject = session.options.subject
    templates = Path(subject.templates) if subject.templates else None
    profiles = {arch: profile_of(session.options.subject_of(arch)) for arch in session.options.archs}
    pairs = needed(session.instances, dict(session.outcomes))
    return {"modules": [_module(profiles[arch], arch, name, templates) for arch, name in pairs]}


def _module(profile: Profile, arch: str, kernel_set: str, templates: Path | None) -> dict[str, Any]:
    from tutti_hal.toolchain import build, toolchain_of

    named = {"arch": arch, "kernel_set": kernel_set}
    try:
        built = build(profile, kernel_set, arch=arch, templates=templates)
        chain = toolchain_of(profile)
        unit = Path(kernel_set).with_suffix(profile.record.toolchain.suffix)
        command = chain.command(chain.find(), profile.record.archs[arch], unit, Path(built.path.name))
    except TuttiError as error:
        return {**named, "refused": error.id, "said": error.found}
    return {
        **named,
        "origin": built.origin,
        "compiler": built.compiler,
        "command": command,
        "unit_sha256": built.sha256,
        "module_sha256": sha256(built.path.read_bytes()).hexdigest(),
        "resources": [asdict(one) for one in built.resources],
    }

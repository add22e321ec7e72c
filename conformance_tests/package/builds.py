"""What the kernels of a run were compiled with, and what came out."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import asdict
from hashlib import sha256
from pathlib import Path
from typing import Any

from tutti_hal.conformance_tests.case import Instance
from tutti_hal.conformance_tests.outcome import End, Outcome
from tutti_hal.conformance_tests.package import layout
from tutti_hal.conformance_tests.package.findings import Findings, printable
from tutti_hal.conformance_tests.session import Session
from tutti_hal.conformance_tests.subject import profile_of
from tutti_hal.errors import TuttiError
from tutti_hal.profile import Profile
from tutti_hal.record import Record
from tutti_hal.toolchain import cache


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
        "command": [anywhere(word) for word in command],
        "unit_sha256": built.sha256,
        "module_sha256": sha256(built.path.read_bytes()).hexdigest(),
        "resources": [asdict(one) for one in built.resources],
    }


def anywhere(word: str) -> str:
    """A word of a command without the place of this machine: the cache by its variable, the home by ``~``."""
    # An empty home is nobody's: nothing lies below it.
    for place, name in ((str(cache.folder()), f"${cache.VARIABLE}"), (os.environ.get("HOME", "").rstrip("/"), "~")):
        if place and (word == place or word.startswith(f"{place}/")):
            return f"{name}{word[len(place) :]}"
    return word


def check_builds(
    session: Session, build: Mapping[str, Any], data: bytes, record: Record | None, findings: Findings
) -> None:
    """Refuse a ``build.json`` that has not what the run launched, or was not made of the product's kernels.

    Args:
        session: the run.
        build: what the file holds.
        data: its text, for lines.
        record: renders each unit again, so that its sum can be compared; None where other templates were in force.
        findings: where refusals go.
    """
    wanted = needed(session.instances, dict(session.outcomes))
    found = [(module["arch"], module["kernel_set"]) for module in build["modules"]]
    lines = [number for number, row in enumerate(data.split(b"\n"), 1) if row.strip().startswith(b'"kernel_set":')]
    for number, pair in enumerate(found):
        if pair not in wanted or pair in found[:number]:
            said = f"{printable(pair[1])} for {printable(pair[0])}"
            findings.refuse(layout.BUILD, lines[number], said, "a kernel set that the run launched there, once")
    for arch, name in wanted:
        if (arch, name) not in found:
            findings.refuse(
                layout.BUILD, 1, f"nothing about {name} for {arch}", "each kernel set that the run launched"
            )
    for number, module in enumerate(build["modules"] if record is not None and found == wanted else ()):
        if "unit_sha256" in module and module["unit_sha256"] != (again := _unit(record, *found[number])):
            said = f"{found[number][1]} for {found[number][0]} was made of source {module['unit_sha256']}"
            findings.refuse(layout.BUILD, lines[number], said, f"the product's kernels render to {again}")


def other_kernels(build: Mapping[str, Any], record: Record) -> Iterator[tuple[str, str]]:
    """(kernel set, arch) of what a package has compiled, and that the product renders otherwise, or no longer."""
    for module in build["modules"]:
        name, arch = module["kernel_set"], module["arch"]
        if "unit_sha256" not in module:
            continue
        try:
            same = module["unit_sha256"] == _unit(record, arch, name)
        except (TuttiError, KeyError):
            same = False
        if not same:
            yield printable(name), printable(arch)


def _unit(record: Record | None, arch: str, kernel_set: str) -> str:
    from tutti_hal.codegen.render import render

    assert record is not None
    return render(record, record.archs[arch], kernel_set).sha256

"""One device with abilities switched off, so that what is done without them is certified, too.

An ablation changes a copy of the vendor's record, and so what is generated and compiled; or it bounds what the suite
builds around the device. A device that passes with everything must pass without.
"""

from __future__ import annotations

import hashlib
import shutil
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import yaml

from tutti_hal.conformance_tests.errors import AblationEmpty, AblationUnknown
from tutti_hal.spec.nodes import near_miss
from tutti_hal.toolchain import cache

if TYPE_CHECKING:
    from tutti_hal.conformance_tests.subject import SubjectSpec

#: The record of a vendor as its YAML says it.
Table = dict[str, Any]


@dataclass(frozen=True)
class Ablation:
    """What is switched off.

    Attributes:
        name: its name.
        sentence: what the device is without.
        edit: changes a record's table in place; None leaves it as it is.
        limits: upper bounds of what the suite builds: fields of ``ControllerConfig``.
    """

    name: str
    sentence: str
    edit: Callable[[Table], None] | None = None
    limits: Mapping[str, int] = field(default_factory=dict)


def _host_queues(table: Table) -> None:
    table["placement"] |= {"submission_queue": "host", "completion_queue": "host", "data": "host", "control": "host"}
    table["p2p"]["mechanisms"] = []


def _denied(capability: str) -> Callable[[Table], None]:
    def edit(table: Table) -> None:
        for arch in table["archs"].values():
            arch["capabilities"] = {**arch["capabilities"], capability: False}

    return edit


#: Name -> ablation.
ABLATIONS: Mapping[str, Ablation] = {
    one.name: one
    for one in (
        Ablation("host-queues", "No drive reaches device memory: queues and data lie in host memory.", _host_queues),
        Ablation("no-system-atomics", "No atomic reaches beyond the device.", _denied("atomic.system")),
        Ablation("no-ballot", "No mask names the lanes of a wave.", _denied("wave.ballot")),
        Ablation("one-queue", "A drive has one I/O queue pair.", limits={"io_queues": 1}),
    )
}


def ablation(name: str) -> Ablation:
    """An ablation by name.

    Raises:
        AblationUnknown: there is none of that name; the near miss is named.
    """
    if name not in ABLATIONS:
        raise AblationUnknown(
            f"switch abilities off by '{name}'",
            f"no ablation has that name{near_miss(name, ABLATIONS)}",
            f"Name one of: {', '.join(ABLATIONS)}.",
        )
    return ABLATIONS[name]


def limits(name: str) -> dict[str, int]:
    """The upper bounds that an ablation sets, by field of ``ControllerConfig``; none for most, and for ``""``.

    Raises:
        AblationUnknown: there is none of that name.
    """
    return dict(ablation(name).limits) if name else {}


def ablated(subject: SubjectSpec, name: str) -> SubjectSpec:
    """A subject with an ablation in force: its record is a changed copy of the one that it had.

    Raises:
        AblationUnknown, AblationEmpty, CacheUnwritable: as :func:`ablated_record`.
        ProfileError, SpecError: the subject's profile cannot be had.
    """
    from tutti_hal.conformance_tests.subject import profile_of

    folder = ablated_record(name, profile_of(subject).record.folder)
    return replace(subject, record=str(folder), ablation=name)


def ablated_record(name: str, folder: Path) -> Path:
    """A record without an ability: a changed copy of its folder, in the cache of compiled kernels. Python is left out.

    Args:
        name: of the ablation.
        folder: of the record that is changed; named after the vendor.

    Returns:
        The folder of the copy; ``folder`` itself where the ablation only sets limits.

    Raises:
        AblationUnknown: there is none of that name.
        AblationEmpty: the record claims nothing of what would be taken away.
        CacheUnwritable: the copy cannot be written.
    """
    return changed_record(ablation(name), folder)


def changed_record(chosen: Ablation, folder: Path) -> Path:
    """As :func:`ablated_record`, for an ablation of one's own."""
    text = (folder / "vendor.yaml").read_text(encoding="utf-8")
    table: Table = yaml.safe_load(text)
    if chosen.edit is not None:
        chosen.edit(table)
    if table == yaml.safe_load(text):
        if not chosen.limits:
            raise AblationEmpty(
                f"switch abilities off by '{chosen.name}'",
                f"{folder / 'vendor.yaml'} claims none of them",
                "Certify it as it is.",
            )
        return folder
    changed = f"# {chosen.sentence}\n{yaml.safe_dump(table, sort_keys=False, allow_unicode=True, width=120)}"
    key = _key(changed, folder)
    with cache.building(key) as fresh:
        if fresh is not None:
            shutil.copytree(folder, fresh / folder.name, ignore=shutil.ignore_patterns("*.py", "__pycache__"))
            (fresh / folder.name / "vendor.yaml").write_text(changed, encoding="utf-8")
    return cache.entry(key) / folder.name


def _key(changed: str, folder: Path) -> str:
    """What the copy is made of, as a key of the cache."""
    digest = hashlib.sha256(f"ablation\n{changed}\n".encode())
    for path in sorted(folder.rglob("*")):
        if path.is_file() and "__pycache__" not in path.parts and path.suffix != ".py":
            digest.update(f"{path.relative_to(folder)} {path.stat().st_size}\n".encode())
            digest.update(path.read_bytes())
    return digest.hexdigest()

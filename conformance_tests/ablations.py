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

_OWN_TO_PYTHON = shutil.ignore_patterns("*.py", "__pycache__")


@dataclass(frozen=True)
class Ablation:
    """What is switched off.

    Attributes:
        name: its name.
        sentence: what the device is without.
        edit: changes a record's table in place.
        limits: upper bounds of what the suite builds: fields of ``ControllerConfig``.
    """

    name: str
    sentence: str
    edit: Callable[[Table], None] = lambda table: None
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
    """A subject with an ablation in force; the changed record lies in the cache of compiled kernels.

    Args:
        subject: with the vendor's own record, or another.
        name: of the ablation.

    Raises:
        AblationUnknown: there is none of that name.
        AblationEmpty: the vendor lacks that ability anyway.
        CacheUnwritable: the copy cannot be written.
        ProfileError, SpecError: the subject's profile cannot be had.
    """
    from tutti_hal.conformance_tests.subject import profile_of

    chosen = ablation(name)
    record = profile_of(subject).record
    folder = write(chosen, record.folder, record.vendor)
    return replace(subject, record=str(folder), ablation=name)


def write(chosen: Ablation, source: Path, vendor: str) -> Path:
    """Put a changed copy of a record's folder into the cache, if it is not there; its path. Python is left out.

    Raises:
        AblationEmpty: the change is none, and no limit is set either.
        CacheUnwritable: the copy cannot be written.
    """
    text = (source / "vendor.yaml").read_text(encoding="utf-8")
    table: Table = yaml.safe_load(text)
    chosen.edit(table)
    if table == yaml.safe_load(text):
        if not chosen.limits:
            raise AblationEmpty(
                f"switch abilities of {vendor} off by '{chosen.name}'",
                f"{source / 'vendor.yaml'} claims none of them",
                "Certify it as it is.",
            )
        return source
    changed = f"# {chosen.sentence}\n{yaml.safe_dump(table, sort_keys=False, allow_unicode=True, width=120)}"
    digest = hashlib.sha256()
    others = [path for path in sorted(source.rglob("*")) if path.is_file() and path.suffix != ".py"]
    for part in (changed, *(f"{path.relative_to(source)}\n" for path in others)):
        digest.update(part.encode())
    for path in others:
        digest.update(path.read_bytes())
    key = digest.hexdigest()
    with cache.building(key) as fresh:
        if fresh is not None:
            shutil.copytree(source, fresh / vendor, ignore=_OWN_TO_PYTHON)
            (fresh / vendor / "vendor.yaml").write_text(changed, encoding="utf-8")
    return cache.entry(key) / vendor

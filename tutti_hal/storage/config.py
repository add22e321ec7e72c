"""Configuration in YAML: a *deployment* says what drives a machine has, an *application* what it wants of them.

They are two files with two owners. Both are checked when they are read, and everything wrong is listed with file, line
and key. The environment overrides some numbers of the application: see `VARIABLES`.
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tutti_hal.errors import DrivesInvalid
from tutti_hal.io_uring.options import RingOptions
from tutti_hal.spec.nodes import Node, Problems, near_miss, read
from tutti_hal.spec.schema import BAD, Checker, Int, ListOf, Struct, Text
from tutti_hal.storage.drives import SoftwareDrive, open_software_drives
from tutti_hal.storage.options import RuntimeOptions
from tutti_hal.storage.runtime import StorageRuntime

if TYPE_CHECKING:
    from tutti_hal.shim import Device

#: Of both files. A file of a newer version is refused.
VERSION = 1
_NAME = r"[A-Za-z0-9_][A-Za-z0-9_.-]{0,63}"
_UNITS = {"": 1, "KiB": 1 << 10, "MiB": 1 << 20, "GiB": 1 << 30, "TiB": 1 << 40}

#: Environment variables that override a number of an application, and which.
VARIABLES: dict[str, str] = {
    "TUTTI_STORAGE_DEPTH": "ring.depth",
    "TUTTI_STORAGE_BATCH_LIMIT": "ring.batch_limit",
    "TUTTI_STORAGE_BATCHES": "ring.batches",
    "TUTTI_STORAGE_BUFFERS": "ring.buffers",
    "TUTTI_STORAGE_LANES": "ring.lanes",
    "TUTTI_STORAGE_LIMIT_MS": "ring.limit_ms",
    "TUTTI_STORAGE_MAX_RESULTS": "max_results",
}


@dataclass(frozen=True)
class Size:
    """A number of bytes: a whole number, or one with KiB, MiB, GiB or TiB; at least ``low``."""

    low: int = 0

    def check(self, node: Node, problems: Problems) -> Any:
        """See `Checker`."""
        value = node.scalar()
        if isinstance(value, str):
            found = re.fullmatch(r"(\d{1,15}) ?(|KiB|MiB|GiB|TiB)", value)
            value = int(found[1]) * _UNITS[found[2]] if found else None
        if not isinstance(value, int) or isinstance(value, bool):
            problems.add(node, "expected bytes, such as 4096 or 64MiB")
            return BAD
        if value < self.low:
            problems.add(node, f"{value} is less than {self.low} bytes")
            return BAD
        return value


@dataclass(frozen=True)
class Deployment:
    """What a machine has.

    Attributes:
        file: where it was read.
        profile: on which device the ring runs; None leaves it to `tutti_hal.profile.select`.
        drives: in order.
    """

    file: Path
    profile: str | None
    drives: tuple[SoftwareDrive, ...]


@dataclass(frozen=True)
class Application:
    """What an application wants.

    Attributes:
        file: where it was read; None for the defaults.
        drives: names of the deployment's drives; None takes all.
        options: of the runtime.
    """

    file: Path | None = None
    drives: tuple[str, ...] | None = None
    options: RuntimeOptions = field(default_factory=RuntimeOptions)


_DRIVE: dict[str, tuple[dict[str, Checker], dict[str, Checker]]] = {
    "software": ({"path": Text()}, {"nbytes": Size(512)}),
    "memory": ({"nbytes": Size(512)}, {"stands_for": Text()}),
}
_COMMON: dict[str, Checker] = {"lba_bytes": Size(512), "mdts": Int(0, 31), "io_queues": Int(1, 1024)}

_RING: dict[str, Checker] = {
    "depth": Int(2, 1 << 16),
    "queues": ListOf(Int(0, 1024), least=1),
    "queues_per_cq": Int(1, 1024),
    "batch_limit": Int(1, 1 << 24),
    "batches": Int(1, 64),
    "buffers": Int(1, 1 << 16),
    "lanes": Int(1, 1 << 24),
    "block": Int(1, 256),
    "limit_ms": Int(1, 1 << 40),
}
_NUMBERS: dict[str, Int] = {
    "max_results": Int(1, 1 << 22),
    "max_memory": Int(1, 1 << 22),
    "max_targets": Int(1, 1 << 22),
}


class _Drive:
    """One drive of a deployment: what else it has depends on its kind."""

    def check(self, node: Node, problems: Problems) -> Any:
        """See `Checker`."""
        kind = "software"
        if node.is_map:
            for name, _, value in node.items(Problems()):
                if name == "kind":
                    kind = Text(known=_DRIVE, noun="kind of drive").check(value, problems)
        if kind is BAD:
            return BAD
        required, optional = _DRIVE[kind]
        called: Checker = Text(pattern=_NAME, noun="name")
        schema = Struct({"name": called, "kind": Text(known=_DRIVE), **required}, {**_COMMON, **optional})
        before = len(problems.found)
        found = schema.check(node, problems)
        if found is BAD or len(problems.found) > before:
            return BAD
        del found["kind"]
        for key in ("path", "stands_for"):
            if key in found:
                found[key] = Path(found[key])
        try:
            return SoftwareDrive(**found)
        except DrivesInvalid as error:
            problems.add(node, error.found)
            return BAD


def _open(file: Path, noun: str, text: str | None) -> tuple[Node, Problems]:
    root, problems = read(file, text), Problems()
    if root.is_map:
        for name, _, value in root.items(Problems()):
            given = value.scalar()
            if name == noun and isinstance(given, int) and given > VERSION:
                problems.add(value, f"version {given} is newer than {VERSION}, which is all that is known here")
    problems.raise_if_any(f"read {file}")
    return root, problems


def read_deployment(file: Path, text: str | None = None) -> Deployment:
    """Reads a deployment. Relative paths in it begin at its folder.

    Args:
        file: the file; with a text, what it is called, and its folder is where paths begin.
        text: what stands in it; None reads the file.

    Raises:
        SpecError: it cannot be read, or keys and values are wrong; each with file, line, key and near miss.
    """
    root, problems = _open(file, "deployment", text)
    schema = Struct(
        {"deployment": Int(VERSION, VERSION), "drives": ListOf(_Drive(), least=1)}, {"profile": Text(noun="profile")}
    )
    found = schema.check(root, problems)
    if found is not BAD:
        names: set[str] = set()
        for drive in found.get("drives", ()):
            if drive.name in names:
                problems.add(root.at("drives"), f"two drives have the name '{drive.name}'")
            names.add(drive.name)
    problems.raise_if_any(f"read {file}")
    drives = tuple(
        replace(
            drive,
            path=None if drive.path is None else file.parent / drive.path,
            stands_for=None if drive.stands_for is None else file.parent / drive.stands_for,
        )
        for drive in found["drives"]
    )
    return Deployment(file, found.get("profile"), drives)


def read_application(
    file: Path,
    deployment: Deployment | None = None,
    environment: Mapping[str, str] | None = None,
    *,
    text: str | None = None,
) -> Application:
    """Reads an application, and lays the environment's overrides over it.

    Args:
        file: the file; with a text, what it is called.
        deployment: whose drives it may name; None checks names when the runtime is made.
        environment: None takes the process's.
        text: what stands in it; None reads the file.

    Raises:
        SpecError: it cannot be read, or keys and values are wrong; each with file, line, key and near miss.
        DrivesInvalid: an environment variable is no number, or numbers do not go together.
    """
    root, problems = _open(file, "application", text)
    known = None if deployment is None else [drive.name for drive in deployment.drives]
    schema = Struct(
        {"application": Int(VERSION, VERSION)},
        {
            "drives": ListOf(Text(known=known, noun="drive"), least=1, unique=True),
            "ring": Struct({}, _RING),
            **_NUMBERS,
        },
    )
    found = schema.check(root, problems)
    problems.raise_if_any(f"read {file}")
    return _application(file, found, os.environ if environment is None else environment)


def default_application(environment: Mapping[str, str] | None = None) -> Application:
    """All drives, default sizes, and the environment's overrides.

    Raises:
        DrivesInvalid: an environment variable is no number, or numbers do not go together.
    """
    return _application(None, {}, os.environ if environment is None else environment)


def _application(file: Path | None, found: dict[str, Any], environment: Mapping[str, str]) -> Application:
    ring = dict(found.get("ring", {}))
    plain = {name: found[name] for name in _NUMBERS if name in found}
    for variable, key in VARIABLES.items():
        text = environment.get(variable)
        if text is None:
            continue
        group, _, name = key.rpartition(".")
        limits = (_RING if group else _NUMBERS)[name]
        assert isinstance(limits, Int)
        if not re.fullmatch(r"\d{1,19}", text) or not (limits.low or 0) <= int(text) <= (limits.high or 0):
            raise DrivesInvalid(
                f"read the environment for {key}", f"{variable}={text}", f"Use {limits.low} to {limits.high}."
            )
        (ring if group else plain)[name] = int(text)
    if "limit_ms" in ring:
        ring["limit_ns"] = ring.pop("limit_ms") * 1_000_000
    usual = RuntimeOptions().ring
    options = RuntimeOptions(
        ring=RingOptions(**{"queues": usual.queues, "batches": usual.batches, **ring}),
        write_class=min(1, len(ring.get("queues", usual.queues)) - 1),
        **plain,
    )
    return Application(file, found.get("drives"), options)


def open_runtime(
    deployment: Deployment, application: Application | None = None, *, device: Device | None = None
) -> StorageRuntime:
    """Makes a deployment's drives and a runtime over those that the application names. The runtime owns them.

    Args:
        deployment: what there is.
        application: None takes `default_application`.
        device: None makes the one of the deployment's profile.

    Raises:
        DrivesInvalid: the application names a drive that the deployment lacks, or drives cannot serve the device.
        TuttiError: a drive does not come up, or as `StorageRuntime.create`.
    """
    from tutti_hal.profile import select
    from tutti_hal.shim import Device

    application = application or default_application()
    have = {drive.name: drive for drive in deployment.drives}
    wanted = tuple(have) if application.drives is None else application.drives
    for name in wanted:
        if name not in have:
            raise DrivesInvalid(
                f"make a runtime from {application.file}",
                f"{deployment.file} has no drive '{name}'{near_miss(name, have)}",
                f"It has: {', '.join(have)}.",
            )
    device = device or Device(select(deployment.profile))
    with ExitStack() as stack:
        drives = open_software_drives(device, [have[name] for name in wanted], stack)
        return StorageRuntime.create(device, drives, application.options, owned=stack.pop_all())

"""Records and backends that a case plants: copies of the record in force, changed, and vendors made up from them."""

from __future__ import annotations

import json
import shutil
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tutti_hal.conformance_tests.run import Run

if TYPE_CHECKING:
    from tutti_hal.backend import Finding
    from tutti_hal.profile import Profile

#: Name of the tables of a record's folder.
RECORD_FILE, EXPECTATIONS_FILE = "vendor.yaml", "conformance.yaml"


def read_table(file: Path) -> Any:
    """A YAML file as plain values, nothing shared between its parts: anchors are written out."""
    import yaml

    loader = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
    return json.loads(json.dumps(yaml.load(file.read_text(encoding="utf-8"), loader)))


def write_table(file: Path, table: Mapping[str, Any]) -> None:
    """Plain values as a YAML file, in their order, a line for each."""
    import yaml

    dumper = getattr(yaml, "CSafeDumper", yaml.SafeDumper)
    text = yaml.dump(json.loads(json.dumps(table)), Dumper=dumper, sort_keys=False, width=200)
    file.write_text(text, encoding="utf-8")


def table_in_force(run: Run) -> dict[str, Any]:
    """The record under test as its file says it, each call anew."""
    table: dict[str, Any] = read_table(run.profile.record.folder / RECORD_FILE)
    return table


def plant_record(run: Run, name: str, table: Mapping[str, Any], vendor: str | None = None) -> Path:
    """Write a record into a folder of its own, with the overrides of the one in force; the folder.

    Args:
        run: the case's.
        name: tells apart what one case plants.
        table: the record.
        vendor: the folder's name; the table's vendor when None.
    """
    folder = run.scratch / name / (vendor or str(table["vendor"]))
    folder.mkdir(parents=True)
    write_table(folder / RECORD_FILE, table)
    overrides = run.profile.record.folder / "overrides"
    if overrides.is_dir():
        shutil.copytree(overrides, folder / "overrides")
    return folder


def problems_of(load: Any) -> list[dict[str, Any]]:
    """What a loader lists as wrong: line, key, text of each, and whether the error's own text has it; empty if nothing.

    Raises:
        Exception: whatever else than the product's own error for a broken table is raised.
    """
    from tutti_hal.errors import SpecError

    try:
        load()
    except SpecError as error:
        return [
            {
                "line": one.line,  # type: ignore[attr-defined]
                "key": one.key,  # type: ignore[attr-defined]
                "text": one.text,  # type: ignore[attr-defined]
                "printed": f"{one.file}:{one.line}: {one.key}: " in str(error),  # type: ignore[attr-defined]
            }
            for one in error.problems
        ]
    return []


class Market:
    """Made-up vendors to choose from. Each has the record in force under another name, and a probe that says its line.

    Args:
        run: the case's; the records lie in its scratch folder.
        name: tells apart the markets of one case.
    """

    def __init__(self, run: Run, name: str = "market") -> None:
        self.run = run
        self.name = name
        self.findings: list[Finding] = []
        self._table = table_in_force(run)

    def vendor(
        self, name: str, kind: str = "hardware", usable: bool = True, sdk: str | None = None, **more: Any
    ) -> None:
        """Add one that loads. ``more`` replaces keys of its record. Its reason is :func:`reason` of its name."""
        from tutti_hal.backend import API_VERSION, Backend, Descriptor, Finding, Probe

        arch = next(iter(self._table["archs"]))
        table = {**self._table, "vendor": name, "kind": kind, "default_arch": arch, **more}
        folder = plant_record(self.run, f"{self.name}{len(self.findings)}", table, name)
        answer = Probe(usable, reason(name), (), sdk)
        descriptor = Descriptor(name, API_VERSION, folder, f"tutti_planted_{name}", lambda: answer)
        self.findings.append(Finding(name, "planted 1.0", Backend(descriptor), ""))

    def broken(self, name: str) -> None:
        """Add one that did not load, for the reason :func:`reason` of its name."""
        from tutti_hal.backend import Finding

        self.findings.append(Finding(name, "planted 1.0", None, reason(name)))


def reason(name: str) -> str:
    """The reason that a made-up vendor gives, usable or not."""
    return f"the probe of {name} says so"


def chosen(profile: Profile) -> dict[str, Any]:
    """A selected profile as an observation."""
    return {"refused": False, "vendor": profile.vendor, "arch": profile.arch, "chosen_by": profile.chosen_by}


def choose(
    findings: Sequence[Any], explicit: str | None = None, variable: str = "", pin: str = "", resolving: bool = False
) -> dict[str, Any]:
    """Ask the selector; the profile, or the refusal, with the whole text of its error.

    Args:
        findings: the vendors to choose from.
        explicit: the explicit argument.
        variable: what ``TUTTI_PROFILE`` holds; empty: not set.
        pin: what the install pinned; empty: nothing. The installed file is stood in for, whatever it says.
        resolving: ask for a profile to build for, rather than to run on.
    """
    from unittest import mock

    from tutti_hal import profile
    from tutti_hal.errors import ProfileError

    pinned = profile.Pin(pin, None, None) if pin else None
    ask = profile.resolve if resolving else profile.select
    environ = {profile.VARIABLE: variable} if variable else {}
    with mock.patch.object(profile, "pinned", return_value=pinned):
        try:
            return chosen(ask(explicit, findings=findings, environ=environ))
        except ProfileError as error:
            return {"refused": True, "error": type(error).__name__, "id": error.id, "said": str(error)}

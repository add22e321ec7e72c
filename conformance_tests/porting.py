"""Where a port stands: the first red rung, what is wrong there, and where to mend it. Quick: it runs no case.

L0 and L1 are looked at statically. Of L2 it is seen whether the runtime opens and has every function that is claimed,
in a process of its own, since a vendor's library may hang or end it. What a kept package of evidence says counts for
the rest, as long as the record in it is the one that is installed.
"""

from __future__ import annotations

import multiprocessing
import os
import re
import signal
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tutti_hal.errors import ProfileError, ProfileUnknown, SpecError, TuttiError
from tutti_hal.spec.tables import LEVELS

if TYPE_CHECKING:
    from tutti_hal.backend import Backend, Finding
    from tutti_hal.record import Record

#: Seconds that a look takes at most, unless it is given more.
BUDGET_S = 2.0

#: How a line of a record that is not answered yet is marked, with its question and its clause.
_MARKED = re.compile(r"#\?\s+(?P<ask>.*?)\s*(?:\[(?P<check>[\w. -]+)\])?\s*$")

#: Files of a backend whose lines may be marked.
_ANSWERED = ("vendor.yaml", "conformance.yaml", "runtime.py", "toolchain.py")

#: Words of a record's problem -> the clause that it breaks; the first that fits.
_BROKEN = (
    ("is not answered", "record.capability.answered"),
    ("wave.ballot is claimed", "record.wave.mask_fits"),
    ("'source'", "record.fact.has_source"),
    ("did you mean", "record.reference.known"),
)


@dataclass(frozen=True)
class Red:
    """What makes a rung red.

    Attributes:
        level: of the rung.
        clause: the one that is broken.
        found: what is so.
        hint: what to do.
        where: file, with the line where there is one, and the key where there is one.
    """

    level: str
    clause: str
    found: str
    hint: str
    where: str


@dataclass(frozen=True)
class Status:
    """Where a port stands.

    Attributes:
        vendor: as named.
        red: the first red rung; None where nothing that was looked at is red.
        looked: level -> how it was looked at, for those that were.
        to_do: lines of the record that are still marked.
        next: what to type next.
    """

    vendor: str
    red: Red | None
    looked: dict[str, str]
    to_do: int
    next: str


def port_status(vendor: str, evidence: Path | None = None, within_s: float = BUDGET_S) -> Status:
    """Look at an installed backend.

    Args:
        vendor: its name, or that of its simulated SDK (``acme-sim``).
        evidence: a package that ``certify --out`` wrote.
        within_s: seconds to look for at most; what was not seen by then is said.

    Raises:
        ProfileUnknown: no such backend is installed.
        NotAPackage: ``evidence`` is none.
    """
    from tutti_hal.backend import discover

    findings = {finding.name: finding for finding in discover()}
    if vendor not in findings:
        raise ProfileUnknown(
            f"look at the port of '{vendor}'",
            f"no backend of this name is installed, only {', '.join(findings)}",
            f"Install it: pip install -e tutti-hal-{vendor}. To begin one: tutti-hal new-backend {vendor}.",
        )
    until = time.monotonic() + within_s
    looked: dict[str, str] = {}
    red, to_do = _static(findings[vendor], looked, until - within_s / 2)
    again = f"mend it, then: tutti-hal port-status {vendor}"
    if red is not None:
        return Status(vendor, red, looked, to_do, again)
    kept, say = (None, "") if evidence is None else _kept(findings[vendor], evidence, looked)
    if "L2" not in looked:
        red = _opens_within(vendor, looked, until)
    certify = f"tutti-hal certify --profile {vendor} --level L5 --quick --out out/{vendor}"
    if red is not None:
        return Status(vendor, red, looked, to_do, again)
    if kept is not None:
        return Status(vendor, kept, looked, to_do, f"mend it, then: {certify} --force")
    return Status(vendor, None, looked, to_do, say or f"run the cases: {certify}")


# ---- L0 and L1, statically


def _static(finding: Finding, looked: dict[str, str], until: float) -> tuple[Red | None, int]:
    looked["L0"] = "record and expectations, read"
    backend = finding.backend
    if backend is None:
        return Red("L0", "profile.plugin.isolated", finding.problem, "Mend the package.", finding.package), 0
    folder = backend.descriptor.folder
    marks = [(name, *mark) for name in _ANSWERED for mark in _marks(_text(folder / name))]
    for name, load in (("vendor.yaml", lambda: backend.record), ("conformance.yaml", lambda: _expectations(folder))):
        broken = _broken(folder, name, load)
        if broken is not None:
            return broken, len(marks)
    if marks:
        name, number, key, ask, check = marks[0]
        found = f"{len(marks)} lines are not answered yet; the first is '{key}'"
        hint = f"Find out: {ask}. Write it there, and take the marker away."
        return Red("L0", check or "record.fact.has_source", found, hint, f"{folder / name}:{number}"), len(marks)
    return _generates(backend, looked, until), 0


def _text(file: Path) -> str:
    try:
        return file.read_text(encoding="utf-8")
    except OSError:
        return ""


def _marks(text: str) -> Iterator[tuple[int, str, str, str]]:
    """Line, key, question and clause of every line that is marked."""
    for number, line in enumerate(text.splitlines(), 1):
        found = _MARKED.search(line)
        if found and not line.startswith("#"):  # a comment that speaks of markers is none
            yield number, line.strip().partition(":")[0], found["ask"], found["check"] or ""


def _expectations(folder: Path) -> object:
    from tutti_hal.expectations import load_expectations

    return load_expectations(folder)


def _broken(folder: Path, name: str, load: Callable[[], object]) -> Red | None:
    """The first problem of a file that does not load."""
    try:
        load()
    except SpecError as error:
        first: Any = next(iter(error.problems), None)
        said = str(getattr(first, "text", first or error.found))
        clause = next((clause for word, clause in _BROKEN if word in said), "record.schema.valid")
        more = f" (and {len(error.problems) - 1} more)" if len(error.problems) > 1 else ""
        line, key = getattr(first, "line", ""), getattr(first, "key", "")
        where = f"{folder / name}{f':{line}' if line else ''}{f', {key}' if key else ''}"
        return Red("L0", clause, f"{said}{more}", "Correct it there.", where)
    return None


def _generates(backend: Backend, looked: dict[str, str], until: float) -> Red | None:
    from tutti_hal.codegen import kernel_sets, render
    from tutti_hal.codegen.complete import gaps
    from tutti_hal.codegen.sources import template_name
    from tutti_hal.paths import templates_dir

    record = backend.record
    wanting = gaps(record)
    if wanting:
        key = "host_api.names or host_api.absent" if wanting[0].startswith("host") else "primitives"
        more = f" (and {len(wanting) - 1} more)" if len(wanting) > 1 else ""
        hint = "Map it, or declare the capability that it belongs to false."
        return Red("L1", "generate.complete", f"{wanting[0]}{more}", hint, f"{record.file}, {key}")
    arch = record.archs[record.default_arch or next(iter(record.archs))]
    names = kernel_sets(templates_dir())
    for number, name in enumerate(names):
        if number and time.monotonic() > until:
            break
        try:
            render(record, arch, template_name(name))
        except TuttiError as error:
            return Red("L1", "generate.undefined.refused", error.found, error.fix, f"{record.file}, primitives")
        seen = f"{number + 1} of {len(names)} kernel sets rendered for {arch.name}"
        looked["L1"] = f"no gap; {seen}; nothing compiled"
    return None


# ---- L2: does the runtime open


def _opens_within(vendor: str, looked: dict[str, str], until: float) -> Red | None:
    """As :func:`_opens`, in a process that is ended when it does not end."""
    context = multiprocessing.get_context("fork")
    ours, theirs = context.Pipe(duplex=False)

    def look() -> None:
        os.setsid()
        theirs.send(_opens(vendor))

    child = context.Process(target=look, daemon=True)
    child.start()
    theirs.close()
    looked["L2"] = "the runtime opened, its functions looked up; no case was run"
    try:
        if not ours.poll(max(until - time.monotonic(), 0.1)):
            os.killpg(child.pid or 0, signal.SIGKILL)
            looked["L2"] = "not seen in time whether the runtime opens (--within S gives it longer)"
            return None
        red: Red | None = ours.recv()
        return red
    except (EOFError, ProcessLookupError):
        hint = "Open it alone, under a debugger."
        return Red("L2", "host.device.count", "the process that opened the runtime died", hint, "host_api.libraries")
    finally:
        child.join(1.0)
        ours.close()


def _opens(vendor: str) -> Red | None:
    from tutti_hal.profile import select

    try:
        profile = select(vendor)
    except ProfileError as error:
        return Red("L2", "host.device.count", error.found.split("\n")[0], error.fix, "sdk and its devices")
    record = profile.record
    try:
        from tutti_hal.toolchain import toolchain_of

        toolchain_of(profile).find()
    except TuttiError as error:
        return Red("L1", "prim.attribute.compiles", error.found, error.fix, f"{record.file}, toolchain.drivers")
    try:
        runtime = profile.backend.runtime().open_runtime(profile)
    except ImportError as error:
        return Red("L2", "host.device.count", str(error), "Correct its imports.", f"{record.folder / 'runtime.py'}")
    except TuttiError as error:
        clause = "record.number.matches_header" if "NUMBERS" in error.id else "host.device.count"
        return Red("L2", clause, error.found.strip(), error.fix, f"{record.file}, host_api")
    return _unbound(record, runtime)


def _unbound(record: Record, runtime: Any) -> Red | None:
    """The first function that a capability which is claimed needs, and the libraries lack."""
    from tutti_hal.spec import load_spec

    for function in load_spec().host_functions.values():
        if function.capability is None or not record.capabilities[function.capability] or runtime.has(function.name):
            continue
        names = (
            " or ".join(record.host_api.symbols(function.name)) or f"no symbol: {record.host_api.absent[function.name]}"
        )
        return Red(
            "L2",
            function.clauses[0] if function.clauses else "record.capability.true_is_shown",
            f"{function.capability} is claimed and needs {function.name}, which the libraries lack ({names})",
            f"Say how it is called under host_api.names, or declare {function.capability} false.",
            f"{record.file}, host_api.names.{function.name}",
        )
    return None


# ---- what was kept of a run


def _kept(finding: Finding, evidence: Path, looked: dict[str, str]) -> tuple[Red | None, str]:
    """The first red rung of a package, and what it says of the next step; nothing where the record is another now."""
    from tutti_hal.conformance_tests.package import layout
    from tutti_hal.conformance_tests.package.comparison import read_package
    from tutti_hal.conformance_tests.verdict import OPEN

    package = read_package(evidence)
    assert finding.backend is not None
    folder = finding.backend.descriptor.folder
    own = {name: (folder / name).read_bytes() for name in layout.RECORD_FILES}
    stale = [name for name, data in own.items() if package.record.get(name) != data]
    run = package.documents[layout.RUN]
    if stale:
        looked["evidence"] = f"{evidence} does not count: {', '.join(stale)} changed since"
        return None, ""
    kept = f"kept in {evidence}, {run['started']}, {run['provenance']}: {run['certifies']}"
    for level in run["ladder"]["levels"]:
        if level["state"] == "not run":
            continue
        looked[level["level"]] = kept
        if level["state"] == "failed":
            return _failed(package.lines[layout.VERDICTS], level, folder), kept
    reached = [level["level"] for level in run["ladder"]["levels"] if level["state"] != "not run"]
    higher = LEVELS[LEVELS.index(reached[-1]) + 1 :] if reached else LEVELS
    say = f"nothing is red up to {reached[-1]}" if reached else "it ran nothing"
    for level in run["ladder"]["levels"]:
        waits = ", ".join(f"{number} {one}" for one, number in level["counts"].items() if one in OPEN)
        say += f"; {level['level']} is incomplete ({waits})" if waits else ""
    return None, f"{say}; next: tutti-hal certify --profile {finding.name}{f' --level {higher[0]}' if higher else ''}"


def _failed(lines: list[tuple[int, Any]], level: dict[str, Any], folder: Path) -> Red:
    from tutti_hal.conformance_tests.verdict import OPEN

    verdicts = {row["id"]: row for _, row in lines}
    row = next((verdicts[one] for one in level["blocking"] if verdicts[one]["verdict"] not in OPEN), None)
    if row is None:
        return Red(level["level"], "", "the level failed", "Run certify again.", str(folder))
    red = [clause for clause, verdict in row["clauses"].items() if verdict == row["verdict"]]
    more = f" (and {len(level['blocking']) - 1} more)" if len(level["blocking"]) > 1 else ""
    found = f"{row['verdict']} {row['id']}: {row['reason']}{more}"
    return Red(
        level["level"],
        (red or list(row["clauses"]))[0],
        found,
        f"See it alone: {row['repro']}",
        str(folder / "vendor.yaml"),
    )

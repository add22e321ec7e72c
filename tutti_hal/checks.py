"""The doctor's checks: each has a stable id, judges one thing, and says how to mend it.

A check never raises, and leaves nothing behind: the files that it tries to write are anonymous.
"""

from __future__ import annotations

import os
import tempfile
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from tutti_hal import machine, profile
from tutti_hal.errors import NativeError, ProfileAmbiguous, TuttiError
from tutti_hal.profile import Candidate
from tutti_hal.simulated_sdk import SimulatedBackend

if TYPE_CHECKING:
    from tutti_hal.record import Arch, Record

State = Literal["pass", "warn", "fail"]

#: Least memory that the demo's default workload wants, in bytes.
WANTED_MEMORY = 3 << 30

#: Least number of memory areas: every lane's stack takes two (itself and its guard page), for 8,192 live lanes.
WANTED_AREAS = 2 * 8192 + 4096

#: Least lockable memory below which pinned host memory is only promised, in bytes.
WANTED_MEMLOCK = 64 << 20


@dataclass(frozen=True)
class Judgement:
    """One check's answer.

    Attributes:
        id: stable: ``subject.thing``, or ``subject.thing.vendor``.
        state: ``fail`` stops the main job; ``warn`` narrows what works; ``pass``.
        found: what was found, in one line.
        fix: what to do; empty when it passed.
    """

    id: str
    state: State
    found: str
    fix: str = ""


#: A check gets the candidates, so that each vendor is probed once for all checks.
Check = Callable[[Sequence[Candidate]], Iterator[Judgement]]


def diagnose() -> tuple[Judgement, ...]:
    """Run every check, in order. Takes a second or two (compilers are asked for their versions)."""
    candidates = profile.candidates()
    return tuple(judgement for check in CHECKS for judgement in check(candidates))


def _packages(_: Sequence[Candidate]) -> Iterator[Judgement]:
    facts = machine.package_facts()
    missing = sorted(name for name, version in facts.items() if version is None)
    if missing:
        fix = "Install the package again with its requirements: pip install ."
        yield Judgement("python.packages", "fail", f"not installed: {', '.join(missing)}", fix)
    else:
        yield Judgement("python.packages", "pass", ", ".join(f"{name} {v}" for name, v in facts.items()))


def _native(_: Sequence[Candidate]) -> Iterator[Judgement]:
    from tutti_hal.native import ffi_and_library

    try:
        ffi_and_library()
    except NativeError as error:
        yield Judgement("native.library", "fail", f"{error.tried}: {error.found}", error.fix)
    else:
        yield Judgement("native.library", "pass", "loads, and is of this package's ABI")


def _contract(_: Sequence[Candidate]) -> Iterator[Judgement]:
    from tutti_hal.spec import load_spec

    try:
        spec = load_spec()
    except TuttiError as error:
        yield Judgement("spec.contract", "fail", error.found, error.fix)
    else:
        counts = f"{len(spec.host_functions)} host functions, {len(spec.primitives)} primitives"
        yield Judgement("spec.contract", "pass", f"{counts}, {len(spec.clauses)} clauses")


def _backends(candidates: Sequence[Candidate]) -> Iterator[Judgement]:
    for candidate in candidates:
        if candidate.backend is None or not candidate.kind:
            fix = "See the reason; a plugin can be disabled or uninstalled."
            yield Judgement(f"backend.loads.{candidate.vendor}", "warn", candidate.reason, fix)
            continue
        yield Judgement(f"backend.loads.{candidate.vendor}", "pass", candidate.package)
        if isinstance(candidate.backend, SimulatedBackend):
            continue  # its record is its vendor's
        record = candidate.backend.record
        gaps = sorted({name for arch in record.archs.values() for name in _gaps(record, arch)})
        if gaps:
            fix = f"Map them in {record.file}, or declare their capability false."
            yield Judgement(f"record.complete.{candidate.vendor}", "warn", f"unmapped: {', '.join(gaps)}", fix)
        else:
            yield Judgement(f"record.complete.{candidate.vendor}", "pass", "maps all that it must")
        yield _expectations(candidate.vendor, candidate.backend.descriptor.folder)


def _expectations(vendor: str, folder: Path) -> Judgement:
    from tutti_hal.expectations import load_expectations

    try:
        found = load_expectations(folder)
    except TuttiError as error:
        return Judgement(f"expectations.{vendor}", "fail", error.found, error.fix)
    counts = f"{len(found.unsupported)} clauses unsupported for ever, {len(found.expected_failures)} failing for now"
    return Judgement(f"expectations.{vendor}", "pass", counts)


def _gaps(record: Record, arch: Arch) -> tuple[str, ...]:
    missing = record.missing(arch)
    return (*missing.primitives, *missing.host_functions)


def _compilers(candidates: Sequence[Candidate]) -> Iterator[Judgement]:
    from tutti_hal.toolchain.build import toolchain_of

    for candidate in candidates:
        # A simulated SDK is made with its compiler when it is selected, and not to be looked at.
        if candidate.backend is None or not candidate.kind or isinstance(candidate.backend, SimulatedBackend):
            continue
        name = f"compiler.{candidate.vendor}"
        try:
            compiler = toolchain_of(profile.resolve(candidate.vendor)).find()
        except TuttiError as error:
            state: State = "fail" if candidate.usable else "warn"
            yield Judgement(name, state, error.found.split("\n")[0], error.fix)
        else:
            record = candidate.backend.record.toolchain
            version = machine.tool_version((str(compiler.path), record.version_flag), record.version_pattern)
            if version is None:
                fix = "Run it by hand: a compiler that cannot tell its version is broken or of another kind."
                yield Judgement(name, "warn", f"{compiler.path} tells no version", fix)
            else:
                yield Judgement(name, "pass", f"{compiler.path}, version {version}")


def _selection(_: Sequence[Candidate]) -> Iterator[Judgement]:
    try:
        chosen = profile.select()
    except ProfileAmbiguous as error:
        yield Judgement("profile.selected", "warn", error.found.split("\n")[0], error.fix)
    except TuttiError as error:
        yield Judgement("profile.selected", "fail", f"{error.tried}: {error.found.split(chr(10))[0]}", error.fix)
    else:
        yield Judgement("profile.selected", "pass", f"{chosen} (by {chosen.chosen_by})")


def _aot(_: Sequence[Candidate]) -> Iterator[Judgement]:
    try:
        if profile.pinned() is None:
            yield Judgement("aot.fresh", "pass", "nothing is pinned, so nothing was built ahead of time")
            return
        from tutti_hal.toolchain import aot_state

        state = aot_state()
    except TuttiError as error:
        yield Judgement("aot.fresh", "warn", error.found, error.fix)
        return
    if state is None or state.stale or state.why_none:
        found = state.summary if state else "no AOT"
        yield Judgement("aot.fresh", "warn", found, "Kernels are compiled when used; or install again.")
    else:
        yield Judgement("aot.fresh", "pass", state.summary)


def _cache(_: Sequence[Candidate]) -> Iterator[Judgement]:
    from tutti_hal.toolchain import cache

    try:
        folder = cache.folder()
    except TuttiError as error:
        yield Judgement("cache.writable", "warn", error.found, error.fix)
        return
    there = next(place for place in (folder, *folder.parents) if place.exists())
    try:
        with tempfile.TemporaryFile(dir=there):
            pass
    except OSError as error:
        fix = f"Make it writable, or set {cache.VARIABLE} to a folder that is."
        yield Judgement("cache.writable", "warn", f"{folder}: {error.strerror}", fix)
    else:
        yield Judgement("cache.writable", "pass", str(folder))


def _memory(_: Sequence[Candidate]) -> Iterator[Judgement]:
    facts = machine.memory_facts()
    usable = min(facts["total_bytes"], facts["cgroup_limit_bytes"] or facts["total_bytes"])
    found = f"{usable / 2**30:.1f} GiB usable"
    if usable < WANTED_MEMORY:
        fix = f"The demo's default workload wants {WANTED_MEMORY >> 30} GiB: give it fewer requests."
        yield Judgement("memory.size", "warn", found, fix)
    else:
        yield Judgement("memory.size", "pass", found)


def _areas(_: Sequence[Candidate]) -> Iterator[Judgement]:
    text = machine.kernel_facts()["sysctl"]["vm/max_map_count"]
    if text is None or not text.isdigit():
        yield Judgement("memory.areas", "warn", "vm.max_map_count cannot be read", "Check that /proc is mounted.")
    elif int(text) < WANTED_AREAS:
        fix = f"sysctl vm.max_map_count={WANTED_AREAS}: each live lane of the HOST engine takes two areas."
        yield Judgement("memory.areas", "warn", f"vm.max_map_count is {text}", fix)
    else:
        yield Judgement("memory.areas", "pass", f"vm.max_map_count is {text}")


def _memlock(_: Sequence[Candidate]) -> Iterator[Judgement]:
    limit = machine.limit_facts()["memlock_bytes"]
    found = "unlimited" if limit is None else f"{limit >> 20} MiB"
    if limit is not None and limit < WANTED_MEMLOCK and os.geteuid() != 0:
        fix = "Raise it (ulimit -l): host memory beyond it is allocated, but may be swapped out."
        yield Judgement("memory.lockable", "warn", found, fix)
    else:
        yield Judgement("memory.lockable", "pass", found if os.geteuid() else f"{found} (not binding for root)")


def _cpus(_: Sequence[Candidate]) -> Iterator[Judgement]:
    usable = machine.cpu_facts()["usable"]
    if usable < 2:
        fix = "Give the process two CPUs: a controller and the kernels then run side by side."
        yield Judgement("cpu.count", "warn", f"{usable} usable", fix)
    else:
        yield Judgement("cpu.count", "pass", f"{usable} usable")


def _direct_io(_: Sequence[Candidate]) -> Iterator[Judgement]:
    folder = Path(tempfile.gettempdir())
    try:
        os.close(os.open(folder, os.O_TMPFILE | os.O_RDWR | os.O_DIRECT))
    except OSError as error:
        fix = "File namespaces there go through the page cache, and say so; set TMPDIR to another filesystem."
        yield Judgement("storage.direct_io", "warn", f"{folder} has no O_DIRECT: {error.strerror}", fix)
    else:
        yield Judgement("storage.direct_io", "pass", f"{folder} takes O_DIRECT")


#: Every check, in the order in which a newcomer would want to mend things.
CHECKS: tuple[Check, ...] = (
    _packages,
    _native,
    _contract,
    _backends,
    _selection,
    _compilers,
    _aot,
    _cache,
    _cpus,
    _memory,
    _areas,
    _memlock,
    _direct_io,
)

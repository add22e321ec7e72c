"""Layer A: the choice of vendor, architecture and SDK.

One grammar, ``vendor[:arch[@sdk]]``, and one order: explicit argument, the variable :data:`VARIABLE`, the profile
pinned at install, else the only usable *hardware* vendor. What is not hardware is used only when named. There is no
silent fall-back: when the answer is not clear, the error lists every candidate with the reason it was refused.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from importlib.resources import files
from pathlib import Path
from typing import Any

from tutti_hal.backend import Backend, Finding, discover
from tutti_hal.errors import ProfileAmbiguous, ProfileError, ProfileUnknown, ProfileUnusable
from tutti_hal.overlay import at_sdk
from tutti_hal.record import Record
from tutti_hal.simulated_sdk import SimulatedBackend, at_root
from tutti_hal.spec.nodes import near_miss

#: The one variable that names a profile.
VARIABLE = "TUTTI_PROFILE"

_GRAMMAR = re.compile(r"(?P<vendor>[a-z][a-z0-9_-]*)(:(?P<arch>[a-z][a-z0-9_-]*)(@(?P<sdk>\d+(\.\d+)*))?)?")


@dataclass(frozen=True)
class Name:
    """A profile's name, taken apart."""

    vendor: str
    arch: str | None = None
    sdk: str | None = None

    def __str__(self) -> str:
        arch = f":{self.arch}" if self.arch else ""
        return f"{self.vendor}{arch}{f'@{self.sdk}' if self.sdk else ''}"


@dataclass(frozen=True)
class Pin:
    """What the install pinned.

    Attributes:
        profile: the name given at install.
        aot: what was built ahead of time, as the build wrote it; None when nothing was.
        why_no_aot: why nothing was built, or None.
    """

    profile: str
    aot: Mapping[str, Any] | None
    why_no_aot: str | None


@dataclass(frozen=True)
class Profile:
    """A selected profile.

    Attributes:
        vendor: the vendor's name.
        arch: the architecture to run on.
        archs: the architectures to build for: ``arch`` alone once it is known; every architecture of the record where
            none was named, none is the default and no device was found.
        sdk: the SDK version asked for or found; None where the vendor has none, or it is not known.
        record: the vendor's record.
        backend: the vendor's backend; its SDK is not imported yet.
        chosen_by: ``argument``, ``variable``, ``pinned`` or ``only usable hardware``.
        named: the name that was given, or the bare vendor where none was.
        simulated_root: the root of a simulated SDK, which stands for all roots of the record; None on hardware.
    """

    vendor: str
    arch: str
    archs: tuple[str, ...]
    sdk: str | None
    record: Record
    backend: Backend
    chosen_by: str
    named: Name
    simulated_root: Path | None = None

    def __str__(self) -> str:
        return f"{self.vendor}:{self.arch}"

    def with_record(self, record: Record) -> Profile:
        """The same profile with another record of the vendor's, as it is for the profile's SDK.

        Args:
            record: as it was read.
        """
        if self.simulated_root is not None:
            record = at_root(record, self.simulated_root)
        return replace(self, record=at_sdk(record, self.sdk))


@dataclass(frozen=True)
class Candidate:
    """One vendor that could be chosen.

    Attributes:
        usable: whether kernels can run on it here, once it is named.
        reason: why it is usable, or why not.
        kind: the record's kind; empty where there is no readable record.
        archs: the record's architectures.
        found_archs: architectures of the devices that were found.
        sdk: version of the SDK that was found, or None.
        package: the package that offers it.
    """

    vendor: str
    usable: bool
    reason: str
    kind: str
    archs: tuple[str, ...]
    found_archs: tuple[str, ...]
    sdk: str | None
    package: str
    backend: Backend | None

    @property
    def needs_naming(self) -> bool:
        """Whether it is never chosen without being named."""
        return self.kind != "hardware"


def parse(text: str, where: str = "the argument") -> Name:
    """Take a profile's name apart.

    Raises:
        ProfileUnknown: it is not of the form ``vendor[:arch[@sdk]]``.
    """
    match = _GRAMMAR.fullmatch(text.strip())
    if match is None:
        lower = text.strip().lower()
        hint = f"; did you mean '{lower}'?" if lower != text.strip() and _GRAMMAR.fullmatch(lower) else ""
        raise ProfileUnknown(
            f"select profile '{text}' (from {where})",
            f"the name is not of the form vendor[:arch[@sdk]]{hint}",
            "Write for example host, host:sim-w32 or vendor:arch@13.0, all in lower case.",
        )
    return Name(match["vendor"], match["arch"], match["sdk"])


def pinned() -> Pin | None:
    """What the install pinned, or None for an unpinned install.

    Raises:
        ProfileError: the file that says so is damaged.
    """
    file = files("tutti_hal").joinpath("pinned.json")
    if not file.is_file():
        return None
    try:
        table = json.loads(file.read_text(encoding="utf-8"))
        return Pin(str(table["profile"]), table.get("aot"), table.get("why_no_aot"))
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise ProfileError(
            "read the pinned profile",
            f"{file} is damaged: {error!r}",
            "Install the package again, or name a profile outright.",
        ) from error


def candidates(findings: Sequence[Finding] | None = None) -> tuple[Candidate, ...]:
    """Every vendor that is installed, usable or not, in order of name. Probes each; imports no SDK; never raises."""
    return tuple(_candidate(finding) for finding in (discover() if findings is None else findings))


def _candidate(finding: Finding) -> Candidate:
    backend = finding.backend
    if backend is None:
        return Candidate(finding.name, False, finding.problem, "", (), (), None, finding.package, None)
    try:
        record = backend.record
    except Exception as error:  # a third party's record or descriptor: a reason to refuse it, not our failure
        return Candidate(finding.name, False, f"its record is broken: {error}", "", (), (), None, finding.package, None)
    probe = backend.probe
    strange = [arch for arch in probe.archs if arch not in record.archs]
    return Candidate(
        vendor=finding.name,
        usable=probe.usable,
        reason=probe.reason + (f"; its record has no arch {', '.join(strange)}, found here" if strange else ""),
        kind=record.kind,
        archs=tuple(record.archs),
        found_archs=tuple(arch for arch in probe.archs if arch in record.archs),
        sdk=probe.sdk,
        package=finding.package,
        backend=backend,
    )


def select(
    explicit: str | None = None,
    *,
    findings: Sequence[Finding] | None = None,
    environ: Mapping[str, str] | None = None,
) -> Profile:
    """The profile to run on.

    Args:
        explicit: a name that outranks the variable and the pin; None or empty: not given.
        findings: the backends to choose from; the installed ones when None.
        environ: the environment to read; the process's when None.

    Returns:
        A profile whose vendor is usable here, and whose ``arch`` is named, the record's default, or that of the first
        device found.

    Raises:
        ProfileUnknown: the name is malformed, or no such vendor or architecture exists; with the near miss.
        ProfileUnusable: the named vendor cannot be used here, or its architecture cannot be told.
        ProfileAmbiguous: nothing is named, and not exactly one hardware vendor is usable.
        ProfileError: the pinned profile cannot be read.
    """
    chosen, name, chosen_by, all_of_them = _choose(explicit, findings, environ)
    tried = f"select profile '{name}' ({chosen_by})"
    if not chosen.usable:
        raise ProfileUnusable(tried, _listing(chosen.reason, all_of_them), "Mend the reason, or name another profile.")
    profile = _complete(chosen, name, chosen_by, tried, all_of_them)
    if len(profile.archs) > 1:
        raise ProfileUnusable(
            tried,
            f"no device was found whose architecture the record has ({chosen.reason})",
            f"Name it: {', '.join(f'{profile.vendor}:{arch}' for arch in profile.archs)}.",
        )
    return profile


def resolve(
    explicit: str | None = None,
    *,
    findings: Sequence[Finding] | None = None,
    environ: Mapping[str, str] | None = None,
) -> Profile:
    """The profile to generate and build for: as :func:`select`, but a named vendor need not be usable here.

    Raises:
        ProfileUnknown: as :func:`select`.
        ProfileUnusable: the backend does not load, its record is broken, or another SDK than the named one is found.
        ProfileAmbiguous: nothing is named, and not exactly one hardware vendor is usable.
        ProfileError: the pinned profile cannot be read.
    """
    chosen, name, chosen_by, all_of_them = _choose(explicit, findings, environ)
    return _complete(chosen, name, chosen_by, f"resolve profile '{name}' ({chosen_by})", all_of_them)


def _choose(
    explicit: str | None, findings: Sequence[Finding] | None, environ: Mapping[str, str] | None
) -> tuple[Candidate, Name, str, tuple[Candidate, ...]]:
    env = os.environ if environ is None else environ
    found = discover() if findings is None else list(findings)
    for text, chosen_by in ((explicit, "argument"), (env.get(VARIABLE), "variable")):
        if text:
            where = f"the variable {VARIABLE}" if chosen_by == "variable" else "the argument"
            return _named(parse(text, where), chosen_by, where, found)
    pin = pinned()
    if pin is not None:
        where = "the pin of this install"
        return _named(parse(pin.profile, where), "pinned", where, found)
    everyone = candidates(found)
    usable = [candidate for candidate in everyone if candidate.usable and not candidate.needs_naming]
    if len(usable) != 1:
        what = "no hardware vendor is usable" if not usable else "several hardware vendors are usable"
        example = usable[0].vendor if usable else _nearest(everyone)
        raise ProfileAmbiguous(
            "select a profile (none was named)",
            _listing(what, everyone),
            f"Name one: {VARIABLE}={example}, or --profile {example}.",
        )
    return usable[0], Name(usable[0].vendor), "only usable hardware", everyone


def _nearest(everyone: Sequence[Candidate]) -> str:
    """What to propose where no hardware is usable: a real profile, a simulated one only where there is no other."""
    able = sorted((one for one in everyone if one.usable), key=lambda one: one.kind == "simulated")
    return able[0].vendor if able else "VENDOR"


def _named(
    name: Name, chosen_by: str, where: str, findings: Sequence[Finding]
) -> tuple[Candidate, Name, str, tuple[Candidate, ...]]:
    """The named candidate. The others are probed only where an error has to list them."""
    tried = f"select profile '{name}' (from {where})"
    for finding in findings:
        if finding.name == name.vendor:
            candidate = _candidate(finding)
            everyone = (candidate,) if candidate.usable else candidates(findings)
            if name.arch is not None and candidate.archs and name.arch not in candidate.archs:
                raise ProfileUnknown(
                    tried,
                    f"vendor '{name.vendor}' has no arch '{name.arch}'{near_miss(name.arch, candidate.archs)}",
                    f"Use one of: {', '.join(f'{name.vendor}:{arch}' for arch in candidate.archs)}.",
                )
            return candidate, name, chosen_by, everyone
    names = [finding.name for finding in findings]
    what = f"no vendor '{name.vendor}'{near_miss(name.vendor, names)}"
    raise ProfileUnknown(tried, _listing(what, candidates(findings)), f"Name one of: {', '.join(names) or 'none'}.")


def _complete(chosen: Candidate, name: Name, chosen_by: str, tried: str, everyone: tuple[Candidate, ...]) -> Profile:
    if chosen.backend is None:
        raise ProfileUnusable(tried, _listing(chosen.reason, everyone), "Mend the reason, or name another profile.")
    if isinstance(chosen.backend, SimulatedBackend):
        return _simulated(chosen, chosen.backend, name, chosen_by, tried)
    record = at_sdk(chosen.backend.record, name.sdk or chosen.sdk)
    if name.sdk is not None and not _same_sdk(name.sdk, chosen.sdk):
        found = f"SDK {chosen.sdk} was found" if chosen.sdk else "no SDK was found"
        roots = ", ".join((*record.sdk.env, *record.sdk.default)) or "this vendor has none"
        raise ProfileUnusable(tried, found, f"Install SDK {name.sdk}, or leave '@{name.sdk}' out (roots: {roots}).")
    if name.arch is not None:
        archs: tuple[str, ...] = (name.arch,)
    elif record.default_arch is not None:
        archs = (record.default_arch,)
    elif chosen.found_archs:
        archs = chosen.found_archs[:1]
    else:
        archs = tuple(record.archs)
    return Profile(
        vendor=chosen.vendor,
        arch=archs[0],
        archs=archs,
        sdk=name.sdk or chosen.sdk,
        record=record,
        backend=chosen.backend,
        chosen_by=chosen_by,
        named=name,
    )


def _simulated(chosen: Candidate, backend: SimulatedBackend, name: Name, chosen_by: str, tried: str) -> Profile:
    """A profile over a simulated SDK, whose root is made where it is not there yet.

    Raises:
        ProfileUnusable: it has no such version, or the vendor's own detection does not find the root to be that SDK.
    """
    if not chosen.usable:
        raise ProfileUnusable(tried, chosen.reason, "Mend the reason, or name another profile.")
    version, arch = backend.version(name.sdk), name.arch or chosen.found_archs[0]
    if arch not in backend.sdk.archs():
        raise ProfileUnusable(
            tried,
            f"no device of {arch} is simulated, only of {', '.join(backend.sdk.archs())}",
            f"Name one of: {', '.join(f'{name.vendor}:{known}' for known in backend.sdk.archs())}.",
        )
    if version is None:
        raise ProfileUnusable(
            tried,
            f"it can be SDK {', '.join(backend.sdk.versions())}",
            f"Name one of them, or leave '@{name.sdk}' out.",
        )
    root = backend.sdk.make(arch, version)
    probe = backend.look(root)
    if not probe.usable or probe.sdk != version:
        found = f"{probe.reason} (SDK {probe.sdk}, wanted {version})"
        raise ProfileUnusable(tried, found, "Mend the simulated SDK, or the vendor's record.")
    return Profile(
        vendor=chosen.vendor,
        arch=arch,
        archs=(arch,),
        sdk=version,
        record=at_sdk(at_root(backend.record, root), version),
        backend=backend,
        chosen_by=chosen_by,
        named=name,
        simulated_root=root,
    )


def _same_sdk(asked: str, found: str | None) -> bool:
    """Whether ``found`` is ``asked`` or a finer version of it (13 covers 13.0)."""
    return found is not None and f"{found}.".startswith(f"{asked}.")


def _listing(what: str, everyone: Sequence[Candidate]) -> str:
    lines = [what, "candidates:"]
    for candidate in everyone:
        state = "usable" if candidate.usable else "not usable"
        if candidate.usable and candidate.needs_naming:
            state = "usable when named"
        reason = "as said above" if candidate.reason == what else candidate.reason.replace("\n", "\n      ")
        lines.append(f"  {candidate.vendor}: {state}: {reason}")
    if not everyone:
        lines.append("  none is installed")
    return "\n  ".join(lines) + "\n"

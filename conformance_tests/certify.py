"""Certification as a library: from options to a finished session."""

from __future__ import annotations

import datetime
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

from tutti_hal.conformance_tests.case import Instance
from tutti_hal.conformance_tests.catalogue import catalogue
from tutti_hal.conformance_tests.judgement import Judgement, judge
from tutti_hal.conformance_tests.ladder import ladder
from tutti_hal.conformance_tests.outcome import Outcome
from tutti_hal.conformance_tests.seen import Facts
from tutti_hal.conformance_tests.session import RunOptions, Session, chosen_instances, quick_archs
from tutti_hal.conformance_tests.subject import SubjectSpec, facts_of, profile_of
from tutti_hal.conformance_tests.terms import Terms, Waiver
from tutti_hal.expectations import load_expectations
from tutti_hal.profile import Profile, resolve, select
from tutti_hal.spec import load_spec
from tutti_hal.spec.tables import LEVELS

if TYPE_CHECKING:
    from tutti_hal.record import Record

#: The highest level that is judged without a device.
LAST_LEVEL_WITHOUT_DEVICE = "L1"

OnEnd = Callable[[Instance, Outcome, Judgement], None]


def profile_for(name: str | None, level: str) -> Profile:
    """The profile of a run up to a level: one that need not be usable here where the level needs no device.

    Raises:
        ProfileError: none was named and none is the only one, it is unknown, or it cannot be used for such a level.
    """
    needs_device = LEVELS.index(level) > LEVELS.index(LAST_LEVEL_WITHOUT_DEVICE)
    return select(name) if needs_device else resolve(name)


def archs_for(profile: Profile, named: bool) -> tuple[str, ...]:
    """The archs of a run: the named one; else those of the devices found; else all of the record."""
    if named:
        return (profile.arch,)
    return profile.backend.probe.archs or tuple(profile.record.archs)


def facts_for(profile: Profile, archs: tuple[str, ...]) -> dict[str, Facts]:
    """Facts of the vendor as a whole (``""``) and of these archs."""
    return {arch: facts_of(profile, arch) for arch in ("", *archs)}


@dataclass(frozen=True)
class Prepared:
    """A run that can begin.

    Attributes:
        options: as asked for; the archs are those that are used, fewer for a quick run.
        facts: of the vendor as a whole (``""``) and of these archs.
        instances: everything that has to be judged, in order.
    """

    options: RunOptions
    facts: Mapping[str, Facts]
    instances: tuple[Instance, ...]


def prepare(options: RunOptions) -> Prepared:
    """What a run with these options has to judge.

    Raises:
        CaseUnknown, CasesInvalid: of the catalogue.
        ProfileError, SpecError: the subject cannot be had.
    """
    profile = profile_of(options.subject)
    facts = facts_for(profile, options.archs)
    if options.quick:
        options = replace(options, archs=quick_archs(facts, profile.record.default_arch or ""))
        facts = facts_for(profile, options.archs)
    return Prepared(options, facts, chosen_instances(catalogue(options.subject.cases), options, facts))


def terms_for(options: RunOptions, record: Record, waivers: tuple[Waiver, ...] = ()) -> Terms:
    """The terms of a run: what the vendor's ``conformance.yaml`` says, the machine's skips, the waivers, today.

    Raises:
        SpecError: ``conformance.yaml`` or the machine's list is wrong.
        MachineUnknown: there is no such class of machine.
    """
    from tutti_hal.conformance_tests.machine import load_machine

    spec = load_spec()
    expected = load_expectations(record.folder, spec)
    return Terms(
        spec=spec,
        unsupported=expected.unsupported,
        expected_failures=expected.expected_failures,
        skips=load_machine(options.machine),
        waivers=waivers,
        today=datetime.datetime.now(datetime.UTC).date(),
        verify_xfail=options.verify_xfail,
    )


def certify(
    prepared: Prepared,
    *,
    waivers: tuple[Waiver, ...] = (),
    environment: Mapping[str, object] | None = None,
    kept: Mapping[str, Outcome] | None = None,
    on_start: Callable[[Instance], None] | None = None,
    on_end: OnEnd | None = None,
) -> Session:
    """Run and judge. Blocks until all is judged; an interruption ends the workers first.

    Args:
        prepared: what to run.
        waivers: as loaded; expired ones cover nothing.
        environment: facts about the machine to keep with the session.
        kept: instance id -> outcome of what an earlier part of the run has had; it is not run again, only judged.
        on_start: called when an instance starts.
        on_end: called when it was judged.

    Raises:
        ConformanceError, ProfileError, SpecError: its terms cannot be had. What goes wrong inside a case is that
            case's verdict.
    """
    from tutti_hal.conformance_tests.runner.pool import run_instances

    started, began = datetime.datetime.now(datetime.UTC), time.monotonic()
    options, facts, instances = prepared.options, prepared.facts, prepared.instances
    terms = terms_for(options, profile_of(options.subject).record, waivers)

    def ended(instance: Instance, outcome: Outcome) -> None:
        if on_end is not None:
            on_end(instance, outcome, judge(instance, outcome, facts[instance.arch], terms))

    before = kept or {}
    left = tuple(one for one in instances if one.id not in before)
    fresh, watched = run_instances(options, facts, terms, left, on_start=on_start, on_end=ended)
    outcomes = {one.id: found for one in instances if (found := before.get(one.id) or fresh.get(one.id)) is not None}
    watched = {**watched, "resumed": len(before)} if before else watched
    judgements = {one.id: judge(one, outcomes.get(one.id), facts[one.arch], terms) for one in instances}
    return Session(
        options=options,
        facts=facts,
        instances=instances,
        outcomes=outcomes,
        judgements=judgements,
        ladder=ladder(instances, judgements, terms.spec, options.levels),
        terms=terms,
        environment={**(environment or {}), "watched": dict(watched)},
        started=started.isoformat(timespec="seconds"),
        seconds=time.monotonic() - began,
    )


def subject_for(
    profile: Profile,
    *,
    record: Path | None = None,
    templates: Path | None = None,
    ablation: str = "",
    cases: tuple[Path, ...] = (),
) -> SubjectSpec:
    """The subject of a run, as data. ``record`` is the folder of another ``vendor.yaml``.

    Raises:
        AblationUnknown, AblationEmpty, CacheUnwritable: the ablation cannot be had.
    """
    subject = SubjectSpec(
        profile=f"{profile.vendor}:{profile.arch}@{profile.sdk}" if profile.sdk else profile.vendor,
        record=str(record.resolve()) if record else "",
        templates=str(templates.resolve()) if templates else "",
        cases=tuple(str(path.resolve()) for path in cases),
    )
    if not ablation:
        return subject
    from tutti_hal.conformance_tests.ablations import ablated

    return ablated(subject, ablation)

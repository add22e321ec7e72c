"""A run of the suite: what was asked for, and everything that came of it."""

from __future__ import annotations

import shlex
from collections.abc import Mapping
from dataclasses import dataclass, field, fields, replace
from typing import Any

from tutti_hal.conformance_tests.case import Instance
from tutti_hal.conformance_tests.catalogue import Catalogue, select
from tutti_hal.conformance_tests.judgement import Judgement
from tutti_hal.conformance_tests.ladder import Ladder
from tutti_hal.conformance_tests.outcome import Outcome
from tutti_hal.conformance_tests.seen import Facts
from tutti_hal.conformance_tests.subject import SubjectSpec
from tutti_hal.conformance_tests.terms import Terms
from tutti_hal.profile import parse
from tutti_hal.spec.tables import LEVELS

#: Seed of a run that names none: certification is repeatable, and what wants luck names another.
DEFAULT_SEED = 1

#: A record's kind -> the word that every report of it carries.
PROVENANCE = {"hardware": "hardware", "host": "emulated", "simulated": "simulated"}


@dataclass(frozen=True)
class RunOptions:
    """What was asked for, as data: a package keeps it, and a repro line says it.

    Attributes:
        subject: profile (its ``arch`` is empty: the archs are those of the run), record, templates, ablation, cases.
        archs: the archs to run on, in order.
        level: up to and including which level.
        cases: globs of ids; empty for all.
        quick: only the quick cases, on archs that cover every wave width and both kinds of world once.
        seed: from which every instance draws its own.
        shard: (i, n): the i-th of n parts, from 1.
        verify_xfail: run what is expected to fail.
        machine: class of machine whose list of expected skips applies.
        time_limit_s: start nothing new after so many seconds; 0 is no limit.
        jobs: worker processes at once; 0: one for each CPU, on hardware one.
    """

    subject: SubjectSpec
    archs: tuple[str, ...]
    level: str = LEVELS[-1]
    cases: tuple[str, ...] = ()
    quick: bool = False
    seed: int = DEFAULT_SEED
    shard: tuple[int, int] = (1, 1)
    verify_xfail: bool = False
    machine: str = "default"
    time_limit_s: float = 0.0
    jobs: int = 0

    @property
    def levels(self) -> tuple[str, ...]:
        """The levels asked for, in order."""
        return LEVELS[: LEVELS.index(self.level) + 1]

    def subject_of(self, arch: str) -> SubjectSpec:
        """The subject of one arch; of the vendor as a whole where it is empty."""
        return replace(self.subject, arch=arch)

    def to_json(self) -> dict[str, Any]:
        """As a plain table."""
        lists = {name: list(getattr(self, name)) for name in ("archs", "cases", "shard")}
        return {
            **{one.name: getattr(self, one.name) for one in fields(self)},
            "subject": self.subject.to_json(),
            **lists,
        }

    @classmethod
    def from_json(cls, table: Mapping[str, Any]) -> RunOptions:
        """The reverse of :meth:`to_json`."""
        number, count = table["shard"]
        tuples = {"archs": tuple(table["archs"]), "cases": tuple(table["cases"]), "shard": (number, count)}
        return cls(**{**table, "subject": SubjectSpec.from_json(table["subject"]), **tuples})


@dataclass(frozen=True)
class Session:
    """A finished run.

    Attributes:
        options: what was asked for.
        facts: arch -> what is declared of it; ``""`` is the vendor as a whole.
        instances: everything that had to be judged, in order.
        outcomes: id -> raw outcome; what was planned as a skip has none.
        judgements: id -> verdict.
        ladder: the levels.
        terms: on what terms it was judged.
        environment: facts about the machine (``tutti-hal collect``), and what was watched.
        started: UTC, ISO 8601.
        seconds: how long it took.
        figures: what benchmarks measured, as ``figures.json`` lists it: information, on which no verdict rests.
    """

    options: RunOptions
    facts: Mapping[str, Facts]
    instances: tuple[Instance, ...]
    outcomes: Mapping[str, Outcome]
    judgements: Mapping[str, Judgement]
    ladder: Ladder
    terms: Terms
    environment: Mapping[str, Any] = field(default_factory=dict)
    started: str = ""
    seconds: float = 0.0
    figures: tuple[Mapping[str, Any], ...] = ()

    @property
    def blocking(self) -> tuple[Judgement, ...]:
        """The judgements that keep a level from being passed, in order; what was not run is among them."""
        return tuple(found for one in self.instances if (found := self.judgements[one.id]).blocks)


def quick_archs(facts: Mapping[str, Facts], default: str) -> tuple[str, ...]:
    """Archs that cover every wave width, and both kinds of world: the default one, and as few others as do."""
    archs = [arch for arch in facts if arch]
    chosen = [default] if default in archs else archs[:1]
    for arch in sorted(archs, key=lambda name: not facts[name].simulated):
        if facts[arch].wave_width not in {facts[one].wave_width for one in chosen}:
            chosen.append(arch)
    for arch in archs:
        if facts[arch].simulated not in {facts[one].simulated for one in chosen}:
            chosen.append(arch)
    return tuple(arch for arch in archs if arch in chosen)


def chosen_instances(catalogue: Catalogue, options: RunOptions, facts: Mapping[str, Facts]) -> tuple[Instance, ...]:
    """The instances that a run with these options has to judge, in order: a function of data, so `verify` has them too.

    Raises:
        CaseUnknown: a glob matches nothing.
    """
    wanted = {arch: one for arch, one in facts.items() if not arch or arch in options.archs}
    found = catalogue.instances(wanted)
    if options.cases:
        found = select(found, options.cases)
    levels = set(options.levels)
    found = tuple(one for one in found if one.case.level in levels and (one.case.quick or not options.quick))
    number, count = options.shard
    parts = [one for one in found if not one.case.identity]
    own = {one.id for one in parts[number - 1 :: count]}
    return tuple(one for one in found if one.case.identity or one.id in own)


def repro_line(options: RunOptions, instance: Instance) -> str:
    """The one command that runs exactly this instance again, with the same seed on the same subject."""
    subject = options.subject
    profile = replace(parse(subject.profile), arch=instance.arch) if instance.arch else subject.profile
    words = ["tutti-hal", "certify", "--profile", str(profile)]
    words += ["--case", instance.id, "--seed", str(options.seed)]
    if subject.ablation:  # it makes the record
        words += ["--ablate", subject.ablation]
    elif subject.record:
        words += ["--record", subject.record]
    if subject.templates:
        words += ["--templates", subject.templates]
    for path in subject.cases:
        words += ["--cases", path]
    if options.verify_xfail:
        words.append("--verify-xfail")
    return shlex.join(words)


def provenance(session: Session) -> str:
    """Which is true of what was run on: *hardware*, *emulated* (an engine on the CPU), *simulated* (a vendor's SDK)."""
    return PROVENANCE[session.facts[""].kind]


def certifies(session: Session) -> str:
    """What a run says of its profile, in a sentence: the level reached, or why it certifies none."""
    options, reached = session.options, session.ladder.reached
    reasons = {
        "a quick run": options.quick,
        "a selection of cases": bool(options.cases),
        "one shard of several": options.shard[1] > 1,
        f"ablated ({options.subject.ablation})": bool(options.subject.ablation),
        "another record than the vendor's": bool(options.subject.record) and not options.subject.ablation,
        "other templates than the product's": bool(options.subject.templates),
        f"a mutated controller ({options.subject.controller})": bool(options.subject.controller),
    }
    partial = [reason for reason, so in reasons.items() if so]
    if partial:
        return f"{', '.join(partial)}: it certifies no level"
    return f"passed up to {reached}, {provenance(session)}" if reached else "no level is passed"

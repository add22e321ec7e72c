"""On what terms a run is judged: what the vendor declares, what the machine may skip, what is waived."""

from __future__ import annotations

import datetime
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from fnmatch import fnmatchcase

from tutti_hal.conformance_tests.case import Instance
from tutti_hal.conformance_tests.catalogue import matches
from tutti_hal.conformance_tests.seen import Facts
from tutti_hal.conformance_tests.verdict import SkipReason
from tutti_hal.spec import Spec


@dataclass(frozen=True)
class Waiver:
    """A failure that somebody answers for, until a day. Attributes as in ``waivers.schema.json``.

    Attributes:
        vendor: the vendor it is for.
        devices: globs of archs; empty for all.
        cases: globs of ids, as ``--case`` takes them; a failure that any of them names is covered.
        clauses: clauses; likewise.
        reason: a sentence.
        link: where the fault is tracked.
        approver: who answers for it.
        expires: the last day on which it holds.
        place: file and line that it was read from.
    """

    vendor: str
    devices: tuple[str, ...]
    cases: tuple[str, ...]
    clauses: tuple[str, ...]
    reason: str
    link: str
    approver: str
    expires: datetime.date
    place: str = ""

    def covers(self, instance: Instance, clauses: Sequence[str], vendor: str) -> bool:
        """Whether it is for this instance: its vendor, its arch, and its id or every clause that failed."""
        if vendor != self.vendor or (self.devices and not any(fnmatchcase(instance.arch, g) for g in self.devices)):
            return False
        named = any(matches(instance, glob) for glob in self.cases)
        return named or (bool(clauses) and set(clauses) <= set(self.clauses))


@dataclass(frozen=True)
class ExpectedSkip:
    """A skip that a class of machines may have: a glob of instance ids, the reason code, and a sentence."""

    cases: str
    reason: SkipReason
    why: str


@dataclass(frozen=True)
class Terms:
    """What decides a verdict beside the raw outcome.

    Attributes:
        spec: the contract.
        unsupported: clause -> sentence, from the vendor's ``conformance.yaml``.
        expected_failures: likewise.
        skips: of the machine's class.
        waivers: all that were given, expired ones too.
        today: the day on which waivers are looked at.
        verify_xfail: run what is expected to fail, so that a pass is noticed.
    """

    spec: Spec
    unsupported: Mapping[str, str] = field(default_factory=dict)
    expected_failures: Mapping[str, str] = field(default_factory=dict)
    skips: tuple[ExpectedSkip, ...] = ()
    waivers: tuple[Waiver, ...] = ()
    today: datetime.date = datetime.date(1970, 1, 1)
    verify_xfail: bool = False


@dataclass(frozen=True)
class Plan:
    """What is to be done with an instance: run it, or not, and why not.

    Attributes:
        runs: whether it is run.
        reason: for a skip, its code; empty where it runs, is an expected failure, or lacks what is mandatory.
        why: a sentence.
        expected_failure: it is listed as one.
        lacks: a capability that it needs, that is declared false, and that its level makes mandatory.
    """

    runs: bool
    reason: SkipReason | None = None
    why: str = ""
    expected_failure: bool = False
    lacks: str = ""


def plan(instance: Instance, facts: Facts, terms: Terms) -> Plan:
    """What the vendor's declarations make of an instance. A function of data alone: `verify` works it out again."""
    case = instance.case
    absent = [name for name in case.needs if not facts.capabilities[name]]
    expected = next((c for c in instance.clauses if c in terms.expected_failures), None)
    for name in absent:
        if not terms.spec.capabilities[name].optional_at(case.level):
            return Plan(False, why=f"{case.level} needs {name}, which is declared false", lacks=name)
    if expected is not None and (absent or not terms.verify_xfail):
        return Plan(False, why=terms.expected_failures[expected], expected_failure=True)
    if absent:
        sentence = next((terms.unsupported[c] for c in instance.clauses if c in terms.unsupported), None)
        if sentence is not None:
            return Plan(False, SkipReason.UNSUPPORTED, sentence)
        return Plan(False, SkipReason.CAPABILITY, f"{absent[0]} is declared false")
    return Plan(True, expected_failure=expected is not None)

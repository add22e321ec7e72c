"""What stands on the page, worked out from a session; the template only sets it."""

from __future__ import annotations

import shlex
from collections.abc import Mapping
from dataclasses import dataclass
from hashlib import sha256
from typing import Any

from tutti_hal import __version__
from tutti_hal.conformance_tests import mustpass
from tutti_hal.conformance_tests.case import Instance
from tutti_hal.conformance_tests.judgement import Judgement
from tutti_hal.conformance_tests.ladder import Level, Rung
from tutti_hal.conformance_tests.outcome import End, Outcome
from tutti_hal.conformance_tests.report.words import ADVICE, LEVEL_TITLES, clipped, number_of_bytes, plural
from tutti_hal.conformance_tests.seen import Check
from tutti_hal.conformance_tests.session import RunOptions, Session, repro_line
from tutti_hal.conformance_tests.terms import Waiver
from tutti_hal.conformance_tests.verdict import OPEN, Verdict
from tutti_hal.machine import digest

#: Failures told in full; of the others a line each. A run in which all fails must stay a page that opens.
FULL_FAILURES = 200

#: Failed checks, log lines and trace lines shown of one failure; what is left out is counted.
_CHECKS, _LOG_LINES = 8, 20
_LINE_LIMIT = 400
_REASON_LIMIT = 200
_SLOWEST = 12

#: Groups of facts shown of a benchmark: a grid has a group for each cell.
_FIGURE_GROUPS = 60

#: Facts about the machine that a reader wants first; the others fold away.
_FIRST_FACTS = ("cpu", "memory", "kernel", "compilers", "python", "watched")


@dataclass(frozen=True)
class RungRow:
    """One rung: its level, what it is about, its clauses, and whether it is the first red one.

    Attributes:
        clauses: how many the level has.
        skipped: how many of them have cases that were skipped, or expected to fail and left out, on every arch.
    """

    level: Level
    title: str
    clauses: int
    skipped: int
    first_red: bool

    @property
    def tested(self) -> int:
        """Clauses for which at least one case was run."""
        return self.clauses - len(self.level.untested) - self.skipped

    @property
    def counts(self) -> tuple[tuple[Verdict, int], ...]:
        """Verdict and number, worst first; those that occur."""
        return tuple((verdict, number) for verdict, number in self.level.counts.items() if number)

    @property
    def bar(self) -> tuple[tuple[Verdict, float, float], ...]:
        """Verdict, start and width of its part of a bar that is 100 long; passes first."""
        total, start, parts = sum(self.level.counts.values()), 0.0, []
        for verdict, number in reversed(self.counts):
            width = 100 * number / total
            parts.append((verdict, round(start, 2), round(width, 2)))
            start += width
        return tuple(parts)


@dataclass(frozen=True)
class Next:
    """What the reader should do: a headline, sentences, and commands."""

    title: str
    sentences: tuple[str, ...]
    commands: tuple[tuple[str, str], ...]
    target: str = ""


@dataclass(frozen=True)
class Failure:
    """A judgement that blocks its level, and what is known of it."""

    anchor: str
    instance: Instance
    judgement: Judgement
    reason: str
    checks: tuple[Check, ...]
    more_checks: int
    again: str
    log: tuple[str, ...]
    more_log: int
    trace: tuple[str, ...]
    repro: str


@dataclass(frozen=True)
class Group:
    """Instances with the same case, verdict and reason, told once."""

    level: str
    case: str
    code: str
    reason: str
    archs: str
    number: int


@dataclass(frozen=True)
class WaiverRow:
    """A waiver, how many days it has left, and (judgement, repro line) of what it covers in this run."""

    waiver: Waiver
    days: int
    covered: tuple[tuple[Judgement, str], ...]


@dataclass(frozen=True)
class Slow:
    """An instance that took long: seconds, and its share of the longest in percent."""

    instance: Instance
    seconds: float
    percent: float


@dataclass(frozen=True)
class FactGroup:
    """Facts under one heading."""

    name: str
    rows: tuple[tuple[str, str], ...]


@dataclass(frozen=True)
class FigureTable:
    """What a benchmark measured: file, benchmark, profile, its facts, and how many groups of them are left out."""

    file: str
    bench: str
    profile: str
    groups: tuple[FactGroup, ...]
    more: int


def marks(options: RunOptions) -> tuple[tuple[str, str], ...]:
    """(mark, sentence) for each reason why a run is less than a certification, or other than the product."""
    subject = options.subject
    shard = f"shard {options.shard[0]} of {options.shard[1]}"
    every = (
        (options.quick, "quick", "only the quick cases, on few archs"),
        (bool(options.cases), "selection", f"only {', '.join(options.cases)}"),
        (options.shard[1] > 1, shard, "a part of a run; the parts are verified together"),
        (bool(subject.ablation), f"ablated: {subject.ablation}", "without an ability that the device has"),
        (
            bool(subject.record) and not subject.ablation,
            "other record",
            f"another record than the vendor's: {subject.record}",
        ),
        (bool(subject.templates), "other templates", f"other templates than the product's: {subject.templates}"),
        (bool(subject.controller), f"mutated: {subject.controller}", "a controller made wrong on purpose"),
        (bool(subject.cases), "extra cases", f"cases beside the suite's own: {', '.join(subject.cases)}"),
        (options.verify_xfail, "xfail verified", "what is expected to fail was run all the same"),
    )
    return tuple((mark, sentence) for so, mark, sentence in every if so)


def rungs(session: Session) -> tuple[RungRow, ...]:
    """The ladder, from L0 up."""
    first = session.ladder.first_red
    spec = session.terms.spec.clauses
    clauses = [clause.level for clause in spec.values()]
    found: dict[str, set[Verdict]] = {}
    for instance in session.instances:
        for clause, verdict in session.judgements[instance.id].clauses.items():
            left_out = verdict is Verdict.XFAIL and instance.id not in session.outcomes
            found.setdefault(clause, set()).add(Verdict.SKIP if left_out else verdict)
    idle = [spec[clause].level for clause, verdicts in found.items() if verdicts == {Verdict.SKIP}]
    return tuple(
        RungRow(level, LEVEL_TITLES[level.name], clauses.count(level.name), idle.count(level.name), level is first)
        for level in session.ladder.levels
    )


def failures(session: Session) -> tuple[Failure, ...]:
    """Everything that blocks, in order; the first :data:`FULL_FAILURES` of those that were run, in full."""
    by_id = {instance.id: instance for instance in session.instances}
    found = [_failure(session, by_id[one.id], one, f"f-{n}") for n, one in enumerate(session.blocking, 1)]
    return tuple(found)


def _failure(session: Session, instance: Instance, judgement: Judgement, anchor: str) -> Failure:
    outcome = session.outcomes.get(instance.id)
    failed = [check for check in judgement.checks if not check.held]
    log = outcome.log if outcome else ()
    trace = outcome.detail.get("trace", ()) if outcome else ()
    return Failure(
        anchor=anchor,
        instance=instance,
        judgement=judgement,
        reason=clipped(judgement.reason, _REASON_LIMIT) if failed else judgement.reason,
        checks=tuple(failed[:_CHECKS]),
        more_checks=max(0, len(failed) - _CHECKS),
        again=_again(outcome),
        log=tuple(line[:_LINE_LIMIT] for line in log[-_LOG_LINES:]),
        more_log=max(0, len(log) - _LOG_LINES),
        trace=tuple(str(line)[:_LINE_LIMIT] for line in trace),
        repro=repro_line(session.options, instance),
    )


def _again(outcome: Outcome | None) -> str:
    """What running it again showed, in a sentence; empty where it was not run again."""
    alone = outcome.alone if outcome else None
    if not alone:
        return ""
    after = [str(one) for one in alone.get("after", [])]
    if "failed_alone" not in alone:
        said = ""
    elif alone["failed_alone"]:
        said = "It was run again alone in a fresh worker, and failed again."
    elif alone.get("failed_again"):
        said = f"Order dependent: it passes alone, and fails after {', '.join(after)}."
    else:
        said = f"Flaky: it passed when it was run alone{', and when its batch was run again' if after else ''}."
    left = str(alone.get("left_out", ""))
    return f"{said} Not all was run again: {left}.".strip() if left else said


def what_next(session: Session, found: tuple[Failure, ...]) -> Next:
    """What to do with what this run showed."""
    options, first = session.options, session.ladder.first_red
    if first is not None:
        own = [one for one in found if one.instance.case.level == first.name]
        red = [one for one in own if one.judgement.verdict not in OPEN]
        top = min(red, key=lambda one: list(Verdict).index(one.judgement.verdict))
        total = sum(first.counts.values())
        return Next(
            f"The first red rung is {first.name}",
            (
                f"{len(red)} of its {plural(total, 'case')} {'make' if len(red) > 1 else 'makes'} it fail."
                f" Begin with {top.instance.id} ({top.judgement.verdict}).",
                ADVICE[top.judgement.verdict],
            ),
            (("Reproduce", top.repro), ("Then the whole level", level_line(options, first.name))),
            top.anchor,
        )
    open_levels = [level for level in session.ladder.levels if level.state is Rung.INCOMPLETE]
    if open_levels:
        level = open_levels[0]
        sentences = ["Nothing failed."]
        if waiting := level.counts[Verdict.NOT_TESTED]:
            sentences.append(f"{plural(waiting, 'case')} of {level.name} {'was' if waiting == 1 else 'were'} not run.")
        if number := level.counts[Verdict.INCONCLUSIVE]:
            said = f"{plural(number, 'case')} of {level.name} {'is' if number == 1 else 'are'} inconclusive."
            sentences += [said, ADVICE[Verdict.INCONCLUSIVE]]
        if level.untested:
            sentences.append(f"{plural(len(level.untested), 'clause')} of {level.name} nothing tested.")
        return Next(
            f"{level.name} is incomplete", tuple(sentences), (("Run the level whole", level_line(options, level.name)),)
        )
    top_level = options.levels[-1]
    if marks(options):
        return Next(
            "Nothing failed", ("This run alone certifies no level.",), (("Run", level_line(options, top_level)),)
        )
    return Next("Nothing is red", (f"Every level up to {top_level} is passed.",), ())


def level_line(options: RunOptions, level: str) -> str:
    """The command that runs a whole level, with all below it, on the same subject."""
    subject = options.subject
    single = len(options.archs) == 1 and ":" not in subject.profile
    words = [
        "tutti-hal",
        "certify",
        "--profile",
        f"{subject.profile}:{options.archs[0]}" if single else subject.profile,
    ]
    words += ["--level", level, "--seed", str(options.seed)]
    if subject.ablation:
        words += ["--ablate", subject.ablation]
    elif subject.record:
        words += ["--record", subject.record]
    if subject.templates:
        words += ["--templates", subject.templates]
    for path in subject.cases:
        words += ["--cases", path]
    return shlex.join(words)


def groups(session: Session, verdict: Verdict) -> tuple[Group, ...]:
    """Instances with this verdict, those alike told once: by level, code, case and reason."""
    found: dict[tuple[str, str, str, str], list[Instance]] = {}
    for one in session.instances:
        judgement = session.judgements[one.id]
        if judgement.verdict is verdict:
            key = (one.case.level, str(judgement.code), one.case.name, judgement.reason)
            found.setdefault(key, []).append(one)
    return tuple(
        Group(level, name, code, reason, _archs(session.options, own), len(own))
        for (level, code, name, reason), own in found.items()
    )


def _archs(options: RunOptions, own: list[Instance]) -> str:
    archs = list(dict.fromkeys(one.arch or "vendor" for one in own))
    return "every arch" if len(archs) > 1 and archs == list(options.archs) else ", ".join(archs)


def waivers(session: Session) -> tuple[WaiverRow, ...]:
    """Every waiver that was given; one that is expired or covers nothing too."""
    by_id = {instance.id: instance for instance in session.instances}
    waived = [one for one in session.judgements.values() if one.verdict is Verdict.WAIVED]
    return tuple(
        WaiverRow(
            waiver,
            (waiver.expires - session.terms.today).days,
            tuple((one, repro_line(session.options, by_id[one.id])) for one in waived if one.waiver == waiver.place),
        )
        for waiver in session.terms.waivers
    )


def slowest(session: Session) -> tuple[Slow, ...]:
    """The instances that took longest."""
    ran = [
        (outcome.seconds, instance)
        for instance in session.instances
        if (outcome := session.outcomes.get(instance.id)) is not None and outcome.end is not End.NOT_RUN
    ]
    ran.sort(key=lambda pair: (-pair[0], pair[1].id))
    longest = ran[0][0] if ran else 0.0
    return tuple(
        Slow(instance, seconds, round(100 * seconds / longest, 2) if longest else 0.0)
        for seconds, instance in ran[:_SLOWEST]
    )


def environment(session: Session) -> tuple[tuple[FactGroup, ...], tuple[FactGroup, ...]]:
    """Facts about the machine: those that a reader wants first, and the others."""
    facts = session.environment
    first = [name for name in _FIRST_FACTS if name in facts]
    rest = [name for name in facts if name not in first]
    return tuple(_facts(n, facts[n]) for n in first), tuple(_facts(n, facts[n]) for n in rest)


def _facts(name: str, value: Any) -> FactGroup:
    return FactGroup(name, tuple(_flat(value, "")))


def _flat(value: Any, path: str) -> list[tuple[str, str]]:
    if isinstance(value, Mapping) and value:
        return [row for key, one in value.items() for row in _flat(one, f"{path}.{key}" if path else str(key))]
    return [(path, _fact(value, path))]


def _fact(value: Any, path: str) -> str:
    if value is None or value == [] or value == {}:
        return "none"
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, int) and path.endswith("_bytes"):
        return number_of_bytes(value)
    if isinstance(value, list | tuple):
        return ", ".join(_fact(one, "") for one in value)
    if isinstance(value, Mapping):
        return ", ".join(f"{key} {_fact(one, '')}" for key, one in value.items())
    return str(value)


def figures(session: Session) -> tuple[FigureTable, ...]:
    """What benchmarks measured, each as groups of facts; a long one is cut."""
    return tuple(_figure(one) for one in session.figures)


def _figure(one: Mapping[str, Any]) -> FigureTable:
    table = one["table"]
    groups = [_facts("run", {key: value for key, value in table.items() if not _many(value) and key != "bench"})]
    for key, value in table.items():
        if _many(value):
            groups += [_facts(f"{key} {number}", row) for number, row in enumerate(value, 1)]
    return FigureTable(
        one["file"],
        f"bench {table['bench']}",
        table["profile"],
        tuple(groups[:_FIGURE_GROUPS]),
        max(0, len(groups) - _FIGURE_GROUPS),
    )


def _many(value: Any) -> bool:
    """Whether a value is a list of tables, each of which is told apart."""
    return isinstance(value, list) and bool(value) and all(isinstance(row, Mapping) for row in value)


def hashes(session: Session) -> tuple[tuple[str, str], ...]:
    """What this report can name by its SHA-256; the package's own files have theirs in its manifest."""
    ids = "".join(f"{one.id}\n" for one in session.instances)
    return (
        ("suite", __version__),
        ("must-pass lists", mustpass.digest(mustpass.committed())),
        ("ids that this run had to judge", sha256(ids.encode()).hexdigest()),
        ("environment", digest(dict(session.environment))),
    )


def options_table(options: RunOptions) -> tuple[tuple[str, str], ...]:
    """What was asked for, all of it."""
    return tuple(_flat(options.to_json(), ""))

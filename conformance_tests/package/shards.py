"""Several packages that are the shards of one run: whether they belong together, and what they say together."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from tutti_hal.conformance_tests.case import Instance
from tutti_hal.conformance_tests.judgement import Judgement
from tutti_hal.conformance_tests.ladder import ladder
from tutti_hal.conformance_tests.outcome import Outcome
from tutti_hal.conformance_tests.package import layout
from tutti_hal.conformance_tests.package.evidence import Evidence
from tutti_hal.conformance_tests.package.findings import Findings, shown
from tutti_hal.conformance_tests.session import Session

#: What every shard may have in its own way.
_OWN = ("shard", "jobs", "time_limit_s")

#: Facts about what was watched count lines and processes.
_NOT_MACHINE = ("watched",)


def join(read: Sequence[Evidence | None], findings: Sequence[Findings], together: Findings) -> Session | None:
    """The run that these packages are the shards of; a package that is no shard is its own run.

    Args:
        read: each package as it was judged again, None where it could not be.
        findings: of each, for what is wrong with one of them.
        together: for what is wrong with all.

    Returns:
        The run as a whole, None where it is not whole.
    """
    known = [(one, own) for one, own in zip(read, findings, strict=True) if one is not None]
    if len(known) < len(read):
        return None
    first = known[0][0]
    counts = {one.session.options.shard[1] for one, _ in known}
    if counts == {1} and len(known) == 1:
        return first.session
    if counts == {1}:
        together.refuse(
            layout.RUN, 0, f"{len(known)} packages that are whole runs", "the shards of one, or one at a time"
        )
        return None
    for one, own in known[1:]:
        _same(first, one, own)
    count = max(counts)
    places: dict[int, Findings] = {}
    for one, own in known:
        number = one.session.options.shard[0]
        if number in places:
            own.refuse(layout.RUN, 0, f"shard {number} of {count} a second time", "each shard once")
        places[number] = own
    missing = [number for number in range(1, count + 1) if number not in places]
    for number in missing:
        together.refuse(layout.RUN, 0, f"shard {number} of {count} is missing", "the packages of all shards")
    if missing or any(own.refusals for own in findings):
        return None
    return _whole([one.session for one, _ in sorted(known, key=lambda pair: pair[0].session.options.shard)])


def _same(first: Evidence, other: Evidence, findings: Findings) -> None:
    """Refuse ``other`` where it is not a shard of the same run, on the same machine, of the same product."""
    ours, theirs = (_comparable(one.session) for one in (first, other))
    for key in ours:
        if ours[key] != theirs[key]:
            findings.refuse(layout.RUN, 0, f"{key} {shown(theirs[key])}", f"the first package has {shown(ours[key])}")
    ours, theirs = (_machine(one.session) for one in (first, other))
    for key in sorted({*ours, *theirs}):
        if ours.get(key) != theirs.get(key):
            found = f"another machine: {key} is {shown(theirs.get(key))}"
            findings.refuse(layout.ENVIRONMENT, 0, found, f"the first package has {shown(ours.get(key))}")
    for name, a, b in (
        (layout.PRODUCT, first.product, other.product),
        (layout.RECORD, first.record, other.record),
        (layout.WAIVERS, first.waivers, other.waivers),
    ):
        if a != b:
            findings.refuse(name, 0, "another than in the first package", "one product, one record, the same waivers")
    for one in first.session.instances:
        if not one.case.identity or one.id not in other.session.judgements:
            continue
        a, b = (_observed(evidence.session.outcomes.get(one.id)) for evidence in (first, other))
        if a != b:
            line = 1 + list(other.session.outcomes).index(one.id) if one.id in other.session.outcomes else 0
            wanted = "what the first package observed, for it proves that both come from one product and machine"
            findings.refuse(layout.OBSERVATIONS, line, f"identity case {one.id}: other observations", wanted)


def _comparable(session: Session) -> dict[str, Any]:
    table = {key: value for key, value in session.options.to_json().items() if key not in _OWN}
    return {**table, "shards": session.options.shard[1], "expected_skips": session.terms.skips}


def _machine(session: Session) -> dict[str, Any]:
    return {key: value for key, value in session.environment.items() if key not in _NOT_MACHINE}


def _observed(outcome: Outcome | None) -> Any:
    return None if outcome is None else (outcome.end, dict(outcome.observations))


def _whole(shards: Sequence[Session]) -> Session:
    first = shards[0]
    outcomes: dict[str, Outcome] = {}
    judgements: dict[str, Judgement] = {}
    found: dict[str, Instance] = {}
    for shard in shards:
        for one in shard.instances:
            found.setdefault(one.id, one)
        outcomes = {**shard.outcomes, **outcomes}
        judgements = {**shard.judgements, **judgements}
    instances = tuple(found.values())
    return replace(
        first,
        options=replace(first.options, shard=(1, 1)),
        instances=instances,
        outcomes=outcomes,
        judgements=judgements,
        ladder=ladder(instances, judgements, first.terms.spec, first.options.levels),
        started=min(shard.started for shard in shards),
        seconds=sum(shard.seconds for shard in shards),
        figures=tuple(one for shard in shards for one in shard.figures),
    )

"""From a session to the text of every file of its package: used when one is written, and again when it is verified."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from hashlib import sha256
from typing import Any

from tutti_hal import __version__
from tutti_hal.conformance_tests import mustpass
from tutti_hal.conformance_tests.case import Instance
from tutti_hal.conformance_tests.judgement import Judgement
from tutti_hal.conformance_tests.package import jsontext, layout
from tutti_hal.conformance_tests.package.junit import junit
from tutti_hal.conformance_tests.package.staleness import Stale, clause_sums
from tutti_hal.conformance_tests.report.html import render
from tutti_hal.conformance_tests.session import Session, certifies, provenance, repro_line
from tutti_hal.conformance_tests.verdict import Verdict
from tutti_hal.machine import digest


@dataclass(frozen=True)
class Evidence:
    """Everything that a package says.

    Attributes:
        session: the run, as a package can keep it (see :func:`settled`).
        waivers: the text of the waiver file.
        product: as :func:`~tutti_hal.conformance_tests.package.product.product` gives it.
        build: as :func:`~tutti_hal.conformance_tests.package.builds.builds` gives it.
        record: name below ``record/`` -> contents.
        stale: what has changed since it was made; None where nothing has.
    """

    session: Session
    waivers: bytes
    product: Mapping[str, Any]
    build: Mapping[str, Any]
    record: Mapping[str, bytes]
    stale: Stale | None = None


def texts(evidence: Evidence) -> dict[str, bytes]:
    """Name -> contents of every file but the manifest, none packed."""
    session = evidence.session
    by_id = {instance.id: instance for instance in session.instances}
    stated = {
        layout.ENVIRONMENT: jsontext.document(environment_table(session)),
        layout.WAIVERS: evidence.waivers,
        layout.PRODUCT: jsontext.document(evidence.product),
        layout.BUILD: jsontext.document(evidence.build),
        **{f"{layout.RECORD}/{name}": data for name, data in sorted(evidence.record.items())},
    }
    if session.figures:
        stated[layout.FIGURES] = jsontext.document({"figures": list(session.figures)})
    return {
        **stated,
        layout.RUN: jsontext.document(run_table(session, stated)),
        layout.OBSERVATIONS: jsontext.lines(
            [session.outcomes[one].to_json() for one in by_id if one in session.outcomes]
        ),
        layout.VERDICTS: jsontext.lines([verdict_line(session, one) for one in session.instances]),
        layout.JUNIT: junit(session, evidence.product),
        layout.MUST_PASS: jsontext.document(must_pass_table(session)),
        layout.REPORT: render(session).encode("utf-8"),
    }


def run_table(session: Session, stated: Mapping[str, bytes]) -> dict[str, Any]:
    """As ``run.json`` holds it. What is not derived: options, expected skips, the day of judgement, the times.

    ``stated`` are the files that say what nobody can work out again; their sums tie them to the run.
    """
    return {
        "format": layout.FORMAT,
        "suite": __version__,
        "provenance": provenance(session),
        "certifies": certifies(session),
        "options": session.options.to_json(),
        "expected_skips": [{"cases": s.cases, "reason": s.reason.value, "why": s.why} for s in session.terms.skips],
        "judged_on": session.terms.today.isoformat(),
        "started": session.started,
        "seconds": round(session.seconds, 3),
        "raw_files": {name: sha256(data).hexdigest() for name, data in stated.items()},
        "facts": {arch: asdict(facts) for arch, facts in session.facts.items()},
        "counts": counts(session),
        "ladder": {
            "reached": session.ladder.reached,
            "first_red": first.name if (first := session.ladder.first_red) else "",
            "levels": [
                {
                    "level": level.name,
                    "state": level.state.value,
                    "counts": {verdict.value: number for verdict, number in level.counts.items() if number},
                    "untested": list(level.untested),
                    "blocking": list(level.blocking),
                }
                for level in session.ladder.levels
            ],
            "clauses": {clause: verdict.value for clause, verdict in session.ladder.clauses.items()},
        },
    }


def counts(session: Session) -> dict[str, int]:
    """Verdict -> instances, worst first; those that occur."""
    found = [judgement.verdict for judgement in session.judgements.values()]
    return {verdict.value: found.count(verdict) for verdict in Verdict if verdict in found}


def verdict_line(session: Session, instance: Instance) -> dict[str, Any]:
    """As one line of ``verdicts.jsonl`` holds it; ``outcome`` is the sum of the line that it was judged from."""
    outcome = session.outcomes.get(instance.id)
    line = jsontext.line(outcome.to_json()) if outcome else ""
    return {
        **session.judgements[instance.id].to_json(),
        "level": instance.case.level,
        "arch": instance.arch,
        "axes": dict(instance.axes),
        "outcome": sha256(line.encode("ascii")).hexdigest() if outcome else "",
        "repro": repro_line(session.options, instance),
    }


def environment_table(session: Session) -> dict[str, Any]:
    """As ``environment.json`` holds it; the sum is that of ``tutti-hal collect`` over the same facts."""
    facts = dict(session.environment)
    return {"sha256": digest(facts), "facts": facts}


def must_pass_table(session: Session) -> dict[str, Any]:
    """As ``mustpass.json`` holds it: which lists and clauses the suite had, and what this run had to judge."""
    ids = [instance.id for instance in session.instances]
    lists = mustpass.committed()
    return {
        "lists": {name: sha256(text.encode()).hexdigest() for name, text in lists.items()},
        "sha256": mustpass.digest(lists),
        "expected_sha256": sha256("".join(f"{one}\n" for one in ids).encode()).hexdigest(),
        "expected": ids,
        "clauses": clause_sums(session.terms.spec.clauses),
    }


def settled(session: Session) -> Session:
    """A session as a package keeps it and gives it back: numbers as written, waivers named by the package's file.

    Raises:
        ValueError: it holds NaN, or something else that JSON cannot keep.
    """
    waivers = tuple(replace(waiver, place=packaged_place(waiver.place)) for waiver in session.terms.waivers)
    return replace(
        session,
        outcomes={name: type(one).from_json(_kept(one.to_json())) for name, one in session.outcomes.items()},
        judgements={name: _named(one) for name, one in session.judgements.items()},
        terms=replace(session.terms, waivers=waivers),
        environment=_kept(dict(session.environment)),
        seconds=round(session.seconds, 3),
    )


def _kept(table: Any) -> Any:
    return json.loads(json.dumps(table, allow_nan=False))


def _named(judgement: Judgement) -> Judgement:
    return replace(judgement, waiver=packaged_place(judgement.waiver)) if judgement.waiver else judgement


def packaged_place(place: str) -> str:
    """Where a waiver stands, named by the package's copy of its file."""
    return f"{layout.WAIVERS}:{place.rpartition(':')[2]}"

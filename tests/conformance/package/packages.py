"""Sessions to make packages of, and ways to tamper with one."""

from __future__ import annotations

import datetime
import json
import lzma
import shutil
from collections.abc import Callable, Mapping
from dataclasses import replace
from hashlib import sha256
from pathlib import Path
from typing import Any

from tutti_hal.cli.collect import collect
from tutti_hal.conformance_tests.case import Instance
from tutti_hal.conformance_tests.catalogue import catalogue
from tutti_hal.conformance_tests.execute import execute, prepare
from tutti_hal.conformance_tests.judgement import judge
from tutti_hal.conformance_tests.ladder import ladder
from tutti_hal.conformance_tests.machine import load_machine
from tutti_hal.conformance_tests.outcome import End, Outcome
from tutti_hal.conformance_tests.package.manifest import manifest
from tutti_hal.conformance_tests.package.waivers import load_waivers
from tutti_hal.conformance_tests.session import RunOptions, Session, chosen_instances
from tutti_hal.conformance_tests.subject import Subject, SubjectSpec, facts_of, profile_of
from tutti_hal.conformance_tests.terms import Terms, Waiver, plan
from tutti_hal.expectations import load_expectations
from tutti_hal.spec import load_spec

ARCH = "sim-w32"
NOW = datetime.datetime.now(datetime.UTC)
TODAY = NOW.date()

#: Cases that end in every way, and a waiver for one of them.
PLANTED = str(Path(__file__).parent / "planted_cases.py")
#: A case that is inconclusive.
DOUBTFUL = str(Path(__file__).parent / "doubtful_case.py")
WAIVERS = Path(__file__).parent / "waivers_of_test.yaml"

Change = Callable[[dict[str, Any]], None]


def options(**changes: Any) -> RunOptions:
    """A run of the primitives on one simulated arch."""
    return replace(RunOptions(SubjectSpec("host"), (ARCH,), cases=("prim/crc32c",)), **changes)


def run(
    wanted: RunOptions,
    *,
    waivers: tuple[Waiver, ...] = (),
    change: Callable[[Instance, Outcome], Outcome] | None = None,
) -> Session:
    """A session made in this process; ``change`` has each outcome before it is judged."""
    profile = profile_of(wanted.subject)
    facts = {arch: facts_of(profile, arch) for arch in ("", *wanted.archs)}
    expected = load_expectations(profile.record.folder)
    terms = Terms(
        load_spec(),
        expected.unsupported,
        expected.expected_failures,
        skips=load_machine(wanted.machine),
        waivers=waivers,
        today=TODAY,
        verify_xfail=wanted.verify_xfail,
    )
    instances = chosen_instances(catalogue(wanted.subject.cases), wanted, facts)
    subjects: dict[str, Subject] = {}
    outcomes: dict[str, Outcome] = {}
    for one in instances:
        if plan(one, facts[one.arch], terms).runs:
            subject = subjects.setdefault(one.arch, Subject(wanted.subject_of(one.arch)))
            prepare(subject, one)
            found = execute(subject, one, one.seed(wanted.seed))
            outcomes[one.id] = change(one, found) if change else found
    return session(wanted, facts, terms, instances, outcomes)


def session(
    wanted: RunOptions,
    facts: Mapping[str, Any],
    terms: Terms,
    instances: tuple[Instance, ...],
    outcomes: Mapping[str, Outcome],
) -> Session:
    """Judge outcomes, however they came about."""
    judgements = {one.id: judge(one, outcomes.get(one.id), facts[one.arch], terms) for one in instances}
    return Session(
        options=wanted,
        facts=facts,
        instances=instances,
        outcomes=outcomes,
        judgements=judgements,
        ladder=ladder(instances, judgements, terms.spec, wanted.levels),
        terms=terms,
        environment={**collect(), "watched": {"stderr": True}},
        started=NOW.isoformat(timespec="seconds"),
        seconds=1.23456,
    )


def planted_options(**changes: Any) -> RunOptions:
    """A run of the planted cases."""
    wanted = RunOptions(SubjectSpec("host", cases=(PLANTED,)), (ARCH,), cases=("plant/*",))
    return replace(wanted, **changes)


def run_planted(**changes: Any) -> Session:
    """A session of the planted cases: each verdict that a run can show, a log line, and a failure run again."""

    def change(one: Instance, found: Outcome) -> Outcome:
        if one.case.name == "plant/raises":
            return replace(
                found, log=("harmless line",), alone={"failed_alone": True, "failed_again": False, "after": []}
            )
        return replace(found, log=("harmless line",)) if one.case.name == "plant/fails" else found

    wanted = planted_options(**changes)
    waivers = load_waivers(WAIVERS, load_spec(), catalogue(wanted.subject.cases))
    return run(wanted, waivers=waivers, change=change)


def broken(end: End, **detail: Any) -> Callable[[Instance, Outcome], Outcome]:
    """Every outcome ends otherwise."""
    return lambda _, found: replace(found, end=end, detail=detail, observations={})


def copy(package: Path, to: Path) -> Path:
    """A package to tamper with: its observations plain, which is as good."""
    shutil.copytree(package, to)
    unpack(to)
    return to


def unpack(package: Path) -> None:
    """Put a plain file in the place of a packed one."""
    for path in package.glob("*.xz"):
        path.with_suffix("").write_bytes(lzma.decompress(path.read_bytes()))
        path.unlink()
    rebuild(package)


def rebuild(package: Path) -> None:
    """Write the manifest anew, as somebody would who tampers."""
    files = {path.relative_to(package).as_posix(): path.read_bytes() for path in package.rglob("*") if path.is_file()}
    (package / "manifest.sha256").write_bytes(manifest(files))


def edit(package: Path, name: str, change: Change, line: int = 1) -> None:
    """Change one JSON document, or one line of a ``.jsonl`` file, and rebuild the manifest."""
    unpack(package)
    path = package / name
    if name.endswith(".jsonl"):
        rows = path.read_text(encoding="utf-8").splitlines()
        table = json.loads(rows[line - 1])
        change(table)
        rows[line - 1] = json.dumps(table)
        path.write_text("".join(f"{row}\n" for row in rows), encoding="utf-8")
    else:
        table = json.loads(path.read_text(encoding="utf-8"))
        change(table)
        path.write_text(json.dumps(table, indent=1) + "\n", encoding="utf-8")
    rebuild(package)


def sums(package: Path) -> dict[str, str]:
    """Name -> SHA-256 of every file."""
    return {
        path.relative_to(package).as_posix(): sha256(path.read_bytes()).hexdigest()
        for path in package.rglob("*")
        if path.is_file()
    }

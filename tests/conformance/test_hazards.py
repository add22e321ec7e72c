"""The table of hazards is true: each is there once, its case exists and claims what is said, and kills its mutant."""

from __future__ import annotations

import re
import shutil
from dataclasses import dataclass
from fnmatch import fnmatchcase
from pathlib import Path

import pytest

from tutti_hal.conformance_tests.catalogue import catalogue
from tutti_hal.conformance_tests.execute import execute, prepare
from tutti_hal.conformance_tests.judgement import judge
from tutti_hal.conformance_tests.mutants.operators import applied
from tutti_hal.conformance_tests.mutants.sites import hand_made
from tutti_hal.conformance_tests.mutants.tables import HandMade, load_tables
from tutti_hal.conformance_tests.subject import Subject, SubjectSpec, facts_of, profile_of
from tutti_hal.conformance_tests.terms import Terms
from tutti_hal.paths import templates_dir
from tutti_hal.spec import load_spec

pytestmark = pytest.mark.suite

_PAGE = Path(__file__).parents[2] / "docs" / "hazards.md"
_ROW = re.compile(r"\| H(\d+) \| ([^|]+) \| `(hazard/[^`]+)` \| `([^`]+)` \| ([^|]+) \|")


@dataclass(frozen=True)
class Row:
    """A line of the table."""

    number: int
    case: str
    mutant: str
    clauses: tuple[str, ...]


def _rows() -> list[Row]:
    found = _ROW.findall(_PAGE.read_text(encoding="utf-8"))
    return [
        Row(int(number), case, mutant, tuple(re.findall(r"`([^`]+)`", said))) for number, _, case, mutant, said in found
    ]


ROWS = _rows()


def _mutant(row: Row) -> HandMade:
    [one] = [one for one in load_tables().hand_made if one.name == row.mutant]
    return one


def test_every_hazard_is_there_once_in_order() -> None:
    assert [row.number for row in ROWS] == list(range(1, 33))


def test_every_case_is_in_the_table_under_its_own_number() -> None:
    known = [case.name for case in catalogue().cases if case.name.startswith("hazard/")]
    assert sorted(row.case for row in ROWS) == sorted(known)
    assert [row.case[:11] for row in ROWS] == [f"hazard/h{row.number:02d}." for row in ROWS]


@pytest.mark.parametrize("row", ROWS, ids=lambda row: f"H{row.number}")
def test_a_case_claims_the_clauses_that_the_table_says(row: Row) -> None:
    [case] = [case for case in catalogue().cases if case.name == row.case]
    assert row.clauses
    assert set(row.clauses) <= set(case.clauses)


@pytest.mark.parametrize("row", ROWS, ids=lambda row: f"H{row.number}")
def test_a_mutant_applies_and_is_aimed_at_its_case(row: Row) -> None:
    one = _mutant(row)
    assert any(fnmatchcase(row.case, glob) for glob in one.cases)
    # It would be refused where its pattern does not occur exactly once.
    found = hand_made(one, templates_dir())
    text = (templates_dir() / found.file).read_text(encoding="utf-8")
    assert found.text is not None
    assert applied(text, found.text) != text


def test_no_two_hazards_share_a_mutant() -> None:
    assert len({row.mutant for row in ROWS}) == len(ROWS)


@pytest.mark.ring
@pytest.mark.slow
@pytest.mark.parametrize("row", ROWS, ids=lambda row: f"H{row.number}")
def test_a_case_kills_its_mutant(row: Row, tmp_path: Path) -> None:
    """On the first of the archs on which it does; what lanes without a ballot do shows on waves of 128 alone."""
    found = hand_made(_mutant(row), templates_dir())
    root = tmp_path / "templates"
    shutil.copytree(templates_dir(), root)
    path = root / found.file
    assert found.text is not None
    path.write_text(applied(path.read_text(encoding="utf-8"), found.text), encoding="utf-8")
    verdicts = []
    for arch in ("sim-w32", "sim-w128"):
        verdicts += _verdicts(row, SubjectSpec("host", arch, templates=str(root)), arch)
        if any(blocks for _, blocks, _ in verdicts):
            return
    raise AssertionError(f"{row.mutant} lives: {verdicts}")


def _verdicts(row: Row, spec: SubjectSpec, arch: str) -> list[tuple[str, bool, str]]:
    subject = Subject(spec)
    facts = facts_of(profile_of(spec), arch)
    found = []
    for one in catalogue().instances({"": facts, arch: facts}):
        if one.case.name == row.case and one.arch == arch:
            prepare(subject, one)
            judged = judge(one, execute(subject, one, one.seed(1)), facts, Terms(load_spec()))
            found.append((judged.id, judged.blocks, judged.reason))
            if judged.blocks:
                break
    return found

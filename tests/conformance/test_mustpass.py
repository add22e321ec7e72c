"""The must-pass lists under version control are those of the cases, and the hash covers all of them."""

from __future__ import annotations

from pathlib import Path

from tutti_hal.conformance_tests.catalogue import catalogue
from tutti_hal.conformance_tests.mustpass import committed, digest, lists, main
from tutti_hal.spec import load_spec


def test_the_committed_lists_are_those_of_the_cases() -> None:
    assert committed() == lists(catalogue()), "make mustpass writes them again; read the diff"


def test_every_clause_of_the_levels_that_are_whole_has_a_line() -> None:
    """L0 to L3 are whole: what nothing tests there is a hole, not a plan."""
    named = {clause for text in committed().values() for line in text.splitlines() for clause in _tested(line)}
    holes = {clause.id for clause in load_spec().clauses.values() if clause.level <= "L3"} - named
    assert holes == set()


def _tested(line: str) -> list[str]:
    return line.rpartition(" tests=")[2].split(",")


def test_the_hash_covers_names_texts_and_where_one_ends() -> None:
    base = digest({"L0.txt": "a\n", "L1.txt": "b\n"})
    assert base == digest({"L1.txt": "b\n", "L0.txt": "a\n"})
    others = [
        {"L0.txt": "a\n", "L1.txt": "c\n"},
        {"L0.txt": "a\n", "L2.txt": "b\n"},
        {"L0.txt": "a\nb\n", "L1.txt": ""},
        {"L0.txt": "a\n"},
    ]
    assert len({base, *map(digest, others)}) == 5


def test_writing_replaces_what_is_stale(tmp_path: Path) -> None:
    (tmp_path / "L8.txt").write_text("gone\n", encoding="utf-8")
    (tmp_path / "L0.txt").write_text("old\n", encoding="utf-8")
    assert main(["--folder", str(tmp_path)]) == 0
    assert committed(tmp_path) == lists(catalogue())

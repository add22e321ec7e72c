"""The kept table of mutants: what a row depends on, who comes first, what the page says, and that it fits."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from tutti_hal.conformance_tests.case import Case, Instance
from tutti_hal.conformance_tests.catalogue import Catalogue, catalogue
from tutti_hal.conformance_tests.errors import MutantsInvalid
from tutti_hal.conformance_tests.mutants.ledger import Ledger, Row, kept_table, read_rows, write_rows
from tutti_hal.conformance_tests.mutants.likely import Likely
from tutti_hal.conformance_tests.mutants.mutant import Mutant, Operator, Source
from tutti_hal.conformance_tests.mutants.score import BAD, Result, State
from tutti_hal.conformance_tests.mutants.sites import all_mutants
from tutti_hal.conformance_tests.mutants.summary import page
from tutti_hal.conformance_tests.mutants.tables import Tables, load_tables
from tutti_hal.conformance_tests.subject import SubjectSpec, facts_of, profile_of
from tutti_hal.paths import templates_dir
from tutti_hal.spec import load_spec


@pytest.fixture(scope="module")
def tables() -> Tables:
    return load_tables()


@pytest.fixture(scope="module")
def mutants(tables: Tables) -> dict[str, Mutant]:
    record = profile_of(SubjectSpec("host")).record
    return {one.id: one for one in all_mutants(record, templates_dir(), load_spec(), tables)}


@pytest.fixture(scope="module")
def kept() -> dict[str, Row]:
    return read_rows(kept_table())


def test_the_kept_table_agrees_with_the_lists(kept: dict[str, Row], tables: Tables, mutants: dict[str, Mutant]) -> None:
    rows = [row for row in kept.values() if row.id in mutants]
    assert [row.id for row in rows if State(row.state) in BAD] == []
    assert {row.id for row in rows if row.state == State.EQUIVALENT} <= set(tables.equivalents)
    assert {row.id for row in rows if row.state == State.KNOWN} <= set(tables.survivors)
    assert [
        row.id for row in rows if row.state == State.KILLED and row.id in {**tables.equivalents, **tables.survivors}
    ] == []
    # A kill names who saw it; what nobody saw names where everybody looked.
    assert [row.id for row in rows if (row.state == State.KILLED) != bool(row.killer and row.verdict)] == []
    assert [row.id for row in rows if not row.verdict and not row.archs] == []


def test_every_killer_of_the_kept_table_is_an_instance(kept: dict[str, Row], mutants: dict[str, Mutant]) -> None:
    profile = profile_of(SubjectSpec("host"))
    facts = {arch: facts_of(profile, arch) for arch in ("", *profile.record.archs)}
    known = {one.id for one in catalogue().instances(facts)}
    unknown = {row.killer for row in kept.values() if row.killer and row.id in mutants} - known
    assert sorted(unknown) == []


def test_what_is_written_is_read_again_and_a_bad_line_is_named(tmp_path: Path) -> None:
    table = tmp_path / "table.jsonl"
    rows = [Row("b", State.KILLED, "x/y:arch=c", "FAIL", 1, (), "t", "c"), Row("a", State.EQUIVALENT, archs=("c",))]
    assert read_rows(table) == {}
    write_rows(table, rows)
    assert list(read_rows(table).values()) == [rows[1], rows[0]]
    assert list(tmp_path.iterdir()) == [table]
    for line in ('{"id": "c"}', "nonsense", '{"id": "c", "state": "dead"}', rows[0].to_line()):
        write_rows(table, rows)
        with table.open("a", encoding="utf-8") as file:
            file.write(f"{line}\n")
        with pytest.raises(MutantsInvalid, match="line 3"):
            read_rows(table)


class Small:
    """One mutant of one template, and two cases in files of their own."""

    def __init__(self, folder: Path) -> None:
        self.root = folder
        self.template = folder / "kernel.j2"
        self.template.write_text("one", encoding="utf-8")
        self.mutant = Mutant("m", Source.TEMPLATE, Operator.DROP, "kernel.j2", 1, "a", "b", "kernel.j2:f")
        self.cases = tuple(self.case(name) for name in ("x/killer", "x/other"))

    def case(self, name: str) -> Case:
        file = self.root / f"{name.rpartition('/')[2]}.py"
        file.write_text(name, encoding="utf-8")
        return Case(name, "L3", ("c",), lambda run: {}, source=f"{file}:1")

    def ledger(self, rows: dict[str, Row] | None = None) -> Ledger:
        return Ledger(rows or {}, Catalogue(self.cases), self.root, lambda _: self.cases)

    def tried(self, state: State, killer: str = "") -> dict[str, Row]:
        ledger = self.ledger()
        ledger.note(Result(self.mutant, state, killer, "FAIL" if killer else ""), 7, ("arch",))
        return ledger.rows


def test_a_row_holds_until_its_template_or_its_case_changes(tmp_path: Path) -> None:
    small = Small(tmp_path)
    assert not small.ledger().holds(small.mutant)
    rows = small.tried(State.KILLED, "x/killer:arch=arch")
    assert small.ledger(rows).holds(small.mutant)
    assert small.ledger(rows).killers() == {"m": "x/killer:arch=arch"}
    (tmp_path / "other.py").write_text("else", encoding="utf-8")
    assert small.ledger(rows).holds(small.mutant)
    (tmp_path / "killer.py").write_text("else", encoding="utf-8")
    assert not small.ledger(rows).holds(small.mutant)
    rows = small.tried(State.KILLED, "x/killer:arch=arch")
    small.template.write_text("two", encoding="utf-8")
    assert not small.ledger(rows).holds(small.mutant)


def test_what_nobody_noticed_holds_until_any_of_its_cases_changes_and_a_bad_row_never(tmp_path: Path) -> None:
    small = Small(tmp_path)
    rows = small.tried(State.EQUIVALENT)
    assert rows["m"].archs == ("arch",)
    assert small.ledger(rows).holds(small.mutant)
    (tmp_path / "other.py").write_text("else", encoding="utf-8")
    assert not small.ledger(rows).holds(small.mutant)
    assert not small.ledger(small.tried(State.SURVIVED)).holds(small.mutant)


def test_a_table_keeps_the_rows_of_mutants_that_there_are(tmp_path: Path) -> None:
    small = Small(tmp_path)
    rows = {**small.tried(State.KILLED, "x/killer"), "gone": Row("gone", State.KILLED, "x/killer", "FAIL")}
    table = tmp_path / "table.jsonl"
    small.ledger(rows).save(table, [small.mutant])
    assert list(read_rows(table)) == ["m"]


def test_who_killed_the_neighbours_comes_first(tmp_path: Path) -> None:
    small = Small(tmp_path)
    killer, other = (Instance(case, {}, "arch") for case in small.cases)
    beside = replace(small.mutant, id="n")
    away = replace(small.mutant, id="o", place="kernel.j2:g")
    likely = Likely({"m": other.id})
    assert likely.price(beside, killer, 0.1) == likely.price(beside, other, 0.1)
    assert likely.price(beside, killer, 0.1) < likely.price(beside, other, 0.2)
    likely.learn(small.mutant, killer.id)
    assert likely.price(beside, killer, 0.1) < likely.price(away, killer, 0.1) < likely.price(away, other, 0.1)
    # What killed the mutant itself comes before all that killed its neighbours.
    assert likely.price(small.mutant, other, 9.0) < likely.price(small.mutant, killer, 0.001)


def test_the_page_counts_what_was_not_tried_and_what_is_equivalent() -> None:
    def one(name: str, source: Source = Source.TEMPLATE) -> Mutant:
        return Mutant(name, source, Operator.DROP, "ring.j2", 1, "a", f"b|{name}", "errors.x")

    made = [one("k"), one("e"), one("s"), one("n"), one("r", Source.RECORD)]
    rows = {
        "k": Row("k", State.KILLED, "x/y:arch=c", "FAIL"),
        "e": Row("e", State.EQUIVALENT, archs=("c",)),
        "s": Row("s", State.KNOWN, archs=("c",)),
        "r": Row("r", State.STILLBORN, verdict="refused"),
        "gone": Row("gone", State.KILLED, "x/gone", "FAIL"),
    }
    text = page(made, rows, {"e": "It is the same.", "s": "A case is missing."})
    assert "| ring.j2 | 4 | 1 | 1 | 0 | 1 | 0 | 1 | 1 of 3 (33.3 %) |" in text
    assert "| record: errors | 1 | 0 | 0 | 1 | 0 | 0 | 0 | 1 of 1 (100.0 %) |" in text
    assert "| **all** | 5 | 1 | 1 | 1 | 1 | 0 | 1 | 2 of 4 (50.0 %) |" in text
    assert "| `x/y` | 1 |" in text
    assert "x/gone" not in text
    assert "`ring.j2:1: a -> b\\|e` | It is the same. |" in text

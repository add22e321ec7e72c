"""The kept table of mutants: what came of each when it was last tried, and what that depends on.

``table.jsonl`` has one line for each mutant. A line holds as long as the text that its mutant changes and the case
that killed it are what they were. What holds need not be tried again; a sample of it shows that the table is true.
"""

from __future__ import annotations

import hashlib
import json
import threading
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import cached_property
from pathlib import Path

from tutti_hal.conformance_tests.case import Case
from tutti_hal.conformance_tests.catalogue import Catalogue
from tutti_hal.conformance_tests.errors import MutantsInvalid
from tutti_hal.conformance_tests.mutants.mutant import Mutant, Source
from tutti_hal.conformance_tests.mutants.score import BAD, Result, State
from tutti_hal.paths import package_file

_DIGITS = 12


@dataclass(frozen=True)
class Row:
    """What came of one mutant.

    Attributes:
        id: the mutant's.
        state: how it ended (:class:`State`).
        killer: id of the instance that noticed; empty where none did.
        verdict: of that instance.
        seed: of the run; the instance's own is drawn from it.
        archs: where nothing noticed: the archs on which every targeted case passed.
        text: hash of the text that the mutant changes: the template, the value of the record, the table of controllers.
        case: hash of the file of the case that noticed; where none did, of the files of all that are targeted.
    """

    id: str
    state: str
    killer: str = ""
    verdict: str = ""
    seed: int = 1
    archs: tuple[str, ...] = ()
    text: str = ""
    case: str = ""

    def to_line(self) -> str:
        """As the table holds it; what is empty is left out."""
        return json.dumps({key: value for key, value in asdict(self).items() if value not in ("", (), [])})


def kept_table() -> Path:
    """The suite's own table."""
    return package_file("conformance_tests", "mutants") / "table.jsonl"


def read_rows(path: Path) -> dict[str, Row]:
    """The rows of a table by id; none where there is no such file.

    Raises:
        MutantsInvalid: a line is no row, or a mutant has two.
    """
    rows: dict[str, Row] = {}
    if not path.exists():
        return rows
    for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), 1):
        try:
            row = json.loads(line)
            made = Row(**{**row, "archs": tuple(row.get("archs", ()))})
            State(made.state)
        except (ValueError, TypeError) as error:
            raise MutantsInvalid(f"read {path}", f"line {number} is no row: {error}", "Run the self-test.") from error
        if made.id in rows:
            raise MutantsInvalid(f"read {path}", f"line {number}: {made.id} has two rows", "Take one of them away.")
        rows[made.id] = made
    return rows


def write_rows(path: Path, rows: Iterable[Row]) -> None:
    """Write a table, by id; the old one stays until the new one is whole."""
    text = "".join(f"{row.to_line()}\n" for row in sorted(rows, key=lambda row: row.id))
    draft = path.with_suffix(".draft")
    draft.write_text(text, encoding="utf-8")
    draft.replace(path)


class Ledger:
    """A table, and what its rows depend on today.

    Args:
        rows: of the table.
        catalogue: the cases.
        templates: the template root.
        cases_of: the cases that are targeted at a mutant.
    """

    def __init__(
        self,
        rows: Mapping[str, Row],
        catalogue: Catalogue,
        templates: Path,
        cases_of: Callable[[Mutant], Sequence[Case]],
    ) -> None:
        self.rows = dict(rows)
        self._catalogue, self._templates, self._cases_of = catalogue, templates, cases_of
        self._files: dict[str, str] = {}
        self._lock = threading.Lock()

    @cached_property
    def _named(self) -> dict[str, Case]:
        return {case.name: case for case in self._catalogue.cases}

    def holds(self, mutant: Mutant) -> bool:
        """Whether its row says what a trial would say again, as far as hashes tell: nothing it depends on has changed.

        A row that makes a self-test fail never holds.
        """
        row = self.rows.get(mutant.id)
        if row is None or State(row.state) in BAD or row.text != self._text(mutant):
            return False
        return row.case == self._case(mutant, row.killer)

    def killers(self) -> dict[str, str]:
        """Mutant id -> the instance that killed it, as the table has it, whether or not the row still holds."""
        return {row.id: row.killer for row in self.rows.values() if row.killer}

    def note(self, result: Result, seed: int, archs: Sequence[str]) -> None:
        """Write down what came of a mutant; for any thread."""
        mutant = result.mutant
        row = Row(
            mutant.id,
            result.state.value,
            result.killer,
            result.verdict,
            seed,
            () if result.verdict else tuple(archs),
            self._text(mutant),
            self._case(mutant, result.killer),
        )
        with self._lock:
            self.rows[mutant.id] = row

    def save(self, path: Path, mutants: Sequence[Mutant]) -> None:
        """Write the rows of the mutants that there are; rows of others are left out."""
        known = {one.id for one in mutants}
        with self._lock:
            write_rows(path, [row for row in self.rows.values() if row.id in known])

    def _text(self, mutant: Mutant) -> str:
        if mutant.source is Source.RECORD:
            return _hash(f"{mutant.before}\0{mutant.after}".encode())
        if mutant.source is Source.CONTROLLER:
            return self._file(package_file("conformance_tests", "controller_mutations.py"))
        return self._file(self._templates / mutant.file)

    def _case(self, mutant: Mutant, killer: str) -> str:
        if killer:
            case = self._named.get(killer.partition(":")[0])
            return self._file(_source(case)) if case else ""
        files = sorted({_source(case) for case in self._cases_of(mutant)})
        return _hash("".join(map(self._file, files)).encode())

    def _file(self, path: Path) -> str:
        name = str(path)
        if name not in self._files:
            self._files[name] = _hash(path.read_bytes())
        return self._files[name]


def _source(case: Case) -> Path:
    return Path(case.source.rpartition(":")[0])


def _hash(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()[:_DIGITS]

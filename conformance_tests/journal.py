"""Outcomes of a run as they come, kept beside its package, so that a run that was stopped goes on where it stood."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from tutti_hal.conformance_tests.errors import NothingToResume
from tutti_hal.conformance_tests.outcome import End, Outcome
from tutti_hal.conformance_tests.session import RunOptions
from tutti_hal.product import file_sums, product_files, sums_digest
from tutti_hal.profile import parse

#: Options that a second part of a run may have in its own way: none of them changes what a case sees.
_OWN = ("jobs", "time_limit_s")


class Journal:
    """The journal of the package ``folder``: ``FOLDER.journal.jsonl`` beside it, gone once the run is whole.

    Its first line says what was asked for, of which product, on terms of which day's waivers; each other is an outcome,
    written when the instance has ended. A line that a stop cut off is left out.
    """

    def __init__(self, folder: Path, options: RunOptions) -> None:
        self.path = folder.with_name(f"{folder.name}.journal.jsonl")
        self._head = _head(options)

    def begin(self) -> None:
        """Forget what there was, and begin anew.

        Raises:
            OSError: it cannot be written.
        """
        self.path.parent.mkdir(parents=True, exist_ok=True)
        self.path.write_text(f"{json.dumps(self._head)}\n", encoding="utf-8")

    def kept(self) -> dict[str, Outcome]:
        """Instance id -> outcome, of what has ended; what was not started is not among them.

        Raises:
            NothingToResume: there is no journal, or it is that of another run: of other options, or another product.
        """
        tried = f"resume the run that {self.path} is about"
        try:
            head, *rows = self.path.read_text(encoding="utf-8").split("\n")
            said = json.loads(head)
        except (OSError, ValueError) as error:
            raise NothingToResume(tried, f"there is none: {error}", "Run without --resume.") from error
        other = [name for name in self._head if said.get(name) != self._head[name]]
        if other:
            raise NothingToResume(tried, f"it has another {other[0]}", "Run without --resume.")
        found: dict[str, Outcome] = {}
        for row in rows[:-1]:  # what follows the last end of a line was cut off
            outcome = Outcome.from_json(json.loads(row))
            if outcome.end is not End.NOT_RUN:
                found[outcome.id] = outcome
        whole = "".join(f"{row}\n" for row in (head, *rows[:-1]))
        self.path.write_text(whole, encoding="utf-8")
        return found

    def note(self, outcome: Outcome) -> None:
        """Write an outcome down. What was not started is left out."""
        if outcome.end is not End.NOT_RUN:
            with self.path.open("a", encoding="utf-8") as file:
                file.write(f"{json.dumps(outcome.to_json())}\n")

    def end(self) -> None:
        """The run is whole: forget it."""
        self.path.unlink(missing_ok=True)


def _head(options: RunOptions) -> Mapping[str, Any]:
    asked = {name: value for name, value in options.to_json().items() if name not in _OWN}
    vendor = parse(options.subject.profile).vendor
    return {"options": asked, "product": sums_digest(file_sums(product_files(vendor)))}

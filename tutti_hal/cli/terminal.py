"""How verbs talk to a person: a progress bar and tables on a terminal, plain lines elsewhere, nothing for machines."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Protocol


class Advance(Protocol):
    """Says that so much more is done."""

    def __call__(self, amount: float, note: str = "") -> None:
        """Adds ``amount``; ``note`` stands beside the bar."""


@dataclass(frozen=True)
class Section:
    """Rows of a table under one heading: (label, value, remark)."""

    heading: str
    rows: Sequence[tuple[str, str, str]]


class Terminal:
    """One verb's output.

    On a terminal: colours, a live progress bar, tables. Otherwise the same facts as plain lines without control codes.
    With ``quiet`` (for ``--json``) nothing goes to standard output, and the progress bar only to a standard error that
    is a terminal.
    """

    def __init__(self, *, quiet: bool = False) -> None:
        from rich.console import Console

        self._quiet = quiet
        self._console = Console(file=sys.stderr if quiet else sys.stdout, highlight=False, soft_wrap=True)

    @property
    def _live(self) -> bool:
        return self._console.is_terminal

    def facts(self, rows: Sequence[tuple[str, str]]) -> None:
        """Name and value, a line each."""
        if self._quiet:
            return
        from rich.text import Text

        width = max((len(name) for name, _ in rows), default=0)
        for name, value in rows:
            self._console.print(Text.assemble("  ", (f"{name:<{width}}", "dim"), "  ", value))

    def title(self, text: str) -> None:
        """The first line."""
        if not self._quiet:
            from rich.text import Text

            self._console.print(Text(text, style="bold"))

    def table(self, sections: Sequence[Section]) -> None:
        """Labelled figures with a remark each."""
        if self._quiet:
            return
        if not self._live:
            for section in sections:
                for label, value, remark in section.rows:
                    print(f"{section.heading}: {label}: {value}{f' ({remark})' if remark else ''}")
            return
        from rich.box import SIMPLE_HEAD
        from rich.table import Table

        table = Table(box=SIMPLE_HEAD, show_header=False, pad_edge=False, padding=(0, 1))
        table.add_column(style="bold cyan", no_wrap=True)
        table.add_column(no_wrap=True)
        table.add_column(justify="right", style="bold", no_wrap=True)
        table.add_column(style="dim", overflow="fold")
        for section in sections:
            heading = section.heading
            for label, value, remark in section.rows:
                table.add_row(heading, label, value, remark)
                heading = ""
            table.add_section()
        self._console.print(table)

    def verdict(self, good: bool, text: str) -> None:
        """The last line."""
        if not self._quiet:
            from rich.text import Text

            self._console.print(Text(text, style="bold green" if good else "bold red"))

    def note(self, text: str) -> None:
        """A plain line."""
        if not self._quiet:
            from rich.text import Text

            self._console.print(Text(text))

    @contextmanager
    def progress(self, what: str, total: float, unit: str) -> Iterator[Advance]:
        """A bar on a terminal; four lines elsewhere; gone when the block ends, also by an error."""
        if self._live:
            yield from self._bar(what, total, unit)
        elif self._quiet:
            yield lambda _amount, _note="": None
        else:
            yield from self._quarters(what, total, unit)

    def _bar(self, what: str, total: float, unit: str) -> Iterator[Advance]:
        from rich.progress import BarColumn, Progress, SpinnerColumn, TextColumn, TimeElapsedColumn

        columns = (
            SpinnerColumn(),
            TextColumn("{task.description}"),
            BarColumn(bar_width=32),
            TextColumn("{task.completed:.0f}/{task.total:.0f} " + unit),
            TimeElapsedColumn(),
            TextColumn("[dim]{task.fields[note]}"),
        )
        with Progress(*columns, console=self._console, transient=True) as bar:
            task = bar.add_task(what, total=total, note="")
            yield lambda amount, note="": bar.update(task, advance=amount, note=note)

    def _quarters(self, what: str, total: float, unit: str) -> Iterator[Advance]:
        done = 0.0
        said = 0

        def advance(amount: float, note: str = "") -> None:
            nonlocal done, said
            done += amount
            quarter = int(4 * done / total) if total else 4
            if quarter > said:
                said = quarter
                print(f"{what}: {done:.0f}/{total:.0f} {unit}{f', {note}' if note else ''}", flush=True)

        yield advance

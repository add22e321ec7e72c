"""The root of the tree: what every error carries."""

from __future__ import annotations

from typing import ClassVar


class TuttiError(Exception):
    """Base of every error that this package raises on purpose.

    Args:
        tried: what the caller asked for, in a few words.
        found: what stood in the way, with the offending value.
        fix: what to do next; one sentence.
    """

    id: ClassVar[str] = "TT-ERROR"

    def __init__(self, tried: str, found: str, fix: str) -> None:
        super().__init__(tried, found, fix)
        self.tried = tried
        self.found = found
        self.fix = fix

    def __str__(self) -> str:
        end = "" if self.found.endswith("\n") else " " if self.found.endswith((".", "?", "!")) else ". "
        return f"[{self.id}] {self.tried}: {self.found}{end}{self.fix}"

"""What `verify` refuses a package for, gathered so that all of it is said at once."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

_TEXT_LIMIT = 300


@dataclass(frozen=True)
class Refusal:
    """One thing that is not as it must be.

    Attributes:
        file: of the package, with its folder where several were given.
        line: from 1; 0 where it is about the file as a whole.
        found: what was found.
        wanted: what should have been; may be empty.
    """

    file: str
    line: int
    found: str
    wanted: str = ""

    def __str__(self) -> str:
        where = f"{self.file}:{self.line}" if self.line else self.file
        wanted = f"; {printable(self.wanted)}" if self.wanted else ""
        return f"refused: {printable(where)}: {printable(self.found)}{wanted}"

    def to_json(self) -> dict[str, Any]:
        """As ``verify --json`` prints it."""
        return {"file": self.file, "line": self.line, "found": self.found, "expected": self.wanted}


@dataclass
class Findings:
    """Refusals, and remarks that refuse nothing. ``prefix`` is put before each file's name."""

    prefix: str = ""
    refusals: list[Refusal] = field(default_factory=list)
    remarks: list[str] = field(default_factory=list)

    def refuse(self, file: str, line: int, found: str, wanted: str = "") -> None:
        """Note a refusal."""
        self.refusals.append(Refusal(f"{self.prefix}{file}", line, found, wanted))

    def remark(self, text: str) -> None:
        """Note a remark."""
        self.remarks.append(text)


def printable(text: str) -> str:
    """Text of a stranger as a terminal may show it: one line, no control codes, not endless."""
    clean = "".join(char if char.isprintable() else char.encode("unicode_escape").decode("ascii") for char in text)
    return clean if len(clean) <= _TEXT_LIMIT else f"{clean[:_TEXT_LIMIT]}... ({len(clean)} characters)"


def shown(value: Any) -> str:
    """A value in a message."""
    return printable(value if isinstance(value, str) and value else repr(value))

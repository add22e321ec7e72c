"""JSON as packages hold it: one way to write it, and a reader that takes nothing else."""

from __future__ import annotations

import json
import math
from typing import Any, NoReturn

#: Levels of nesting that a document may have.
DEPTH_LIMIT = 64


class JsonInvalid(ValueError):
    """A text is not JSON that a package may hold; ``line`` is where, from 1."""

    def __init__(self, line: int, what: str) -> None:
        super().__init__(what)
        self.line = line


def document(value: Any) -> bytes:
    """A whole file: indented, so that each key has a line of its own.

    Raises:
        ValueError: NaN or infinity.
    """
    return (json.dumps(value, indent=1, allow_nan=False) + "\n").encode("ascii")


def line(value: Any) -> str:
    """One line of a ``.jsonl`` file, without its end.

    Raises:
        ValueError: NaN or infinity.
    """
    return json.dumps(value, allow_nan=False)


def lines(values: list[Any]) -> bytes:
    """A ``.jsonl`` file."""
    return "".join(f"{line(value)}\n" for value in values).encode("ascii")


def parse(data: bytes) -> Any:
    """Read one document.

    Raises:
        JsonInvalid: not UTF-8, not JSON, a key given twice, NaN, infinity, or nested too deep.
    """
    try:
        text = data.decode("utf-8")
    except UnicodeDecodeError as error:
        raise JsonInvalid(data.count(b"\n", 0, error.start) + 1, f"byte {error.start} is not UTF-8") from None
    try:
        value = json.loads(text, object_pairs_hook=_table, parse_constant=_constant, parse_float=_float)
    except json.JSONDecodeError as error:
        raise JsonInvalid(error.lineno, f"not JSON: {error.msg} (column {error.colno})") from None
    except RecursionError:
        raise JsonInvalid(1, f"nested more than {DEPTH_LIMIT} deep") from None
    except ValueError as error:
        raise JsonInvalid(1, str(error)) from None
    if not _is_shallow(value):
        raise JsonInvalid(1, f"nested more than {DEPTH_LIMIT} deep")
    return value


def parse_lines(data: bytes) -> tuple[list[tuple[int, Any]], list[JsonInvalid]]:
    """Read a ``.jsonl`` file: (line number, value) of each line, and what is wrong with the others."""
    found: list[tuple[int, Any]] = []
    wrong: list[JsonInvalid] = []
    parts = data.split(b"\n")
    if parts.pop():
        wrong.append(JsonInvalid(len(parts) + 1, "the last line has no end"))
    for number, part in enumerate(parts, 1):
        try:
            found.append((number, parse(part)))
        except JsonInvalid as error:
            wrong.append(JsonInvalid(number, str(error)))
    return found, wrong


def _table(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    table = dict(pairs)
    if len(table) != len(pairs):
        twice = next(key for index, (key, _) in enumerate(pairs) if key in {k for k, _ in pairs[:index]})
        raise ValueError(f"the key '{twice[:80]}' is given twice")
    return table


def _constant(word: str) -> NoReturn:
    raise ValueError(f"{word} is not JSON")


def _float(text: str) -> float:
    value = float(text)
    if not math.isfinite(value):
        raise ValueError(f"{text[:40]} is not a finite number")
    return value


def _is_shallow(value: Any) -> bool:
    level = [value]
    for _ in range(DEPTH_LIMIT):
        level = [inner for one in level if isinstance(one, dict | list) for inner in _inside(one)]
        if not level:
            return True
    return False


def _inside(value: dict[str, Any] | list[Any]) -> list[Any]:
    return list(value.values()) if isinstance(value, dict) else value

"""Request traces in the public Mooncake JSONL format.

One JSON object a line: ``timestamp`` (milliseconds since the start), ``input_length`` and ``output_length`` (tokens),
``hash_ids`` (one id for each 512 tokens of input, the last one for what is left; two requests that begin with the same
ids share that prefix).
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO

from tutti_hal.errors import TraceError
from tutti_hal.workload.shapes import TOKENS_PER_HASH

_FIELDS = ("timestamp", "input_length", "output_length", "hash_ids")
_MAX_ID = 2**63 - 1
#: An honest line holds some thousand ids; far beyond that, the file is something else.
_MAX_LINE_BYTES = 16 * 1024 * 1024


@dataclass(frozen=True)
class TraceRequest:
    """One request of a trace.

    Attributes:
        timestamp_ms: arrival, milliseconds since the start of the trace.
        input_length: tokens of the prompt.
        output_length: tokens generated.
        hash_ids: one id for each ``TOKENS_PER_HASH`` tokens of the prompt, rounded up; no id twice.
    """

    timestamp_ms: int
    input_length: int
    output_length: int
    hash_ids: tuple[int, ...]

    def to_json(self) -> str:
        """The request as one line of the format, without the newline."""
        return json.dumps(
            {
                "timestamp": self.timestamp_ms,
                "input_length": self.input_length,
                "output_length": self.output_length,
                "hash_ids": list(self.hash_ids),
            }
        )


def parse_line(line: str, where: str) -> TraceRequest:
    """One line of the format as a request.

    Args:
        line: the text, with or without its newline.
        where: ``file:line``, for the error.

    Raises:
        TraceError: the line is not JSON, not an object, lacks a field, or a field breaks the format.
    """

    def refuse(found: str, fix: str) -> TraceError:
        return TraceError(f"reading {where}", found, fix)

    try:
        value: Any = json.loads(line)
    except json.JSONDecodeError as error:
        hint = "The line ends too early; was the file cut?" if error.pos >= len(line.rstrip()) else "Repair the line."
        raise refuse(f"not JSON ({error.msg} at column {error.colno})", hint) from None
    except (RecursionError, ValueError) as error:  # absurd nesting; integers of thousands of digits
        raise refuse(f"not JSON that can be read ({error})", "Repair or remove the line.") from None
    if not isinstance(value, dict):
        raise refuse(f"a JSON {type(value).__name__}, not an object", f"Write {{{', '.join(_FIELDS)}}} on each line.")
    missing = [name for name in _FIELDS if name not in value]
    if missing:
        near = f"; it has {', '.join(map(repr, value)) or 'nothing'}"
        raise refuse(f"no field {', '.join(map(repr, missing))}{near}", f"Each line needs {', '.join(_FIELDS)}.")

    def whole(name: str, lowest: int) -> int:
        number = value[name]
        if isinstance(number, bool) or not isinstance(number, int):
            raise refuse(f"{name} is {_brief(number)}, not a whole number", f"Give {name} as an integer.")
        if not lowest <= number <= _MAX_ID:
            raise refuse(f"{name} is {_brief(number)}", f"Give {name} between {lowest} and 2^63 - 1.")
        return number

    timestamp = whole("timestamp", 0)
    input_length = whole("input_length", 1)
    output_length = whole("output_length", 0)
    ids = value["hash_ids"]
    if not isinstance(ids, list):
        raise refuse(f"hash_ids is {_brief(ids)}, not a list", "Give hash_ids as a list of integers.")
    for position, item in enumerate(ids):
        if isinstance(item, bool) or not isinstance(item, int) or not 0 <= item <= _MAX_ID:
            raise refuse(
                f"hash_ids[{position}] is {_brief(item)}", "Give every hash id as an integer from 0 to 2^63 - 1."
            )
    wanted = -(-input_length // TOKENS_PER_HASH)
    if len(ids) != wanted:
        raise refuse(
            f"{len(ids)} hash_ids for input_length {input_length}",
            f"Give {wanted}: one for each {TOKENS_PER_HASH} tokens, rounded up.",
        )
    if len(set(ids)) != len(ids):
        seen: set[int] = set()
        twice = next(i for i in ids if i in seen or seen.add(i))  # type: ignore[func-returns-value]
        raise refuse(
            f"hash id {twice} stands twice in one request",
            "Ids name prefixes, so that no two positions of a request share one: remove the line or number it anew.",
        )
    return TraceRequest(timestamp, input_length, output_length, tuple(ids))


def read_trace(path: Path, limit: int | None = None) -> tuple[TraceRequest, ...]:
    """The first ``limit`` requests of a trace file (all of them without a limit). Blank lines are passed over.

    Lines after the last one wanted are not looked at.

    Raises:
        TraceError: the file cannot be opened or is not UTF-8, holds no request, a line breaks the format, or time
            runs backwards. The text names file and line.
    """
    requests: list[TraceRequest] = []
    try:
        with path.open("rb") as file:
            for number, raw in _numbered(file):
                if limit is not None and len(requests) >= limit:
                    break
                where = f"{path}:{number}"
                if len(raw) > _MAX_LINE_BYTES:
                    raise TraceError(f"reading {where}", "a line of over 16 MiB", "Is this a trace file?")
                if not raw.strip():
                    continue
                request = parse_line(_decode(raw, where), where)
                if requests and request.timestamp_ms < requests[-1].timestamp_ms:
                    raise TraceError(
                        f"reading {where}",
                        f"timestamp {request.timestamp_ms} comes after {requests[-1].timestamp_ms}",
                        "Sort the lines by timestamp.",
                    )
                requests.append(request)
    except OSError as error:
        raise TraceError(
            f"opening the trace {path}", error.strerror or str(error), "Give --trace a readable JSONL file."
        ) from None
    if not requests:
        raise TraceError(f"reading {path}", "no request in it", "A trace needs at least one line; see --save-trace.")
    return tuple(requests)


def write_trace(path: Path, requests: Iterable[TraceRequest]) -> None:
    """Writes requests as a trace file, replacing it.

    Raises:
        TraceError: the file cannot be written.
    """
    try:
        with path.open("w", encoding="utf-8") as file:
            file.writelines(f"{request.to_json()}\n" for request in requests)
    except OSError as error:
        raise TraceError(
            f"writing the trace {path}", error.strerror or str(error), "Give a path that can be written."
        ) from None


def _numbered(file: BinaryIO) -> Iterator[tuple[int, bytes]]:
    number = 0
    while line := file.readline(_MAX_LINE_BYTES + 1):
        number += 1
        yield number, line


def _decode(raw: bytes, where: str) -> str:
    try:
        return raw.decode("utf-8")
    except UnicodeDecodeError as error:
        raise TraceError(
            f"reading {where}",
            f"bytes that are not UTF-8 ({error.reason})",
            "A trace is JSON text, one object a line; is the file compressed?",
        ) from None


def _brief(value: object) -> str:
    try:
        text = repr(value)
    except ValueError:  # an integer beyond Python's limit for decimal text
        text = f"a {type(value).__name__} too long to print"
    return text if len(text) <= 40 else text[:37] + "..."

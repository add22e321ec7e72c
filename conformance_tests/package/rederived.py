"""The files of a package against those that follow from its raw files: every difference, with file and line."""

from __future__ import annotations

import itertools
import json
from collections.abc import Mapping
from typing import Any

from tutti_hal.conformance_tests.package import layout
from tutti_hal.conformance_tests.package.findings import Findings, shown
from tutti_hal.conformance_tests.package.jsontext import line as json_line

#: Differing lines of one file that are told; in a document of another length only the first is.
_TOLD = 8


def compare_file(name: str, found: bytes, wanted: bytes, findings: Findings) -> None:
    """Refuse what differs, line by line."""
    if found == wanted:
        return
    ours, theirs = wanted.decode("utf-8").split("\n"), found.decode("utf-8", "replace").split("\n")
    told = 0
    for number, (a, b) in enumerate(itertools.zip_longest(theirs, ours), 1):
        if a == b:
            continue
        said = "the file ends" if a is None else shown(a.strip())
        meant = "nothing more" if b is None else shown(b.strip())
        findings.refuse(name, number, said, f"worked out again it is {meant}")
        told += 1
        if len(ours) != len(theirs) or told == _TOLD:
            return
    if not told:
        findings.refuse(name, 0, "bytes that are not UTF-8", "the file as certify writes it")


def compare_verdicts(
    rows: list[tuple[int, Any]],
    texts: Mapping[int, str],
    wanted: Mapping[str, dict[str, Any]],
    places: Mapping[str, int],
    findings: Findings,
) -> None:
    """Refuse each verdict that is not what comes out when its observations are judged again.

    Args:
        rows: (line, value) of ``verdicts.jsonl``.
        texts: line -> text.
        wanted: id -> the line that should be there, in order.
        places: id -> line of its observations.
        findings: where refusals go.
    """
    name = layout.VERDICTS
    first: dict[str, int] = {}
    for number, row in rows:
        one = row["id"]
        if one in first:
            findings.refuse(name, number, f"a second verdict of {one}", f"line {first[one]} has it")
            continue
        first[one] = number
        if one not in wanted:
            findings.refuse(name, number, f"a verdict of {one}", "no such instance belongs to this run")
            continue
        mine = wanted[one]
        for key in [*mine, *(key for key in row if key not in mine)]:
            # As text, for 1, 1.0 and true are equal to Python.
            if key not in row or key not in mine or json_line(row[key]) != json_line(mine[key]):
                found = f"{key} {shown(row[key])}" if key in row else f"no {key}"
                findings.refuse(name, number, f"{one}: {found}", f"judged again it is {shown(mine.get(key))}")
                if key == "outcome" and one in places:
                    said = f"the line of {one} has SHA-256 {mine[key]}"
                    findings.refuse(layout.OBSERVATIONS, places[one], said, f"{name}:{number} was made from another")
        if json.loads(json_line(mine)) == row and texts[number] != json_line(mine):
            findings.refuse(name, number, f"{one}: another spelling of the same", "the line as certify writes it")
    before = 0
    for one in wanted:
        before += one in first
        if one not in first:
            wish = "one line for each instance that belongs to the run"
            findings.refuse(name, before + 1, f"no verdict of {one}", wish)
    order = [one for one in first if one in wanted]
    if order != [one for one in wanted if one in first]:
        wrong = next(a for a, b in zip(order, (one for one in wanted if one in first), strict=True) if a != b)
        findings.refuse(name, first[wrong], f"{wrong} stands in another place", "the instances in their order")


def line_of(data: bytes, key: str) -> int:
    """The line of a document on which a key stands first; 1 where it does not."""
    rows = data.decode("utf-8", "replace").split("\n")
    wanted = f"{json.dumps(key)}:"
    return next((number for number, row in enumerate(rows, 1) if row.strip().startswith(wanted)), 1)

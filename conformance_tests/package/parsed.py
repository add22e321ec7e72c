"""The files of a package as values, once each follows its schema."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from tutti_hal.conformance_tests.package import jsontext, layout
from tutti_hal.conformance_tests.package.findings import Findings, shown
from tutti_hal.conformance_tests.package.rederived import line_of
from tutti_hal.conformance_tests.package.schemas import breaks

_DOCUMENTS = {
    layout.RUN: "run",
    layout.ENVIRONMENT: "environment",
    layout.MUST_PASS: "mustpass",
    layout.PRODUCT: "product",
    layout.BUILD: "build",
    layout.FIGURES: "figures",
}

_LINES = {layout.OBSERVATIONS: "observation", layout.VERDICTS: "verdict"}

#: Without these nothing can be judged.
_NEEDED = (layout.RUN, layout.ENVIRONMENT, layout.PRODUCT, layout.BUILD, layout.OBSERVATIONS, layout.WAIVERS)


@dataclass(frozen=True)
class Parsed:
    """A package's files: raw, the JSON documents, and the lines of the others.

    Attributes:
        files: name -> contents.
        documents: name -> value.
        lines: name -> (line number, value) of the lines that follow the schema, in order.
    """

    files: Mapping[str, bytes]
    documents: Mapping[str, Any]
    lines: Mapping[str, list[tuple[int, Any]]]

    @property
    def record(self) -> dict[str, bytes]:
        """Name below ``record/`` -> contents."""
        prefix = f"{layout.RECORD}/"
        return {name.removeprefix(prefix): data for name, data in self.files.items() if name.startswith(prefix)}


def parse_files(files: Mapping[str, bytes], findings: Findings) -> Parsed | None:
    """Read the files; None where too little of them can be read to judge anything. Whatever is wrong is refused."""
    documents: dict[str, Any] = {}
    rows: dict[str, list[tuple[int, Any]]] = {}
    fit = set(files)
    for name, schema in _DOCUMENTS.items():
        if name in files and not _document(name, schema, files[name], documents, findings):
            fit.discard(name)
    for name, schema in _LINES.items():
        if name in files and not _lines(name, schema, files[name], rows, findings):
            fit.discard(name)
    return Parsed(files, documents, rows) if fit.issuperset(_NEEDED) else None


def _document(name: str, schema: str, data: bytes, into: dict[str, Any], findings: Findings) -> bool:
    try:
        value = jsontext.parse(data)
    except jsontext.JsonInvalid as error:
        findings.refuse(name, error.line, str(error), "one JSON document")
        return False
    if name == layout.RUN and isinstance(value, dict) and value.get("format") != layout.FORMAT:
        found = f"format {shown(value.get('format'))}"
        findings.refuse(name, line_of(data, "format"), found, f"this version reads format {layout.FORMAT}")
        return False
    wrong = list(breaks(value, schema))
    for place, message in wrong:
        key = next((part for part in reversed(place.split(".")) if not part.isdecimal()), "")
        findings.refuse(name, line_of(data, key), f"{place}: {message}", f"schemas/{schema}.schema.json")
    into[name] = value
    return not wrong


def _lines(name: str, schema: str, data: bytes, into: dict[str, list[tuple[int, Any]]], findings: Findings) -> bool:
    found, wrong = jsontext.parse_lines(data)
    for error in wrong:
        findings.refuse(name, error.line, str(error), "one JSON object a line")
    into[name] = []
    good = not wrong
    for number, value in found:
        broken = list(breaks(value, schema))
        for place, message in broken:
            findings.refuse(name, number, f"{place}: {message}", f"schemas/{schema}.schema.json")
        if broken:
            good = False
        else:
            into[name].append((number, value))
    return good

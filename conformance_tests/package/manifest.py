"""The list of a package's files with their sums, in the form that ``sha256sum -c`` reads."""

from __future__ import annotations

import re
from collections.abc import Mapping
from hashlib import sha256

from tutti_hal.conformance_tests.package.findings import Findings, printable
from tutti_hal.conformance_tests.package.layout import MANIFEST, NAME

_LINE = re.compile(r"([0-9a-f]{64})  (.+)")


def manifest(files: Mapping[str, bytes]) -> bytes:
    """The manifest of these files, in order of name; itself is never among them."""
    rows = (f"{sha256(data).hexdigest()}  {name}\n" for name, data in sorted(files.items()) if name != MANIFEST)
    return "".join(rows).encode("ascii")


def check_manifest(files: Mapping[str, bytes], findings: Findings) -> None:
    """Refuse whatever of ``files`` is not as the manifest among them says, and whatever it names that is not there."""
    try:
        text = files[MANIFEST].decode("ascii")
    except UnicodeDecodeError as error:
        findings.refuse(MANIFEST, 1, f"byte {error.start} is not ASCII", "a list as sha256sum writes it")
        return
    named: dict[str, int] = {}
    rows = text.split("\n")
    if rows.pop():
        findings.refuse(MANIFEST, len(rows) + 1, "the last line has no end", "a list as sha256sum writes it")
    for number, row in enumerate(rows, 1):
        match = _LINE.fullmatch(row)
        if match is None or not NAME.fullmatch(match[2]):
            findings.refuse(
                MANIFEST, number, f"'{printable(row[:200])}'", "SUM, two blanks and a name inside the package"
            )
            continue
        total, name = match.groups()
        if name in named:
            findings.refuse(MANIFEST, number, f"{name} is listed on line {named[name]}, too", "each file once")
        elif named and name < max(named):
            findings.refuse(MANIFEST, number, f"{name} stands after {max(named)}", "the files in order of name")
        named[name] = number
        if name not in files:
            findings.refuse(name, 0, "the file is missing", f"{MANIFEST}:{number} lists it")
        elif sha256(files[name]).hexdigest() != total:
            findings.refuse(
                name, 0, f"its SHA-256 is {sha256(files[name]).hexdigest()}", f"{MANIFEST}:{number} says {total}"
            )
    for name in sorted(set(files) - set(named) - {MANIFEST}):
        findings.refuse(name, 0, f"the file is not in {MANIFEST}", "no file beside those listed")

"""Figures of benchmarks in a package: carried as information, never judged.

A figure is what ``tutti-hal bench WHAT --json`` printed on the same vendor. Nobody can work it out again, so ``verify``
looks at its form and its sum only, and neither a verdict nor a level rests on it.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from hashlib import sha256
from pathlib import Path
from typing import Any

from tutti_hal.conformance_tests.errors import FiguresUnfit
from tutti_hal.conformance_tests.package import jsontext, layout
from tutti_hal.conformance_tests.package.findings import Findings
from tutti_hal.conformance_tests.package.parsed import Parsed
from tutti_hal.conformance_tests.package.rederived import line_of
from tutti_hal.conformance_tests.package.schemas import breaks
from tutti_hal.errors import ProfileError
from tutti_hal.profile import parse

#: Bytes of one file: a grid of all cells has a tenth.
LIMIT_BYTES = 1 << 20

Figure = Mapping[str, Any]


def load_figures(paths: Sequence[Path], vendor: str) -> tuple[Figure, ...]:
    """Figures as a package carries them: file, sum, table.

    Args:
        paths: files with what ``tutti-hal bench WHAT --json`` printed.
        vendor: of the run that they are to stand beside.

    Raises:
        FiguresUnfit: a file cannot be read, is not of that form, or was measured on another vendor; all are named.
    """
    found, wrong = [], []
    for path in paths:
        try:
            found.append(_load(path))
        except (OSError, ValueError) as error:
            wrong.append(f"{path}: {error.strerror if isinstance(error, OSError) else error}")
    names = [one["file"] for one in found]
    wrong += [f"{name}: given twice" for name in dict.fromkeys(names) if names.count(name) > 1]
    if not wrong and found:
        wrong += [f"{place}: {said}" for place, said in breaks({"figures": found}, "figures")]
    if not wrong:
        wrong += [f"{one['file']}: {said}" for one in found if (said := _astray(one, vendor))]
    if wrong:
        fix = "Give files that tutti-hal bench ring, link, grid, storage or soak wrote with --json, on the same vendor."
        raise FiguresUnfit("carry figures of benchmarks", "\n  ".join(["these are unfit:", *wrong]), fix)
    return tuple(found)


def carried(parsed: Parsed, findings: Findings) -> tuple[Figure, ...]:
    """The figures of a package that is verified; none where they are not of the form, which was refused already."""
    table = parsed.documents.get(layout.FIGURES)
    if table is None or any(True for _ in breaks(table, "figures")):
        return ()
    vendor = parse(parsed.documents[layout.RUN]["options"]["subject"]["profile"]).vendor
    found: list[Figure] = table["figures"]
    for one in found:
        if said := _astray(one, vendor):
            line = line_of(parsed.files[layout.FIGURES], one["file"])
            findings.refuse(layout.FIGURES, line, f"{one['file']}: {said}", "figures of the vendor that was certified")
    return tuple(found)


def _load(path: Path) -> Figure:
    with path.open("rb") as file:
        data = file.read(LIMIT_BYTES + 1)
    if len(data) > LIMIT_BYTES:
        raise ValueError(f"more than {LIMIT_BYTES} bytes")
    table = jsontext.parse(data)
    if not isinstance(table, dict):
        raise ValueError("not one JSON object")
    # Numbers as they are written again: what is verified is compared with what is made anew.
    return {"file": path.name, "sha256": sha256(data).hexdigest(), "table": json.loads(json.dumps(table))}


def _astray(one: Figure, vendor: str) -> str:
    """Why a figure does not belong to a run on this vendor; empty where it does."""
    named = one["table"]["profile"]
    try:
        own = parse(named).vendor
    except ProfileError as error:
        return f"profile {named!r}: {error.found}"
    return "" if own == vendor else f"measured on {own}, and the run is of {vendor}"

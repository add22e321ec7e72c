"""The model of a scaffold: the backend that runs on any machine, and its record as a table of one arch."""

from __future__ import annotations

import copy
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from tutti_hal.backend import discover
from tutti_hal.errors import ScaffoldError

#: A place in a record: the keys that lead to it.
Path_ = tuple[str, ...]

#: Stands for any arch in a path: a vendor calls its own as it likes.
ANY_ARCH = "*"


def model_folder() -> Path:
    """The folder of the installed backend whose kind is ``host``.

    Raises:
        ScaffoldError: there is none.
    """
    for finding in discover():
        if finding.backend is not None and finding.backend.record.kind == "host":
            return finding.backend.descriptor.folder
    raise ScaffoldError(
        "make a scaffold", "no backend of kind host is installed", "Install the package again: pip install ."
    )


def model_table(vendor: str, title: str, folder: Path | None = None) -> dict[str, Any]:
    """The model's record under another name, with its default arch alone.

    Args:
        vendor: the vendor's name.
        title: as reports call it.
        folder: of the model; the installed one's when None.
    """
    import yaml

    text = ((folder or model_folder()) / "vendor.yaml").read_text(encoding="utf-8")
    table: dict[str, Any] = copy.deepcopy(yaml.safe_load(text))  # aliases become values of their own
    arch = table["default_arch"]
    table["vendor"], table["title"] = vendor, title
    table["archs"] = {arch: table["archs"][arch]}
    return table


def leaves(table: Mapping[str, Any], path: Path_ = ()) -> Iterator[tuple[Path_, Any]]:
    """Every fact of a record with its place: what is not a mapping, or an empty one, or a primitive's lowering."""
    for key, value in table.items():
        here = (*path, ANY_ARCH if path == ("archs",) else str(key))
        if isinstance(value, Mapping) and value and not (len(here) == 2 and here[0] == "primitives"):
            yield from leaves(value, here)
        else:
            yield here, value

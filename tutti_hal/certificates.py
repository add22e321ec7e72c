"""The certificates that come with the product: which level each vendor last passed, on what, and whether that is stale.

The index is data (``conformance_tests/registry/index.json``), written when a certificate enters the registry; the
packages themselves lie beside it in a checkout. See docs/registry.md.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tutti_hal.errors import NativeError
from tutti_hal.paths import package_file
from tutti_hal.product import file_sums, product_files, sources_digest

FORMAT = 1


@dataclass(frozen=True)
class Certificate:
    """One entry of the registry.

    Attributes:
        folder: below the registry: vendor, then device or word and date.
        vendor: name of the profile's vendor.
        provenance: ``hardware``, ``emulated`` or ``simulated``.
        archs: that were run.
        level: the highest that was passed with all below it.
        date: day of the run, UTC, ISO 8601.
        suite: version of the product.
        commit: of the product.
        sources: one SHA-256 over the product's files, those that a build makes left out.
        manifest: SHA-256 of the package's manifest.
        nbytes: of the package.
    """

    folder: str
    vendor: str
    provenance: str
    archs: tuple[str, ...]
    level: str
    date: str
    suite: str
    commit: str
    sources: str
    manifest: str
    nbytes: int

    def is_stale(self) -> bool:
        """Whether the installed product is another than the one that was certified; what a build makes is left out."""
        return sources_digest(file_sums(product_files(self.vendor))) != self.sources

    def to_json(self) -> dict[str, Any]:
        """As the index holds it."""
        return {**self.__dict__, "archs": list(self.archs)}


@dataclass(frozen=True)
class Index:
    """The registry's index: certificates in order of folder, and what there is none of, with the reason."""

    certificates: tuple[Certificate, ...]
    none_yet: Mapping[str, str]

    def to_json(self) -> dict[str, Any]:
        """As the file holds it."""
        rows = [one.to_json() for one in self.certificates]
        return {"format": FORMAT, "certificates": rows, "none_yet": dict(self.none_yet)}

    def last(self, vendor: str) -> Certificate | None:
        """The newest certificate of a vendor; None where it has none."""
        own = [one for one in self.certificates if one.vendor == vendor]
        return max(own, key=lambda one: (one.date, one.folder), default=None)


def read_index(path: Path | None = None) -> Index:
    """An index; that of the installed product where none is named, an empty one where none is installed."""
    try:
        path = path or package_file("conformance_tests", "registry", "index.json")
    except NativeError:
        return Index((), {})
    table = json.loads(path.read_text(encoding="utf-8"))
    rows = tuple(Certificate(**{**row, "archs": tuple(row["archs"])}) for row in table["certificates"])
    return Index(rows, table["none_yet"])

"""Where a record's facts come from, and how far to trust them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from tutti_hal.spec.schema import Struct, Text

#: How far a fact can be trusted, best first.
EVIDENCE = (
    "hardware",
    "header",
    "binary",
    "vendor-source",
    "vendor-doc",
    "third-party",
    "inferred",
    "unknown",
)

#: The keys of a fact that is not obvious.
PROVEN: Mapping[str, Any] = {"source": Text(), "evidence": Text(known=EVIDENCE, noun="evidence")}


def proven(required: Mapping[str, Any], optional: Mapping[str, Any] | None = None) -> Struct:
    """A mapping that must say where its facts come from."""
    return Struct({**required, **PROVEN}, optional or {})

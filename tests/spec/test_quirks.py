"""Quirks apply to the SDK versions that they name, and to an SDK that nobody could name."""

from __future__ import annotations

import pytest

from tutti_hal.paths import package_file
from tutti_hal.record import Evidence, Quirk, load_record


@pytest.mark.parametrize(
    ("rule", "version", "applies"),
    [
        ("*", "1.0", True),
        ("*", None, True),
        ("<5.1", None, True),
        ("<5.1", "5.0.9", True),
        ("<5.1", "5.1", False),
        ("<5.1", "5.1.0", False),
        ("<5.1", "5.10", False),
        ("<=4.3.3", "4.3.3", True),
        ("<=4.3.3", "4.3.10", False),
        ("==4.3", "4.3.0", True),
        ("==4.3", "4.3.1", False),
        (">=4.0,<5.0", "4.9.9", True),
        (">=4.0,<5.0", "5.0", False),
        (">=4.0,<5.0", "3.9", False),
        (">4", "4.0.0", False),
        (">4", "4.0.1", True),
    ],
)
def test_a_rule(rule: str, version: str | None, applies: bool) -> None:
    assert Quirk("a.quirk", "Text.", rule, Evidence("source", "unknown")).applies(version) is applies


def test_a_record_gives_those_that_apply() -> None:
    record = load_record(package_file("backends", "cuda"))
    assert record.quirks_for("13.0") == record.quirks == record.quirks_for(None)
    assert {quirk.id for quirk in record.quirks} >= {"dmabuf.pcie_flag_refused", "clock.globaltimer_resolution"}

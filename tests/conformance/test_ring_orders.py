"""The page of broken orders: it is of today's templates, no mutant on it is open, and the check can fail."""

from __future__ import annotations

import importlib
import re
from pathlib import Path
from types import ModuleType

import pytest

from tutti_hal.conformance_tests import explore
from tutti_hal.conformance_tests.cases.l5_ring.exploration import BOUNDS, LONG, PIECES, explored

ROOT = Path(__file__).resolve().parents[2]

pytestmark = pytest.mark.ring


@pytest.fixture
def orders(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> ModuleType:
    """The script, with a copy of the page."""
    monkeypatch.syspath_prepend(str(ROOT / ".ci"))
    module = importlib.import_module("ring_orders")
    page = tmp_path / module.PAGE.name
    page.write_text(module.PAGE.read_text(encoding="utf-8"), encoding="utf-8")
    monkeypatch.setattr(module, "PAGE", page)
    return module


def test_each_order_that_can_be_broken_is_caught_or_has_its_reason(orders: ModuleType) -> None:
    """After a change of the ring's templates: `.ci/ring_orders.py` tries what is new."""
    assert orders.faults() == []


@pytest.mark.parametrize(
    ("pattern", "instead", "said"),
    [
        (r"\| `ring/explored:[^|]*\|\n", r"| **nothing**: every case passes |\n", "nothing catches it"),
        (r"\| `ring/explored:[^|]*\|\n", r"| `ring/none:a=b`: found 1 |\n", "there is no case ring/none"),
        (r"^\| `template/.*\n", "", "not in ring_orders.md"),
        (r"^\| `(template/[^`:]*:[^`:]*):......:", r"| `\1:000000:", "no mutant any more"),
        (r"^(\| `template/[^`]*` \| `)", r"\1x", "the change is another one now"),
        (r"\| \*not shown\*: [^|]*\|\n", r"| *not shown*: so it is |\n", "its reason is not that of"),
        (r"\| \*not shown\*: [^|]*\|\n", r"| `ring/explored:piece=turns`: found 1 |\n", "no place in a list"),
        (r"^\d+ mutants: \d+", "35 mutants: 35", "not what this script writes"),
    ],
)
def test_the_check_fails(orders: ModuleType, pattern: str, instead: str, said: str) -> None:
    text = orders.PAGE.read_text(encoding="utf-8")
    changed, count = re.subn(pattern, instead, text, count=1, flags=re.M)
    assert count == 1
    orders.PAGE.write_text(changed, encoding="utf-8")
    assert any(said in fault for fault in orders.faults())
    assert orders.check() == 1


def test_the_long_form_leaves_nothing_out() -> None:
    """All pieces within the bounds of the suite, and what only it takes."""
    plan = explore.plan()
    assert len(set(plan)) == len(plan)
    assert {(piece, bounds) for piece in PIECES for bounds in explored.axes["bounds"]} | set(LONG) == set(plan)
    assert all(bounds in BOUNDS for _, bounds in plan)
    assert explore.plan(["turns"], ["1+1"]) == [("turns", "1+1")]
    assert explore.plan(["turns"], ["3+0"]) == [("turns", "3+0")]
    assert explore.plan([], ["2+2"]) == []


def test_the_long_form_counts_and_judges(capsys: pytest.CaptureFixture[str]) -> None:
    assert explore.main(["--piece", "doorbell", "--bounds", "0+2"]) == 0
    said = capsys.readouterr()
    assert re.match(r"1 of 1 pieces, \d+ schedules, 0 pieces wrong", said.out)
    assert "0+2" in said.err

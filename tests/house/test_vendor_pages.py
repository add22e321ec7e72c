"""Every backend of a hardware vendor has a page that is its README, and the table of their sizes is fresh."""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path
from types import ModuleType

import pytest

ROOT = Path(__file__).resolve().parents[2]
DOCS = ROOT / "docs" / "vendors"
VENDORS = sorted(path.parent.name for path in (ROOT / "backends").glob("*/vendor.yaml") if path.parent.name != "host")
PAPER = ("Hygon", "Iluvatar", "PPU", "Kunlun", "Cambricon", "Biren", "Enflame", "Ascend")


@pytest.fixture(scope="module")
def maker() -> ModuleType:
    spec = importlib.util.spec_from_file_location("backend_table", ROOT / ".ci" / "backend_table.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module


@pytest.mark.parametrize("vendor", VENDORS)
def test_each_vendor_has_a_page_that_says_how_what_and_what_not(vendor: str) -> None:
    assert f"backends/{vendor}/README.md" in (DOCS / f"{vendor}.md").read_text(encoding="utf-8")
    assert f"]({vendor}.md)" in (DOCS / "index.md").read_text(encoding="utf-8")
    text = (ROOT / "backends" / vendor / "README.md").read_text(encoding="utf-8")
    for heading in ("## Install", "## What is proved, and how", "## Limitations"):
        assert heading in text, heading


def test_the_table_of_sizes_is_fresh(maker: ModuleType) -> None:
    assert maker.main(["--check"]) == 0, "run .ci/backend_table.py"


def test_a_line_more_makes_the_table_stale(maker: ModuleType, tmp_path: Path) -> None:
    folder = tmp_path / "acme"
    folder.mkdir()
    (folder / "__init__.py").write_text("not counted\n")
    (folder / "vendor.yaml").write_text("a\nb\n")
    (folder / "runtime.py").write_text("x\n")
    before = maker.table(tmp_path)
    assert "| `acme` | 2 | 3 | 2 | 1 | 0 |" in before
    (folder / "runtime.py").write_text("x\ny\n")
    assert maker.table(tmp_path) != before
    with pytest.raises(ValueError, match="marks"):
        maker.page("no marks", before)


def test_the_paper_rows_say_a_level_and_that_they_are_paper() -> None:
    text = (DOCS / "index.md").read_text(encoding="utf-8")
    rows = [line for line in text[text.index("## On paper") :].splitlines() if line.startswith("| ")]
    for name in PAPER:
        (row,) = [line for line in rows if name in line.split("|")[1]]
        assert "on paper" in row.split("|")[3], name

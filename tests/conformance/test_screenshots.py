"""The pictures of the report: every one that the page shows is there, small and of its size; the script makes them."""

from __future__ import annotations

import importlib.util
import re
import struct
import sys
from pathlib import Path
from types import ModuleType

import pytest

from tests.conformance.reports import make, mixed
from tutti_hal.conformance_tests.report.html import render

pytestmark = pytest.mark.suite

DOCS = Path(__file__).resolve().parents[2] / "docs"


@pytest.fixture(scope="module")
def script() -> ModuleType:
    """docs/screenshots.py."""
    specification = importlib.util.spec_from_file_location("docs_screenshots", DOCS / "screenshots.py")
    assert specification is not None
    assert specification.loader is not None
    module = importlib.util.module_from_spec(specification)
    sys.modules[specification.name] = module  # dataclasses look their module up
    specification.loader.exec_module(module)
    return module


def size_of(data: bytes) -> tuple[int, int]:
    """Width and height of a PNG, from its header."""
    assert data[:8] == b"\x89PNG\r\n\x1a\n"
    width, height = struct.unpack(">II", data[16:24])
    return width, height


def test_every_picture_is_there_small_and_of_its_size(script: ModuleType) -> None:
    shown = set(re.findall(r"\]\(pictures/([^)]+)\)", (DOCS / "report.md").read_text(encoding="utf-8")))
    shots = {shot.name: (shot.width, shot.height) for shot in script.SHOTS}
    assert shown == set(shots) == {path.name for path in (DOCS / "pictures").iterdir()}
    assert {width for width, _ in shots.values()} == {390, 1280}
    for name, size in shots.items():
        data = (DOCS / "pictures" / name).read_bytes()
        assert len(data) <= script.LIMIT_BYTES <= 150_000
        assert size_of(data) == size


def test_without_a_browser_it_says_so_and_makes_none(
    script: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    assert script.main(["--to", str(tmp_path / "out")]) == 0
    assert "skipped: none of chromium" in capsys.readouterr().out
    assert not (tmp_path / "out").exists()


@pytest.mark.slow
def test_makes_them(script: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    if not any(map(script.shutil.which, script.BROWSERS)):
        pytest.skip("no chromium is installed")
    pytest.importorskip("PIL", reason="Pillow comes with matplotlib")
    monkeypatch.setattr(script, "SHOTS", script.SHOTS[3:4])
    page = tmp_path / "report.html"
    page.write_text(render(make(mixed, archs=("sim-w32",))), encoding="utf-8")
    assert script.main(["--page", str(page), "--to", str(tmp_path / "out")]) == 0
    (path,) = (tmp_path / "out").iterdir()
    assert size_of(path.read_bytes()) == (390, 844)

"""The Python in the README and the docs runs as printed, each page's blocks in order in one process."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]


def blocks(page: Path) -> list[str]:
    return re.findall(r"^```python\n(.*?)^```", page.read_text(encoding="utf-8"), flags=re.M | re.S)


@pytest.mark.parametrize("page", [p for p in PAGES if blocks(p)], ids=lambda p: p.name)
def test_snippets_run(page: Path, tmp_path: Path) -> None:
    script = tmp_path / "snippets.py"
    script.write_text("\n\n".join(blocks(page)), encoding="utf-8")
    done = subprocess.run(
        [sys.executable, "-W", "error", str(script)],
        cwd=tmp_path,
        check=False,
        capture_output=True,
        text=True,
        timeout=100,
    )
    assert done.returncode == 0, done.stderr


def test_the_readme_has_an_example_of_at_most_thirty_lines() -> None:
    (example,) = blocks(ROOT / "README.md")
    assert 5 <= len(example.splitlines()) <= 30
    assert example == (ROOT / "examples" / "ring_roundtrip.py").read_text(encoding="utf-8")


def test_every_example_runs(tmp_path: Path) -> None:
    examples = sorted((ROOT / "examples").glob("*.py"))
    assert examples
    for example in examples:
        done = subprocess.run(
            [sys.executable, "-W", "error", str(example)],
            cwd=tmp_path,
            check=False,
            capture_output=True,
            text=True,
            timeout=100,
        )
        assert done.returncode == 0, f"{example.name}: {done.stderr}"

"""Modules that tests share lie on one path: two of one name, and a test gets the other one's."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
#: Folders that a conftest puts on the path besides its own.
BESIDE = ("p2p_drivers", "benchmarks", ".ci")


def test_no_two_shared_modules_have_one_name() -> None:
    names = Counter(
        path.stem
        for path in (ROOT / "tests").rglob("*.py")
        if not path.stem.startswith("test_") and path.stem not in ("conftest", "__init__")
    )
    for folder in BESIDE:
        names.update(
            path.stem for path in (ROOT / folder).iterdir() if path.suffix == ".py" or (path / "__init__.py").is_file()
        )
    assert [name for name, count in names.items() if count > 1] == []

"""Every example runs as it stands, in a process of its own, and says what it should."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

_EXAMPLES = Path(__file__).parents[2] / "examples"
_SAID = {"ring_roundtrip.py": "moved by a kernel, not by the CPU\n"}


def test_every_example_is_tested() -> None:
    assert {path.name for path in _EXAMPLES.glob("*.py")} == set(_SAID)


@pytest.mark.parametrize("name", sorted(_SAID))
def test_example_runs(name: str) -> None:
    done = subprocess.run([sys.executable, _EXAMPLES / name], check=False, capture_output=True, text=True)
    assert (done.returncode, done.stdout, done.stderr) == (0, _SAID[name], "")


def test_the_first_example_fits_a_readme() -> None:
    assert len((_EXAMPLES / "ring_roundtrip.py").read_text().splitlines()) <= 30

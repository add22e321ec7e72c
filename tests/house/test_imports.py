"""Importing the package touches nothing heavy, and starts nothing."""

from __future__ import annotations

import subprocess
import sys

import pytest

HEAVY = ("numpy", "cffi", "jinja2", "yaml", "rich", "matplotlib", "cuda")


def modules_after(statement: str) -> set[str]:
    code = f"import sys\n{statement}\nprint(*sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True)
    return set(done.stdout.split())


def test_import_is_light() -> None:
    loaded = modules_after("import tutti_hal, tutti_hal.errors")
    assert "tutti_hal" in loaded
    assert not [name for name in HEAVY if name in loaded]


@pytest.mark.parametrize("heavy", ["numpy", "matplotlib"])
def test_help_is_light(heavy: str) -> None:
    loaded = modules_after(
        "from tutti_hal.cli.main import build_parser\nimport contextlib, io\n"
        "with contextlib.redirect_stdout(io.StringIO()), contextlib.suppress(SystemExit):\n"
        "    build_parser().parse_args(['--help'])"
    )
    assert "tutti_hal.cli.main" in loaded
    assert heavy not in loaded

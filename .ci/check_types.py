"""mypy --strict on the package as a wheel lays it out: mypy does not follow a source checkout's mapped folders."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import tomllib
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent


def main() -> int:
    """Lay the package out as the table in pyproject.toml says, run mypy over it, return its exit code."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    layout: dict[str, str] = project["tool"]["scikit-build"]["wheel"]["packages"]
    with tempfile.TemporaryDirectory() as scratch:
        package = Path(scratch) / "tutti_hal"
        package.mkdir()
        for entry in sorted((ROOT / "tutti_hal").iterdir()):
            (package / entry.name).symlink_to(entry)
        for place, source in layout.items():
            if place != "tutti_hal":
                (Path(scratch) / place).symlink_to(ROOT / source)
        command = [sys.executable, "-m", "mypy", "--config-file", str(ROOT / "pyproject.toml")]
        command += ["--cache-dir", str(ROOT / ".mypy_cache"), "-p", "tutti_hal"]
        return subprocess.run(command, check=False, cwd=scratch, env={**os.environ, "MYPYPATH": scratch}).returncode


if __name__ == "__main__":
    sys.exit(main())

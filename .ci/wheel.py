"""Build the sdist, a wheel from it, install that into a clean environment outside the checkout, run the demo."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent


def call(*command: str | Path, cwd: Path, env: dict[str, str] | None = None) -> None:
    """Run a command; raises ``CalledProcessError`` when it fails."""
    print("  $", *command, flush=True)
    subprocess.run([str(part) for part in command], check=True, cwd=cwd, env=env)


def main() -> int:
    """The whole way from source to a verified demo; 0 when every step passed."""
    with tempfile.TemporaryDirectory() as scratch:
        top = Path(scratch)
        call(sys.executable, "-m", "build", "--outdir", top / "dist", ROOT, cwd=top)
        (wheel,) = (top / "dist").glob("*.whl")
        if "-py3-none-" not in wheel.name:
            print(f"the wheel is tagged {wheel.name}: wanted py3-none-<platform>", file=sys.stderr)
            return 1
        call(sys.executable, "-m", "venv", top / "venv", cwd=top)
        python = top / "venv" / "bin" / "python"
        call(python, "-m", "pip", "install", "-q", "--disable-pip-version-check", wheel, cwd=top)
        env = {name: value for name, value in os.environ.items() if name not in ("PYTHONPATH", "TUTTI_PROFILE")}
        env["TUTTI_CACHE_DIR"] = str(top / "cache")
        call(python.parent / "tutti-hal", "demo", "--profile", "host", "--requests", "20", cwd=top, env=env)
    return 0


if __name__ == "__main__":
    sys.exit(main())

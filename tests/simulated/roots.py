"""SDK roots for tests of the compiler stand-ins alone: what the drivers need, without libraries."""

from __future__ import annotations

import json
import sys
from pathlib import Path

from tutti_hal.paths import include_dir, package_file

ARCHS = {
    "musa": {"mp_21": 128, "mp_22": 128, "mp_31": 32},
    "maca": {"xcore1000": 64, "xcore1500": 64},
    "hip": {"gfx90a": 64, "gfx942": 64, "gfx1100": 32},
}


def make(vendor: str, arch: str, sdk: str, root: Path) -> Path:
    """The stand-ins and device headers of a vendor below ``root``."""
    source = package_file("conformance_tests", "simulated", vendor) / "root"
    for file in source.rglob("*"):
        if not file.is_file() or "__pycache__" in file.parts:
            continue
        target = root / file.relative_to(source)
        target.parent.mkdir(parents=True, exist_ok=True)
        text = file.read_text(encoding="utf-8")
        if target.suffix == ".in":
            target = target.with_suffix("")
            text = text.replace("@PYTHON@", sys.executable).replace("@ROOT@", str(root))
        target.write_text(text, encoding="utf-8")
        if target.parent.name == "bin":
            target.chmod(0o755)
    about = {"vendor": vendor, "sdk": sdk, "arch": arch, "archs": ARCHS[vendor], "host_include": str(include_dir())}
    (root / "sdk.json").write_text(json.dumps(about), encoding="utf-8")
    return root

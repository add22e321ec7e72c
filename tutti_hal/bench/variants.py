"""Kernel templates that differ from the product's in a named way: copies for a baseline or for another order."""

from __future__ import annotations

import re
import shutil
from collections.abc import Sequence
from pathlib import Path

from tutti_hal.errors import BenchError
from tutti_hal.paths import package_file, templates_dir

#: (template, pattern, instead): each occurs once.
Change = tuple[str, str, str]

#: The device controller posts what it took together last one first. Its head, which all of them report, stays.
REVERSED: tuple[Change, ...] = (
    (
        "device_controller.cu.j2",
        r"device_post\(&queues\[first \+ row \* step\], at - row \* share, count,",
        "device_post(&queues[first + row * step], count - 1 - (at - row * share), count,",
    ),
)


def changed_templates(folder: Path, changes: Sequence[Change]) -> Path:
    """Copies the kernel templates below ``folder`` and changes the copy. Returns its root.

    Raises:
        BenchError: a template does not have a text that is to be changed, or has it twice.
    """
    root = folder / "templates"
    shutil.copytree(templates_dir(), root)
    for name, pattern, instead in changes:
        path = root / "kernels" / name
        text, count = re.subn(pattern, instead, path.read_text(encoding="utf-8"))
        if count != 1:
            raise BenchError(
                f"make a variant of {name}",
                f"{pattern!r} occurs {count} times in {name}",
                "Change the pattern in tutti_hal/bench/.",
            )
        path.write_text(text, encoding="utf-8")
    return root


def added_templates(folder: Path, name: str) -> Path:
    """Copies the kernel templates below ``folder`` and adds the benchmarks' own set ``name``. Returns its root."""
    root = changed_templates(folder, ())
    shutil.copy(package_file("bench", "kernels", f"{name}.cu.j2"), root / "kernels")
    shutil.copy(package_file("bench", "kernels", f"{name}.yaml"), root / "structs")
    return root

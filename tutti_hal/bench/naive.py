"""The ring's naive twin: the same kernel, with a doorbell for each command, and a request at a time for each lane."""

from __future__ import annotations

import re
import shutil
from pathlib import Path

from tutti_hal.errors import BenchError
from tutti_hal.paths import templates_dir

#: (template, pattern, instead): each occurs once.
CHANGES = (
    ("ring.cu.j2", r"RING_BURST = 8;", "RING_BURST = 1;"),
    (
        "ring_submit.j2",
        r"while \(tt_load_relaxed_dev_u64\(ring_word\(queue->marks, slot\)\)",
        "if (tt_load_relaxed_dev_u64(ring_word(queue->marks, slot))",
    ),
)


def naive_templates(folder: Path) -> Path:
    """Copies the kernel templates below ``folder`` and changes the copy. Returns its root, for ``Ring.init_queue``.

    Raises:
        BenchError: a template no longer has the text that is to be changed.
    """
    root = folder / "templates"
    shutil.copytree(templates_dir(), root)
    for name, pattern, instead in CHANGES:
        path = root / "kernels" / name
        text, count = re.subn(pattern, instead, path.read_text(encoding="utf-8"))
        if count != 1:
            raise BenchError(
                "make the naive baseline",
                f"{pattern!r} occurs {count} times in {name}",
                "Change tutti_hal/bench/naive.py.",
            )
        path.write_text(text, encoding="utf-8")
    return root

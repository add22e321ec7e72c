"""The ring's naive twin: the same kernel, with a doorbell for each command, and a request at a time for each lane."""

from __future__ import annotations

from pathlib import Path

from tutti_hal.bench.variants import Change, changed_templates

#: See `Change`.
CHANGES: tuple[Change, ...] = (
    ("ring.cu.j2", r"RING_BURST = 8;", "RING_BURST = 1;"),
    (
        "ring_submit.j2",
        r"marked = ring_marked\(queue, tail\);",
        "marked = ring_marked(queue, tail) ? 1 : 0;",
    ),
)


def naive_templates(folder: Path) -> Path:
    """Copies the kernel templates below ``folder`` and changes the copy. Returns its root, for ``Ring.init_queue``.

    Raises:
        BenchError: a template no longer has the text that is to be changed.
    """
    return changed_templates(folder, CHANGES)

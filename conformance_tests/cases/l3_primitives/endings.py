"""How a launch ends that goes wrong, or that says a great deal."""

from __future__ import annotations

import ctypes
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import numpy as np

from tutti_hal.conformance_tests.case import Observations, case
from tutti_hal.conformance_tests.observation import refusal
from tutti_hal.conformance_tests.run import Run
from tutti_hal.conformance_tests.seen import Seen

#: Bytes of output that overrun the buffer of every vendor known: theirs are of a megabyte.
_PRINTED_BYTES = 4 << 20
_LINE_BYTES = 64


@case(
    "prim/trap",
    level="L3",
    clauses=("prim.trap.fails_launch",),
    axes={"victim": ("first", "last")},
    kernels=("probe_control",),
    primitives=("control.trap", "store.relaxed.system.u32"),
    fails_device=True,
)
def trap(run: Run) -> Observations:
    """A launch without a victim ends well; in a second one a thread traps between two stores.

    The device has failed afterwards and gives back no memory: the stores are looked for in host memory, where there is
    such.
    """
    count, blocks = run.facts.wave_width + 1, 2
    total = count * blocks
    victim = 0 if run.axes["victim"] == "first" else total - 1
    mapped = run.facts.capabilities["memory.mapped"]
    rows = run.buffer(total * 4, "mapped" if mapped else "device")
    kernel = run.kernel("probe_control", "control_trap")
    spared = refusal(lambda: run.launch(kernel, blocks, count, rows, total))
    ran = run.read(rows, np.uint32)
    run.stream.fill(rows, 0)
    run.stream.synchronize()
    view = rows.numpy(np.uint32) if mapped else None
    failed = refusal(lambda: run.launch(kernel, blocks, count, rows, victim))
    seen = {"spared": spared, "ran": ran, "failed": failed, "victim": victim}
    return seen if view is None else {**seen, "left": view.copy()}


@trap.judge
def _(seen: Seen) -> None:
    clause = "prim.trap.fails_launch"
    seen.equal(clause, "a launch in which nobody traps", seen["spared"], {"refused": False})
    seen.equal(clause, "threads that went through", seen["ran"], np.full(len(seen["ran"]), 2, np.uint32))
    seen.refused(clause, "a launch in which one thread traps", seen["failed"], "LaunchFailed")
    if "left" in seen:
        left = int(seen["left"][seen["victim"]])
        seen.holds(clause, "the victim stored nothing after its trap", left in (0, 1), left)


@case(
    "prim/print",
    level="L3",
    clauses=("prim.print.does_not_block",),
    needs=("debug.print",),
    kernels=("probe_control",),
    primitives=("debug.print",),
)
def print_(run: Run) -> Observations:
    """Four megabytes are printed, and every thread comes through.

    The text goes to a file of the case's own: it is for people, and may be cut short.
    """
    blocks, count = 8, 128
    lines = _PRINTED_BYTES // _LINE_BYTES // (blocks * count)
    through = run.buffer(4, "device")
    with _output_to(run.scratch / "printed"):
        ended = refusal(lambda: run.launch(run.kernel("probe_control", "control_print"), blocks, count, through, lines))
    return {"ended": ended, "threads": blocks * count, "through": int(run.read(through, np.uint32)[0])}


@contextmanager
def _output_to(path: Path) -> Iterator[None]:
    """Send what this process writes to standard output, C's buffer with it, to a file for a while."""
    library = ctypes.CDLL(None)
    library.fflush(None)
    kept = os.dup(1)
    try:
        with path.open("wb") as file:
            os.dup2(file.fileno(), 1)
        yield
    finally:
        library.fflush(None)
        os.dup2(kept, 1)
        os.close(kept)


@print_.judge
def _(seen: Seen) -> None:
    clause = "prim.print.does_not_block"
    seen.equal(clause, "how the launch ended", seen["ended"], {"refused": False})
    seen.equal(clause, "threads that came through", seen["through"], seen["threads"])

"""Loads of a register."""

from __future__ import annotations

import mmap

import numpy as np

from tutti_hal.conformance_tests.case import Observations, case
from tutti_hal.conformance_tests.cases.l3_primitives.grids import UNTOUCHED32, worlds
from tutti_hal.conformance_tests.run import Run
from tutti_hal.conformance_tests.seen import Seen
from tutti_hal.errors import TuttiError

_LAST = 6
#: Notes that a watcher may make: more than there are values, so that one that goes back is noted too.
_NOTES = 64
#: When it gives up.
_PATIENCE_NS = 2_000_000_000


@case(
    "prim/mmio.load",
    level="L3",
    clauses=("prim.mmio.load.once",),
    needs=("memory.register_mmio", "memory.mapped"),
    kernels=("probe_memory",),
    primitives=("mmio.*", "fence.system", "time.sleep", "time.pause"),
)
def mmio_load(run: Run) -> Observations:
    """A thread reads back what it stored to a register; another, of another block, sees the register change.

    The register is a page of the process's own memory, registered as a device's; where a vendor registers true device
    pages only, it is a word of mapped host memory, as software controllers have them.
    """
    page = mmap.mmap(-1, mmap.PAGESIZE)  # not closed by hand: a refused registration may still hold it
    try:
        registers = run.closing.enter_context(run.device.register(page, mmio=True))
    except TuttiError:
        registers = run.buffer(mmap.PAGESIZE, "mapped")
    echoes, watches = [], []
    for index, _ in enumerate(worlds(run, each=2)):
        echo = run.buffer(_LAST * 4, "device")
        run.launch(run.kernel("probe_memory", "mmio_echo"), 1, 1, registers[index * 8 : index * 8 + 4], echo, _LAST)
        echoes.append(run.read(echo, np.uint32))
        watch = run.buffer(_NOTES * 4, "device", fill=0xFF)
        one = registers[index * 8 + 4 : index * 8 + 8]
        run.launch(run.kernel("probe_memory", "mmio_watch"), 2, 1, one, watch, _LAST, _NOTES, _PATIENCE_NS)
        watches.append(run.read(watch, np.uint32))
    return {"echoes": np.stack(echoes), "watches": np.stack(watches)}


@mmio_load.judge
def _(seen: Seen) -> None:
    clause = "prim.mmio.load.once"
    for echo in seen["echoes"]:
        seen.equal(clause, "a register read back after each store", echo, np.arange(1, _LAST + 1, dtype=np.uint32))
    for watch in seen["watches"]:
        read = watch[watch != UNTOUCHED32]
        ordered = len(read) > 0 and (np.diff(read.astype(np.int64)) >= 0).all()
        seen.holds(clause, "a register that counts up is never seen to go back", ordered, read[:16].tolist(), read)
        last = int(read[-1]) if len(read) else None
        seen.equal(clause, "what a watcher saw last", last, _LAST)

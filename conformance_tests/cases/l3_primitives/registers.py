"""Loads of a register."""

from __future__ import annotations

import mmap

import numpy as np

from tutti_hal.conformance_tests.case import Observations, case
from tutti_hal.conformance_tests.cases.l3_primitives.grids import UNTOUCHED32, worlds
from tutti_hal.conformance_tests.run import Run
from tutti_hal.conformance_tests.seen import Seen
from tutti_hal.conformance_tests.verdict import SkipReason

_LAST = 6
#: Loads after which a watcher gives up: a register that is seen at all is seen long before.
_READS = 4096


@case(
    "prim/mmio.load",
    level="L3",
    clauses=("prim.mmio.load.once",),
    needs=("memory.register_mmio",),
    kernels=("probe_memory",),
    primitives=("mmio.*", "fence.system", "time.sleep", "time.pause"),
)
def mmio_load(run: Run) -> Observations:
    """A thread reads back what it stored to a register; another, of another block, sees the register change.

    The register is a page of the process's own memory, registered as a device's. A vendor that registers true device
    pages only cannot show this without a device: there the case is skipped for the machine.
    """
    page = run.closing.enter_context(mmap.mmap(-1, mmap.PAGESIZE))
    try:
        registers = run.closing.enter_context(run.device.register(page, mmio=True))
    except RuntimeError as error:
        run.skip(SkipReason.MACHINE, f"no page of ordinary memory is taken as a register page: {error}")
    echoes, watches = [], []
    for index, _ in enumerate(worlds(run, each=2)):
        echo = run.buffer(_LAST * 4, "device")
        run.launch(run.kernel("probe_memory", "mmio_echo"), 1, 1, registers[index * 8 : index * 8 + 4], echo, _LAST)
        echoes.append(run.read(echo, np.uint32))
        watch = run.buffer(_READS * 4, "device", fill=0xFF)
        one = registers[index * 8 + 4 : index * 8 + 8]
        run.launch(run.kernel("probe_memory", "mmio_watch"), 2, 1, one, watch, _LAST, _READS)
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
        seen.equal(clause, f"what a watcher saw last, within {_READS} loads", last, _LAST)

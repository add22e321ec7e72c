"""Data by the ring's kernels, on queue pairs beside the kernel's own driver, compared with what that driver sees."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from tutti_hal.conformance_tests.beside import PLACES, SPOILT, attached, fill, get, pages, put, stock_read, stock_write
from tutti_hal.conformance_tests.case import Observations, case
from tutti_hal.conformance_tests.cases.l7_p2p.terms import BUDGET_S, NO_MUTANT, real
from tutti_hal.conformance_tests.oracle.nvme import PAGE, SQE_BYTES
from tutti_hal.conformance_tests.seen import Seen

if TYPE_CHECKING:
    from tutti_hal.conformance_tests.run import Run
    from tutti_hal.io_uring import Ring
    from tutti_hal.nvme.kernel_controller import KernelController

#: Where on the drive, in bytes.
_AT = 32 << 20
#: Of each request, in pages; a hole of a page follows each. All together several rounds of the queue.
_PAGES = (1, 2, 3, 8, 1, 16, 1, 5) * 3
_DEPTH = 8


@case(
    "beside/data",
    level="L7",
    clauses=("beside.queue.anywhere", "beside.data.read_exact", "beside.data.write_exact", "beside.data.pointers"),
    kernels=("ring",),
    axes={"rings": PLACES, "data": PLACES, "pointers": ("prp", "sgl")},
    budget_s=BUDGET_S,
    only=real,
    no_mutant=NO_MUTANT,
)
def data(run: Run) -> Observations:
    """The ring's kernels move data both ways, for each place of rings and data, and the kernel's driver agrees."""
    import numpy as np

    from tutti_hal.io_uring import Drive, Ring, RingOptions

    sgl = run.axes["pointers"] == "sgl"
    sizes = np.array(_PAGES) * PAGE
    offsets = np.concatenate([[0], np.cumsum(sizes + PAGE)[:-1]])
    span = int(offsets[-1] + sizes[-1] + PAGE)
    with attached(run) as drive:
        place = pages(run, drive, str(run.axes["rings"]))
        options = RingOptions(
            depth=_DEPTH, lanes=12, block=6, batch_limit=64, buffers=4, limit_ns=60_000_000_000, use_sgl=sgl
        )
        over = Drive(handle=drive, dma=drive.host_pages, sq_dma=place, cq_dma=place, namespaces=(1,))
        memory = pages(run, drive, str(run.axes["data"])).allocate(span)
        run.closing.callback(memory.close)
        with Ring.init_queue(run.device, [over], options, templates=run.subject.templates) as ring:
            buffer = ring.register(memory, piece=PAGE if sgl else None)
            block = ring.targets[0].block_bytes
            where = {"lba": (_AT + offsets) // block, "offset": offsets, "nbytes": sizes}
            held, source, fresh = (run.random.integers(0, 256, span, np.uint8) for _ in range(3))
            stock_write(drive.name, _AT, held)
            put(run, memory, source)
            written = _submit(ring, "write", buffer, where)
            stored = stock_read(drive.name, _AT, span)
            kept = get(run, memory)[:span]
            stock_write(drive.name, _AT, fresh)
            fill(run, memory)
            read = _submit(ring, "read", buffer, where)
            return {
                "sizes": sizes,
                "offsets": offsets,
                "held": held,
                "source": source,
                "stored": stored,
                "kept": kept,
                "fresh": fresh,
                "memory": get(run, memory),
                "written": written,
                "read": read,
                "psdt": _psdt(drive),
                "has_sgl": drive.limits.sgl.usable,
            }


def _submit(ring: Ring, verb: str, buffer: Any, where: dict[str, Any]) -> dict[str, Any]:
    import numpy as np

    from tutti_hal.io_uring import State

    iocb = ring.get_iocb()
    getattr(iocb, verb)(target=ring.targets[0], buffer=buffer, **where)
    ring.issue_io(iocb)
    done = ring.wait_cqe(iocb)
    return {
        "state": [State(value).name for value in done["state"]],
        "status": np.stack([done["sct"], done["sc"]], axis=1),
    }


def _psdt(drive: KernelController) -> list[int]:
    """How the commands that still lie in the submission queue name their data (bits 15:14 of dword 0)."""
    raw = drive.pairs[0].sq_memory.read(0, _DEPTH * SQE_BYTES)
    return [raw[at + 1] >> 6 for at in range(0, len(raw), SQE_BYTES)]


@data.judge
def _(seen: Seen) -> None:
    import numpy as np

    count = len(_PAGES)
    for verb, clause in (("written", "beside.data.write_exact"), ("read", "beside.data.read_exact")):
        seen.equal("beside.queue.anywhere", f"requests {verb}", seen[verb]["state"], ["COMPLETED"] * count)
        seen.equal(clause, f"each status of what was {verb}", seen[verb]["status"], np.zeros((count, 2), np.uint8))
    stored, memory = seen["held"].copy(), np.full(len(seen["memory"]), SPOILT, np.uint8)
    for at, size in zip(seen["offsets"], seen["sizes"], strict=True):
        stored[at : at + size] = seen["source"][at : at + size]
        memory[at : at + size] = seen["fresh"][at : at + size]
    seen.equal("beside.data.write_exact", "bytes on the drive, by the kernel's driver", seen["stored"], stored)
    seen.equal("beside.data.write_exact", "bytes that were written from", seen["kept"], seen["source"])
    seen.equal("beside.data.read_exact", "bytes in memory after the read", seen["memory"], memory)
    wanted = 1 if seen.axes["pointers"] == "sgl" and seen["has_sgl"] else 0
    seen.equal("beside.data.pointers", "how commands named their data", seen["psdt"], [wanted] * _DEPTH)

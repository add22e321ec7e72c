"""Fills: exactly the bytes asked for, each the low byte of the value."""

from __future__ import annotations

from tutti_hal.conformance_tests.case import Observations, case
from tutti_hal.conformance_tests.cases.l2_host.gates import held_stream
from tutti_hal.conformance_tests.cases.l2_host.raw import kinds_of, pointer
from tutti_hal.conformance_tests.run import Run
from tutti_hal.conformance_tests.seen import Seen

_BYTES = 1200


def _kinds(capabilities: dict[str, bool]) -> tuple[str, ...]:
    return tuple(kind for kind in kinds_of(capabilities) if kind != "pinned")  # which kernels and fills do not reach


@case("host/fill.exact", level="L2", clauses=("host.fill.exact",), calls=("Memset", "MemsetAsync"))
def exact(run: Run) -> Observations:
    """Fills at odd places, of odd sizes and with wide values, by either call, in every kind of memory."""
    import numpy as np

    device = run.device
    start = run.random.integers(0, 256, _BYTES, np.uint8)
    rows = {}
    for kind in _kinds(dict(run.facts.capabilities)):
        memory = run.array(start, kind)
        fills = []
        for index, value in enumerate((0, 0xA5, 0xFF, 0x1FF, -2, 0x12345678)):
            size = (1, 2, 3, 5, 17, 333)[index]
            for call in ("Memset", "MemsetAsync"):
                at = int(run.random.integers(0, _BYTES - size + 1))
                fills.append([at, value, size])
                more = () if call == "Memset" else (run.stream.handle,)
                with device.current():
                    device.call(call, pointer(device, memory.address + at), value, size, *more)
                run.stream.synchronize()
        rows[kind] = {"fills": fills, "found": run.read(memory, "u1")}
    return {"start": start, "rows": rows}


@exact.judge
def _(seen: Seen) -> None:
    clause = "host.fill.exact"
    seen.equal(clause, "kinds", list(seen["rows"]), list(_kinds(dict(seen.facts.capabilities))))
    for kind, row in seen["rows"].items():
        wanted = seen["start"].copy()
        for at, value, size in row["fills"]:
            wanted[at : at + size] = value & 0xFF
        seen.equal(clause, f"{kind} memory after the fills", row["found"], wanted)


@case(
    "host/fill.beside_kernel",
    level="L2",
    clauses=("host.fill.exact",),
    kernels=("probe_host",),
    needs=("memory.mapped",),
    calls=("MemsetAsync",),
)
def beside_kernel(run: Run) -> Observations:
    """A fill on one stream is exact while a kernel runs on another."""
    memory = run.buffer(_BYTES)
    with held_stream(run) as gate, run.device.create_stream() as free:
        ran = gate.runs()
        free.fill(memory[5:1003], 0x9C)
        free.fill(memory[7:8], 0x01)
        free.synchronize()
        held = gate.answer == 0
    return {"ran": ran and held, "found": run.read(memory, "u1")}


@beside_kernel.judge
def _(seen: Seen) -> None:
    import numpy as np

    if not seen["ran"]:
        seen.inconclusive("no kernel ran beside the fill")
    wanted = np.zeros(_BYTES, np.uint8)
    wanted[5:1003] = 0x9C
    wanted[7] = 1
    seen.equal("host.fill.exact", "the memory", seen["found"], wanted)

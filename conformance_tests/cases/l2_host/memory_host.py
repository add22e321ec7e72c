"""Memory that the host reaches too: pinned, mapped, managed, registered; and what is said of addresses."""

from __future__ import annotations

import mmap
from typing import Any

from tutti_hal.conformance_tests.case import Observations, case
from tutti_hal.conformance_tests.cases.l2_host.gates import LOST_PATIENCE, held_stream
from tutti_hal.conformance_tests.cases.l2_host.raw import ask, locked_kib, out
from tutti_hal.conformance_tests.run import Run
from tutti_hal.conformance_tests.seen import Seen
from tutti_hal.conformance_tests.verdict import SkipReason

_PAGE = mmap.PAGESIZE


def _can_lock(nbytes: int) -> bool:
    """Whether the kernel lets a process of this kind lock so much."""
    with mmap.mmap(-1, nbytes) as pages:
        import ctypes

        libc = ctypes.CDLL(None, use_errno=True)
        address = ctypes.addressof(ctypes.c_char.from_buffer(pages))
        locked = bool(libc.mlock(ctypes.c_void_p(address), ctypes.c_size_t(nbytes)) == 0)
        if locked:
            libc.munlock(ctypes.c_void_p(address), ctypes.c_size_t(nbytes))
    return locked


@case(
    "host/memory.pinned",
    level="L2",
    clauses=("host.memory.pinned_is_pinned",),
    needs=("memory.pinned",),
    calls=("MallocHost", "HostAlloc", "FreeHost", "HostGetFlags", "HostGetLocked"),
)
def pinned(run: Run) -> Observations:
    """Pinned memory is locked as far as anybody tells, and said to be host memory with the flags it was asked for."""
    device, claims = run.device, run.facts.capabilities
    size = 16 * _PAGE
    if claims["memory.lock_state"] and not _can_lock(size):
        run.skip(SkipReason.MACHINE, "the kernel lets no page be locked here (RLIMIT_MEMLOCK)")
    flags = device.runtime.constant("HostAllocFlags", "Mapped") if claims["memory.mapped"] else 0
    rows: dict[str, Any] = {}
    for name, more in (("MallocHost", ()), ("HostAlloc", (flags,))):
        before = locked_kib()
        room = out(device, "void **")
        with device.current():
            device.call(name, room, size, *more)
        row: dict[str, Any] = {"locked_kib": locked_kib() - before}
        if claims["memory.lock_state"]:
            locked, refused = out(device, "int *"), out(device, "int *")
            device.call("HostGetLocked", locked, refused, room[0])
            row["lock_state"] = [int(locked[0]), int(refused[0])]
        if claims["memory.pointer_attributes"]:
            told = out(device, "PointerAttributes[8]")
            device.call("PointerGetAttributes", told, room[0])
            row["type"] = int(told[0].type)
        if claims["memory.mapped"]:
            found = out(device, "unsigned int *")
            row["asked"] = sum(more)
            row["told"] = int(found[0]) if not ask(device, "HostGetFlags", found, room[0])["refused"] else -1
        with device.current():
            device.call("FreeHost", room[0])
        row["locked_kib_after"] = locked_kib() - before
        rows[name] = row
    host = device.runtime.constant("MemoryType", "Host") if claims["memory.pointer_attributes"] else 0
    return {"rows": rows, "kib": size // 1024, "host": host}


@pinned.judge
def _(seen: Seen) -> None:
    clause, claims = "host.memory.pinned_is_pinned", seen.facts.capabilities
    for name, row in seen["rows"].items():
        seen.equal(clause, f"memory of {name} that stays locked after its free", row["locked_kib_after"], 0)
        if claims["memory.lock_state"]:
            seen.equal(clause, f"the lock state of {name}, and the errno of a refusal", row["lock_state"], [1, 0])
            seen.equal(clause, f"KiB that the kernel locked for {name}", row["locked_kib"], seen["kib"])
        if claims["memory.pointer_attributes"]:
            seen.equal(clause, f"the kind of memory of {name}", row["type"], seen["host"])
        if claims["memory.mapped"]:
            seen.equal(clause, f"the flags of {name} that were asked for", row["told"] & row["asked"], row["asked"])


@case(
    "host/memory.mapped",
    level="L2",
    clauses=("host.memory.mapped_shared",),
    kernels=("probe_host",),
    needs=("memory.mapped",),
    calls=("HostAlloc", "HostGetDevicePointer"),
)
def mapped(run: Run) -> Observations:
    """While a kernel runs, the host sees its stores, and it sees the host's."""
    rows = []
    for _ in run.schedules(4):
        with held_stream(run) as gate:
            ran = gate.runs()
            still = [not gate.stream.query(), gate.answer]
            gate.open(41)
            gate.stream.synchronize()
            rows.append([ran, *still, gate.answer])
    return {"rows": rows}


@mapped.judge
def _(seen: Seen) -> None:
    clause = "host.memory.mapped_shared"
    for ran, running, before, answer in seen["rows"]:
        seen.equal(
            clause, "whether the host saw the kernel's store while it ran", [ran, running, before], [True, True, 0]
        )
        seen.equal(clause, "what the kernel read of the host's store", answer - LOST_PATIENCE, 41)


@case(
    "host/memory.managed",
    level="L2",
    clauses=("host.memory.managed_both_sides",),
    kernels=("probe_host",),
    needs=("memory.managed",),
    calls=("MallocManaged",),
)
def managed(run: Run) -> Observations:
    """Host and kernels take turns at managed memory, and each sees what the other left."""
    import numpy as np

    from tutti_hal.shim import LaunchConfig

    count = 3000
    start = run.random.integers(0, 1 << 32, count, np.uint32)
    memory = run.closing.enter_context(run.device.allocate(4 * count, "managed"))
    view = memory.numpy(np.uint32)
    view[:] = start
    turns = []
    for turn in range(3):
        run.stream.launch(LaunchConfig(4, 128), run.kernel("probe_host", "host_double"), memory, count)
        run.stream.synchronize()
        turns.append(view.copy())
        view[turn::3] += np.uint32(turn + 1)
    copied = run.read(memory, np.uint32)
    del view
    return {"start": start, "turns": turns, "copied": copied}


@managed.judge
def _(seen: Seen) -> None:
    import numpy as np

    clause, wanted = "host.memory.managed_both_sides", seen["start"].copy()
    for turn, found in enumerate(seen["turns"]):
        wanted = wanted * np.uint32(2)
        seen.equal(clause, f"what the host read after turn {turn}", found, wanted)
        wanted[turn::3] += np.uint32(turn + 1)
    seen.equal(clause, "what a copy read at the end", seen["copied"], wanted)

"""Allocations: what they give, what they refuse, and what they take back."""

from __future__ import annotations

import itertools
from typing import Any

from tutti_hal.conformance_tests.case import Observations, case
from tutti_hal.conformance_tests.cases.l2_host.gates import OPENED, held_stream, long_beside_a_call, peek
from tutti_hal.conformance_tests.cases.l2_host.raw import FAR_TOO_MUCH, ask, kinds_of, out, pointer
from tutti_hal.conformance_tests.observation import refusal
from tutti_hal.conformance_tests.run import Run
from tutti_hal.conformance_tests.seen import Seen

#: Bytes to which the contract aligns an allocation.
_ALIGNMENT = 256


@case("host/memory.allocate", level="L2", clauses=("host.memory.allocate",), calls=("Malloc", "Free"))
def allocate(run: Run) -> Observations:
    """Allocations of every kind and of odd sizes lie apart, aligned, and hold what is put into each of their bytes."""
    import numpy as np

    device, stream = run.device, run.stream
    sizes = [1, 3, 255, 4096, 4097, *(int(n) for n in run.random.integers(1, 70_000, 3)), (1 << 18) + 1]
    live = [
        (kind, run.closing.enter_context(device.allocate(size, kind)))
        for size in sizes
        for kind in kinds_of(run.facts.capabilities)
    ]
    for index, (_, memory) in enumerate(live):
        stream.copy(memory, np.full(memory.nbytes, index + 1, np.uint8))
    rows = []
    for kind, memory in live:
        data = np.zeros(memory.nbytes, np.uint8)
        stream.copy(data, memory)
        rows.append([kind, memory.nbytes, memory.copy_address, int(data.min()), int(data.max())])
    return {"sizes": sizes, "rows": rows}


@allocate.judge
def _(seen: Seen) -> None:
    clause, kinds = "host.memory.allocate", kinds_of(seen.facts.capabilities)
    wanted = [[kind, size] for size in seen["sizes"] for kind in kinds]
    seen.equal(clause, "kinds and sizes", [row[:2] for row in seen["rows"]], wanted)
    spans = sorted((address, address + size) for _, size, address, *_ in seen["rows"])
    apart = all(first[1] <= second[0] for first, second in itertools.pairwise(spans))
    seen.holds(clause, "no two live allocations overlap", apart, spans, spans)
    wrong = [row for row in seen["rows"] if row[2] % _ALIGNMENT or not row[2]]
    seen.holds(clause, f"each begins at a multiple of {_ALIGNMENT}", not wrong, wrong, spans)
    spoiled = [row for index, row in enumerate(seen["rows"]) if row[3:] != [index + 1] * 2]
    seen.holds(clause, "each holds its own bytes after all were filled", not spoiled, spoiled, spans)


@case("host/memory.exhausted", level="L2", clauses=("host.memory.exhausted",), calls=("Malloc:MemoryAllocation",))
def exhausted(run: Run) -> Observations:
    """What does not fit is refused, whatever its kind, and a small allocation then succeeds and works."""
    import numpy as np

    device = run.device
    before = device.memory_info()
    seen = {}
    for kind in kinds_of(run.facts.capabilities):
        refused = [refusal(lambda kind=kind: device.allocate(FAR_TOO_MUCH, kind))]  # type: ignore[misc]
        if kind == "device":
            refused.append(refusal(lambda: device.allocate(before.total + 1)))
        info = device.memory_info()
        with device.allocate(4096, kind) as small:
            data = np.zeros(4096, np.uint8)
            run.stream.copy(small, np.full(4096, 0x3C, np.uint8))
            run.stream.copy(data, small)
        seen[kind] = {"refused": refused, "free": info.free, "small": data}
    return {"free": before.free, "kinds": seen}


@exhausted.judge
def _(seen: Seen) -> None:
    import numpy as np

    clause, kinds = "host.memory.exhausted", kinds_of(seen.facts.capabilities)
    seen.equal(clause, "kinds", list(seen["kinds"]), list(kinds))
    for kind, one in seen["kinds"].items():
        for refused in one["refused"]:
            seen.refused(clause, f"far too much {kind} memory", refused, "OutOfMemory", "MemoryAllocation")
        seen.equal(clause, f"free memory after the refusal of {kind}", one["free"], seen["free"])
        seen.equal(clause, f"a small allocation of {kind} after it", one["small"], np.full(4096, 0x3C, np.uint8))


@case("host/memory.zero_bytes", level="L2", clauses=("host.memory.zero_bytes",), calls=("Malloc", "Free"))
def zero_bytes(run: Run) -> Observations:
    """Zero bytes give a null address and no error, and freeing null is none either."""
    device = run.device
    before = device.memory_info().free
    wanted: list[tuple[str, tuple[Any, ...]]] = [("Malloc", ())]
    frees = ["Free"]
    if run.facts.capabilities["memory.pinned"]:
        wanted += [("HostAlloc", (0,)), ("MallocHost", ())]
        frees.append("FreeHost")
    made = {}
    for name, more in wanted:
        room = out(device, "void **")
        room[0] = pointer(device, 0x5A5A)
        refused = ask(device, name, room, 0, *more)
        made[name] = [refused, int(device.runtime.ffi.cast("uintptr_t", room[0]))]
    freed = {name: ask(device, name, device.runtime.ffi.NULL) for name in frees}
    shim = refusal(lambda: device.allocate(0))
    return {"made": made, "freed": freed, "shim": shim, "free": [before, device.memory_info().free]}


@zero_bytes.judge
def _(seen: Seen) -> None:
    clause = "host.memory.zero_bytes"
    for name, (refused, address) in seen["made"].items():
        seen.equal(clause, f"{name} of zero bytes", refused, {"refused": False})
        seen.equal(clause, f"the address that {name} gave", address, 0)
    for name, refused in seen["freed"].items():
        seen.equal(clause, f"{name} of null", refused, {"refused": False})
    seen.refused(clause, "a buffer of zero bytes", seen["shim"], "InvalidArgument")
    seen.equal(clause, "free memory after it", seen["free"][1], seen["free"][0])


@case("host/memory.free_once", level="L2", clauses=("host.memory.free_once",), calls=("Free:InvalidValue",))
def free_once(run: Run) -> Observations:
    """Nothing is freed but a live allocation, at its beginning, by the call for its kind, and once."""
    device = run.device
    memory = run.buffer(4096, "device", fill=0x77)
    gone = device.allocate(4096)
    address = pointer(device, gone.address)
    first = ask(device, "Free", address)
    tries = {
        "twice": ask(device, "Free", address),
        "inside": ask(device, "Free", pointer(device, memory.address + 256)),
        "last byte": ask(device, "Free", pointer(device, memory.address + 4095)),
        "host": ask(device, "Free", out(device, "char[]", 64)),
        "nowhere": ask(device, "Free", pointer(device, 0x1000)),
    }
    if run.facts.capabilities["memory.pinned"]:
        pinned = device.allocate(4096, "pinned")
        host = pointer(device, pinned.host_address)
        tries["pinned by Free"] = ask(device, "Free", host)
        tries["device by FreeHost"] = ask(device, "FreeHost", pointer(device, memory.address))
        tries["pinned inside"] = ask(device, "FreeHost", pointer(device, pinned.host_address + 64))
        pinned.close()
        tries["pinned twice"] = ask(device, "FreeHost", host)
    closed = refusal(gone.close)  # the shim frees it once more, and says what the vendor said
    return {"first": first, "tries": {**tries, "by the shim": closed}, "left": run.read(memory, "u1")}


@free_once.judge
def _(seen: Seen) -> None:
    import numpy as np

    clause = "host.memory.free_once"
    seen.equal(clause, "the first free", seen["first"], {"refused": False})
    for name, one in seen["tries"].items():
        seen.refused(clause, f"a free: {name}", one, "InvalidArgument", "InvalidValue")
    seen.equal(clause, "a live allocation beside them", seen["left"], np.full(4096, 0x77, np.uint8))
    wanted = 6 + 4 * seen.facts.capabilities["memory.pinned"]
    seen.equal(clause, "how many frees were tried", len(seen["tries"]), wanted)


@case(
    "host/memory.free_waits",
    level="L2",
    clauses=("host.memory.free_waits",),
    kernels=("probe_host",),
    needs=("memory.mapped",),
    axes={"kind": ("device", "mapped")},
)
def free_waits(run: Run) -> Observations:
    """A free of memory on which a kernel still works returns only after that kernel and the copy behind it."""
    import numpy as np

    from tutti_hal.shim import LaunchConfig

    stream, late = run.stream, run.kernel("probe_host", "host_late")
    for nanoseconds in long_beside_a_call(run):
        memory = run.device.allocate(1024, str(run.axes["kind"]))
        result, stamp = run.buffer(1024), run.buffer(4)
        stream.launch(LaunchConfig(1, 32), late, memory, 256, 0x1234567, nanoseconds)
        stream.launch(LaunchConfig(1, 256), run.kernel("probe_host", "host_copy"), memory, result, 256)
        stream.launch(LaunchConfig(1, 1), late, stamp, 1, 9, 0)
        before = peek(run, stamp)
        memory.close()
        # Looked at without any further call that could wait.
        at_once = [peek(run, result, 4 * index) for index in (0, 100, 255)]
        done = peek(run, stamp)
        if before == 0:
            break
    return {"before": before, "at_once": at_once, "done": done, "result": run.read(result, np.uint32)}


@free_waits.judge
def _(seen: Seen) -> None:
    import numpy as np

    clause = "host.memory.free_waits"
    if seen["before"] != 0:
        seen.inconclusive("the work had ended before the memory was freed")
    seen.equal(clause, "what the work had stored when the free returned", seen["at_once"], [0x1234567] * 3)
    seen.equal(clause, "whether the stream's work had ended when the free returned", seen["done"], 9)
    seen.equal(clause, "the result of the work", seen["result"], np.full(256, 0x1234567, np.uint32))


@case("host/memory.info", level="L2", clauses=("host.memory.info",), calls=("MemGetInfo",))
def info(run: Run) -> Observations:
    """Free memory falls by what is allocated, and comes back."""
    device = run.device
    rows = []
    sizes = [int(n) << 20 for n in run.random.integers(8, 64, 3)]
    before = device.memory_info()
    for size in sizes:
        with device.allocate(size):
            during = device.memory_info()
        after = device.memory_info()
        rows.append([size, during.free, during.total, after.free, after.total])
    return {"before": [before.free, before.total], "rows": rows}


@info.judge
def _(seen: Seen) -> None:
    clause, (free, total) = "host.memory.info", seen["before"]
    seen.holds(clause, "free memory does not exceed the total", 0 < free <= total, [free, total])
    for size, during, during_total, after, after_total in seen["rows"]:
        seen.holds(clause, f"it fell by at least {size}", free - during >= size, [free, during])
        seen.holds(clause, f"it fell by no more than {size} and a granule", free - during <= size + (4 << 20), during)
        seen.equal(clause, "free memory after the free", after, free)
        seen.equal(clause, "the total, before and after", [during_total, after_total], [total, total])


@case(
    "host/memory.pools",
    level="L2",
    clauses=("host.memory.pool_order",),
    kernels=("probe_host",),
    needs=("memory.pools", "memory.mapped"),
    calls=("MallocAsync", "FreeAsync", "FreeAsync:InvalidValue"),
)
def pools(run: Run) -> Observations:
    """Memory of a stream is used by its later work, and nobody else gets it before that work has ended."""
    import numpy as np

    from tutti_hal.shim import LaunchConfig

    device = run.device
    size, count = 1 << 13, 1 << 11
    result = run.buffer(size)
    room = out(device, "void **")
    with device.current(), held_stream(run) as gate, device.create_stream() as beside:
        stream = gate.stream
        device.call("MallocAsync", room, size, stream.handle)
        memory = int(device.runtime.ffi.cast("uintptr_t", room[0]))
        stream.launch(LaunchConfig(8, 256), run.kernel("probe_host", "host_count"), memory, count, 5)
        stream.launch(LaunchConfig(8, 256), run.kernel("probe_host", "host_copy"), memory, result, count)
        device.call("FreeAsync", room[0], stream.handle)
        again = [ask(device, "FreeAsync", room[0], stream.handle), ask(device, "Free", room[0])]
        others = []
        for _ in range(4):
            device.call("MallocAsync", room, size, beside.handle)
            device.call("MemsetAsync", room[0], 0xEE, size, beside.handle)
            others.append(room[0])
        ran = gate.runs()
        gate.open()
        stream.synchronize()
        for other in others:
            device.call("FreeAsync", other, beside.handle)
        beside.synchronize()
        held = gate.answer
    return {"ran": ran, "held": held, "again": again, "result": run.read(result, np.uint32)}


@pools.judge
def _(seen: Seen) -> None:
    import numpy as np

    clause = "host.memory.pool_order"
    if not seen["ran"] or seen["held"] != OPENED:
        seen.inconclusive("the stream was not held back while others allocated")
    wanted = np.arange(5, 5 + (1 << 11), dtype=np.uint32)
    seen.equal(clause, "what the stream's work left", seen["result"], wanted)
    for name, one in zip(("FreeAsync", "Free"), seen["again"], strict=True):
        seen.refused(clause, f"{name} after the free in stream order", one, "InvalidArgument", "InvalidValue")

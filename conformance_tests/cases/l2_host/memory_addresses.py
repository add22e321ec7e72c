"""What is said of an address: its kind, its device, its allocation; and how a range is handed to others."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

from tutti_hal.conformance_tests.case import Observations, case
from tutti_hal.conformance_tests.cases.l2_host.gates import said
from tutti_hal.conformance_tests.cases.l2_host.raw import ask, kinds_of, out, pointer
from tutti_hal.conformance_tests.run import Run
from tutti_hal.conformance_tests.seen import Seen


@case(
    "host/memory.pointers",
    level="L2",
    clauses=("host.memory.pointer_kind", "host.memory.address_range"),
    needs=("memory.pointer_attributes",),
    calls=("PointerGetAttributes", "MemGetAddressRange"),
)
def pointers(run: Run) -> Observations:
    """Every kind of memory is told from the others, anywhere in it, with its device, its beginning and its size."""
    device, ffi = run.device, run.device.runtime.ffi
    told = out(device, "PointerAttributes[8]")
    base, size = out(device, "void **"), out(device, "size_t *")
    types = {
        name: device.runtime.constant("MemoryType", name) for name in ("Unregistered", "Host", "Device", "Managed")
    }

    def ask_about(address: int) -> list[Any]:
        device.call("PointerGetAttributes", told, pointer(device, address))
        views = [int(ffi.cast("uintptr_t", one)) for one in (told[0].devicePointer, told[0].hostPointer)]
        return [next((n for n, v in types.items() if v == told[0].type), told[0].type), int(told[0].device), views]

    rows: dict[str, Any] = {}
    for kind in kinds_of(run.facts.capabilities):
        memory = run.closing.enter_context(device.allocate(10_001, kind))
        places, ranges = [], []
        for offset in (0, 1, 5000, 10_000):
            address = memory.copy_address + offset
            places.append([offset, *ask_about(address)])
            device.call("MemGetAddressRange", base, size, pointer(device, address))
            ranges.append([int(ffi.cast("uintptr_t", base[0])), int(size[0])])
        rows[kind] = {"address": memory.copy_address, "places": places, "ranges": ranges}
    plain = out(device, "char[]", 64)
    device.call("PointerGetAttributes", told, plain)
    unregistered = next((n for n, v in types.items() if v == told[0].type), "?")
    gone = device.allocate(64)
    dead = pointer(device, gone.address)
    gone.close()
    return {
        **{"rows": rows, "ordinal": device.vendor_ordinal, "unregistered": unregistered},
        "gone": ask(device, "MemGetAddressRange", base, size, dead),
    }


@pointers.judge
def _(seen: Seen) -> None:
    clause, ranges = "host.memory.pointer_kind", "host.memory.address_range"
    kinds = kinds_of(seen.facts.capabilities)
    seen.equal(clause, "kinds", list(seen["rows"]), list(kinds))
    names = {"device": "Device", "pinned": "Host", "mapped": "Host", "managed": "Managed"}
    for kind, row in seen["rows"].items():
        for offset, name, ordinal, (on_device, on_host) in row["places"]:
            seen.equal(clause, f"kind of {kind} memory at {offset}", name, names[kind])
            seen.equal(clause, f"device of {kind} memory at {offset}", ordinal, seen["ordinal"])
            if kind != "pinned":
                seen.holds(clause, f"{kind} memory at {offset} has a device address", on_device != 0, on_device)
            if kind == "device":
                seen.equal(clause, "host address of device memory", on_host, 0)
            else:
                seen.equal(clause, f"host address of {kind} memory", on_host, row["address"] + offset)
        for base, size in row["ranges"]:
            seen.equal(ranges, f"beginning of {kind} memory", base, row["address"])
            seen.holds(ranges, f"{kind} memory has its 10001 bytes", 10_001 <= size <= 10_001 + (2 << 20), size)
    seen.equal(clause, "kind of memory of the program", seen["unregistered"], "Unregistered")
    said = ("InvalidValue", "SymbolNotFound")
    seen.refused(ranges, "the range of memory that was freed", seen["gone"], "InvalidArgument", *said)


@case(
    "host/memory.export_dmabuf",
    level="L2",
    clauses=("host.memory.export_dmabuf",),
    needs=("memory.export_dmabuf",),
    calls=("MemGetHandleForAddressRange",),
    no_mutant="HOST exports no memory; a record with another kind of handle fails on a simulated SDK",
)
def export_dmabuf(run: Run) -> Observations:
    """Each export is a descriptor of its own, as large as the range, and stays when the export is over."""
    device = run.device
    size = 2 << 20
    memory = run.buffer(size, "device", fill=1)
    kind = device.runtime.constant("MemRangeHandleType", "DmaBufFd")
    # A simulated driver exports nothing, and says so of no other kind of handle.
    if run.facts.kind == "simulated":
        room = out(device, "int *", -1)
        if said(run, "MemGetHandleForAddressRange", room, memory.address, size, kind, 0) == "NotSupported":
            run.wants_silicon("a driver must export the memory")
    rows = []
    for _ in range(2):
        room = out(device, "int *", -1)
        device.call("MemGetHandleForAddressRange", room, memory.address, size, kind, 0)
        descriptor = int(room[0])
        run.closing.callback(os.close, descriptor)
        size_told = os.lseek(descriptor, 0, os.SEEK_END)
        rows.append([descriptor, size_told, str(Path(f"/proc/self/fd/{descriptor}").readlink())])
    return {"rows": rows, "size": size}


@export_dmabuf.judge
def _(seen: Seen) -> None:
    clause = "host.memory.export_dmabuf"
    descriptors = {row[0] for row in seen["rows"]}
    seen.holds(
        clause, "two exports have two descriptors", len(descriptors) == 2 and min(descriptors) >= 0, seen["rows"]
    )
    for _, size, what in seen["rows"]:
        seen.holds(clause, "the descriptor covers the range", size >= seen["size"], size)
        seen.holds(clause, "the descriptor is a dma-buf", "dmabuf" in what, what)

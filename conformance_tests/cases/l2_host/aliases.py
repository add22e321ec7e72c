"""A canonical name means on the vendor what the contract says: numbers judged by what they do."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from tutti_hal.conformance_tests.case import Observations, case
from tutti_hal.conformance_tests.cases.l2_host.gates import Gate, launch_on, mend, said
from tutti_hal.conformance_tests.cases.l2_host.raw import FAR_TOO_MUCH, kinds_of, out, pointer
from tutti_hal.conformance_tests.observation import refusal
from tutti_hal.conformance_tests.run import Run
from tutti_hal.conformance_tests.seen import Seen

_CLAUSE = "record.alias.keeps_meaning"

#: Attribute -> the capability that it tells of.
_TOLD_BY = {
    "CanMapHostMemory": "memory.mapped",
    "ManagedMemory": "memory.managed",
    "HostRegisterSupported": "memory.register",
    "MemoryPoolsSupported": "memory.pools",
    "CooperativeLaunch": "launch.cooperative",
    "StreamPrioritiesSupported": "stream.priority",
    "DmaBufSupported": "memory.export_dmabuf",
}


@case("alias/attributes", level="L2", clauses=(_CLAUSE,), kernels=("probe_host",), calls=("DeviceGetAttribute",))
def attributes(run: Run) -> Observations:
    """Attributes by their numbers agree with launches at and beyond them, with kernels, and with what is declared."""
    device = run.device
    numbers = device.runtime.record.attributes.values
    told = {name: device.attribute(name) for name in (*_TOLD_BY, "WarpSize") if name in numbers}
    limits = {
        name: device.attribute(name)
        for name in (
            *("MaxThreadsPerBlock", "MaxBlockDimX", "MaxBlockDimY", "MaxBlockDimZ", "MaxGridDimX", "MaxGridDimY"),
            *("MaxGridDimZ", "MaxSharedMemoryPerBlock"),
        )
    }
    kernel, row = run.kernel("probe_host", "host_where"), run.buffer(16, "device")
    deep = min(limits["MaxBlockDimZ"], limits["MaxThreadsPerBlock"])
    high = min(limits["MaxBlockDimY"], limits["MaxThreadsPerBlock"])
    at: dict[str, tuple[Any, Any, int]] = {
        "MaxThreadsPerBlock": (1, limits["MaxThreadsPerBlock"], 0),
        "MaxBlockDimY": (1, (1, high, 1), 0),
        "MaxBlockDimZ": (1, (1, 1, deep), 0),
        "MaxSharedMemoryPerBlock": (1, 1, limits["MaxSharedMemoryPerBlock"]),
    }
    beyond: dict[str, tuple[Any, Any, int]] = {
        "MaxThreadsPerBlock": (1, limits["MaxThreadsPerBlock"] + 1, 0),
        "MaxBlockDimX": (1, limits["MaxBlockDimX"] + 1, 0),
        "MaxBlockDimY": (1, (1, limits["MaxBlockDimY"] + 1, 1), 0),
        "MaxBlockDimZ": (1, (1, 1, limits["MaxBlockDimZ"] + 1), 0),
        "MaxGridDimX": (limits["MaxGridDimX"] + 1, 1, 0),
        "MaxGridDimY": ((1, limits["MaxGridDimY"] + 1, 1), 1, 0),
        "MaxGridDimZ": ((1, 1, limits["MaxGridDimZ"] + 1), 1, 0),
        "MaxSharedMemoryPerBlock": (1, 1, limits["MaxSharedMemoryPerBlock"] + 1),
    }

    def tried(geometry: tuple[Any, Any, int]) -> bool:
        grid, block, shared = geometry
        call = lambda: launch_on(run.stream, kernel, grid, block, row, shared_bytes=shared)  # noqa: E731
        return bool(refusal(call)["refused"])

    refused = {"at": {name: tried(one) for name, one in at.items()}}
    found = run.read(row, np.uint32)
    refused["beyond"] = {name: tried(one) for name, one in beyond.items()}
    threads = [limits["MaxThreadsPerBlock"], high, deep, 1]
    return {"told": told, "refused": refused, "row": found, "threads": threads}


@attributes.judge
def _(seen: Seen) -> None:
    told, row = seen["told"], [int(word) for word in seen["row"]]
    for name, capability in _TOLD_BY.items():
        if name in told:
            declared = int(seen.facts.capabilities[capability])
            # A machine may lack what its vendor has, but a vendor does not have what a device says it has not.
            held = told[name] in (0, 1) and (told[name] == 0 or declared or capability == "stream.priority")
            seen.holds(_CLAUSE, f"{name} is yes only where {capability} is declared", held, [told[name], declared])
            if seen.facts.kind != "hardware":
                seen.equal(_CLAUSE, f"{name} beside {capability}", told[name], declared)
    seen.equal(_CLAUSE, "WarpSize beside the width that kernels are compiled for", told["WarpSize"], row[0])
    seen.equal(_CLAUSE, "WarpSize beside the record's arch", told["WarpSize"], seen.facts.wave_width)
    waves = sum(-(-threads // told["WarpSize"]) for threads in seen["threads"])
    seen.equal(_CLAUSE, "threads and first lanes that ran at the limits", row[2:], [sum(seen["threads"]), waves])
    for name, refused in seen["refused"]["at"].items():
        seen.equal(_CLAUSE, f"a launch at {name} is refused", refused, False)
    for name, refused in seen["refused"]["beyond"].items():
        seen.equal(_CLAUSE, f"a launch one beyond {name} is refused", refused, True)


#: Kind of memory that the shim allocates -> the contract's name of its type.
_TYPES = {"device": "Device", "pinned": "Host", "mapped": "Host", "managed": "Managed"}


@case(
    "alias/memory_kinds",
    level="L2",
    clauses=(_CLAUSE,),
    needs=("memory.pointer_attributes",),
    calls=("PointerGetAttributes",),
)
def memory_kinds(run: Run) -> Observations:
    """Each kind of memory, and none, is told under the number that the record gives its name."""
    device = run.device
    names = {number: name for name, number in device.runtime.record.constants["MemoryType"].values.items()}
    attributes, found = out(device, "PointerAttributes[4]"), {}
    for kind in kinds_of(run.facts.capabilities):
        memory = run.buffer(64, kind, fill=None)
        device.call("PointerGetAttributes", attributes, pointer(device, memory.copy_address))
        found[kind] = names.get(int(attributes[0].type), "?")
    plain = np.zeros(64, np.uint8)
    device.call("PointerGetAttributes", attributes, pointer(device, plain.ctypes.data))
    return {"found": found, "none": names.get(int(attributes[0].type), "?")}


@memory_kinds.judge
def _(seen: Seen) -> None:
    for kind in kinds_of(seen.facts.capabilities):
        seen.equal(_CLAUSE, f"the type of {kind} memory", seen["found"].get(kind), _TYPES[kind])
    seen.equal(_CLAUSE, "the type of memory that nobody allocated", seen["none"], "Unregistered")


@case("alias/copy_kinds", level="L2", clauses=(_CLAUSE,), calls=("MemcpyAsync", "MemcpyAsync:InvalidMemcpyDirection"))
def copy_kinds(run: Run) -> Observations:
    """Each direction by its number moves bytes that way; the number behind the last one is no direction."""
    device, stream = run.device, run.stream
    found: dict[str, str] = {}
    here, there = np.arange(64, dtype=np.uint8), np.zeros(64, np.uint8)
    a, b = run.buffer(64, "device"), run.buffer(64, "device")
    ffi = device.runtime.ffi
    source, target = ffi.from_buffer(here), ffi.from_buffer(there)
    first, second = pointer(device, a.address), pointer(device, b.address)
    steps = (
        *(("HostToDevice", first, source), ("DeviceToDevice", second, first), ("DeviceToHost", target, second)),
        *(("HostToHost", target, source), ("Default", first, source), ("Default", target, first)),
    )
    with device.current():
        for name, to, what in steps:
            number = device.runtime.constant("MemcpyKind", name)
            found[f"{name} {len(found)}"] = said(run, "MemcpyAsync", to, what, 64, number, stream.handle)
            stream.synchronize()
            if to == target:
                found[f"bytes {len(found)}"] = "right" if (there == here).all() else "wrong"
                there[:] = 0
        numbers = device.runtime.record.constants["MemcpyKind"].values.values()
        beyond = said(run, "MemcpyAsync", first, second, 64, max(map(int, numbers)) + 1, stream.handle)
    return {"found": found, "beyond": beyond}


@copy_kinds.judge
def _(seen: Seen) -> None:
    for what, found in seen["found"].items():
        seen.equal(_CLAUSE, f"copies: {what}", found, "right" if what.startswith("bytes") else "Success")
    seen.equal(_CLAUSE, "a number that is no direction", seen["beyond"], "InvalidMemcpyDirection")


@case(
    "alias/flags",
    level="L2",
    clauses=(_CLAUSE,),
    kernels=("probe_host",),
    needs=("memory.mapped", "event.timing"),
    calls=("StreamCreateWithFlags", "StreamGetFlags", "EventCreateWithFlags", "HostAlloc", "HostGetFlags"),
)
def flags(run: Run) -> Observations:
    """Flags of streams, events and host memory do by number what their names say."""
    from tutti_hal.shim import EventOptions, StreamOptions

    device = run.device
    runtime, told = device.runtime, out(device, "unsigned int *", 99)
    found: dict[str, Any] = {}
    held = run.closing.enter_context(device.create_stream(StreamOptions(nonblocking=False)))
    streams = {
        name: run.closing.enter_context(device.create_stream(StreamOptions(nonblocking=free)))
        for name, free in (("Default", False), ("NonBlocking", True))
    }
    names = {number: name for name, number in runtime.record.constants["StreamFlags"].values.items()}
    for name, stream in streams.items():
        device.call("StreamGetFlags", stream.handle, told)
        found[f"told {name}"] = names.get(int(told[0]), "?")
    gate, word = Gate(run, held), run.buffer(4, "device", fill=None)
    device.default_stream.fill(word, 1)
    for name, stream in streams.items():
        stream.fill(word, 2)
        if name == "NonBlocking":
            stream.synchronize()
        found[f"ready {name}"] = stream.query()
    gate.open()
    device.synchronize()
    time = out(device, "float *")
    for name, timing in (("Default", True), ("DisableTiming", False)):
        with run.stream.record(options=EventOptions(timing=timing)) as mark:
            run.stream.synchronize()
            found[f"time {name}"] = said(run, "EventElapsedTime", time, mark.handle, mark.handle)
    place, mapped = out(device, "void **"), runtime.constant("HostAllocFlags", "Mapped")
    with device.current():
        device.call("HostAlloc", place, 64, mapped)
        device.call("HostGetFlags", told, place[0])
        found["mapped is told"] = bool(int(told[0]) & mapped)
        found["mapped has an address"] = said(run, "HostGetDevicePointer", out(device, "void **"), place[0], 0)
        device.call("FreeHost", place[0])
    return {"found": found}


@flags.judge
def _(seen: Seen) -> None:
    wanted = {
        "told Default": "Default",
        "told NonBlocking": "NonBlocking",
        "ready Default": False,
        "ready NonBlocking": True,
        "time Default": "Success",
        "time DisableTiming": "InvalidResourceHandle",
        "mapped is told": True,
        "mapped has an address": "Success",
    }
    for what, value in wanted.items():
        seen.equal(_CLAUSE, what, seen["found"].get(what), value)


def _illegal_launch(run: Run) -> str:
    run.launch(run.kernel("probe_host", "host_trap"), 1, 32, run.buffer(4, "device"), wait=False)
    try:
        return said(run, "StreamSynchronize", run.stream.handle)
    finally:
        mend(run)


def _not_ready(run: Run) -> str:
    gate = Gate(run, run.stream)
    found = said(run, "StreamQuery", run.stream.handle)
    gate.open()
    return found


def _module(run: Run, image: bytes | None) -> str:
    path = run.scratch / "module"
    if image is not None:
        path.write_bytes(image)
    with run.device.current():
        return said(run, "ModuleLoad", out(run.device, "Module *"), str(path).encode())


#: Canonical error -> what provokes exactly that, whatever its number.
_CAUSES: dict[str, Callable[[Run], str]] = {
    "InvalidValue": lambda r: said(r, "EventCreateWithFlags", out(r.device, "Event *"), 0x7FFF0000),
    "MemoryAllocation": lambda r: said(r, "Malloc", out(r.device, "void **"), FAR_TOO_MUCH),
    "InvalidDevice": lambda r: said(r, "SetDevice", 1 << 20),
    "FileNotFound": lambda r: _module(r, None),
    "InvalidKernelImage": lambda r: _module(r, bytes(200)),
    "SymbolNotFound": lambda r: said(
        r, "ModuleGetFunction", out(r.device, "Function *"), r.subject.module("probe_host").handle, b"no_such_kernel"
    ),
    "InvalidResourceHandle": lambda r: said(r, "EventQuery", r.device.runtime.ffi.NULL),
    "NotReady": _not_ready,
    "LaunchFailure": _illegal_launch,
}


@case(
    "alias/errors",
    level="L2",
    clauses=(_CLAUSE,),
    kernels=("probe_host",),
    needs=("memory.mapped",),
    axes={"error": tuple(_CAUSES)},
    fails_device=True,
)
def errors(run: Run) -> Observations:
    """The number that a cause gives is the one that the record gives the contract's name of it."""
    with run.device.current():
        return {"said": _CAUSES[str(run.axes["error"])](run)}


@errors.judge
def _(seen: Seen) -> None:
    seen.equal(_CLAUSE, "the name of the number that the cause gave", seen["said"], seen.axes["error"])

"""Handles: what is no live object of the right kind is refused, never followed."""

from __future__ import annotations

from typing import Any

from tutti_hal.conformance_tests.case import Observations, case
from tutti_hal.conformance_tests.cases.l2_host.raw import ask, out, pointer, second_device
from tutti_hal.conformance_tests.observation import refusal
from tutti_hal.conformance_tests.run import Run
from tutti_hal.conformance_tests.seen import Seen

#: Functions that are given handles of nothing.
_TAKERS = (
    *("StreamQuery", "StreamSynchronize", "StreamDestroy", "StreamGetFlags", "MemsetAsync", "EventRecord"),
    *("StreamWaitEvent", "EventQuery", "EventSynchronize", "EventDestroy", "ModuleGetFunction", "ModuleUnload"),
    "LaunchKernel",
)


@case(
    "host/handle.stale",
    level="L2",
    clauses=("host.handle.stale_refused",),
    needs=("handle.checked",),
    kernels=("probe_host",),
    calls=tuple(f"{name}:InvalidResourceHandle" for name in _TAKERS),
)
def stale(run: Run) -> Observations:
    """Streams, events, modules and kernels that were destroyed, that are of another kind, or that never were."""
    device, ffi = run.device, run.device.runtime.ffi
    memory = run.buffer(64, "device", fill=0x21)
    stream, event = device.create_stream(), device.create_event()
    module = run.subject.load("probe_host", device)
    kernel = module["host_tally"]
    live_event = run.closing.enter_context(device.create_event())
    live_stream = run.stream
    live_module = run.subject.module("probe_host")
    for closed in (stream, event, module):
        closed.close()
    # The next of each kind must not answer to the handle of the last.
    run.closing.enter_context(device.create_stream())
    run.closing.enter_context(device.create_event())
    run.closing.enter_context(run.subject.load("probe_host", device))
    never = 0x5A5A5A50
    streams = {
        "destroyed": stream.handle,
        "an event": ffi.cast("Stream", live_event.handle),
        "never one": ffi.cast("Stream", never),
    }
    events = {
        "destroyed": event.handle,
        "a stream": ffi.cast("Event", live_stream.handle),
        "never one": ffi.cast("Event", never),
    }
    modules = {
        "destroyed": module.handle,
        "a stream": ffi.cast("Module", live_stream.handle),
        "never one": ffi.cast("Module", never),
    }
    functions = {
        "of a destroyed module": kernel.handle,
        "a module": ffi.cast("Function", live_module.handle),
        "never one": ffi.cast("Function", never),
    }
    seen: dict[str, Any] = {}

    def each(name: str, handles: dict[str, Any], *args: Any, before: tuple[Any, ...] = ()) -> None:
        for what, handle in handles.items():
            seen[f"{name}, argument {len(before)}: {what}"] = ask(device, name, *before, handle, *args)

    at = pointer(device, memory.address)
    for name in ("StreamQuery", "StreamSynchronize", "StreamDestroy"):
        each(name, streams)
    each("StreamGetFlags", streams, out(device, "unsigned int *"))
    each("MemsetAsync", streams, before=(at, 0xFF, 64))
    each("EventRecord", streams, before=(live_event.handle,))
    each("StreamWaitEvent", streams, live_event.handle, 0)
    for name in ("EventQuery", "EventSynchronize", "EventDestroy"):
        each(name, events)
    each("EventRecord", events, live_stream.handle)
    each("StreamWaitEvent", events, 0, before=(live_stream.handle,))
    each("ModuleGetFunction", modules, b"host_tally", before=(out(device, "Function *"),))
    each("ModuleUnload", modules)
    words = ffi.new("uint64_t *", memory.address)
    params = ffi.new("void *[1]", [words])
    each("LaunchKernel", functions, *(1, 1, 1, 1, 1, 1, 0), live_stream.handle, params, ffi.NULL)
    again = [refusal(one.close) for one in (stream, event, module)]
    return {"seen": seen, "again": again, "left": run.read(memory, "u1")}


@stale.judge
def _(seen: Seen) -> None:
    import numpy as np

    clause = "host.handle.stale_refused"
    seen.equal(clause, "how many were tried", len(seen["seen"]), 3 * (3 + 4 + 3 + 2 + 2 + 1))
    for name, one in seen["seen"].items():
        seen.refused(clause, name, one, "BadHandle", "InvalidResourceHandle")
    seen.equal(clause, "closing through the shim what is closed", seen["again"], [{"refused": False}] * 3)
    seen.equal(clause, "memory that the refused work would have changed", seen["left"], np.full(64, 0x21, np.uint8))


@case(
    "host/handle.wrong_device",
    level="L2",
    clauses=("host.handle.wrong_device_refused",),
    kernels=("probe_host",),
)
def wrong_device(run: Run) -> Observations:
    """Work of one device on objects of another is refused by the shim, and by the vendor when it is asked."""
    import numpy as np

    from tutti_hal.shim import LaunchConfig

    here, there = run.device, second_device(run)
    ffi, one = here.runtime.ffi, LaunchConfig(1, 1)
    kernel = run.kernel("probe_host", "host_tally")
    word = run.buffer(4, "device")
    with (
        there.create_stream() as stream,
        there.create_event() as event,
        there.allocate(4) as memory,
        run.subject.load("probe_host", there) as module,
    ):
        stream.fill(memory, 0)
        stream.synchronize()
        foreign = module["host_tally"]
        shim = {
            "a kernel on a foreign stream": refusal(lambda: stream.launch(one, kernel, memory)),
            "a foreign kernel": refusal(lambda: run.stream.launch(one, foreign, word)),
            "a kernel with foreign memory": refusal(lambda: run.stream.launch(one, kernel, memory)),
            "a fill of foreign memory": refusal(lambda: run.stream.fill(memory, 1)),
            "a record of a foreign event": refusal(lambda: run.stream.record(event)),
        }
        params = ffi.new("void *[1]", [ffi.new("uint64_t *", word.address)])
        keep = ffi.new("uint64_t *", word.address)
        params[0] = keep
        shape = (1, 1, 1, 1, 1, 1, 0)
        vendor = {
            "EventRecord": ask(here, "EventRecord", event.handle, run.stream.handle),
            "LaunchKernel of a foreign kernel": ask(
                here, "LaunchKernel", foreign.handle, *shape, run.stream.handle, params, ffi.NULL
            ),
            "LaunchKernel on a foreign stream": ask(
                here, "LaunchKernel", kernel.handle, *shape, stream.handle, params, ffi.NULL
            ),
        }
        run.stream.synchronize()
        stream.synchronize()
        far = np.zeros(1, np.uint32)
        stream.copy(far, memory)
        stream.synchronize()
    return {"shim": shim, "vendor": vendor, "words": [int(run.read(word, np.uint32)[0]), int(far[0])]}


@wrong_device.judge
def _(seen: Seen) -> None:
    clause = "host.handle.wrong_device_refused"
    for name, one in seen["shim"].items():
        seen.refused(clause, name, one, "WrongDevice")
    for name, one in seen["vendor"].items():
        seen.refused(clause, name, one, "BadHandle", "InvalidResourceHandle")
    seen.equal(clause, "what the refused work left on either device", seen["words"], [0, 0])

"""Devices: which there are, what they say of themselves, and whose current one is which."""

from __future__ import annotations

import threading
from typing import Any

from tutti_hal.conformance_tests.case import Observations, case
from tutti_hal.conformance_tests.cases.l2_host.gates import long_beside_a_call, peek
from tutti_hal.conformance_tests.cases.l2_host.raw import ask, device_count, out
from tutti_hal.conformance_tests.observation import refusal
from tutti_hal.conformance_tests.run import Run
from tutti_hal.conformance_tests.seen import Seen
from tutti_hal.conformance_tests.verdict import SkipReason


def _current(device: Any) -> int:
    found = out(device, "int *")
    device.call("GetDevice", found)
    return int(found[0])


@case(
    "host/device.count",
    level="L2",
    clauses=("host.device.count", "host.device.invalid_refused"),
    calls=("GetDeviceCount", "GetDevice", "SetDevice", "SetDevice:InvalidDevice"),
)
def count(run: Run) -> Observations:
    """Exactly the ordinals below the count can be selected; another one is refused and changes nothing."""
    device = run.device
    number = device_count(device)
    before = _current(device)
    selected = []
    with device.current():
        for ordinal in range(number):
            device.call("SetDevice", ordinal)
            selected.append(_current(device))
        device.call("SetDevice", device.vendor_ordinal)
        wrong = {}
        for ordinal in (-1, -(2**31), number, number + 1, 2**31 - 1):
            refused = refusal(lambda ordinal=ordinal: device.call("SetDevice", ordinal))  # type: ignore[misc]
            wrong[str(ordinal)] = [refused, _current(device)]
    ordinals = device.runtime.ordinals(run.facts.arch)
    opened = [run.subject.open_device(i).vendor_ordinal for i in range(len(ordinals))]
    shim = [refusal(lambda i=i: run.subject.open_device(i)) for i in (-1, len(ordinals))]  # type: ignore[misc]
    return {
        **{"count": number, "selected": selected, "wrong": wrong, "mine": device.vendor_ordinal},
        **{"opened": opened, "shim": shim, "current": [before, _current(device)]},
    }


@count.judge
def _(seen: Seen) -> None:
    clause, invalid = "host.device.count", "host.device.invalid_refused"
    seen.equal(clause, "the current device after each was selected", seen["selected"], list(range(seen["count"])))
    opened = seen["opened"]
    seen.holds(clause, "the devices of the arch are among them", max(opened) < seen["count"], opened, opened)
    seen.holds(clause, "each ordinal of the arch is a device of its own", len(set(opened)) == len(opened), opened)
    for ordinal, (refused, current) in seen["wrong"].items():
        seen.refused(invalid, f"selecting device {ordinal}", refused, "WrongDevice", "InvalidDevice")
        seen.equal(invalid, f"the current device after {ordinal} was refused", current, seen["mine"])
    for refused in seen["shim"]:
        seen.refused(invalid, "opening a device beside the arch's", refused, "WrongDevice")
    seen.equal(invalid, "the thread's current device in the end", seen["current"][1], seen["current"][0])


@case(
    "host/device.current",
    level="L2",
    clauses=("host.device.current_per_thread",),
    calls=("GetDevice", "SetDevice"),
)
def current(run: Run) -> Observations:
    """Threads that select devices at the same time each keep their own."""
    device = run.device
    number = device_count(device)
    if number < 2:
        run.skip(SkipReason.MACHINE, "there is one device, and the case needs two")
    wanted = [1, 0, number - 1, 1]
    barrier = threading.Barrier(len(wanted) + 1, timeout=5)
    found: list[list[int]] = [[] for _ in wanted]
    before = _current(device)

    def select(index: int) -> None:
        for _ in range(3):
            device.call("SetDevice", wanted[index])
            barrier.wait()
            found[index].append(_current(device))
            barrier.wait()

    threads = [threading.Thread(target=select, args=(index,)) for index in range(len(wanted))]
    for thread in threads:
        thread.start()
    mine = []
    for _ in range(3):
        barrier.wait()
        mine.append(_current(device))
        barrier.wait()
    for thread in threads:
        thread.join()
    fresh: list[int] = []
    late = threading.Thread(target=lambda: fresh.append(_current(device)))
    late.start()
    late.join()
    return {"wanted": wanted, "found": found, "before": before, "mine": mine, "fresh": fresh}


@current.judge
def _(seen: Seen) -> None:
    clause = "host.device.current_per_thread"
    for wanted, found in zip(seen["wanted"], seen["found"], strict=True):
        seen.equal(clause, f"what a thread found that selected {wanted}", found, [wanted] * 3)
    seen.equal(clause, "what the first thread found meanwhile", seen["mine"], [seen["before"]] * 3)
    seen.equal(clause, "what a new thread found", seen["fresh"], [0])


@case(
    "host/device.synchronize",
    level="L2",
    clauses=("host.device.synchronize_waits",),
    kernels=("probe_host",),
    needs=("memory.mapped",),
    calls=("DeviceSynchronize",),
)
def synchronize(run: Run) -> Observations:
    """A device-wide wait returns after the work of every stream, whichever it was enqueued on."""
    from tutti_hal.shim import LaunchConfig, StreamOptions

    device = run.device
    words = run.buffer(64)
    late = run.kernel("probe_host", "host_late")
    kinds = (StreamOptions(), StreamOptions(nonblocking=False))
    streams = [run.closing.enter_context(device.create_stream(options)) for options in kinds]
    # The default stream waits for a blocking one, and the other way round: each is the last once.
    places = list(enumerate((*streams, device.default_stream)))
    rows = []
    for turn, order in enumerate((places, places[::-1]), 1):
        for nanoseconds in long_beside_a_call(run):
            run.stream.fill(words, 0)
            run.stream.synchronize()
            for index, stream in order:
                stream.launch(LaunchConfig(1, 1), late, words[4 * index : 4 * index + 4], 1, turn, nanoseconds)
            before = [peek(run, words, 4 * index) for index in range(3)]
            device.synchronize()
            after = [peek(run, words, 4 * index) for index in range(3)]
            if before != [turn] * 3:
                break
        rows.append([before, after])
    return {"rows": rows}


@synchronize.judge
def _(seen: Seen) -> None:
    clause = "host.device.synchronize_waits"
    for turn, (before, after) in enumerate(seen["rows"], 1):
        if before == [turn] * 3:
            seen.inconclusive("the work had ended before the wait began")
        seen.equal(clause, f"what the streams' work had stored when wait {turn} returned", after, [turn] * 3)


@case(
    "host/device.reset",
    level="L2",
    clauses=("host.device.reset",),
    kernels=("probe_host",),
    calls=("DeviceReset",),
)
def reset(run: Run) -> Observations:
    """A reset ends what there was: the shim refuses its objects, a vendor that checks handles those; new ones work."""
    import numpy as np

    device, ffi = run.device, run.device.runtime.ffi
    before = device.memory_info()
    run.subject.module("probe_host")
    memory, stream, event = device.allocate(1 << 20), device.create_stream(), device.create_event()
    module = run.subject.load("probe_host", device)
    kernel = module["host_count"]
    stream.fill(memory, 1)
    address = memory.address
    device.reset()
    room = ffi.new("Function *")
    objects = {
        "buffer": refusal(lambda: memory.address),
        "stream": refusal(stream.synchronize),
        "event": refusal(event.query),
        "module": refusal(lambda: module["host_double"]),
        "kernel": refusal(lambda: kernel.max_block_threads),
    }
    checked = run.facts.capabilities["handle.checked"]
    handles = (
        {}
        if not checked
        else {
            "StreamQuery": ask(device, "StreamQuery", stream.handle),
            "EventQuery": ask(device, "EventQuery", event.handle),
            "ModuleGetFunction": ask(device, "ModuleGetFunction", room, module.handle, b"host_count"),
            "StreamDestroy": ask(device, "StreamDestroy", stream.handle),
            "EventDestroy": ask(device, "EventDestroy", event.handle),
            "ModuleUnload": ask(device, "ModuleUnload", module.handle),
        }
    )
    freed = ask(device, "Free", ffi.cast("void *", address)) if checked else None
    for closed in (memory, stream, event, module):
        closed.close()
    info = device.memory_info()
    data = np.zeros(64, np.uint32)
    with device.create_stream() as fresh, device.allocate(256) as again:
        from tutti_hal.shim import LaunchConfig

        fresh.launch(LaunchConfig(1, 64), run.subject.kernel("probe_host", "host_count"), again, 64, 3)
        fresh.copy(data, again)
        fresh.synchronize()
    free = [before.free, info.free, before.total, info.total]
    return {"objects": objects, "handles": handles, "freed": freed, "free": free, "data": data}


@reset.judge
def _(seen: Seen) -> None:
    import numpy as np

    clause = "host.device.reset"
    for name, one in seen["objects"].items():
        seen.refused(clause, f"a {name} from before", one, "UseAfterFree")
    if seen.facts.capabilities["handle.checked"]:
        seen.equal(clause, "handles that were tried", len(seen["handles"]), 6)
        for name, one in seen["handles"].items():
            seen.refused(clause, f"{name} of a handle from before", one, "BadHandle", "InvalidResourceHandle")
        seen.refused(clause, "Free of memory from before", seen["freed"], "InvalidArgument", "InvalidValue")
    before, after, total_before, total_after = seen["free"]
    seen.holds(clause, "all memory was given back", after >= before and total_after == total_before, seen["free"])
    wanted = np.arange(3, 67, dtype=np.uint32)
    seen.equal(clause, "what a kernel stored after the reset", seen["data"], wanted)

"""What a stream is and does beside ordering: its end, its device, its priority, host functions, words in memory."""

from __future__ import annotations

import contextlib

import numpy as np

from tutti_hal.conformance_tests.case import Observations, case
from tutti_hal.conformance_tests.cases.l2_host.gates import OPENED, Gate, launch_on, peek, poke, said
from tutti_hal.conformance_tests.observation import refusal
from tutti_hal.conformance_tests.run import Run
from tutti_hal.conformance_tests.seen import Seen


@case(
    "host/stream.destroy",
    level="L2",
    clauses=("host.stream.destroy",),
    kernels=("probe_host",),
    needs=("memory.mapped",),
    calls=(
        *("StreamDestroy", "StreamDestroy:InvalidResourceHandle", "StreamQuery:InvalidResourceHandle"),
        *("StreamSynchronize:InvalidResourceHandle", "StreamGetFlags", "StreamGetFlags:InvalidResourceHandle"),
        *("StreamCreate:InvalidValue", "StreamCreateWithFlags:InvalidValue"),
    ),
)
def destroy(run: Run) -> Observations:
    """A stream that is closed while it is held still does its work; every use of it is refused from then on."""
    device, word = run.device, run.buffer(4)
    stream = run.closing.enter_context(device.create_stream())
    gate = Gate(run, stream)
    launch_on(stream, run.kernel("probe_host", "host_late"), 1, 1, word, 1, 9, 0)
    stream.close()
    before = peek(run, word)
    uses = (stream.synchronize, stream.query, stream.record, lambda: stream.fill(word, 0))
    refused = [refusal(use) for use in uses]
    flags, null = device.runtime.ffi.new("unsigned int *"), device.runtime.ffi.NULL
    raw = (
        {}
        if not run.facts.capabilities["handle.checked"]
        else {
            "destroy": said(run, "StreamDestroy", stream.handle),
            "query": said(run, "StreamQuery", stream.handle),
            "wait": said(run, "StreamSynchronize", stream.handle),
            "flags": said(run, "StreamGetFlags", stream.handle, flags),
        }
    )
    with device.current():
        unmade = [
            said(run, "StreamCreate", null),
            said(run, "StreamCreateWithFlags", device.runtime.ffi.new("Stream *"), 0x7FFF0000),
        ]
    gate.open()
    device.synchronize()
    stream.close()
    return {
        "before": before,
        "refused": refused,
        "raw": raw,
        "unmade": unmade,
        "after": peek(run, word),
        "answer": gate.answer,
    }


@destroy.judge
def _(seen: Seen) -> None:
    clause = "host.stream.destroy"
    seen.equal(clause, "the word while the closed stream is held", seen["before"], 0)
    seen.equal(clause, "the word when the device has ended its work", seen["after"], 9)
    seen.equal(clause, "the held kernel ended by the gate", seen["answer"], OPENED)
    for use, found in zip(("wait", "query", "record", "fill"), seen["refused"], strict=True):
        seen.refused(clause, f"a {use} on the closed stream", found, "UseAfterFree")
    seen.equal(clause, "handles tried", len(seen["raw"]), 4 * seen.facts.capabilities["handle.checked"])
    for use, said_ in seen["raw"].items():
        seen.equal(clause, f"the vendor's answer to the handle: {use}", said_, "InvalidResourceHandle")
    seen.equal(clause, "streams with no place and with unknown flags", seen["unmade"], ["InvalidValue"] * 2)


@case(
    "host/stream.device",
    level="L2",
    clauses=("host.stream.device",),
    needs=("stream.device",),
    calls=("StreamGetDevice", "StreamGetDevice:InvalidResourceHandle"),
)
def of_device(run: Run) -> Observations:
    """Streams of each device of the arch, up to two, name it, whichever device is current when they are asked."""
    from tutti_hal.errors import WrongDevice

    found: list[list[int]] = []
    devices = [run.device]
    with contextlib.suppress(WrongDevice):  # one device has nothing to be confused with
        devices.append(run.subject.open_device(1))
    number = run.device.runtime.ffi.new("int *", -1)
    for device in devices:
        with device.create_stream() as stream:
            for current in devices:
                with current.current():
                    number[0] = -1
                    device.call("StreamGetDevice", stream.handle, number)
                found.append([device.vendor_ordinal, int(number[0])])
    stale = said(run, "StreamGetDevice", stream.handle, number) if run.facts.capabilities["handle.checked"] else ""
    return {"found": found, "stale": stale}


@of_device.judge
def _(seen: Seen) -> None:
    clause, asked = "host.stream.device", [made for made, _ in seen["found"]]
    seen.equal(clause, "the device that each stream names", [told for _, told in seen["found"]], asked)
    if seen.facts.capabilities["handle.checked"]:
        seen.equal(clause, "the device of a stream that was destroyed", seen["stale"], "InvalidResourceHandle")


@case(
    "host/stream.priority",
    level="L2",
    clauses=("host.stream.priority",),
    needs=("stream.priority",),
    calls=(
        "DeviceGetStreamPriorityRange",
        "StreamCreateWithPriority",
        "StreamCreateWithPriority:InvalidValue",
        "StreamGetPriority",
        "StreamGetPriority:InvalidResourceHandle",
    ),
)
def priority(run: Run) -> Observations:
    """Streams made with priorities below, in and above the reported range report the nearest one in it."""
    device, ffi = run.device, run.device.runtime.ffi
    least, greatest, told = ffi.new("int *"), ffi.new("int *"), ffi.new("int *")
    with device.current():
        device.call("DeviceGetStreamPriorityRange", least, greatest)
    asked = [*range(greatest[0] - 2, least[0] + 3), 1000, -1000]
    found, handle = [], ffi.new("Stream *")
    flags = device.runtime.constant("StreamFlags", "NonBlocking")
    with device.current():
        for one in asked:
            device.call("StreamCreateWithPriority", handle, flags, one)
            device.call("StreamGetPriority", handle[0], told)
            found.append(int(told[0]))
            device.call("StreamDestroy", handle[0])
        checked = run.facts.capabilities["handle.checked"]
        stale = said(run, "StreamGetPriority", handle[0], told) if checked else ""
        wrong = said(run, "StreamCreateWithPriority", handle, 0x7FFF0000, 0)
    edges = [int(least[0]), int(greatest[0])]
    return {"range": edges, "asked": asked, "found": found, "wrong": wrong, "stale": stale}


@priority.judge
def _(seen: Seen) -> None:
    clause = "host.stream.priority"
    least, greatest = seen["range"]
    seen.holds(clause, "the greatest priority is a smaller number than the least", greatest < least, seen["range"])
    wanted = [min(max(one, greatest), least) for one in seen["asked"]]
    seen.equal(clause, "the priorities that the streams report", seen["found"], wanted)
    seen.equal(clause, "a stream with unknown flags", seen["wrong"], "InvalidValue")
    if seen.facts.capabilities["handle.checked"]:
        seen.equal(clause, "the priority of a stream that was destroyed", seen["stale"], "InvalidResourceHandle")


@case(
    "host/stream.host_function",
    level="L2",
    clauses=("host.stream.host_function",),
    kernels=("probe_host",),
    needs=("stream.host_function", "memory.mapped"),
    calls=("LaunchHostFunc", "LaunchHostFunc:InvalidValue", "LaunchHostFunc:InvalidResourceHandle"),
)
def host_function(run: Run) -> Observations:
    """Host functions between kernels run once each, see what ran before them, and are seen by what runs after."""
    words, seen_words = run.buffer(8), []
    double, stream = run.kernel("probe_host", "host_double"), run.stream
    view = words.numpy(np.uint32)
    view[0] = 1

    def add_one() -> None:
        seen_words.append(int(view[0]))
        view[0] += 1

    for _ in range(3):
        launch_on(stream, double, 1, 1, words, 1)
        stream.call(add_one)
    launch_on(stream, double, 1, 1, words, 1)
    stream.synchronize()
    left = int(view[0])
    stream.synchronize()
    ffi = run.device.runtime.ffi
    never = ffi.callback("void(void *)", lambda _: seen_words.append(-1))
    with run.device.create_stream() as closed:
        pass
    checked = run.facts.capabilities["handle.checked"]
    return {
        "stale": said(run, "LaunchHostFunc", closed.handle, never, ffi.NULL) if checked else "",
        "seen": seen_words,
        "left": left,
        "later": int(view[0]),
        "none": said(run, "LaunchHostFunc", stream.handle, ffi.NULL, ffi.NULL),
    }


@host_function.judge
def _(seen: Seen) -> None:
    clause = "host.stream.host_function"
    seen.equal(clause, "what the functions saw, one call each", seen["seen"], [2, 6, 14])
    seen.equal(clause, "what the last kernel made of the last function's word", seen["left"], 30)
    seen.equal(clause, "the word after another wait: no function ran again", seen["later"], 30)
    seen.equal(clause, "no function at all", seen["none"], "InvalidValue")
    if seen.facts.capabilities["handle.checked"]:
        seen.equal(clause, "a function on a stream that was destroyed", seen["stale"], "InvalidResourceHandle")


@case(
    "host/stream.memory_operations",
    level="L2",
    clauses=("host.stream.memory_operations",),
    kernels=("probe_host",),
    needs=("stream.memory_operations", "memory.mapped"),
    calls=(
        "StreamWriteValue32",
        "StreamWriteValue32:InvalidValue",
        "StreamWaitValue32",
        "StreamWaitValue32:InvalidValue",
    ),
)
def memory_operations(run: Run) -> Observations:
    """A stream's write is seen by the kernel behind it; its wait holds the stream until the host stores the word."""
    device, stream, words = run.device, run.stream, run.buffer(12)
    equal = device.runtime.constant("StreamWaitValue", "Eq")
    write = device.runtime.constant("StreamWriteValue", "Default")
    run.closing.callback(lambda: poke(run, words, 5))
    with device.current():
        device.call("StreamWriteValue32", stream.handle, words.address + 4, 20, write)
        launch_on(stream, run.kernel("probe_host", "host_double"), 1, 1, words[4:8], 1)
        stream.synchronize()
        doubled = peek(run, words, 4)
        device.call("StreamWaitValue32", stream.handle, words.address, 5, equal)
        device.call("StreamWriteValue32", stream.handle, words.address + 8, 6, write)
        held = [stream.query(), peek(run, words, 8)]
        poke(run, words, 4)
        held += [stream.query(), peek(run, words, 8)]
        poke(run, words, 5)
        stream.synchronize()
        odd = [
            said(run, "StreamWriteValue32", stream.handle, words.address + 1, 1, write),
            said(run, "StreamWaitValue32", stream.handle, words.address + 1, 1, equal),
        ]
    return {"doubled": doubled, "held": held, "after": peek(run, words, 8), "odd": odd}


@memory_operations.judge
def _(seen: Seen) -> None:
    clause = "host.stream.memory_operations"
    seen.equal(clause, "the written word after a kernel doubled it", seen["doubled"], 40)
    seen.equal(clause, "before and after a store that is not awaited", seen["held"], [False, 0, False, 0])
    seen.equal(clause, "what is behind the wait, after the awaited store", seen["after"], 6)
    seen.equal(clause, "words that are not aligned", seen["odd"], ["InvalidValue"] * 2)

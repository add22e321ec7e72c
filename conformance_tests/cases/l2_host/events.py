"""Events: when they are complete, who waits for them, and the time between them."""

from __future__ import annotations

import itertools
import time
from typing import TYPE_CHECKING, Any

import numpy as np

from tutti_hal.conformance_tests.case import Observations, case
from tutti_hal.conformance_tests.cases.l2_host.gates import OPENED, Gate, mend, peek, said
from tutti_hal.conformance_tests.observation import refusal
from tutti_hal.conformance_tests.run import Run
from tutti_hal.conformance_tests.seen import Seen

if TYPE_CHECKING:
    from tutti_hal.shim import EventOptions

_WORK_NS = 3_000_000


def _options(**options: Any) -> EventOptions:
    from tutti_hal.shim import EventOptions

    return EventOptions(**options)


@case(
    "host/event.record",
    level="L2",
    clauses=("host.event.record",),
    kernels=("probe_host",),
    needs=("memory.mapped",),
    calls=("EventCreateWithFlags", "EventRecord", "EventRecord:InvalidResourceHandle", "EventDestroy"),
)
def record(run: Run) -> Observations:
    """An event follows its last record: complete before held work, then not, then complete when that has ended."""
    stream, mark = run.stream, run.closing.enter_context(run.device.create_event())
    stream.record(mark)
    stream.synchronize()
    complete = [mark.query()]
    gate = Gate(run, stream)
    complete.append(mark.query())
    stream.record(mark)
    complete.append(mark.query())
    gate.open()
    stream.synchronize()
    complete.append(mark.query())
    null = run.device.runtime.ffi.NULL
    return {
        "complete": complete,
        "answer": gate.answer,
        "none": [said(run, "EventRecord", null, stream.handle), said(run, "EventDestroy", null)],
    }


@record.judge
def _(seen: Seen) -> None:
    clause = "host.event.record"
    wanted = [True, True, False, True]
    seen.equal(clause, "complete: recorded, work behind it, recorded again, ended", seen["complete"], wanted)
    seen.equal(clause, "the held kernel ended by the gate", seen["answer"], OPENED)
    seen.equal(clause, "the record of no event", seen["none"][0], "InvalidResourceHandle")
    seen.equal(clause, "the end of no event", seen["none"][1], "InvalidResourceHandle")


@case(
    "host/event.query",
    level="L2",
    clauses=("host.event.query",),
    kernels=("probe_host",),
    needs=("memory.mapped",),
    calls=("EventCreate", "EventQuery", "EventQuery:NotReady", "EventQuery:InvalidResourceHandle"),
)
def query(run: Run) -> Observations:
    """A query returns while the kernel before the event waits for the host; a fresh event counts as complete."""
    device, ffi = run.device, run.device.runtime.ffi
    handle = ffi.new("Event *")
    with device.current():
        device.call("EventCreate", handle)
        fresh = said(run, "EventQuery", handle[0])
        device.call("EventDestroy", handle[0])
    gate = Gate(run, run.stream)
    with run.stream.record() as mark:
        held, raw, answer = mark.query(), said(run, "EventQuery", mark.handle), gate.answer
        gate.open()
        mark.synchronize()
        done = mark.query()
    none = said(run, "EventQuery", ffi.NULL)
    return {"fresh": fresh, "held": held, "raw": raw, "answer": answer, "done": done, "none": none}


@query.judge
def _(seen: Seen) -> None:
    clause = "host.event.query"
    seen.equal(clause, "an event that was never recorded", seen["fresh"], "Success")
    seen.equal(clause, "an event behind a held kernel", [seen["held"], seen["raw"]], [False, "NotReady"])
    seen.equal(clause, "no query waited for the kernel", seen["answer"], 0)
    seen.equal(clause, "an event that was waited for", seen["done"], True)
    seen.equal(clause, "no event", seen["none"], "InvalidResourceHandle")


@case(
    "host/event.synchronize",
    level="L2",
    clauses=("host.event.synchronize",),
    kernels=("probe_host",),
    needs=("memory.mapped",),
    axes={"sleeping": (False, True)},
    calls=("EventSynchronize", "EventSynchronize:InvalidResourceHandle"),
)
def synchronize(run: Run) -> Observations:
    """A wait returns after the work before the event, and does not wait for what is behind it."""
    stream, word = run.stream, run.buffer(4)
    options = _options(timing=False, blocking_sync=bool(run.axes["sleeping"]))
    with run.device.create_event(options) as never:
        never.synchronize()
    run.launch(run.kernel("probe_host", "host_late"), 1, 1, word, 1, 8, _WORK_NS, wait=False)
    mark = run.closing.enter_context(stream.record(options=options))
    gate = Gate(run, stream)
    mark.synchronize()
    found, behind = peek(run, word), gate.answer
    gate.open()
    stream.synchronize()
    none = said(run, "EventSynchronize", run.device.runtime.ffi.NULL)
    return {"word": found, "behind": behind, "answer": gate.answer, "none": none}


@synchronize.judge
def _(seen: Seen) -> None:
    clause = "host.event.synchronize"
    seen.equal(clause, "the slow kernel's word when the wait returned", seen["word"], 8)
    seen.equal(clause, "the kernel behind the event, then and at the end", [seen["behind"], seen["answer"]], [0, 6])
    seen.equal(clause, "no event", seen["none"], "InvalidResourceHandle")


@case(
    "host/event.synchronize_failure",
    level="L2",
    clauses=("host.event.synchronize",),
    kernels=("probe_host",),
    needs=("memory.mapped",),
    calls=("EventSynchronize:LaunchFailure",),
    fails_device=True,
)
def synchronize_failure(run: Run) -> Observations:
    """A wait for an event behind a kernel that traps gives that failure."""
    word = run.buffer(4, "device")
    try:
        gate = Gate(run, run.stream)  # so that the failure comes after the record
        run.launch(run.kernel("probe_host", "host_trap"), 1, 32, word, wait=False)
        mark = run.stream.record()
        gate.open()
        found = refusal(mark.synchronize)
    finally:
        mended = mend(run)
    return {"found": found, "again": refusal(run.device.synchronize) if mended else None}


@synchronize_failure.judge
def _(seen: Seen) -> None:
    clause = "host.event.synchronize"
    seen.refused(clause, "the wait behind a kernel that traps", seen["found"], "LaunchFailed", "LaunchFailure")
    if seen.facts.capabilities["error.recoverable"]:
        seen.equal(clause, "the device refuses after its reset", seen["again"]["refused"], False)


@case(
    "host/event.elapsed",
    level="L2",
    clauses=("host.event.elapsed",),
    kernels=("probe_launch",),
    needs=("event.timing",),
    calls=("EventElapsedTime", "EventCreate"),
)
def elapsed(run: Run) -> Observations:
    """Events around kernels that read the clock are as far apart as it says, and no farther than the host saw."""
    kernel, rows = run.kernel("probe_launch", "launch_clock"), run.buffer(3 * 16, "device")
    began = time.perf_counter_ns()
    marks = [run.stream.record()]
    for index, ns in enumerate((0, _WORK_NS, 2 * _WORK_NS)):
        run.launch(kernel, 1, 1, rows[16 * index : 16 * index + 16], ns, wait=False)
        marks.append(run.stream.record())
    run.stream.synchronize()
    host_ms = (time.perf_counter_ns() - began) / 1e6
    between = [later - earlier for earlier, later in itertools.pairwise(marks)]
    found = {
        "between_ms": between,
        "whole_ms": marks[-1] - marks[0],
        "none_ms": marks[0] - marks[0],
        "clock_ns": run.read(rows, np.uint64, (3, 2)),
        "host_ms": host_ms,
    }
    for mark in marks:
        mark.close()
    return found


@elapsed.judge
def _(seen: Seen) -> None:
    clause = "host.event.elapsed"
    clock_ms = np.diff(seen["clock_ns"].astype(np.int64), axis=1).reshape(-1) / 1e6
    between, whole = seen["between_ms"], seen["whole_ms"]
    # Half a microsecond is the finest that the field's events tell; a thousandth is room for single precision.
    least = [ms * 0.999 - 0.0005 for ms in clock_ms]
    held = all(found >= wanted for found, wanted in zip(between, least, strict=True))
    seen.holds(clause, "no time is shorter than the kernel's own clock says", held, [between, clock_ms.tolist()], 3)
    seen.holds(
        clause, "the clock was read around the work", clock_ms[1] >= 3 and clock_ms[2] >= 6, clock_ms.tolist(), 2
    )
    seen.equal(clause, "the time from an event to itself", seen["none_ms"], 0.0)
    held = abs(sum(between) - whole) <= 0.001 * whole + 0.002
    seen.holds(clause, "the parts add up to the whole", held, [between, whole])
    if seen.facts.simulated:
        # Virtual time is spent by work alone.
        seen.holds(
            clause, "virtual time goes on with the work alone", whole <= sum(clock_ms) + 1, [whole, sum(clock_ms)]
        )
    else:
        held = whole <= seen["host_ms"] * 1.01 + 1
        seen.holds(clause, "the whole is no longer than the host saw", held, [whole, seen["host_ms"]])


@case(
    "host/event.elapsed_refused",
    level="L2",
    clauses=("host.event.elapsed_refused",),
    kernels=("probe_host",),
    needs=("event.timing", "memory.mapped"),
    calls=(
        "EventElapsedTime:NotReady",
        "EventElapsedTime:InvalidResourceHandle",
        "EventCreateWithFlags:InvalidValue",
    ),
)
def elapsed_refused(run: Run) -> Observations:
    """No time is told to an event without timing, never recorded, or behind held work, by the shim or by the vendor."""
    device, stream = run.device, run.stream
    milliseconds = device.runtime.ffi.new("float *", -7.0)
    start = run.closing.enter_context(stream.record())
    untimed = run.closing.enter_context(stream.record(options=_options(timing=False)))
    never = run.closing.enter_context(device.create_event())
    stream.synchronize()
    gate = Gate(run, stream)
    late = run.closing.enter_context(stream.record())
    marks = {"untimed": untimed, "never": never, "late": late}
    found = {
        name: {
            "shim": refusal(lambda mark=mark: mark - start),  # type: ignore[misc]
            "vendor": said(run, "EventElapsedTime", milliseconds, start.handle, mark.handle),
            "vendor_reversed": said(run, "EventElapsedTime", milliseconds, mark.handle, start.handle),
        }
        for name, mark in marks.items()
    }
    gate.open()
    stream.synchronize()
    after = late - start
    with device.current():
        flags = said(run, "EventCreateWithFlags", device.runtime.ffi.new("Event *"), 0x7FFF0000)
    return {"found": found, "after": after, "answer": gate.answer, "flags": flags}


@elapsed_refused.judge
def _(seen: Seen) -> None:
    clause = "host.event.elapsed_refused"
    for name, canonical in (
        ("untimed", "InvalidResourceHandle"),
        ("never", "InvalidResourceHandle"),
        ("late", "NotReady"),
    ):
        found = seen["found"][name]
        seen.refused(clause, f"the time to an event: {name}", found["shim"], "InvalidArgument")
        seen.equal(clause, f"the vendor's answer: {name}", found["vendor"], canonical)
        seen.equal(clause, f"the vendor's answer the other way round: {name}", found["vendor_reversed"], canonical)
    seen.holds(clause, "the time is told once the work has ended", seen["after"] >= 0, seen["after"])
    seen.equal(clause, "the held kernel ended by the gate", seen["answer"], OPENED)
    seen.equal(clause, "an event with unknown flags", seen["flags"], "InvalidValue")

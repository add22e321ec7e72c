"""What streams do in which order: one after the other in one stream, beside each other in two."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from tutti_hal.conformance_tests.case import Observations, case
from tutti_hal.conformance_tests.cases.l2_host.gates import OPENED, PATIENCE_NS, Gate, launch_on, mend, peek, said
from tutti_hal.conformance_tests.observation import refusal
from tutti_hal.conformance_tests.run import Run
from tutti_hal.conformance_tests.seen import Seen

if TYPE_CHECKING:
    from tutti_hal.shim import Stream

_STEPS = 8


@case(
    "host/stream.in_order",
    level="L2",
    clauses=("host.stream.in_order",),
    kernels=("probe_launch", "probe_host"),
    calls=("StreamCreateWithFlags", "LaunchKernel", "MemsetAsync", "MemcpyAsync"),
)
def in_order(run: Run) -> Observations:
    """Kernels that take ever less time, and fills and copies between them, happen in the order of their enqueuing."""
    append, double = run.kernel("probe_launch", "launch_append"), run.kernel("probe_host", "host_double")
    log, word, slots = run.buffer(4 + 4 * _STEPS), run.buffer(4, "device"), run.buffer(4 * _STEPS, "device")
    stream = run.stream
    for step in range(_STEPS):
        run.launch(append, 1, 1, log, step + 1, (_STEPS - step) * 20_000, wait=False)
        stream.fill(word, step + 1)
        run.launch(double, 1, 1, word, 1, wait=False)
        stream.copy(slots[4 * step : 4 * step + 4], word)
    return {"log": run.read(log, np.uint32), "slots": run.read(slots, np.uint32)}


@in_order.judge
def _(seen: Seen) -> None:
    steps = np.arange(1, _STEPS + 1, dtype=np.uint32)
    log = seen["log"]
    seen.equal("host.stream.in_order", "the number of kernels that ran", int(log[0]), _STEPS)
    seen.equal("host.stream.in_order", "the order in which the kernels ran", log[1:], steps)
    seen.equal("host.stream.in_order", "what each fill, kernel and copy left", seen["slots"], steps * 0x02020202)


@case(
    "host/stream.concurrent",
    level="L2",
    clauses=("host.stream.concurrent",),
    kernels=("probe_launch", "probe_host"),
    needs=("memory.mapped",),
    calls=("StreamCreateWithFlags",),
)
def concurrent(run: Run) -> Observations:
    """Kernels of two non-blocking streams wait for each other's flag, and both see it; a held stream holds no other."""
    meet, cells = run.kernel("probe_launch", "launch_meet"), run.buffer(16)
    a, b = (run.closing.enter_context(run.device.create_stream()) for _ in range(2))
    launch_on(a, meet, 1, 1, cells[0:4], cells[4:8], cells[8:12], PATIENCE_NS)
    launch_on(b, meet, 1, 1, cells[4:8], cells[0:4], cells[12:16], PATIENCE_NS)
    a.synchronize()
    b.synchronize()
    met = run.read(cells, np.uint32)[2:]
    gate = Gate(run, a)
    beside = run.buffer(4, "device", fill=None)
    b.fill(beside, 9)
    b.synchronize()
    held = gate.answer == 0
    gate.open()
    a.synchronize()
    return {"met": met, "beside": run.read(beside, np.uint8), "held": held, "answer": gate.answer}


@concurrent.judge
def _(seen: Seen) -> None:
    clause = "host.stream.concurrent"
    seen.equal(clause, "each kernel saw the other's flag while it ran", seen["met"], np.array([2, 2], np.uint32))
    seen.equal(clause, "the work of one stream, done while the other was held", seen["beside"], np.full(4, 9, np.uint8))
    seen.equal(clause, "the other was still held then", seen["held"], True)
    seen.equal(clause, "the held kernel ended by the gate", seen["answer"], OPENED)


@case(
    "host/stream.query",
    level="L2",
    clauses=("host.stream.query",),
    kernels=("probe_host",),
    needs=("memory.mapped",),
    calls=("StreamQuery", "StreamQuery:NotReady"),
)
def query(run: Run) -> Observations:
    """A query returns while the stream's kernel waits for the host, says not-ready, and ready once it has ended."""
    stream = run.stream
    idle = stream.query()
    gate = Gate(run, stream)
    held = [stream.query() for _ in range(3)]
    raw = said(run, "StreamQuery", stream.handle)
    typed = refusal(lambda: run.device.call("StreamQuery", stream.handle))
    answer = gate.answer
    gate.open()
    stream.synchronize()
    return {
        "idle": idle,
        "held": held,
        "raw": raw,
        "typed": typed,
        "answer": answer,
        "done": stream.query(),
        "ended": gate.answer,
    }


@query.judge
def _(seen: Seen) -> None:
    clause = "host.stream.query"
    seen.equal(clause, "a query of an idle stream", seen["idle"], True)
    seen.equal(clause, "queries of a held stream", seen["held"], [False, False, False])
    seen.equal(clause, "what the function returned", seen["raw"], "NotReady")
    seen.refused(clause, "the function called through the shim", seen["typed"], "RuntimeFailure", "NotReady")
    seen.equal(clause, "no query waited for the kernel", seen["answer"], 0)
    seen.equal(clause, "a query of a stream that was waited for", seen["done"], True)
    seen.equal(clause, "the kernel ended by the gate", seen["ended"], OPENED)


@case(
    "host/stream.synchronize",
    level="L2",
    clauses=("host.stream.synchronize",),
    kernels=("probe_host",),
    needs=("memory.mapped",),
    calls=("StreamSynchronize",),
)
def synchronize(run: Run) -> Observations:
    """After a synchronisation the host reads what the stream's last, slow kernel stored."""
    late, words = run.kernel("probe_host", "host_late"), run.buffer(256)
    found = []
    for value in (1, 2, 3):
        run.launch(late, 1, 1, words, 64, value, 1_000_000, wait=False)
        run.stream.synchronize()
        found.append([peek(run, words, at) for at in (0, 128, 252)])
    return {"found": found}


@synchronize.judge
def _(seen: Seen) -> None:
    seen.equal("host.stream.synchronize", "words after each wait", seen["found"], [[1] * 3, [2] * 3, [3] * 3])


@case(
    "host/stream.synchronize_failure",
    level="L2",
    clauses=("host.stream.synchronize",),
    kernels=("probe_host",),
    calls=("StreamSynchronize:LaunchFailure", "DeviceReset"),
    fails_device=True,
)
def synchronize_failure(run: Run) -> Observations:
    """The wait for a stream whose kernel traps gives that failure; the device works after a reset, where that helps."""
    word = run.buffer(4, "device")
    run.launch(run.kernel("probe_host", "host_trap"), 1, 32, word, wait=False)
    try:
        first = refusal(run.stream.synchronize)
    finally:
        mended = mend(run)
    if not mended:
        return {"first": first}
    with run.device.allocate(4) as fresh, run.device.create_stream() as stream:
        stream.fill(fresh, 3)
        out = np.zeros(4, np.uint8)
        stream.copy(out, fresh)
        stream.synchronize()
    return {"first": first, "after": out}


@synchronize_failure.judge
def _(seen: Seen) -> None:
    clause = "host.stream.synchronize"
    seen.refused(clause, "the wait for a kernel that traps", seen["first"], "LaunchFailed", "LaunchFailure")
    if seen.facts.capabilities["error.recoverable"]:
        seen.equal(clause, "a fill after the reset", seen["after"], np.full(4, 3, np.uint8))


@case(
    "host/stream.wait_event",
    level="L2",
    clauses=("host.stream.wait_event",),
    kernels=("probe_host", "probe_launch"),
    needs=("memory.mapped",),
    calls=("StreamWaitEvent", "StreamWaitEvent:InvalidResourceHandle", "StreamWaitEvent:InvalidValue"),
)
def wait_event(run: Run) -> Observations:
    """Work behind a wait starts after what the event had recorded, also when the event is destroyed at once."""
    device, append, log = run.device, run.kernel("probe_launch", "launch_append"), run.buffer(16)
    a, b = (run.closing.enter_context(device.create_stream()) for _ in range(2))
    with device.create_event() as never:
        b.wait(never)
        b.synchronize()
        flags = said(run, "StreamWaitEvent", b.handle, never.handle, 0x7FFF0000)
    none = said(run, "StreamWaitEvent", b.handle, device.runtime.ffi.NULL, 0)
    gate = Gate(run, a)
    launch_on(a, append, 1, 1, log, 1, 0)
    mark = a.record()
    b.wait(mark)
    mark.close()
    launch_on(b, append, 1, 1, log, 2, 0)
    held = [b.query(), peek(run, log)]
    gate.open()
    b.synchronize()
    return {"held": held, "log": run.read(log, np.uint32), "answer": gate.answer, "flags": flags, "none": none}


@wait_event.judge
def _(seen: Seen) -> None:
    clause = "host.stream.wait_event"
    seen.equal(clause, "while the event is not reached: stream ready, kernels that ran", seen["held"], [False, 0])
    seen.equal(clause, "who ran, in order", seen["log"][:3], np.array([2, 1, 2], np.uint32))
    seen.equal(clause, "the held kernel ended by the gate", seen["answer"], OPENED)
    seen.equal(clause, "a wait with unknown flags", seen["flags"], "InvalidValue")
    seen.equal(clause, "a wait for no event", seen["none"], "InvalidResourceHandle")


@case(
    "host/stream.default_legacy",
    level="L2",
    clauses=("host.stream.default_legacy",),
    kernels=("probe_host", "probe_launch"),
    needs=("memory.mapped",),
    calls=("StreamCreate", "StreamCreateWithFlags"),
    axes={"made": ("plain", "flags")},
)
def default_legacy(run: Run) -> Observations:
    """The default stream waits behind a held blocking one, another blocking one behind it, a non-blocking one never."""
    device, append, log = run.device, run.kernel("probe_launch", "launch_append"), run.buffer(16)
    late = run.buffer(4, "device", fill=None)
    a, b = (_blocking(run) for _ in range(2))
    free = run.closing.enter_context(device.create_stream())
    gate = Gate(run, a)
    launch_on(a, append, 1, 1, log, 1, 0)
    launch_on(device.default_stream, append, 1, 1, log, 2, 0)
    launch_on(b, append, 1, 1, log, 3, 0)
    free.fill(late, 4)
    free.synchronize()
    held = [device.default_stream.query(), b.query(), free.query(), peek(run, log)]
    gate.open()
    b.synchronize()
    device.default_stream.synchronize()
    return {
        "held": held,
        "log": run.read(log, np.uint32),
        "free": run.read(late, np.uint8),
        "answer": gate.answer,
    }


def _blocking(run: Run) -> Stream:
    from tutti_hal.shim import Stream, StreamOptions

    if run.axes["made"] == "flags":
        return run.closing.enter_context(run.device.create_stream(StreamOptions(nonblocking=False)))
    handle = run.device.runtime.ffi.new("Stream *")
    with run.device.current():
        run.device.call("StreamCreate", handle)
    return run.closing.enter_context(Stream(run.device, handle[0], StreamOptions(nonblocking=False)))


@default_legacy.judge
def _(seen: Seen) -> None:
    clause = "host.stream.default_legacy"
    wanted = [False, False, True, 0]
    seen.equal(clause, "held: default, blocking, non-blocking stream ready; kernels that ran", seen["held"], wanted)
    seen.equal(clause, "who ran, in order", seen["log"], np.array([3, 1, 2, 3], np.uint32))
    seen.equal(clause, "the non-blocking stream's fill", seen["free"], np.full(4, 4, np.uint8))
    seen.equal(clause, "the held kernel ended by the gate", seen["answer"], OPENED)

"""Errors: each refusal of the contract has its own, and a failed kernel's is not lost."""

from __future__ import annotations

import threading
from collections.abc import Mapping
from typing import Any

from tutti_hal.conformance_tests.case import Observations, case
from tutti_hal.conformance_tests.cases.l2_host.raw import ask, device_count, out
from tutti_hal.conformance_tests.observation import refusal
from tutti_hal.conformance_tests.run import Run
from tutti_hal.conformance_tests.seen import Seen


@case(
    "host/error.last",
    level="L2",
    clauses=("host.error.sticky_last",),
    calls=("GetLastError", "PeekAtLastError"),
)
def last(run: Run) -> Observations:
    """The last error stays until it is taken, for the thread that made it and no other."""
    device = run.device
    ordinal = device_count(device)
    device.code("GetLastError")
    clean = device.code("PeekAtLastError")
    code = device.code("SetDevice", ordinal)
    after = [device.code("PeekAtLastError"), device.code("PeekAtLastError")]
    device.call("GetDevice", out(device, "int *"))
    after.append(device.code("PeekAtLastError"))
    beside: list[int] = []
    other = threading.Thread(target=lambda: beside.extend(device.code(n) for n in ("PeekAtLastError", "GetLastError")))
    other.start()
    other.join()
    taken = [device.code("GetLastError"), device.code("GetLastError"), device.code("PeekAtLastError")]
    return {"clean": clean, "code": code, "peeked": after, "beside": beside, "taken": taken}


@last.judge
def _(seen: Seen) -> None:
    clause, code = "host.error.sticky_last", seen["code"]
    seen.holds(clause, "the call was refused with a number", code != 0, code)
    seen.equal(clause, "the last error before any", seen["clean"], 0)
    seen.equal(clause, "three peeks, the last one after a call that succeeded", seen["peeked"], [code] * 3)
    seen.equal(clause, "the last error of another thread", seen["beside"], [0, 0])
    seen.equal(clause, "taken, taken again, and peeked", seen["taken"], [code, 0, 0])


@case(
    "host/error.text",
    level="L2",
    clauses=("host.error.strings",),
    calls=("GetErrorName", "GetErrorString"),
)
def text(run: Run) -> Observations:
    """Every number of the record has the name that the record spells, and a sentence; an unknown one a placeholder."""
    device, table = run.device, run.profile.record.errors

    def words(code: int) -> list[str]:
        return [device.runtime.text(device.host_calls, name, code) for name in ("GetErrorName", "GetErrorString")]

    known = {name: [table.spelling(name), *words(code)] for name, code in table.values.items()}
    return {"known": known, "unknown": {str(code): words(code) for code in (-1, 0x7FFF_FFF0, 54_321)}}


@text.judge
def _(seen: Seen) -> None:
    clause = "host.error.strings"
    for name, (spelling, told, sentence) in seen["known"].items():
        seen.equal(clause, f"the vendor's name of {name}", told, spelling)
        seen.holds(clause, f"{name} has a sentence", len(sentence) >= 2, sentence)
    for code, (told, sentence) in seen["unknown"].items():
        seen.holds(clause, f"the unknown {code} has a placeholder", told and sentence, [told, sentence])
        names = [one[1] for one in seen["known"].values()]
        seen.holds(clause, f"the unknown {code} has no known error's name", told not in names, told)


@case(
    "host/error.detail",
    level="L2",
    clauses=("host.error.detail",),
    needs=("error.detail",),
    calls=("GetLastErrorDetail",),
)
def detail(run: Run) -> Observations:
    """The detail of a refused call names the value that was refused."""
    device = run.device
    ffi = device.runtime.ffi
    size = (1 << 50) + int(run.random.integers(1, 1 << 40))
    ordinal = device_count(device) + int(run.random.integers(100, 10_000))
    number = 1_000_000 + int(run.random.integers(1, 1_000_000))
    buffer = run.buffer(64, "device")
    calls: Mapping[str, tuple[Any, ...]] = {
        "Malloc": (size, (ffi.new("void **"), size)),
        "SetDevice": (ordinal, (ordinal,)),
        "DeviceGetAttribute": (number, (ffi.new("int *"), number, device.vendor_ordinal)),
        "Memset": (number, (ffi.cast("void *", buffer.address), 0, number)),
    }
    seen = {}
    for name, (value, args) in calls.items():
        with device.current():
            refused = device.code(name, *args) != 0
            room = ffi.new("char[]", 512)
            device.call("GetLastErrorDetail", room, 512)
            said = ffi.string(room).decode()
            short = ffi.new("char[]", b"########")
            device.call("GetLastErrorDetail", short, 4)
            device.code("GetLastError")
        seen[name] = {"value": value, "refused": refused, "said": said, "short": bytes(ffi.buffer(short)[:8])}
    return {"calls": seen}


@detail.judge
def _(seen: Seen) -> None:
    clause = "host.error.detail"
    for name, one in seen["calls"].items():
        seen.equal(clause, f"{name} was refused", one["refused"], True)
        seen.holds(clause, f"the detail of {name} names {one['value']}", str(one["value"]) in one["said"], one["said"])
        wanted = one["said"].encode()[:3] + b"\0####"
        seen.equal(clause, f"the detail of {name} in room for four bytes", one["short"], wanted.hex())


#: How the host may come to know that a kernel failed.
_WAITS = ("stream", "device", "event", "copy")


@case(
    "host/error.asynchronous",
    level="L2",
    clauses=("host.error.asynchronous",),
    kernels=("probe_host",),
    needs=("memory.mapped",),
    axes={"wait": _WAITS},
    calls=(
        "DeviceSynchronize:LaunchFailure",
        "StreamSynchronize:LaunchFailure",
        "EventSynchronize:LaunchFailure",
    ),
    fails_device=True,
)
def asynchronous(run: Run) -> Observations:
    """A trap comes out of the first wait and of every call after it."""
    return _trapped(run, str(run.axes["wait"]))


@asynchronous.judge
def _(seen: Seen) -> None:
    clause = "host.error.asynchronous"
    seen.equal(clause, "the launch itself", seen["launched"], {"refused": False})
    if seen["marked"]["refused"]:
        seen.refused(clause, "a record behind it", seen["marked"], "LaunchFailed", "LaunchFailure")
    seen.refused(clause, "the first wait", seen["first"], "LaunchFailed", "LaunchFailure")
    for name, one in seen["later"].items():
        seen.refused(clause, f"{name}, later", one, "LaunchFailed", "LaunchFailure")


@case(
    "host/error.recovers",
    level="L2",
    clauses=("host.device.reset",),
    kernels=("probe_host",),
    needs=("memory.mapped", "error.recoverable"),
    calls=("DeviceReset",),
    fails_device=True,
)
def recovers(run: Run) -> Observations:
    """After a trap that everything has heard of, a reset makes the device work again."""
    import numpy as np

    from tutti_hal.shim import LaunchConfig

    failed = _trapped(run, "device")["first"]
    device = run.device
    device.reset()
    words, count = run.subject.kernel("probe_host", "host_count"), 100
    data = np.zeros(count, np.uint32)
    with device.create_stream() as fresh, device.allocate(4 * count) as memory:
        fresh.launch(LaunchConfig(1, 64), words, memory, count, 7)
        fresh.copy(data, memory)
        fresh.synchronize()
    return {"failed": failed, "after": data}


@recovers.judge
def _(seen: Seen) -> None:
    import numpy as np

    clause = "host.device.reset"
    seen.refused(clause, "a wait for a kernel that trapped", seen["failed"], "LaunchFailed", "LaunchFailure")
    wanted = np.arange(7, 107, dtype=np.uint32)
    seen.equal(clause, "what a kernel stored after the reset", seen["after"], wanted)


def _trapped(run: Run, wait: str) -> dict[str, Any]:
    """Launch a kernel that traps, wait in one way, then ask in every way."""
    from tutti_hal.shim import LaunchConfig

    device, stream = run.device, run.stream
    word = run.buffer(64)
    event = device.create_event()
    kernel = run.kernel("probe_host", "host_trap")
    launched = refusal(lambda: stream.launch(LaunchConfig(1, 32), kernel, word))
    marked = refusal(lambda: stream.record(event))  # refused where the kernel has failed already
    waits = {
        "stream": stream.synchronize,
        "device": device.synchronize,
        "event": event.synchronize,
        "copy": lambda: stream.copy(bytearray(64), word),
    }
    first = refusal(waits[wait])
    later = {name: refusal(call) for name, call in waits.items()}
    later |= {
        "query": refusal(stream.query),
        "allocate": refusal(lambda: device.allocate(64)),
        "fill": refusal(lambda: stream.fill(word, 1)),
        "info": refusal(device.memory_info),
        "launch": refusal(lambda: stream.launch(LaunchConfig(1, 1), kernel, word)),
    }
    return {"launched": launched, "marked": marked, "first": first, "later": later}


@case(
    "host/error.timeout",
    level="L2",
    clauses=("host.error.asynchronous",),
    kernels=("probe_host",),
    needs=("launch.bounded", "memory.mapped"),
    calls=("DeviceSynchronize:LaunchTimeout", "DeviceGetLaunchReport"),
)
def timeout(run: Run) -> Observations:
    """A launch that outran its limit comes out of the wait as that, and the report says how long it had."""
    from tutti_hal.shim import LaunchConfig

    device = run.device
    words = run.buffer(64)
    kernel = run.kernel("probe_host", "host_await")
    config = LaunchConfig(1, 1, limit_ns=2_000_000)
    run.stream.launch(config, kernel, words, words[4:8], words[8:12], 1, 10**12)
    first = refusal(device.synchronize)
    again = ask(device, "DeviceSynchronize")
    report = device.launch_report()
    device.reset()
    after = refusal(device.synchronize)
    elapsed = report.elapsed_ns if report is not None else -1
    outcome = report.outcome if report is not None else ""
    return {"first": first, "again": again, "after": after, "elapsed_ns": elapsed, "outcome": outcome}


@timeout.judge
def _(seen: Seen) -> None:
    clause = "host.error.asynchronous"
    seen.refused(clause, "the first wait", seen["first"], "LaunchTimeout", "LaunchTimeout")
    seen.refused(clause, "the second wait", seen["again"], "LaunchTimeout", "LaunchTimeout")
    seen.equal(clause, "a wait after the reset", seen["after"], {"refused": False})
    seen.equal(clause, "the report's outcome", seen["outcome"], "limit")
    seen.holds(clause, "it ran for at least its limit", seen["elapsed_ns"] >= 2_000_000, seen["elapsed_ns"])

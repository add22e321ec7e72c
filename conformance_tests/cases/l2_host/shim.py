"""The shim as a whole: it counts its calls, and serves many threads at once."""

from __future__ import annotations

import threading
from typing import Any

from tutti_hal.conformance_tests.case import Observations, case
from tutti_hal.conformance_tests.cases.l2_host.raw import ask
from tutti_hal.conformance_tests.run import Run
from tutti_hal.conformance_tests.seen import Seen

#: Calls that find out or set the current device: how many the shim needs is its own business.
_BOOKKEEPING = ("GetDevice", "SetDevice")


@case("host/shim.counts", level="L2", clauses=("host.calls.counted",), kernels=("probe_host",))
def counts(run: Run) -> Observations:
    """Each call is counted once under its canonical name: made by hand, made by the shim, refused, or made at once."""
    from tutti_hal.shim import LaunchConfig

    device, ffi = run.device, run.device.runtime.ffi
    memory = run.buffer(4096, "device")
    kernel = run.kernel("probe_host", "host_tally")
    stream, host = run.stream, bytearray(4096)
    room, number = ffi.new("void **"), ffi.new("int *")

    def counted(do: Any) -> dict[str, int]:
        before = device.host_calls.copy()
        do()
        return {name: n for name, n in (device.host_calls - before).items() if name not in _BOOKKEEPING}

    seen = {
        "call": counted(lambda: [ask(device, "GetDeviceCount", number) for _ in range(3)]),
        "code": counted(lambda: [device.code("PeekAtLastError") for _ in range(5)]),
        "refused": counted(lambda: device.code("DeviceGetAttribute", number, -5, device.vendor_ordinal)),
        "taken": counted(lambda: device.code("GetLastError")),
        "asked": counted(lambda: ask(device, "DeviceGetAttribute", number, -5, device.vendor_ordinal)),
        "ready": counted(lambda: device.ready("StreamQuery", stream.handle)),
        "copy": counted(lambda: stream.copy(memory, host)),
        "fill": counted(lambda: stream.fill(memory, 0)),
        "launch": counted(lambda: stream.launch(LaunchConfig(1, 1), kernel, memory)),
        "synchronize": counted(stream.synchronize),
        "allocate": counted(lambda: device.allocate(64).close()),
        "event": counted(lambda: stream.record().close()),
        "info": counted(device.memory_info),
    }
    current = device.host_calls.copy()
    device.call("GetDevice", number)
    seen["current"] = dict(device.host_calls - current)

    def many() -> None:
        for _ in range(250):
            device.code("PeekAtLastError")

    def at_once() -> None:
        threads = [threading.Thread(target=many) for _ in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()

    seen["at once"] = counted(at_once)
    del room
    return {"seen": seen}


@counts.judge
def _(seen: Seen) -> None:
    clause = "host.calls.counted"
    once = {
        "call": {"GetDeviceCount": 3},
        "code": {"PeekAtLastError": 5},
        "refused": {"DeviceGetAttribute": 1},
        "taken": {"GetLastError": 1},
        "ready": {"StreamQuery": 1},
        "copy": {"MemcpyAsync": 1},
        "fill": {"MemsetAsync": 1},
        "launch": {"LaunchKernel": 1},
        "synchronize": {"StreamSynchronize": 1},
        "allocate": {"Malloc": 1, "Free": 1},
        "event": {"EventCreateWithFlags": 1, "EventRecord": 1, "EventDestroy": 1},
        "info": {"MemGetInfo": 1},
        "current": {"GetDevice": 1},
        "at once": {"PeekAtLastError": 1000},
    }
    for name, wanted in once.items():
        seen.equal(clause, f"calls of '{name}'", seen["seen"][name], wanted)
    asked = dict(seen["seen"]["asked"])
    seen.equal(clause, "the call that was refused", asked.pop("DeviceGetAttribute", 0), 1)
    # What a vendor has to explain an error with differs; each is asked once.
    seen.holds(clause, "each call that explained the refusal is counted once", set(asked.values()) <= {1}, asked)
    seen.holds(clause, "the call that said what the number means is counted", "GetErrorString" in asked, asked)


_THREADS = 4
_ROUNDS = 6


@case(
    "host/shim.threads",
    level="L2",
    clauses=("host.thread.safe",),
    kernels=("probe_host",),
    calls=("LaunchKernel",),
)
def threads(run: Run) -> Observations:
    """Threads that allocate, copy, launch, record and ask at once on one device each get what they asked for."""
    import numpy as np

    from tutti_hal.shim import LaunchConfig

    device, count = run.device, 500
    names = ("host_double", "host_count", "host_tally")
    double, fill, tally = (run.kernel("probe_host", name) for name in names)
    data = run.random.integers(0, 1 << 31, (_THREADS, _ROUNDS, count), np.uint32)
    shared = run.buffer(4 * _THREADS, "device")
    failures: list[str] = []
    found = np.zeros((_THREADS, _ROUNDS, 2, count), np.uint32)
    begin = threading.Barrier(_THREADS, timeout=5)

    def work(index: int) -> None:
        try:
            begin.wait()
            for turn in range(_ROUNDS):
                with (
                    device.create_stream() as stream,
                    device.allocate(4 * count) as memory,
                    device.allocate(4 * count) as other,
                ):
                    stream.copy(memory, data[index, turn])
                    stream.launch(LaunchConfig(2, 64), double, memory, count)
                    stream.launch(LaunchConfig(2, 64), fill, other, count, 1000 * index + turn)
                    run.stream.launch(LaunchConfig(1, 32), tally, shared[4 * index : 4 * index + 4])
                    with stream.record() as mark:
                        ask(device, "SetDevice", 1_000_000 + index)
                        device.memory_info()
                        mark.synchronize()
                    stream.copy(found[index, turn, 0], memory)
                    stream.copy(found[index, turn, 1], other)
        except Exception as error:
            failures.append(f"{type(error).__name__}: {error}")

    workers = [threading.Thread(target=work, args=(index,)) for index in range(_THREADS)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    return {"data": data, "found": found, "failures": failures, "shared": run.read(shared, np.uint32)}


@threads.judge
def _(seen: Seen) -> None:
    import numpy as np

    clause, data, found = "host.thread.safe", seen["data"], seen["found"]
    seen.equal(clause, "what went wrong in a thread", "; ".join(seen["failures"]), "")
    seen.equal(clause, "what each thread's kernels made of its own words", found[:, :, 0], data * np.uint32(2))
    index, turn = np.meshgrid(np.arange(_THREADS), np.arange(_ROUNDS), indexing="ij")
    firsts = (1000 * index + turn)[:, :, None] + np.arange(data.shape[2])
    seen.equal(clause, "what each thread's kernels stored", found[:, :, 1], firsts.astype(np.uint32))
    whole = np.full(_THREADS, 32 * _ROUNDS, np.uint32)
    seen.equal(clause, "launches of all threads on one stream", seen["shared"], whole)

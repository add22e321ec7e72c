"""Memory that two processes share."""

from __future__ import annotations

from typing import Any

from tutti_hal.conformance_tests.case import Observations, case
from tutti_hal.conformance_tests.cases.l2_host.apart import apart
from tutti_hal.conformance_tests.cases.l2_host.raw import ask, out
from tutti_hal.conformance_tests.run import Run
from tutti_hal.conformance_tests.seen import Seen
from tutti_hal.conformance_tests.subject import Subject

_BYTES = 4096


def visit(subject: Subject, handle: Any) -> dict[str, Any]:
    """In the other process: open the handle, read the bytes, change the first half, close."""
    import numpy as np

    device, ffi = subject.device, subject.device.runtime.ffi
    given = out(device, "IpcMemHandle *")
    ffi.buffer(given)[:] = bytes.fromhex(handle)
    room = out(device, "void **")
    with device.current():
        device.call("IpcOpenMemHandle", room, given[0], 1)
        kinds = {name: device.runtime.constant("MemcpyKind", name) for name in ("DeviceToHost", "HostToDevice")}
        data = np.zeros(_BYTES, np.uint8)
        device.call("Memcpy", ffi.from_buffer(data), room[0], _BYTES, kinds["DeviceToHost"])
        found = data.tobytes().hex()
        data[: _BYTES // 2] ^= 0xFF
        device.call("Memcpy", room[0], ffi.from_buffer(data), _BYTES, kinds["HostToDevice"])
        device.call("DeviceSynchronize")
        device.call("IpcCloseMemHandle", room[0])
    return {"found": found, "twice": ask(device, "IpcCloseMemHandle", room[0])}


@case(
    "host/ipc.memory",
    level="L2",
    clauses=("host.ipc.memory",),
    needs=("ipc.memory",),
    calls=("IpcGetMemHandle", "IpcOpenMemHandle", "IpcCloseMemHandle", "IpcCloseMemHandle:InvalidValue"),
    budget_s=30.0,
    quick=False,
    no_mutant="no profile that runs here shares memory between processes",
)
def memory(run: Run) -> Observations:
    """Another process opens the handle twice in turn, sees the bytes, and leaves its own; the memory stays ours."""
    run.wants_silicon("the memory must be a device's, and not its process's")
    data = run.random.integers(0, 256, _BYTES, "u1")
    memory = run.array(data, "device")
    device, ffi = run.device, run.device.runtime.ffi
    handle = out(device, "IpcMemHandle *")
    device.call("IpcGetMemHandle", handle, ffi.cast("void *", memory.address))
    text = bytes(ffi.buffer(handle)[:]).hex()
    visits, left = [], []
    for _ in range(2):
        visits.append(apart(run, f"{__name__}:visit", text, timeout_s=12))
        left.append(run.read(memory, "u1"))
    return {"data": data, "visits": visits, "left": left}


@memory.judge
def _(seen: Seen) -> None:
    clause, wanted = "host.ipc.memory", seen["data"].copy()
    for visit_, left in zip(seen["visits"], seen["left"], strict=True):
        seen.holds(clause, "the other process ended well", visit_["code"] == 0 and visit_["answer"], visit_)
        if visit_["answer"] is None:
            return
        seen.equal(clause, "what the other process read", visit_["answer"]["found"], wanted.tobytes().hex())
        wanted[: _BYTES // 2] ^= 0xFF
        seen.equal(clause, "what it left", left, wanted)
        seen.refused(clause, "closing twice", visit_["answer"]["twice"], "InvalidArgument", "InvalidValue")

"""A small demonstration of each capability of a vendor's host side."""

from __future__ import annotations

import mmap
import os
from pathlib import Path
from typing import Any

import numpy as np

from tutti_hal.conformance_tests.cases.l2_host.demonstrations import Demonstration, Shown, small_launch
from tutti_hal.conformance_tests.cases.l2_host.gates import launch_on, said
from tutti_hal.conformance_tests.cases.l2_host.raw import ask, out, pointer, second_device
from tutti_hal.conformance_tests.cases.l2_host.shares import first_share
from tutti_hal.conformance_tests.observation import refusal
from tutti_hal.conformance_tests.run import Run
from tutti_hal.conformance_tests.seen import Facts
from tutti_hal.conformance_tests.verdict import SkipReason

_PAGE = 4096


def _through(run: Run, kind: str) -> Shown:
    """Bytes written by the host into memory of a kind, copied to the device and back into other such memory."""
    there, back, beside = run.buffer(256, kind, fill=None), run.buffer(256, kind, fill=None), run.buffer(256, "device")
    there.numpy()[:] = np.arange(256, dtype=np.uint8)
    run.stream.copy(beside, there)
    run.stream.copy(back, beside)
    run.stream.synchronize()
    return {"bytes": back.numpy().copy()}


def _stored_by_kernel(run: Run, kind: str) -> Shown:
    """A kernel's word in memory of a kind, read by the host through its own view."""
    words = run.buffer(256, kind)
    run.launch(run.kernel("probe_host", "host_count"), 1, 64, words, 64, 100)
    return {"words": words.numpy(np.uint32).copy()}


def _counted(shown: Shown, _: Facts) -> bool:
    return bool((shown["words"] == np.arange(100, 164)).all())


def _pools(run: Run) -> Shown:
    device, stream = run.device, run.stream
    place, back = out(device, "void **"), np.zeros(64, np.uint8)
    with device.current():
        device.call("MallocAsync", place, 64, stream.handle)
        device.call("MemsetAsync", place[0], 0x3C, 64, stream.handle)
        kind = device.runtime.constant("MemcpyKind", "DeviceToHost")
        device.call("MemcpyAsync", device.runtime.ffi.from_buffer(back), place[0], 64, kind, stream.handle)
        device.call("FreeAsync", place[0], stream.handle)
        stream.synchronize()
    return {"bytes": back}


def _register(run: Run) -> Shown:
    pages = mmap.mmap(-1, _PAGE)
    run.closing.callback(pages.close)
    with run.device.register(pages) as memory:
        run.launch(run.kernel("probe_host", "host_count"), 1, 64, memory[0:256], 64, 100)
    return {"words": np.frombuffer(pages[:256], np.uint32)}


def _register_mmio(run: Run) -> Shown:
    from tutti_hal.errors import InvalidArgument

    pages = mmap.mmap(-1, _PAGE)  # not closed by hand: a refused registration may still hold it
    try:
        page = run.device.register(pages, mmio=True)
    except InvalidArgument as error:
        # Only an engine takes ordinary pages for registers; hardware wants a device's.
        run.skip(SkipReason.MACHINE, f"no device's register page is at hand: {error.found}")
    with page:
        run.launch(run.kernel("probe_host", "host_ring"), 1, 1, page[0:4], 0x51A7)
    return {"register": int.from_bytes(pages[:4], "little")}


def _wrong_way(run: Run) -> Shown:
    memory, device = run.buffer(64, "device"), run.device
    here, kind = out(device, "char[]", 64), device.runtime.constant("MemcpyKind", "DeviceToHost")
    return {"refused": ask(device, "Memcpy", pointer(device, memory.address), here, 64, kind)}


def _stale(run: Run) -> Shown:
    with run.device.create_stream() as stream:
        pass
    return {"said": said(run, "StreamQuery", stream.handle)}


def _recovers(run: Run) -> Shown:
    """A kernel traps; the device fails, is reset, and runs another kernel."""
    device, word = run.device, run.buffer(4)
    failed = refusal(lambda: run.launch(run.kernel("probe_host", "host_trap"), 1, 32, word))
    waits = refusal(device.synchronize)
    device.reset()
    kernel, data = run.subject.kernel("probe_launch", "launch_small"), np.zeros(1, np.uint32)
    with device.create_stream() as stream, device.allocate(4) as fresh:
        stream.fill(fresh, 0)
        launch_on(stream, kernel, 2, 16, fresh)
        stream.copy(data, fresh)
        stream.synchronize()
    return {"failed": failed, "waits": waits, "ran": int(data[0])}


def _pointer_kind(run: Run) -> Shown:
    device = run.device
    memory, attributes = run.buffer(64, "device"), out(device, "PointerAttributes[4]")
    device.call("PointerGetAttributes", attributes, pointer(device, memory.address))
    return {
        "type": int(attributes[0].type),
        "wanted": device.runtime.constant("MemoryType", "Device"),
        "device": int(attributes[0].device) - device.vendor_ordinal,
    }


def _dmabuf(run: Run) -> Shown:
    run.wants_silicon("a driver must export the memory")
    device, handle = run.device, out(run.device, "int *", -1)
    memory, kind = run.buffer(2 << 20, "device", fill=None), device.runtime.constant("MemRangeHandleType", "DmaBufFd")
    with device.current():
        device.call("MemGetHandleForAddressRange", handle, memory.address, memory.nbytes, kind, 0)
    size = os.lseek(handle[0], 0, os.SEEK_END)
    os.close(handle[0])
    return {"bytes": size, "asked": memory.nbytes}


def _lock_state(run: Run) -> Shown:
    device = run.device
    memory, locked, refused = run.buffer(_PAGE, "pinned", fill=None), out(device, "int *", -1), out(device, "int *", -1)
    device.call("HostGetLocked", locked, refused, pointer(device, memory.host_address))
    return {"locked": int(locked[0]), "refused": int(refused[0]), "told": memory.page_locked}


def _priority(run: Run) -> Shown:
    from tutti_hal.shim import StreamOptions

    device = run.device
    least, greatest, told = (out(device, "int *") for _ in range(3))
    with device.current():
        device.call("DeviceGetStreamPriorityRange", least, greatest)
    with device.create_stream(StreamOptions(priority=int(greatest[0]))) as stream:
        device.call("StreamGetPriority", stream.handle, told)
    return {"least": int(least[0]), "greatest": int(greatest[0]), "told": int(told[0])}


def _host_function(run: Run) -> Shown:
    ran: list[int] = []
    run.stream.call(lambda: ran.append(1))
    run.stream.synchronize()
    return {"ran": ran}


def _memory_operations(run: Run) -> Shown:
    device, word = run.device, run.buffer(4, "device")
    write, equal = (
        device.runtime.constant("StreamWriteValue", "Default"),
        device.runtime.constant("StreamWaitValue", "Eq"),
    )
    with device.current():
        device.call("StreamWriteValue32", run.stream.handle, word.address, 9, write)
        device.call("StreamWaitValue32", run.stream.handle, word.address, 9, equal)
    return {"word": int(run.read(word, np.uint32)[0])}


def _stream_device(run: Run) -> Shown:
    told = out(run.device, "int *", -1)
    run.device.call("StreamGetDevice", run.stream.handle, told)
    return {"device": int(told[0]) - run.device.vendor_ordinal}


def _timing(run: Run) -> Shown:
    rows = run.buffer(16, "device")
    with run.stream.record() as start:
        run.launch(run.kernel("probe_launch", "launch_clock"), 1, 1, rows, 1_000_000)
        with run.stream.record() as end:
            run.stream.synchronize()
            return {"ms": end - start}


def _bounded(run: Run) -> Shown:
    word = run.buffer(4, "device")
    late = run.kernel("probe_host", "host_late")
    launch_on(run.stream, late, 1, 1, word, 1, 1, 20_000_000_000, limit_ns=200_000)
    try:
        return {"found": refusal(run.stream.synchronize)}
    finally:
        run.device.reset()


def _occupancy(run: Run) -> Shown:
    blocks = run.kernel("probe_launch", "launch_small").resident_blocks(64)
    return {"blocks": blocks, "threads": run.device.attribute("MaxThreadsPerMultiProcessor")}


def _resources(run: Run) -> Shown:
    run.wants_silicon("the kernel must use registers of the device")
    runtime, value = run.device.runtime, out(run.device, "int *", -1)
    kernel, found = run.kernel("probe_launch", "launch_storage"), {}
    for name in ("NumRegs", "SharedSizeBytes"):
        run.device.call("FuncGetAttribute", value, runtime.constant("FuncAttribute", name), kernel.handle)
        found[name] = int(value[0])
    return found


def _names(run: Run) -> Shown:
    told: Any = run.kernel("probe_launch", "launch_append").parameters
    return {"names": [parameter.name for parameter in told]}


def _sizes(run: Run) -> Shown:
    told: Any = run.kernel("probe_launch", "launch_append").parameters
    return {"kernels": sorted(run.subject.module("probe_launch")), "sizes": [one.nbytes for one in told]}


def _share(run: Run) -> Shown:
    with first_share(run) as stream:
        words = run.buffer(256)
        launch_on(stream, run.kernel("probe_host", "host_count"), 1, 64, words, 64, 100)
        stream.synchronize()
    return {"words": run.read(words, np.uint32)}


def _pci_address(run: Run) -> Shown:
    run.wants_silicon("the device must lie on a bus")
    text = out(run.device, "char[64]")
    run.device.call("DeviceGetPCIBusId", text, 64, run.device.vendor_ordinal)
    address = bytes(run.device.runtime.ffi.string(text)).decode().lower()
    return {"address": address, "there": Path("/sys/bus/pci/devices", address).exists()}


def _peer(run: Run) -> Shown:
    """Devices of one arch may be apart by design; then the answer is that they cannot, and enabling is refused."""
    other, can = second_device(run), out(run.device, "int *", -1)
    run.device.call("DeviceCanAccessPeer", can, run.device.vendor_ordinal, other.vendor_ordinal)
    with run.device.current():
        enabled = refusal(lambda: run.device.call("DeviceEnablePeerAccess", other.vendor_ordinal, 0))
        if not enabled["refused"]:
            run.device.call("DeviceDisablePeerAccess", other.vendor_ordinal)
    return {"can": int(can[0]), "enabled": enabled}


def _peer_holds(shown: Shown, facts: Facts) -> bool:
    if shown["can"] == 1:
        return not shown["enabled"]["refused"]
    return facts.simulated and shown["can"] == 0 and shown["enabled"].get("canonical") == "PeerAccessUnsupported"


def _ipc(run: Run) -> Shown:
    run.wants_silicon("the memory must be a device's, and not its process's")
    device, handle = run.device, out(run.device, "IpcMemHandle *")
    device.call("IpcGetMemHandle", handle, pointer(device, run.buffer(64, "device").address))
    return {"bits": sum(bytes(device.runtime.ffi.buffer(handle)))}


def _graph(run: Run) -> Shown:
    """There is nothing to call: the contract has no function for it yet, so nobody can show it."""
    from tutti_hal.spec import load_spec

    del run
    functions = [name for name, one in load_spec().host_functions.items() if one.capability == "graph.capture"]
    return {"functions": functions, "replays": 0}


def _detail(run: Run) -> Shown:
    device, text = run.device, out(run.device, "char[256]")
    device.code("SetDevice", 987654)
    device.call("GetLastErrorDetail", text, 256)
    device.code("GetLastError")
    return {"text": bytes(device.runtime.ffi.string(text)).decode(errors="replace")}


def _whole(shown: Shown, _: Facts) -> bool:
    return bool((shown["bytes"] == np.arange(256)).all())


_KERNEL_STORES = "the host reads what a kernel stored there"
_ALL_RAN = "all threads of the launch ran"


#: Capability of a vendor -> its demonstration.
OF_VENDORS: dict[str, Demonstration] = {
    "memory.pinned": Demonstration(lambda r: _through(r, "pinned"), "bytes come back through the device", _whole),
    "memory.mapped": Demonstration(lambda r: _stored_by_kernel(r, "mapped"), _KERNEL_STORES, _counted),
    "memory.managed": Demonstration(lambda r: _stored_by_kernel(r, "managed"), _KERNEL_STORES, _counted),
    "memory.pools": Demonstration(
        _pools, "the memory holds what the stream put in", lambda s, _: bool((s["bytes"] == 0x3C).all())
    ),
    "memory.register": Demonstration(_register, _KERNEL_STORES, _counted),
    "memory.register_mmio": Demonstration(
        _register_mmio, "the register holds what a kernel stored", lambda s, _: s["register"] == 0x51A7
    ),
    "memory.pointer_attributes": Demonstration(
        _pointer_kind, "device memory is said to be that", lambda s, _: s["type"] == s["wanted"] and s["device"] == 0
    ),
    "memory.export_dmabuf": Demonstration(
        _dmabuf, "the descriptor is as large as the range", lambda s, _: s["bytes"] >= s["asked"]
    ),
    "memory.lock_state": Demonstration(
        _lock_state,
        "locked, or not and why",
        lambda s, _: (s["locked"] == 1 or (s["locked"] == 0 and s["refused"] > 0)) and s["told"] == bool(s["locked"]),
    ),
    "stream.priority": Demonstration(
        _priority, "there are two priorities at least", lambda s, _: s["told"] == s["greatest"] < s["least"]
    ),
    "stream.host_function": Demonstration(_host_function, "the function ran once", lambda s, _: s["ran"] == [1]),
    "stream.memory_operations": Demonstration(
        _memory_operations, "the word is what was written", lambda s, _: s["word"] == 9
    ),
    "stream.device": Demonstration(_stream_device, "the stream's device", lambda s, _: s["device"] == 0),
    "event.timing": Demonstration(_timing, "a millisecond is a millisecond", lambda s, _: 0.99 <= s["ms"] < 2000),
    "launch.cooperative": Demonstration(
        lambda r: {"ran": small_launch(r, cooperative=True)}, _ALL_RAN, lambda s, _: s["ran"] == 32
    ),
    "launch.bounded": Demonstration(
        _bounded, "the launch is ended as timed out", lambda s, _: s["found"].get("canonical") == "LaunchTimeout"
    ),
    "launch.occupancy": Demonstration(
        _occupancy, "some blocks fit", lambda s, _: s["blocks"] >= 1 and s["blocks"] * 64 <= s["threads"]
    ),
    "module.load": Demonstration(lambda r: {"ran": small_launch(r)}, _ALL_RAN, lambda s, _: s["ran"] == 32),
    "module.kernel_resources": Demonstration(
        _resources,
        "registers, and three hundred words of storage",
        lambda s, _: s["NumRegs"] >= 1 and s["SharedSizeBytes"] >= 1200,
    ),
    "module.introspection": Demonstration(
        _sizes,
        "kernels and sizes are those of the template",
        lambda s, _: "launch_append" in s["kernels"] and s["sizes"] == [8, 4, 8],
    ),
    "module.parameter_names": Demonstration(
        _names, "the names are those of the template", lambda s, _: s["names"] == ["log", "value", "ns"]
    ),
    "device.partition": Demonstration(_share, "a share runs a kernel", _counted),
    "device.pci_address": Demonstration(_pci_address, "a device of the bus", lambda s, _: s["there"]),
    "peer.access": Demonstration(_peer, "access is told, and enabled where it can be", _peer_holds),
    "ipc.memory": Demonstration(_ipc, "a handle is given", lambda s, _: s["bits"] > 0),
    "graph.capture": Demonstration(
        _graph, "captured work is replayed", lambda s, _: bool(s["functions"]) and s["replays"] > 0
    ),
    "copy.direction_checked": Demonstration(
        _wrong_way,
        "a copy to the host from a host's address is refused",
        lambda s, _: s["refused"].get("canonical") in ("InvalidMemcpyDirection", "InvalidValue"),
    ),
    "handle.checked": Demonstration(
        _stale,
        "the handle of a stream that was destroyed is refused",
        lambda s, _: s["said"] == "InvalidResourceHandle",
    ),
    "error.recoverable": Demonstration(
        _recovers,
        "a kernel runs after a reset",
        lambda s, _: s["failed"]["refused"] and s["waits"]["refused"] and s["ran"] == 32,
    ),
    "error.detail": Demonstration(_detail, "the refused value is named", lambda s, _: "987654" in s["text"]),
}

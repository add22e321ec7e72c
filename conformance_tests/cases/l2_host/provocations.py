"""How the errors of the contract are provoked: a table for each capability, function -> error -> a call."""

from __future__ import annotations

import mmap
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

from tutti_hal.conformance_tests.cases.l2_host.raw import FAR_TOO_MUCH, ask, device_count, out, pointer
from tutti_hal.conformance_tests.run import Run

if TYPE_CHECKING:
    from tutti_hal.shim import Buffer, Device

#: A call that must be refused.
Provoke = Callable[["Bench"], dict[str, Any]]
#: Function -> error -> how it is provoked.
Table = Mapping[str, Mapping[str, Provoke]]

#: Size of the buffer that must come out of the calls as it was.
BYTES = 256


class Bench:
    """What a refused call is made with: a live buffer that must come out of it as it was, and bad arguments."""

    def __init__(self, run: Run) -> None:
        self.run = run
        self.device: Device = run.device
        self.null = self.device.runtime.ffi.NULL
        self.buffer: Buffer = run.buffer(BYTES, "device", fill=0x5A)
        self.host = out(self.device, "char[]", BYTES)
        self.beyond = device_count(self.device)

    def ask(self, name: str, *args: Any) -> dict[str, Any]:
        """Call the vendor."""
        return ask(self.device, name, *args)

    def out(self, ctype: str) -> Any:
        """Room for a result."""
        return out(self.device, ctype)

    def at(self, offset: int = 0) -> Any:
        """An address in the live buffer."""
        return pointer(self.device, self.buffer.address + offset)

    def stale(self) -> Any:
        """The handle of a stream that was destroyed."""
        stream = self.device.create_stream()
        handle = stream.handle
        stream.close()
        return handle

    def registered(self) -> Any:
        """The address of a page that is registered until the case ends."""
        pages = mmap.mmap(-1, 4096)
        self.run.closing.callback(pages.close)
        memory = self.run.closing.enter_context(self.device.register(pages))
        return pointer(self.device, memory.host_address)

    def kind(self, name: str) -> int:
        """The vendor's number of a copy's direction."""
        return self.device.runtime.constant("MemcpyKind", name)


def calls_of(table: Table) -> tuple[str, ...]:
    """What a table claims to show."""
    return tuple(f"{name}:{error}" for name, errors in table.items() for error in errors)


def _no_memory(name: str, *more: str) -> Provoke:
    return lambda b: b.ask(name, b.out("void **"), FAR_TOO_MUCH, *(getattr(b, word) for word in more))


DEVICES: Table = {
    "RuntimeGetVersion": {"InvalidValue": lambda b: b.ask("RuntimeGetVersion", b.null)},
    "SetDevice": {"InvalidDevice": lambda b: b.ask("SetDevice", b.beyond)},
    "DeviceGetAttribute": {
        "InvalidDevice": lambda b: b.ask(
            "DeviceGetAttribute", b.out("int *"), b.device.runtime.attribute("WarpSize"), b.beyond
        ),
        "InvalidValue": lambda b: b.ask("DeviceGetAttribute", b.out("int *"), 0x7FFF_0000, b.device.vendor_ordinal),
    },
    "GetDeviceProperties": {
        "InvalidDevice": lambda b: b.ask("GetDeviceProperties", b.out("DeviceProperties[64]"), b.beyond)
    },
}

MEMORY: Table = {
    "Malloc": {"MemoryAllocation": _no_memory("Malloc")},
    "Free": {"InvalidValue": lambda b: b.ask("Free", b.at(8))},
    "Memcpy": {
        "InvalidValue": lambda b: b.ask("Memcpy", b.null, b.at(), 16, b.kind("DeviceToHost")),
        "InvalidMemcpyDirection": lambda b: b.ask("Memcpy", b.host, b.at(), 16, 99),
    },
    "MemcpyAsync": {
        "InvalidValue": lambda b: b.ask(
            "MemcpyAsync", b.at(), b.host, 4 * BYTES, b.kind("HostToDevice"), b.run.stream.handle
        ),
        "InvalidMemcpyDirection": lambda b: b.ask("MemcpyAsync", b.at(), b.host, 16, 99, b.run.stream.handle),
        "InvalidResourceHandle": lambda b: b.ask("MemcpyAsync", b.at(), b.host, 16, b.kind("HostToDevice"), b.stale()),
    },
    "Memset": {"InvalidValue": lambda b: b.ask("Memset", b.at(BYTES - 16), 1, 17 + (2 << 20))},
    "MemsetAsync": {
        "InvalidValue": lambda b: b.ask("MemsetAsync", b.null, 1, 16, b.run.stream.handle),
        "InvalidResourceHandle": lambda b: b.ask("MemsetAsync", b.at(), 1, 16, b.stale()),
    },
}

PINNED: Table = {
    "MallocHost": {"MemoryAllocation": _no_memory("MallocHost")},
    "HostAlloc": {
        "MemoryAllocation": lambda b: b.ask("HostAlloc", b.out("void **"), FAR_TOO_MUCH, 0),
        "InvalidValue": lambda b: b.ask("HostAlloc", b.out("void **"), 64, 1 << 27),
    },
    "FreeHost": {"InvalidValue": lambda b: b.ask("FreeHost", b.host)},
}

MAPPED: Table = {
    "HostGetDevicePointer": {"InvalidValue": lambda b: b.ask("HostGetDevicePointer", b.out("void **"), b.host, 0)},
    "HostGetFlags": {"InvalidValue": lambda b: b.ask("HostGetFlags", b.out("unsigned int *"), b.host)},
}

MANAGED: Table = {
    "MallocManaged": {
        "MemoryAllocation": lambda b: b.ask(
            "MallocManaged", b.out("void **"), FAR_TOO_MUCH, b.device.runtime.constant("MemAttachFlags", "Global")
        ),
        "InvalidValue": lambda b: b.ask("MallocManaged", b.out("void **"), 64, 1 << 30),
    }
}

POOLS: Table = {
    "MallocAsync": {
        "MemoryAllocation": lambda b: b.ask("MallocAsync", b.out("void **"), FAR_TOO_MUCH, b.run.stream.handle),
        "InvalidResourceHandle": lambda b: b.ask("MallocAsync", b.out("void **"), 64, b.stale()),
    },
    "FreeAsync": {
        "InvalidValue": lambda b: b.ask("FreeAsync", b.host, b.run.stream.handle),
        "InvalidResourceHandle": lambda b: b.ask("FreeAsync", b.at(), b.stale()),
    },
}

REGISTER: Table = {
    "HostRegister": {
        "InvalidValue": lambda b: b.ask("HostRegister", b.null, 4096, 0),
        "HostMemoryAlreadyRegistered": lambda b: b.ask("HostRegister", b.registered(), 4096, 0),
    },
    "HostUnregister": {
        "InvalidValue": lambda b: b.ask("HostUnregister", b.null),
        "HostMemoryNotRegistered": lambda b: b.ask("HostUnregister", b.host),
    },
}

POINTERS: Table = {
    "PointerGetAttributes": {"InvalidValue": lambda b: b.ask("PointerGetAttributes", b.null, b.at())},
    "MemGetAddressRange": {
        "InvalidValue": lambda b: b.ask("MemGetAddressRange", b.out("void **"), b.out("size_t *"), b.host)
    },
}

LOCKS: Table = {
    "HostGetLocked": {"InvalidValue": lambda b: b.ask("HostGetLocked", b.out("int *"), b.out("int *"), b.host)}
}

DETAIL: Table = {"GetLastErrorDetail": {"InvalidValue": lambda b: b.ask("GetLastErrorDetail", b.null, 64)}}

REPORT: Table = {
    "DeviceGetLaunchReport": {
        "InvalidDevice": lambda b: b.ask("DeviceGetLaunchReport", b.beyond, b.out("LaunchReport *"))
    }
}

PEERS: Table = {
    "DeviceCanAccessPeer": {
        "InvalidDevice": lambda b: b.ask("DeviceCanAccessPeer", b.out("int *"), b.device.vendor_ordinal, b.beyond)
    },
    "DeviceEnablePeerAccess": {"InvalidDevice": lambda b: b.ask("DeviceEnablePeerAccess", b.beyond, 0)},
    "DeviceDisablePeerAccess": {"InvalidDevice": lambda b: b.ask("DeviceDisablePeerAccess", b.beyond)},
    "MemcpyPeerAsync": {
        "InvalidDevice": lambda b: b.ask(
            "MemcpyPeerAsync", b.at(), b.beyond, b.at(64), b.device.vendor_ordinal, 16, b.run.stream.handle
        ),
        "InvalidValue": lambda b: b.ask(
            "MemcpyPeerAsync",
            *(b.null, b.device.vendor_ordinal, b.at(64), b.device.vendor_ordinal, 16, b.run.stream.handle),
        ),
    },
}

PCI: Table = {
    "DeviceGetPCIBusId": {
        "InvalidDevice": lambda b: b.ask("DeviceGetPCIBusId", b.out("char[64]"), 64, b.beyond),
        "InvalidValue": lambda b: b.ask("DeviceGetPCIBusId", b.null, 64, b.device.vendor_ordinal),
    }
}

DMABUF: Table = {
    "MemGetHandleForAddressRange": {
        "InvalidValue": lambda b: b.ask(
            "MemGetHandleForAddressRange",
            *(b.out("int *"), b.buffer.address, 0, b.device.runtime.constant("MemRangeHandleType", "DmaBufFd"), 0),
        )
    }
}

IPC: Table = {
    "IpcGetMemHandle": {"InvalidValue": lambda b: b.ask("IpcGetMemHandle", b.out("IpcMemHandle *"), b.host)},
    "IpcOpenMemHandle": {
        "InvalidValue": lambda b: b.ask("IpcOpenMemHandle", b.out("void **"), b.out("IpcMemHandle *")[0], 0)
    },
    "IpcCloseMemHandle": {"InvalidValue": lambda b: b.ask("IpcCloseMemHandle", b.host)},
}

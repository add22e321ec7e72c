"""How a device's buffers are made: the host functions behind `Device.allocate` and `Device.register`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from tutti_hal.errors import InvalidArgument
from tutti_hal.shim.buffer import Buffer, MemoryKind

if TYPE_CHECKING:
    from tutti_hal.shim.device import Device


def allocate(device: Device, nbytes: int, kind: MemoryKind | str) -> Buffer:
    """See `Device.allocate`."""
    tried = f"allocate {nbytes} bytes of {kind} memory"
    wanted = _kind(kind, tried)
    if nbytes < 1:
        raise InvalidArgument(tried, "a buffer has at least one byte", "Ask for at least one byte.")
    pointer = device.runtime.ffi.new("void **")
    with device.current():
        if wanted is MemoryKind.DEVICE:
            device.call("Malloc", pointer, nbytes)
            return _owned(device, wanted, nbytes, pointer[0], "Free")
        device.runtime.require(f"memory.{wanted}", tried)
        if wanted is MemoryKind.MANAGED:
            flags = device.runtime.constant("MemAttachFlags", "Global")
            device.call("MallocManaged", pointer, nbytes, flags)
            return _owned(device, wanted, nbytes, pointer[0], "Free")
        flags = device.runtime.constant("HostAllocFlags", "Portable")
        if wanted is MemoryKind.MAPPED:
            flags |= device.runtime.constant("HostAllocFlags", "Mapped")
        device.call("HostAlloc", pointer, nbytes, flags)
        return _owned(device, wanted, nbytes, pointer[0], "FreeHost")


def register(device: Device, memory: Any, nbytes: int | None, *, mmio: bool) -> Buffer:
    """See `Device.register`."""
    tried = "register host memory"
    device.runtime.require("memory.register_mmio" if mmio else "memory.register", tried)
    ffi, owner = device.runtime.ffi, None
    if isinstance(memory, int):
        if nbytes is None:
            raise InvalidArgument(tried, "an address without a size", "Pass nbytes.")
        pointer, length = ffi.cast("void *", memory), nbytes
    else:
        owner = ffi.from_buffer("char[]", memory, require_writable=True)
        pointer, length = ffi.cast("void *", owner), len(owner) if nbytes is None else nbytes
        if length > len(owner):
            raise InvalidArgument(tried, f"{length} bytes of {len(owner)}", "Stay inside the memory.")
    flags = device.runtime.constant("HostRegisterFlags", "Portable")
    flags |= device.runtime.constant("HostRegisterFlags", "Mapped")
    if mmio:
        flags |= device.runtime.constant("HostRegisterFlags", "IoMemory")
    with device.current():
        device.call("HostRegister", pointer, length, flags)
        device_address = _device_address(device, pointer)
    return Buffer(
        device,
        MemoryKind.MMIO if mmio else MemoryKind.REGISTERED,
        length,
        lambda: _on_device(device, "HostUnregister", pointer),
        device_address=device_address,
        host_address=_number(device, pointer),
        page_locked=None if mmio else _page_locked(device, pointer),
        owner=owner,
    )


def adopt(device: Device, address: int, nbytes: int) -> Buffer:
    """See `Device.adopt`."""
    tried = f"adopt {nbytes} bytes at {address:#x}"
    if address <= 0 or nbytes < 1 or address + nbytes > 1 << 64:
        raise InvalidArgument(tried, "no address, or no length", "Pass what the device's allocation gave.")
    return Buffer(device, MemoryKind.DEVICE, nbytes, lambda: None, device_address=address, host_address=None)


def _owned(device: Device, kind: MemoryKind, nbytes: int, pointer: Any, free: str) -> Buffer:
    address = _number(device, pointer)
    if kind is MemoryKind.MAPPED:
        device_address: int | None = _device_address(device, pointer)
    else:
        device_address = address if kind.kernel_visible else None
    return Buffer(
        device,
        kind,
        nbytes,
        lambda: _on_device(device, free, pointer),
        device_address=device_address,
        host_address=address if kind.host_visible else None,
        page_locked=_page_locked(device, pointer) if free == "FreeHost" else None,
    )


def _on_device(device: Device, name: str, pointer: Any) -> None:
    with device.current():
        device.call(name, pointer)


def _number(device: Device, pointer: Any) -> int:
    return int(device.runtime.ffi.cast("uintptr_t", pointer))


def _device_address(device: Device, pointer: Any) -> int:
    mapped = device.runtime.ffi.new("void **")
    device.call("HostGetDevicePointer", mapped, pointer, 0)
    return _number(device, mapped[0])


def _page_locked(device: Device, pointer: Any) -> bool | None:
    if not device.runtime.capable("memory.lock_state"):
        return None
    locked, refused = device.runtime.ffi.new("int *"), device.runtime.ffi.new("int *")
    device.call("HostGetLocked", locked, refused, pointer)
    return bool(locked[0])


def _kind(kind: MemoryKind | str, tried: str) -> MemoryKind:
    allowed = (MemoryKind.DEVICE, MemoryKind.PINNED, MemoryKind.MAPPED, MemoryKind.MANAGED)
    for known in allowed:
        if kind == known:
            return known
    raise InvalidArgument(tried, f"no kind '{kind}'", f"Use one of: {', '.join(allowed)}.")

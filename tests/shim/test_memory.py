from __future__ import annotations

import gc
import itertools
import mmap
import resource
from pathlib import Path

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tutti_hal.errors import InvalidArgument, NotSupported, OutOfMemory, RuntimeFailure, UseAfterFree
from tutti_hal.native import ffi_and_library
from tutti_hal.shim import Device, LaunchConfig, MemoryKind, Module, Stream, launch

KINDS = ("device", "pinned", "mapped", "managed")


def raw(device: Device, name: str, *args: object) -> str:
    """A host function called past the shim; the canonical name of what it returned."""
    return device.runtime.record.errors.name_of(device.code(name, *args)) or "?"


@pytest.mark.parametrize("kind", KINDS)
def test_allocations_are_disjoint_aligned_and_accounted(device: Device, kind: str) -> None:
    before = device.memory_info()
    buffers = [device.allocate(n, kind) for n in (1, 255, 4096, 4097, 3 << 20)]
    spans = sorted((b.copy_address, b.copy_address + b.nbytes) for b in buffers)
    assert all(first[1] <= second[0] for first, second in itertools.pairwise(spans))
    assert all(start % 256 == 0 for start, _ in spans)
    used = before.free - device.memory_info().free
    assert used >= sum(b.nbytes for b in buffers) if kind in ("device", "managed") else used == 0
    for buffer in buffers:
        buffer.close()
        buffer.close()
    assert device.memory_info() == before


def test_what_does_not_fit_is_refused_and_the_rest_still_fits(device: Device) -> None:
    _, library = ffi_and_library()
    library.ttrtDeviceSetMemoryLimit(device.vendor_ordinal, 1 << 20)
    try:
        with device.allocate(1 << 19):
            with pytest.raises(OutOfMemory, match="are free") as caught:
                device.allocate((1 << 19) + 1)
            assert caught.value.canonical == "MemoryAllocation"
            with device.allocate(1 << 19):
                assert device.memory_info().free == 0
        assert device.memory_info().free == 1 << 20
        with pytest.raises(OutOfMemory):
            device.allocate(1 << 62)
    finally:
        library.ttrtDeviceSetMemoryLimit(device.vendor_ordinal, 8 << 30)


def test_sizes_and_kinds_that_are_none_are_refused(device: Device) -> None:
    for nbytes, kind in ((0, "device"), (-1, "device"), (8, "fast"), (8, "mmio"), (8, "registered")):
        with pytest.raises(InvalidArgument):
            device.allocate(nbytes, kind)


def test_fresh_memory_is_not_zero(device: Device) -> None:
    with device.allocate(64) as memory, device.create_stream() as stream:
        out = np.zeros(64, np.uint8)
        stream.copy(out, memory)
        assert out.any()


def test_free_refuses_what_it_does_not_own(device: Device) -> None:
    ffi = device.runtime.ffi
    null = ffi.NULL
    assert raw(device, "Free", null) == "Success"
    assert raw(device, "FreeHost", null) == "Success"
    with device.allocate(4096) as memory, device.allocate(64, "mapped") as host:
        for name, address in (
            ("Free", memory.address + 8),
            ("Free", host.address),
            ("FreeHost", memory.address),
            ("Free", memory.address + (1 << 20)),
        ):
            assert raw(device, name, ffi.cast("void *", address)) == "InvalidValue"
        pointer = ffi.cast("void *", memory.address)
    assert raw(device, "Free", pointer) == "InvalidValue"


def test_a_freed_address_is_known_as_such(device: Device) -> None:
    """Use after free past the shim: a dangling device address is refused, and never read as host memory."""
    ffi = device.runtime.ffi
    memory = device.allocate(4096)
    pointer = ffi.cast("void *", memory.address)
    memory.close()
    out = ffi.new("char[16]")
    kind = device.runtime.constant("MemcpyKind", "Default")
    code = device.code("Memcpy", out, pointer, 16, kind)
    failure = device.runtime.failure("Memcpy", code)
    assert (failure.canonical, "freed" in failure.found) == ("InvalidValue", True)
    attributes = ffi.new("PointerAttributes[8]")
    assert raw(device, "PointerGetAttributes", attributes, pointer) == "InvalidValue"
    with device.allocate(4096) as again:
        assert again.address != int(ffi.cast("uintptr_t", pointer))


def test_copies_that_leave_an_allocation_move_nothing(device: Device) -> None:
    ffi = device.runtime.ffi
    with device.allocate(64, "mapped") as memory, device.allocate(4096) as source:
        memory.numpy()[:] = 1
        kind = device.runtime.constant("MemcpyKind", "Default")
        to = ffi.cast("void *", memory.address + 32)
        assert raw(device, "Memcpy", to, ffi.cast("void *", source.address), 33, kind) == "InvalidValue"
        assert raw(device, "Memset", to, 0, 33) == "InvalidValue"
        assert (memory.numpy() == 1).all()
        wrong = device.runtime.constant("MemcpyKind", "HostToDevice")
        host = ffi.new("char[64]")
        for dst, src, canonical in ((host, host, "InvalidMemcpyDirection"), (to, ffi.NULL, "InvalidValue")):
            assert raw(device, "Memcpy", dst, src, 16, wrong) == canonical
        assert raw(device, "Memcpy", to, host, 16, 9) == "InvalidMemcpyDirection"
        assert raw(device, "Memcpy", to, host, 0, 9) == "Success"


@settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    data=st.binary(min_size=1, max_size=300),
    offset=st.integers(0, 40),
    source=st.sampled_from(KINDS),
    target=st.sampled_from(KINDS),
)
def test_copies_move_every_byte_and_no_other(
    device: Device, data: bytes, offset: int, source: str, target: str
) -> None:
    with (
        device.create_stream() as stream,
        device.allocate(400, source) as a,
        device.allocate(400, target) as b,
    ):
        image = np.full(400, 0xEE, np.uint8)
        stream.copy(a, image)
        stream.copy(b, image)
        stream.copy(a[offset : offset + len(data)], data)
        stream.copy(b[offset : offset + len(data)], a[offset : offset + len(data)])
        out = np.zeros(400, np.uint8)
        stream.copy(out, b)
        image[offset : offset + len(data)] = np.frombuffer(data, np.uint8)
        assert (out == image).all()


def test_fills_set_every_byte_and_no_other(device: Device, stream: Stream) -> None:
    with device.allocate(100, "mapped") as memory:
        stream.fill(memory, 1)
        stream.fill(memory[10:90], 255, 79)
        stream.synchronize()
        assert memory.numpy().tolist() == [1] * 10 + [255] * 79 + [1] * 11
        for value, nbytes in ((256, None), (-1, None), (0, 101)):
            with pytest.raises(InvalidArgument):
                stream.fill(memory, value, nbytes)
    with device.allocate(8, "pinned") as pinned, pytest.raises(InvalidArgument, match="kernels do not reach"):
        stream.fill(pinned, 0)


def test_copy_refuses_sides_that_do_not_fit(device: Device, stream: Stream) -> None:
    with device.allocate(64) as memory:
        for dst, src, nbytes in (
            (memory, bytes(63), None),
            (memory, bytes(63), 64),
            (memory, bytes(64), -1),
            (bytes(64), memory, None),
            (np.zeros((8, 16), np.uint8)[:, ::2], memory, None),
            (memory, 5, None),
        ):
            with pytest.raises(InvalidArgument):
                stream.copy(dst, src, nbytes)
        for part in (slice(0, 65), slice(-1, None)):
            assert memory[part].nbytes == len(range(64)[part])
        for offset, nbytes in ((0, 65), (-1, 2), (64, 1)):
            with pytest.raises(InvalidArgument):
                memory.part(offset, nbytes)


def locked_kib() -> int:
    status = Path("/proc/self/status").read_text(encoding="ascii")
    return int(next(line.split()[1] for line in status.splitlines() if line.startswith("VmLck")))


@pytest.mark.parametrize("kind", ["pinned", "mapped"])
def test_pinned_memory_is_locked_as_the_kernel_counts_it(device: Device, kind: str) -> None:
    """The trap 'a pinned allocation that is plain malloc'."""
    before = locked_kib()
    with device.allocate(256 << 10, kind) as memory:
        if memory.page_locked:
            assert locked_kib() - before == 256
        else:
            assert locked_kib() == before
    assert locked_kib() == before
    with device.allocate(64) as plain:
        assert plain.page_locked is None


def test_a_refused_page_lock_is_said(device: Device) -> None:
    soft, hard = resource.getrlimit(resource.RLIMIT_MEMLOCK)
    resource.setrlimit(resource.RLIMIT_MEMLOCK, (0, hard))
    try:
        before = locked_kib()
        with device.allocate(64 << 10, "pinned") as memory:
            assert memory.page_locked is (locked_kib() - before == 64)
    finally:
        resource.setrlimit(resource.RLIMIT_MEMLOCK, (soft, hard))


def test_who_reaches_what(device: Device) -> None:
    ffi = device.runtime.ffi
    types = {"device": "Device", "pinned": "Host", "mapped": "Host", "managed": "Managed"}
    for kind in KINDS:
        with device.allocate(64, kind) as memory:
            wanted = MemoryKind(kind)
            if wanted.kernel_visible:
                assert memory.address
            else:
                with pytest.raises(InvalidArgument, match="kernels do not reach"):
                    _ = memory.address
            if wanted.host_visible:
                assert memory.numpy().nbytes == 64
                assert np.from_dlpack(memory).ctypes.data == memory.host_address
            else:
                with pytest.raises(InvalidArgument, match="the host does not reach"):
                    memory.numpy()
                with pytest.raises(NotSupported):
                    memory.__dlpack__()
            told = ffi.new("PointerAttributes[8]")
            device.call("PointerGetAttributes", told, ffi.cast("void *", memory.copy_address + 63))
            assert told[0].type == device.runtime.constant("MemoryType", types[kind])
            assert told[0].device == device.vendor_ordinal
            assert (told[0].devicePointer != ffi.NULL) == wanted.kernel_visible
            assert (told[0].hostPointer != ffi.NULL) == wanted.host_visible
    told = ffi.new("PointerAttributes[8]")
    device.call("PointerGetAttributes", told, ffi.new("char[8]"))
    assert told[0].type == device.runtime.constant("MemoryType", "Unregistered")


def test_what_a_device_object_leaves_behind_is_ended_through_another(device: Device) -> None:
    """A view that outlives its buffer, and the object for the device too: the memory comes back all the same."""
    size = 1 << 20
    before = device.memory_info().free
    left = Device(device.profile, device.ordinal)
    memory = left.allocate(size, "managed")
    view = memory.numpy()
    memory.close()
    del view, memory, left
    assert device.memory_info().free == before - size
    device.allocate(64).close()
    assert device.memory_info().free == before


def test_views_keep_memory_that_was_closed(device: Device) -> None:
    memory = device.allocate(64, "managed")
    free = device.memory_info().free
    view = memory.numpy(np.uint32, (2, 4), 16)[1]
    view[:] = 5
    memory.close()
    assert view.tolist() == [5, 5, 5, 5]
    assert device.memory_info().free == free
    with pytest.raises(UseAfterFree):
        memory.numpy()
    del view
    gc.collect()
    device.synchronize()
    assert device.memory_info().free > free


def test_memory_that_was_dropped_is_given_back(device: Device) -> None:
    before = device.memory_info()
    device.allocate(1 << 20)
    gc.collect()
    device.synchronize()
    assert device.memory_info() == before


def test_views_that_do_not_fit_are_refused(device: Device) -> None:
    with device.allocate(64, "mapped") as memory:
        assert memory.numpy(np.uint64).shape == (8,)
        record = memory.numpy(np.dtype([("a", "<u4"), ("b", "<u2"), ("c", "<u2")]))
        record["b"] = 3
        assert memory.numpy(np.uint16)[2] == 3
        for shape, offset in ((17, 0), ((4, 5), 0), (16, 4), (1, -4), (-1, 0)):
            with pytest.raises(InvalidArgument):
                memory.numpy(np.uint32, shape, offset)


def test_registered_memory_is_used_by_kernels(device: Device, stream: Stream, module: Module) -> None:
    with mmap.mmap(-1, 8192) as pages:
        with device.register(pages) as memory:
            assert memory.kind == "registered"
            launch(stream, LaunchConfig(8, 256), module["add_one"], 2048, memory)
            stream.synchronize()
            assert np.frombuffer(pages, np.uint32).sum() == 2048
            with pytest.raises(RuntimeFailure, match="overlaps") as caught:
                device.register(memory.host_address + 4096, 16)
            assert caught.value.canonical == "HostMemoryAlreadyRegistered"
        pointer = device.runtime.ffi.from_buffer(pages)
        assert raw(device, "HostUnregister", pointer) == "HostMemoryNotRegistered"
        device.runtime.ffi.release(pointer)
        del pointer, memory
        gc.collect()


def test_memory_that_is_not_mapped_is_not_registered(device: Device) -> None:
    with pytest.raises(InvalidArgument, match="not wholly mapped"):
        device.register(0x1000, 4096)
    with pytest.raises(InvalidArgument, match="without a size"):
        device.register(0x1000)
    with device.allocate(64, "mapped") as memory, pytest.raises(InvalidArgument, match="overlaps"):
        device.register(memory.host_address, 64)


def test_a_host_tensor_is_registered_in_place(device: Device, stream: Stream, module: Module) -> None:
    tensor = np.zeros((4, 8), np.uint32)
    with device.from_dlpack(tensor) as memory:
        assert memory.host_address == tensor.ctypes.data
        launch(stream, LaunchConfig(1, 32), module["add_one"], 32, memory)
        stream.synchronize()
    assert (tensor == 1).all()
    with pytest.raises(InvalidArgument):
        device.from_dlpack(tensor[:, ::2])


def test_a_register_page_takes_mmio_stores(device: Device, stream: Stream, module: Module) -> None:
    with mmap.mmap(-1, 4096) as page:
        with device.register(page, mmio=True) as registers:
            launch(stream, LaunchConfig(1, 1), module["ring_doorbell"], registers[16:20], 77)
            stream.synchronize()
            values = registers.numpy(np.uint32)
            assert (values[4], values.sum()) == (77, 77)
            del values
            gc.collect()
        del registers
        gc.collect()


def test_stream_ordered_memory(device: Device, stream: Stream) -> None:
    ffi = device.runtime.ffi
    pointer = ffi.new("void **")
    before = device.memory_info()
    with device.current():
        device.call("MallocAsync", pointer, 4096, stream.handle)
        device.call("MemsetAsync", pointer[0], 3, 4096, stream.handle)
        device.call("FreeAsync", pointer[0], stream.handle)
        assert raw(device, "FreeAsync", pointer[0], stream.handle) == "InvalidValue"
        assert raw(device, "Free", pointer[0]) == "InvalidValue"
    stream.synchronize()
    assert device.memory_info() == before

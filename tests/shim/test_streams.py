from __future__ import annotations

import threading
import time
from collections.abc import Callable

import numpy as np
import pytest

from tutti_hal.errors import BadHandle, InvalidArgument, LaunchRefused, NotSupported, UseAfterFree
from tutti_hal.profile import resolve
from tutti_hal.shim import Device, EventOptions, LaunchConfig, Module, Stream, StreamOptions, launch

ONE = LaunchConfig(1, 1)


class Gate:
    """Holds a stream back until it is opened. Mode `threads` only: a simulated stream runs in the waiting thread."""

    def __init__(self, stream: Stream) -> None:
        self._event = threading.Event()
        stream.call(self._wait)

    def _wait(self) -> None:
        assert self._event.wait(30)

    def open(self) -> None:
        self._event.set()


@pytest.fixture
def threads(arch: str) -> None:
    if arch.startswith("sim"):
        pytest.skip("needs streams that run by themselves")


def test_work_of_a_stream_runs_in_order(device: Device, stream: Stream, module: Module) -> None:
    seen: list[int] = []
    with device.allocate(4, "mapped") as word:
        view = word.numpy(np.uint32)
        stream.fill(word, 0)
        for _ in range(5):
            launch(stream, ONE, module["add_one"], 1, word)
            stream.call(lambda: seen.append(int(view[0])))
        stream.synchronize()
        assert seen == [1, 2, 3, 4, 5]


@pytest.mark.usefixtures("threads")
def test_streams_run_side_by_side(device: Device) -> None:
    with device.create_stream() as a, device.create_stream() as b, device.allocate(4) as word:
        gate = Gate(a)
        b.fill(word, 1)
        b.synchronize()
        assert (a.query(), b.query()) == (False, True)
        gate.open()
        a.synchronize()
        assert a.query()


@pytest.mark.usefixtures("threads")
def test_the_default_stream_orders_blocking_streams_and_no_other(device: Device) -> None:
    blocking = StreamOptions(nonblocking=False)
    with (
        device.create_stream(blocking) as a,
        device.create_stream(blocking) as b,
        device.create_stream() as free,
        device.allocate(4, "mapped") as word,
    ):
        gate = Gate(a)
        device.default_stream.fill(word, 1)
        b.fill(word, 2)
        free.synchronize()
        assert not device.default_stream.query()
        assert not b.query()
        gate.open()
        b.synchronize()
        assert word.numpy().tolist() == [2] * 4
        gate = Gate(a)
        a_done = threading.Timer(0.05, gate.open)
        a_done.start()
        device.default_stream.synchronize()
        assert a.query()
        a_done.join()


@pytest.mark.usefixtures("threads")
def test_a_per_thread_default_stream_is_each_threads_own(device: Device) -> None:
    ffi = device.runtime.ffi
    handle = ffi.cast("Stream", 2)
    gate = threading.Event()

    def hold(_: object) -> None:
        gate.wait(30)

    callback = ffi.callback("void(void *)", hold)
    device.call("LaunchHostFunc", handle, callback, ffi.NULL)
    assert not device.ready("StreamQuery", handle)
    answers: list[bool] = []
    other = threading.Thread(target=lambda: answers.append(device.ready("StreamQuery", handle)))
    other.start()
    other.join()
    gate.set()
    device.call("StreamSynchronize", handle)
    assert answers == [True]


@pytest.mark.usefixtures("threads")
def test_work_of_a_closed_stream_still_runs(device: Device) -> None:
    with device.allocate(4, "mapped") as word:
        word.numpy()[:] = 0
        stream = device.create_stream()
        gate = Gate(stream)
        stream.fill(word, 9)
        stream.close()
        stream.close()
        assert word.numpy().tolist() == [0] * 4
        gate.open()
        device.synchronize()
        assert word.numpy().tolist() == [9] * 4
        for use in (stream.synchronize, stream.query, lambda: stream.fill(word, 0), stream.record):
            with pytest.raises(UseAfterFree):
                use()


def test_stale_and_foreign_handles_are_refused(device: Device, stream: Stream) -> None:
    ffi = device.runtime.ffi
    event = device.create_event()
    closed = device.create_stream()
    closed.close()
    for handle in (closed.handle, ffi.cast("Stream", event.handle), ffi.cast("Stream", 0x1234560)):
        with pytest.raises(BadHandle) as caught:
            device.call("StreamSynchronize", handle)
        assert caught.value.canonical == "InvalidResourceHandle"
    event.close()
    event.close()
    for name in ("EventQuery", "EventSynchronize", "EventDestroy"):
        with pytest.raises(BadHandle):
            device.call(name, event.handle)
    with pytest.raises(UseAfterFree):
        stream.wait(event)
    with device.create_stream() as again:
        assert again.handle != closed.handle


@pytest.mark.usefixtures("threads")
def test_a_wait_holds_back_what_follows(device: Device) -> None:
    with device.create_stream() as a, device.create_stream() as b, device.allocate(4, "mapped") as word:
        word.numpy()[:] = 0
        with device.create_event() as never:
            b.wait(never)
            b.synchronize()
            assert never.query()
        gate = Gate(a)
        a.fill(word, 1)
        mark = a.record()
        b.wait(mark)
        mark.close()
        b.fill(word, 2)
        time.sleep(0.02)
        assert not b.query()
        assert word.numpy().tolist() == [0] * 4
        gate.open()
        b.synchronize()
        assert word.numpy().tolist() == [2] * 4


def test_events_time_the_work_between_them(device: Device, stream: Stream, module: Module) -> None:
    with device.allocate(8, "mapped") as words:
        words.numpy()[:] = 0
        start = stream.record()
        launch(stream, ONE, module["wait_flag"], words, words[4:8], 3_000_000)
        end = stream.record()
        with pytest.raises(InvalidArgument, match="not reached yet"):
            _ = end - start
        assert not end.query()
        end.synchronize()
        assert 3.0 <= end - start < 3000
        assert end - end == 0
        with device.create_event(EventOptions(timing=False)) as untimed, device.create_event() as never:
            with pytest.raises(InvalidArgument, match="without timing"):
                _ = untimed - start
            with pytest.raises(InvalidArgument, match="never recorded"):
                _ = never - start


def test_pageable_sources_are_taken_and_targets_filled(device: Device, stream: Stream) -> None:
    with device.allocate(1 << 16) as memory:
        source = np.full(1 << 16, 5, np.uint8)
        stream.copy(memory, source)
        source[:] = 6
        out = np.zeros(1 << 16, np.uint8)
        stream.copy(out, memory)
        assert (out == 5).all()


def test_a_host_functions_exception_comes_out_of_synchronize(stream: Stream) -> None:
    def bad() -> None:
        raise LookupError("from the stream")

    stream.call(bad)
    with pytest.raises(LookupError, match="from the stream"):
        stream.synchronize()
    stream.synchronize()


def test_priorities_are_absent_on_host(device: Device) -> None:
    with pytest.raises(NotSupported) as caught:
        device.create_stream(StreamOptions(priority=-1))
    assert caught.value.capability == "stream.priority"
    least, greatest = device.runtime.ffi.new("int *", 7), device.runtime.ffi.new("int *", 7)
    device.call("DeviceGetStreamPriorityRange", least, greatest)
    assert (least[0], greatest[0]) == (0, 0)


def test_peers_copy_and_enable_once(arch: str) -> None:
    a, b = Device(resolve(f"host:{arch}"), 0), Device(resolve(f"host:{arch}"), 1)
    ffi = a.runtime.ffi
    can = ffi.new("int *")
    a.call("DeviceCanAccessPeer", can, a.vendor_ordinal, b.vendor_ordinal)
    assert can[0] == (0 if arch.startswith("sim") else 1)
    with a.allocate(64) as here, b.allocate(64) as there, a.create_stream() as stream:
        stream.copy(here, bytes(range(64)))
        stream.copy(there, here)
        stream.synchronize()
        out = bytearray(64)
        with b.create_stream() as other:
            other.copy(out, there)
        assert out == bytes(range(64))
        if arch.startswith("sim"):
            return
        names = []
        with a.current():
            for name in ("EnablePeerAccess", "EnablePeerAccess"):
                names.append(a.code(f"Device{name}", b.vendor_ordinal, 0))
            names.append(a.code("DeviceDisablePeerAccess", b.vendor_ordinal))
            names.append(a.code("DeviceDisablePeerAccess", b.vendor_ordinal))
        told = [a.runtime.record.errors.name_of(code) for code in names]
        assert told == ["Success", "PeerAccessAlreadyEnabled", "Success", "PeerAccessNotEnabled"]


def test_a_kernel_reaches_a_peers_memory_only_while_it_may(device: Device, stream: Stream, module: Module) -> None:
    """An address of another device's memory is refused at the launch unless access to that device is enabled."""
    peer = Device(device.profile, 1)
    with peer.allocate(4) as there:
        with pytest.raises(LaunchRefused, match="has no access"):
            launch(stream, ONE, module["add_one"], 1, there.address)
        if device.profile.arch.startswith("sim"):
            return
        with peer.create_stream() as beside:
            beside.fill(there, 0)
            beside.synchronize()
            with device.current():
                device.call("DeviceEnablePeerAccess", peer.vendor_ordinal, 0)
            launch(stream, ONE, module["add_one"], 1, there.address)
            stream.synchronize()
            found = np.zeros(1, np.uint32)
            beside.copy(found, there)
        assert found[0] == 1
        with device.current():
            device.call("DeviceDisablePeerAccess", peer.vendor_ordinal)
        with pytest.raises(LaunchRefused, match="has no access"):
            launch(stream, ONE, module["add_one"], 1, there.address)


def test_the_current_device_and_the_last_error_are_the_threads_own(device: Device) -> None:
    runtime = device.runtime
    found = runtime.ffi.new("int *")

    def elsewhere(result: list[int]) -> None:
        device.call("SetDevice", 5)
        device.code("SetDevice", 1000)
        result.append(device.code("PeekAtLastError"))

    device.call("SetDevice", 3)
    result: list[int] = []
    other = threading.Thread(target=elsewhere, args=(result,))
    other.start()
    other.join()
    device.call("GetDevice", found)
    device.code("GetLastError")
    assert (found[0], device.code("PeekAtLastError")) == (3, 0)
    assert runtime.record.errors.name_of(result[0]) == "InvalidDevice"
    with device.current():
        device.call("GetDevice", found)
        assert found[0] == device.vendor_ordinal
    device.call("GetDevice", found)
    assert found[0] == 3
    device.call("SetDevice", 0)
    device.code("SetDevice", -1)
    assert device.code("PeekAtLastError") == device.code("GetLastError") != 0
    assert device.code("GetLastError") == 0


def test_many_threads_use_one_device(device: Device, module: Module) -> None:
    kernel = module["add_one"]
    failures: list[BaseException] = []

    def work() -> None:
        try:
            with device.create_stream() as stream, device.allocate(256, "mapped") as words:
                for _ in range(20):
                    stream.fill(words, 0)
                    launch(stream, LaunchConfig(1, 64), kernel, 64, words)
                    stream.synchronize()
                    assert (words.numpy(np.uint32) == 1).all()
        except BaseException as error:
            failures.append(error)

    before = device.host_calls["LaunchKernel"]
    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not failures
    assert device.host_calls["LaunchKernel"] - before == 80


def test_every_error_has_a_name_and_a_text(device: Device) -> None:
    ffi = device.runtime.ffi
    for function in ("GetErrorName", "GetErrorString"):
        call: Callable[[int], object] = device.runtime._bound[function]
        texts = {bytes(ffi.string(call(code))) for code in device.runtime.record.errors.values.values()}
        assert len(texts) == len(device.runtime.record.errors.values)
        assert bytes(ffi.string(call(12345))) == b"unrecognized error code"

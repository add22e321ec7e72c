from __future__ import annotations

import struct
import threading
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tutti_hal.errors import (
    InvalidArgument,
    LaunchDeadlock,
    LaunchFailed,
    LaunchRefused,
    LaunchTimeout,
    ModuleInvalid,
    UseAfterFree,
    WrongDevice,
)
from tutti_hal.profile import resolve
from tutti_hal.shim import Device, LaunchConfig, Module, Stream, launch

ONE = LaunchConfig(1, 1)


def test_every_thread_of_the_grid_runs_once(device: Device, stream: Stream, module: Module) -> None:
    with device.allocate(4 * 1000) as words:
        stream.fill(words, 0)
        launch(stream, LaunchConfig(grid=8, block=128), module["add_one"], 1000, words)
        launch(stream, LaunchConfig(grid=(4, 2), block=(64, 2)), module["add_one"], 0, words)
        out = np.zeros(1000, np.uint32)
        stream.copy(out, words)
    assert (out == 1).all()


@settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    a=st.integers(0, 255),
    b=st.integers(0, 2**64 - 1),
    c=st.integers(0, 2**16 - 1),
    d=st.integers(-(2**31), 2**31 - 1),
    e=st.floats(width=32, allow_nan=False),
)
def test_arguments_arrive_bit_for_bit(
    device: Device, stream: Stream, module: Module, a: int, b: int, c: int, d: int, e: float
) -> None:
    with device.allocate(40, "mapped") as out:
        launch(stream, ONE, module["echo"], a, b, c, d, e, out, out[32:])
        stream.synchronize()
        assert out.numpy(np.uint64)[:4].tolist() == [a, b, c, d & 0xFFFFFFFF]
        assert bytes(out.numpy()[32:36]) == struct.pack("<f", e)


def test_parameters_are_told_and_checked(device: Device, stream: Stream, module: Module) -> None:
    kernel = module["echo"]
    assert kernel.parameters is not None
    assert [(p.name, p.nbytes) for p in kernel.parameters] == [
        ("a", 1),
        ("b", 8),
        ("c", 2),
        ("d", 4),
        ("e", 4),
        ("out", 8),
        ("real", 8),
    ]
    with device.allocate(40) as out:
        for args, word in (
            ((1, 2, 3, 4, 5.0, out), "6 arguments for 7 parameters"),
            ((256, 2, 3, 4, 5.0, out, out), "argument 0 (a) has 1 bytes"),
            ((1, np.uint32(2), 3, 4, 5.0, out, out), "argument 1 (b) has 8 bytes"),
            ((1, 2, 3, -(2**31) - 1, 5.0, out, out), "argument 3 (d)"),
            ((1, 2, 3, 4, 5.0, "x", out), "argument 5 (out)"),
        ):
            with pytest.raises(InvalidArgument) as caught:
                launch(stream, ONE, kernel, *args)
            assert word in caught.value.found
        launch(stream, ONE, kernel, np.uint8(1), np.uint64(2), np.uint16(3), np.int32(4), np.float32(5), out, out)
        stream.synchronize()


def test_kernels_are_listed_and_found_by_name(module: Module) -> None:
    names = ["add_one", "await_flag", "echo", "mismatch", "race", "ring_doorbell", "trap_now", "wait_flag"]
    assert sorted(module) == names
    with pytest.raises(ModuleInvalid, match="the module has") as caught:
        module["add_two"]
    assert caught.value.canonical == "SymbolNotFound"


def test_geometry_is_refused_and_runs_nothing(device: Device, stream: Stream, module: Module) -> None:
    kernel = module["add_one"]
    assert kernel.max_block_threads == 256
    with device.allocate(64, "mapped") as words:
        words.numpy()[:] = 0
        for config in (
            LaunchConfig(0, 1),
            LaunchConfig(1, 0),
            LaunchConfig(1, 257),
            LaunchConfig(1, (1, 1, 65)),
            LaunchConfig(1, (64, 32)),
            LaunchConfig((1, 65536), 1),
            LaunchConfig(1, 1, shared_bytes=1 << 20),
        ):
            with pytest.raises(LaunchRefused):
                launch(stream, config, kernel, 16, words)
        for config in (LaunchConfig(1, (1, 1, 1, 1)), LaunchConfig(-1, 1)):
            with pytest.raises(InvalidArgument):
                launch(stream, config, kernel, 16, words)
        stream.synchronize()
        assert not words.numpy().any()


def test_a_trap_fails_the_device_until_it_is_reset(device: Device, stream: Stream, module: Module) -> None:
    with device.allocate(64) as words:
        launch(stream, LaunchConfig(1, 32), module["trap_now"])
        with pytest.raises(LaunchFailed, match="trap") as caught:
            stream.synchronize()
        assert caught.value.canonical == "LaunchFailure"
        assert not isinstance(caught.value, LaunchTimeout | LaunchDeadlock)
        report = device.launch_report()
        assert report is not None
        assert report.outcome == "trap"
        for again in (
            stream.synchronize,
            stream.query,
            lambda: device.allocate(64),
            lambda: stream.fill(words, 0),
            device.create_event,
            device.synchronize,
        ):
            with pytest.raises(LaunchFailed):
                again()
        device.reset()
        for dead in (stream.synchronize, lambda: words.address, lambda: module["add_one"]):
            with pytest.raises(UseAfterFree, match="reset"):
                dead()
    with device.allocate(64), device.create_stream() as fresh:
        fresh.synchronize()


def test_a_deadlock_says_where_its_lanes_are(device: Device, stream: Stream, module: Module) -> None:
    launch(stream, LaunchConfig(1, 32), module["mismatch"])
    with pytest.raises(LaunchDeadlock, match="mismatch"):
        stream.synchronize()
    report = device.launch_report()
    assert report is not None
    assert (report.outcome, report.stuck_lanes) == ("deadlock", 32)
    assert "barrier" in report.message


def test_a_limit_ends_a_launch(device: Device, stream: Stream, module: Module) -> None:
    with device.allocate(8, "mapped") as words:
        words.numpy()[:] = 0
        config = LaunchConfig(1, 1, limit_ns=20_000_000)
        launch(stream, config, module["wait_flag"], words, words[4:8], 10**12)
        with pytest.raises(LaunchTimeout):
            stream.synchronize()
    report = device.launch_report()
    assert report is not None
    assert report.outcome == "limit"
    assert 20_000_000 <= report.elapsed_ns < 5_000_000_000


def test_cooperative_grids_are_resident_or_refused(device: Device, stream: Stream, module: Module) -> None:
    kernel = module["add_one"]
    fit = device.attribute("MultiProcessorCount") * kernel.resident_blocks(256)
    with device.allocate(4) as words:
        stream.fill(words, 0)
        with pytest.raises(LaunchRefused) as caught:
            launch(stream, LaunchConfig(fit + 1, 256, cooperative=True), kernel, 1, words)
        assert caught.value.canonical == "CooperativeLaunchTooLarge"
        launch(stream, LaunchConfig(fit, 256, cooperative=True), kernel, 1, words)
        stream.synchronize()
        with pytest.raises(InvalidArgument, match="cooperative and bounded"):
            launch(stream, LaunchConfig(1, 1, cooperative=True, limit_ns=1), kernel, 1, words)


def test_modules_that_do_not_fit_are_refused(
    device: Device, arch: str, tmp_path: Path, module_path: Callable[[str], Path]
) -> None:
    other = module_path("sim-w32" if arch.startswith("threads") else "threads-w32")
    with pytest.raises(ModuleInvalid, match="built for") as caught:
        device.load_module(other)
    assert caught.value.canonical == "NoKernelImageForDevice"
    with pytest.raises(ModuleInvalid) as caught:
        device.load_module(tmp_path / "none.so")
    assert caught.value.canonical == "FileNotFound"
    whole = module_path(arch).read_bytes()
    for damaged in (b"\x7fELF" + bytes(100), *(whole[: len(whole) * part // 8] for part in range(8)), whole[:-1]):
        (tmp_path / "bad.so").write_bytes(damaged)
        with pytest.raises(ModuleInvalid) as caught:
            device.load_module(tmp_path / "bad.so")
        assert caught.value.canonical == "InvalidKernelImage"


def test_an_unloaded_module_is_refused(stream: Stream, module: Module) -> None:
    kernel = module["trap_now"]
    module.close()
    module.close()
    with pytest.raises(UseAfterFree):
        launch(stream, ONE, kernel)
    stream.synchronize()


def test_objects_of_two_devices_do_not_mix(stream: Stream, module: Module, arch: str) -> None:
    other = Device(resolve(f"host:{arch}"), 1)
    with other.allocate(64) as far, other.create_stream() as there, other.create_event() as mark:
        with pytest.raises(WrongDevice, match="argument 1"):
            launch(stream, ONE, module["add_one"], 16, far)
        with pytest.raises(WrongDevice):
            launch(there, ONE, module["add_one"], 16, far)
        with pytest.raises(WrongDevice):
            stream.fill(far, 0)
        with pytest.raises(WrongDevice):
            stream.record(mark)
    with pytest.raises(WrongDevice, match="there are 2"):
        Device(resolve(f"host:{arch}"), 2)


def test_a_host_store_reaches_a_running_kernel(stream: Stream, device: Device, module: Module) -> None:
    """Mode threads: the kernel spins while the host thread stores through the mapped view."""
    if device.profile.arch.startswith("sim"):
        pytest.skip("the host acts while a simulated kernel runs in test_sim")
    with device.allocate(8, "mapped") as words:
        view = words.numpy(np.uint32)
        view[:] = 0
        launch(stream, ONE, module["wait_flag"], words, words[4:8], 10**10)
        assert not stream.query()
        timer = threading.Timer(0.02, view.__setitem__, (0, 1))
        timer.start()
        stream.synchronize()
        timer.join()
        assert view.tolist() == [1, 7]


def test_a_launch_costs_the_host_a_constant_number_of_calls(device: Device, stream: Stream, module: Module) -> None:
    kernel = module["add_one"]
    with device.allocate(4096) as words, device.allocate(4096, "mapped") as staging:
        counted = []
        for blocks in (1, 4):
            before = device.host_calls.copy()
            stream.copy(words, staging)
            launch(stream, LaunchConfig(blocks, 256), kernel, 0, words)
            counted.append(device.host_calls - before)
        stream.synchronize()
    assert counted[0] == counted[1]
    assert counted[0]["MemcpyAsync"] == 1
    assert counted[0]["LaunchKernel"] == 1
    assert set(counted[0]) <= {"MemcpyAsync", "LaunchKernel", "GetDevice", "SetDevice"}


@pytest.mark.slow
@pytest.mark.parametrize("width", [64, 128])
@pytest.mark.parametrize("mode", ["threads", "sim"])
def test_other_wave_widths_run_the_same_kernels(mode: str, width: int, module_path: Callable[[str], Path]) -> None:
    device = Device(f"host:{mode}-w{width}")
    with (
        device.load_module(module_path(f"{mode}-w{width}")) as module,
        device.create_stream() as stream,
        device.allocate(4 * 500, "mapped") as words,
    ):
        stream.fill(words, 0)
        launch(stream, LaunchConfig(5, 100), module["add_one"], 500, words)
        stream.synchronize()
        assert device.wave_width == width
        assert (words.numpy(np.uint32) == 1).all()


def test_each_image_in_memory_is_a_module_of_its_own() -> None:
    """The loader knows an object by its path: the second image must not be answered with the first."""
    from tutti_hal.toolchain import build

    profile = resolve("host:threads-w32")
    device, kernels = Device(profile), {"saxpy": b"saxpy", "probe_host": b"host_count"}
    ffi, modules = device.runtime.ffi, {}
    with device.current():
        for name in kernels:
            image, modules[name] = build(profile, name).path.read_bytes(), ffi.new("Module *")
            device.call("ModuleLoadData", modules[name], ffi.from_buffer(image))
        for name, kernel in kernels.items():
            device.call("ModuleGetFunction", ffi.new("Function *"), modules[name][0], kernel)
        for module in modules.values():
            device.call("ModuleUnload", module[0])

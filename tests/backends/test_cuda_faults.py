"""What CUDA's machine may lack or refuse, by libraries and bindings made up to refuse: *simulated*, on no GPU.

Each refusal has a type, an id, what was found and what to do. The libraries have every symbol of the record; a variable
of each says what its call returns.
"""

from __future__ import annotations

import ctypes
import shutil
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import pytest

from tutti_hal.backends.cuda import runtime as cuda
from tutti_hal.backends.cuda.toolchain import toolchain
from tutti_hal.errors import (
    BuildError,
    CompilerMissing,
    ModuleInvalid,
    NotSupported,
    OutOfMemory,
    RuntimeFailure,
    RuntimeMissing,
    SymbolMissing,
    TuttiError,
    WrongDevice,
)
from tutti_hal.paths import package_file
from tutti_hal.profile import Profile, resolve
from tutti_hal.record import Record, load_record
from tutti_hal.shim import Device
from tutti_hal.spec import load_spec
from tutti_hal.toolchain import build

#: One device, of compute capability 9.0 (attributes 75 and 76) with waves of 32 lanes (10).
BODIES = {
    "GetDeviceCount": "(int *count) { *count = 1; ",
    "GetDevice": "(int *device) { *device = 0; ",
    "DeviceGetAttribute": "(int *value, int attribute, int device) { (void)device; "
    "*value = attribute == 10 ? 32 : attribute == 75 ? major : 0; ",
}


@pytest.fixture(scope="module")
def record() -> Record:
    return load_record(package_file("backends", "cuda"))


@dataclass(frozen=True)
class Machine:
    """Libraries of a machine that refuses what it is told to."""

    record: Record
    folder: Path

    def libraries(self, *, driver: bool = True, without: tuple[str, ...] = ()) -> list[Path | str]:
        """The runtime's library and the driver's; the name of a driver that is not there."""
        symbols = {
            name: self.record.host_api.symbols(name)[-1]
            for name in load_spec().host_functions
            if self.record.host_api.symbols(name) and name not in without
        }
        runtime = {name: symbol for name, symbol in symbols.items() if symbol.startswith("cuda")}
        others = {name: symbol for name, symbol in symbols.items() if name not in runtime}
        assert len(runtime) > 30
        assert len(others) > 10
        made: list[Path | str] = [self._make("libcudart.so", runtime)]
        return [*made, self._make("libcuda.so", others) if driver else "libcuda-is-not-here.so.1"]

    def _make(self, name: str, functions: dict[str, str]) -> Path:
        lines = ["int major = 9;"]
        for function, symbol in functions.items():
            if function in ("GetErrorString", "GetErrorName"):
                lines.append(f'const char *{symbol}(int code) {{ (void)code; return "made up"; }}')
                continue
            body = BODIES.get(function, "(void) { ")
            lines.append(f"int code_of_{function};\nint {symbol}{body}return code_of_{function}; }}")
        source, target = self.folder / f"{name}.c", self.folder / name
        source.write_text("\n".join(lines), encoding="utf-8")
        subprocess.run(["gcc", "-shared", "-fPIC", "-o", target, source], check=True, timeout=60)
        return target


def refuse(libraries: list[Path | str], **numbers: int) -> None:
    """Set what calls return, by canonical name; ``major`` is the device's compute capability."""
    for name, value in numbers.items():
        variable = name if name == "major" else f"code_of_{name}"
        found = 0
        for library in libraries:
            try:
                ctypes.c_int.in_dll(ctypes.CDLL(str(library)), variable).value = value
            except ValueError:
                continue
            found += 1
        assert found, name


@pytest.fixture
def machine(record: Record, tmp_path: Path) -> Machine:
    if shutil.which("gcc") is None:
        pytest.skip("no gcc: the made-up libraries cannot be made")
    return Machine(record, tmp_path)


@pytest.fixture(scope="module")
def profile() -> Profile:
    return resolve("cuda:sm_90")


Opened = Callable[..., Device]


@pytest.fixture
def opened(machine: Machine, profile: Profile, monkeypatch: pytest.MonkeyPatch) -> Opened:
    """Opens a device of the made-up machine, some of whose calls fail."""

    def open_device(ordinal: int = 0, **numbers: int) -> Device:
        libraries = machine.libraries()
        refuse(libraries, **numbers)
        monkeypatch.setattr(cuda, "_open", lambda source: cuda.CudaRuntime(source.record, libraries))
        return Device(profile, ordinal)

    return open_device


def complete(error: TuttiError, kind: type[TuttiError], *found: str) -> None:
    """The refusal is of its type and says everything."""
    assert type(error) is kind
    assert error.id.startswith("TT-")
    assert error.tried
    assert error.fix
    for words in found:
        assert words in error.found, error.found


# ---- driver and devices


def test_a_driver_older_than_the_toolkit(machine: Machine, record: Record) -> None:
    """The same number says that there is no driver at all: the runtime's library does not tell them apart."""
    libraries = machine.libraries()
    refuse(libraries, GetDeviceCount=35)
    with pytest.raises(RuntimeMissing) as refused:
        cuda.CudaRuntime(record, libraries)
    complete(refused.value, RuntimeMissing, "cudaGetDeviceCount returned 35 cudaErrorInsufficientDriver")
    assert "driver at least as new as the toolkit" in refused.value.fix
    assert (refused.value.call, refused.value.code, refused.value.canonical) == (
        "GetDeviceCount",
        35,
        "InsufficientDriver",
    )


@pytest.mark.parametrize(("code", "name"), [(3, "InitializationError"), (802, "SystemNotReady"), (999, "Unknown")])
def test_a_driver_that_does_not_come_up(machine: Machine, record: Record, code: int, name: str) -> None:
    libraries = machine.libraries()
    refuse(libraries, GetDeviceCount=code)
    with pytest.raises(RuntimeMissing) as refused:
        cuda.CudaRuntime(record, libraries)
    complete(refused.value, RuntimeMissing, f"returned {code} cudaError{name}")


def test_a_driver_from_before_a_function(machine: Machine, record: Record) -> None:
    """The capability goes, and says which functions it lacks; the rest of the runtime works."""
    libraries = machine.libraries(without=("DevSmResourceSplitByCount", "GreenCtxCreate"))
    runtime = cuda.CudaRuntime(record, libraries)
    assert runtime.record.capabilities["device.partition"]
    assert not runtime.capable("device.partition")
    with pytest.raises(NotSupported) as refused:
        runtime.require("device.partition", "partition the device")
    complete(refused.value, NotSupported, "DevSmResourceSplitByCount", "GreenCtxCreate")
    assert refused.value.capability == "device.partition"
    assert runtime.ordinals("sm_90") == (0,)


def test_a_driver_too_old_for_a_call(opened: Opened) -> None:
    device = opened(GetDeviceProperties=36)
    with pytest.raises(NotSupported) as refused:
        _ = device.name
    complete(refused.value, NotSupported, "36 cudaErrorCallRequiresNewerDriver")
    assert "driver" in refused.value.fix


def test_no_drivers_library(machine: Machine, record: Record) -> None:
    with pytest.raises(SymbolMissing) as refused:
        cuda.CudaRuntime(record, machine.libraries(driver=False))
    complete(refused.value, SymbolMissing, "cuLaunchKernel", "not opened: ", "libcuda-is-not-here.so.1")
    assert "could not be opened" in refused.value.fix


def test_neither_library(record: Record) -> None:
    with pytest.raises(RuntimeMissing) as refused:
        cuda.CudaRuntime(record, ["libcudart-is-not-here.so", "libcuda-is-not-here.so.1"])
    complete(refused.value, RuntimeMissing, "libcudart-is-not-here.so", "libcuda-is-not-here.so.1")


def test_no_device_or_a_gpu_in_mig_mode_without_an_instance(machine: Machine, record: Record) -> None:
    """CUDA counts instances where MIG is on, so the driver says the same of both."""
    libraries = machine.libraries()
    refuse(libraries, GetDeviceCount=100)
    with pytest.raises(WrongDevice) as refused:
        cuda.CudaRuntime(record, libraries)
    complete(refused.value, WrongDevice, "100 cudaErrorNoDevice")
    assert refused.value.canonical == "NoDevice"
    for words in ("nvidia-smi", "CUDA_VISIBLE_DEVICES", "MIG"):
        assert words in refused.value.fix


@pytest.mark.parametrize("ordinal", [1, 7, -1])
def test_an_ordinal_out_of_range(opened: Opened, ordinal: int) -> None:
    with pytest.raises(WrongDevice) as refused:
        opened(ordinal)
    complete(refused.value, WrongDevice, "there are 1")
    assert "from 0 to 0" in refused.value.fix
    assert f"device {ordinal} of cuda:sm_90" in refused.value.tried


def test_a_device_that_is_not_of_the_profiles_arch(opened: Opened) -> None:
    with pytest.raises(WrongDevice) as refused:
        opened(major=12)
    complete(refused.value, WrongDevice, "there are 0")


def test_a_device_that_is_there_no_more(opened: Opened) -> None:
    device = opened(SetDevice=101)
    with pytest.raises(WrongDevice) as refused:
        device.call("SetDevice", 0)
    complete(refused.value, WrongDevice, "101 cudaErrorInvalidDevice")


# ---- memory, modules, partitions


def test_device_memory_does_not_suffice(opened: Opened) -> None:
    device = opened(Malloc=2)
    with pytest.raises(OutOfMemory) as refused:
        device.allocate(1 << 50)
    complete(refused.value, OutOfMemory, "cudaMalloc returned 2 cudaErrorMemoryAllocation")
    assert "ulimit" not in refused.value.fix


@pytest.mark.parametrize("kind", ["pinned", "mapped"])
def test_the_limit_of_page_locked_memory(opened: Opened, kind: str) -> None:
    device = opened(HostAlloc=2)
    with pytest.raises(OutOfMemory) as refused:
        device.allocate(1 << 40, kind)
    complete(refused.value, OutOfMemory, "cudaHostAlloc returned 2")
    assert "ulimit -l" in refused.value.fix


def test_memory_that_cannot_be_locked(opened: Opened) -> None:
    device = opened(HostRegister=304)
    with pytest.raises(RuntimeFailure) as refused:
        device.register(bytearray(4096))
    complete(refused.value, RuntimeFailure, "304 cudaErrorOperatingSystem")
    assert "ulimit -l" in refused.value.fix


@pytest.mark.parametrize(("code", "name"), [(209, "NoKernelImageForDevice"), (200, "InvalidKernelImage")])
def test_a_module_of_another_arch(opened: Opened, tmp_path: Path, code: int, name: str) -> None:
    device = opened(ModuleLoad=code)
    module = tmp_path / "of_another_arch.cubin"
    module.write_bytes(b"not looked at")
    with pytest.raises(ModuleInvalid) as refused:
        device.load_module(module)
    complete(refused.value, ModuleInvalid, f"cuModuleLoad returned {code} cudaError{name}")
    assert "for this profile and device" in refused.value.fix


@pytest.mark.parametrize("call", ["DeviceGetDevResource", "DevSmResourceSplitByCount", "GreenCtxCreate"])
def test_a_partition_that_the_device_refuses(opened: Opened, call: str) -> None:
    """As a GPU in MIG mode or an old one may. Nothing falls back: who wants the whole device asks for it."""
    device = opened(**{call: 801})
    nothing = device.runtime.ffi.NULL
    with pytest.raises(NotSupported) as refused:
        device.call(call, *[nothing if "*" in kind else 0 for kind in _parameters(call)])
    complete(refused.value, NotSupported, "801 cudaErrorNotSupported")
    assert refused.value.call == call


def _parameters(call: str) -> list[str]:
    signature = load_spec().host_functions[call].signature
    return signature.partition("(")[2].rpartition(")")[0].split(",")


# ---- the bindings


class OddError(Exception):
    """Of a class that no version has."""


@pytest.mark.parametrize("error", [ImportError, OSError, RuntimeError, AttributeError, ValueError, OddError])
@pytest.mark.parametrize("where", ["import", "call"])
def test_whatever_the_bindings_raise_the_loader_is_asked(
    record: Record, monkeypatch: pytest.MonkeyPatch, where: str, error: type[Exception]
) -> None:
    def fail(*_: object) -> object:
        raise error("made up")

    bindings = type(sys)("cuda.pathfinder")
    if where == "call":
        bindings.load_nvidia_dynamic_lib = fail  # type: ignore[attr-defined]
    else:
        bindings.__getattr__ = fail  # type: ignore[method-assign]
    monkeypatch.setitem(sys.modules, "cuda", type(sys)("cuda"))
    monkeypatch.setitem(sys.modules, "cuda.pathfinder", bindings)
    assert cuda.libraries(record) == ("libcudart.so.13", "libcudart.so.12", "libcuda.so.1")


def test_nvrtc_asked_for_and_no_bindings(record: Record, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TUTTI_CUDA_NVCC", "nvrtc")
    monkeypatch.setattr("tutti_hal.backends.cuda.nvrtc.find_spec", lambda _: None)
    with pytest.raises(CompilerMissing) as refused:
        toolchain(record).find()
    complete(refused.value, CompilerMissing, "TUTTI_CUDA_NVCC=nvrtc")
    assert 'pip install "tutti-hal[cuda]"' in refused.value.fix


@pytest.mark.parametrize("error", ["RuntimeError", "ImportError", "AttributeError"])
def test_bindings_without_nvrtc(profile: Profile, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, error: str) -> None:
    """Bindings are there, the library that they load is not; each version says it by another class."""
    for package in ("cuda", "cuda/core", "cuda/bindings"):
        (tmp_path / package).mkdir()
        (tmp_path / package / "__init__.py").touch()
    text = f"def nvrtcVersion():\n    raise {error}('libnvrtc.so.13 was not found')\n"
    (tmp_path / "cuda" / "bindings" / "nvrtc.py").write_text(text, encoding="utf-8")
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    monkeypatch.setenv("TUTTI_CUDA_NVCC", "nvrtc")
    monkeypatch.setenv("TUTTI_CACHE_DIR", str(tmp_path / "cache"))
    monkeypatch.setattr("tutti_hal.backends.cuda.nvrtc.find_spec", lambda name: name)
    with pytest.raises(BuildError) as refused:
        build(profile, "saxpy")
    complete(refused.value, BuildError, f"NVRTC cannot be loaded: {error}: libnvrtc.so.13 was not found")
    assert 'pip install "tutti-hal[cuda]"' in refused.value.found

"""The class that every C runtime is driven by, with records that say something else than HOST's own."""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from tutti_hal.errors import InvalidArgument, NotSupported, OutOfMemory, RuntimeFailure, RuntimeMissing
from tutti_hal.native import ffi_and_library
from tutti_hal.paths import include_dir, native_library
from tutti_hal.profile import resolve
from tutti_hal.record import Record
from tutti_hal.shim import CRuntime, Device, HostCalls
from tutti_hal.spec import load_spec


def record_with(**changes: Any) -> Record:
    record = resolve("host").record
    api = dataclasses.replace(record.host_api, **{k: v for k, v in changes.items() if k in ("names", "absent")})
    capabilities: Mapping[str, bool] = {**record.capabilities, **changes.get("capabilities", {})}
    return dataclasses.replace(record, host_api=api, capabilities=capabilities)


def open_host(record: Record) -> CRuntime:
    return CRuntime(record, [native_library()])


def test_every_function_of_the_contract_is_there_or_declared_absent() -> None:
    record = resolve("host").record
    runtime = open_host(record)
    for name, function in load_spec().host_functions.items():
        absent = name in record.host_api.absent
        assert runtime.has(name) != absent, f"{name}: absent={absent}"
        if absent:
            assert function.capability is not None
            assert not record.capabilities[function.capability], f"{function.capability} is claimed without {name}"


def test_every_claimed_capability_is_wired() -> None:
    """The trap 'a capability compiled in but never wired': a claim needs all its symbols."""
    record = resolve("host").record
    runtime = open_host(record)
    claimed = {c for c, true in record.capabilities.items() if true}
    assert {c for c in claimed if not runtime.capable(c)} == set()
    assert not any(runtime.capable(c) for c in set(record.capabilities) - claimed)


def test_a_claim_without_its_symbol_is_no_capability() -> None:
    runtime = open_host(record_with(absent={"MallocManaged": "left out for this test"}))
    assert not runtime.capable("memory.managed")
    with pytest.raises(NotSupported, match="lacks MallocManaged") as caught:
        runtime.require("memory.managed", "allocate")
    assert caught.value.capability == "memory.managed"
    with pytest.raises(NotSupported, match="left out for this test"):
        runtime.call(HostCalls(), "MallocManaged", runtime.ffi.new("void **"), 8, 1)


def test_a_symbol_without_its_claim_is_no_capability() -> None:
    runtime = open_host(record_with(capabilities={"memory.managed": False}))
    assert runtime.has("MallocManaged")
    with pytest.raises(NotSupported, match=r"has no memory\.managed"):
        runtime.require("memory.managed", "allocate")


def test_an_exception_of_the_naming_rule_is_what_is_called() -> None:
    runtime = open_host(record_with(names={"FreeHost": ("ttrtFree",), "Malloc": ("noSuchSymbol",)}))
    pointer = runtime.ffi.new("void **")
    runtime.call(HostCalls(), "HostAlloc", pointer, 64, 0)
    with pytest.raises(InvalidArgument, match=r"ttrtFree returned 1 .*another kind"):
        runtime.call(HostCalls(), "FreeHost", pointer[0])
    with pytest.raises(NotSupported, match="no symbol noSuchSymbol"):
        runtime.call(HostCalls(), "Malloc", pointer, 64)


def test_an_alias_to_plain_memory_is_found() -> None:
    """The trap 'an alias that changes meaning': pinned memory that is really something else tells by its attributes."""
    runtime = open_host(record_with(names={"MallocHost": ("ttrtMalloc",)}))
    pointer, told = runtime.ffi.new("void **"), runtime.ffi.new("PointerAttributes[8]")
    runtime.call(HostCalls(), "MallocHost", pointer, 4096)
    runtime.call(HostCalls(), "PointerGetAttributes", told, pointer[0])
    assert told[0].type != runtime.constant("MemoryType", "Host")
    locked, refused = runtime.ffi.new("int *"), runtime.ffi.new("int *")
    with pytest.raises(InvalidArgument):
        runtime.call(HostCalls(), "HostGetLocked", locked, refused, pointer[0])
    runtime.call(HostCalls(), "Free", pointer[0])


def test_a_library_that_is_not_there_is_said() -> None:
    record = resolve("host").record
    with pytest.raises(RuntimeMissing, match="no-such-library"):
        CRuntime(record, ["/no-such-library.so"])
    with pytest.raises(RuntimeMissing, match="names no library"):
        CRuntime(record, [])
    assert CRuntime(record, ["/no-such-library.so", native_library()]).has("Malloc")


def test_an_error_says_vendor_call_code_and_meaning() -> None:
    runtime = open_host(resolve("host").record)
    calls = HostCalls()
    with pytest.raises(OutOfMemory) as caught:
        runtime.call(calls, "Malloc", runtime.ffi.new("void **"), 1 << 60)
    error = caught.value
    assert (error.vendor, error.call, error.code, error.canonical) == ("host", "Malloc", 2, "MemoryAllocation")
    assert "ttrtMalloc returned 2 ttrtErrorMemoryAllocation (MemoryAllocation: out of memory)" in error.found
    assert calls == {"Malloc": 1, "GetErrorString": 1, "GetLastErrorDetail": 1, "GetLastError": 1}
    assert runtime.code(calls, "PeekAtLastError") == 0
    with pytest.raises(KeyError):
        runtime.call(calls, "NoSuchFunction")


def test_a_number_that_the_record_does_not_know_is_still_an_error() -> None:
    record = resolve("host").record
    errors = dataclasses.replace(record.errors, values={"Success": 0})
    runtime = open_host(dataclasses.replace(record, errors=errors))
    with pytest.raises(RuntimeFailure, match="not in the contract") as caught:
        runtime.call(HostCalls(), "Free", runtime.ffi.cast("void *", 16))
    assert (type(caught.value), caught.value.code) == (RuntimeFailure, 1)
    for look_up in (lambda: runtime.constant("MemcpyKind", "Sideways"), lambda: runtime.attribute("NoSuch")):
        with pytest.raises(NotSupported, match="has no number"):
            look_up()


def test_every_device_of_the_profile_tells_its_arch() -> None:
    record = resolve("host").record
    ordinals = []
    for arch in record.archs.values():
        for ordinal in range(2):
            device = Device(resolve(f"host:{arch.name}"), ordinal)
            assert device.name == f"tutti HOST {arch.name}"
            assert device.wave_width == arch.wave_width
            assert device.attribute("MaxThreadsPerBlock") == arch.limits["block_threads"]
            assert device.attribute("MaxSharedMemoryPerBlock") == arch.limits["shared_bytes"]
            ordinals.append(device.vendor_ordinal)
    assert ordinals == list(range(len(ordinals)))


def test_numbers_in_the_header_are_the_records() -> None:
    """The header is read here, apart from the record."""
    text = (include_dir() / "tutti" / "host_runtime.h").read_text(encoding="utf-8")
    record = resolve("host").record
    found = {name: int(value) for name, value in re.findall(r"\bttrtError(\w+) = (\d+)", text)} | {"Success": 0}
    assert dict(record.errors.values) == found
    found = {name: int(value) for name, value in re.findall(r"\bttrtDevAttr(\w+) = (\d+)", text)}
    assert dict(record.attributes.values) == found


def test_the_contracts_signatures_are_the_headers() -> None:
    """A canonical signature with the vendor's types is the declaration of the header, parameter by parameter."""
    ffi, _ = ffi_and_library()
    text = (include_dir() / "tutti" / "host_runtime.h").read_text(encoding="utf-8")
    declared = {
        name: _shape(parameters)
        for name, parameters in re.findall(r"TT_EXPORT [\w\s\*]*?\bttrt(\w+)\(((?:[^()]|\([^()]*\))*)\);", text)
    }
    for function in load_spec().host_functions.values():
        if function.name in declared:
            _, _, parameters = function.signature.partition("(")
            assert _shape(parameters.removesuffix(")")) == declared[function.name], function.name
    assert ffi is not None
    assert len(declared) > 70


def _shape(parameters: str) -> list[str]:
    """The types of the parameters, with canonical names."""
    flat = re.sub(r"/\*.*?\*/", "", " ".join(parameters.split()))
    flat = re.sub(r"\(\*\w+\)\([^()]*\)", "callback", flat)
    names = {"ttrtStream_t": "Stream", "ttrtEvent_t": "Event", "ttrtModule_t": "Module", "ttrtFunction_t": "Function"}
    names |= {"ttrtPointerAttributes": "PointerAttributes", "ttrtDeviceProp": "DeviceProperties"}
    names |= {"ttrtError": "Error", "tt_launch_report": "LaunchReport", "uint64_t": "unsigned long long"}
    for vendor, canonical in names.items():
        flat = re.sub(rf"\b{vendor}\b", canonical, flat)
    result = []
    for parameter in flat.split(","):
        words = parameter.strip()
        result.append(re.sub(r"(\*|\s)\w+$", r"\1", words).replace(" ", "") if words != "void" else "void")
    return result


@pytest.mark.parametrize("name", ["runtime.py", "sim.py"])
def test_the_backend_is_small(name: str) -> None:
    path = Path(str(resolve("host").record.folder)) / name
    assert len(path.read_text(encoding="utf-8").splitlines()) <= 360

"""The one runtime for C libraries, over a library written here: what is missing, wrong or odd is refused by name."""

from __future__ import annotations

import subprocess
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from tutti_hal.errors import NumbersDiffer, RuntimeFailure, SymbolMissing, WaveWidthWrong
from tutti_hal.paths import package_file
from tutti_hal.record import Record, load_record
from tutti_hal.sdk import Root, find_root
from tutti_hal.shim.ffi import HostCalls
from tutti_hal.shim.header_numbers import numbers_of, with_header_numbers
from tutti_hal.shim.sdk_runtime import SdkRuntime, libraries
from tutti_hal.spec import load_spec

#: One device of mp_22; a driver that counts how it is begun.
BODIES = {
    "GetDeviceCount": "int f(int *count) { *count = 1; return 0; }",
    "DeviceGetAttribute": "int f(int *value, int attribute, int device) { (void)device;"
    " *value = attribute == 10 ? WIDTH : attribute == 75 ? 2 : attribute == 76 ? 2 : 0; return 0; }",
    "GetDevice": "int f(int *device) { *device = 0; return 0; }",
    "GetErrorString": 'const char *f(int code) { (void)code; return "said by the vendor"; }',
    "Free": "int f(void *p) { if (p == 0) ++freed; return 0; }",
    "MallocHost": "int f(void **p, unsigned long size, unsigned flags) { (void)p; (void)size; return 40 + flags; }",
    "Malloc": "int f(void **p, unsigned long size) { (void)p; (void)size; return 2; }",
}


@pytest.fixture(scope="module")
def musa() -> Record:
    return load_record(package_file("backends", "musa"))


Library = Callable[..., Path]


@pytest.fixture
def library(musa: Record, tmp_path: Path) -> Library:
    """Builds a library with every mandatory symbol, less some, with a wave width and an outcome of muInit."""

    def build(without: str = "", width: int = 128, init: int = 0) -> Path:
        lines = ["int freed, begun;", f"#define WIDTH {width}"]
        lines.append(f"int muInit(unsigned flags) {{ (void)flags; ++begun; return {init}; }}")
        for name, function in load_spec().host_functions.items():
            symbol = musa.host_api.symbols(name)[-1] if musa.host_api.symbols(name) else None
            if symbol is None or name == without or (function.capability is not None and name not in BODIES):
                continue
            lines.append(
                BODIES.get(name, "int f(void) { return 0; }")
                .replace(" f(", f" {symbol}(", 1)
                .replace(" *f(", f" *{symbol}(")
            )
        source, target = tmp_path / "vendor.c", tmp_path / "libmusart.so.5"
        source.write_text("\n".join(lines), encoding="utf-8")
        subprocess.run(["gcc", "-shared", "-fPIC", "-o", str(target), str(source)], check=True, timeout=60)
        return target

    return build


def test_it_is_begun_once_and_its_errors_say_everything(musa: Record, library: Library) -> None:
    runtime = SdkRuntime(musa, [library()])
    runtime.ffi.cdef("extern int begun, freed;")
    (opened,) = runtime._libraries
    assert opened.begun == 1
    with pytest.raises(RuntimeFailure) as failed:
        runtime.call(HostCalls(), "Malloc", runtime.ffi.new("void **"), 8)
    error = failed.value
    assert (error.vendor, error.code, error.canonical, error.call) == ("musa", 2, "MemoryAllocation", "Malloc")
    assert "musaMalloc returned 2 musaErrorMemoryAllocation (MemoryAllocation: said by the vendor)" in error.found


def test_a_device_is_woken_once_a_thread_and_after_a_reset(musa: Record, library: Library) -> None:
    runtime = SdkRuntime(musa, [library()])
    runtime.ffi.cdef("extern int begun, freed;")
    (opened,) = runtime._libraries
    for wanted in (1, 1):
        with runtime.current(HostCalls(), 0):
            assert opened.freed == wanted
    runtime.count_reset(0)
    with runtime.current(HostCalls(), 0):
        assert opened.freed == 2


def test_an_initialisation_that_fails_is_the_vendors_error(musa: Record, library: Library) -> None:
    with pytest.raises(RuntimeFailure, match="muInit returned 100 musaErrorNoDevice") as failed:
        SdkRuntime(musa, [library(init=100)])
    assert failed.value.canonical == "NoDevice"


def test_a_symbol_that_everyone_must_have(musa: Record, library: Library) -> None:
    with pytest.raises(SymbolMissing, match=r"lack StreamCreate \(musaStreamCreate\)") as refused:
        SdkRuntime(musa, [library(without="StreamCreate")])
    assert refused.value.id == "TT-RUNTIME-SYMBOL"


def test_a_symbol_of_a_capability_takes_the_capability_away(musa: Record, library: Library) -> None:
    runtime = SdkRuntime(musa, [library()])
    assert musa.capabilities["memory.managed"]
    assert not runtime.capable("memory.managed")


def test_parameters_behind_the_contracts(musa: Record, library: Library) -> None:
    api = replace(musa.host_api, append={"MallocHost": (("unsigned int", 2),)})
    runtime = SdkRuntime(replace(musa, host_api=api), [library()])
    assert runtime.code(HostCalls(), "MallocHost", runtime.ffi.new("void **"), 8) == 42


def test_devices_of_the_arch_and_no_other(musa: Record, library: Library) -> None:
    runtime = SdkRuntime(musa, [library()])
    assert [runtime.ordinals(arch) for arch in ("mp_21", "mp_22", "mp_31")] == [(), (0,), ()]


@pytest.mark.parametrize(("width", "said"), [(64, "64 lanes, the record says 128"), (48, "no kernel is written for")])
def test_a_wave_of_another_width(musa: Record, library: Library, width: int, said: str) -> None:
    with pytest.raises(WaveWidthWrong, match=said) as refused:
        SdkRuntime(musa, [library(width=width)]).ordinals("mp_22")
    assert refused.value.id == "TT-RUNTIME-WAVE-WIDTH"


# ---- numbers of headers


@pytest.fixture
def headers(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., Root]:
    """An SDK whose headers say what the record says, but for one number; ``None`` leaves the name out."""
    monkeypatch.setenv("TUTTI_CACHE_DIR", str(tmp_path / "cache"))

    def write(record: Record, change: dict[str, int | None] | None = None) -> Root:
        root = tmp_path / record.vendor
        lines = ["#pragma once"]
        tables = [record.errors, record.attributes, *record.constants.values()]
        for number, table in enumerate(tables):
            for name in dict.fromkeys((*table.values, *table.names)):
                spelling = table.spelling(name)
                value = (change or {}).get(spelling, table.values.get(name, 70 + number))
                if value is not None:
                    lines.append(f"static const int {spelling} = {value};")
        for header in record.host_api.headers:
            file = root / "include" / header
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_text("\n".join(lines if header == record.host_api.headers[0] else ["#pragma once"]), "utf-8")
        return Root(root, "MUSA_HOME", "5.2.0")

    return write


def test_numbers_that_agree(musa: Record, headers: Callable[..., Root]) -> None:
    checked = with_header_numbers(musa, headers(musa))
    assert checked.errors == musa.errors
    assert checked.constants["MemRangeFlags"].values["DmaBufMappingTypePcie"] > 0, "bound by name"


def test_every_difference_is_listed_by_name(musa: Record, headers: Callable[..., Root]) -> None:
    root = headers(musa, {"musaErrorInvalidValue": 2, "musaStreamNonBlocking": 0, "musaHostAllocMapped": None})
    with pytest.raises(NumbersDiffer) as refused:
        with_header_numbers(musa, root)
    assert refused.value.id == "TT-SDK-NUMBERS"
    for said in (
        "3 differ",
        "errors.InvalidValue: the record says 1, musaErrorInvalidValue is 2",
        "StreamFlags.NonBlocking: the record says 1, musaStreamNonBlocking is 0",
        "HostAllocFlags.Mapped: the headers have no musaHostAllocMapped",
    ):
        assert said in refused.value.found


def test_an_attribute_that_the_headers_lack_is_not_asked_for(musa: Record, headers: Callable[..., Root]) -> None:
    checked = with_header_numbers(musa, headers(musa, {"musaDevAttrClockRate": None}))
    assert "ClockRate" not in checked.attributes.values
    assert checked.attributes.values["WarpSize"] == 10


def test_what_is_bound_by_name_takes_the_headers_number(headers: Callable[..., Root]) -> None:
    maca = load_record(package_file("backends", "maca"))
    assert "NonBlocking" not in maca.constants["StreamFlags"].values
    root = headers(
        maca, {"mcDeviceAttributeWaveSize": 11, "mcStreamNonBlocking": 9, "mcMemRangeHandleTypeDmaBufFd": None}
    )
    checked = with_header_numbers(maca, root)
    assert checked.attributes.values["WarpSize"] == 11
    assert checked.constants["StreamFlags"].values["NonBlocking"] == 9
    assert checked.constants["MemRangeHandleType"].values["DmaBufFd"] == 1


def test_headers_that_no_compiler_reads(musa: Record, headers: Callable[..., Root]) -> None:
    root = headers(musa)
    (root.path / "include" / "musa.h").write_text('#include "not_there.h"\n', encoding="utf-8")
    with pytest.raises(NumbersDiffer, match="not_there"):
        with_header_numbers(musa, root)


def test_without_headers_the_record_stands(musa: Record, tmp_path: Path) -> None:
    assert numbers_of(musa, Root(tmp_path, "default", None)) is None
    assert with_header_numbers(musa, Root(tmp_path, "default", None)) is musa


def test_of_each_library_one_version_is_opened(musa: Record, tmp_path: Path) -> None:
    for name in ("include/musa_runtime_api.h", "lib/libmusart.so.4", "lib/libmusart.so"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).touch()
    root = find_root(musa, {"MUSA_HOME": str(tmp_path)})
    assert libraries(musa, root) == (tmp_path / "lib" / "libmusart.so.4", "libmusa.so.1", "libmusa.so")

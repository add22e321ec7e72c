"""The simulated libraries, called as a program of the vendor's would: names, numbers, layouts, quirks."""

from __future__ import annotations

import subprocess
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.simulated.conftest import EVERY, FOLDER, Opened
from tutti_hal.conformance_tests.simulated import abi as abis
from tutti_hal.conformance_tests.simulated.container import wrap

Open = Callable[..., Opened]

#: Vendor -> prefix of its functions.
PREFIX = {"musa": "musa", "maca": "mc", "hip": "hip"}


def call(sdk: Opened, name: str, *args: Any) -> int:
    """A function of the runtime by the field's name."""
    return int(getattr(sdk, PREFIX[sdk.abi.vendor] + name)(*args))


def code(sdk: Opened, meaning: str) -> int:
    """The vendor's number of an error of HOST."""
    return next(row.value for row in sdk.abi.errors.rows if meaning in row.means)


def exported(library: Path) -> set[str]:
    listed = subprocess.run(["nm", "-D", "--defined-only", str(library)], check=True, capture_output=True, text=True)
    return {line.split()[-1] for line in listed.stdout.splitlines()}


@pytest.mark.parametrize(("vendor", "version"), EVERY)
def test_the_libraries_export_what_the_abi_says_and_nothing_else(open_sdk: Open, vendor: str, version: str) -> None:
    sdk = open_sdk(vendor, version)
    for library in sdk.abi.libraries:
        if library.functions:
            names = {one.name for one in sdk.abi.functions[library.functions]}
            assert exported(sdk.root / "lib" / library.file) == names
            assert not names & set(sdk.abi.absent)


@pytest.mark.parametrize(("vendor", "version"), EVERY)
def test_a_program_compiles_against_the_headers(open_sdk: Open, vendor: str, version: str, tmp_path: Path) -> None:
    """The generated headers stand alone in C and C++, and their layouts are those of the ABI."""
    sdk = open_sdk(vendor, version)
    lines = [f"#include <{header.file}>" for header in sdk.abi.headers]
    for layout in sdk.abi.structs:
        lines.append(f'_Static_assert(sizeof(struct {layout.name}) == {layout.bytes}, "");')
        for field in layout.fields:
            offset = f"offsetof(struct {layout.name}, {field.name}) == {field.offset}"
            lines.append(f'_Static_assert({offset}, "{field.name}");')
    for row in sdk.abi.errors.rows:
        lines.append(f'_Static_assert({row.name} == {row.value}, "");')
    source = tmp_path / "unit.c"
    source.write_text("\n".join([*lines, ""]), encoding="utf-8")
    include = sdk.root / "include"
    subprocess.run(["gcc", "-Wall", "-Werror", f"-I{include}", "-fsyntax-only", str(source)], check=True)
    plain = tmp_path / "unit.cpp"
    plain.write_text("\n".join(lines[: len(sdk.abi.headers)]) + "\n", encoding="utf-8")
    subprocess.run(["g++", "-Wall", "-Werror", f"-I{include}", "-fsyntax-only", str(plain)], check=True)


@pytest.mark.parametrize(("vendor", "version"), EVERY)
def test_devices_say_what_they_are(open_sdk: Open, vendor: str, version: str) -> None:
    sdk = open_sdk(vendor, version)
    value = sdk.ffi.new("int *")
    assert call(sdk, "GetDeviceCount", value) == 0
    assert value[0] == 2
    arch = sdk.abi.archs[sdk.abi.default_arch]
    wanted = {"wave": arch.wave, "major": arch.major, "minor": arch.minor, "shared_bytes": arch.shared_bytes}
    asked = set()
    for attribute in sdk.abi.attributes:
        assert call(sdk, "DeviceGetAttribute", value, attribute.value, 1) == 0, attribute
        if attribute.source in wanted:
            assert value[0] == wanted[attribute.source], attribute
            asked.add(attribute.source)
    assert asked == set(wanted)
    assert call(sdk, "DeviceGetAttribute", value, 12345, 0) == code(sdk, "InvalidValue")
    assert call(sdk, "DeviceGetAttribute", value, sdk.abi.attributes[0].value, 2) == code(sdk, "InvalidDevice")
    assert call(sdk, "RuntimeGetVersion", value) == 0
    assert value[0] == sdk.abi.sdk_number


@pytest.mark.parametrize(("vendor", "version"), EVERY)
def test_properties_have_the_layout_of_the_version(open_sdk: Open, vendor: str, version: str) -> None:
    sdk = open_sdk(vendor, version)
    arch = sdk.abi.archs[sdk.abi.default_arch]
    layouts = {layout.name: layout for layout in sdk.abi.structs if layout.role == "DeviceProperties"}
    seen = 0
    for function in sdk.abi.functions["runtime"]:
        if not function.layout:
            continue
        layout = layouts[function.layout]
        out = sdk.ffi.new(f"struct {layout.name}[2]")  # the second one must stay as it is
        raw = sdk.ffi.buffer(out)
        raw[:] = b"\xa5" * len(raw)
        assert getattr(sdk, function.name)(out, 0) == 0
        fields = {field.name: field for field in layout.fields}
        name = bytes(raw[fields["name"].offset : fields["name"].offset + 256]).split(b"\0")[0].decode()
        assert name == arch.title
        width = next(field for field in layout.fields if field.source == "wave")
        assert int.from_bytes(bytes(raw[width.offset : width.offset + 4]), "little") == arch.wave
        assert bytes(raw[layout.bytes :]) == b"\xa5" * layout.bytes
        seen += 1
    assert seen >= 1


@pytest.mark.parametrize(("vendor", "version"), EVERY)
def test_memory_is_told_apart_in_the_vendors_numbers(open_sdk: Open, vendor: str, version: str) -> None:
    sdk = open_sdk(vendor, version)
    ffi, place = sdk.ffi, sdk.ffi.new("void **")
    layout = next(layout for layout in sdk.abi.structs if layout.role == "PointerAttributes")
    types = {meaning: row.value for row in sdk.abi.numbers["MemoryType"].rows for meaning in row.means}
    out = ffi.new(f"struct {layout.name} *")
    assert call(sdk, "Malloc", place, 4096) == 0
    try:
        assert call(sdk, "PointerGetAttributes", out, place[0]) == 0
        raw = bytes(ffi.buffer(out))
        assert int.from_bytes(raw[0:4], "little", signed=True) == types["Device"]
        assert int.from_bytes(raw[4:8], "little", signed=True) == 0
        assert int.from_bytes(raw[8:16], "little") == int(ffi.cast("uintptr_t", place[0]))
    finally:
        assert call(sdk, "Free", place[0]) == 0
    here = ffi.new("char[]", 64)
    answer = call(sdk, "PointerGetAttributes", out, ffi.cast("void *", here))
    if sdk.abi.unregistered_refused:
        assert answer == code(sdk, "InvalidValue")
    else:
        assert answer == 0
        assert int.from_bytes(bytes(ffi.buffer(out))[0:4], "little") == types["Unregistered"]


@pytest.mark.parametrize("vendor", ["musa", "maca", "hip"])
def test_a_copy_takes_the_vendors_kinds_and_refuses_others(open_sdk: Open, vendor: str) -> None:
    sdk = open_sdk(vendor)
    ffi, place = sdk.ffi, sdk.ffi.new("void **")
    kinds = {meaning: row.value for row in sdk.abi.numbers["MemcpyKind"].rows for meaning in row.means}
    assert call(sdk, "Malloc", place, 64) == 0
    there, back = ffi.new("char[]", b"sixteen bytes ok"), ffi.new("char[]", 17)
    assert call(sdk, "Memcpy", place[0], there, 16, kinds["HostToDevice"]) == 0
    assert call(sdk, "Memcpy", back, place[0], 16, kinds["DeviceToHost"]) == 0
    assert ffi.string(back) == b"sixteen bytes ok"
    assert call(sdk, "Memcpy", back, place[0], 16, 77) == code(sdk, "InvalidMemcpyDirection")
    assert call(sdk, "Free", place[0]) == 0


@pytest.mark.parametrize(("vendor", "version"), EVERY)
def test_errors_have_the_vendors_names(open_sdk: Open, vendor: str, version: str) -> None:
    sdk = open_sdk(vendor, version)
    for row in sdk.abi.errors.rows:
        told = getattr(sdk, PREFIX[vendor] + "GetErrorName")(row.value)
        assert sdk.ffi.string(told).decode() == row.name
    assert b"unrecognized" in sdk.ffi.string(getattr(sdk, PREFIX[vendor] + "GetErrorName")(4242))


@pytest.mark.parametrize("vendor", ["musa", "maca", "hip"])
def test_the_last_error_is_the_threads_own(open_sdk: Open, vendor: str) -> None:
    sdk = open_sdk(vendor)
    wrong = code(sdk, "InvalidDevice")
    assert call(sdk, "SetDevice", 99) == wrong
    beside: list[int] = []
    thread = threading.Thread(target=lambda: beside.append(call(sdk, "GetLastError")))
    thread.start()
    thread.join()
    assert beside == [0]
    assert call(sdk, "PeekAtLastError") == wrong
    assert [call(sdk, "GetLastError"), call(sdk, "GetLastError")] == [wrong, 0]


@pytest.mark.parametrize("vendor", ["musa", "maca", "hip"])
def test_modules_of_others_are_refused(open_sdk: Open, vendor: str, tmp_path: Path) -> None:
    sdk = open_sdk(vendor)
    load = {"musa": "muModuleLoad", "maca": "mcModuleLoad", "hip": "hipModuleLoad"}[vendor]
    handle = {"musa": "MUmodule *", "maca": "mcModule_t *", "hip": "hipModule_t *"}[vendor]
    elf = Path("/bin/true").read_bytes()
    mine = sdk.abi.default_arch
    images = {
        "text": (b"no module at all", "InvalidKernelImage"),
        "plain ELF": (elf, "InvalidKernelImage"),
        "another arch": (wrap(vendor, "other", elf), "NoKernelImageForDevice"),
        "another vendor": (wrap("other", mine, elf), "NoKernelImageForDevice"),
        "cut": (wrap(vendor, mine, elf)[:-100], "InvalidKernelImage"),
        "no HOST module": (wrap(vendor, mine, elf), "InvalidKernelImage"),
        "empty payload": (wrap(vendor, mine, b""), "InvalidKernelImage"),
    }
    assert call(sdk, "SetDevice", 0) == 0
    module = sdk.ffi.new(handle)
    for name, (image, wanted) in images.items():
        path = tmp_path / "module"
        path.write_bytes(image)
        assert getattr(sdk, load)(module, str(path).encode()) == code(sdk, wanted), name
    absent = str(tmp_path / "absent").encode()
    assert getattr(sdk, load)(module, absent) == code(sdk, "FileNotFound")


def test_musa_driver_calls_before_init_are_refused(open_sdk: Open) -> None:
    """In a process of its own, since the first call of the runtime initialises the driver."""
    sdk = open_sdk("musa")
    script = (
        "import ctypes, sys\n"
        f"driver = ctypes.CDLL({str(sdk.root / 'lib' / 'libmusa.so.1')!r})\n"
        "n = ctypes.c_int()\n"
        "before = driver.muDeviceGetCount(ctypes.byref(n))\n"
        "if sys.argv[1] == 'driver':\n"
        "    begun = driver.muInit(0)\n"
        "else:\n"
        f"    runtime = ctypes.CDLL({str(sdk.root / 'lib' / 'libmusart.so.5')!r})\n"
        "    begun = runtime.musaGetDeviceCount(ctypes.byref(n))\n"
        "print(before, begun, driver.muDeviceGetCount(ctypes.byref(n)), n.value)\n"
    )
    for how in ("driver", "runtime"):
        done = subprocess.run([sys.executable, "-c", script, how], check=True, capture_output=True, text=True)
        assert done.stdout.split() == ["3", "0", "0", "2"], how


def test_two_roots_in_one_process_keep_their_devices(open_sdk: Open) -> None:
    wide, narrow = open_sdk("musa", arch="mp_22"), open_sdk("musa", arch="mp_31")
    value = wide.ffi.new("int *")
    assert call(wide, "DeviceGetAttribute", value, 10, 0) == 0
    assert value[0] == 128
    other = narrow.ffi.new("int *")
    assert call(narrow, "DeviceGetAttribute", other, 10, 0) == 0
    assert other[0] == 32


def test_musa_names_are_those_that_a_binary_of_the_real_sdk_imports() -> None:
    """The witness is not ours: what it imports, the libraries export, or say why they do not."""
    table = yaml.safe_load((FOLDER / "musa" / "imports.yaml").read_text(encoding="utf-8"))
    known = abis.load(FOLDER / "musa", "5.2.0")
    names = {one.name for functions in known.functions.values() for one in functions}
    imports = set(table["imports"])
    assert len(imports) > 40
    assert imports - names - set(known.absent) == set()
    assert not set(known.absent) & names
    raw = abis.table(FOLDER / "musa")["functions"]
    marked = {name for rows in raw.values() for name, one in rows.items() if one["source"] == "B"}
    assert marked - imports == set(), "marked as seen in the binary, and it does not import it"
    assert names & imports - marked == set(), "imported by the binary, and not marked so"
    files = {one.file for one in known.libraries}
    assert set(table["needed"]) <= files


def test_hip_names_before_and_since_the_properties_were_renamed(open_sdk: Open) -> None:
    before, since = open_sdk("hip", "5.2.3"), open_sdk("hip", "6.3.0")
    assert "hipGetDevicePropertiesR0600" not in exported(before.root / "lib" / "libamdhip64.so.5")
    assert "hipGetDevicePropertiesR0600" in exported(since.root / "lib" / "libamdhip64.so.6")
    for sdk, wanted in ((before, b"unrecognized error code"), (since, b"hipErrorInvalidChannelDescriptor")):
        assert sdk.ffi.string(sdk.hipGetErrorName(911)) == wanted


def test_a_version_that_is_not_simulated_is_refused() -> None:
    with pytest.raises(ValueError, match=r"4\.0\.0"):
        abis.load(FOLDER / "musa", "4.0.0")

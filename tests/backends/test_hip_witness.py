"""HIP against AMD's own library and headers where they are installed: names, numbers, refusals, run-time compilation.

The library is a witness that is not ours. Without a device it refuses, and that refusal is what is tested.
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

#: Names a root with AMD's library and headers; Debian's libamdhip64-dev puts them in /usr.
ROOT = Path(os.environ.get("TUTTI_TEST_HIP_ROOT", "/usr"))
MULTIARCH = ROOT / "lib" / "x86_64-linux-gnu"


def run(text: str, folder: Path) -> str:
    if not (ROOT / "include" / "hip" / "hip_runtime_api.h").is_file() or not list(MULTIARCH.glob("libamdhip64.so*")):
        pytest.skip(f"no AMD runtime in {ROOT}: apt-get install libamdhip64-dev, or set TUTTI_TEST_HIP_ROOT")
    if Path("/dev/kfd").exists():
        pytest.skip("there is an AMD device: what is refused without one cannot be seen")
    environ = {**os.environ, "ROCM_PATH": str(ROOT), "TUTTI_CACHE_DIR": str(folder / "cache")}
    environ["LD_LIBRARY_PATH"] = f"{MULTIARCH}:{environ.get('LD_LIBRARY_PATH', '')}"
    done = subprocess.run(
        [sys.executable, "-c", text], env=environ, capture_output=True, text=True, timeout=100, check=False
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_it_opens_and_refuses_with_no_device(tmp_path: Path) -> None:
    said = run(
        """
from tutti_hal.errors import WrongDevice
from tutti_hal.profile import resolve
from tutti_hal.shim import Device
profile = resolve("hip:gfx90a")
runtime = profile.backend.runtime().open_runtime(profile)
print("lost", sorted(c for c, true in profile.record.capabilities.items() if true and not runtime.capable(c)))
try:
    Device(profile)
except WrongDevice as error:
    print(error.id, error.code, error.canonical, error.call, error.vendor, "hipErrorNoDevice" in error.found)
""",
        tmp_path,
    )
    assert "TT-RUNTIME-WRONG-DEVICE 100 NoDevice GetDeviceCount hip True" in said


def test_every_number_of_the_record_is_the_headers(tmp_path: Path) -> None:
    """What the headers do not know is said by name: attributes of later versions, flags that are reserved and 0."""
    said = run(
        """
from tutti_hal.profile import resolve
from tutti_hal.sdk import find_root
from tutti_hal.shim.header_numbers import numbers_of, with_header_numbers
profile = resolve("hip:gfx90a")
root = find_root(profile.record)
with_header_numbers(profile.record, root)
told = numbers_of(profile.record, root)
print(len(told), sorted(name for name, number in told.items() if number is None))
""",
        tmp_path,
    )
    count, _, unknown = said.partition(" ")
    assert int(count) > 100
    later = {"attributes.HostRegisterSupported", "attributes.WallClockRate"}
    assert set(eval(unknown)) <= later | {"StreamWriteValue.Default"}


def test_a_number_that_is_wrong_by_one_is_found_by_name(tmp_path: Path) -> None:
    said = run(
        """
from dataclasses import replace
from tutti_hal.errors import NumbersDiffer
from tutti_hal.profile import resolve
from tutti_hal.sdk import find_root
from tutti_hal.shim.header_numbers import with_header_numbers
record = resolve("hip:gfx90a").record
errors = replace(record.errors, values={**record.errors.values, "InvalidValue": 2})
try:
    with_header_numbers(replace(record, errors=errors), find_root(record))
except NumbersDiffer as error:
    print(error)
""",
        tmp_path,
    )
    assert "errors.InvalidValue: the record says 2, hipErrorInvalidValue is 1" in said
    assert "1 differ" in said


def test_the_run_time_compiler_compiles_the_ring(tmp_path: Path) -> None:
    said = run(
        f"""
from dataclasses import replace
from pathlib import Path
from tutti_hal.codegen import render
from tutti_hal.profile import resolve
from tutti_hal.toolchain import toolchain_of
from tutti_hal.toolchain.compiler import compile_unit
profile = resolve("hip:gfx90a")
chain = toolchain_of(profile)
chain.record = replace(profile.record, toolchain=replace(profile.record.toolchain, prefer_rtc=True))
compiler = chain.find()
assert compiler.library is not None
rendered = render(profile.record, "gfx90a", "ring")
module = compile_unit(chain, compiler, profile.record.archs["gfx90a"], rendered, Path({str(tmp_path)!r}))
print(chain.version(compiler), module.read_bytes()[:4])
""",
        tmp_path,
    )
    assert "libamdhip64" in said
    assert r"b'\x7fELF'" in said

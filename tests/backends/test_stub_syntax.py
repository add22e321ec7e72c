"""MUSA and MACA, syntax-only: a C++ compiler reads every kernel against stub headers with the vendor's names alone.

It shows that the rendered text is well-formed and names nothing that the vendor lacks. It shows no instruction.
"""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest

from tutti_hal.codegen import render
from tutti_hal.codegen.sources import kernel_sets
from tutti_hal.paths import package_file, templates_dir
from tutti_hal.record import load_record

STUBS = Path(__file__).parent / "stubs"
#: vendor -> the macro that its compiler sets, archs with different text
VENDORS = {"musa": ("__MUSACC__", ("mp_22", "mp_31")), "maca": ("__MACA__", ("xcore1000",))}
ARCHS = [(vendor, arch) for vendor, (_, archs) in VENDORS.items() for arch in archs]


def read(vendor: str, arch: str, folder: Path, sets: tuple[str, ...], *flags: str) -> subprocess.CompletedProcess[str]:
    compiler = shutil.which("g++")
    if compiler is None:
        pytest.skip("no g++ on this machine")
    units = [render(load_record(package_file("backends", vendor)), arch, name).write(folder, ".cpp") for name in sets]
    command = [compiler, "-std=c++17", "-fsyntax-only", "-Wall", "-Wextra", "-Werror", "-Wno-unused-parameter"]
    command += [
        "-Wno-attributes",
        "-Wno-unused-function",
        f"-D{VENDORS[vendor][0]}=1",
        *flags,
        f"-I{STUBS / vendor}",
        f"-I{folder}",
    ]
    return subprocess.run([*command, *map(str, units)], capture_output=True, text=True, check=False, timeout=110)


@pytest.mark.parametrize(("vendor", "arch"), ARCHS)
def test_every_kernel_is_well_formed(vendor: str, arch: str, tmp_path: Path) -> None:
    sets = kernel_sets(templates_dir())
    assert "ring" in sets
    done = read(vendor, arch, tmp_path, sets)
    assert done.returncode == 0, done.stderr[:3000]


@pytest.mark.parametrize(
    ("vendor", "arch", "other"),
    [("musa", "mp_31", "__MACA__"), ("musa", "mp_31", "__HIP__"), ("maca", "xcore1000", "__MUSACC__")],
)
def test_the_macros_of_two_vendors_are_refused(vendor: str, arch: str, other: str, tmp_path: Path) -> None:
    done = read(vendor, arch, tmp_path, ("saxpy",), f"-D{other}=1")
    assert done.returncode != 0
    assert "macros of two vendors in one translation unit" in done.stderr


def test_what_the_vendor_lacks_is_seen(tmp_path: Path) -> None:
    """The stubs can fail: MUSA has no atomic or, which a lowering that names it would not compile with."""
    source = tmp_path / "lacks.cpp"
    source.write_text(
        "#include <musa_runtime.h>\nunsigned f(unsigned *p) { return atomicOr(p, 1u); }\n", encoding="utf-8"
    )
    compiler = shutil.which("g++") or pytest.skip("no g++ on this machine")
    done = subprocess.run(
        [str(compiler), "-fsyntax-only", f"-I{STUBS / 'musa'}", str(source)],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode != 0
    assert "atomicOr" in done.stderr

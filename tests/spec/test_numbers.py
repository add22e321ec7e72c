"""The numbers of each record against the vendor's own header, asked through a compiler.

The record is what is judged; the header is what judges. A header that is not on this machine is a skip that says so.
"""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from tutti_hal import paths
from tutti_hal.record import Numbers, Record, load_record

CUDA_INCLUDE = Path(os.environ.get("CUDA_HOME", "/usr/local/cuda")) / "include"


def tables(record: Record) -> Iterator[tuple[str, Numbers]]:
    yield "errors", record.errors
    yield "attributes", record.attributes
    yield from record.constants.items()


def assertions(record: Record) -> list[str]:
    return [
        f'static_assert((long long)({table.spelling(name)}) == {value}LL, "{group}.{name}");'
        for group, table in tables(record)
        for name, value in table.values.items()
    ]


def compile_text(text: str, include: Path, folder: Path) -> subprocess.CompletedProcess[str]:
    compiler = shutil.which("g++") or shutil.which("clang++")
    if compiler is None:
        pytest.skip("no C++ compiler on this machine")
    source = folder / "numbers.cpp"
    source.write_text(text, encoding="utf-8")
    command = [compiler, "-std=c++17", "-fsyntax-only", f"-I{include}", str(source)]
    return subprocess.run(command, capture_output=True, text=True, check=False)


def headers(vendor: str) -> tuple[str, Path]:
    if vendor == "host":
        return '#include "tutti/host_runtime.h"\n', paths.include_dir()
    if not (CUDA_INCLUDE / "driver_types.h").exists():
        pytest.skip(f"no CUDA headers in {CUDA_INCLUDE}")
    return "#include <cuda.h>\n#include <cuda_runtime_api.h>\n", CUDA_INCLUDE


@pytest.mark.parametrize("vendor", ["host", "cuda"])
def test_numbers_match_the_header(vendor: str, tmp_path: Path) -> None:
    include, folder = headers(vendor)
    lines = assertions(load_record(paths.package_file("backends", vendor)))
    assert len(lines) > 60
    done = compile_text(include + "\n".join(lines), folder, tmp_path)
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize("vendor", ["host", "cuda"])
def test_a_wrong_number_is_seen(vendor: str, tmp_path: Path) -> None:
    include, folder = headers(vendor)
    lines = assertions(load_record(paths.package_file("backends", vendor)))
    wrong = lines[-1].replace(" == ", " == 1 + ")
    done = compile_text(include + wrong, folder, tmp_path)
    assert done.returncode != 0
    assert "static assertion failed" in done.stderr or "static_assert failed" in done.stderr

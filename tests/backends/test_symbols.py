"""Every host symbol that a record maps is declared by the vendor's own header."""

from __future__ import annotations

import ctypes
from pathlib import Path

import pytest

from tests.spec.test_numbers import compile_text, headers
from tutti_hal import paths
from tutti_hal.record import load_record
from tutti_hal.spec import load_spec


def symbols(vendor: str) -> dict[str, str]:
    record = load_record(paths.package_file("backends", vendor))
    mapped = {name: record.host_api.symbol(name) for name in load_spec().host_functions}
    return {name: symbol for name, symbol in mapped.items() if symbol is not None}


@pytest.mark.parametrize("vendor", ["host", "cuda"])
def test_symbols_are_declared(vendor: str, tmp_path: Path) -> None:
    include, folder = headers(vendor)
    mapped = symbols(vendor)
    assert len(mapped) > 60
    lines = [f'static_assert(sizeof(&::{symbol}) == sizeof(void *), "{name}");' for name, symbol in mapped.items()]
    done = compile_text(include + "\n".join(lines), folder, tmp_path)
    assert done.returncode == 0, done.stderr


def test_a_symbol_that_is_not_there_is_seen(tmp_path: Path) -> None:
    include, folder = headers("host")
    done = compile_text(include + 'static_assert(sizeof(&::ttrtMaloc) == 8, "");', folder, tmp_path)
    assert done.returncode != 0
    assert "ttrtMaloc" in done.stderr


def test_host_symbols_are_exported() -> None:
    library = ctypes.CDLL(str(paths.native_library()))
    missing = [symbol for symbol in symbols("host").values() if not hasattr(library, symbol)]
    assert not missing


@pytest.mark.parametrize("vendor", ["host", "cuda"])
def test_every_error_of_the_contract_has_its_number(vendor: str) -> None:
    record = load_record(paths.package_file("backends", vendor))
    named = {error for function in load_spec().host_functions.values() for error in function.errors}
    assert named
    assert named - set(record.errors.values) == set()

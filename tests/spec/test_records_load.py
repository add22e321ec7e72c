"""Every record of this repository loads, and lowers every primitive that its architectures must have."""

from __future__ import annotations

import pytest

from tutti_hal.paths import package_file
from tutti_hal.record import load_record
from tutti_hal.spec import load_spec


@pytest.mark.parametrize("vendor", ["host", "cuda"])
def test_record_is_whole(vendor: str) -> None:
    record = load_record(package_file("backends", vendor))
    assert record.vendor == vendor
    for arch in record.archs.values():
        assert record.missing(arch) == type(record.missing(arch))((), ())
        for primitive in load_spec().primitives.values():
            text = record.lower(primitive, arch)
            wanted = primitive.capability is None or arch.capabilities[primitive.capability]
            assert (text is not None) == wanted, primitive.id


@pytest.mark.parametrize("vendor", ["cuda", "musa", "maca", "hip"])
def test_a_record_need_not_speak_of_simulation(vendor: str) -> None:
    """It is the HOST engine's; a vendor's files do not know of it, and what they leave unsaid is false."""
    folder = package_file("backends", vendor)
    for path in folder.rglob("*"):
        if path.is_file() and "__pycache__" not in path.parts:
            assert b"sim" not in path.read_bytes().lower(), path
    for arch in load_record(folder).archs.values():
        assert arch.capabilities["engine.simulation"] is False


def test_host_speaks_of_simulation() -> None:
    archs = load_record(package_file("backends", "host")).archs
    assert {name: arch.capabilities["engine.simulation"] for name, arch in archs.items()} == {
        name: name.startswith("sim") for name in archs
    }

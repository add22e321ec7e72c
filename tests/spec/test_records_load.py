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

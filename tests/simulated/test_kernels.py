"""A kernel of the product on each simulated vendor and wave width: record, stand-in, container, the vendor's loader."""

from __future__ import annotations

import numpy as np
import pytest

from tutti_hal.profile import resolve
from tutti_hal.shim import Device, LaunchConfig, launch
from tutti_hal.toolchain import build

PROFILES = {
    "musa-sim:mp_31@5.2.0": 32,
    "musa-sim:mp_22@4.3.3": 128,
    "maca-sim:xcore1000": 64,
    "hip-sim:gfx942": 64,
    "hip-sim:gfx1100": 32,
}


@pytest.mark.slow
@pytest.mark.parametrize("name", PROFILES)
def test_saxpy(name: str) -> None:
    profile = resolve(name)
    built = build(profile, "saxpy")
    count = 3 * PROFILES[name] + 5
    x = np.arange(count, dtype=np.float32)
    y = np.full(count, 0.5, np.float32)
    found = np.zeros(count, np.float32)
    device = Device(profile, 0)
    with (
        device.create_stream() as stream,
        device.load_module(built.path, built.declared) as module,
        device.allocate(x.nbytes) as there,
        device.allocate(y.nbytes) as result,
    ):
        stream.copy(there, x)
        stream.copy(result, y)
        launch(stream, LaunchConfig(2, 64), module["saxpy"], count, np.float32(2.0), there, result)
        stream.copy(found, result)
        stream.synchronize()
    assert np.array_equal(found, 2 * x + y)
    assert profile.record.archs[built.arch].wave_width == PROFILES[name]

"""HIP's wave functions name no lanes: the simulated SDK answers with those that a wave moving together has there."""

from __future__ import annotations

import subprocess
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from tests.simulated.roots import ARCHS, make
from tutti_hal.conformance_tests.simulated.container import unwrap
from tutti_hal.profile import resolve
from tutti_hal.shim import Device, LaunchConfig, launch

ROUNDS = 6
SOURCE = """
#include <hip/hip_runtime.h>

static void come_late(unsigned pauses) {
    for (unsigned i = 0; i < pauses; ++i)
        __builtin_amdgcn_s_sleep(1);
}

// Each round another lane is late; whoever came last goes ahead at once, and the others pause first.
extern "C" __global__ void rounds(unsigned long long *masks, unsigned *next) {
    const unsigned lane = threadIdx.x % warpSize;
    for (unsigned round = 0; round < 6; ++round) {
        const bool last = lane == 5 * round;
        come_late(last ? 8 : lane % 3);
        masks[round * blockDim.x + threadIdx.x] = __ballot(lane % 3 == round % 3);
        come_late(last ? 0 : 1);
        next[round * blockDim.x + threadIdx.x] = __shfl(lane * 100 + round, (lane + 1) % warpSize);
    }
}

// A few are in a branch, late; all meet behind it.
extern "C" __global__ void branch(unsigned long long *inside, unsigned long long *behind) {
    const unsigned lane = threadIdx.x % warpSize;
    if (lane % 4 == 1) {
        come_late(lane % 3 + 3);
        inside[threadIdx.x] = __activemask();
        come_late(2);
    }
    behind[threadIdx.x] = __activemask();
}

// Each leaves the loop after its own number of rounds; all meet behind it.
extern "C" __global__ void loop(unsigned long long *inside, unsigned long long *behind) {
    const unsigned lane = threadIdx.x % warpSize;
    for (unsigned round = 0; round <= lane % 6; ++round) {
        inside[round * blockDim.x + threadIdx.x] = __activemask();
        come_late(lane % 2 * 3);
    }
    behind[threadIdx.x] = __activemask();
}
"""

Run = Callable[..., list[np.ndarray[Any, Any]]]


@pytest.fixture(scope="module", params=["gfx942", "gfx1100"])
def width(request: pytest.FixtureRequest) -> int:
    return ARCHS["hip"][request.param]


@pytest.fixture(scope="module")
def run(width: int, tmp_path_factory: pytest.TempPathFactory) -> Run:
    """Compiles the source once for a width; runs a kernel on one block of two waves."""
    folder = tmp_path_factory.mktemp("together")
    arch = next(name for name, lanes in ARCHS["hip"].items() if lanes == width)
    root = make("hip", arch, "6.3.0", folder / "root")
    source, packed, module = folder / "unit.hip", folder / "packed", folder / "module.so"
    source.write_text(SOURCE, encoding="utf-8")
    words = [root / "llvm" / "bin" / "clang++", "-x", "hip", f"--offload-arch={arch}", "--cuda-device-only"]
    done = subprocess.run(
        [*map(str, words), str(source), "-o", str(packed)], capture_output=True, text=True, timeout=100, check=False
    )
    assert done.returncode == 0, done.stderr
    module.write_bytes(unwrap(packed.read_bytes())[2])

    def run(kernel: str, *arrays: np.ndarray[Any, Any]) -> list[np.ndarray[Any, Any]]:
        device = Device(resolve(f"host:threads-w{width}"), 0)
        found = [array.copy() for array in arrays]
        with device.create_stream() as stream, device.load_module(module) as loaded:
            there = [device.allocate(array.nbytes) for array in arrays]
            for buffer, array in zip(there, arrays, strict=True):
                stream.copy(buffer, array)
            launch(stream, LaunchConfig(1, 2 * width), loaded[kernel], *there)
            for buffer, array in zip(there, found, strict=True):
                stream.copy(array, buffer)
            stream.synchronize()
            for buffer in there:
                buffer.close()
        return found

    return run


def _mask(width: int, holds: Callable[[int], bool]) -> int:
    return sum(1 << lane for lane in range(width) if holds(lane))


def test_a_lane_that_still_pauses_is_waited_for(run: Run, width: int) -> None:
    lanes = np.arange(2 * width) % width
    masks, following = run("rounds", np.zeros((ROUNDS, 2 * width), np.uint64), np.zeros((ROUNDS, 2 * width), np.uint32))
    for round_ in range(ROUNDS):
        assert set(masks[round_].tolist()) == {_mask(width, lambda lane, r=round_: lane % 3 == r % 3)}
        assert following[round_].tolist() == ((lanes + 1) % width * 100 + round_).tolist()


def test_lanes_meet_behind_a_branch(run: Run, width: int) -> None:
    inside, behind = run("branch", np.zeros(2 * width, np.uint64), np.zeros(2 * width, np.uint64))
    few = _mask(width, lambda lane: lane % 4 == 1)
    assert inside.tolist() == [few if thread % 4 == 1 else 0 for thread in range(2 * width)]
    assert set(behind.tolist()) == {(1 << width) - 1}


def test_lanes_meet_behind_a_loop(run: Run, width: int) -> None:
    inside, behind = run("loop", np.zeros((6, 2 * width), np.uint64), np.zeros(2 * width, np.uint64))
    for round_ in range(6):
        still = _mask(width, lambda lane, r=round_: r <= lane % 6)
        wanted = [still if round_ <= thread % width % 6 else 0 for thread in range(2 * width)]
        assert inside[round_].tolist() == wanted
    assert set(behind.tolist()) == {(1 << width) - 1}

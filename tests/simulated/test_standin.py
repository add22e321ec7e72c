"""The compiler stand-ins: macros, refusals, and a kernel of each vendor and wave width run by the HOST engine."""

from __future__ import annotations

import re
import subprocess
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from tests.simulated.roots import ARCHS, make
from tutti_hal.conformance_tests.simulated.container import unwrap
from tutti_hal.errors import TuttiError
from tutti_hal.profile import resolve
from tutti_hal.shim import Device, LaunchConfig, launch

Compile = Callable[..., subprocess.CompletedProcess[str]]

#: vendor -> driver below the root, suffix, header, language flags, device pass.
DRIVERS = {
    "musa": ("bin/mcc", ".mu", "musa_runtime.h", ("-x", "musa"), "--cuda-device-only"),
    "maca": ("mxgpu_llvm/bin/mxcc", ".maca", "mc_runtime.h", ("-x", "maca"), "--offload-device-only"),
    "hip": ("bin/hipcc", ".hip", "hip/hip_runtime.h", ("-x", "hip"), "--genco"),
}


@pytest.fixture(scope="module")
def roots(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str, str], Path]:
    made: dict[tuple[str, str], Path] = {}

    def root(vendor: str, sdk: str) -> Path:
        key = (vendor, sdk)
        if key not in made:
            made[key] = make(vendor, next(iter(ARCHS[vendor])), sdk, tmp_path_factory.mktemp(vendor))
        return made[key]

    return root


@pytest.fixture
def compiled(
    roots: Callable[[str, str], Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Callable[..., subprocess.CompletedProcess[str]]:
    monkeypatch.setenv("HIP_PLATFORM", "amd")

    def run(
        vendor: str,
        arch: str,
        body: str,
        *more: str,
        sdk: str = "5.2.0",
        driver: str = "",
        language: bool = True,
        include: bool = True,
    ) -> subprocess.CompletedProcess[str]:
        path, suffix, header, flags, device = DRIVERS[vendor]
        source = tmp_path / f"unit{suffix if language else '.cu'}"
        source.write_text((f"#include <{header}>\n" if include else "") + body, encoding="utf-8")
        words = [str(roots(vendor, sdk) / (driver or path)), *(flags if language else ()), f"--offload-arch={arch}"]
        words += [device, "-O2", "-Wall", "-Wextra", "-Werror", *more, str(source), "-o", str(tmp_path / "module")]
        return subprocess.run(words, capture_output=True, text=True, timeout=100, check=False)

    return run


def kernel(body: str) -> str:
    return f'extern "C" __global__ void one(unsigned *out) {{ {body} }}\n'


def test_a_kernel_becomes_a_container(compiled: Compile, tmp_path: Path) -> None:
    done = compiled("musa", "mp_31", kernel("out[0] = 1;"))
    assert done.returncode == 0, done.stderr
    vendor, arch, payload = unwrap((tmp_path / "module").read_bytes())
    assert (vendor, arch, payload[:4]) == ("musa", "mp_31", b"\x7fELF")


# ---- macros ----

MACROS = {
    "musa": ("mp_31", "", {"__MUSACC__": "1", "__MCC__": "1", "__MUSA_ARCH__": "310"}),
    "musa 22": ("mp_22", "", {"__MUSA_ARCH__": "220"}),
    "maca": ("xcore1000", "", {"__MACA__": "1", "__MACACC__": "1", "__MACA_ARCH__": "1000", "__CUDA_ARCH__": None}),
    "maca bridge": (
        "xcore1000",
        "tools/cu-bridge/bin/cucc",
        {"__MACA__": "1", "__CUDACC__": "1", "__NVCC__": "1", "__CUDA_ARCH__": "800", "__MACA_ARCH__": "1000"},
    ),
    "hip": (
        "gfx1100",
        "",
        {
            "__HIP__": "1",
            "__HIPCC__": "1",
            "__HIP_DEVICE_COMPILE__": "1",
            "__gfx1100__": "1",
            "__AMDGCN_WAVEFRONT_SIZE": "32",
            "__CUDACC__": None,
        },
    ),
}


def macros_of(done: subprocess.CompletedProcess[str], output: Path) -> dict[str, str]:
    assert done.returncode == 0, done.stderr
    return dict(re.findall(r"^#define (\w+) (.*)$", output.read_text(encoding="utf-8"), re.MULTILINE))


@pytest.mark.parametrize("what", MACROS)
def test_macros_of_the_device_pass(what: str, compiled: Compile, tmp_path: Path) -> None:
    arch, driver, wanted = MACROS[what]
    done = compiled(what.split()[0], arch, "", "-E", "-dM", driver=driver, include=False)
    found = macros_of(done, tmp_path / "module")
    assert {name: found.get(name) for name in wanted} == wanted


@pytest.mark.parametrize(
    ("vendor", "arch", "here", "gone"),
    [
        ("musa", "mp_31", {"__MUSACC__": "1"}, "__MUSA_ARCH__"),
        ("maca", "xcore1000", {"__MACA__": "1", "__MACACC__": "1"}, "__MACA_ARCH__"),
        # 64 in the host pass, whatever the device: never to be trusted there.
        ("hip", "gfx1100", {"__HIP__": "1", "__AMDGCN_WAVEFRONT_SIZE": "64"}, "__HIP_DEVICE_COMPILE__"),
    ],
)
def test_macros_of_the_host_pass(
    vendor: str, arch: str, here: dict[str, str], gone: str, compiled: Compile, tmp_path: Path
) -> None:
    done = compiled(vendor, arch, "", "--offload-host-only", "-E", "-dM", include=False)
    found = macros_of(done, tmp_path / "module")
    assert {name: found.get(name) for name in here} == here
    assert gone not in found


# ---- refusals ----

MASKS = "out[0] = {};".format
REFUSALS = {
    "volatile vector copy": (
        "musa",
        "mp_31",
        "5.2.0",
        "volatile int4 *p = (volatile int4 *)out; int4 v = *p; out[0] = v.x;",
        "volatile",
    ),
    "volatile vector store": (
        "musa",
        "mp_31",
        "5.2.0",
        "volatile int4 *p = (volatile int4 *)out; *p = int4{1, 2, 3, 4};",
        "volatile",
    ),
    "system add at 4.3.3": ("musa", "mp_31", "4.3.3", "atomicAdd_system(out, 1u);", "does not end on this call"),
    "system cas at 4.3.3": ("musa", "mp_31", "4.3.3", "atomicCAS_system(out, 1u, 2u);", "does not end on this call"),
    "active mask at 4.3.3": ("musa", "mp_31", "4.3.3", "out[0] = __activemask();", "__activemask"),
    "read-only load": ("musa", "mp_31", "5.2.0", "out[0] = __ldg(out + 1);", "__ldg"),
    "byte permutation": ("musa", "mp_31", "5.2.0", "out[0] = __byte_perm(1u, 2u, 3u);", "__byte_perm"),
    "shuffle without a mask": ("musa", "mp_31", "5.2.0", "out[0] = __shfl(out[1], 0);", "__shfl"),
    "sleep": ("musa", "mp_31", "5.2.0", "__nanosleep(20);", "__nanosleep"),
    "another vendor's assembly": (
        "musa",
        "mp_31",
        "5.2.0",
        'asm volatile("membar.sys;" ::: "memory");',
        "inline assembly",
    ),
    "ballot of a wide wave": ("musa", "mp_22", "5.2.0", MASKS("__ballot_sync(0xffffffffu, 1)"), "cannot describe"),
    "shuffle of a wide wave": ("musa", "mp_21", "5.2.0", MASKS("__shfl_sync(0xffffffffu, 1u, 0)"), "cannot describe"),
    "active mask of a wide wave": ("musa", "mp_22", "5.2.0", MASKS("__activemask()"), "__activemask"),
    "assembly": ("maca", "xcore1000", "3.5.3", 'asm volatile("membar.sys;" ::: "memory");', "inline assembly"),
    "byte permutation of MACA": ("maca", "xcore1000", "3.5.3", "out[0] = __byte_perm(1u, 2u, 3u);", "__byte_perm"),
    "sleep of MACA": ("maca", "xcore1000", "3.5.3", "__nanosleep(20);", "__nanosleep"),
    "system add of MACA": ("maca", "xcore1000", "3.5.3", "atomicAdd_system(out, 1u);", "atomicAdd_system"),
    "sync functions without the switch": ("hip", "gfx942", "6.3.0", "__syncwarp();", "__syncwarp"),
    "assembly of HIP": ("hip", "gfx942", "6.3.0", 'asm volatile("membar.sys;");', "does not know the instruction"),
    "a fence without a scope": (
        "hip",
        "gfx942",
        "6.3.0",
        '__builtin_amdgcn_fence(__ATOMIC_SEQ_CST, "device");',
        "scope",
    ),
    "an atomic without a scope": (
        "hip",
        "gfx942",
        "6.3.0",
        "__hip_atomic_store(out, 1u, __ATOMIC_RELEASE, 9);",
        "scope",
    ),
    "a ballot of the other width": (
        "hip",
        "gfx942",
        "6.3.0",
        "out[0] = __builtin_amdgcn_ballot_w32(true);",
        "ballot_w32",
    ),
}


@pytest.mark.parametrize("what", REFUSALS)
def test_a_refusal(what: str, compiled: Compile) -> None:
    vendor, arch, sdk, body, said = REFUSALS[what]
    done = compiled(vendor, arch, kernel(body), sdk=sdk)
    assert done.returncode == 1
    assert said in done.stderr
    assert "error" in done.stderr


#: The nearest thing that is taken: each refusal is of what it says, and of nothing else.
TAKEN = {
    "field by field": ("musa", "mp_31", "5.2.0", "volatile int4 *p = (volatile int4 *)out; out[1] = p->x + p->w;"),
    "the vendor's own vector load": (
        "musa",
        "mp_31",
        "5.2.0",
        "int4 v = volatile_load((volatile int4 *)out); volatile_store(v, (volatile int4 *)out);",
    ),
    "system add later": ("musa", "mp_31", "5.2.0", "atomicAdd_system(out, 1u);"),
    "plain add and a fence at 4.3.3": ("musa", "mp_31", "4.3.3", "atomicAdd(out, 1u); __threadfence_system();"),
    "a name in a text": ("musa", "mp_31", "4.3.3", 'printf("atomic add system %u", out[0]);'),
    "sync of a wide wave": ("musa", "mp_22", "4.3.3", "__syncwarp(); out[0] = warpSize;"),
    "ballot of 64 lanes": ("maca", "xcore1000", "3.5.3", "out[0] = (unsigned)__ballot_sync(~0ull, 1);"),
    "waiting": ("hip", "gfx942", "6.3.0", 'asm volatile("s_waitcnt vmcnt(0)" ::: "memory"); out[0] = 1;'),
}


@pytest.mark.parametrize("what", TAKEN)
def test_what_is_taken(what: str, compiled: Compile) -> None:
    vendor, arch, sdk, body = TAKEN[what]
    done = compiled(vendor, arch, kernel(body), sdk=sdk)
    assert done.returncode == 0, done.stderr


def test_an_arch_of_the_vendor_wants_its_language(compiled: Compile) -> None:
    done = compiled("musa", "mp_31", kernel("out[0] = 1;"), language=False)
    assert (done.returncode, done.stderr) == (1, "mcc: error: unsupported CUDA gpu architecture: mp_31\n")


@pytest.mark.parametrize(("vendor", "arch"), [("musa", "mp_99"), ("maca", "sm_80"), ("hip", "gfx000")])
def test_an_unknown_arch(vendor: str, arch: str, compiled: Compile) -> None:
    done = compiled(vendor, arch, kernel("out[0] = 1;"))
    assert done.returncode == 1
    assert f"unknown arch '{arch}'" in done.stderr


def test_an_unknown_option(compiled: Compile) -> None:
    done = compiled("musa", "mp_31", kernel("out[0] = 1;"), "-gencode=arch=compute_90")
    assert done.returncode == 1 or "unknown argument" in done.stderr
    done = compiled("maca", "xcore1000", kernel("out[0] = 1;"), "--maxrregcount=32")
    assert (done.returncode, done.stderr) == (1, "mxcc: error: unknown argument: '--maxrregcount=32'\n")


def test_a_header_of_another_vendor(compiled: Compile) -> None:
    done = compiled("musa", "mp_31", '#include <cuda_runtime.h>\nextern "C" __global__ void k() {}', include=False)
    assert done.returncode == 1
    assert "cuda_runtime.h" in done.stderr


def test_a_keyword_without_the_header(compiled: Compile) -> None:
    done = compiled("hip", "gfx942", kernel("out[0] = 1;"), include=False)
    assert done.returncode == 1


def test_hipcc_takes_another_compiler_where_it_finds_one(
    compiled: Compile, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    other = tmp_path / "bin" / "nvcc"
    other.parent.mkdir()
    other.write_text("#!/bin/sh\n")
    other.chmod(0o755)
    monkeypatch.setenv("PATH", str(other.parent), prepend=":")
    assert compiled("hip", "gfx942", kernel("out[0] = 1;")).returncode == 0
    monkeypatch.delenv("HIP_PLATFORM")
    done = compiled("hip", "gfx942", kernel("out[0] = 1;"))
    assert done.returncode == 1
    assert "HIP_PLATFORM" in done.stderr


def test_versions(roots: Callable[[str, str], Path]) -> None:
    for vendor, sdk, said in (
        ("musa", "4.3.3", "mcc version 4.3.3"),
        ("maca", "3.5.3", "3.5.3"),
        ("hip", "6.3.0", "6.3.0"),
    ):
        driver = roots(vendor, sdk) / DRIVERS[vendor][0]
        done = subprocess.run([driver, "--version"], capture_output=True, text=True, timeout=60, check=True)
        assert said in done.stdout


# ---- kernels that run ----

HELLO = """
extern "C" __global__ void __launch_bounds__(256) hello(unsigned *out, unsigned long long n, float scale) {
    __shared__ unsigned turned[256];
    __shared__ unsigned one;
    if (threadIdx.x == 0) one = gridDim.x;
    turned[blockDim.x - 1 - threadIdx.x] = threadIdx.x;
    __syncthreads();
    %s
    out[blockIdx.x * blockDim.x + threadIdx.x] = turned[threadIdx.x] + one + (unsigned)n + (unsigned)scale + wave;
    __threadfence_system();
    atomicAdd(out + 512, 1u);
}
"""
SYNC = (
    "const unsigned wave = %s(__ballot_sync({0}, threadIdx.x %% 2)) + __shfl_sync({0}, threadIdx.x %% warpSize, 3)"
    " + __shfl_xor_sync({0}, threadIdx.x, 1) - threadIdx.x; __syncwarp();"
)
HIP_WAVE = (
    "const unsigned wave = __popcll(__ballot(threadIdx.x % 2)) + __shfl(threadIdx.x % warpSize, 3)"
    " + __shfl_xor(threadIdx.x, 1) - threadIdx.x;"
)
HELLOS = {
    ("musa", "mp_31", "5.2.0"): SYNC.format("0xffffffffu") % "__popc",
    ("musa", "mp_22", "4.3.3"): "const unsigned wave = warpSize; __syncwarp();",
    ("maca", "xcore1000", "3.5.3"): SYNC.format("~0ull") % "__popcll",
    ("hip", "gfx942", "6.3.0"): HIP_WAVE,
    ("hip", "gfx1100", "6.3.0"): HIP_WAVE,
}


@pytest.mark.parametrize(("vendor", "arch", "sdk"), HELLOS, ids=lambda one: one)
def test_a_kernel_runs(vendor: str, arch: str, sdk: str, compiled: Compile, tmp_path: Path) -> None:
    done = compiled(vendor, arch, HELLO % HELLOS[vendor, arch, sdk], sdk=sdk)
    assert done.returncode == 0, done.stderr
    width = ARCHS[vendor][arch]
    module = tmp_path / "payload.so"
    module.write_bytes(unwrap((tmp_path / "module").read_bytes())[2])
    threads = np.arange(256, dtype=np.uint32)
    if width <= 64:
        wave = width // 2 + 3 + (threads ^ 1) - threads
    else:
        wave = np.full(256, 128, np.uint32)
    found = np.zeros(513, np.uint32)
    device = Device(resolve(f"host:threads-w{width}"), 0)
    with device.create_stream() as stream, device.load_module(module) as loaded, device.allocate(513 * 4) as out:
        stream.fill(out, 0)
        with pytest.raises(TuttiError):
            launch(stream, LaunchConfig((1, 1, 1), (257, 1, 1)), loaded["hello"], out, 5, 7.5)
        launch(stream, LaunchConfig((2, 1, 1), (256, 1, 1)), loaded["hello"], out, 5, 7.5)
        stream.copy(found, out)
        stream.synchronize()
    assert found[512] == 512
    assert np.array_equal(found[:256], (255 - threads) + 2 + 5 + 7 + wave.astype(np.uint32))
    assert np.array_equal(found[256:512], found[:256])

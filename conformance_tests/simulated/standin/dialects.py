"""What each vendor's compiler is called with, what it defines, and what it refuses. Transcribed from public sources.

MUSA: the vendor's tutorials and CMake modules (flags), Mooncake's and MT-DeepEP's sources (macros, defects of 4.3.3),
the port of XLA (``--musa-device-only``). MACA: maca-samples, the ports of TVM and TileLang (``-device-obj`` makes an
mcbin), the notes on cu-bridge (macros, ``__CUDA_ARCH__``). HIP: clang and hipcc themselves.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field


@dataclass(frozen=True)
class Refusal:
    """What a compiler does not take.

    Attributes:
        pattern: of the source after preprocessing, in the caller's own files.
        why: what it says.
        before: versions of the SDK before this one; empty for all.
    """

    pattern: re.Pattern[str]
    why: str
    before: tuple[int, ...] = ()

    def applies(self, sdk: tuple[int, ...]) -> bool:
        """Whether it holds for a version."""
        return not self.before or sdk < self.before


@dataclass(frozen=True)
class Dialect:
    """One compiler driver.

    Attributes:
        vendor: the vendor.
        driver: what the driver is called.
        languages: words after ``-x`` that mean the vendor's language.
        suffixes: of files that are in the vendor's language by themselves.
        foreign: what the driver says of an arch without the language; ``{arch}`` is the arch.
        arch_flags: options that name the arch.
        root_flags: options that name the SDK root.
        device_only: options that ask for the device pass alone, beside clang's own.
        taken: further options that are taken and mean nothing here, as patterns.
        both: macros of both passes; ``{arch}`` and ``{number}`` (digits of the arch) are replaced, as below.
        device: macros of the device pass.
        host: macros of the host pass.
        number: how the digits of an arch become its number: a factor.
        clock_khz: of ``clock64``.
        version: what ``--version`` prints; ``{sdk}`` is the SDK's version.
        refusals: what it does not take.
        prelude: headers that the compiler knows by itself.
        assembly: instructions in ``asm`` that are taken, as fences; None where no ``asm`` is.
        platform: variable that must be set where another vendor's compiler is on PATH, and that compiler.
    """

    vendor: str
    driver: str
    languages: tuple[str, ...]
    suffixes: tuple[str, ...]
    foreign: str
    arch_flags: tuple[str, ...]
    root_flags: tuple[str, ...]
    both: Mapping[str, str]
    device: Mapping[str, str]
    clock_khz: int
    version: str
    device_only: tuple[str, ...] = ()
    host: Mapping[str, str] = field(default_factory=dict)
    number: int = 1
    taken: tuple[str, ...] = ()
    refusals: tuple[Refusal, ...] = ()
    prelude: tuple[str, ...] = ()
    assembly: re.Pattern[str] | None = None
    platform: tuple[str, str] = ("", "")


def _refuse(pattern: str, why: str, before: tuple[int, ...] = ()) -> Refusal:
    return Refusal(re.compile(pattern), why, before)


_NO_PTX = _refuse(r"\b(__asm__|asm)\b", "inline assembly of another vendor is not supported")

MUSA = Dialect(
    vendor="musa",
    driver="mcc",
    languages=("musa",),
    suffixes=(".mu",),
    foreign="unsupported CUDA gpu architecture: {arch}",
    arch_flags=("--offload-arch", "--cuda-gpu-arch"),
    root_flags=("--musa-path",),
    device_only=("--musa-device-only",),
    taken=(r"-fgpu-rdc", r"-rdc=true", r"-mtgpu", r"-lmusart", r"-lmusa"),
    both={"__MUSACC__": "1", "__MCC__": "1"},
    device={"__MUSA_ARCH__": "{number}"},
    number=10,
    clock_khz=1_000_000,
    version="clang version 14.0.0 (mtcc, simulated) mcc version {sdk}",
    refusals=(
        _NO_PTX,
        _refuse(
            r"\batomic(Add|CAS)_system\b",
            "the compiler of SDK 4.3.3 does not end on this call (endless loop while it selects instructions)",
            (5,),
        ),
    ),
)

MACA = Dialect(
    vendor="maca",
    driver="mxcc",
    languages=("maca",),
    suffixes=(".maca",),
    foreign="unknown target {arch}: the language is not maca",
    arch_flags=("--offload-arch", "-offload-arch"),
    root_flags=("--maca-path", "-maca-path"),
    # An object of the device is an mcbin, which the runtime loads; so is an mcfatbin.
    device_only=("-maca-device-only", "--maca-device-only", "-device-obj", "-fatbin"),
    taken=(r"-fgpu-rdc", r"--?maca-link", r"-lmcruntime", r"-lineinfo", r"--?resource-usage", r"-use-fast-math"),
    both={"__MACA__": "1", "__MACACC__": "1"},
    device={"__MACA_ARCH__": "{number}"},
    clock_khz=1_600_000,
    version="mxcc version {sdk} (simulated)",
    refusals=(_NO_PTX,),
)

#: cu-bridge's wrapper of mxcc: sources that say CUDA, with CUDA's macros, and an arch that is always 800.
CU_BRIDGE = Dialect(
    vendor="maca",
    driver="cucc",
    languages=("maca", "cuda"),
    suffixes=(".maca", ".cu"),
    foreign="unknown target {arch}: the language is not maca",
    arch_flags=MACA.arch_flags,
    root_flags=MACA.root_flags,
    device_only=MACA.device_only,
    taken=(*MACA.taken, r"-gencode.*", r"arch=compute_\d+,code=sm_\d+", r"-lcudart"),
    both={**MACA.both, "__CUDACC__": "1", "__NVCC__": "1", "__CUDA_TO_MACA_ADAPTOR_H__": "1"},
    device={**MACA.device, "__CUDA_ARCH__": "800"},
    clock_khz=MACA.clock_khz,
    version=MACA.version,
    refusals=MACA.refusals,
)

HIP = Dialect(
    vendor="hip",
    driver="hipcc",
    languages=("hip",),
    suffixes=(".hip", ".cu", ".cpp"),
    foreign="",
    arch_flags=("--offload-arch",),
    root_flags=("--rocm-path", "--hip-path"),
    device_only=("--genco",),
    taken=(
        r"--no-gpu-bundle-output",
        r"-no-hip-rt",
        r"-nogpulib",
        r"-nogpuinc",
        r"-fgpu-rdc",
        r"--hip-link",
        r"--rocm-device-lib-path=.*",
        r"-mcode-object-version=\d",
        r"-fuse-ld=.*",
        r"-Rpass-analysis=.*",
    ),
    both={
        "__HIP__": "1",
        "__HIPCC__": "1",
        "__clang_major__": "18",
        "__AMDGCN_WAVEFRONT_SIZE": "64",
        "__AMDGCN_WAVEFRONT_SIZE__": "64",
    },
    device={
        "__HIP_DEVICE_COMPILE__": "1",
        "__AMDGCN__": "1",
        "__AMDGPU__": "1",
        "__{arch}__": "1",
        "__AMDGCN_WAVEFRONT_SIZE": "{wave}",
        "__AMDGCN_WAVEFRONT_SIZE__": "{wave}",
    },
    clock_khz=1_700_000,
    version="HIP version: {sdk}\nAMD clang version 18.0.0 (simulated)",
    prelude=("sim_amdgcn.h",),
    assembly=re.compile(r"^(s_waitcnt\w*\s[^%]*|buffer_(wb|inv|gl)\w*[^%]*|s_nop\s[^%]*|s_sleep\s[^%]*|;[^%\n]*|)$"),
    platform=("HIP_PLATFORM", "nvcc"),
)

#: clang itself: the language has to be said, and no other vendor is in its way.
CLANG_HIP = Dialect(
    vendor="hip",
    driver="clang++",
    languages=HIP.languages,
    suffixes=(".hip",),
    foreign="unsupported option '--offload-arch={arch}' for the language of the input",
    arch_flags=HIP.arch_flags,
    root_flags=HIP.root_flags,
    taken=HIP.taken,
    both={name: value for name, value in HIP.both.items() if name != "__HIPCC__"},
    device=HIP.device,
    clock_khz=HIP.clock_khz,
    version="AMD clang version 18.0.0 (simulated, ROCm {sdk})",
    prelude=HIP.prelude,
    assembly=HIP.assembly,
)

#: Driver -> its dialect.
DIALECTS = {one.driver: one for one in (MUSA, MACA, CU_BRIDGE, HIP, CLANG_HIP)}

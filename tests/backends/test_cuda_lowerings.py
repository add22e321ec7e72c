"""Every CUDA lowering compiles for every arch, and says what the PTX memory model needs of it.

The expected instructions are written down here from the contract of each primitive and the PTX ISA, apart from the
record that is judged.
"""

from __future__ import annotations

import re
import shutil
import subprocess
from pathlib import Path

import pytest

from tutti_hal.paths import package_file
from tutti_hal.record import Record, load_record
from tutti_hal.spec import Primitive, load_spec

#: What each primitive must become, as one regular expression over its PTX function; \\b-free, whitespace is collapsed.
EXPECTED: dict[str, str] = {
    "geometry.thread.x": r"%tid\.x",
    "geometry.thread.y": r"%tid\.y",
    "geometry.thread.z": r"%tid\.z",
    "geometry.block.x": r"%ctaid\.x",
    "geometry.block.y": r"%ctaid\.y",
    "geometry.block.z": r"%ctaid\.z",
    "geometry.block_size.x": r"%ntid\.x",
    "geometry.block_size.y": r"%ntid\.y",
    "geometry.block_size.z": r"%ntid\.z",
    "geometry.grid_size.x": r"%nctaid\.x",
    "geometry.grid_size.y": r"%nctaid\.y",
    "geometry.grid_size.z": r"%nctaid\.z",
    "geometry.lane": r"%laneid",
    "wave.sync": r"bar\.warp\.sync (-1|0xffffffff);",
    "wave.active": r"activemask\.b32",
    "wave.ballot": r"vote\.sync\.ballot\.b32",
    "wave.shuffle.u32": r"shfl\.sync\.idx\.b32",
    "wave.shuffle.u64": r"shfl\.sync\.idx\.b32.*shfl\.sync\.idx\.b32",
    "wave.sync_mask": r"bar\.warp\.sync %r",
    "wave.mask_popcount": r"popc\.b32",
    "barrier.block": r"(bar|barrier)\.sync",
    "fence.block": r"fence\.sc\.cta;",
    "fence.device": r"fence\.sc\.gpu;",
    "fence.system": r"fence\.sc\.sys;",
    "load.relaxed.device.u32": r"ld\.relaxed\.gpu\.u32 ",
    "load.relaxed.device.u64": r"ld\.relaxed\.gpu\.u64 ",
    "load.relaxed.system.u32": r"ld\.relaxed\.sys\.u32 ",
    "load.relaxed.system.u64": r"ld\.relaxed\.sys\.u64 ",
    "load.acquire.device.u32": r"ld\.acquire\.gpu\.u32 ",
    "load.acquire.device.u64": r"ld\.acquire\.gpu\.u64 ",
    "load.acquire.system.u32": r"ld\.acquire\.sys\.u32 ",
    "load.acquire.system.u64": r"ld\.acquire\.sys\.u64 ",
    "store.relaxed.device.u32": r"st\.relaxed\.gpu\.u32 ",
    "store.relaxed.device.u64": r"st\.relaxed\.gpu\.u64 ",
    "store.relaxed.system.u32": r"st\.relaxed\.sys\.u32 ",
    "store.relaxed.system.u64": r"st\.relaxed\.sys\.u64 ",
    "store.release.device.u32": r"st\.release\.gpu\.u32 ",
    "store.release.device.u64": r"st\.release\.gpu\.u64 ",
    "store.release.system.u32": r"st\.release\.sys\.u32 ",
    "store.release.system.u64": r"st\.release\.sys\.u64 ",
    "load.vector.relaxed.device.u32x4": r"ld\.relaxed\.gpu\.v4\.u32 ",
    "load.vector.relaxed.system.u32x4": r"ld\.relaxed\.sys\.v4\.u32 ",
    "store.vector.relaxed.device.u32x4": r"st\.relaxed\.gpu\.v4\.u32 ",
    "store.vector.relaxed.system.u32x4": r"st\.relaxed\.sys\.v4\.u32 ",
    "atomic.add.device.u32": r"atom\.relaxed\.gpu\.add\.u32 ",
    "atomic.add.device.u64": r"atom\.relaxed\.gpu\.add\.u64 ",
    "atomic.add.system.u32": r"atom\.relaxed\.sys\.add\.u32 ",
    "atomic.add.system.u64": r"atom\.relaxed\.sys\.add\.u64 ",
    "atomic.exchange.device.u32": r"atom\.relaxed\.gpu\.exch\.b32 ",
    "atomic.exchange.device.u64": r"atom\.relaxed\.gpu\.exch\.b64 ",
    "atomic.exchange.system.u32": r"atom\.relaxed\.sys\.exch\.b32 ",
    "atomic.exchange.system.u64": r"atom\.relaxed\.sys\.exch\.b64 ",
    "atomic.or.device.u32": r"atom\.relaxed\.gpu\.or\.b32 ",
    "atomic.or.device.u64": r"atom\.relaxed\.gpu\.or\.b64 ",
    "atomic.or.system.u32": r"atom\.relaxed\.sys\.or\.b32 ",
    "atomic.or.system.u64": r"atom\.relaxed\.sys\.or\.b64 ",
    "atomic.cas.device.u32": r"atom\.relaxed\.gpu\.cas\.b32 ",
    "atomic.cas.device.u64": r"atom\.relaxed\.gpu\.cas\.b64 ",
    "atomic.cas.system.u32": r"atom\.relaxed\.sys\.cas\.b32 ",
    "atomic.cas.system.u64": r"atom\.relaxed\.sys\.cas\.b64 ",
    "mmio.store.u32": r"st\.mmio\.relaxed\.sys\.global\.u32 ",
    "mmio.load.u32": r"ld\.mmio\.relaxed\.sys\.global\.u32 ",
    "time.clock": r"%globaltimer",
    "time.sleep": r"nanosleep\.u32 %r",
    "time.pause": r"nanosleep\.u32",
    "control.trap": r"trap;",
}

#: Arithmetic, which has no one instruction to look for: it is checked by what it computes.
COMPUTED = {"wave.mask_first", "wave.mask_below", "wave.elect", "crc32c.u32", "crc32c.u64"}

_PLAIN = {
    "tt_word32 *": "uint32_t *",
    "tt_word64 *": "uint64_t *",
    "tt_quad *": "uint32_t *",
    "tt_mmio32 *": "uint32_t *",
}


def find_nvcc() -> str:
    found = shutil.which("nvcc") or "/usr/local/cuda/bin/nvcc"
    if not Path(found).exists():
        pytest.skip("nvcc is not on this machine: CUDA lowerings cannot be compiled here")
    return found


@pytest.fixture(scope="module")
def nvcc() -> str:
    return find_nvcc()


@pytest.fixture(scope="module")
def record() -> Record:
    return load_record(package_file("backends", "cuda"))


def unit(record: Record, arch: str) -> str:
    """One device function for each primitive, and one kernel each that calls it with opaque arguments."""
    lines = ["#include <cstdint>", "#include <cstdio>", "typedef uint32_t tt_mask;"]
    lines.append("struct tt_u32x4 { uint32_t x, y, z, w; };")
    for primitive in functions():
        text = record.lower(primitive, record.archs[arch])
        lines.append(f"__device__ __forceinline__ {plain(primitive.signature)} {{\n{text}\n}}")
    lines += [kernel(primitive) for primitive in functions()]
    return "\n".join(lines)


def functions() -> list[Primitive]:
    return [p for p in load_spec().primitives.values() if p.kind == "function"]


def plain(signature: str) -> str:
    for word, pointer in _PLAIN.items():
        signature = signature.replace(word, pointer)
    return signature


def name_of(primitive: Primitive) -> str:
    return "k_" + primitive.id.replace(".", "_")


def kernel(primitive: Primitive) -> str:
    params = [f"{plain(p.ctype)} {p.name}" for p in primitive.params]
    call = f"{primitive.c_name}({', '.join(p.name for p in primitive.params)})"
    body = f"{call};"
    if primitive.returns != "void":
        params.append(f"{primitive.returns} *result")
        body = f"*result = {call};"
    return f'extern "C" __global__ void {name_of(primitive)}({", ".join(params)}) {{ {body} }}'


def compile_unit(nvcc: str, source: Path, arch: str, kind: str) -> Path:
    number = arch.removeprefix("sm_")
    output = source.with_suffix(f".{arch}.{kind}")
    code = f"sm_{number}" if kind == "cubin" else f"compute_{number}"
    command = [nvcc, "-std=c++17", "-O3", "-Werror", "all-warnings", f"-{kind}", "-o", str(output), str(source)]
    command += ["-gencode", f"arch=compute_{number},code={code}"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=300, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    return output


@pytest.fixture(scope="module")
def ptx(nvcc: str, record: Record, tmp_path_factory: pytest.TempPathFactory) -> dict[str, dict[str, str]]:
    """By arch and PTX of its body, with whitespace collapsed."""
    result = {}
    for arch in record.archs:
        source = tmp_path_factory.mktemp("ptx") / "lowerings.cu"
        source.write_text(unit(record, arch), encoding="utf-8")
        text = re.sub(r"[ \t]+", " ", compile_unit(nvcc, source, arch, "ptx").read_text(encoding="utf-8"))
        entries = re.findall(r"\.entry (\w+)\((.*?)\n\}", text, re.DOTALL)
        result[arch] = {name: body.replace("\n", " ") for name, body in entries}
    return result


def test_the_table_covers_every_primitive() -> None:
    named = set(EXPECTED) | COMPUTED
    assert named == {p.id for p in functions()}


@pytest.mark.parametrize("arch", ["sm_80", "sm_90"])
def test_every_lowering_assembles(nvcc: str, record: Record, arch: str, tmp_path: Path) -> None:
    source = tmp_path / "lowerings.cu"
    source.write_text(unit(record, arch), encoding="utf-8")
    cubin = compile_unit(nvcc, source, arch, "cubin").read_bytes()
    assert cubin.startswith(b"\x7fELF")
    for primitive in functions():
        assert name_of(primitive).encode() in cubin


@pytest.mark.parametrize("arch", ["sm_80", "sm_90"])
@pytest.mark.parametrize("primitive", sorted(EXPECTED))
def test_a_lowering_says_what_its_contract_needs(ptx: dict[str, dict[str, str]], arch: str, primitive: str) -> None:
    body = ptx[arch]["k_" + primitive.replace(".", "_")]
    assert re.search(EXPECTED[primitive], body), body


@pytest.mark.parametrize("arch", ["sm_80", "sm_90"])
def test_no_plain_access_and_no_other_order(ptx: dict[str, dict[str, str]], arch: str) -> None:
    """A shared word is touched by the one ordered instruction and by nothing else."""
    for primitive in functions():
        if not primitive.id.startswith(("load.", "store.", "atomic.", "mmio.")):
            continue
        body = ptx[arch][name_of(primitive)]
        touching = re.findall(r"\b(?:ld|st|atom|red)\.(?!param)[\w.]+", body)
        ordered = [word for word in touching if re.search(r"\.(relaxed|acquire|release)\.", word)]
        results = [word for word in touching if word.startswith(("st.global.", "st.volatile."))]
        assert len(ordered) == 1, (primitive.id, touching)
        wanted = 0 if primitive.returns == "void" else 4 if primitive.returns == "tt_u32x4" else 1
        assert len(touching) == 1 + (min(len(results), wanted) if wanted else 0), (primitive.id, touching)


def test_the_record_says_the_same_flags_that_are_tested(record: Record) -> None:
    flags = record.toolchain.flags_for(record.archs["sm_90"])
    assert flags[-3:] == ("-gencode", "arch=compute_90,code=sm_90", "-cubin")
    assert "-Werror" in flags

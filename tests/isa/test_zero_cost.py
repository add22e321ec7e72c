"""The layer costs nothing: through it, CUDA's compiler makes what it makes of plain CUDA. *Compile-only*.

Kernels are compared as they are encoded: addresses, registers and the scheduler's words included, nothing normalised.
Where they differ, instructions are counted in the listing.
"""

from __future__ import annotations

import re
from collections import Counter
from pathlib import Path

import pytest

from tests.isa import plain_cuda as plain
from tests.isa.twins import Compiled, compile_unit, kernel_name, opcodes, plain_unit, shim_unit, twin_of
from tutti_hal.backends.cuda.toolchain import toolchain
from tutti_hal.codegen import render
from tutti_hal.errors import CompilerMissing
from tutti_hal.paths import package_file
from tutti_hal.record import load_record
from tutti_hal.spec import Primitive, load_spec

pytestmark = [pytest.mark.sass, pytest.mark.isa]

ARCHS = ("sm_80", "sm_90")

#: What touches memory, orders it, waits or speaks to other lanes: everything but arithmetic, moves and branches.
_OUTWARD = re.compile(
    r"(LD(?!C)|ST|ATOM|RED|MEMBAR|ERRBAR|CCTL|FENCE|BAR|WARPSYNC|NANOSLEEP|VOTE|SHFL|S2|CS2R|MATCH|BPT|QSPC)"
)

#: Of a thousand instructions of arithmetic so many may differ: which of two equal forms a compiler takes is its own.
_PER_THOUSAND = 4


def flags(arch: str) -> tuple[str, ...]:
    """The compiler's, as the product has them; both sides are compiled with the same."""
    record = load_record(package_file("backends", "cuda"))
    return record.toolchain.flags_for(record.archs[arch])


def headers(folder: Path, arch: str) -> Path:
    """The generated headers, in a folder of their own."""
    render(load_record(package_file("backends", "cuda")), arch, "saxpy").write(folder)
    return folder / "gpu_vendor" / "cuda_primitives.cuh"


def compiled(folder: Path, name: str, text: str, arch: str) -> Compiled:
    unit = folder / f"{name}.cu"
    unit.write_text(text, encoding="utf-8")
    return compile_unit(unit, arch, flags(arch))


def listing(module: Compiled) -> str:
    try:
        return toolchain(load_record(package_file("backends", "cuda"))).listing(module.path)
    except CompilerMissing as missing:
        pytest.skip(str(missing))


def differing(shim: Compiled, other: Compiled, primitives: list[Primitive], form: str = "") -> list[str]:
    names = [one.id for one in primitives]
    return [name for name in names if shim.made_of(kernel_name(name, form)) != other.made_of(kernel_name(name, form))]


def test_every_primitive_has_one_plain_spelling() -> None:
    tables = [*plain.EXPRESSIONS, *plain.BODIES, *plain.MACROS]
    assert Counter(tables) == Counter(load_spec().primitives.keys())
    assert {*plain.DEARER, *plain.CLASSIC} <= {*tables}
    assert {*plain.AS_CONTRACTED} <= {*plain.DEARER}


@pytest.mark.slow
@pytest.mark.timeout(600)
@pytest.mark.parametrize("arch", ARCHS)
def test_a_primitive_is_what_is_written_by_hand(tmp_path: Path, arch: str) -> None:
    primitives = list(load_spec().primitives.values())
    atomics = [one for one in primitives if one.id in plain.CLASSIC]
    headers(tmp_path, arch)
    shim = compiled(tmp_path, "shim", shim_unit(primitives), arch)
    hand = compiled(tmp_path, "plain", plain_unit(primitives), arch)

    assert {*differing(shim, hand, primitives)} <= {*plain.DEARER}
    assert differing(shim, hand, atomics, "_dropped") == []

    listings = listing(shim), listing(hand)
    for name, row in plain.DEARER.items():
        ours, theirs = (opcodes(one, kernel_name(name)).total() for one in listings)
        assert ours <= theirs + row.most, (name, ours, theirs, row.why)
    for name, most in plain.KNOWN_PLACE.items():
        ours, theirs = (opcodes(one, kernel_name(name, "_known")).total() for one in listings)
        assert ours <= theirs + most, (name, ours, theirs)


#: Lowerings made dearer: what stood in the generated header, and what stands there instead.
MUTANTS = {
    "fence.system": ('asm volatile("fence.sc.sys;"', 'asm volatile("fence.sc.sys; fence.sc.sys;"'),
    "load.relaxed.device.u64": ('asm volatile("ld.relaxed.gpu.u64', 'asm volatile("ld.acquire.gpu.u64'),
    "wave.mask_popcount": ("(__popc(m))", "(__popc(m >> 16) + __popc(m << 16))"),
    "time.pause": ("__nanosleep(20u)", "__nanosleep(40u)"),
    "attribute.launch_bounds": ("__launch_bounds__(n)", "__launch_bounds__(2 * n)"),
    "attribute.shared": ("__shared__ type name[count]", "__shared__ type name[2 * count]"),
}


@pytest.mark.slow
@pytest.mark.timeout(600)
def test_a_dearer_lowering_is_noticed(tmp_path: Path) -> None:
    spec = load_spec().primitives
    functions = headers(tmp_path, "sm_90")
    for sane, mutant in MUTANTS.values():
        header = functions if sane in functions.read_text(encoding="utf-8") else functions.with_name("cuda.h")
        text = header.read_text(encoding="utf-8")
        assert text.count(sane) == 1, sane
        header.write_text(text.replace(sane, mutant), encoding="utf-8")
    primitives = [spec[name] for name in (*MUTANTS, "store.release.system.u32", "fence.device", "wave.mask_first")]
    shim = compiled(tmp_path, "shim", shim_unit(primitives), "sm_90")
    hand = compiled(tmp_path, "plain", plain_unit(primitives), "sm_90")
    assert differing(shim, hand, primitives) == list(MUTANTS)


@pytest.mark.slow
@pytest.mark.timeout(600)
@pytest.mark.parametrize("arch", ARCHS)
def test_the_rings_kernel_is_its_twin_in_plain_cuda(tmp_path: Path, arch: str) -> None:
    """A twin by substitution: the rendered text with each word of the generated header put in plain CUDA."""
    ring = render(load_record(package_file("backends", "cuda")), arch, "ring").source
    headers(tmp_path, arch)
    twin = kernel(tmp_path, "twin", twin_of(ring, load_spec().primitives.values()), arch)
    assert apart(kernel(tmp_path, "ring", ring, arch), twin) == ""
    if arch == ARCHS[-1]:
        fenced = ring.replace("tt_fence_device();", "tt_fence_device(); tt_fence_device();", 1)
        assert "MEMBAR.SC.GPU: " in apart(kernel(tmp_path, "fenced", fenced, arch), twin)


def kernel(folder: Path, name: str, text: str, arch: str) -> Counter[str]:
    return opcodes(listing(compiled(folder, name, text, arch)), "ring_run")


def apart(ours: Counter[str], theirs: Counter[str]) -> str:
    """How two kernels differ, in a sentence; empty where one costs what the other does."""
    kinds = sorted(kind for kind in {*ours, *theirs} if _OUTWARD.match(kind) and ours[kind] != theirs[kind])
    if kinds:
        return ", ".join(f"{kind}: {ours[kind]}, by hand {theirs[kind]}" for kind in kinds)
    if abs(ours.total() - theirs.total()) * 1000 > theirs.total() * _PER_THOUSAND:
        return f"{ours.total()} instructions, by hand {theirs.total()}"
    return ""


def test_kernels_are_apart_by_one_access_or_by_much_arithmetic() -> None:
    hand = Counter({"LDG.E.64": 3, "IADD3": 997})
    assert apart(hand, hand) == ""
    assert apart(hand + Counter(["IADD3"] * 4), hand) == ""
    assert apart(hand + Counter(["IADD3"] * 5), hand) == "1005 instructions, by hand 1000"
    assert apart(hand + Counter(["LDG.E.64"]), hand) == "LDG.E.64: 4, by hand 3"
    assert apart(hand + Counter(["LDC.64"]), hand) == ""

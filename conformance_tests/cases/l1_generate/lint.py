"""The lint: a kernel template in anything but primitives is refused, line by line."""

from __future__ import annotations

import re
from typing import Any

from tutti_hal.conformance_tests.case import Observations, Per, case
from tutti_hal.conformance_tests.cases.l1_generate.workshop import template_root
from tutti_hal.conformance_tests.run import Run
from tutti_hal.conformance_tests.seen import Seen

#: Lines that are refused, each for itself: raw keywords, intrinsics, casts into words, libraries, the compiler's own.
_BAD = (
    "const uint32_t i = threadIdx.x;",
    "const uint32_t b = blockIdx.y * blockDim.x;",
    "const uint32_t g = gridDim.z;",
    "const uint32_t w = warpSize;",
    "__shared__ uint32_t cells[4];",
    "extern uint32_t cells[];",
    "__syncthreads();",
    "__syncwarp();",
    "__threadfence_system();",
    "__threadfence();",
    "const uint32_t m = __ballot_sync(1u, true);",
    "const uint32_t a = __activemask();",
    "const uint32_t s = __shfl_sync(1u, n, 0);",
    "atomicAdd(plain, 1u);",
    "atomicCAS_system(plain, 1u, 2u);",
    "__hip_atomic_store(plain, 1u, 0, 0);",
    "__builtin_amdgcn_s_waitcnt(0);",
    "__builtin_trap();",
    "__nanosleep(8);",
    "const uint64_t c = clock64();",
    'asm volatile("nop;");',
    "volatile uint32_t *seen = plain;",
    "uint32_t *raw = reinterpret_cast<uint32_t *>(word);",
    "uint32_t *raw = (uint32_t *)word;",
    "uint32_t *raw = static_cast<uint32_t *>(anything);",
    "uint32_t *raw = const_cast<uint32_t *>(plain);",
    "word->bits_ = n;",
    "*tt_raw::of(word) = n;",
    "tt_host_pause();",
    "std::atomic<uint32_t> one;",
    "memcpy(plain, word, 4);",
    "memset(word, 0, 4);",
    "uint32_t *heap = new uint32_t[4];",
    "void *heap = malloc(4);",
    "delete plain;",
    "goto out;",
    "throw 1;",
    'printf("%u", n);',
    "#include <atomic>",
    "#pragma unroll",
    "other<<<1, 1>>>(word);",
    "tt_store_relaxed_dev_u23(word, n);",
    "TT_HAS_WAVE_BALOT;",
    "while (tt_load_acquire_sys_u32(word) == 0) {}",
)

#: Lines that stay: primitives, plain arithmetic, and words of the list above where they are only text.
_GOOD = (
    "const uint32_t i = tt_thread_index_x() + tt_block_index_x() * tt_block_size_x();",
    "tt_fence_system(); // what others call __threadfence_system",
    "/* threadIdx, asm and volatile in a comment */",
    'TT_PRINT("atomicAdd %u", n);',
    "tt_word64 *wide = tt_address_as<tt_word64>(address);",
    "const uint64_t sum = static_cast<uint64_t>(n) + 1u;",
    "while (tt_load_acquire_sys_u32(word) == 0) { tt_pause(); }",
    "if (TT_HAS_WAVE_BALLOT && i < TT_WAVE_WIDTH) { tt_store_release_dev_u32(word, i); }",
)

_KERNEL = '{% call kernel("planted", [("word", "tt_word32 *"), ("n", "uint32_t"), ("address", "uint64_t")]) %}'


def _template(lines: tuple[str, ...]) -> str:
    return "\n".join([_KERNEL, *lines, "{% endcall %}", ""])


@case(
    "generate/lint",
    level="L1",
    clauses=("generate.lint.primitives_only",),
    per=Per.VENDOR,
    no_mutant="the lint is code of the generator, which no record or template changes",
)
def lint(run: Run) -> Observations:
    """Raw keywords, intrinsics, casts and every installed vendor's own names are each refused with their line."""
    from tutti_hal.backend import discover
    from tutti_hal.codegen import render
    from tutti_hal.conformance_tests.observation import refusal

    record = run.profile.record
    arch = next(iter(record.archs))
    records = {one.name: one.backend.record for one in discover() if one.backend is not None} | {record.vendor: record}
    names = sorted(
        {str(one.errors.spelling(n)) for one in records.values() for n in one.errors.values} | _symbols(records)
    )

    def ask(name: str, lines: tuple[str, ...], part: bool = False) -> dict[str, Any]:
        kernel = _template(lines)
        files = {"planted.cu.j2": kernel}
        if part:
            files = {
                "planted.cu.j2": '{% include "kernels/part.j2" %}\n' + _template(_GOOD),
                "part.j2": "\n".join([*lines, ""]),
            }
        root = template_root(run, name, files)
        return refusal(lambda: render(record, arch, "planted", templates=root))

    return {
        "good": ask("good", _GOOD),
        "bad": ask("bad", _BAD),
        "among_good": ask("among", (*_GOOD, _BAD[0])),
        "included": ask("included", _BAD[:4], part=True),
        "names": names,
        "named": ask("named", tuple(f"{name}(n);" for name in names)),
    }


def _symbols(records: dict[str, Any]) -> set[str]:
    """What each vendor calls its host functions."""
    from tutti_hal.spec import load_spec

    found = {one.host_api.symbol(name) for one in records.values() for name in load_spec().host_functions}
    return {str(name) for name in found if name}


@lint.judge
def _(seen: Seen) -> None:
    clause = "generate.lint.primitives_only"
    seen.equal(clause, "primitives and plain arithmetic are refused", seen["good"], {"refused": False})
    groups = {
        "bad": ("planted.cu.j2", 2, _BAD),
        "included": ("part.j2", 1, _BAD[:4]),
        "named": ("planted.cu.j2", 2, tuple(seen["names"])),
    }
    for group, (file, first, lines) in groups.items():
        answer = seen[group]
        seen.refused(clause, f"{group}: the template", answer, "GenerationError")
        found = _lines(answer, file)
        for number, line in enumerate(lines, first):
            seen.holds(clause, f"{group}: line {number} is named: {line}", number in found, sorted(found))
    only = _lines(seen["among_good"], "planted.cu.j2")
    seen.equal(clause, "lines named where one is bad", sorted(only), [len(_GOOD) + 2])


def _lines(answer: dict[str, Any], file: str) -> set[int]:
    return {int(n) for n in re.findall(rf"\b{re.escape(file)}:(\d+): ", answer.get("found", ""))}

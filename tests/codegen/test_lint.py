"""The lint: each raw word, cast, library, misplaced block storage and unyielding loop is refused, with a way out."""

from __future__ import annotations

import pytest

from tutti_hal.codegen.headers import known_names
from tutti_hal.codegen.lint import Finding, code_only, lint
from tutti_hal.paths import templates_dir
from tutti_hal.spec import load_spec


def _kernel(body: str) -> str:
    return f'{{% call kernel("k", [("p", "tt_word32 *")]) %}}\n{body}\n{{% endcall %}}\n'


def _found(text: str) -> list[Finding]:
    return lint("kernels/t.cu.j2", text, names=known_names(load_spec(), templates_dir()))


@pytest.mark.parametrize(
    ("raw", "instead"),
    [
        ("uint32_t i = threadIdx.x;", "tt_thread_index_"),
        ("uint32_t i = blockIdx.x * blockDim.x;", "tt_block_"),
        ("uint32_t w = warpSize;", "TT_WAVE_WIDTH"),
        ("__shared__ uint32_t s[4];", "TT_SHARED"),
        ("atomicAdd(q, 1);", "tt_atomic_add"),
        ("atomicMax_system(q, 1);", "tt_atomic_"),
        ("__syncthreads();", "tt_block_barrier"),
        ("__threadfence_system();", "tt_fence_system"),
        ("__hip_atomic_load(q, 0, 0);", "primitive"),
        ("__builtin_trap();", "primitive"),
        ('asm volatile("membar.sys;");', "a primitive"),
        ("volatile uint32_t *q = r;", "tt_load_"),
        ("std::atomic<uint32_t> a;", "primitives"),
        ("cuda::atomic_ref<uint32_t> a(q);", "primitives"),
        ("uint32_t *q = new uint32_t[4];", "TT_SHARED"),
        ("void *q = malloc(4);", "TT_SHARED"),
        ("memcpy(q, p, 4);", "tt_load_"),
        ("memset(p, 0, 4);", "tt_store_"),
        ("goto out;", "early return"),
        ("uint32_t *q = reinterpret_cast<uint32_t *>(p);", "tt_address_as"),
        ("uint32_t *q = (uint32_t *)p;", "tt_address_as"),
        ("uint32_t *q = (const uint32_t*) &p[1];", "tt_address_as"),
        ("uint32_t *q = static_cast<uint32_t *>(v);", "tt_address_as"),
        ("p->bits_ = 1;", "private"),
        ("uint32_t *q = tt_raw::of(p);", "tt_load_"),
        ("tt_host_pause();", "the tt_ primitive"),
        ('printf("%u", 1u);', "TT_PRINT"),
        ("hipDeviceSynchronize();", "snake_case"),
        ("#include <atomic>", "include"),
        ("#pragma unroll", "pragma"),
        ("other<<<1, 1>>>(p);", "launch"),
        ("tt_load_aquire_sys_u32(p);", "tt_load_acquire_sys_u32"),
        ("TT_HAS_WAVE_BALOT;", "TT_HAS_WAVE_BALLOT"),
    ],
)
def test_raw_text_is_refused_and_named(raw: str, instead: str) -> None:
    found = _found(_kernel(raw))
    assert found, raw
    assert all(finding.line == 2 for finding in found)
    assert any(instead in finding.instead for finding in found), found
    assert str(found[0]).startswith("kernels/t.cu.j2:2: ")


@pytest.mark.parametrize(
    "fine",
    [
        "// atomicAdd, volatile and asm may be spoken of",
        "/* __syncthreads()\n   and malloc */",
        '{# reinterpret_cast #}\nTT_PRINT("new volatile\\n");',
        "uint32_t v = (x * y) + (z);",
        "uint32_t v = (uint32_t)(a);",
        "tt_store_release_sys_u32(p, 1u);",
        "ring_state *state = tt_address_as<ring_state>(address);",
        "TT_SHARED(tt_word32, slots, 4);",
    ],
)
def test_what_is_fine_passes(fine: str) -> None:
    assert _found(_kernel(fine)) == []


def test_raw_words_in_what_jinja_evaluates_are_found() -> None:
    found = _found('{% call kernel("k", [("p", "volatile uint32_t *")]) %}\n{% endcall %}')
    assert [finding.found for finding in found] == ["volatile"]


def test_a_type_of_the_template_may_qualify() -> None:
    assert _found("enum class verdict : uint32_t { good };\n" + _kernel("verdict v = verdict::good;")) == []


@pytest.mark.parametrize(
    ("body", "line"),
    [
        ("while (tt_load_acquire_sys_u32(p) == 0) {\n}", 2),
        ("while (tt_load_acquire_sys_u32(p) == 0);", 2),
        ("for (;;) {\n    if (tt_load_relaxed_sys_u32(p)) break;\n}", 2),
        ("while (true) {\n    if (tt_atomic_cas_dev_u32(p, 0u, 1u) == 0u) { break; }\n}", 2),
        ("uint32_t v;\ndo {\n    v = 1;\n} while (tt_atomic_cas_dev_u32(p, v, 2u) != v);", 3),
        ("if (a)\n    while (!tt_load_relaxed_dev_u32(p))\n        ++a;", 3),
    ],
)
def test_a_loop_that_waits_without_yielding_is_refused(body: str, line: int) -> None:
    found = _found(_kernel(body))
    assert [(finding.rule, finding.line) for finding in found] == [("spin", line)]


@pytest.mark.parametrize(
    "body",
    [
        "while (tt_load_acquire_sys_u32(p) == 0) {\n    tt_pause();\n}",
        "for (;;) {\n    if (tt_load_relaxed_sys_u32(p)) break;\n    tt_sleep_ns(100u);\n}",
        "while (tt_load_relaxed_sys_u32(p) == 0 && tt_clock_ns() < end) {\n}",
        "do {\n    tt_pause();\n} while (tt_load_relaxed_dev_u32(p) == 0);",
        "for (uint32_t i = 0; i < n; ++i) {\n    sum += tt_load_relaxed_dev_u32(p + i);\n}",
        "while (tt_load_relaxed_dev_u32(p) == 0) { // tt-lint: spin, because step() pauses\n    step();\n}",
        "// tt-lint: spin, because step() pauses\nwhile (tt_load_relaxed_dev_u32(p) == 0) {\n    step();\n}",
    ],
)
def test_loops_that_yield_or_end_pass(body: str) -> None:
    assert [finding for finding in _found(_kernel(body)) if finding.rule == "spin"] == []


def test_an_allowance_without_a_reason_does_not_count() -> None:
    assert _found(_kernel("while (tt_load_relaxed_dev_u32(p) == 0) { // tt-lint: spin\n}"))


@pytest.mark.parametrize(
    "text",
    [
        "TT_SHARED(tt_word32, slots, 4);\n" + _kernel("tt_pause();"),
        _kernel("if (a) {\n    TT_SHARED(tt_word32, slots, 4);\n}"),
        _kernel("tt_pause();") + "TT_SHARED(tt_word32, slots, 4);\n",
    ],
)
def test_block_storage_belongs_at_the_top_of_a_kernel(text: str) -> None:
    assert [finding.rule for finding in _found(text)] == ["shared"]


def test_blanking_keeps_lines() -> None:
    text = 'a /* x\ny */ "s" {# z\n #} {{ "kept" }} // end\nb'
    assert code_only(text).count("\n") == text.count("\n")
    assert '"kept"' in code_only(text)
    assert "x" not in code_only(text)

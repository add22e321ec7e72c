"""The neutral header: every primitive under the name and signature of the contract's text."""

from __future__ import annotations

import re
from collections.abc import Iterator

from tutti_hal.conformance_tests.case import Observations, Per, case
from tutti_hal.conformance_tests.run import Run
from tutti_hal.conformance_tests.seen import Seen

_HEADER = "cuda_like.h"

#: What goes before every declaration.
_MARK = "TT_DEVICE TT_INLINE "

_SCOPES, _BITS = ("dev", "sys"), (32, 64)


def _wanted() -> Iterator[str]:
    """Each declaration, transcribed by hand from the contract of the primitives."""
    for noun in ("thread_index", "block_index", "block_size", "grid_size"):
        for dim in "xyz":
            yield f"uint32_t tt_{noun}_{dim}()"
    yield "uint32_t tt_lane_index()"
    yield "void tt_wave_sync()"
    yield "tt_mask tt_wave_active()"
    yield "tt_mask tt_wave_ballot(tt_mask m, bool p)"
    for bits in _BITS:
        yield f"uint{bits}_t tt_wave_shuffle_u{bits}(tt_mask m, uint{bits}_t v, uint32_t src_lane)"
    yield "void tt_wave_sync_mask(tt_mask m)"
    yield "uint32_t tt_mask_popcount(tt_mask m)"
    yield "uint32_t tt_mask_first(tt_mask m)"
    yield "tt_mask tt_mask_below(uint32_t lane)"
    yield "bool tt_wave_elect(tt_mask m)"
    yield "void tt_block_barrier()"
    for scope in ("block", "device", "system"):
        yield f"void tt_fence_{scope}()"
    for scope in _SCOPES:
        for bits in _BITS:
            word, value = f"tt_word{bits} *p", f"uint{bits}_t"
            for order in ("relaxed", "acquire"):
                yield f"{value} tt_load_{order}_{scope}_u{bits}(const {word})"
            for order in ("relaxed", "release"):
                yield f"void tt_store_{order}_{scope}_u{bits}({word}, {value} v)"
            for operation in ("add", "exchange", "or"):
                yield f"{value} tt_atomic_{operation}_{scope}_u{bits}({word}, {value} v)"
            yield f"{value} tt_atomic_cas_{scope}_u{bits}({word}, {value} expected, {value} desired)"
        yield f"tt_u32x4 tt_load_relaxed_{scope}_u32x4(const tt_quad *p)"
        yield f"void tt_store_relaxed_{scope}_u32x4(tt_quad *p, tt_u32x4 v)"
    for bits in _BITS:
        yield f"uint32_t tt_crc32c_u{bits}(uint32_t crc, uint{bits}_t v)"
    yield "void tt_mmio_store_u32(tt_mmio32 *p, uint32_t v)"
    yield "uint32_t tt_mmio_load_u32(const tt_mmio32 *p)"
    yield "uint64_t tt_clock_ns()"
    yield "void tt_sleep_ns(uint32_t ns)"
    yield "void tt_pause()"
    yield "void tt_trap()"


#: What must stand where only archs with an ability see it: (the declarations, the macro that guards them).
_GUARDS = (
    (re.compile(r"\btt_mask\b|\btt_wave_(shuffle|active|ballot|elect)"), "TT_HAS_WAVE_BALLOT"),
    (re.compile(r"\btt_atomic_\w+_sys_"), "TT_HAS_ATOMIC_SYSTEM"),
)


@case(
    "generate/neutral_header",
    level="L1",
    clauses=("generate.header.vendor_neutral",),
    per=Per.VENDOR,
    budget_s=60.0,  # a rendering of each arch of each vendor: seconds, and more on a machine with other work
)
def neutral_header(run: Run) -> Observations:
    """The neutral header of every arch of the vendor, and of every other vendor that is installed."""
    from tutti_hal.backend import discover
    from tutti_hal.codegen import kernel_sets, render
    from tutti_hal.paths import templates_dir

    root = run.subject.templates or templates_dir()
    small = min(kernel_sets(root), key=lambda name: (root / "kernels" / f"{name}.cu.j2").stat().st_size)
    records = {one.name: one.backend.record for one in discover() if one.backend is not None}
    records[run.profile.vendor] = run.profile.record
    texts: dict[str, list[str]] = {}
    for vendor, record in records.items():
        for arch in record.archs:
            text = render(record, arch, small, templates=root).headers[_HEADER]
            texts.setdefault(text, []).append(f"{vendor}:{arch}")
    return {"texts": [{"text": text, "of": of} for text, of in texts.items()]}


@neutral_header.judge
def _(seen: Seen) -> None:
    clause = "generate.header.vendor_neutral"
    of = [one["of"] for one in seen["texts"]]
    own = [name for names in of for name in names if name.startswith(f"{seen.facts.vendor}:")]
    seen.holds(clause, "the vendor under test has a header for each arch", own)
    seen.holds(clause, "all archs of all vendors have one text", len(of) == 1, of, [n for names in of for n in names])
    for one in seen["texts"]:
        found = dict(_declared(one["text"]))
        wanted = list(_wanted())
        for signature in wanted:
            seen.holds(clause, f"{one['of'][0]} declares: {signature}", signature in found, sorted(found))
        extra = sorted(set(found) - set(wanted))
        seen.holds(clause, "nothing else is declared as a primitive", not extra, extra, found)
        for signature, guard in found.items():
            wanted_guard = next((macro for named, macro in _GUARDS if named.search(signature)), "")
            seen.equal(clause, f"what guards {signature}", guard, wanted_guard)


def _declared(text: str) -> Iterator[tuple[str, str]]:
    """(signature, macro that guards it) of each declaration without a body, white space made even."""
    guard = ""
    for match in re.finditer(rf"^#if (\w+)$|^#endif|^{_MARK}([^;{{}}]+);", text, re.M):
        if match[2] is None:
            guard = match[1] or ""
        else:
            yield re.sub(r"\s+", " ", match[2]).replace("( ", "(").replace(" )", ")"), guard

"""What compiles on every arch: the kernel sets, the attributes, the entries; and masks where there are masks alone."""

from __future__ import annotations

import re
from typing import Any

from tutti_hal.conformance_tests.case import Observations, case
from tutti_hal.conformance_tests.cases.l1_generate.workshop import BASE, Workshop, complaints, template_root
from tutti_hal.conformance_tests.run import Run
from tutti_hal.conformance_tests.seen import Seen

_WARNING = re.compile(r"\bwarning\b", re.IGNORECASE)

#: A defect of which every compiler warns once it was told to warn of anything.
_DEFECT = "TT_DEVICE TT_INLINE void tt_case_defect(uint32_t count) { uint32_t nobody_reads_it = count; }"
_SOUND = "TT_DEVICE TT_INLINE void tt_case_sound(uint32_t count) { static_cast<void>(count); }"


@case("compile/every_kernel_set", level="L1", clauses=("compile.every_arch",), budget_s=600.0)
def every_kernel_set(run: Run) -> Observations:
    """Every kernel set compiles for the arch, and a compiler that warns of a planted defect warns of nothing in it."""
    from tutti_hal import paths
    from tutti_hal.codegen import kernel_sets
    from tutti_hal.errors import TuttiError
    from tutti_hal.toolchain import build

    shop = Workshop(run)
    # A root that is named is never answered from what was built at install, so that there is a log to look at.
    root = run.subject.templates or paths.templates_dir()
    sets: dict[str, Any] = {}
    for name in kernel_sets(root):
        try:
            built = build(run.profile, name, arch=shop.arch.name, templates=root)
        except TuttiError as error:
            sets[name] = {"said": str(error)[-4000:], "log": "", "kernels": []}
            continue
        log = (built.path.parent / "build.log").read_text(encoding="utf-8")
        sets[name] = {"said": "", "log": log, "kernels": [kernel.name for kernel in built.kernels]}
    return {"sets": sets, "planted": shop.functions({"defect": [_DEFECT], "sound": [_SOUND]})}


@every_kernel_set.judge
def _(seen: Seen) -> None:
    clause = "compile.every_arch"
    seen.holds(clause, "there are kernel sets", seen["sets"])
    for name, found in seen["sets"].items():
        seen.equal(clause, f"{name}: what refused it", found["said"], "")
        seen.equal(clause, f"{name}: warnings", _warnings(found["log"]), [])
        seen.holds(clause, f"{name}: it has kernels", found["kernels"], found)
    sound, defect = seen["planted"]["sound"], seen["planted"]["defect"]
    quiet = sound["compiled"] and not _warnings(sound["log"])
    seen.holds(clause, "a sound function compiles without a warning", quiet, sound)
    warned = not defect["compiled"] or _warnings(defect["log"])
    seen.holds(clause, "an unused variable is warned of: the silence above says something", warned, defect)


def _warnings(log: str) -> list[str]:
    return [line for line in log.splitlines() if _WARNING.search(line)]


#: The attributes that a vendor's header defines.
_MACROS = ("TT_DEVICE", "TT_INLINE", "TT_RESTRICT", "TT_LAUNCH_BOUNDS", "TT_ENTRY", "TT_SHARED")

_PLACED = "TT_DEVICE TT_INLINE void tt_case_{} {{ {} }}".format

#: Each attribute where templates use it: name -> a line.
_ATTRIBUTES = {
    "device": "TT_DEVICE uint32_t tt_case_far(uint32_t v);",
    "device_body": "TT_DEVICE uint32_t tt_case_far(uint32_t v) { return v; }",
    "device_inline": "TT_DEVICE TT_INLINE uint32_t tt_case_near(uint32_t v) { return v; }",
    "static_member": "struct tt_case_box { TT_DEVICE TT_INLINE static uint32_t of(uint32_t v) { return v; } };",
    "member": "struct tt_case_held { uint32_t v; TT_DEVICE TT_INLINE uint32_t get() const { return v; } };",
    "of_template": "template <class T> TT_DEVICE TT_INLINE T tt_case_same(T v) { return v; }",
    "restrict": _PLACED("one(uint32_t *TT_RESTRICT p)", "*p = 1u;"),
    "restrict_two": _PLACED("two(uint32_t *TT_RESTRICT p, const uint32_t *TT_RESTRICT q)", "*p = *q;"),
    "shared_word32": _PLACED("s32()", "TT_SHARED(tt_word32, cells, 64); tt_store_relaxed_dev_u32(cells + 1, 1u);"),
    "shared_word64": _PLACED("s64()", "TT_SHARED(tt_word64, cells, 1); tt_store_relaxed_dev_u64(cells, 1u);"),
    "shared_quad": _PLACED(
        "s128()", "TT_SHARED(tt_quad, q, 2); tt_store_relaxed_dev_u32x4(q, tt_u32x4{1u, 2u, 3u, 4u});"
    ),
    "shared_two": _PLACED(
        "pair()",
        "TT_SHARED(tt_word32, a, 1); TT_SHARED(tt_word32, b, 1); "
        "tt_store_relaxed_dev_u32(a, tt_load_relaxed_dev_u32(b));",
    ),
}

_ENTRIES = """
{% call kernel("case_bare", [("word", "tt_word32 *")]) %}
tt_store_relaxed_dev_u32(word, 1u);
{% endcall %}
{% call kernel("case_bound_1", [("word", "tt_word32 *")], max_threads=1) %}
tt_store_relaxed_dev_u32(word, 1u);
{% endcall %}
{% call kernel("case_bound_256", [("word", "tt_word32 *")], max_threads=256) %}
TT_SHARED(tt_word64, cells, 256);
tt_store_relaxed_dev_u64(cells + tt_thread_rank(), 1u);
tt_store_relaxed_dev_u32(word, 1u);
{% endcall %}
{% call kernel("case_no_parameter") %}
tt_fence_system();
{% endcall %}
"""
_ENTRY_NAMES = ("case_bare", "case_bound_1", "case_bound_256", "case_no_parameter")
_ABSENT = "case_absent"


@case("compile/attributes", level="L1", clauses=("prim.attribute.compiles", "prim.entry.plain_name"), budget_s=120.0)
def attributes(run: Run) -> Observations:
    """Every attribute in every place compiles; kernels with and without bounds are exported under their plain names."""
    from tutti_hal.codegen import render

    shop = Workshop(run)
    root = template_root(run, "entries", {f"{BASE}.cu.j2": _ENTRIES})
    rendered = render(shop.record, shop.arch, BASE, templates=root)
    source = "\n".join([rendered.source, *_ATTRIBUTES.values(), ""])
    found = shop.unit("attributes", source, rendered.headers)
    module = run.scratch / f"{shop.arch.name}-attributes" / f"{BASE}{shop.record.toolchain.output}"
    own = rendered.headers[f"gpu_vendor/{shop.record.vendor}.h"]
    data = module.read_bytes() if module.is_file() else b""
    return {
        **found,
        "first": rendered.source.count("\n") + 2,
        "macros": [name for name in _MACROS if f"#define {name}" in own],
        "written": {name: f"\0{name}\0".encode() in data for name in (*_ENTRY_NAMES, _ABSENT)},
        "loaded": _loaded(run, module) if found["compiled"] else {"here": False, "names": {}},
    }


def _loaded(run: Run, module: Any) -> dict[str, Any]:
    """Which of the names the device finds in the module; nothing where the run has no device."""
    from tutti_hal.errors import TuttiError

    try:
        device = run.device
    except TuttiError as error:
        return {"here": False, "names": {}, "why": error.found}
    found = {}
    with device.load_module(module) as loaded:
        for name in (*_ENTRY_NAMES, _ABSENT):
            try:
                loaded[name]
                found[name] = True
            except (TuttiError, KeyError):
                found[name] = False
    return {"here": True, "names": found}


@attributes.judge
def _(seen: Seen) -> None:
    seen.holds("prim.attribute.compiles", "the unit compiles", seen["compiled"], seen["log"], _ATTRIBUTES)
    for index, name in enumerate(_ATTRIBUTES):
        said = complaints(seen, index)
        seen.holds("prim.attribute.compiles", f"{name} compiles", not said, said)
    seen.equal("prim.attribute.compiles", "attributes that the vendor's header defines", seen["macros"], list(_MACROS))
    wanted = {**dict.fromkeys(_ENTRY_NAMES, True), _ABSENT: False}
    seen.equal("prim.entry.plain_name", "names that the module holds", seen["written"], wanted)
    if seen["loaded"]["here"]:
        seen.equal("prim.entry.plain_name", "names that the device finds", seen["loaded"]["names"], wanted)


#: Every use of a mask, by the name that it must not be found under on an arch without ballot.
_MASKS = {
    "tt_mask": "v[0] = static_cast<uint32_t>(sizeof(tt_mask));",
    "tt_wave_active": "v[0] = tt_wave_active() != 0;",
    "tt_wave_ballot": "v[0] = tt_wave_ballot(1u, true) != 0;",
    "tt_wave_shuffle_u32": "v[0] = tt_wave_shuffle_u32(1u, v[0], 0u);",
    "tt_wave_shuffle_u64": "v[0] = static_cast<uint32_t>(tt_wave_shuffle_u64(1u, v[0], 0u));",
    "tt_wave_sync_mask": "tt_wave_sync_mask(1u);",
    "tt_mask_popcount": "v[0] = tt_mask_popcount(1u);",
    "tt_mask_first": "v[0] = tt_mask_first(1u);",
    "tt_mask_below": "v[0] = tt_mask_below(1u) != 0;",
    "tt_wave_elect": "v[0] = tt_wave_elect(1u) ? 1u : 0u;",
}


@case("compile/masks", level="L1", clauses=("prim.wave.no_ballot.absent",), budget_s=60.0)
def masks(run: Run) -> Observations:
    """Where there is no ballot no mask compiles, and what needs none does; where there is one, all of it does."""
    used = [
        f"TT_DEVICE TT_INLINE void tt_case_{name}(uint32_t *v) {{ static_cast<void>(v); {text} }}"
        for name, text in _MASKS.items()
    ]
    plain = "TT_DEVICE TT_INLINE void tt_case_plain(uint32_t *v) { tt_wave_sync(); v[0] = tt_lane_index(); }"
    answer = f'static_assert(TT_HAS_WAVE_BALLOT == {int(run.facts.capabilities["wave.ballot"])}, "the answer");'
    wide = f'static_assert(sizeof(tt_mask) * 8 >= {run.facts.wave_width}, "a bit for each lane");'
    return Workshop(run).functions({"used": used, "plain": [plain, answer], "wide": [wide]})


@masks.judge
def _(seen: Seen) -> None:
    clause = "prim.wave.no_ballot.absent"
    has = seen.facts.capabilities["wave.ballot"]
    seen.holds(clause, "what needs no mask compiles, and the header answers", seen["plain"]["compiled"], seen["plain"])
    seen.equal(clause, "a unit that uses masks compiles", seen["used"]["compiled"], has)
    seen.equal(clause, "a mask with a bit for each lane exists", seen["wide"]["compiled"], has)
    for index, name in enumerate(_MASKS):
        said = [text for text in complaints(seen["used"], index) if name in text]
        what = f"{name} is {'there' if has else 'refused by name'}"
        seen.holds(clause, what, bool(said) != has, seen["used"]["log"])

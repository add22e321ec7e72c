"""The evidence of the instructions: a release before a doorbell, an acquire within a completion, one doorbell store."""

from __future__ import annotations

from typing import Any

from tutti_hal.conformance_tests.case import Observations, case
from tutti_hal.conformance_tests.cases.l1_generate.listing_patterns import (
    acquired,
    doorbells,
    fenced,
    relayed,
    straight,
)
from tutti_hal.conformance_tests.cases.l1_generate.listing_units import (
    code_of,
    listed,
    lowered,
    record_with,
    tells_doorbells,
)
from tutti_hal.conformance_tests.cases.l1_generate.workshop import Workshop, mutated_root, template_root
from tutti_hal.conformance_tests.run import Run
from tutti_hal.conformance_tests.seen import Seen

_ORDER, _MUTANT = "compile.listing.order", "compile.listing.mutant_fails"
_WEAKER = "compile.listing.weaker_record_fails"
_RELAYED = "compile.listing.relay"
_ACQUIRE, _DOORBELL = "compile.listing.acquire", "compile.listing.doorbell"

_FENCE = "tt_fence_system();"
_TAKE = "tt_load_acquire_sys_u32(&entry->dword_3)"

_PLANTED = """{% set parameters = [("entry", "tt_quad *"), ("doorbell", "tt_mmio32 *"), ("value", "uint32_t")] %}
{% call kernel("planted_doorbell", parameters, max_threads=1) %}
const tt_u32x4 part = {value, value + 1u, value + 2u, value + 3u};
{% for index in range(4) %}
tt_store_relaxed_dev_u32x4(entry + {{ index }}, part);
{% endfor %}
tt_fence_system();
tt_mmio_store_u32(doorbell, value);
{% endcall %}
"""

# A lane that rings for what others stored: it saw their mark, and has stored nothing itself.
_RELAY = """{% set parameters = [("mark", "tt_word64 *"), ("doorbell", "tt_mmio32 *")] %}
{% call kernel("planted_relay", parameters, max_threads=1) %}
const uint64_t seen = tt_load_acquire_dev_u64(mark);
tt_fence_system();
tt_mmio_store_u32(doorbell, static_cast<uint32_t>(seen));
{% endcall %}
"""

_COMPLETION = """{% set parameters = [("entry", "tt_word32 *"), ("kept", "tt_word32 *")] %}
{% call kernel("planted_completion", parameters, max_threads=1) %}
const uint32_t dword_3 = tt_load_acquire_sys_u32(entry + 3);
const uint32_t dword_2 = tt_load_relaxed_sys_u32(entry + 2);
tt_store_relaxed_dev_u32(kept, dword_3 + dword_2);
{% endcall %}
"""


@case("compile/listing", level="L1", clauses=(_ORDER, _MUTANT), budget_s=60.0)
def listing(run: Run) -> Observations:
    """A kernel that stores an entry, fences and rings, and the same one without its fence, in instructions."""
    run.wants_silicon("the instructions must be the device's")
    shop = Workshop(run)
    right = template_root(run, "right", {"planted.cu.j2": _PLANTED})
    wrong = template_root(run, "wrong", {"planted.cu.j2": _PLANTED.replace(_FENCE, "")})
    return {
        name: listed(run, shop, "planted", root, "planted_doorbell")
        for name, root in (("right", right), ("wrong", wrong))
    }


@listing.judge
def _(seen: Seen) -> None:
    for name, clause in (("right", _ORDER), ("wrong", _MUTANT)):
        family, code = code_of(seen, seen[name], "planted_doorbell")
        entries, released = straight(family, code if name == "right" else fenced(family, code))
        # Four quads, each at least one store; some instruction sets take two.
        seen.holds(clause, f"{name}: the stores of the entry are found", entries >= 4, code)
        if name == "right":
            seen.holds(clause, "a system release is between the last of them and the doorbell", released, code)
        else:
            seen.holds(clause, "without the fence there is none", not released, code)


@case(
    "compile/listing.record",
    level="L1",
    clauses=(_ORDER, _WEAKER, _ACQUIRE, _DOORBELL),
    budget_s=120.0,
    quick=False,
    only=tells_doorbells,
)
def listing_record(run: Run) -> Observations:
    """Entry, doorbell and completion as the record lowers them, and as records with a weaker fence or load would."""
    run.wants_silicon("the instructions must be the device's")
    shop = Workshop(run)
    root = template_root(run, "planted", {"planted.cu.j2": _PLANTED + _COMPLETION})
    kernels = ("planted_doorbell", "planted_completion")
    narrow = lowered(shop, "fence.system", scope="device")
    plain = lowered(shop, "load.acquire.system.u32", order="relaxed")
    records = {
        "right": None,
        "dropped": record_with(run, shop, "dropped", {"fence.system": ";", "load.acquire.system.u32": plain or ""}),
        "weakened": record_with(run, shop, "weakened", {"fence.system": narrow or ""}),
    }
    found = {name: listed(run, shop, "planted", root, *kernels, record=record) for name, record in records.items()}
    return {**found, "same_fence": narrow == lowered(shop, "fence.system")}


@listing_record.judge
def _(seen: Seen) -> None:
    seen.equal(_WEAKER, "the record's system fence is its device fence", seen["same_fence"], False)
    for name, clause in (("right", _ORDER), ("dropped", _WEAKER), ("weakened", _WEAKER)):
        family, code = code_of(seen, seen[name], "planted_doorbell")
        entries, released = straight(family, code if name == "right" else fenced(family, code))
        seen.holds(clause, f"{name}: the stores of the entry are found", entries >= 4, code)
        if name == "right":
            seen.holds(clause, "a release is between the entry and the doorbell", released, code)
            rings = [one for one in code if family.store.search(one)][-1:]
            whole = family.doorbell is not None and bool(rings) and bool(family.doorbell.search(rings[0]))
            seen.holds(_DOORBELL, "the doorbell is one store of 32 bits past every cache", whole, rings)
        elif name == "dropped" or family.narrower:
            seen.holds(clause, f"{name}: there is no release behind the entry", not released, code)
    family, code = code_of(seen, seen["right"], "planted_completion")
    seen.holds(_ACQUIRE, "an acquire is between dword 3 and the rest", acquired(family, code), code)
    family, code = code_of(seen, seen["dropped"], "planted_completion")
    seen.holds(_ACQUIRE, "with a relaxed load there is none", not acquired(family, code), code)


@case("compile/listing.relay", level="L1", clauses=(_RELAYED,), budget_s=60.0, quick=False, only=tells_doorbells)
def listing_relay(run: Run) -> Observations:
    """A lane that rings for what others stored, with its fence and without, in instructions."""
    run.wants_silicon("the instructions must be the device's")
    shop = Workshop(run)
    roots = {"right": _RELAY, "wrong": _RELAY.replace(_FENCE, "")}
    return {
        name: listed(run, shop, "planted", template_root(run, name, {"planted.cu.j2": text}), "planted_relay")
        for name, text in roots.items()
    }


@listing_relay.judge
def _(seen: Seen) -> None:
    family, code = code_of(seen, seen["right"], "planted_relay")
    seen.holds(_RELAYED, "a release is between another's mark and the doorbell", relayed(family, code), code)
    if family.relay is None:
        family, code = code_of(seen, seen["wrong"], "planted_relay")
        seen.holds(_RELAYED, "without the fence there is none", not relayed(family, fenced(family, code)), code)


@case(
    "compile/listing.ring",
    level="L1",
    clauses=(_ORDER, _MUTANT, _ACQUIRE, _DOORBELL),
    budget_s=300.0,
    quick=False,
    only=tells_doorbells,
)
def listing_ring(run: Run) -> Observations:
    """The ring's own kernel, and the same one without the fence before its doorbell, in instructions."""
    run.wants_silicon("the instructions must be the device's")
    from tutti_hal.paths import templates_dir

    shop = Workshop(run)
    right = run.subject.templates or templates_dir()
    found: dict[str, Any] = {"right": listed(run, shop, "ring", right, "ring_run")}
    mutants = {
        "no_fence": ("kernels/ring_submit.j2", _FENCE, ""),
        "no_acquire": ("kernels/ring_reap.j2", _TAKE, _TAKE.replace("acquire", "relaxed")),
    }
    for name, (file, old, new) in mutants.items():
        root = mutated_root(run, name, file, old, new)
        found[name] = None if root is None else listed(run, shop, "ring", root, "ring_run")
    return found


@listing_ring.judge
def _(seen: Seen) -> None:
    seen.holds(_MUTANT, "the ring has a fence before its doorbell, to be left out", seen["no_fence"] is not None)
    seen.holds(_ACQUIRE, "the ring acquires dword 3, to be left out", seen["no_acquire"] is not None)
    family, code = code_of(seen, seen["right"], "ring_run")
    rung = doorbells(family, code)
    seen.holds(_ORDER, "the kernel rings doorbells", rung, len(code))
    seen.holds(_ORDER, "each comes after a system release and no later entry", all(rung), rung, rung)
    stores = [one for one in code if family.device is not None and family.device.search(one)]
    whole = [family.doorbell is not None and bool(family.doorbell.search(one)) for one in stores]
    seen.holds(_DOORBELL, "each is one store of 32 bits past every cache", whole and all(whole), stores, whole)
    seen.holds(_ACQUIRE, "an acquire is between dword 3 and the rest", acquired(family, code), len(code))
    if seen["no_fence"] is not None:
        family, code = code_of(seen, seen["no_fence"], "ring_run")
        rung = doorbells(family, fenced(family, code))
        seen.holds(_MUTANT, "without the fence one does not", rung and not all(rung), rung)
    if seen["no_acquire"] is not None:
        family, code = code_of(seen, seen["no_acquire"], "ring_run")
        seen.holds(_ACQUIRE, "with a relaxed load there is none", not acquired(family, code), len(code))

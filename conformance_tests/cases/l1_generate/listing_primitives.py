"""The instructions of each primitive that has a scope, an order or a device register."""

from __future__ import annotations

from typing import Any

from tutti_hal.conformance_tests.case import Observations, case
from tutti_hal.conformance_tests.cases.l1_generate.listing_patterns import follow
from tutti_hal.conformance_tests.cases.l1_generate.listing_promises import promised, tells
from tutti_hal.conformance_tests.cases.l1_generate.listing_template import FAMILIES, kernel_name, unit_text
from tutti_hal.conformance_tests.cases.l1_generate.listing_units import code_of, listed, lowered, record_with
from tutti_hal.conformance_tests.cases.l1_generate.workshop import Workshop, template_root
from tutti_hal.conformance_tests.run import Run
from tutti_hal.conformance_tests.seen import Seen
from tutti_hal.conformance_tests.verdict import SkipReason

_CLAUSE = "compile.listing.primitive"
_WEAKER = {
    "order": {"acquire": "relaxed", "release": "relaxed"},
    "scope": {"system": "device"},
}


@case("compile/listing.primitives", level="L1", clauses=(_CLAUSE,), budget_s=120.0, quick=False)
def listing_primitives(run: Run) -> Observations:
    """A kernel for each primitive, as the record lowers it, and as records of weaker orders and scopes would."""
    from tutti_hal.spec import load_spec

    if run.facts.kind != "hardware":
        run.skip(SkipReason.MACHINE, "scopes are read from a device's instructions, and a CPU's have none")
    shop = Workshop(run)
    primitives = [
        one
        for one in load_spec().primitives.values()
        if one.family in FAMILIES and shop.record.lower(one, shop.arch) is not None
    ]
    root = template_root(run, "each", {"each.cu.j2": unit_text(primitives)})
    names = [kernel_name(one.id) for one in primitives]
    found: dict[str, Any] = {"right": listed(run, shop, "each", root, *names)}
    weaker: dict[str, dict[str, str]] = {}
    for axis, values in _WEAKER.items():
        texts = {}
        for one in primitives:
            value = values.get(one.axes.get(axis, ""))
            text = lowered(shop, one.id, **{axis: value}) if value else None
            if text:
                texts[one.id] = text
        weaker[axis] = dict.fromkeys(texts, "")
        found[axis] = listed(run, shop, "each", root, *names, record=record_with(run, shop, axis, texts))
    table = {one.id: {"family": one.family, "axes": dict(one.axes)} for one in primitives}
    return {**found, "primitives": table, "weaker": {axis: list(texts) for axis, texts in weaker.items()}}


@listing_primitives.judge
def _(seen: Seen) -> None:
    for key, one in seen["primitives"].items():
        family, code = code_of(seen, seen["right"], kernel_name(key))
        patterns = promised(family, one["family"], one["axes"])
        if patterns is None:
            seen.inconclusive(f"the suite has no table of promises for {family.name}; extend listing_promises.py")
            return
        texts = [pattern.pattern for pattern in patterns]
        seen.holds(_CLAUSE, f"{key}: {', then '.join(texts)}", follow(patterns, code), code)
        for axis, weakened in seen["weaker"].items():
            if key not in weakened:
                continue
            weak = {**one["axes"], axis: _WEAKER[axis][one["axes"][axis]]}
            if not tells(family, one["family"], one["axes"], weak):
                continue
            _, code = code_of(seen, seen[axis], kernel_name(key))
            seen.holds(_CLAUSE, f"{key}: with a weaker {axis} the check fails", not follow(patterns, code), code)

"""How a litmus case is judged: from histograms to checks. A pure function of observations; no case is here.

The right form must never have shown its weak outcome, in instances that are all accounted for and of which some were
synchronised. Whether that means anything is said by the twin, the same form with an order or a scope less: it must have
shown that outcome on this device, so often that a run of this size would most likely have shown it of the right form
too. Where a model that is declared forbids the outcome to every form, the twin is pruned; then the pass rests on the
absence of forbidden outcomes alone.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from tutti_hal.conformance_tests.cases.l4_memory.shapes import CPUS, MODELS, SHAPES, Model, Shape, key

if TYPE_CHECKING:
    from tutti_hal.conformance_tests.seen import Facts, Seen

#: The probability with which a run of this size would show again what the twin showed.
REPRODUCIBILITY = 0.95
#: Weak outcomes of the twin that this takes: with n in a budget, the next run of it shows one with 1 - e^-n.
NEEDED = math.ceil(-math.log(1 - REPRODUCIBILITY))


def model_of(facts: Facts, cpu: str) -> Model | None:
    """The declared memory model of where lanes run; None for a device of its own, of which none is declared."""
    if facts.simulated:
        return MODELS["views"]
    if facts.kind == "hardware":
        return None
    name = CPUS.get(cpu)
    return MODELS[name] if name else None


def pruned(facts: Facts, cpu: str, name: str) -> bool:
    """Whether a declared model forbids a shape's weak outcome to its twins, too."""
    model = model_of(facts, cpu)
    return model is not None and name in model.never


def likely(shape: Shape, tally: Mapping[str, Any], right: Mapping[str, Any]) -> float:
    """Weak outcomes that a run of a twin as long as the right form's would most likely show."""
    share = right["instances"] / max(1, tally["instances"])
    return weak_in(shape, tally["histogram"]) * min(1.0, float(share))


def weak_in(shape: Shape, histogram: Mapping[str, int]) -> int:
    """Instances that ended weak."""
    return sum(histogram.get(key(one), 0) for one in shape.weak)


def score(seen: Seen, clauses: Sequence[str], name: str) -> None:
    """Judge a case that observed ``right`` and ``twins`` of a shape, for each of its clauses.

    Args:
        seen: observations ``right`` (a tally), ``twins`` (form -> tally), ``cpu``. A tally has ``histogram`` (outcome
            -> instances), ``instances``, and, where every run was taken, ``complete`` and ``cuts``.
        clauses: that the shape speaks for.
        name: of the shape.
    """
    shape = SHAPES[name]
    for clause in clauses:
        _accounted(seen, clause, shape, seen["right"], "the right form")
        for twin, tally in seen["twins"].items():
            _accounted(seen, clause, shape, tally, twin)
        _never(seen, clause, shape, seen["right"])
        if pruned(seen.facts, seen["cpu"], name):
            continue
        if seen.facts.simulated:
            _shown_by_each(seen, clause, shape)
        else:
            _shown_by_one(seen, shape)


def _accounted(seen: Seen, clause: str, shape: Shape, tally: Mapping[str, Any], who: str) -> None:
    """Every instance is in the histogram, with an outcome that the shape can have."""
    histogram = tally["histogram"]
    counted = sum(histogram.values()) + tally.get("cuts", 0)
    seen.equal(clause, f"{who}: instances in the histogram", counted, tally["instances"])
    known = {key(one) for one in shape.strong | shape.weak}
    strange = {one: number for one, number in histogram.items() if one not in known}
    seen.holds(clause, f"{who}: every outcome ({', '.join(shape.noted)}) is one that was stored", not strange, strange)


def _never(seen: Seen, clause: str, shape: Shape, right: Mapping[str, Any]) -> None:
    histogram = right["histogram"]
    weak = {key(one): histogram[key(one)] for one in sorted(shape.weak) if key(one) in histogram}
    synchronised = sum(histogram.get(key(one), 0) for one in shape.synchronised)
    seen.holds(clause, f"never: {shape.title} ({', '.join(shape.noted)})", not weak, weak, synchronised)
    if seen.facts.simulated:
        seen.holds(clause, "every run within the bounds was taken", right["complete"], right["instances"])
        seen.holds(clause, "in some runs one role saw what another did", synchronised > 0, histogram)
    elif not synchronised:
        seen.inconclusive(f"in none of {right['instances']} instances did one role see what another did")


def _shown_by_each(seen: Seen, clause: str, shape: Shape) -> None:
    """In a world each twin shows the weak outcome, for the model says so of each."""
    for twin, tally in seen["twins"].items():
        shown, seeds = weak_in(shape, tally["histogram"]), tally["instances"]
        seen.holds(clause, f"the twin {twin} shows it within {seeds} seeds", shown > 0, tally["histogram"], seeds)


def _shown_by_one(seen: Seen, shape: Shape) -> None:
    """On a device one twin suffices: a vendor may make an order, or a fence, stronger than it must be."""
    counts = {twin: likely(shape, tally, seen["right"]) for twin, tally in seen["twins"].items()}
    if max(counts.values()) < NEEDED:
        said = "; ".join(
            f"{twin} ended weak in {weak_in(shape, tally['histogram'])} of {tally['instances']} instances, which is"
            f" {counts[twin]:.1f} in the right form's {seen['right']['instances']}"
            for twin, tally in seen["twins"].items()
        )
        seen.inconclusive(
            f"no twin was noticed often enough: {said}; {NEEDED} are needed for a reproducibility of"
            f" {REPRODUCIBILITY:.0%}"
        )

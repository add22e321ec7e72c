"""The evidence of the instructions: a system release between a submission entry and its doorbell."""

from __future__ import annotations

import struct
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tutti_hal.conformance_tests.case import Observations, case
from tutti_hal.conformance_tests.cases.l1_generate.listing_patterns import (
    doorbells,
    family_of,
    instructions,
    straight,
)
from tutti_hal.conformance_tests.cases.l1_generate.workshop import Workshop, mutated_root, template_root
from tutti_hal.conformance_tests.run import Run
from tutti_hal.conformance_tests.seen import Facts, Seen
from tutti_hal.conformance_tests.verdict import SkipReason

if TYPE_CHECKING:
    from collections.abc import Mapping

    from tutti_hal.conformance_tests.seen import Axis

_CLAUSES = ("compile.listing.order", "compile.listing.mutant_fails")

_FENCE = "tt_fence_system();"

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


def _listed(run: Run, shop: Workshop, kernel_set: str, root: Path, kernel: str) -> dict[str, Any]:
    """The listing of one kernel, its ELF machine, and how many bytes the whole listing has."""
    import numpy as np

    from tutti_hal.errors import CompilerMissing
    from tutti_hal.toolchain import build

    module = build(run.profile, kernel_set, arch=shop.arch.name, templates=root).path
    try:
        whole = shop.chain.listing(module)
    except CompilerMissing as error:
        run.skip(SkipReason.TOOL, error.found)
    # e_machine: two bytes at 18 of every ELF file.
    machine = struct.unpack_from("<H", module.read_bytes(), 18)[0]
    text = _kernel_of(whole, kernel)
    return {"machine": machine, "text": np.frombuffer(text.encode(), np.uint8), "whole_bytes": len(whole)}


def _kernel_of(listing: str, kernel: str) -> str:
    """The lines from the label with the kernel's name up to the next function."""
    kept: list[str] = []
    for line in listing.splitlines():
        label = line.rstrip().endswith(":") and not line.startswith((".L", " ", "\t"))
        if label and kernel in line:
            kept.append(line)
        elif kept and (label or line.lstrip().startswith(".section")):
            break
        elif kept:
            kept.append(line)
    return "\n".join(kept)


def _code(seen: Seen, name: str) -> tuple[Any, list[str]]:
    found = seen[name]
    family = family_of(found["machine"], seen.facts.simulated)
    return family, instructions(family, bytes(found["text"]).decode())


@case("compile/listing", level="L1", clauses=_CLAUSES, budget_s=60.0)
def listing(run: Run) -> Observations:
    """A kernel that stores an entry, fences and rings, and the same one without its fence, in instructions."""
    shop = Workshop(run)
    right = template_root(run, "right", {"planted.cu.j2": _PLANTED})
    wrong = template_root(run, "wrong", {"planted.cu.j2": _PLANTED.replace(_FENCE, "")})
    return {
        name: _listed(run, shop, "planted", root, "planted_doorbell")
        for name, root in (("right", right), ("wrong", wrong))
    }


@listing.judge
def _(seen: Seen) -> None:
    order, mutant = _CLAUSES
    for name, clause in (("right", order), ("wrong", mutant)):
        family, code = _code(seen, name)
        entries, released = straight(family, code)
        # Four quads, each at least one store; some instruction sets take two.
        seen.holds(clause, f"{name}: the stores of the entry are found", entries >= 4, code)
        if name == "right":
            seen.holds(clause, "a system release is between the last of them and the doorbell", released, code)
        else:
            seen.holds(clause, "without the fence there is none", not released, code)


def _tells_doorbells(axes: Mapping[str, Axis], facts: Facts) -> bool:
    """Whether a doorbell can be told from other stores: not on a CPU, where it is one of them."""
    del axes
    return facts.simulated or facts.kind == "hardware"


@case("compile/listing.ring", level="L1", clauses=_CLAUSES, budget_s=300.0, quick=False, only=_tells_doorbells)
def listing_ring(run: Run) -> Observations:
    """The ring's own kernel, and the same one without the fence before its doorbell, in instructions."""
    from tutti_hal.paths import templates_dir

    shop = Workshop(run)
    right = run.subject.templates or templates_dir()
    found = {"right": _listed(run, shop, "ring", right, "ring_run"), "wrong": None}
    wrong = mutated_root(run, "wrong", "kernels/ring_submit.j2", _FENCE, "")
    if wrong is not None:
        found["wrong"] = _listed(run, shop, "ring", wrong, "ring_run")
    return found


@listing_ring.judge
def _(seen: Seen) -> None:
    order, mutant = _CLAUSES
    seen.holds(mutant, "the ring has a fence before its doorbell, to be left out", seen["wrong"] is not None)
    for name, clause in (("right", order), ("wrong", mutant)):
        if seen[name] is None:
            continue
        family, code = _code(seen, name)
        rung = doorbells(family, code)
        seen.holds(clause, f"{name}: the kernel rings doorbells", rung, len(code))
        if name == "right":
            seen.holds(clause, "each comes after a system release and no later entry", all(rung), rung, rung)
        else:
            seen.holds(clause, "without the fence one does not", not all(rung), rung)

"""Single words and cells: coherence, cells that tear, read-modify-writes that order nothing."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from tutti_hal.conformance_tests.case import Determinism, Observations, case
from tutti_hal.conformance_tests.cases.l4_memory.forms import THREADS
from tutti_hal.conformance_tests.cases.l4_memory.observing import observe
from tutti_hal.conformance_tests.cases.l4_memory.scoring import score
from tutti_hal.conformance_tests.run import Run
from tutti_hal.conformance_tests.seen import Seen

_OPTIONS: Mapping[str, Any] = {
    "level": "L4",
    "kernels": (THREADS,),
    "budget_s": 60.0,
    "determinism": Determinism.STATISTICAL,
}


@case(
    "litmus/corr",
    clauses=("prim.load.coherent",),
    axes={"bits": (32, 64)},
    primitives=("load.relaxed.device.*",),
    **_OPTIONS,
)
def looks(run: Run) -> Observations:
    """CoRR: two looks at a word that counts up. Twin: the looks in reverse, which shows that stores come in between."""
    bits = run.axes["bits"]
    return observe(run, f"co_right_u{bits}", f"co_looks_u{bits}")


@looks.judge
def _(seen: Seen) -> None:
    score(seen, ("prim.load.coherent",), "co")


@case(
    "litmus/coww",
    clauses=("prim.store.coherent",),
    axes={"bits": (32, 64)},
    primitives=("store.relaxed.device.*",),
    **_OPTIONS,
)
def stores(run: Run) -> Observations:
    """CoWW: two stores to a word, seen by another thread. Twin: the stores in reverse."""
    bits = run.axes["bits"]
    return observe(run, f"co_right_u{bits}", f"co_stores_u{bits}")


@stores.judge
def _(seen: Seen) -> None:
    score(seen, ("prim.store.coherent",), "co")


@case(
    "litmus/tear",
    clauses=("prim.vector.may_tear",),
    axes={"link": ("release", "fence")},
    primitives=("load.vector.relaxed.device.*", "store.vector.relaxed.device.*"),
    **_OPTIONS,
)
def tear(run: Run) -> Observations:
    """A cell of four words behind a flag comes whole, although words of a cell may come apart. Twin: a relaxed flag."""
    return observe(run, f"tear_{run.axes['link']}", "tear_relaxed")


@tear.judge
def _(seen: Seen) -> None:
    score(seen, ("prim.vector.may_tear",), "tear")


@case(
    "litmus/atomic",
    clauses=("prim.atomic.relaxed",),
    axes={"op": ("add", "exchange", "or", "cas")},
    primitives=("atomic.*.device.u32",),
    **_OPTIONS,
)
def atomic(run: Run) -> Observations:
    """MP over read-modify-writes with fences. Twin: without, for a read-modify-write orders nothing by itself."""
    op = run.axes["op"]
    return observe(run, f"mp_fence_{op}_{op}_fence_u32", f"mp_{op}_{op}_u32")


@atomic.judge
def _(seen: Seen) -> None:
    score(seen, ("prim.atomic.relaxed",), "mp")

"""Stores that arrive, and loads that see them, without anybody's further help."""

from __future__ import annotations

import numpy as np

from tutti_hal.conformance_tests.case import Determinism, Observations, case
from tutti_hal.conformance_tests.cases.l4_memory.forms import THREADS
from tutti_hal.conformance_tests.run import Run
from tutti_hal.conformance_tests.seen import Seen

#: How long a thread looks before it gives up, of the right form; the twin, which never sees anything, waits for less.
_PATIENCE_NS, _TWINS_NS = 2_000_000_000, 2_000_000
_CLAUSES = ("prim.load.fresh", "prim.store.reaches_scope")


@case(
    "litmus/fresh",
    level="L4",
    clauses=_CLAUSES,
    axes={"scope": ("device", "system"), "bits": (32, 64)},
    kernels=(THREADS,),
    primitives=("load.relaxed.*", "store.relaxed.*"),
    determinism=Determinism.STATISTICAL,
)
def fresh(run: Run) -> Observations:
    """A thread looks again and again until another block's store comes, whose thread goes on. Twin: it looks once."""
    bits, scope = int(run.axes["bits"]), "dev" if run.axes["scope"] == "device" else "sys"
    found: dict[str, list[list[int]]] = {}
    for form, patience, times in (("right", _PATIENCE_NS, 8), ("twin", _TWINS_NS, 3)):
        kernel = run.kernel(THREADS, f"litmus_fresh_{form}_{scope}_u{bits}")
        found[form] = []
        for _ in range(times):
            for _ in run.schedules(1, policy="random"):
                words, seen = run.buffer(256, "device"), run.buffer(8, "device", fill=0xFF)
                delay = int(run.random.integers(20_000, 200_000))
                word, answer = words[0 : bits // 8], words[128 : 128 + bits // 8]
                run.launch(kernel, 2, 1, word, answer, seen, delay, patience)
                found[form].append(run.read(seen, np.uint32).tolist())
    return found


@fresh.judge
def _(seen: Seen) -> None:
    came = [one for _, one in seen["right"]]
    seen.equal("prim.load.fresh", "what a thread that looks again and again saw at last", came, [1] * len(came))
    answers = [one for one, _ in seen["right"]]
    what = "whether the answer came to the thread that had stored, while both ran"
    seen.equal("prim.store.reaches_scope", what, answers, [1] * len(answers))
    # The store came after the first look: a thread that looks once does not see it.
    once = [one for _, one in seen["twin"]]
    seen.equal("prim.load.fresh", "what a thread that looks once saw", once, [0] * len(once))

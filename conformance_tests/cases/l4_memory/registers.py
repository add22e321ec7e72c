"""Stores to a register: each arrives once, whole, and in its order."""

from __future__ import annotations

import time
from typing import Any

import numpy as np

from tutti_hal.conformance_tests.case import Observations, case
from tutti_hal.conformance_tests.cases.l4_memory.forms import DOORBELLS
from tutti_hal.conformance_tests.cases.l4_memory.small_partner import SmallDoor
from tutti_hal.conformance_tests.run import Run
from tutti_hal.conformance_tests.seen import Seen

_CLAUSES = ("prim.mmio.store.once", "prim.mmio.store.in_order")
#: Numbers that are rung; the smallest drive keeps so many tails, and wraps behind them.
_COUNT = 3
#: How often, with a partner that answers.
_ANSWERED = 32
_PATIENCE_NS = 1_000_000_000
#: What stands beside the register.
_AROUND = 0x5A5A5A5A


@case(
    "litmus/mmio.rings",
    level="L4",
    clauses=_CLAUSES,
    needs=("memory.mapped",),
    kernels=(DOORBELLS,),
    primitives=("mmio.store.*",),
)
def rings(run: Run) -> Observations:
    """A thread counts a register up: in a world a drive takes each number, elsewhere the host answers each. Twin: down.

    The host takes a number by overwriting it, so that one that comes again is seen.
    """
    look = _by_drive if run.world is not None else _by_host
    return {form: look(run, f"rings_{form}") for form in ("right", "twin")}


def _by_drive(run: Run, form: str) -> dict[str, Any]:
    return {"tails": SmallDoor(run, form).tails(_COUNT, 64)}


def _by_host(run: Run, form: str) -> dict[str, Any]:
    memory = run.buffer(512, "mapped")
    words = memory.numpy(np.uint32)
    # The register is a word of mapped host memory, as software controllers have them, words of others around it.
    words[:64] = _AROUND
    words[32] = 0
    kernel = run.kernel(DOORBELLS, f"litmus_{form}")
    run.launch(kernel, 1, 1, memory[128:132], memory[256:260], _ANSWERED, _PATIENCE_NS, wait=False)
    tails: list[int] = []
    end = time.monotonic() + 4 * _PATIENCE_NS / 1e9
    while len(tails) < _ANSWERED and time.monotonic() < end:
        value = int(words[32])
        if value:
            words[32] = 0
            tails.append(value)
            words[64] = value
    run.stream.synchronize()
    return {"tails": [tails], "left": int(words[32]), "around": np.delete(words[:64].copy(), 32)}


@rings.judge
def _(seen: Seen) -> None:
    once, in_order = _CLAUSES
    count = _COUNT if seen.facts.simulated else _ANSWERED
    for tails in seen["right"]["tails"]:
        seen.equal(once, "numbers that arrived, each once", sorted(tails), list(range(1, count + 1)))
        seen.equal(in_order, "numbers in the order in which they arrived", tails, list(range(1, count + 1)))
    for tails in seen["twin"]["tails"]:
        seen.equal(in_order, "the twin's numbers, which count down", tails, list(range(count, 0, -1)))
    if not seen.facts.simulated:
        seen.equal(once, "what is left in the register after the last was taken", seen["right"]["left"], 0)
        around = seen["right"]["around"]
        seen.equal(once, "the words beside the register", around, np.full(len(around), _AROUND, np.uint32))

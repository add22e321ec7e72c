"""What a simulated world's memory shows, form by form; and how long it may show what is old, or hide what is new."""

from __future__ import annotations

import numpy as np

from tutti_hal.conformance_tests.case import Determinism, Observations, case
from tutti_hal.conformance_tests.cases.l4_memory.forms import SEEDS, THREADS
from tutti_hal.conformance_tests.cases.l4_memory.shapes import FORMS, SHAPES, key
from tutti_hal.conformance_tests.cases.l4_memory.small import SmallInstance
from tutti_hal.conformance_tests.run import Run
from tutti_hal.conformance_tests.seen import Seen

_NEEDS = ("engine.simulation",)
#: Forged observations show that the judges can fail (tests/conformance/test_litmus.py).
_NO_MUTANT = "it is about the engine's memory, which no template, record or controller changes"


def _forms(shape: str) -> list[str]:
    return [form for form, (name, _) in FORMS.items() if name == shape]


@case(
    "litmus/engine.table",
    level="L4",
    clauses=("engine.memory.weak_seen", "engine.memory.forbidden_never"),
    needs=_NEEDS,
    no_mutant=_NO_MUTANT,
    kernels=(THREADS,),
    axes={"shape": tuple(dict.fromkeys(shape for shape, _ in FORMS.values()))},
    budget_s=60.0,
)
def table(run: Run) -> Observations:
    """Each form of a shape: all outcomes of all runs, and after how many seeds each weak one that is allowed came."""
    found = {}
    for form in _forms(str(run.axes["shape"])):
        one = SmallInstance(run, form)
        # What waits by the clock has no end where the clock stands still, as it does while all runs are taken.
        every = {} if form == "barrier_twin" else one.explore()
        found[form] = {"every": every, "seeds": one.by_seeds(FORMS[form][1], each=True)}
    return {"forms": found}


@table.judge
def _(seen: Seen) -> None:
    name = str(seen.axes["shape"])
    shape = SHAPES[name]
    seen.equal("engine.memory.forbidden_never", "forms of the shape", list(seen["forms"]), _forms(name))
    silent = True
    for form, one in seen["forms"].items():
        weak = {key(outcome) for outcome in FORMS[form][1]}
        allowed = weak | {key(outcome) for outcome in shape.strong}
        for how in ("every", "seeds"):
            tally = one[how]
            if tally:
                strange = {outcome: number for outcome, number in tally["histogram"].items() if outcome not in allowed}
                what = f"{form}: no outcome that the memory model forbids"
                seen.holds("engine.memory.forbidden_never", what, not strange, strange, tally["instances"])
        if one["every"]:
            what = f"{form}: all runs within the bounds were taken"
            seen.holds("engine.memory.forbidden_never", what, one["every"]["complete"], one["every"]["instances"])
        if weak:
            silent = False
            missing = sorted(weak - set(one["seeds"]["first"]))
            what = f"{form}: every weak outcome that the memory model allows within {SEEDS} seeds"
            seen.holds("engine.memory.weak_seen", what, not missing, missing, weak)
    if silent:
        # Nothing weak is allowed to any form: then none was produced, which the histograms say.
        counted = sum(one["seeds"]["instances"] for one in seen["forms"].values())
        shown = [one for one in seen["forms"].values() if any(key(w) in one["every"]["histogram"] for w in shape.weak)]
        seen.holds(
            "engine.memory.weak_seen",
            "the model allows no weak outcome, and none came",
            not shown,
            shown,
            max(1, counted),
        )


#: Reads after which the newest value is seen, in the worlds that are asked for.
_STALE = (2, 8, 64)
_WAITS = (20, 60, 140)
_LOOKS = 4096


@case(
    "litmus/engine.staleness",
    level="L4",
    clauses=("engine.memory.staleness_bounded",),
    needs=_NEEDS,
    no_mutant=_NO_MUTANT,
    kernels=(THREADS,),
    axes={"reads": _STALE},
)
def staleness(run: Run) -> Observations:
    """A thread looks at a word again and again; the host stores it meanwhile. Noted: its looks from then on."""
    reads = int(run.axes["reads"])
    memory = run.buffer(256, "mapped")
    run.closing.callback(run.subject.reset_world)
    found = []
    for index in range(48):
        memory.numpy(np.uint32)[:] = 0
        steps = _WAITS[index % len(_WAITS)]
        # Every second world takes an older value wherever it may: nothing but the bound ends that.
        seed = (run.seed + index) % 2**63 or 1
        how = {"policy": "random"} if index % 2 else {"policy": "script", "script": (1,) * (2 * max(_STALE))}
        run.subject.reset_world(seed=seed, staleness_reads=reads, **how)
        run.launch(run.kernel(THREADS, "litmus_poll"), 1, 1, memory[0:4], memory[128:136], _LOOKS, wait=False)
        # No look takes less than a step.
        run.world.run(steps)
        run.world.store(memory.host_address, 1)
        run.stream.synchronize()
        looks, value = memory.numpy(np.uint32, 2, 128)
        found.append([steps, int(looks), int(value)])
    return {"found": found}


@staleness.judge
def _(seen: Seen) -> None:
    clause, reads = "engine.memory.staleness_bounded", int(seen.axes["reads"])
    later = [looks - steps for steps, looks, _ in seen["found"]]
    seen.equal(clause, "what was seen at last", [value for *_, value in seen["found"]], [1] * len(later))
    what = f"looks after the host's store: no more than {reads} at the old value"
    seen.holds(clause, what, max(later) <= reads + 1, later, later)
    seen.holds(
        clause, "a world that shows the old value as long as it may does so", max(later) >= reads - 1, later, later
    )


@case(
    "litmus/engine.invisible",
    level="L4",
    clauses=("engine.memory.invisible_until_end",),
    needs=_NEEDS,
    no_mutant=_NO_MUTANT,
    kernels=(THREADS,),
    axes={"hidden": (True, False)},
    determinism=Determinism.EXACT,
)
def invisible(run: Run) -> Observations:
    """A kernel stores to device memory, fences and goes on; the host looks meanwhile, and when it has ended."""
    word, go = run.buffer(4, "device"), run.buffer(4, "mapped")
    run.closing.callback(run.subject.reset_world)
    found = []
    for index in range(8):
        run.stream.fill(word, 0)
        run.stream.synchronize()
        go.numpy(np.uint32)[:] = 0
        seed = (run.seed + index) % 2**63 or 1
        run.subject.reset_world(policy="random", seed=seed, device_stores_invisible=bool(run.axes["hidden"]))
        run.launch(run.kernel(THREADS, "litmus_hold"), 1, 1, word, go, 10**9, wait=False)
        meanwhile = []
        for _ in range(32):
            ended = run.world.run(16)
            meanwhile.append(int(run.world.load(word.address)))
        run.world.store(go.host_address, 1)
        run.stream.synchronize()
        found.append({"ended": ended, "meanwhile": meanwhile, "after": int(run.world.load(word.address))})
    return {"found": found}


@invisible.judge
def _(seen: Seen) -> None:
    clause = "engine.memory.invisible_until_end"
    for one in seen["found"]:
        seen.equal(clause, "whether the kernel had ended while the host looked", one["ended"], False)
        if seen.axes["hidden"]:
            seen.equal(clause, "what the host saw meanwhile", one["meanwhile"], [0] * len(one["meanwhile"]))
        else:
            seen.equal(clause, "without the setting: what the host saw last meanwhile", one["meanwhile"][-1], 1)
        seen.equal(clause, "what it saw after the kernel's end", one["after"], 1)

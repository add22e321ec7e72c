"""Which threads run, on what, and that those of other waves can be waited for."""

from __future__ import annotations

import numpy as np

from tutti_hal.conformance_tests.case import Observations, case
from tutti_hal.conformance_tests.cases.l3_primitives.grids import UNTOUCHED32, threads, worlds
from tutti_hal.conformance_tests.observation import refusal
from tutti_hal.conformance_tests.run import Run
from tutti_hal.conformance_tests.seen import Facts, Seen

#: Every scheduler that lets each lane run which can.
FAIR = ("fair", "lockstep", "random", "pct")

_BLOCKS = 3


@case(
    "engine/partial_wave",
    level="L3",
    clauses=("engine.partial_wave.runs",),
    axes={"threads": ("1", "w-1", "w+1", "3w-5")},
    kernels=("probe_engine",),
)
def partial_wave(run: Run) -> Observations:
    """Blocks of any size run each of their threads once, and none beside them."""
    count = threads(run)
    seen = []
    for _ in worlds(run):
        rows, numbers = (run.buffer(4 * (_BLOCKS * count + 64), "device", fill=0xFF) for _ in range(2))
        following = run.buffer(4, "device")
        run.launch(run.kernel("probe_engine", "engine_number"), _BLOCKS, count, rows, numbers, following)
        seen.append([run.read(one, np.uint32) for one in (rows, numbers)])
    return {"threads": count, "seen": np.array(seen)}


@partial_wave.judge
def _(seen: Seen) -> None:
    clause, count = "engine.partial_wave.runs", seen["threads"]
    beside = np.full(64, UNTOUCHED32, np.uint32)
    for rows, numbers in seen["seen"]:
        wanted = np.tile(np.arange(count, dtype=np.uint32) + 1, _BLOCKS)
        seen.equal(clause, "what each thread wrote, and nothing beside it", rows, np.concatenate([wanted, beside]))
        taken = np.sort(numbers[: _BLOCKS * count])
        seen.equal(clause, "how often anything ran", taken, np.arange(_BLOCKS * count, dtype=np.uint32))


@case("engine/wait_across", level="L3", clauses=("engine.cross_wave_wait.finishes",), kernels=("probe_engine",))
def wait_across(run: Run) -> Observations:
    """Waves wait, with a pause and no bound, for the first wave of their block, and all of them finish."""
    count = 3 * run.facts.wave_width - 5
    done = []
    for _ in worlds(run, FAIR, each=2):
        word, counter = run.buffer(4, "device"), run.buffer(4, "device")
        run.launch(run.kernel("probe_engine", "engine_wait_across"), 1, count, word, counter)
        done.append(int(run.read(counter, np.uint32)[0]))
    return {"threads": count, "done": done}


@wait_across.judge
def _(seen: Seen) -> None:
    clause, schedules = "engine.cross_wave_wait.finishes", 2 * len(FAIR) if seen.facts.simulated else 1
    seen.equal(clause, "threads that finished, by schedule", seen["done"], [seen["threads"]] * schedules)


def _has_others(_: object, facts: Facts) -> bool:
    return bool(facts.arch)


@case("engine/width", level="L3", clauses=("engine.width.constant",), kernels=("probe_engine",), only=_has_others)
def width(run: Run) -> Observations:
    """The arch's own module loads and runs; what was compiled for each other arch of the record is refused."""
    from tutti_hal.toolchain import build

    word, counter = run.buffer(4, "device"), run.buffer(4, "device")
    run.launch(run.kernel("probe_engine", "engine_wait_across"), 1, 1, word, counter)
    others = {}
    for arch in run.profile.record.archs:
        if arch != run.facts.arch:
            path = build(run.profile, "probe_engine", arch=arch, templates=run.subject.templates).path
            others[arch] = refusal(lambda path=path: run.device.load_module(path).close())  # type: ignore[misc]
    return {"own": int(run.read(counter, np.uint32)[0]), "others": others}


@width.judge
def _(seen: Seen) -> None:
    clause = "engine.width.constant"
    seen.equal(clause, "threads of the own module that ran", seen["own"], 1)
    for arch, found in seen["others"].items():
        seen.refused(clause, f"a module of {arch}", found, "ModuleInvalid", "NoKernelImageForDevice")

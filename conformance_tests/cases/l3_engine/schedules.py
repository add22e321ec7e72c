"""What a simulated world promises of its schedules, its clock and its ends."""

from __future__ import annotations

import hashlib
from typing import Any

import numpy as np

from tutti_hal.conformance_tests.case import Observations, case
from tutti_hal.conformance_tests.cases.l3_engine.threads import FAIR
from tutti_hal.conformance_tests.observation import refusal
from tutti_hal.conformance_tests.run import Run
from tutti_hal.conformance_tests.seen import Seen

_NEEDS = ("engine.simulation",)
_SECOND_NS = 10**9


def _ended(run: Run, kernel: str, grid: int, block: int, *args: Any, limit_ns: int = _SECOND_NS) -> dict[str, Any]:
    """Launch, and say how it ended: the refusal, and the vendor's report."""
    found = refusal(lambda: run.launch(run.kernel("probe_engine", kernel), grid, block, *args, limit_ns=limit_ns))
    report = run.device.launch_report()
    assert report is not None, "a launch has ended"
    shown = {"outcome": report.outcome, "stuck": report.stuck_lanes, "elapsed_ns": report.elapsed_ns}
    return {**found, **shown, "message": report.message}


@case("engine/replay", level="L3", clauses=("engine.replay.exact",), needs=_NEEDS, kernels=("probe_engine",))
def replay(run: Run) -> Observations:
    """The same race three times: twice from one seed, once from another."""
    runs = []
    count = run.facts.wave_width + 3
    rows, numbers = (run.buffer(4 * 2 * count, "device") for _ in range(2))
    following = run.buffer(4, "device")
    for seed in (run.seed | 1, run.seed | 1, (run.seed | 1) + 2):
        run.stream.fill(following, 0)
        run.stream.synchronize()
        run.subject.reset_world(policy="random", seed=seed)
        run.launch(run.kernel("probe_engine", "engine_number"), 2, count, rows, numbers, following)
        choices = [(one.taken, one.alternatives) for one in run.world.choices()]
        steps, now_ns = run.world.steps, run.world.now_ns
        digest = hashlib.sha256(repr(choices).encode()).hexdigest()
        runs.append([len(choices), digest, steps, now_ns, run.read(numbers, np.uint32).tolist()])
    return {"runs": runs}


@replay.judge
def _(seen: Seen) -> None:
    clause, (first, again, other) = "engine.replay.exact", seen["runs"]
    seen.equal(clause, "a second run from the same seed: choices, steps, time and results", again, first)
    seen.holds(clause, "there was something to choose", first[0] > 100, first[0])
    seen.holds(clause, "another seed takes other choices", other[1] != first[1], other[:4])


@case(
    "engine/deadlock",
    level="L3",
    clauses=("engine.deadlock.reported",),
    needs=("launch.bounded",),
    kernels=("probe_engine",),
)
def deadlock(run: Run) -> Observations:
    """Half of the lanes wait at a barrier and half for their wave, so that nobody can ever go on."""
    count = run.facts.wave_width - 3
    entered = run.buffer(4)
    view = entered.numpy(np.uint32)
    found = _ended(run, "engine_mismatch", 1, count, entered, limit_ns=60 * _SECOND_NS)
    return {"threads": count, "ended": found, "entered": int(view[0])}


@deadlock.judge
def _(seen: Seen) -> None:
    clause, ended, count = "engine.deadlock.reported", seen["ended"], seen["threads"]
    seen.refused(clause, "the launch", ended, "LaunchDeadlock")
    seen.equal(clause, "outcome and lanes that are stuck", (ended["outcome"], ended["stuck"]), ("deadlock", count))
    seen.equal(clause, "threads that had entered", seen["entered"], count)
    for place in ("engine_mismatch", "block_barrier", "wave_sync"):
        seen.holds(clause, f"the report names the place '{place}'", place in ended["message"], ended["message"])
    named = _threads_named(ended["message"])
    seen.equal(clause, "threads that the report names", named, list(range(count)))


def _threads_named(message: str) -> list[int]:
    """The thread numbers in a report: ``threads 1-3,5 at ...``."""
    import re

    found: set[int] = set()
    for listing in re.findall(r"threads? ([0-9][0-9, -]*)", message):
        for part in re.findall(r"\d+(?:-\d+)?", listing):
            first, _, last = part.partition("-")
            found |= set(range(int(first), int(last or first) + 1))
    return sorted(found)


@case(
    "engine/limit",
    level="L3",
    clauses=("engine.limit.exact",),
    needs=_NEEDS,
    kernels=("probe_engine",),
    axes={"limit_ns": (1000, 123457, 5_000_000)},
)
def limit(run: Run) -> Observations:
    """A kernel that waits for ten seconds of virtual time is given less."""
    return {"ended": _ended(run, "engine_outlast", 1, 3, 10 * _SECOND_NS, limit_ns=int(run.axes["limit_ns"]))}


@limit.judge
def _(seen: Seen) -> None:
    clause, ended = "engine.limit.exact", seen["ended"]
    seen.refused(clause, "the launch", ended, "LaunchTimeout")
    seen.equal(
        clause,
        "how it ended, and after what time",
        (ended["outcome"], ended["elapsed_ns"]),
        ("limit", seen.axes["limit_ns"]),
    )


@case(
    "engine/lockstep",
    level="L3",
    clauses=("engine.lockstep.same_wave_wait_deadlocks",),
    needs=_NEEDS,
    kernels=("probe_engine",),
)
def lockstep(run: Run) -> Observations:
    """Lanes of one wave take a lock in turn: where each progresses alone, and where all go in step."""
    ended = {}
    for policy in ("fair", "random", "pct", "lockstep"):
        run.subject.reset_world(policy=policy, seed=run.seed | 1, **({"pct_depth": 3} if policy == "pct" else {}))
        lock, total = run.buffer(4), run.buffer(4)
        view = total.numpy(np.uint32)
        ended[policy] = {**_ended(run, "engine_lock_in_wave", 1, 8, lock, total), "sum": int(view[0])}
    return {"ended": ended}


@lockstep.judge
def _(seen: Seen) -> None:
    clause = "engine.lockstep.same_wave_wait_deadlocks"
    for policy, one in seen["ended"].items():
        if policy == "lockstep":
            seen.refused(clause, "the launch in step", one, "LaunchDeadlock")
            seen.equal(clause, "how it ended", one["outcome"], "deadlock")
        else:
            seen.equal(
                clause,
                f"{policy}: how it ended, and lanes that had the lock",
                (one["outcome"], one["sum"]),
                ("done", 8),
            )


#: Looks of the waiting lane: more than any fair schedule needs before all of the others have run.
_LOOKS = 4096


@case(
    "engine/starvation",
    level="L3",
    clauses=("engine.starvation.only_by_policy",),
    needs=_NEEDS,
    kernels=("probe_engine",),
)
def starvation(run: Run) -> Observations:
    """One lane looks, and pauses, while the others run; under every policy but the starving one all of them do."""
    found = []
    count = run.facts.wave_width + 5
    for policy in FAIR:
        for _ in run.schedules(2, policy=policy):
            counter, seen_by_first = run.buffer(4), run.buffer(4)
            view = seen_by_first.numpy(np.uint32)
            ended = _ended(run, "engine_all_run", 2, count, counter, seen_by_first, _LOOKS)
            found.append({"policy": policy, "outcome": ended["outcome"], "ran": int(view[0])})
    return {"threads": 2 * count, "found": found}


@starvation.judge
def _(seen: Seen) -> None:
    for one in seen["found"]:
        # In step, the lanes of the waiting lane's own wave cannot run before it comes back to them.
        own_wave = seen.facts.wave_width if one["policy"] == "lockstep" else 1
        seen.equal(
            "engine.starvation.only_by_policy",
            f"{one['policy']}: how it ended, and lanes that ran while one waited",
            (one["outcome"], one["ran"]),
            ("done", seen["threads"] - own_wave),
        )

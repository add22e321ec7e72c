"""A small demonstration of each capability of an arch, and what all demonstrations share."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from tutti_hal.conformance_tests.cases.l2_host.gates import PATIENCE_NS, launch_on, peek, poke
from tutti_hal.conformance_tests.run import Run
from tutti_hal.conformance_tests.seen import Facts

Shown = Mapping[str, Any]


@dataclass(frozen=True)
class Demonstration:
    """How a capability is shown.

    Attributes:
        show: does something that only who has the capability can do, and says what came of it.
        statement: what must be so, in words.
        holds: whether it is, by what came of it and what is declared of the arch.
    """

    show: Callable[[Run], Shown]
    statement: str
    holds: Callable[[Shown, Facts], bool]


def _ballot(run: Run) -> Shown:
    threads = min(run.facts.wave_width, 64)
    masks = run.buffer(8 * threads, "device")
    run.launch(run.kernel("probe_launch", "claim_ballot"), 1, threads, masks)
    return {"masks": run.read(masks, np.uint64)}


def _ballot_holds(shown: Shown, facts: Facts) -> bool:
    threads = min(facts.wave_width, 64)
    odd = sum(1 << lane for lane in range(1, threads, 2))
    return len(shown["masks"]) == threads and all(int(mask) == odd for mask in shown["masks"])


_ROUNDS = 40


def _order(kernel: str, whole_block: bool) -> Callable[[Run], Shown]:
    def show(run: Run) -> Shown:
        threads = 256 if whole_block else min(run.facts.wave_width, 256)
        words, wrong = run.buffer(4 * threads, "device"), run.buffer(8, "device")
        run.launch(run.kernel("probe_launch", kernel), 1, threads, words, wrong, _ROUNDS)
        return {"wrong": run.read(wrong, np.uint32).tolist(), "threads": threads}

    return show


def _order_holds(shown: Shown, _: Facts) -> bool:
    return bool(shown["wrong"] == [0, _ROUNDS * shown["threads"]])


def _seen_by_copy(run: Run) -> Shown:
    """Another stream's copy engine is the peer that every machine has."""
    word, flags = run.buffer(4, "device"), run.buffer(8)
    found: list[int] = []
    out = np.zeros(1, np.uint32)
    run.launch(run.kernel("probe_launch", "claim_store"), 1, 1, word, flags[0:4], flags[4:8], PATIENCE_NS, wait=False)
    with run.device.create_stream() as beside:
        while len(found) < 2000 and 77 not in found:
            beside.copy(out, word)
            beside.synchronize()
            found.append(int(out[0]))
            if run.world is not None:
                run.world.run(500)
    running = peek(run, flags, 4) == 0
    poke(run, flags, 1)
    run.stream.synchronize()
    return {"last": found[-1], "running": running, "ended": peek(run, flags, 4)}


def _clock(run: Run) -> Shown:
    turn, times = run.buffer(4, "device"), run.buffer(4 * 8, "device")
    run.launch(run.kernel("probe_launch", "claim_clock"), 4, 1, turn, times, PATIENCE_NS)
    return {"times": run.read(times, np.uint64)}


def _clock_holds(shown: Shown, _: Facts) -> bool:
    times = [int(one) for one in shown["times"]]
    return times[0] > 0 and times == sorted(times)


_SLEEP_NS, _SLEEPS = 100_000, 8


def _sleep(run: Run) -> Shown:
    rows = run.buffer(8 * _SLEEPS, "device")
    for index in range(_SLEEPS):
        run.launch(run.kernel("probe_launch", "claim_sleep"), 1, 1, rows[8 * index : 8 * index + 8], _SLEEP_NS)
    return {"slept_ns": run.read(rows, np.uint64)}


def _print(run: Run) -> Shown:
    """What a kernel prints goes to the process's standard output, which is a file of the case's meanwhile."""
    import ctypes
    import os
    import sys

    libc = ctypes.CDLL(None)
    kernel, path = run.kernel("probe_launch", "claim_print"), run.scratch / "printed"
    sys.stdout.flush()
    libc.fflush(None)
    kept = os.dup(1)
    try:
        with path.open("wb") as file:
            os.dup2(file.fileno(), 1)
        run.launch(kernel, 1, 1, 4711)
        run.device.synchronize()
        libc.fflush(None)
    finally:
        os.dup2(kept, 1)
        os.close(kept)
    return {"printed": path.read_text(errors="replace")}


def _lanes(run: Run) -> Shown:
    """In a simulated world under the one schedule that runs the lanes of a wave in step."""
    found = []
    for _ in run.schedules(1, policy="lockstep"):
        flag, seen = run.buffer(4, "device"), run.buffer(4, "device")
        run.launch(run.kernel("probe_launch", "claim_lanes"), 1, 2, flag, seen, 10_000_000)
        found.append(int(run.read(seen, np.uint32)[0]))
    return {"seen": found}


def _system_atomic(run: Run) -> Shown:
    total = run.buffer(4)
    run.launch(run.kernel("probe_launch", "claim_system_atomic"), 3, 64, total)
    return {"sum": int(run.read(total, np.uint32)[0])}


def _repeats(run: Run) -> Shown:
    """Three runs of one launch in a world: two from one seed, one from another."""
    runs = []
    for seed in (7, 7, 8):
        run.subject.reset_world(policy="random", seed=seed)
        ran = small_launch(run)
        choices = [one.taken for one in run.world.choices()]
        runs.append([ran, run.world.steps, run.world.now_ns, choices])
    return {"runs": runs}


def _repeats_holds(shown: Shown, _: Facts) -> bool:
    first, again, other = shown["runs"]
    return bool(first == again and first[3] and first[3] != other[3])


#: Capability of an arch -> its demonstration.
OF_ARCHS: dict[str, Demonstration] = {
    "wave.ballot": Demonstration(_ballot, "a ballot names exactly the odd lanes", _ballot_holds),
    "wave.sync.orders_memory": Demonstration(
        _order("claim_wave_order", False), "a neighbour's word is there after every wave sync", _order_holds
    ),
    "barrier.orders_memory": Demonstration(
        _order("claim_block_order", True), "a neighbour's word is there after every barrier", _order_holds
    ),
    "memory.device_stores_visible_to_peers": Demonstration(
        _seen_by_copy,
        "a copy beside the kernel reads its store to device memory before it ends",
        lambda shown, _: (shown["last"], shown["running"], shown["ended"]) == (77, True, 2),
    ),
    "atomic.system": Demonstration(
        _system_atomic,
        "what the threads of three blocks add to a word of the host is all there",
        lambda shown, _: shown["sum"] == 3 * 64 * 65 // 2,
    ),
    "clock.global_ns": Demonstration(_clock, "blocks that read the clock in turn read ever later times", _clock_holds),
    "time.sleep": Demonstration(
        _sleep,
        "sleeps take time, one eighth of what is asked for at the least",
        lambda shown, _: int(shown["slept_ns"].sum()) >= _SLEEP_NS,
    ),
    "debug.print": Demonstration(
        _print, "the printed line comes out", lambda shown, _: "claim_print says 4711\n" in shown["printed"]
    ),
    "progress.lanes_independent": Demonstration(
        _lanes, "a lane sees what a later lane of its own wave stores", lambda shown, _: shown["seen"] == [7]
    ),
    "engine.simulation": Demonstration(
        _repeats, "a run repeats from its seed, choice for choice, and another seed takes others", _repeats_holds
    ),
}


def small_launch(run: Run, **options: Any) -> int:
    """Threads that ran of a launch of 2 x 16 with these options."""
    word = run.buffer(4, "device")
    launch_on(run.stream, run.kernel("probe_launch", "launch_small"), 2, 16, word, **options)
    return int(run.read(word, np.uint32)[0])

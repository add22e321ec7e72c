"""The clock, sleeping, and giving way.

What is exact in virtual time is judged exactly there. Where time is real, a machine may take the processor away at any
moment for as long as it likes: there nothing is judged that a delay could spoil.
"""

from __future__ import annotations

import itertools
import time

import numpy as np

from tutti_hal.conformance_tests.case import Observations, case
from tutti_hal.conformance_tests.cases.l3_primitives.grids import threads, worlds
from tutti_hal.conformance_tests.run import Run
from tutti_hal.conformance_tests.seen import Seen

#: Assumed of real clocks, since a record states the resolution in words: twice the largest step that one is known to
#: take, and a rate that is right to a thousandth.
_RESOLUTION_NS = 2_000
_RATE = 1_000

#: Assumed of real sleeps likewise: the vendor's granularity is at most a millisecond, the longest sleep of some.
_GRANULARITY_NS = 1_000_000

#: A clock that is no clock of the whole device may read short by this factor.
_SHORT = 4

_SPAN_NS = {True: 200_000, False: 10_000_000}


@case(
    "prim/clock.monotonic",
    level="L3",
    clauses=("prim.clock.monotonic",),
    axes={"threads": ("1", "w+1")},
    kernels=("probe_control",),
    primitives=("time.clock",),
)
def clock_monotonic(run: Run) -> Observations:
    """Every thread of some blocks reads the clock again and again."""
    count, blocks, reads = threads(run), 2, 32
    rows = []
    for _ in worlds(run):
        row = run.buffer(count * blocks * reads * 8, "device")
        run.launch(run.kernel("probe_control", "control_clock"), blocks, count, row, reads)
        rows.append(run.read(row, np.uint64, (-1, reads)))
    return {"rows": np.concatenate(rows)}


@clock_monotonic.judge
def _(seen: Seen) -> None:
    steps = np.diff(seen["rows"].astype(np.int64), axis=1)
    seen.holds("prim.clock.monotonic", "no reading is before the one before it", (steps >= 0).all(), steps.min(), steps)


@case(
    "prim/clock.advances",
    level="L3",
    clauses=("prim.clock.advances",),
    kernels=("probe_control",),
    primitives=("time.clock",),
)
def clock_advances(run: Run) -> Observations:
    """Three launches wait by the device's clock, and the host's clock is read before and after each."""
    span = _SPAN_NS[run.facts.simulated]
    kernel = run.kernel("probe_control", "control_span")
    spans, host = [], []
    for _ in range(3):
        row = run.buffer(16, "device")
        before = _host_ns(run)
        run.launch(kernel, 1, 1, row, span)
        host.append((before, _host_ns(run)))
        spans.append(run.read(row, np.uint64).tolist())
    return {"span": span, "device": spans, "host": host}


def _host_ns(run: Run) -> int:
    return int(run.world.now_ns) if run.world is not None else time.perf_counter_ns()


@clock_advances.judge
def _(seen: Seen) -> None:
    clause, exact = "prim.clock.advances", seen.facts.simulated
    device, host = seen["device"], seen["host"]

    def spare(ns: int) -> int:
        return 0 if exact else _RESOLUTION_NS + ns // _RATE

    # A delay only ever widens what the host measured around a launch: a clock that is too fast is found by this.
    for (first, last), (before, after) in zip(device, host, strict=True):
        told, most = last - first, after - before
        seen.holds(clause, "a wait by the device's clock is as long as asked", told >= seen["span"], told)
        what = "it took no longer by the device's clock than by the host's around it"
        seen.holds(clause, what, told <= most + spare(most), f"{told} ns within {most} ns")
    if not seen.facts.capabilities["clock.global_ns"]:
        # Only readings of one thread can be compared, and they may be short, but not by how much they like. A machine
        # may lengthen any launch; that it lengthened all of them is the clock's doing.
        most, told = min(
            (after - before, last - first) for (first, last), (before, after) in zip(device, host, strict=True)
        )
        seen.holds(
            clause,
            "no wait is four times what was asked",
            most <= _SHORT * told + _GRANULARITY_NS,
            f"{most} ns for {told} ns",
        )
        return
    # From the end of the first wait to the start of the last, by both: one that is too slow is found by this.
    gap = device[2][0] - device[0][1]
    least, most = host[2][0] - host[0][1], host[2][1] - host[0][0]
    what = "the time from the first wait to the last lies within what the host measured"
    held = least - spare(least) <= gap <= most + spare(most)
    seen.holds(clause, what, held, f"{gap} ns, not in [{least}, {most}]")


@case(
    "prim/clock.yields",
    level="L3",
    clauses=("prim.clock.yields",),
    kernels=("probe_control",),
    primitives=("time.clock",),
)
def clock_yields(run: Run) -> Observations:
    """One thread of a block of three waves reads the clock many times; the others run meanwhile.

    Many times is a number, not a time: what the machine does beside it cannot spoil it.
    """
    width = run.facts.wave_width
    seen, after = [], []
    # Not pct: its rule is that whoever has the highest priority goes on for as long as it does not pause.
    for _ in worlds(run, ("fair", "random", "lockstep", "starve-one")):
        been, found, total = run.buffer(8, "device"), run.buffer(8, "device"), run.buffer(8, "device")
        run.launch(run.kernel("probe_control", "control_clock_yields"), 1, 3 * width, been, found, total, 20_000)
        seen.append(run.read(found, np.uint32))
        after.append(run.read(been, np.uint32))
    return {"seen": np.stack(seen), "after": np.stack(after)}


@clock_yields.judge
def _(seen: Seen) -> None:
    clause, width = "prim.clock.yields", seen.facts.wave_width
    for meanwhile, after in zip(seen["seen"], seen["after"], strict=True):
        seen.equal(clause, "threads of other waves that ran during the loop", int(meanwhile[1]), 2 * width)
        seen.equal(
            clause, "lanes of its wave and of the others that ran at all", after.tolist(), [width - 1, 2 * width]
        )
        # Lanes that get on by themselves need not do so at once: only where each step is chosen is that told apart.
        if seen.facts.simulated and seen.facts.capabilities["progress.lanes_independent"]:
            seen.equal(clause, "lanes of its own wave that ran during the loop", int(meanwhile[0]), width - 1)


@case(
    "prim/pause.yields",
    level="L3",
    clauses=("prim.pause.yields",),
    axes={"way": ("pausing", "sleeping")},
    kernels=("probe_control",),
    primitives=("time.pause", "time.sleep"),
)
def pause_yields(run: Run) -> Observations:
    """A token goes from wave to wave of a block; each waits for it, and looks a bounded number of times."""
    waves = 4
    rows = []
    # Mostly pct: there, whoever has the highest priority gives way by pausing and by nothing else. Not starve-one: it
    # may keep the one that is waited for from running for longer than any number of looks.
    for _ in itertools.chain(worlds(run, ("random", "lockstep", "fair")), worlds(run, ("pct",), each=12)):
        token, held = run.buffer(4, "device"), run.buffer(waves * 4, "device")
        kernel = run.kernel("probe_control", f"control_hand_over_{run.axes['way']}")
        run.launch(kernel, 1, waves * run.facts.wave_width - 3, token, held, 3_000)
        rows.append(run.read(held, np.uint32))
    return {"held": np.stack(rows)}


@pause_yields.judge
def _(seen: Seen) -> None:
    held = seen["held"]
    wanted = np.broadcast_to(np.arange(held.shape[1], 0, -1, dtype=np.uint32), held.shape)
    seen.equal("prim.pause.yields", "waves that held the token, in order", held, wanted)


@case(
    "prim/sleep",
    level="L3",
    clauses=("prim.sleep.bounded",),
    axes={"ns": (1_000, 100_000, 1_000_000)},
    kernels=("probe_control",),
    primitives=("time.sleep",),
)
def sleep(run: Run) -> Observations:
    """One thread sleeps again and again, with the clock read around each sleep."""
    rows = run.buffer(8 * 16, "device")
    run.launch(run.kernel("probe_control", "control_sleep"), 1, 1, rows, int(run.axes["ns"]), 8)
    return {"rows": run.read(rows, np.uint64, (-1, 2))}


@sleep.judge
def _(seen: Seen) -> None:
    took = (seen["rows"][:, 1] - seen["rows"][:, 0]).astype(np.int64)
    if seen.facts.simulated:
        most, judged, what = 2 * int(seen.axes["ns"]), took, "every sleep"
    else:
        # Any sleep may be lengthened by the machine; that all of them are is the lowering's doing.
        most, judged, what = 2 * int(seen.axes["ns"]) + _GRANULARITY_NS, took.min(keepdims=True), "the shortest sleep"
    what = f"{what} ends within {most} ns"
    seen.holds("prim.sleep.bounded", what, (judged <= most).all(), took.tolist(), took)

"""The times that requests come back with: 64 bits of the device's clock, and nobody else's."""

from __future__ import annotations

import numpy as np

from tutti_hal.conformance_tests.case import Observations, case
from tutti_hal.conformance_tests.cases.l5_hazards.worlds import now_ns
from tutti_hal.conformance_tests.rig import BLOCK, Rig, drive
from tutti_hal.conformance_tests.run import Run
from tutti_hal.conformance_tests.seen import Seen
from tutti_hal.nvme.software_config import FaultAction, FaultRule

#: Seconds after which a clock that begins at 0, as a simulated one does, has more than 32 bits of nanoseconds. Any
#: other has run for longer when a case begins.
_LATE_S = 5

_LATENCY_NS = {True: 20_000, False: 2_000_000}


def _latency_ns(run: Run) -> int:
    return _LATENCY_NS[run.world is not None]


@case("ring/times.late", level="L5", clauses=("ring.request.times",), kernels=("ring", "probe_control"))
def late(run: Run) -> Observations:
    """Commands begin and end when the clock has more than 32 bits: the time that each took has all of them."""
    latency, at, batches = _latency_ns(run), np.arange(4), []
    with Rig(run, drives=[drive(latency_ns=latency)]) as rig:
        if run.world is not None:
            rows = run.buffer(_LATE_S * 16, "device")
            run.launch(run.kernel("probe_control", "control_sleep"), 1, 1, rows, 10**9, _LATE_S)
        for _ in range(3):
            began = now_ns(rig)
            batches.append(rig.submit("read", lba=at, offset=at * BLOCK) | {"within_ns": now_ns(rig) - began})
    return {"batches": batches, "latency_ns": latency}


@late.judge
def _(seen: Seen) -> None:
    for one in seen["batches"]:
        seen.equal("ring.request.times", "how the requests ended", one["state"], ["COMPLETED"] * 4)
        _judge_times(seen, one["took_ns"], seen["latency_ns"], one["within_ns"])


@case("ring/times.beside", level="L5", clauses=("ring.request.times",), kernels=("ring",))
def beside(run: Run) -> Observations:
    """Two batches at once; lanes of the first have nothing left to do: the times of the second stay its own."""
    latency, at = _latency_ns(run), np.arange(24)
    slow = FaultRule(action=FaultAction.DELAY, opcode=2, lbas=(1, 1), count=1, delay_ns=20 * latency)
    sizes = {"batches": 2, "batch_limit": len(at), "depth": 64}
    found = []
    for _ in run.schedules(3):
        with (
            Rig(run, sizes, drives=[drive(latency_ns=latency)], faults=[slow]) as rig,
            run.device.create_stream() as own,
        ):
            first = rig.fill(rig.ring.get_iocb(), "read", lba=at, offset=at * BLOCK)
            second = rig.fill(rig.ring.get_iocb(), "read", lba=24 + at, offset=(24 + at) * BLOCK)
            rig.ring.issue_io(first)
            rig.ring.issue_io(second, own)
            found += [rig.finish(first), rig.finish(second)]
    return {"batches": found, "latency_ns": latency}


@beside.judge
def _(seen: Seen) -> None:
    for one in seen["batches"]:
        seen.equal("ring.request.times", "how the requests ended", one["state"], ["COMPLETED"] * 24)
        _judge_times(seen, one["took_ns"], seen["latency_ns"])


def _judge_times(seen: Seen, took: np.ndarray, least: int, most: int | None = None) -> None:
    """No command took less than its drive, nor more than its whole batch from hand-over to end."""
    # A clock that is not one for all blocks may show a quarter of the time (prim.clock.advances).
    least = least if seen.facts.capabilities["clock.global_ns"] else least // 4
    seen.holds("ring.request.times", "no request took less than its drive", bool((took >= least).all()), took, took)
    if most is not None:
        seen.holds("ring.request.times", "none took longer than its batch", bool((took <= most).all()), took, took)

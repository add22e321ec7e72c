"""Figures of the ring that are counted in the simulated world, where a loaded machine changes nothing.

python benchmarks/bench_ring_steps.py [--arch ARCH] [--seeds N] [--json]

Three schedules: lanes in turn (fair), waves in step (lockstep), and any lane at any time (random), averaged over seeds.

* What one stuck command costs the other queues: the steps until their last completion, beside the same run without it.
  The world's clock goes on by one step of every lane that can run, so its time counts the steps of each.
* Doorbells and reads of completion entries for each command, with 32 and more in flight.
"""

from __future__ import annotations

import argparse
import json
import statistics
import sys
import tempfile
from pathlib import Path
from typing import Any

import numpy as np

from tutti_hal.conformance_tests.rig import BLOCK, Rig, drive
from tutti_hal.conformance_tests.run import Run
from tutti_hal.conformance_tests.subject import Subject, SubjectSpec
from tutti_hal.io_uring import succeeded
from tutti_hal.nvme.software_config import FaultAction, FaultRule

#: How requests meet queues: each lane has one drive's alone; each has all drives' in turn; one drive has all queues.
SHAPES = ("lanes of their own", "shared lanes", "queues of one drive")

_QUEUES = 4
_LANES = 64
#: Requests of each lane.
_EACH = 10
_LIMIT_NS = 5_000_000
#: Of a command, times the seed: schedules without chance differ by it, which alone is some per cent of a run.
_LATENCY_NS = 150


def stuck(subject: Subject, shape: str, seed: int, policy: str = "random") -> dict[str, float]:
    """One stuck command beside none: steps of the other queues until their last completion, and the ratio."""
    clean, struck = (_until_done(subject, shape, seed, policy, strike=strike) for strike in (False, True))
    return {"clean_steps": clean, "stuck_steps": struck, "ratio": struck / clean}


def _until_done(subject: Subject, shape: str, seed: int, policy: str, *, strike: bool) -> float:
    count = _LANES * _EACH
    place = np.arange(count)
    one = shape == "queues of one drive"
    # Lane n has the requests n, n + lanes, ...: a shift by the turn gives it another drive each time.
    turn = place // _LANES if shape == "shared lanes" else 0
    target = np.zeros(count, int) if one else (place + turn) % _QUEUES
    options = {
        "depth": 64,
        "queues": (_QUEUES,) if one else (1,),
        "lanes": _LANES,
        "block": subject.facts.wave_width if one else _LANES,
        "batch_limit": count,
        "limit_ns": _LIMIT_NS,
    }
    if one:
        # A queue for each wave.
        options["lanes"] = options["block"] * _QUEUES
    # The second request for the first drive.
    first = int(np.flatnonzero(target == 0)[1])
    rules = [FaultRule(action=FaultAction.STUCK, lbas=(first, first))] if strike else []
    subject.reset_world(policy=policy, seed=seed)
    with tempfile.TemporaryDirectory() as scratch:
        run = Run(subject, {}, seed, Path(scratch))
        drives = [drive(latency_ns=_LATENCY_NS * seed) for _ in range(1 if one else _QUEUES)]
        with run.closing, Rig(run, options, drives=drives, faults=rules, data_bytes=count * BLOCK) as rig:
            iocb = rig.ring.get_iocb()
            iocb.read(target, place, BLOCK, rig.buffer, place * BLOCK)
            rig.ring.issue_io(iocb)
            done = rig.ring.wait_cqe(iocb)
    queue, ended = done["queue"], succeeded(done)
    if (~ended).sum() != len(rules):
        raise RuntimeError(f"{int((~ended).sum())} commands have no end, and {len(rules)} are stuck")
    failed = int(queue[first]) if one else 0
    others = ended & (queue != failed)
    begin = int(done["submitted_ns"][ended].min())
    return float(done["completed_ns"][others].max() - begin)


def counted(subject: Subject, depth: int, policy: str, seed: int = 1) -> dict[str, float]:
    """Doorbells and reads of completion entries for each command, with as many in flight as a queue takes."""
    count, lanes = 1024, subject.facts.wave_width
    place = np.arange(count)
    subject.reset_world(policy=policy, seed=seed)
    options = {"depth": depth, "lanes": lanes, "block": lanes, "batch_limit": count}
    with tempfile.TemporaryDirectory() as scratch:
        run = Run(subject, {}, seed, Path(scratch))
        with run.closing, Rig(run, options, data_bytes=count * BLOCK) as rig:
            iocb = rig.ring.get_iocb()
            iocb.read(rig.target, place, BLOCK, rig.buffer, place * BLOCK)
            rig.ring.issue_io(iocb)
            if not succeeded(rig.ring.wait_cqe(iocb)).all():
                raise RuntimeError("a command did not end well")
            found = rig.ring.statistics()
    return {"doorbells_per_command": found.doorbells_per_command, "cq_loads_per_command": found.cq_loads_per_command}


def cost(subject: Subject, shape: str, policy: str, seeds: int) -> dict[str, float]:
    """What the stuck command costs on average over seeds, and the standard error of that."""
    runs = [stuck(subject, shape, seed, policy) for seed in range(1, seeds + 1)]
    clean, struck = ([run[name] for run in runs] for name in ("clean_steps", "stuck_steps"))
    over = statistics.mean(struck) / statistics.mean(clean)
    spread = 0.0
    if seeds > 1:
        spread = (
            over * sum((statistics.stdev(one) / statistics.mean(one)) ** 2 / seeds for one in (clean, struck)) ** 0.5
        )
    return {"of_clean": over, "standard_error": spread, "clean_steps": statistics.mean(clean)}


def measure(arch: str, seeds: int) -> dict[str, Any]:
    """All figures on one arch. Each seed has drives of another latency."""
    subject = Subject(SubjectSpec("host", arch))
    counts = {"fair": 4, "lockstep": 4, "random": seeds}
    costs = {
        policy: {shape: cost(subject, shape, policy, count) for shape in SHAPES} for policy, count in counts.items()
    }
    flights = {
        policy: {str(depth - 1): counted(subject, depth, policy) for depth in (33, 64, 256)} for policy in counts
    }
    return {"arch": arch, "seeds": seeds, "one_stuck_command": costs, "by_commands_in_flight": flights}


def main() -> int:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--arch", default="sim-w32")
    parser.add_argument("--seeds", type=int, default=24, help="random schedules (24)")
    parser.add_argument("--json", action="store_true")
    args = parser.parse_args()
    result = measure(args.arch, args.seeds)
    if args.json:
        json.dump(result, sys.stdout, indent=2)
        print()
        return 0
    for policy, shapes in result["one_stuck_command"].items():
        for shape, found in shapes.items():
            error = f" +- {found['standard_error']:.3f}" if found["standard_error"] else ""
            print(
                f"{policy}: one stuck command, {shape}: {found['of_clean']:.3f}{error} of what others take without it"
            )
    for policy, flights in result["by_commands_in_flight"].items():
        for flying, found in flights.items():
            doorbells, loads = found["doorbells_per_command"], found["cq_loads_per_command"]
            print(f"{policy}: {flying} in flight: {doorbells:.4f} doorbells and {loads:.2f} CQ loads a command")
    return 0


if __name__ == "__main__":
    sys.exit(main())

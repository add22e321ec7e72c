"""Schedules for the hazards, and round trips under each of them. No case is here."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping
from typing import Any

from tutti_hal.conformance_tests.ablations import limits
from tutti_hal.conformance_tests.cases.l5_ring.trips import round_trip
from tutti_hal.conformance_tests.rig import Rig
from tutti_hal.conformance_tests.run import Run
from tutti_hal.conformance_tests.seen import Seen

#: Every kind of schedule that a world has, but for given scripts.
POLICIES = ("lockstep", "fair", "random", "pct", "starve-one")


def worlds(run: Run, policies: tuple[str, ...] = POLICIES) -> Iterator[None]:
    """One pass under each kind of schedule; one pass where there is no world."""
    for policy in policies if run.world is not None else policies[:1]:
        more = {"pct_depth": 3} if policy == "pct" else {}
        for _ in run.schedules(1, policy=policy, **more):
            yield


def trips(
    run: Run, options: Mapping[str, Any], count: int, policies: tuple[str, ...] = POLICIES, **rig: Any
) -> list[dict[str, Any]]:
    """A round trip of ``count`` blocks under each kind of schedule; ``options`` and ``rig`` go to `Rig`."""
    found = []
    for _ in worlds(run, policies):
        with Rig(run, options, **rig) as one:
            found.append(round_trip(one, count))
    return found


def queues(run: Run, wanted: int) -> int:
    """As many queues of a drive, or fewer where the ablation in force has drives grant no more."""
    return min(wanted, limits(run.subject.spec.ablation).get("io_queues", wanted))


def now_ns(rig: Rig) -> int:
    """The world's clock, or real time where there is no world."""
    return int(rig.world.now_ns) if rig.world is not None else time.monotonic_ns()


def until_struck(rig: Rig) -> None:
    """Wait until a fault has struck a command of drive 0, ten seconds at most; a world runs on meanwhile."""
    end = time.monotonic() + 10
    while not rig.controllers[0].counters.faults and time.monotonic() < end:
        if rig.world is not None:
            rig.world.run(64)
        else:
            time.sleep(0.002)


def states(trip: Mapping[str, Any]) -> list[str]:
    """The state of every request of a round trip."""
    return [*trip["written"]["state"], *trip["read"]["state"]]


def judge_completed(seen: Seen, clause: str, trip: Mapping[str, Any]) -> None:
    """Every request of a round trip completed, with success."""
    found = states(trip)
    seen.equal(clause, "requests that completed", found.count("COMPLETED"), len(found))
    failed = sum(int(one.any()) for verb in ("written", "read") for one in trip[verb]["status"])
    seen.equal(clause, "requests that failed", failed, 0)

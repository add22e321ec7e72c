"""How much is played of a litmus form, and of its twins, and on which CPUs. No case is here."""

from __future__ import annotations

import os
import platform
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tutti_hal.conformance_tests.cases.l4_memory.scoring import NEEDED, pruned, weak_in
from tutti_hal.conformance_tests.cases.l4_memory.shapes import SHAPES

if TYPE_CHECKING:
    from tutti_hal.conformance_tests.run import Run


def spread_threads() -> Callable[[], None]:
    """Give the threads of this process CPUs in turn, so that two that play one instance run at once; gives the reverse.

    Lanes that run on a CPU do so in such threads, and a busy machine may keep two of them on one CPU for long. Does
    nothing where the system has no such call.
    """
    if not hasattr(os, "sched_setaffinity"):
        return lambda: None
    allowed = sorted(os.sched_getaffinity(0))
    moved = []
    for turn, thread in enumerate(sorted(int(one.name) for one in Path("/proc/self/task").iterdir())):
        with suppress(OSError):  # it may have ended
            os.sched_setaffinity(thread, {allowed[turn % len(allowed)]})
            moved.append(thread)

    def back() -> None:
        for thread in moved:
            with suppress(OSError):
                os.sched_setaffinity(thread, allowed)

    return back


@dataclass(frozen=True)
class Effort:
    """How much is played of a form: instances, and seconds for them at most."""

    instances: int
    seconds: float


#: Plays a form: so many instances, for so many seconds at most, until so many ended weak.
Play = Callable[[str, int, float, int], dict[str, Any]]


def tallies(run: Run, play: Play, shape: str, effort: Effort, right: str, twins: tuple[str, ...]) -> dict[str, Any]:
    """The twins until one was noticed often enough; then the right form, in as many instances as that took."""
    kills = 0 if pruned(run.facts, platform.machine(), shape) else NEEDED
    found, most = {}, effort.instances
    for twin in twins:
        found[twin] = play(twin, effort.instances, effort.seconds, kills)
        if weak_in(SHAPES[shape], found[twin]["histogram"]) >= kills:
            most = max(most, found[twin]["instances"])
            kills = 0  # one suffices; of the others it is told how often they were noticed
    return {"right": play(right, most, 2 * effort.seconds, 0), "twins": found}

"""The observing half of litmus cases: a right form and its twins, exact in a world, statistical elsewhere."""

from __future__ import annotations

import platform
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from tutti_hal.conformance_tests.cases.l4_memory.crowd import Crowd
from tutti_hal.conformance_tests.cases.l4_memory.crowd_partner import HostCrowd
from tutti_hal.conformance_tests.cases.l4_memory.forms import SHAPE_OF, group
from tutti_hal.conformance_tests.cases.l4_memory.playing import Effort, tallies
from tutti_hal.conformance_tests.cases.l4_memory.shapes import FORMS
from tutti_hal.conformance_tests.cases.l4_memory.small import SmallInstance
from tutti_hal.conformance_tests.cases.l4_memory.small_partner import small

if TYPE_CHECKING:
    from tutti_hal.conformance_tests.run import Run

#: By whether the device is one of its own. A CPU plays few, and goes on where its twins were not seen yet, for a busy
#: machine may not let two threads run at once for a while.
_THREADS: Mapping[bool, Effort] = {True: Effort(1 << 18, 0.6), False: Effort(1 << 11, 3.0)}
#: The same with a host thread as the partner.
_PARTNERS: Mapping[bool, Effort] = {True: Effort(1 << 12, 0.3), False: Effort(1 << 9, 1.0)}


def observe(run: Run, right: str, *twins: str) -> dict[str, Any]:
    """Tallies of a right form between threads of a device, and of its twins."""
    shape = FORMS[right][0]
    if run.world is not None:
        shown = {twin: SmallInstance(run, twin).by_seeds(FORMS[twin][1], each=False) for twin in twins}
        return _found(shape, {"right": SmallInstance(run, right).explore(), "twins": shown})
    return _found(shape, tallies(run, Crowd(run).play, shape, _THREADS[run.facts.kind == "hardware"], right, twins))


def observe_with_partner(run: Run, right: str, *twins: str) -> dict[str, Any]:
    """The same of a form with a partner outside the device."""
    shape = SHAPE_OF[group(right)]
    if run.world is not None:
        shown = {twin: small(run, twin).by_seeds() for twin in twins}
        return _found(shape, {"right": small(run, right).explore(), "twins": shown})
    play = HostCrowd(run).play
    return _found(shape, tallies(run, play, shape, _PARTNERS[run.facts.kind == "hardware"], right, twins))


def _found(shape: str, tally: dict[str, Any]) -> dict[str, Any]:
    return {"cpu": platform.machine(), "shape": shape, **tally}

"""Pinned memory: where it lies on the bus, and what cannot be pinned."""

from __future__ import annotations

import itertools
import mmap
from typing import TYPE_CHECKING

from tutti_hal.conformance_tests.beside import PLACES, attached, pages, refused
from tutti_hal.conformance_tests.case import Observations, case
from tutti_hal.conformance_tests.cases.l7_p2p.terms import BUDGET_S, NO_MUTANT, real
from tutti_hal.conformance_tests.oracle.nvme import PAGE
from tutti_hal.conformance_tests.seen import Seen

if TYPE_CHECKING:
    from tutti_hal.conformance_tests.run import Run

_HOST = 1
_UNKNOWN = 9999


@case(
    "beside/pins.runs",
    level="L7",
    clauses=("beside.pin.runs_cover",),
    axes={"data": PLACES},
    budget_s=BUDGET_S,
    only=real,
    no_mutant=NO_MUTANT,
)
def runs(run: Run) -> Observations:
    """Memory of several lengths lies in runs that cover it, page by page, without overlap."""
    with attached(run) as drive:
        place = pages(run, drive, str(run.axes["data"]))
        found = []
        for nbytes in (PAGE, 3 * PAGE, 1 << 20, 5 << 20):
            memory = place.allocate(nbytes)
            run.closing.callback(memory.close)
            found.append({"asked": nbytes, "got": memory.nbytes, "runs": [list(one) for one in memory.runs]})
        return {"memories": found}


@runs.judge
def _(seen: Seen) -> None:
    clause = "beside.pin.runs_cover"
    every = []
    for one in seen["memories"]:
        lengths = [length for _, length in one["runs"]]
        seen.equal(clause, "bytes in all runs", sum(lengths), one["got"])
        seen.holds(clause, "as much as was asked for", one["got"] >= one["asked"], one["got"])
        off = [pair for pair in one["runs"] if pair[0] % PAGE or pair[1] % PAGE or not pair[1]]
        seen.equal(clause, "runs that do not begin and end on a page", len(off), 0)
        every += one["runs"]
    every.sort()
    overlaps = [a for a, b in itertools.pairwise(every) if a[0] + a[1] > b[0]]
    seen.equal(clause, "runs that overlap the next one", overlaps, [])


@case(
    "beside/pins.refused",
    level="L7",
    clauses=("beside.pin.refuses",),
    budget_s=BUDGET_S,
    only=real,
    no_mutant=NO_MUTANT,
)
def pins_refused(run: Run) -> Observations:
    """Pins that make no sense are refused, each in its own way, and the user is charged for none of them."""
    with attached(run) as drive:
        memory = drive.host_pages.allocate(2 * PAGE)
        run.closing.callback(memory.close)
        at, own = memory.buffer.host_address, [drive.controller_handle]
        with mmap.mmap(-1, PAGE) as gone:
            import ctypes

            hole = ctypes.addressof(ctypes.c_char.from_buffer(gone))
        pin = drive.client.pin
        before = drive.client.usage()
        tries = {
            "no_bytes": refused(lambda: pin(_HOST, at, 0, own)),
            "off_a_page": refused(lambda: pin(_HOST, at + 1, PAGE, own)),
            "part_of_a_page": refused(lambda: pin(_HOST, at, PAGE + 1, own)),
            "past_the_end": refused(lambda: pin(_HOST, (1 << 64) - PAGE, 2 * PAGE, own)),
            "not_there": refused(lambda: pin(_HOST, hole, PAGE, own)),
            "unknown_drive": refused(lambda: pin(_HOST, at, PAGE, [_UNKNOWN])),
            "same_drive_twice": refused(lambda: pin(_HOST, at, PAGE, own * 2)),
            "no_drive": refused(lambda: pin(_HOST, at, PAGE, [])),
            "unknown_kind": refused(lambda: pin(_UNKNOWN, at, PAGE, own)),
        }
        after = drive.client.usage()
        held = [[usage.pins, usage.bytes] for usage in (before, after)]
        return {"tries": tries, "held": held}


_WANTED = {
    "no_bytes": ("EINVAL",),
    "off_a_page": ("EINVAL",),
    "part_of_a_page": ("EINVAL",),
    "past_the_end": ("EINVAL", "EFAULT", "EOVERFLOW"),
    "not_there": ("EFAULT",),
    "unknown_drive": ("ENOENT",),
    "same_drive_twice": ("EINVAL",),
    "no_drive": ("EINVAL",),
    "unknown_kind": ("EOPNOTSUPP",),
}


@pins_refused.judge
def _(seen: Seen) -> None:
    clause = "beside.pin.refuses"
    for what, wanted in _WANTED.items():
        one = seen["tries"][what]
        seen.equal(clause, f"{what}: class of the refusal", one["error"], "ModuleRefused")
        seen.holds(clause, f"{what}: refused with {' or '.join(wanted)}", one["errno"] in wanted, one)
    seen.equal(clause, "pins and bytes held after the refusals", seen["held"][1], seen["held"][0])

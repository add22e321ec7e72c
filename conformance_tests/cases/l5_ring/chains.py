"""Descriptors that go on in a next page: PRP lists and SGL segments in chains."""

from __future__ import annotations

import numpy as np

from tutti_hal.conformance_tests.case import Observations, case
from tutti_hal.conformance_tests.cases.l5_ring.ranges import Bus, judge_bytes_of, moved, words_of
from tutti_hal.conformance_tests.rig import BLOCK, Rig, drive
from tutti_hal.conformance_tests.run import Run
from tutti_hal.conformance_tests.seen import Seen

#: SGL descriptor types.
_SEGMENT, _LAST_SEGMENT = 2, 3


def _edges(page: int) -> list[tuple[int, int]]:
    """Ranges around the end of the first list page: with offsets, so that lists begin and end everywhere near it."""
    names = page // 8 - 1
    return [
        (first * page + offset, (last - first + 1) * page - offset - cut)
        for first, last, offset, cut in (
            (names - 3, names - 1, 0, 0),
            (names - 3, names, 0, 0),
            (names - 2, names, BLOCK, 0),
            (names - 1, names, 0, BLOCK),
            (names - 3, names + 1, 0, 0),
            (names - 1, names + 1, BLOCK, BLOCK),
            (names, names + 2, 0, 0),
        )
    ]


@case(
    "ring/pointers.chain",
    level="L5",
    clauses=("nvme.prp.chain", "ring.request.data_exact"),
    kernels=("ring",),
    budget_s=30.0,
    # At larger pages a list page names 33 MB and more.
    axes={"page": (4096, 8192)},
    quick=False,
)
def chains(run: Run) -> Observations:
    """Lists that end just before, just at and just after the end of a list page, and go on in the next one."""
    page = int(run.axes["page"])
    shift = page.bit_length() - 13
    config = drive(mpsmin=shift, mpsmax=shift, sgls=0)
    # Runs of one page and of many: neighbours in a list are seldom neighbours on the bus.
    lengths = (page // 8 - 9, *[1] * 8, 1, 2, 1)
    with Rig(run, {"depth": 32}, drives=[config], lengths=lengths, places={"submission_queue": "host"}) as rig:
        return moved(rig, _edges(page))


@chains.judge
def _(seen: Seen) -> None:
    page = int(seen.axes["page"])
    ranges, bus = _edges(page), Bus(seen["runs"])
    judge_bytes_of(seen, ranges)
    for (offset, nbytes), entry in zip(ranges, seen["entries"], strict=True):
        words, of = words_of(entry), f"of {nbytes} bytes at {offset}"
        pages = (offset + nbytes - 1) // page - offset // page + 1
        seen.equal(
            "nvme.prp.chain", f"kind and first PRP {of}", [words["psdt"], words["first"]], [0, bus.address(offset)]
        )
        room = (page - words["second"] % page) // 8
        if pages > 2:
            # The place that would be the pointer is data when it names the last page.
            seen.holds("nvme.prp.chain", f"a list begins on a word of its page {of}", words["second"] % 8 == 0, room)
    seen.equal("nvme.prp.chain", "commands of each request", seen["commands"], np.ones(len(ranges), np.uint32))


@case(
    "ring/pointers.segments",
    level="L5",
    clauses=("nvme.sgl.segment", "ring.request.data_exact", "ring.buffer.pieces"),
    kernels=("ring",),
    budget_s=30.0,
    quick=False,
)
def segments(run: Run) -> Observations:
    """Pieces of 128 runs: one has all its descriptors in one list page, the other's go on in the next."""
    config = drive(mdts=7, sgls=2)
    with Rig(
        run,
        {"depth": 8},
        drives=[config],
        lengths=[1] * 256,
        piece=1 << 19,
        places={"submission_queue": "host"},
    ) as rig:
        return moved(rig, [(0, 1 << 19), (1 << 19, 1 << 19), (3 << 18, 4096)])


@segments.judge
def _(seen: Seen) -> None:
    judge_bytes_of(seen, [(0, 1 << 19), (1 << 19, 1 << 19), (3 << 18, 4096)])
    first, second, part = (words_of(entry) for entry in seen["entries"])
    seen.equal(
        "nvme.sgl.segment",
        "type and length of descriptors that lie together",
        [first["psdt"], first["kind"], first["length"]],
        [1, _LAST_SEGMENT, 128 * 16],
    )
    # Those of the second piece begin behind two pieces and 128 descriptors, of the 256 that a list page holds.
    seen.equal(
        "nvme.sgl.segment",
        "type, length and place of descriptors that do not",
        [second["psdt"], second["kind"], second["length"], second["first"] % 4096],
        [1, _SEGMENT, 126 * 16, 130 * 16],
    )
    seen.equal("ring.buffer.pieces", "a part of such a piece goes by PRP", part["psdt"], 0)

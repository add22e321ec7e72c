"""How commands name memory: every form of PRPs and SGLs, at every page size, for buffers whole and in pieces."""

from __future__ import annotations

from typing import Any

import numpy as np

from tutti_hal.conformance_tests.case import Observations, case
from tutti_hal.conformance_tests.cases.l5_ring.ranges import Bus, judge_bytes_of, moved, words_of
from tutti_hal.conformance_tests.observation import refusal
from tutti_hal.conformance_tests.rig import BLOCK, Rig, drive
from tutti_hal.conformance_tests.run import Run
from tutti_hal.conformance_tests.seen import Seen
from tutti_hal.io_uring.layout import dtype

#: Lengths of the buffer's runs, in pages: three pieces of four pages, in one run, in two, in three; one of two, in two.
_LENGTHS = (4, 1, 3, 2, 1, 1, 1, 1)
_PAGES = sum(_LENGTHS)
_PIECE_PAGES = 4

#: SGL descriptor types.
_DATA_BLOCK, _LAST_SEGMENT = 0, 3


def _ranges(page: int, pieces: bool) -> list[tuple[int, int]]:
    """(offset, bytes) of the requests: each form of pointers, at its edges."""
    found = [
        (0, BLOCK),
        (page - BLOCK, BLOCK),
        (page - BLOCK, 2 * BLOCK),
        (0, 2 * page),
        (BLOCK + 4, page - BLOCK),  # ends four bytes into the second page
        (BLOCK, 2 * page),
        (4 * page, 4 * page),
        (8 * page, 4 * page),
        (5 * page + BLOCK, page + BLOCK),
        (8 * page, 2 * page),
        (11 * page + BLOCK, page - BLOCK),
        (12 * page, 2 * page),
        (12 * page, page + BLOCK),
        (13 * page + BLOCK, BLOCK),
    ]
    return found if pieces else [*found, (2 * page + 4, 6 * page)]


def _judge_prp(seen: Seen, of: str, words: dict[str, int], bus: Bus, page: int, offset: int, nbytes: int) -> None:
    pages = (offset + nbytes - 1) // page - offset // page + 1
    seen.equal(
        "nvme.prp.page_size", f"kind and first PRP {of}", [words["psdt"], words["first"]], [0, bus.address(offset)]
    )
    if pages == 1:
        seen.equal("nvme.prp.one_page", f"second PRP {of}", words["second"], 0)
    elif pages == 2:
        second = bus.address((offset // page + 1) * page)
        seen.equal("nvme.prp.two_pages", f"second PRP {of}", words["second"], second)
    else:
        named = [bus.address(at * page) for at in range(offset // page, offset // page + pages)]
        seen.holds(
            "nvme.prp.list",
            f"the second PRP is a list's address, and none of the data {of}",
            words["second"] % 8 == 0 and words["second"] // page * page not in [0, *named],
            words["second"],
        )


def _pointer_clauses(axes: Any) -> tuple[str, ...]:
    prp = ("nvme.prp.page_size", "nvme.prp.one_page", "nvme.prp.two_pages", "nvme.prp.list")
    sgl = ("nvme.sgl.inline", "nvme.sgl.segment")
    form = str(axes["form"])
    pieces = ("ring.buffer.pieces",) if form.endswith("pieces") else ()
    # Parts of pieces in several runs go by PRP, of one page or two.
    named = {"prp": prp, "prp_pieces": prp, "sgl_pieces": (*sgl, *prp[:3]), "sgl": sgl[:1]}
    return ("ring.request.data_exact", "nvme.sgl.only_if_offered", *pieces, *named[form])


_CLAUSES = (
    *("ring.request.data_exact", "ring.buffer.pieces", "nvme.sgl.only_if_offered"),
    *("nvme.prp.page_size", "nvme.prp.one_page", "nvme.prp.two_pages", "nvme.prp.list"),
    *("nvme.sgl.inline", "nvme.sgl.segment"),
)
_FORMS = ("prp", "prp_pieces", "sgl", "sgl_pieces")
#: Drives whose SGLs have double words only; those of the others may begin anywhere.
_GRANULAR = (8192, 16384)


def _pointers(run: Run) -> Observations:
    page, form = int(run.axes["page"]), str(run.axes["form"])
    pieces, by_sgl, granular = form.endswith("pieces"), form.startswith("sgl"), page in _GRANULAR
    shift = page.bit_length() - 13
    # SGLs of either kind, without any leniency. By PRP: a drive that has none, or a ring that is to use none.
    offered = (2 if granular else 1) if by_sgl or granular else 0
    config = drive(mpsmin=shift, mpsmax=shift, mdts=6, sgls=offered)
    ranges = _ranges(page, pieces)
    with Rig(
        run,
        {"depth": 32, "use_sgl": by_sgl or not granular},
        drives=[config],
        lengths=(_PAGES,) if form == "sgl" else _LENGTHS,
        piece=_PIECE_PAGES * page if pieces else None,
        places={"submission_queue": "host"},
    ) as rig:
        found = moved(rig, ranges)
        if not pieces:
            return found
        iocb = rig.ring.get_iocb()
        asked = [
            refusal(lambda: rig.fill(iocb, "read", offset=4 * page - BLOCK, nbytes=2 * BLOCK)),
            refusal(lambda: rig.fill(iocb, "read", offset=BLOCK, nbytes=4 * page)),
        ]
        # A request that begins at a piece becomes one command for each; another kernel may have packed what crosses.
        rig.fill(iocb, "read", lba=0, offset=4 * page, nbytes=8 * page)
        whole = iocb.packed[["buffer_offset", "block_count"]].tolist()
        rig.fill(iocb, "read", lba=np.arange(2), offset=4 * page - BLOCK)
        iocb.staging.numpy(dtype("ring_request"))["block_count"][iocb.command_count - 1] = 2
        rig.ring.issue_io(iocb)
        return {**found, "asked": asked, "whole": whole, "ended": rig.finish(iocb)["state"]}


def _judge_pointers(seen: Seen) -> None:
    page, form = int(seen.axes["page"]), str(seen.axes["form"])
    pieces, by_sgl = form.endswith("pieces"), form.startswith("sgl")
    ranges, bus = _ranges(page, pieces), Bus(seen["runs"])
    judge_bytes_of(seen, ranges)
    for (offset, nbytes), entry in zip(ranges, seen["entries"], strict=True):
        words, of = words_of(entry), f"of {nbytes} bytes at {offset}"
        of_piece = offset // (_PIECE_PAGES * page) * _PIECE_PAGES * page
        piece = min(_PIECE_PAGES * page, _PAGES * page - of_piece)
        runs = bus.runs_in(of_piece, piece) if pieces else 1
        segmented = runs > 1 and (offset, nbytes) == (of_piece, piece)
        if by_sgl and (runs == 1 or segmented):
            clause = "nvme.sgl.segment" if segmented else "nvme.sgl.inline"
            seen.equal("nvme.sgl.only_if_offered", f"pointers {of} are an SGL", words["psdt"], 1)
            kind, length = (_LAST_SEGMENT, 16 * runs) if segmented else (_DATA_BLOCK, nbytes)
            found = [words["kind"], words["rest"], words["length"]]
            seen.equal(clause, f"descriptor's type, reserved bits and length {of}", found, [kind, 0, length])
            if segmented:
                seen.holds(clause, f"a segment lies on 16 bytes {of}", words["first"] % 16 == 0, words["first"])
            else:
                seen.equal(clause, f"descriptor's address {of}", words["first"], bus.address(offset))
        else:
            seen.equal("nvme.sgl.only_if_offered", f"pointers {of} are PRPs", words["psdt"], 0)
            _judge_prp(seen, of, words, bus, page, offset, nbytes)
    if pieces:
        for one in seen["asked"]:
            seen.refused("ring.buffer.pieces", "a range that crosses a piece", one, "RequestInvalid")
        wanted = [[4 * page, 4 * page // BLOCK], [8 * page, 4 * page // BLOCK]]
        seen.equal("ring.buffer.pieces", "commands of two pieces", [list(row) for row in seen["whole"]], wanted)
        ended = ["COMPLETED", "COMPLETED", "REFUSED"]
        seen.equal("ring.buffer.pieces", "ends of two pieces, of the end of one, of what crosses", seen["ended"], ended)


@case(
    "ring/pointers",
    level="L5",
    clauses=_CLAUSES,
    narrow=_pointer_clauses,
    kernels=("ring",),
    budget_s=30.0,
    axes={"page": (4096, 16384), "form": _FORMS},
)
def pointers(run: Run) -> Observations:
    """One page, two, lists; one descriptor, a last segment: the words of each command, and the bytes that they move."""
    return _pointers(run)


pointers.judge(_judge_pointers)


@case(
    "ring/pointers.pages",
    level="L5",
    clauses=_CLAUSES,
    narrow=_pointer_clauses,
    kernels=("ring",),
    budget_s=30.0,
    axes={"page": (8192, 32768, 65536), "form": _FORMS},
    quick=False,
)
def pointers_of_other_pages(run: Run) -> Observations:
    """The same at the other page sizes."""
    return _pointers(run)


pointers_of_other_pages.judge(_judge_pointers)

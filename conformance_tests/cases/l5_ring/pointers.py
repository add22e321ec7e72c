"""How commands name memory: every form of PRPs and SGLs, at every page size, for buffers whole and in pieces."""

from __future__ import annotations

from typing import Any

import numpy as np

from tutti_hal.conformance_tests.case import Observations, case
from tutti_hal.conformance_tests.observation import refusal
from tutti_hal.conformance_tests.rig import BLOCK, SPOILT, Rig, drive
from tutti_hal.conformance_tests.run import Run
from tutti_hal.conformance_tests.seen import Seen
from tutti_hal.io_uring.layout import dtype

#: Lengths of the buffer's runs, in pages: three pieces of four pages, in one run, in two, in three.
_LENGTHS = (4, 1, 3, 2, 1, 1)
_PIECE_PAGES = 4

#: SGL descriptor types.
_DATA_BLOCK, _SEGMENT, _LAST_SEGMENT = 0, 2, 3


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
    ]
    return found if pieces else [*found, (2 * page + 4, 6 * page)]


def _moved(rig: Rig, ranges: list[tuple[int, int]]) -> dict[str, Any]:
    """Write all ranges to blocks of their own, then read each back alone into spoilt memory."""
    sizes = np.array([nbytes for _, nbytes in ranges])
    offsets = np.array([offset for offset, _ in ranges])
    lbas = (np.cumsum(sizes) - sizes) // BLOCK
    source = rig.run.random.integers(0, 256, rig.memory.nbytes, np.uint8)
    rig.put(source)
    written = rig.submit("write", lba=lbas, nbytes=sizes, offset=offsets)
    entries = {int(entry[10]): entry for entry in rig.entries() if entry[0] & 0xFF == 1}
    stored = np.frombuffer(rig.controllers[0].read_stored(1, 0, int(sizes.sum())), np.uint8)
    back, outside, states = [], [], []
    for lba, (offset, nbytes) in zip(lbas, ranges, strict=True):
        rig.put()
        states += rig.submit("read", lba=int(lba), nbytes=nbytes, offset=offset)["state"]
        memory = rig.get()
        back.append(memory[offset : offset + nbytes])
        outside.append(int((memory != SPOILT).sum() - (back[-1] != SPOILT).sum()))
    return {
        "runs": [[bus, nbytes] for bus, nbytes in rig.memory.runs],
        "source": source,
        "written": written["state"],
        "commands": written["commands"],
        "entries": [entries[int(lba)] for lba in lbas],
        "stored": stored,
        "read": np.concatenate(back),
        "states": states,
        "outside": outside,
    }


def _judge_bytes(seen: Seen, ranges: list[tuple[int, int]]) -> None:
    source = seen["source"]
    wanted = np.concatenate([source[offset : offset + nbytes] for offset, nbytes in ranges])
    clause, all_done = "ring.request.data_exact", ["COMPLETED"] * len(ranges)
    seen.equal(clause, "states of writes and reads", [seen["written"], seen["states"]], [all_done, all_done])
    seen.equal(clause, "bytes in the namespace", seen["stored"], wanted)
    seen.equal(clause, "bytes that came back", seen["read"], wanted)
    seen.equal(clause, "bytes that changed beside them", seen["outside"], [0] * len(ranges))


class _Bus:
    """Where a buffer lies on the bus."""

    def __init__(self, runs: list[list[int]]) -> None:
        self.runs = runs

    def address(self, offset: int) -> int:
        """Of a byte of the buffer."""
        for bus, nbytes in self.runs:
            if offset < nbytes:
                return bus + offset
            offset -= nbytes
        raise ValueError("past the end")

    def runs_in(self, offset: int, nbytes: int) -> int:
        """How many runs a range has a part of; runs that touch are one."""
        edges, at, before = 0, 0, None
        for bus, length in self.runs:
            if at < offset + nbytes and at + length > offset:
                edges += before != bus
            before, at = bus + length, at + length
        return edges


def _words(entry: Any) -> dict[str, int]:
    w = [int(word) for word in entry]
    return {
        "psdt": w[0] >> 14 & 3,
        "first": w[6] | w[7] << 32,
        "second": w[8] | w[9] << 32,
        "length": w[8],
        "kind": w[9] >> 28,
        "rest": w[9] & 0x0FFF_FFFF,
    }


def _judge_prp(seen: Seen, of: str, words: dict[str, int], bus: _Bus, page: int, offset: int, nbytes: int) -> None:
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
        {"depth": 32, "use_sgl": by_sgl},
        drives=[config],
        lengths=(12,) if form == "sgl" else _LENGTHS,
        piece=_PIECE_PAGES * page if pieces else None,
        places={"submission_queue": "host"},
    ) as rig:
        moved = _moved(rig, ranges)
        if not pieces:
            return moved
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
        return {**moved, "asked": asked, "whole": whole, "ended": rig.finish(iocb)["state"]}


def _judge_pointers(seen: Seen) -> None:
    page, form = int(seen.axes["page"]), str(seen.axes["form"])
    pieces, by_sgl = form.endswith("pieces"), form.startswith("sgl")
    ranges, bus = _ranges(page, pieces), _Bus(seen["runs"])
    _judge_bytes(seen, ranges)
    for (offset, nbytes), entry in zip(ranges, seen["entries"], strict=True):
        words, of = _words(entry), f"of {nbytes} bytes at {offset}"
        of_piece = offset // (_PIECE_PAGES * page) * _PIECE_PAGES * page
        runs = bus.runs_in(of_piece, _PIECE_PAGES * page) if pieces else 1
        segmented = runs > 1 and (offset, nbytes) == (of_piece, _PIECE_PAGES * page)
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
        return _moved(rig, _edges(page))


@chains.judge
def _(seen: Seen) -> None:
    page = int(seen.axes["page"])
    ranges, bus = _edges(page), _Bus(seen["runs"])
    _judge_bytes(seen, ranges)
    for (offset, nbytes), entry in zip(ranges, seen["entries"], strict=True):
        words, of = _words(entry), f"of {nbytes} bytes at {offset}"
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
        return _moved(rig, [(0, 1 << 19), (1 << 19, 1 << 19), (3 << 18, 4096)])


@segments.judge
def _(seen: Seen) -> None:
    _judge_bytes(seen, [(0, 1 << 19), (1 << 19, 1 << 19), (3 << 18, 4096)])
    first, second, part = (_words(entry) for entry in seen["entries"])
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

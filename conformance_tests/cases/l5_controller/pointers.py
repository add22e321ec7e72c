"""Data pointers that the host half builds, walked as a controller walks them, by the rules of the specification."""

from __future__ import annotations

import struct
from collections.abc import Mapping, Sequence
from typing import Any

from tutti_hal.conformance_tests.case import Observations, Per, case
from tutti_hal.conformance_tests.observation import refusal
from tutti_hal.conformance_tests.run import Run
from tutti_hal.conformance_tests.seen import Seen
from tutti_hal.nvme import prp, sgl

_NO_MUTANT = "It looks at encodings in Python, and mutants are of templates, records and controllers."


def _pages(run: Run, count: int, page: int) -> list[int]:
    """Bus addresses of so many pages, apart from each other, in no order."""
    return [int(one) * 2 * page for one in run.random.permutation(8 * count + 8)[:count] + 16]


#: What is built: bytes, and the offset in the first page, in parts of a page.
_SHAPES: dict[str, tuple[float, float]] = {
    "part of a page": (0.25, 0.5),
    "to the page's end": (0.5, 0.5),
    "one page": (1, 0),
    "a little over": (0.75, 0.5),
    "two pages": (2, 0),
    "two pages less": (1.25, 0.75),
    "a little over two": (1.5, 0.75),
    "three pages": (3, 0),
    "nine pages": (8.25, 0.75),
}


@case(
    "nvme/prp",
    level="L5",
    clauses=(
        *("nvme.prp.one_page", "nvme.prp.two_pages", "nvme.prp.list", "nvme.prp.chain"),
        *("nvme.prp.page_size", "nvme.prp.alignment_refused"),
    ),
    axes={"page": (4096, 8192, 65536)},
    per=Per.VENDOR,
    no_mutant=_NO_MUTANT,
)
def prps(run: Run) -> Observations:
    """PRPs of every shape name each byte once, by the page size in force; lists chain from where they start."""
    page = int(run.axes["page"])
    built: dict[str, Any] = {}
    for name, (nbytes, offset) in _SHAPES.items():
        built[name] = _build(run, int(nbytes * page), int(offset * page), page, page - 64)
    # More entries than a page holds, with a list that starts near the end of its page.
    built["chained"] = _build(run, (page // 8 + 20) * page, 0, page, page - 24)
    runs = [(4096 * 5 + 2, 512)]
    return {
        "built": built,
        "unaligned": refusal(lambda: prp.build(runs, 4096)),
        "inside": refusal(lambda: prp.build([(page * 4, page), (page * 9 + 512, 512)], page)),
    }


def _build(run: Run, nbytes: int, offset: int, page: int, list_at: int) -> dict[str, Any]:
    count = -(-(nbytes + offset) // page)
    pages = _pages(run, count + 8, page)
    lists, pages = pages[:8], pages[8:]
    runs, left = [], nbytes
    for number, one in enumerate(pages):
        skip = offset if number == 0 else 0
        take = min(page - skip, left)
        runs.append((one + skip, take))
        left -= take
    space = [(lists[0] + list_at, page - list_at), *((one, page) for one in lists[1:])]
    plan = prp.build(runs, page, space)
    return {
        "runs": [[str(bus), length] for bus, length in runs],
        "prp1": str(plan.pair.prp1),
        "prp2": str(plan.pair.prp2),
        "lists": {str(bus): content for bus, content in plan.lists},
    }


def _walk(one: Mapping[str, Any], page: int) -> list[list[int]]:
    """The pieces that a controller moves: (bus address, bytes), found by the rules and by nothing else."""
    words: dict[int, int] = {}
    for bus, content in one["lists"].items():
        data = bytes.fromhex(content)
        for place, (value,) in enumerate(struct.iter_unpack("<Q", data)):
            words[int(bus) + 8 * place] = value
    left = sum(length for _, length in one["runs"])
    first = int(one["prp1"])
    take = min(page - first % page, left)
    pieces = [[first, take]]
    left -= take
    if 0 < left <= page:
        return [*pieces, [int(one["prp2"]), left]]
    at = int(one["prp2"])
    while left:
        last_of_page = (at + 8) % page == 0
        if last_of_page and left > page:
            at = words.get(at, -8)
            continue
        take = min(page, left)
        pieces.append([words.get(at, -1), take])
        left -= take
        at += 8
    return pieces


@prps.judge
def _(seen: Seen) -> None:
    page = int(seen.axes["page"])
    for name, one in seen["built"].items():
        runs = [[int(bus), length] for bus, length in one["runs"]]
        count = len(runs)
        clause = (
            "nvme.prp.chain"
            if name == "chained"
            else f"nvme.prp.{ {1: 'one_page', 2: 'two_pages'}.get(count, 'list') }"
        )
        seen.equal(clause, f"what a controller moves: {name}", _walk(one, page), runs)
        seen.equal(
            "nvme.prp.page_size",
            f"entries past the first have offset 0: {name}",
            [bus % page for bus, _ in _walk(one, page)[1:]] or [0],
            [0] * max(count - 1, 1),
        )
        if count == 1:
            seen.equal(clause, f"PRP2 and lists: {name}", [one["prp2"], one["lists"]], ["0", {}])
        if count == 2:
            seen.equal(clause, f"PRP2 is the data page: {name}", [one["prp2"], one["lists"]], [str(runs[1][0]), {}])
        if name == "chained":
            seen.holds(clause, "the list takes more than one page", len(one["lists"]) > 2, len(one["lists"]))
    seen.refused("nvme.prp.alignment_refused", "a buffer off a double word", seen["unaligned"], "PrpInvalid")
    seen.refused("nvme.prp.alignment_refused", "a run inside a page", seen["inside"], "PrpInvalid")


@case(
    "nvme/sgl",
    level="L5",
    clauses=("nvme.sgl.inline", "nvme.sgl.segment", "nvme.sgl.only_if_offered"),
    per=Per.VENDOR,
    no_mutant=_NO_MUTANT,
)
def sgls(run: Run) -> Observations:
    """One run is one descriptor; several are segments, chained where one does not hold them; only where offered."""
    support = sgl.SglSupport.decode(struct.pack("<I", 0x000F_0001))
    none, dwords = (sgl.SglSupport.decode(struct.pack("<I", value)) for value in (0, 2))
    runs = [(int(one) * 4096, 512 + 4 * number) for number, one in enumerate(run.random.permutation(64)[:20] * 2 + 100)]
    built = {}
    for name, data, space in (
        ("one", runs[:1], []),
        ("touching", [(8192, 4096), (12288, 512)], []),
        ("two", runs[:2], [(1 << 20, 4096)]),
        ("many", runs, [(1 << 20, 128), (1 << 21, 64), (1 << 22, 4096)]),
    ):
        plan = sgl.build(data, support, space)
        built[name] = {
            "runs": [list(one) for one in data],
            "descriptor": plan.descriptor.encode(),
            "segments": {str(bus): content for bus, content in plan.segments},
        }
    return {
        "built": built,
        "not_offered": refusal(lambda: sgl.build(runs[:1], none)),
        "odd": refusal(lambda: sgl.build([(4096 + 2, 510)], dwords)),
    }


def _walk_sgl(one: Mapping[str, Any]) -> tuple[list[list[int]], Sequence[int]]:
    """(address, bytes) of each data block as a controller finds them, and the types of all descriptors on the way."""
    pieces, kinds = [], []
    todo = [bytes.fromhex(one["descriptor"])]
    while todo:
        data = todo.pop(0)
        address, length = struct.unpack_from("<QI", data)
        kind = data[15] >> 4
        kinds.append(kind)
        if kind == 0:
            pieces.append([address, length])
        elif kind in (2, 3):
            content = bytes.fromhex(one["segments"].get(str(address), ""))[:length]
            todo = [content[at : at + 16] for at in range(0, len(content), 16)]
    return pieces, kinds


@sgls.judge
def _(seen: Seen) -> None:
    built = seen["built"]
    for name in ("one", "touching"):
        pieces, kinds = _walk_sgl(built[name])
        first, total = built[name]["runs"][0][0], sum(length for _, length in built[name]["runs"])
        seen.equal("nvme.sgl.inline", f"data of {name}", [pieces, kinds], [[[first, total]], [0]])
    for name, ways in (("two", [3, 0, 0]), ("many", None)):
        pieces, kinds = _walk_sgl(built[name])
        seen.equal("nvme.sgl.segment", f"data of {name}", pieces, built[name]["runs"])
        if ways:
            seen.equal("nvme.sgl.segment", "descriptors of two runs", kinds, ways)
        else:
            led = [kind for kind in kinds if kind]
            seen.holds(
                "nvme.sgl.segment",
                "segments chain, the last one said to be it",
                led[-1] == 3 and set(led[:-1]) == {2},
                led,
            )
    seen.refused("nvme.sgl.only_if_offered", "an SGL for a controller without", seen["not_offered"], "SglInvalid")
    seen.refused("nvme.sgl.only_if_offered", "odd pieces for a controller of double words", seen["odd"], "SglInvalid")

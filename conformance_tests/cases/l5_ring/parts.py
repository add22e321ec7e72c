"""The ring's functions one by one: the numbers they share with the host, limits, completions, identifiers, marks.

Another kernel, a drive or a word that is about to wrap can bring each of them what no batch of ours does.
"""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np

from tutti_hal.conformance_tests.case import Observations, case
from tutti_hal.conformance_tests.run import Run
from tutti_hal.conformance_tests.seen import Seen
from tutti_hal.io_uring.layout import dtype

_SET = "probe_ring_parts"
_LAST = (1 << 64) - 1
_BLOCK = 512

#: What the documentation of the ring's records says, state by state; flags of a command word beside its identifier.
_NUMBERS = {
    **{"NOT_RUN": 0, "IN_FLIGHT": 1, "COMPLETED": 2, "TIMED_OUT": 3, "GONE": 4, "STOPPED": 5, "REFUSED": 6},
    **{"state shift": 24, "why: queue failed": 1, "why: stopped": 2, "why: starved": 3},
    **{"health: timed out": 1, "health: gone": 2, "health: fatal": 4, "health: stopped": 8},
    **{"busy": 0x10000, "quarantined": 0x20000, "late": 0x40000},
    **{"queue classes": 4, "no identifier": 0xFFFF, "tag": (1 << 48) - 1},
}


@case("ring/part.numbers", level="L5", clauses=("ring.request.status_reported",), kernels=(_SET,))
def numbers(run: Run) -> Observations:
    """Device code says states, reasons and health with the numbers that the host reads."""
    out = run.buffer(8 * len(_NUMBERS))
    run.launch(run.kernel(_SET, "probe_part_numbers"), 1, 1, out)
    return {"numbers": run.read(out, np.uint64)}


@numbers.judge
def _(seen: Seen) -> None:
    found = dict(zip(_NUMBERS, seen["numbers"].tolist(), strict=True))
    seen.equal("ring.request.status_reported", "numbers of the device's half", found, _NUMBERS)


#: A request that fits, and what each other one has instead.
_FITS: dict[str, int] = {
    **{"opcode": 2, "queue_class": 0, "target": 0, "block_count": 2, "first_lba": 5, "buffer": 0},
    **{"command_bits": 0, "buffer_offset": 1024},
}
_OTHERWISE: tuple[dict[str, int], ...] = (
    {},
    *({"queue_class": one} for one in (1, 2, 3, 4, 5, 200)),
    *({"opcode": opcode, "block_count": 0} for opcode in (0, 1, 2)),
    *({"block_count": one} for one in (1, 15, 16, 17, 1 << 31)),
    *({"first_lba": lba, "block_count": count} for lba in (998, 999, 1000, 1001, _LAST) for count in (1, 2, 3)),
    # Write zeroes: blocks, and no data.
    *({"opcode": 8, "buffer": one, "buffer_offset": 3} for one in (0, 99)),
    *({"opcode": opcode, "buffer": one} for opcode in (1, 2) for one in (0, 1, 2, 3, 4, 99)),
    *({"buffer_offset": 1024 + one} for one in (1, 2, 3, 4, 5)),
    # Around the buffer's end, which is at 8192, and at 4095 for the third.
    *({"buffer_offset": 8192 - 1024 + one} for one in (-4, 0, 4, 512, 1024, 1028)),
    {"buffer_offset": (1 << 64) - 512},
    *({"target": 1, "buffer": 0, "buffer_offset": 0, "block_count": one} for one in (7, 8)),
    # Pieces of 4096 bytes.
    *({"buffer": 1, "buffer_offset": at} for at in (0, 3072, 3076, 3584, 4092, 4096, 7168)),
)


def _tables(run: Run) -> tuple[Any, Any, Any]:
    """Two namespaces and their buffers; what lies beyond the first one's tables is well, too."""
    targets = np.zeros(2, dtype("ring_target"))
    targets["nsid"], targets["block_bytes"], targets["page_shift"] = 1, _BLOCK, 12
    targets["max_blocks"], targets["block_limit"], targets["lba_shift"] = 16, 1000, 9
    targets["classes"][:, 0], targets["classes"][:, 2] = 1 << 16, 1 << 16
    targets["buffer_first"], targets["buffer_count"] = (0, 2), (2, 1)
    buffers = np.zeros(3, dtype("ring_buffer"))
    buffers["bytes"], buffers["access"], buffers["contiguous"] = (8192, 8192, 4095), (3, 2, 3), 1
    buffers["piece_shift"] = (63, 12, 63)
    requests = np.zeros(len(_OTHERWISE), dtype("ring_request"))
    for row, otherwise in enumerate(_OTHERWISE):
        for name, value in {**_FITS, **otherwise}.items():
            requests[name][row] = value
    return run.array(targets), run.array(buffers), run.array(requests)


@case("ring/part.limits", level="L5", clauses=("ring.request.limits_checked",), kernels=(_SET,))
def limits(run: Run) -> Observations:
    """The device finds each request that does not fit, on either side of each limit, whoever packed it."""
    out = run.buffer(4 * len(_OTHERWISE))
    run.launch(run.kernel(_SET, "probe_part_fits"), 1, 32, *_tables(run), len(_OTHERWISE), out)
    return {"fits": run.read(out, np.uint32)}


def _fits(one: dict[str, int]) -> bool:
    """Whether a request fits the namespaces and buffers of `_tables`, in numbers that do not wrap."""
    moves, count, lba = one["opcode"] & 3, one["block_count"], one["first_lba"]
    if one["queue_class"] not in (0, 2):
        return False
    if count == 0:
        return moves == 0
    if count > 16 or lba + count > 1000:
        return False
    if moves == 0:
        return True
    if one["buffer"] >= (2, 1)[one["target"]] or one["buffer_offset"] % 4:
        return False
    row = one["buffer"] + 2 * one["target"]
    start, end = one["buffer_offset"], one["buffer_offset"] + count * _BLOCK
    if end > (8192, 8192, 4095)[row] or moves not in ((1, 2), (2,), (1, 2))[row]:
        return False
    return row != 1 or start // 4096 == (end - 1) // 4096


@limits.judge
def _(seen: Seen) -> None:
    wanted = np.array([_fits({**_FITS, **otherwise}) for otherwise in _OTHERWISE], np.uint32)
    seen.equal("ring.request.limits_checked", f"fit, of {list(_OTHERWISE)}", seen["fits"], wanted)


@case("ring/part.piece", level="L5", clauses=("ring.buffer.pieces",), kernels=(_SET,))
def piece(run: Run) -> Observations:
    """The descriptor of the piece that holds an offset, sixteen bytes each, is named."""
    buffers = np.zeros(1, dtype("ring_buffer"))
    buffers["pieces"], buffers["piece_shift"] = 0x10000, 21
    offsets = np.array([at + step for at in range(0, 9 << 21, 1 << 21) for step in (0, 4, (1 << 21) - 4)], np.uint64)
    out = run.buffer(offsets.nbytes)
    run.launch(run.kernel(_SET, "probe_part_piece"), 1, 32, run.array(buffers), run.array(offsets), len(offsets), out)
    return {"offsets": offsets, "places": run.read(out, np.uint64)}


@piece.judge
def _(seen: Seen) -> None:
    wanted = np.array([0x10000 + at // (2 << 20) * 16 for at in seen["offsets"].tolist()], np.uint64)
    seen.equal("ring.buffer.pieces", "addresses of descriptors", seen["places"], wanted)


#: A queue of ten entries and seven commands, numbered in three bits, of twelve uses each.
_DEPTH, _COMMANDS, _INDEX_BITS, _USES, _ID = 10, 7, 3, 12, 3


def _queue(run: Run, **words: Any) -> tuple[Any, dict[str, Any]]:
    """A queue over words of the case's own, some of them given; its table, and the memory of its words by name."""
    sizes = {"marks": 8 * _DEPTH, "commands": 8 * (_COMMANDS + 1), "cells": 8 * _COMMANDS}
    memory = {name: run.buffer(nbytes) for name, nbytes in sizes.items() if name not in words}
    memory |= {name: run.array(values) for name, values in words.items() if name in sizes}
    state = np.zeros(1, dtype("ring_queue_state"))
    for name, value in words.get("state", {}).items():
        state[name] = value
    memory["state"] = run.array(state)
    queue = np.zeros(1, dtype("ring_queue"))
    for name, address in {**{name: one.address for name, one in memory.items()}, **words.get("at", {})}.items():
        queue[name] = address
    queue["cq_state"], queue["cq_queues"], queue["id"] = queue["state"], 1, _ID
    queue["sq_depth"], queue["cq_depth"], queue["command_limit"] = _DEPTH, _DEPTH, _COMMANDS
    queue["sq_reciprocal"], queue["command_reciprocal"] = _LAST // _DEPTH, _LAST // _COMMANDS
    queue["index_bits"], queue["generations"] = _INDEX_BITS, _USES
    return run.array(queue), memory


#: Entries known to be fetched, and tickets given out.
_KNOWN = (0, 1, 8, 9, 10, 19, 20, (1 << 33) - 1)


@case("ring/part.head", level="L5", clauses=("ring.sq.slot_reuse_after_fetch",), kernels=(_SET,))
def head(run: Run) -> Observations:
    """A reported head is a place of the queue, and no entry counts as fetched that was not submitted."""
    out, rows = run.buffer(8 * 14), []
    for known, ahead in itertools.product(_KNOWN, (0, 1, 4, 9)):
        queue, _ = _queue(run, state={"ticket": known + ahead})
        heads = np.array([*range(_DEPTH + 2), 0xFFFF, 0xFFFFFFFF], np.uint32)
        table = run.array(np.full(len(heads), known, np.uint64))
        run.launch(run.kernel(_SET, "probe_part_fetched"), 1, 32, queue, table, run.array(heads), len(heads), out)
        rows += [[known, ahead, int(h), int(f)] for h, f in zip(heads, run.read(out, np.uint64), strict=True)]
    return {"rows": rows}


@head.judge
def _(seen: Seen) -> None:
    found, wanted = [], []
    for known, ahead, reported, believed in seen["rows"]:
        # The next number from `known` on that lies at the place that is reported.
        ring = [n for n in range(known, known + _DEPTH) if n % _DEPTH == reported]
        wanted.append([known, ahead, reported, ring[0] if ring and ring[0] <= known + ahead else known])
        found.append([known, ahead, reported, believed])
    seen.equal("ring.sq.slot_reuse_after_fetch", "known, tickets beyond, head, fetched", found, wanted)


#: Flags of a command word.
_FREE, _BUSY, _QUARANTINED, _LATE = 0, 1 << 16, 2 << 16, 4 << 16
#: Row -> flags of its word; each identifier is in its second use. The word past the last is nobody's.
_COMMAND_WORDS = (_BUSY, _QUARANTINED, _LATE, _FREE, _BUSY, _BUSY, _QUARANTINED)
#: Completions one after another: row, use, queue; those of row 7 name a command that the queue has not.
_COMPLETIONS = (
    *((0, 1, _ID), (0, 1, _ID), (1, 1, _ID), (1, 1, _ID), (2, 1, _ID), (3, 1, _ID)),
    *((4, 0, _ID), (4, 2, _ID), (4, 1, _ID + 1), (4, 1, _ID), (7, 1, _ID), (6, 0, _ID), (5, 1, 0)),
)


@case(
    "ring/part.completion",
    level="L5",
    clauses=("ring.cq.by_cid", "ring.cq.late_counted", "ring.cq.duplicate_counted"),
    kernels=(_SET,),
)
def completion(run: Run) -> Observations:
    """One completion ends one command in flight; a late one is counted once, any other as a stray."""
    words = np.array(
        [row << 32 | flags | 1 << _INDEX_BITS | row for row, flags in enumerate(_COMMAND_WORDS)], np.uint64
    )
    beyond = np.array([_COMMANDS << 32 | _BUSY | 1 << _INDEX_BITS | _COMMANDS], np.uint64)
    queue, memory = _queue(run, commands=np.concatenate([words, beyond]))
    statuses = run.buffer(dtype("ring_status").itemsize * (_COMMANDS + 1))
    entries = np.zeros(len(_COMPLETIONS), dtype("ring_cqe"))
    for at, (row, use, of) in enumerate(_COMPLETIONS):
        entries["dword_0"][at], entries["dword_2"][at] = 0x500 + at, of << 16
        # Phase 1, status type 2, code 81h.
        entries["dword_3"][at] = 0x281 << 17 | 1 << 16 | use << _INDEX_BITS | row
    out, table = run.buffer(4 * len(entries)), run.array(entries)
    run.launch(run.kernel(_SET, "probe_part_complete"), 1, 1, queue, statuses, table, len(entries), out)
    after, state = run.read(statuses, dtype("ring_status")), run.read(memory["state"], dtype("ring_queue_state"))[0]
    return {
        "believed": run.read(out, np.uint32),
        "codes": after["code"],
        "results": after["result"],
        "words": run.read(memory["commands"], np.uint64),
        "counted": {name: int(state[name]) for name in ("strays", "lates", "completions", "retired", "credits")},
    }


@completion.judge
def _(seen: Seen) -> None:
    good = [0, 9]
    seen.equal("ring.cq.by_cid", "completions believed", np.flatnonzero(seen["believed"]).tolist(), good)
    ended = {0: 0, 4: 9}
    codes = [2 << 24 | 0x281 if row in ended else 0 for row in range(_COMMANDS + 1)]
    seen.equal("ring.cq.by_cid", "codes of the records", seen["codes"].tolist(), codes)
    results = [0x500 + ended[row] if row in ended else 0 for row in range(_COMMANDS + 1)]
    seen.equal("ring.cq.by_cid", "results of the records", seen["results"].tolist(), results)
    flags = [_FREE, _LATE, _LATE, _FREE, _FREE, _BUSY, _QUARANTINED, _BUSY]
    words = [row << 32 | flag | 1 << _INDEX_BITS | row for row, flag in enumerate(flags)]
    seen.equal("ring.cq.by_cid", "command words", seen["words"].tolist(), words)
    counted = seen["counted"]
    seen.equal("ring.cq.late_counted", "late ones", counted["lates"], 1)
    seen.equal("ring.cq.duplicate_counted", "strays", counted["strays"], len(_COMPLETIONS) - len(good) - 1)
    # Who took them gives identifiers and credits back, not who judged them.
    rest = [counted[name] for name in ("completions", "retired", "credits")]
    seen.equal("ring.cq.duplicate_counted", "what else is counted", rest, [0, 0, 0])


@case(
    "ring/part.identifiers",
    level="L5",
    clauses=("ring.sq.ticket_never_wraps", "ring.timeout.cid_quarantined"),
    kernels=(_SET,),
)
def identifiers(run: Run) -> Observations:
    """An identifier comes back in its next use, to the ticket that follows its return by the number of commands."""
    rows = [(row, use, number) for number in _RETURNS for row, use in ((0, 0), (6, 5), (2, _USES - 2), (3, _USES - 1))]
    given = np.array([use << _INDEX_BITS | row for row, use, _ in rows], np.uint32)
    returns = np.array([number for _, _, number in rows], np.uint64)
    queue, _ = _queue(run)
    told = []
    for later in (0, 1):
        tickets = run.array(returns + np.uint64(_COMMANDS + later))
        out = run.buffer(4 * len(rows))
        arguments = (run.array(given), run.array(returns), tickets, len(rows), 100)
        run.launch(run.kernel(_SET, "probe_part_identifiers"), 1, 1, queue, *arguments, out)
        told.append(run.read(out, np.uint32))
    return {"rows": rows, "own": told[0], "next": told[1]}


#: Numbers of returns: the first, and those whose tickets do not fit into 32 bits, or into the bits of a cell's tag.
_RETURNS = (0, 1, 6, (1 << 32) - 7, (1 << 32) + 3, (1 << 48) - 8, (1 << 48) - 7, (1 << 48) + 11)


@identifiers.judge
def _(seen: Seen) -> None:
    wanted = np.array([(use + 1) % _USES << _INDEX_BITS | row for row, use, _ in seen["rows"]], np.uint32)
    seen.equal("ring.sq.ticket_never_wraps", "identifiers of the tickets", seen["own"], wanted)
    # The cell of another ticket: it waits its time, and gets none.
    seen.equal("ring.timeout.cid_quarantined", "of the tickets after", set(seen["next"].tolist()), {0xFFFF})


#: Ticket of the first mark; marks without a gap, and what the places behind them hold.
_MARKED = tuple(itertools.product((0, 3, 9, 10, (1 << 32) - 2), range(_DEPTH), ("nothing", "the lap before", "a gap")))


@case("ring/part.marks", level="L5", clauses=("ring.sq.published_before_doorbell",), kernels=(_SET,))
def marks(run: Run) -> Observations:
    """A leader counts the marks that lie without a gap before it, and none of the lap before, nor one behind a gap."""
    counts, out = [], run.buffer(8)
    for first, many, behind in _MARKED:
        words = np.zeros(_DEPTH, np.uint64)
        if behind == "the lap before" and first >= _DEPTH:
            for ticket in range(first + many, first + _DEPTH):
                words[ticket % _DEPTH] = ticket - _DEPTH + 1
        if behind == "a gap":
            for ticket in range(first + many + 1, first + _DEPTH):
                words[ticket % _DEPTH] = ticket + 1
        for ticket in range(first, first + many):
            words[ticket % _DEPTH] = ticket + 1
        queue, _ = _queue(run, marks=words)
        run.launch(run.kernel(_SET, "probe_part_marked"), 1, 1, queue, first, out)
        counts.append(int(run.read(out, np.uint32)[0]))
    return {"counts": counts, "most": int(run.read(out, np.uint32)[1])}


@marks.judge
def _(seen: Seen) -> None:
    # It may look at some of them only, but at one at least.
    most = seen["most"]
    seen.holds("ring.sq.published_before_doorbell", "it looks at one mark or more", most >= 1, most)
    wanted = [min(many, most) for _, many, _ in _MARKED]
    seen.equal("ring.sq.published_before_doorbell", f"marks counted, of {list(_MARKED)}", seen["counts"], wanted)


#: Requests that a lane alone sends, and of how many the identifier is there.
_SENT, _CELLS = 6, 4


@case(
    "ring/part.submit",
    level="L5",
    clauses=("ring.sq.published_before_doorbell", "ring.request.starts_not_run", "ring.timeout.queue_marked"),
    kernels=(_SET,),
)
def submit(run: Run) -> Observations:
    """Where an identifier does not come: what has one is sent, nothing else is told to the drive, the queue ends."""
    cells = np.zeros(_COMMANDS, np.uint64)
    for row in range(_CELLS):
        cells[row] = row << 16 | 1 << _INDEX_BITS | row
    sq, bell = run.buffer(64 * _DEPTH, fill=0xEE), run.buffer(4)
    at = {"sq": sq.address, "sq_doorbell": bell.address}
    queue, memory = _queue(run, cells=cells, state={"credits": _COMMANDS, "allowed": _COMMANDS}, at=at)
    target = np.zeros(1, dtype("ring_target"))
    target["nsid"], target["block_bytes"], target["page_shift"], target["max_blocks"] = 1, _BLOCK, 12, 1
    target["block_limit"], target["classes"] = 1000, 1 << 16
    requests, statuses = np.zeros(_SENT, dtype("ring_request")), np.zeros(_SENT, dtype("ring_status"))
    requests["first_lba"], statuses["result"] = np.arange(_SENT) + 50, 0x99
    records, out = run.array(statuses), run.buffer(4)
    tables = (run.array(target), queue, run.buffer(dtype("ring_buffer").itemsize), run.array(requests), records)
    run.launch(run.kernel(_SET, "probe_part_submit"), 1, 1, *tables, _SENT, 1000, out)
    state, after = run.read(memory["state"], dtype("ring_queue_state"))[0], run.read(records, dtype("ring_status"))
    return {
        "sent": int(run.read(out, np.uint32)[0]),
        "state": {name: int(state[name]) for name in ("ticket", "credits", "health", "doorbell", "doorbells")},
        "bell": int(run.read(bell, np.uint32)[0]),
        "marks": run.read(memory["marks"], np.uint64),
        "commands": run.read(memory["commands"], np.uint64)[:_COMMANDS],
        "blocks": run.read(sq, np.uint32, (_DEPTH, 16))[:, 10],
        "records": [[int(one["code"]), int(one["result"]), int(one["identifier"])] for one in after],
    }


@submit.judge
def _(seen: Seen) -> None:
    clause, here = "ring.sq.published_before_doorbell", range(_CELLS)
    identifiers = [1 << _INDEX_BITS | row for row in here]
    seen.equal(clause, "requests sent", seen["sent"], _CELLS)
    seen.equal(clause, "marks", seen["marks"].tolist(), [row + 1 if row in here else 0 for row in range(_DEPTH)])
    blocks = [50 + row if row in here else 0xEEEEEEEE for row in range(_DEPTH)]
    seen.equal(clause, "block number in each entry", seen["blocks"].tolist(), blocks)
    words = [row << 32 | _BUSY | identifiers[row] if row in here else 0 for row in range(_COMMANDS)]
    seen.equal(clause, "command words", seen["commands"].tolist(), words)
    seen.equal(clause, "doorbell", seen["bell"], _CELLS)
    wanted = {"ticket": _SENT, "credits": _COMMANDS - _SENT, "health": 4, "doorbell": _CELLS << 1, "doorbells": 1}
    # The tickets are spent: the queue takes nothing more, and must be made anew.
    seen.equal("ring.timeout.queue_marked", "state of the queue", seen["state"], wanted)
    records = [[1 << 24, 0, identifiers[row]] if row in here else [0, 0x99, 0] for row in range(_SENT)]
    seen.equal("ring.request.starts_not_run", "records", seen["records"], records)

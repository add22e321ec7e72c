"""Commands that a controller must refuse, each with the status that the specification gives it, moving no byte."""

from __future__ import annotations

import struct
from collections.abc import Sequence

import numpy as np

from tutti_hal.conformance_tests.case import Observations, case
from tutti_hal.conformance_tests.cases.l5_controller.answers import answers, judge_answers
from tutti_hal.conformance_tests.oracle.nvme import (
    CID_CONFLICT,
    COMPARE,
    DATA_TRANSFER,
    FLUSH,
    IDENTIFY,
    INVALID_FIELD,
    INVALID_NAMESPACE,
    INVALID_OPCODE,
    LBA_RANGE,
    OK,
    PAGE,
    PRP_OFFSET,
    READ,
    SET_FEATURES,
    WRITE,
    WRITE_ZEROES,
    Status,
    block_descriptor,
    rw,
    sqe,
)
from tutti_hal.conformance_tests.rig import BLOCK, drive, raw_host
from tutti_hal.conformance_tests.run import Run
from tutti_hal.conformance_tests.seen import Seen
from tutti_hal.nvme.software_config import FaultAction, FaultRule

#: Blocks of the namespace in these cases.
_BLOCKS = 1 << 16


#: Clause -> what is tried -> status.
_IO: dict[str, dict[str, Status]] = {
    "controller.admin.invalid_opcode": {
        "I/O opcode 7Fh": INVALID_OPCODE,
        "I/O opcode 82h": INVALID_OPCODE,
        "I/O opcode 04h, not declared": INVALID_OPCODE,
    },
    "controller.admin.invalid_field": {
        "reserved PSDT": INVALID_FIELD,
        "fused read": INVALID_FIELD,
        "PRP1 of zero": INVALID_FIELD,
        "PRP2 of zero where it is used": INVALID_FIELD,
    },
    "controller.command.lba_range": {
        "read past the end": LBA_RANGE,
        "read over the end": LBA_RANGE,
        "read that wraps": LBA_RANGE,
        "write over the end": LBA_RANGE,
        "zeroes over the end": LBA_RANGE,
        "compare past the end": LBA_RANGE,
        "read of the last block": OK,
    },
    "controller.command.namespace_invalid": {
        "read of namespace 0": INVALID_NAMESPACE,
        "read of namespace 2": INVALID_NAMESPACE,
        "read of all namespaces": INVALID_NAMESPACE,
        "write of namespace 9": INVALID_NAMESPACE,
        "flush of namespace 3": INVALID_NAMESPACE,
    },
    "controller.command.mdts": {
        "two pages where two are the limit": OK,
        "a block more": INVALID_FIELD,
        "the whole namespace": INVALID_FIELD,
    },
    "controller.prp.invalid_offset": {
        "PRP1 off a double word": PRP_OFFSET,
        "PRP2 inside a page": PRP_OFFSET,
        "list off a quad word": PRP_OFFSET,
        "list entry inside a page": PRP_OFFSET,
        "offset in the first page": OK,
    },
    "controller.dma.registered_only": {
        "read to an address that is not mapped": DATA_TRANSFER,
        "write from one": DATA_TRANSFER,
        "compare with one": DATA_TRANSFER,
        "read to a second page that is not": DATA_TRANSFER,
        "list that is not": DATA_TRANSFER,
        "address of all ones": DATA_TRANSFER,
    },
}


@case(
    "controller/refused",
    level="L5",
    clauses=tuple(_IO),
    axes={"clause": tuple(c.split(".", 1)[1] for c in _IO)},
    narrow=lambda axes: (f"controller.{axes['clause']}",),
)
def refused(run: Run) -> Observations:
    """Commands that do not fit are answered with the status for it, and what lies in namespace and memory stays."""
    with raw_host(run, drive(blocks=_BLOCKS, mdts=1)) as host:
        memory, lists = host.allocate(6 * PAGE), host.allocate(PAGE)
        memory.put(0, bytes([0xA5]) * memory.nbytes)
        before = run.random.integers(1, 256, 64 * BLOCK, np.uint8).tobytes()
        host.drive.write_stored(1, 0, before)
        tried = _commands(memory.pages(), lists.bus())
        lists.put(0, struct.pack("<3Q", memory.pages()[1] + 8, memory.pages()[2], 0))
        clause = f"controller.{run.axes['clause']}"
        moved = [name for name, status in _IO[clause].items() if status == OK]
        found = answers(host, 1, {name: tried[name] for name in _IO[clause] if name not in moved})
        kept = host.drive.read_stored(1, 0, 64 * BLOCK) == before
        untouched = memory.get(0, memory.nbytes) == bytes([0xA5]) * memory.nbytes
        found |= answers(host, 1, {name: tried[name] for name in moved})
        return {"found": found, "kept": kept, "untouched": untouched, "errors": host.drive.counters.errors}


def _commands(pages: Sequence[int], listing: int) -> dict[str, bytes]:
    """Every command that is tried, by what it is; ``listing`` names a list whose first entry has an offset."""
    a, b = pages[0], pages[1]
    nowhere = 0x7000
    return {
        "I/O opcode 7Fh": rw(0x7F, 0, 1, prp1=a),
        "I/O opcode 82h": rw(0x82, 0, 1, prp1=a),
        "I/O opcode 04h, not declared": rw(0x04, 0, 1, prp1=a),
        "reserved PSDT": rw(READ, 0, 1, psdt=3, prp1=a),
        "fused read": rw(READ, 0, 1, fuse=1, prp1=a),
        "PRP1 of zero": rw(READ, 0, 1),
        "PRP2 of zero where it is used": rw(READ, 0, 8, prp1=a + 4),
        "read past the end": rw(READ, _BLOCKS, 1, prp1=a),
        "read over the end": rw(READ, _BLOCKS - 1, 2, prp1=a),
        "read that wraps": rw(READ, 2**64 - 1, 2, prp1=a),
        "write over the end": rw(WRITE, _BLOCKS - 1, 2, prp1=a),
        "zeroes over the end": rw(WRITE_ZEROES, _BLOCKS - 3, 4),
        "compare past the end": rw(COMPARE, _BLOCKS + 7, 1, prp1=a),
        "read of the last block": rw(READ, _BLOCKS - 1, 1, prp1=a),
        "read of namespace 0": rw(READ, 0, 1, nsid=0, prp1=a),
        "read of namespace 2": rw(READ, 0, 1, nsid=2, prp1=a),
        "read of all namespaces": rw(READ, 0, 1, nsid=0xFFFFFFFF, prp1=a),
        "write of namespace 9": rw(WRITE, 0, 1, nsid=9, prp1=a),
        "flush of namespace 3": sqe(FLUSH, nsid=3),
        "two pages where two are the limit": rw(READ, 0, 16, prp1=a, prp2=b),
        "a block more": rw(READ, 0, 17, prp1=a, prp2=listing),
        "the whole namespace": rw(READ, 0, _BLOCKS, prp1=a, prp2=listing),
        "PRP1 off a double word": rw(READ, 0, 1, prp1=a + 2),
        "PRP2 inside a page": rw(READ, 0, 16, prp1=a, prp2=b + 4),
        "list off a quad word": rw(READ, 0, 16, prp1=a + 4, prp2=listing + 4),
        "list entry inside a page": rw(READ, 0, 16, prp1=a + 4, prp2=listing),
        "offset in the first page": rw(READ, 0, 1, prp1=a + 4),
        "read to an address that is not mapped": rw(READ, 0, 8, prp1=nowhere),
        "write from one": rw(WRITE, 0, 8, prp1=nowhere),
        "compare with one": rw(COMPARE, 0, 8, prp1=nowhere),
        "read to a second page that is not": rw(READ, 0, 16, prp1=a, prp2=nowhere),
        "list that is not": rw(READ, 0, 16, prp1=a + 4, prp2=nowhere),
        "address of all ones": rw(READ, 0, 8, prp1=2**64 - PAGE),
    }


@refused.judge
def _(seen: Seen) -> None:
    clause = f"controller.{seen.axes['clause']}"
    wanted = _IO[clause]
    judge_answers(seen, clause, seen["found"], wanted)
    seen.equal(clause, "bytes of the namespace stay as they were", seen["kept"], True)
    # A second page that is not mapped may be found after the first was filled.
    if clause != "controller.dma.registered_only":
        seen.equal(clause, "bytes of the host's memory stay as they were", seen["untouched"], True)
    seen.equal(clause, "errors that it counted", seen["errors"], sum(status != OK for status in wanted.values()))


@case(
    "controller/admin_refused",
    level="L5",
    clauses=("controller.admin.invalid_opcode", "controller.admin.invalid_field", "nvme.sgl.only_if_offered"),
)
def admin_refused(run: Run) -> Observations:
    """Admin commands that do not exist, or say what they must not, are refused."""
    with raw_host(run, drive(), queues=0) as host:
        page = host.allocate(PAGE).bus()
        unknown = {f"opcode {opcode:02X}h": sqe(opcode, prp1=page) for opcode in (0x1F, 0x7F, 0xBF, 0xFF)}
        wrong = {
            "Identify of an unknown structure": sqe(IDENTIFY, prp1=page, dwords={10: 0xEE}),
            "Identify with an SGL": sqe(IDENTIFY, psdt=1, sgl=block_descriptor(page, PAGE), dwords={10: 1}),
            "65,536 queues": sqe(SET_FEATURES, dwords={10: 7, 11: 0xFFFFFFFF}),
            "a feature that does not exist": sqe(SET_FEATURES, dwords={10: 0x7E}),
        }
        return {"unknown": answers(host, 0, unknown), "wrong": answers(host, 0, wrong)}


@admin_refused.judge
def _(seen: Seen) -> None:
    for name, status in seen["unknown"].items():
        seen.equal("controller.admin.invalid_opcode", f"status of {name}", status, list(INVALID_OPCODE))
    for name, status in seen["wrong"].items():
        seen.equal("controller.admin.invalid_field", f"status of {name}", status, list(INVALID_FIELD))
    found = seen["wrong"]["Identify with an SGL"]
    seen.equal("nvme.sgl.only_if_offered", "status of an admin command with an SGL", found, list(INVALID_FIELD))


@case("controller/cid_conflict", level="L5", clauses=("controller.command.cid_conflict",))
def cid_conflict(run: Run) -> Observations:
    """An identifier that is in flight on its queue is a conflict; on another queue, or afterwards, it is none."""
    slow = FaultRule(action=FaultAction.DELAY, delay_ns=20_000_000, count=1)
    with raw_host(run, drive(), faults=[slow]) as host:
        entry = rw(READ, 0, 1, prp1=host.allocate(PAGE).bus(), cid=77)
        host.send(1, [entry, entry], keep_cids=True)
        both = [[one.cid, *one.status] for one in host.collect(1, 2)]
        host.send(1, [entry], keep_cids=True)
        after = [[one.cid, *one.status] for one in host.collect(1, 1)]
        return {"both": both, "after": after}


@cid_conflict.judge
def _(seen: Seen) -> None:
    clause = "controller.command.cid_conflict"
    seen.equal(clause, "the second command, then the first", seen["both"], [[77, *CID_CONFLICT], [77, *OK]])
    seen.equal(clause, "the same identifier afterwards", seen["after"], [[77, *OK]])

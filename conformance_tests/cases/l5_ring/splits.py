"""Requests above what one command may carry: how they are cut, what each part says, and how their ends are joined."""

from __future__ import annotations

from typing import Any

import numpy as np

from tutti_hal.conformance_tests.case import Observations, case
from tutti_hal.conformance_tests.oracle.protection import (
    CHECK_APPLICATION,
    CHECK_GUARD,
    CHECK_REFERENCE,
    PRACT,
    guards_of,
)
from tutti_hal.conformance_tests.rig import SPOILT, Rig, drive
from tutti_hal.conformance_tests.run import Run
from tutti_hal.conformance_tests.seen import Seen
from tutti_hal.io_uring import Protect
from tutti_hal.nvme.software_config import FaultAction, FaultRule, MemoryNamespace

_TAG, _MASK = 0xC0DE, 0xFFFF
_CHECKS = CHECK_GUARD | CHECK_APPLICATION | CHECK_REFERENCE

#: Number of a namespace -> type of protection, metadata inline.
_SPACES: dict[int, tuple[int, bool]] = {1: (0, False), 3: (1, False), 255: (2, True)}

#: First block: a request from here goes past block 2^32, where reference tags begin anew.
_FIRST = (1 << 32) - 5
_CAPACITY = (1 << 32) + (1 << 12)


def _most(mdts: int, lba: int, nsid: int) -> int:
    """Blocks that one command may carry: MDTS counts inline metadata, pages are 4096 bytes, 0 is no limit."""
    _, inline = _SPACES[nsid]
    return (4096 << mdts) // (lba + (8 if inline else 0)) if mdts else 1 << 16


def _count(mdts: int, lba: int) -> int:
    """Blocks of each request: three more than two commands carry, than one large one; or what one takes easily."""
    return (2 if mdts < 7 else 1) * ((4096 << mdts) // lba) + 3 if mdts else (1 << 17) // lba


def _parts(first: int, count: int, most: int) -> list[tuple[int, int]]:
    """(first block, blocks) of each command."""
    return [(first + done, min(most, count - done)) for done in range(0, count, most)]


@case(
    "ring/split",
    level="L5",
    clauses=(
        *("ring.request.split", "ring.format.tags", "nvme.transfer.mdts", "ring.request.data_exact"),
        *("nvme.nlb.zero_based", "nvme.identify.namespace_list", "ring.format.metadata_exact"),
    ),
    kernels=("ring",),
    budget_s=30.0,
    axes={"mdts": (0, 3, 5, 7), "lba": (512, 4096)},
)
def splits(run: Run) -> Observations:
    """Requests of up to a megabyte, for namespaces 1, 3 and 255 beyond 2^32 blocks, with and without protection."""
    mdts, lba = int(run.axes["mdts"]), int(run.axes["lba"])
    spaces = tuple(
        MemoryNamespace(
            nsid=nsid,
            blocks=_CAPACITY,
            lba_shift=lba.bit_length() - 1,
            metadata_bytes=8 if kind else 0,
            metadata_inline=inline,
            protection=kind,
        )
        for nsid, (kind, inline) in _SPACES.items()
    )
    count = _count(mdts, lba)
    source = run.random.integers(0, 256, count * lba, np.uint8)
    trips = {}
    with Rig(
        run,
        {"depth": 64},
        drives=[drive(namespaces=spaces, mdts=mdts)],
        data_bytes=count * lba + 8192,
        metadata_bytes=count * 8,
        tags=(_TAG, _MASK),
        places={"submission_queue": "host"},
    ) as rig:
        for nsid, (kind, _) in _SPACES.items():
            where: dict[str, Any] = {"target": rig.ring.target(0, nsid), "lba": _FIRST, "nbytes": count * lba}
            rig.put(source)
            written = rig.submit("write", protect=Protect(PRACT if kind else 0), **where)
            rig.put()
            read = rig.submit("read", protect=Protect(PRACT | _CHECKS if kind else 0), **where)
            drive_0 = rig.controllers[0]
            trips[str(nsid)] = {
                "status": [written["status"], read["status"]],
                "states": [*written["state"], *read["state"]],
                "commands": [int(written["commands"][0]), int(read["commands"][0])],
                "stored": np.frombuffer(drive_0.read_stored(nsid, _FIRST * lba, count * lba), np.uint8),
                "metadata": np.frombuffer(drive_0.read_stored_metadata(nsid, _FIRST * 8, count * 8), np.uint8)
                if kind
                else np.zeros(0, np.uint8),
                "memory": rig.get(),
            }
        return {"source": source, "trips": trips, "entries": rig.entries(), "nsids": [t.nsid for t in rig.ring.targets]}


@splits.judge
def _(seen: Seen) -> None:
    mdts, lba = int(seen.axes["mdts"]), int(seen.axes["lba"])
    source, count = seen["source"], _count(mdts, lba)
    seen.equal("nvme.identify.namespace_list", "namespaces", seen["nsids"], list(_SPACES))
    for nsid, (kind, _) in _SPACES.items():
        one, of = seen["trips"][str(nsid)], f"namespace {nsid}"
        parts = _parts(_FIRST, count, _most(mdts, lba, nsid))
        seen.equal("ring.request.split", f"commands, {of}", one["commands"], [len(parts)] * 2)
        seen.equal("ring.request.split", f"states, {of}", one["states"], ["COMPLETED"] * 2)
        seen.equal("ring.request.split", f"statuses, {of}", np.array(one["status"]).ravel(), np.zeros(4, np.uint8))
        memory = one["memory"]
        seen.equal("ring.request.data_exact", f"stored data, {of}", one["stored"], source)
        seen.equal("ring.request.data_exact", f"what was read, {of}", memory[: len(source)], source)
        spoilt = np.full(len(memory) - len(source), SPOILT, np.uint8)
        seen.equal("ring.request.data_exact", f"what lies behind it, {of}", memory[len(source) :], spoilt)
        for opcode, made in ((1, PRACT), (2, PRACT | _CHECKS)):
            sent = sorted(
                ((int(e[10]) | int(e[11]) << 32, [int(e[n]) for n in (12, 14, 15, 4, 5)]))
                for e in seen["entries"]
                if int(e[0]) & 0xFF == opcode and int(e[1]) == nsid
            )
            bounds = [(first, words[0] & 0xFFFF) for first, words in sent]
            cut = [(first, blocks - 1) for first, blocks in parts]
            clause = "nvme.transfer.mdts" if mdts else "nvme.nlb.zero_based"
            seen.equal(clause, f"first block and blocks less one, opcode {opcode}, {of}", bounds, cut)
            seen.equal("nvme.nlb.zero_based", f"blocks of all parts, {of}", sum(n + 1 for _, n in bounds), count)
            flags = [[words[0] & ~0xFFFF, *words[1:]] for _, words in sent]
            tags = [[made, first & 0xFFFFFFFF, _MASK << 16 | _TAG, 0, 0] if kind else [0] * 5 for first, _ in parts]
            seen.equal(
                "ring.format.tags",
                f"flags, reference and application tags, and no MPTR, opcode {opcode}, {of}",
                flags,
                tags,
            )
        longest = max(blocks for _, blocks in parts) * (lba + (8 if _SPACES[nsid][1] else 0))
        seen.holds(
            "nvme.transfer.mdts", f"no part above the limit, {of}", mdts == 0 or longest <= 4096 << mdts, longest
        )
        if kind:
            wanted = np.zeros((count, 8), np.uint8)
            wanted[:, 0:2] = guards_of(source.reshape(count, lba)).astype(">u2").view(np.uint8).reshape(-1, 2)
            wanted[:, 2:4] = [_TAG >> 8, _TAG & 0xFF]
            references = (np.arange(count, dtype=np.uint64) + np.uint64(_FIRST)).astype(np.uint32)
            wanted[:, 4:8] = references.astype(">u4").view(np.uint8).reshape(-1, 4)
            seen.equal("ring.format.metadata_exact", f"stored tuples, {of}", one["metadata"], wanted.ravel())


#: Block of a request of three commands -> what the drive answers for the one that holds it.
_ANSWERS = {0: (2, 0x81), 40: (1, 0x80), 32: (0, 0x06)}


@case(
    "ring/split.ends",
    level="L5",
    clauses=("ring.request.split", "ring.request.status_reported"),
    kernels=("ring",),
)
def ends(run: Run) -> Observations:
    """A request of several commands fails with the status of the one that failed, whichever it was, and once."""
    ended = []
    with Rig(run, drives=[drive(mdts=1)]) as rig:
        for block, (sct, sc) in _ANSWERS.items():
            rig.controllers[0].clear_faults()
            rule = FaultRule(action=FaultAction.STATUS, lbas=(block, block), status=(sct, sc), dnr=True)
            rig.controllers[0].inject(rule)
            # Between two that are well: their ends stay their own.
            lbas, sizes = np.array([100, 0, 200]), np.array([512 * 20, 512 * 42, 512])
            one = rig.submit("read", lba=lbas, nbytes=sizes, offset=np.array([0, 10240, 31744]))
            ended.append([one["state"], one["status"].tolist(), one["commands"].tolist(), one["dnr"].tolist()])
        return {"ended": ended, "io": rig.counted()["drives"][0]["io"]}


@ends.judge
def _(seen: Seen) -> None:
    for one, (block, answer) in zip(seen["ended"], _ANSWERS.items(), strict=True):
        states, statuses, commands, dnr = one
        of = f"with a fault at block {block}"
        seen.equal("ring.request.split", f"states {of}", states, ["COMPLETED"] * 3)
        seen.equal("ring.request.split", f"commands {of}", commands, [2, 3, 1])
        seen.equal("ring.request.status_reported", f"statuses {of}", statuses, [[0, 0], list(answer), [0, 0]])
        seen.equal("ring.request.status_reported", f"do-not-retry {of}", dnr, [False, True, False])
    seen.equal("ring.request.split", "commands that the drive was given", seen["io"], {"2": 6 * len(_ANSWERS)})

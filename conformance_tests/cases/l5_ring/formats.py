"""Formats with metadata and protection information: what lies where, who makes it, and what is found wrong."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from tutti_hal.conformance_tests.case import Observations, case
from tutti_hal.conformance_tests.observation import refusal
from tutti_hal.conformance_tests.oracle.protection import (
    APPLICATION_CHECK,
    CHECK_APPLICATION,
    CHECK_GUARD,
    CHECK_REFERENCE,
    GUARD_CHECK,
    PRACT,
    REFERENCE_CHECK,
    metadata_of,
    reference_of,
)
from tutti_hal.conformance_tests.rig import SPOILT, Rig, drive
from tutti_hal.conformance_tests.run import Run
from tutti_hal.conformance_tests.seen import Seen
from tutti_hal.io_uring import Protect
from tutti_hal.io_uring.layout import dtype
from tutti_hal.nvme.software_config import MemoryNamespace

#: Application tag of the drives here, and the bits of it that they compare.
_TAG, _MASK = 0x5A3C, 0xF0FF
_CHECKS = CHECK_GUARD | CHECK_APPLICATION | CHECK_REFERENCE

#: Number of a namespace -> log2 of its block, bytes of metadata, inline or apart, protection before other metadata.
_SPACES: dict[int, tuple[int, int, bool, bool]] = {
    1: (9, 8, True, False),
    3: (9, 8, False, False),
    4: (12, 8, True, False),
    9: (12, 8, False, False),
    254: (9, 64, False, True),
    255: (9, 64, True, False),
}

#: Requests of each namespace: first block, blocks, block of the buffer where its data begin.
_REQUESTS = ((3, 1, 0), (22, 5, 1), (10, 2, 9))
#: Blocks of the buffer that they may touch, and of the namespace that are looked at.
_ROOM, _LOOK = 12, 30


def _spaces(kind: int) -> tuple[MemoryNamespace, ...]:
    return tuple(
        MemoryNamespace(
            nsid=nsid,
            blocks=128,
            lba_shift=shift,
            metadata_bytes=size,
            metadata_inline=inline,
            protection=kind,
            protection_first=first and kind > 0,
        )
        for nsid, (shift, size, inline, first) in _SPACES.items()
    )


def _checks(kind: int) -> int:
    # Of type 3 no reference tag is checked.
    return 0 if kind == 0 else _CHECKS if kind < 3 else _CHECKS & ~CHECK_REFERENCE


def _blocks(kind: int, nsid: int, source: np.ndarray[Any, Any]) -> Iterator[tuple[int, int, bytes, bytes]]:
    """(block of the namespace, block of the buffer, data, metadata) of every block that is sent to a namespace.

    ``source`` has a row of random bytes for each block of the buffer: data, then metadata. Of these the protection
    information is made; nothing of the product is asked.
    """
    shift, size, _, first = _SPACES[nsid]
    for lba, count, at in _REQUESTS:
        for n in range(count):
            row = bytes(source[at + n])
            data, meta = row[: 1 << shift], row[4096 : 4096 + size]
            if kind:
                reference = reference_of(kind, lba + n)
                meta = metadata_of(data, meta[: size - 8], _TAG, reference, first=first)
            yield lba + n, at + n, data, meta


def _images(kind: int, nsid: int, source: np.ndarray[Any, Any], made: bool, stripped: bool) -> tuple[bytes, bytes]:
    """What the buffer and the metadata memory hold: with ``made`` nonsense where the drive makes the tuple."""
    shift, size, inline, first = _SPACES[nsid]
    inside = size if inline and not stripped else 0
    each = (1 << shift) + inside
    memory, beside = bytearray([SPOILT]) * (_ROOM * each), bytearray([SPOILT]) * (_ROOM * size)
    for _, at, data, meta in _blocks(kind, nsid, source):
        place = 0 if first else size - 8
        sent = meta[:place] + b"\x99" * 8 + meta[place + 8 :] if made else meta
        memory[at * each : (at + 1) * each] = data + (sent if inside else b"")
        if not inline and not stripped:
            beside[at * size : (at + 1) * size] = sent
    return bytes(memory), bytes(beside)


def _look(rig: Rig, nsid: int) -> dict[str, Any]:
    shift, size, inline, _ = _SPACES[nsid]
    each = (1 << shift) + (size if inline else 0)
    drive_0 = rig.controllers[0]
    return {
        "stored": np.frombuffer(drive_0.read_stored(nsid, 0, _LOOK << shift), np.uint8),
        "stored_metadata": np.frombuffer(drive_0.read_stored_metadata(nsid, 0, _LOOK * size), np.uint8),
        "memory": rig.get(_ROOM * each),
        "beside": rig.get(_ROOM * size, rig.beside),
    }


def _send(rig: Rig, nsid: int, verb: str, protect: int, stripped: bool) -> list[Any]:
    """The statuses of all requests of a namespace, or their states where one has no status."""
    shift, size, inline, _ = _SPACES[nsid]
    each = (1 << shift) + (size if inline and not stripped else 0)
    lbas, counts, at = (np.array(column) for column in zip(*_REQUESTS, strict=True))
    where = {"target": rig.ring.target(0, nsid), "lba": lbas, "nbytes": counts * each, "offset": at * each}
    ended = rig.submit(verb, protect=Protect(protect), **where)
    return ended["status"].tolist() if ended["state"] == ["COMPLETED"] * 3 else [ended["state"]]


@case(
    "ring/format",
    level="L5",
    clauses=("ring.format.metadata_exact", "ring.request.data_exact", "nvme.identify.lba_format"),
    kernels=("ring",),
    budget_s=30.0,
    axes={"kind": (0, 1, 2, 3), "by_drive": (False, True), "sgl": (False, True)},
    # Where metadata lie does not depend on how data are named: every type once with each.
    only=lambda axes, _: (
        not axes["by_drive"] if axes["kind"] == 0 else axes["sgl"] == (axes["by_drive"] == (axes["kind"] == 2))
    ),
)
def formats(run: Run) -> Observations:
    """Blocks with metadata, inline and apart, with protection information of each type or none, made by host or drive.

    Six namespaces of one drive: 512 and 4096 bytes with 8 or 64 bytes of metadata.
    """
    kind, by_drive = int(run.axes["kind"]), bool(run.axes["by_drive"])
    source = run.random.integers(0, 256, (_ROOM, 4096 + 64), np.uint8)
    sizes = {"depth": 8, "use_sgl": bool(run.axes["sgl"])}
    config = drive(namespaces=_spaces(kind))
    trips = {}
    with Rig(
        run,
        sizes,
        drives=[config],
        data_bytes=1 << 16,
        contiguous=bool(run.axes["sgl"]),
        metadata_bytes=4096,
        tags=(_TAG, _MASK),
    ) as rig:
        for nsid, (_, size, _, _) in _SPACES.items():
            stripped = by_drive and size == 8
            memory, beside = _images(kind, nsid, source, by_drive, stripped)
            rig.put(memory)
            rig.put(beside, where=rig.beside)
            statuses = [_send(rig, nsid, "write", PRACT if by_drive else _checks(kind), stripped)]
            rig.put()
            rig.put(where=rig.beside)
            statuses.append(_send(rig, nsid, "read", _checks(kind), False))
            trip = _look(rig, nsid)
            statuses.append(_send(rig, nsid, "compare", _checks(kind), False))
            if by_drive:
                rig.put()
                rig.put(where=rig.beside)
                statuses.append(_send(rig, nsid, "read", PRACT | _checks(kind), stripped))
                trip |= {"without": rig.get(), "beside_without": rig.get(_ROOM * size, rig.beside)}
            trips[str(nsid)] = {**trip, "statuses": statuses}
        blocks = [[t.nsid, t.block_bytes, t.metadata_bytes, t.protection] for t in rig.ring.targets]
    return {"source": source, "trips": trips, "blocks": blocks}


@formats.judge
def _(seen: Seen) -> None:
    kind, by_drive = int(seen.axes["kind"]), bool(seen.axes["by_drive"])
    clause = "ring.format.metadata_exact"
    wanted = [
        [nsid, (1 << shift) + (size if inline else 0), 0 if inline else size, kind]
        for nsid, (shift, size, inline, _) in _SPACES.items()
    ]
    seen.equal("nvme.identify.lba_format", "number, block, metadata apart and protection", seen["blocks"], wanted)
    for nsid, (shift, size, _, _) in _SPACES.items():
        one, source, of = seen["trips"][str(nsid)], seen["source"], f"namespace {nsid}"
        data, meta = np.zeros((_LOOK, 1 << shift), np.uint8), np.zeros((_LOOK, size), np.uint8)
        for lba, _, block, beside in _blocks(kind, nsid, source):
            data[lba], meta[lba] = np.frombuffer(block, np.uint8), np.frombuffer(beside, np.uint8)
        seen.equal(clause, f"statuses, {of}", one["statuses"], [[[0, 0]] * 3] * (4 if by_drive else 3))
        seen.equal("ring.request.data_exact", f"stored data, {of}", one["stored"], data.ravel())
        seen.equal(clause, f"stored metadata, {of}", one["stored_metadata"], meta.ravel())
        memory, apart = _images(kind, nsid, source, False, False)
        seen.equal("ring.request.data_exact", f"what was read, {of}", one["memory"], np.frombuffer(memory, np.uint8))
        seen.equal(clause, f"metadata that were read apart, {of}", one["beside"], np.frombuffer(apart, np.uint8))
        if by_drive:
            memory, apart = _images(kind, nsid, source, False, size == 8)
            found = one["without"]
            seen.equal(
                clause, f"what was read without tuples, {of}", found[: len(memory)], np.frombuffer(memory, np.uint8)
            )
            seen.holds(clause, f"nothing behind it, {of}", bool((found[len(memory) :] == SPOILT).all()), of)
            seen.equal(clause, f"metadata apart, {of}", one["beside_without"], np.frombuffer(apart, np.uint8))


#: Block -> byte of its tuple that is changed, by what.
_DAMAGE = {2: (1, 0x01), 5: (2, 0x80), 6: (3, 0x40), 7: (2, 0x0F), 9: (7, 0x01), 11: (4, 0x80), 12: (0, 0x80)}


def _expected(kind: int, lba: int, checks: int) -> tuple[int, int]:
    """What a read of a damaged block answers when these are checked. The application tag's mask is F0FFh."""
    byte, change = _DAMAGE.get(lba, (0, 0))
    if byte < 2 and change and checks & CHECK_GUARD:
        return GUARD_CHECK
    if byte in (2, 3) and (change << 8 * (3 - byte)) & _MASK and checks & CHECK_APPLICATION:
        return APPLICATION_CHECK
    if byte > 3 and kind != 3 and checks & CHECK_REFERENCE:
        return REFERENCE_CHECK
    return 0, 0


@case(
    "ring/format.mismatch",
    level="L5",
    clauses=("ring.format.protection_checked", "ring.request.status_reported"),
    kernels=("ring",),
    budget_s=30.0,
    axes={"kind": (1, 2, 3), "inline": (False, True)},
)
def mismatch(run: Run) -> Observations:
    """A guard, application tag or reference tag that is wrong ends its own request with its own status, no other."""
    kind, inline = int(run.axes["kind"]), bool(run.axes["inline"])
    space = MemoryNamespace(
        nsid=3, blocks=1 << 33, lba_shift=9, metadata_bytes=8, metadata_inline=inline, protection=kind
    )
    base = (1 << 32) - 4  # reference tags go round
    every, at = [], np.arange(16)
    each = 520 if inline else 512
    with Rig(run, {"depth": 6}, drives=[drive(namespaces=(space,))], metadata_bytes=4096, tags=(_TAG, _MASK)) as rig:
        where: dict[str, Any] = {"lba": base + at, "nbytes": each, "offset": at * each}
        rig.put(run.random.integers(0, 256, 16 * each, np.uint8))
        # The drive makes them, from 512 bytes of each block.
        sent = {"lba": base + at, "nbytes": 512, "offset": at * 512, "protect": Protect.ACTION}
        statuses = [rig.submit("write", **sent)["status"].tolist()]
        for lba, (byte, change) in _DAMAGE.items():
            place = (base + lba) * 8 + byte
            was = rig.controllers[0].read_stored_metadata(3, place, 1)[0]
            rig.controllers[0].write_stored_metadata(3, place, bytes([was ^ change]))
        # Unchecked, so that the damaged tuples are what is written back.
        statuses.append(rig.submit("read", **where)["status"].tolist())
        for checks in _each_check(kind):
            for verb in ("read", "compare", "write"):
                ended = rig.submit(verb, protect=Protect(checks), **where)
                every.append({"verb": verb, "checks": checks, "status": ended["status"], "state": ended["state"]})
        iocb = rig.ring.get_iocb()
        refused = refusal(lambda: rig.fill(iocb, "read", lba=base, nbytes=each, protect=Protect.REFERENCE))
        rig.ring.put_iocb(iocb)
        return {"made": statuses, "every": every, "refused": refused}


def _each_check(kind: int) -> list[int]:
    single = [CHECK_GUARD, CHECK_APPLICATION, *([] if kind == 3 else [CHECK_REFERENCE])]
    return [*single, _checks(kind), 0]


@mismatch.judge
def _(seen: Seen) -> None:
    kind, clause = int(seen.axes["kind"]), "ring.format.protection_checked"
    seen.equal(clause, "what the drive made, and a read without checks", seen["made"], [[[0, 0]] * 16] * 2)
    for one in seen["every"]:
        checks = int(one["checks"])
        wanted = [list(_expected(kind, lba, checks)) for lba in range(16)]
        seen.equal(clause, f"statuses of {one['verb']} with {checks:#x}", one["status"].tolist(), wanted)
        seen.equal("ring.request.status_reported", "states", one["state"], ["COMPLETED"] * 16)
    if kind == 3:
        seen.refused(clause, "a check of type 3's reference tag", seen["refused"], "RequestInvalid")


#: What another kernel may have packed wrongly for a namespace whose metadata lie apart.
_MISPACKED: dict[str, dict[str, int]] = {
    "offset inside a block": {"buffer_offset": 256},
    "metadata past their memory": {"buffer_offset": 512 * 512},
    "metadata over the end of their memory": {"buffer_offset": 511 * 512, "block_count": 2},
    "buffer without metadata": {"buffer": 1},
}


@case(
    "ring/format.refused",
    level="L5",
    clauses=("ring.format.refused", "ring.request.refused_not_run"),
    kernels=("ring",),
)
def refused(run: Run) -> Observations:
    """Metadata that have no place, and checks of what is not there, are refused, by the host and by the kernel."""
    spaces = (
        MemoryNamespace(nsid=1, blocks=4096, lba_shift=9, metadata_bytes=8),
        MemoryNamespace(nsid=3, blocks=4096, lba_shift=9),
    )
    with Rig(run, drives=[drive(namespaces=spaces)], data_bytes=1 << 19, metadata_bytes=4096) as rig:
        plain = rig.ring.register(rig.mappings)
        iocb = rig.ring.get_iocb()

        def ask(**fields: Any) -> dict[str, Any]:
            return refusal(lambda: rig.fill(iocb, "read", **fields))

        host = {
            "BufferInvalid": [
                ask(buffer=plain),
                ask(offset=512 * 512),
                ask(offset=511 * 512, nbytes=1024),
                refusal(lambda: rig.ring.register(rig.mappings, metadata=rig.memory)),
            ],
            "RequestInvalid": [
                ask(offset=256),
                ask(protect=Protect.GUARD),
                ask(protect=Protect.ACTION),
                ask(target=rig.ring.target(0, 3), protect=Protect.APPLICATION),
            ],
        }
        left = len(iocb)
        # The last block that has room for its metadata goes through.
        rig.fill(iocb, "read", lba=np.arange(len(_MISPACKED) + 1), offset=511 * 512)
        rows = iocb.staging.numpy(dtype("ring_request"))
        for row, change in enumerate(_MISPACKED.values(), 1):
            for name, value in change.items():
                rows[row][name] = value
        rig.ring.issue_io(iocb)
        ended = rig.finish(iocb)
        return {"host": host, "left": left, "ended": ended["state"], "io": rig.counted()["drives"][0]["io"]}


@refused.judge
def _(seen: Seen) -> None:
    for error, asked in seen["host"].items():
        for number, one in enumerate(asked):
            seen.refused("ring.format.refused", f"{error}, number {number}", one, error)
    seen.equal("ring.format.refused", "requests that were taken of all these", seen["left"], 0)
    wanted = ["COMPLETED"] + ["REFUSED"] * len(_MISPACKED)
    seen.equal(
        "ring.format.refused", f"states of one that fits, and of: {', '.join(_MISPACKED)}", seen["ended"], wanted
    )
    seen.equal("ring.request.refused_not_run", "commands that the drive was given", seen["io"], {"2": 1})

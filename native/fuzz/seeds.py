"""Write the seed corpus of the controller's fuzz target: sessions of a host that means something.

    python -m native.fuzz.seeds FOLDER     (from the repository's root; or run the file)

The bytes are those that ``session.cpp`` decodes (README.md here lists them). Submission entries come from the
conformance suite's own codec, written from the text of the specification, not from the code under test.
"""

from __future__ import annotations

import struct
import sys
from dataclasses import dataclass, field
from pathlib import Path

from tutti_hal.conformance_tests.oracle import nvme

PAGE = nvme.PAGE
BASE = 1 << 52

#: In the order of ``enum class Step``.
STEPS = (
    "enable",
    "store",
    "poke",
    "list",
    "segment",
    "raw_entry",
    "entry",
    "ring",
    "ring_raw",
    "reap",
    "create_pair",
    "queue_count",
    "fault",
    "clear_faults",
    "pass_time",
    "power_cut",
    "grant",
    "disable",
    "idle",
)
PLACES = (0, 0, 4, 8, 512, 2048, 4088, 4080)


def bus(page: int, offset: int = 0) -> int:
    """The bus address of a place in the session's memory."""
    return BASE + page * PAGE + offset


def at(page: int, place: int = 0) -> bytes:
    """An address as the session decodes it: a page and an index into PLACES."""
    return bytes([place << 3, page])


@dataclass
class Session:
    """One input: eight bytes of configuration, then steps."""

    setup: tuple[int, ...] = (0, 0, 0x0A, 5, 0, 0, 0, 1)
    out: bytearray = field(default_factory=bytearray)

    def step(self, name: str, *data: int | bytes) -> Session:
        """One step, its arguments as single bytes or strings of them."""
        self.out.append(STEPS.index(name))
        for part in data:
            self.out += bytes([part]) if isinstance(part, int) else part
        return self

    def up(self, entries: int = 0x77) -> Session:
        """Enabled, with the admin queues on pages 0 and 1, given time to become ready."""
        return self.step("enable", entries, at(0), at(1), 0).step("idle", 15)

    def pair(self, qid: int = 1, sizes: int = 0x77, flags: int = 3, cq: int = 2, sq: int = 3) -> Session:
        """Number of queues, then one pair; the admin completions are reaped."""
        self.step("queue_count", struct.pack("<H", 0x300), 2, 2).step("idle", 4)
        self.step("create_pair", qid, sizes, flags, at(cq), at(sq)).step("idle", 6)
        return self.step("reap", 0, 8)

    def send(self, qid: int, *entries: bytes) -> Session:
        """Entries as 64 bytes each, announced together, then the completions given back."""
        for entry in entries:
            self.step("raw_entry", qid, entry)
        return self.step("ring", qid).step("idle", 8).step("reap", qid, 255)

    def bytes(self) -> bytes:
        """The input."""
        return bytes(self.setup) + bytes(self.out)


def sessions() -> dict[str, bytes]:
    """All seeds by name."""
    rw, sqe, descriptor = nvme.rw, nvme.sqe, nvme.block_descriptor
    data = bus(8)
    seeds: dict[str, Session] = {}
    seeds["admin"] = (
        Session()
        .up()
        .send(
            0,
            sqe(nvme.IDENTIFY, cid=1, prp1=data, dwords={10: 1}),
            sqe(nvme.IDENTIFY, cid=2, nsid=1, prp1=data),
            sqe(nvme.GET_LOG, cid=3, nsid=0xFFFFFFFF, prp1=data, dwords={10: 2 | 127 << 16}),
            sqe(nvme.GET_FEATURES, cid=4, dwords={10: 7}),
            sqe(nvme.EVENT, cid=5),
            sqe(nvme.ABORT, cid=6, dwords={10: 5 << 16}),
        )
    )
    # An event request that waits, and another command of its identifier: refused, or ended before the request began.
    event, other = sqe(nvme.EVENT, cid=5), sqe(nvme.IDENTIFY, cid=5, prp1=data, dwords={10: 1})
    seeds["event-identifier-taken"] = Session().up().send(0, event).send(0, other)
    seeds["event-identifier-given-back"] = Session(setup=(0, 0, 0x0A, 5, 0, 0x70, 0, 1)).up().send(0, other, event)
    seeds["prp"] = (
        Session()
        .up()
        .pair()
        .step("list", at(6), 4, at(8), at(9), at(10), at(11))
        .send(
            1,
            rw(nvme.WRITE, 0, 1, cid=1, prp1=data),
            rw(nvme.WRITE, 1, 16, cid=2, prp1=data + 512, prp2=bus(9)),
            rw(nvme.READ, 0, 32, cid=3, prp1=data, prp2=bus(6)),
            rw(nvme.COMPARE, 0, 32, cid=4, prp1=data, prp2=bus(6)),
        )
    )
    # A list that begins in the last entry of its page, and goes on in the next.
    seeds["prp-chain"] = (
        Session()
        .up()
        .pair()
        .step("list", at(6, 6), 1, at(7))
        .step("list", at(7), 3, at(8), at(9), at(10))
        .send(1, rw(nvme.READ, 0, 32, cid=1, prp1=bus(12), prp2=bus(6, 4088)))
    )
    seeds["sgl"] = (
        Session()
        .up()
        .pair()
        .step("segment", at(6), 3, at(8), struct.pack("<HB", 512, 0), at(9), struct.pack("<HB", 256, 0x10))
        .step("segment", at(7), 2, at(8), struct.pack("<HB", 256, 0), at(9), struct.pack("<HB", 512, 0))
        .step("poke", at(6, 0), 15, descriptor(data, 512)[:16])
        .send(
            1,
            rw(nvme.READ, 0, 1, cid=1, psdt=1, sgl=descriptor(data, 512)),
            rw(nvme.READ, 0, 2, cid=2, psdt=1, sgl=descriptor(bus(6), 48, 2)),
            rw(nvme.WRITE, 0, 1, cid=3, psdt=1, sgl=descriptor(bus(7), 32, 3)),
            rw(nvme.READ, 0, 1, cid=4, psdt=2, mptr=bus(7), sgl=descriptor(data, 512)),
        )
    )
    for name, a in (("inline", 0x0A), ("separate", 0x02), ("large", 0x05)):
        seeds[f"metadata-{name}"] = (
            Session(setup=(a, 0, 0x0A, 5, 0, 0, 0, 1))
            .up()
            .pair()
            .send(
                1,
                rw(nvme.WRITE, 0, 2, cid=1, prp1=data, prp2=bus(9), mptr=bus(10)),
                rw(nvme.READ, 0, 2, cid=2, prp1=data, prp2=bus(9), mptr=bus(10)),
                rw(nvme.READ, 0, 1, cid=3, psdt=1, mptr=(1 << 64) - 1, sgl=descriptor(data, 512)),
            )
        )
    seeds["other-commands"] = (
        Session(setup=(0, 0, 0x8A, 5, 0, 0, 0, 1))
        .up()
        .pair()
        .step("poke", at(8), 15, struct.pack("<IIQ", 0, 4, 2))
        .send(
            1,
            sqe(nvme.FLUSH, cid=1, nsid=0xFFFFFFFF),
            rw(nvme.WRITE_ZEROES, 0, 8, cid=2, flags=1 << 25),
            sqe(nvme.DATASET, cid=3, nsid=1, prp1=data, dwords={11: 4}),
            rw(nvme.VERIFY, 0, 8, cid=4),
            rw(nvme.WRITE, 0, 1, cid=5, nsid=3, prp1=data),
            rw(nvme.WRITE, 0, 1, cid=6, flags=nvme.FUA, prp1=data),
        )
        .step("power_cut", 3, 100)
        .up()
    )
    for order in range(4):
        shuffled = Session(setup=(0, 0x20, 0x0A, 5, order | 3 << 2 | 2 << 5, 1 | 2 << 1, 3, 1)).up()
        for qid, cq, sq in ((1, 2, 3), (2, 4, 5)):
            shuffled.pair(qid, 0x77, 3, cq, sq)
        for turn in range(4):
            for qid in (1, 2):
                shuffled.send(qid, *[rw(nvme.READ, i, 1, cid=turn * 8 + i, prp1=data) for i in range(3)])
        seeds[f"order-{order}"] = shuffled
    for action in range(1, 12):
        struck = Session(setup=(0, 0x20, 0x0A, 5, 0, 0, 0, 1)).up().pair()
        struck.step("fault", action - 1, 8, nvme.READ, 1, 0, 0, 1, 0x80, struct.pack("<HH", 900, 5))
        struck.send(1, *[rw(nvme.READ, i, 1, cid=i, prp1=data) for i in range(4)])
        struck.send(0, sqe(nvme.ABORT, cid=7, dwords={10: 1 | 0 << 16}), sqe(nvme.DELETE_SQ, cid=8, dwords={10: 1}))
        struck.send(0, sqe(nvme.DELETE_CQ, cid=9, dwords={10: 1}))
        seeds[f"fault-{action}"] = struck.step("clear_faults").step("disable", 0).step("idle", 9).up().pair()
    # Queues in pages that lie apart, in a small CQ that two SQs share.
    spread = Session(setup=(0, 0x20, 0x0A, 5, 0, 0, 0, 1)).up().step("queue_count", struct.pack("<H", 1), 2, 2)
    spread.step("idle", 4).step("list", at(6), 2, at(12), at(13)).step("list", at(7), 2, at(14), at(15))
    spread.step("create_pair", 1, 0x72, 0, at(6), at(7)).step("idle", 4)
    spread.step("create_pair", 2, 0x72, 0x0C | 3, at(6), at(5)).step("idle", 4)
    for qid in (1, 2):
        spread.send(qid, *[rw(nvme.READ, i, 1, cid=i, prp1=data) for i in range(5)])
    seeds["spread-shared"] = spread
    bad = Session().up().pair().step("ring_raw", 2, 0xFF, 0xFF).step("idle", 2).step("ring_raw", 3, 9, 0)
    bad.step("store", struct.pack("<HI", 0, 7)).step("store", struct.pack("<HI", 0x1C // 4, 7)).step("grant", 3, 0)
    seeds["bad-doorbells"] = bad.send(1, rw(nvme.READ, 0, 1, cid=1, prp1=data)).step("disable", 5).step("idle", 12)
    # A tail that is within the queue and past what is still to be fetched.
    passing = Session().up().pair()
    for cid in range(7):
        passing.step("raw_entry", 1, rw(nvme.READ, 0, 1, cid=cid, prp1=data))
    seeds["tail-past-head"] = passing.step("ring", 1).step("ring_raw", 2, struct.pack("<H", 3)).step("idle", 15)
    wild = [0, 4, bus(28), bus(24), bus(26), (1 << 64) - 4096, 1 << 52 - 1]
    seeds["wild"] = (
        Session()
        .up()
        .pair()
        .send(
            1,
            *[rw(nvme.READ, 0, 1, cid=i, prp1=address) for i, address in enumerate(wild)],
        )
        .send(
            1,
            *[rw(nvme.WRITE, 0, 32, cid=i, prp1=data, prp2=address) for i, address in enumerate(wild)],
        )
    )
    return {name: session.bytes() for name, session in seeds.items()}


def main(arguments: list[str]) -> int:
    """Write each seed as ``seed-NAME`` into the folder named."""
    folder = Path(arguments[0])
    folder.mkdir(parents=True, exist_ok=True)
    for name, data in sessions().items():
        (folder / f"seed-{name}").write_bytes(data)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

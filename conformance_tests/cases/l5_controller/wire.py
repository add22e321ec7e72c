"""The host half's encodings of NVMe entries and statuses, byte by byte, against the suite's own."""

from __future__ import annotations

import struct
from collections.abc import Callable
from typing import Any

import numpy as np

from tutti_hal.conformance_tests.case import Observations, Per, case
from tutti_hal.conformance_tests.observation import refusal
from tutti_hal.conformance_tests.oracle import nvme as oracle
from tutti_hal.conformance_tests.run import Run
from tutti_hal.conformance_tests.seen import Seen
from tutti_hal.nvme import commands
from tutti_hal.nvme.cqe import Cqe
from tutti_hal.nvme.opcodes import NvmOpcode
from tutti_hal.nvme.prp import PrpPair
from tutti_hal.nvme.sqe import Sqe
from tutti_hal.nvme.status import Status

_NO_MUTANT = "It looks at encodings in Python, and mutants are of templates, records and controllers."

#: Field of a submission entry -> bits.
_SQE: dict[str, int] = {
    **{"opcode": 8, "fuse": 2, "psdt": 2, "cid": 16, "nsid": 32, "cdw2": 32, "cdw3": 32},
    **{"mptr": 64, "prp1": 64, "prp2": 64},
    **{f"cdw{number}": 32 for number in range(10, 16)},
}

#: Field of a completion entry -> (double word, lowest bit, bits).
_CQE: dict[str, tuple[int, int, int]] = {
    **{"result": (0, 0, 32), "result_high": (1, 0, 32), "sqhd": (2, 0, 16), "sqid": (2, 16, 16)},
    **{"cid": (3, 0, 16), "phase": (3, 16, 1), "sc": (3, 17, 8), "sct": (3, 25, 3), "crd": (3, 28, 2)},
    **{"more": (3, 30, 1), "dnr": (3, 31, 1)},
}


def _draws(run: Run, bits: dict[str, int]) -> list[dict[str, int]]:
    """All zeroes, all ones, each field alone, and random values."""
    ones = {name: (1 << n) - 1 for name, n in bits.items()}
    zeroes = dict.fromkeys(bits, 0)
    alone = [zeroes | {name: ones[name]} for name in bits]
    drawn = [
        {name: int(run.random.integers(0, 1 << n, dtype=np.uint64)) for name, n in bits.items()} for _ in range(40)
    ]
    return [zeroes, ones, *alone, *drawn]


@case(
    "nvme/entries",
    level="L5",
    clauses=("nvme.sqe.layout", "nvme.cqe.layout", "nvme.codec.round_trip", "nvme.codec.range_refused"),
    per=Per.VENDOR,
    no_mutant=_NO_MUTANT,
)
def entries(run: Run) -> Observations:
    """Each field of both entries lies where the specification has it, comes back, and refuses what does not fit."""
    flags = {"phase", "more", "dnr"}
    # The bounds of 64-bit draws are exclusive, and 2^64 does not fit: such fields are drawn a bit narrower.
    submissions = _draws(run, {name: min(n, 63) for name, n in _SQE.items()})
    completions = _draws(run, {name: n for name, (_, _, n) in _CQE.items()})
    typed: list[dict[str, Any]] = [
        {name: bool(v) if name in flags else v for name, v in one.items()} for one in completions
    ]
    too_much = {name: refusal(_over(Sqe, name, n)) for name, n in _SQE.items()}
    too_much |= {name: refusal(_over(Cqe, name, n)) for name, (_, _, n) in _CQE.items() if name not in flags}
    sent, got = [Sqe(**one) for one in submissions], [Cqe(**one) for one in typed]
    return {
        "submissions": [_text(one) for one in submissions],
        "sqes": [one.encode() for one in sent],
        "sqes_back": [Sqe.decode(one.encode()) == one for one in sent],
        "completions": [_text(one) for one in completions],
        "cqes": [one.encode() for one in got],
        "cqes_back": [Cqe.decode(one.encode()) == one for one in got],
        "too_much": too_much,
    }


def _over(layout: type[Any], name: str, bits: int) -> Callable[[], Any]:
    return lambda: layout(**{name: 1 << bits}).encode()


def _text(one: dict[str, int]) -> dict[str, str]:
    # Numbers above 2^53 are not safe in JSON everywhere.
    return {name: str(int(value)) for name, value in one.items()}


@entries.judge
def _(seen: Seen) -> None:
    for values, found in zip(seen["submissions"], seen["sqes"], strict=True):
        v = {name: int(value) for name, value in values.items()}
        dwords = {2: v["cdw2"], 3: v["cdw3"], **{number: v[f"cdw{number}"] for number in range(10, 16)}}
        same: dict[str, Any] = {name: v[name] for name in ("cid", "nsid", "fuse", "psdt", "mptr", "prp1", "prp2")}
        wanted = oracle.sqe(v["opcode"], dwords=dwords, **same)
        seen.equal("nvme.sqe.layout", f"the entry of {values}", found, wanted.hex())
    for values, found in zip(seen["completions"], seen["cqes"], strict=True):
        words = [0, 0, 0, 0]
        for name, (word, low, _) in _CQE.items():
            words[word] |= int(values[name]) << low
        seen.equal("nvme.cqe.layout", f"the entry of {values}", found, struct.pack("<4I", *words).hex())
    back = seen["sqes_back"] + seen["cqes_back"]
    seen.equal("nvme.codec.round_trip", "entries that decode to what they were made of", back, [True] * len(back))
    seen.equal("nvme.codec.round_trip", "an entry of zeroes", seen["sqes"][0], bytes(64).hex())
    for name, found in seen["too_much"].items():
        seen.refused("nvme.codec.range_refused", f"{name} with one bit more", found, "NvmeFieldRange")


#: Statuses that the specification names, and whether the same command may succeed when it is sent again.
_RETRY: dict[tuple[int, int], bool] = {
    **{(0, sc): False for sc in (0x00, 0x01, 0x02, 0x03, 0x0B, 0x0C, 0x0D, 0x0E, 0x0F, 0x10, 0x11, 0x12, 0x13)},
    **{(0, sc): False for sc in (0x16, 0x1E, 0x20, 0x80, 0x81)},
    **{(0, sc): True for sc in (0x04, 0x06, 0x21, 0x22, 0x82, 0x84)},
    **{(1, sc): False for sc in (0x00, 0x01, 0x02, 0x08, 0x0C, 0x80, 0x81, 0x82)},
    **{(2, sc): False for sc in (0x81, 0x82, 0x83, 0x84, 0x85, 0x86, 0x87)},
}


@case(
    "nvme/status",
    level="L5",
    clauses=("nvme.status.phase_excluded", "nvme.status.named"),
    per=Per.VENDOR,
    no_mutant=_NO_MUTANT,
)
def status(run: Run) -> Observations:
    """A status leaves out the phase, keeps all else, has its name, and says whether a retry can help."""
    fields = [int(one) for one in run.random.integers(0, 1 << 15, 64)]
    parts, same = [], []
    for one in fields:
        found = [Cqe.decode(struct.pack("<4I", 0, 0, 0, one << 17 | phase << 16 | 0x1234)).status for phase in (0, 1)]
        first = found[0]
        parts.append([first.sct, first.sc, first.crd, first.more, first.dnr, first.field])
        same.append(found[0] == found[1])
    known = {pair: Status(sct=pair[0], sc=pair[1]) for pair in _RETRY}
    return {
        "fields": fields,
        "parts": parts,
        "same": same,
        "names": [one.meaning.name for one in known.values()],
        "retry": [one.may_retry for one in known.values()],
        "forbidden": [Status(sct=sct, sc=sc, dnr=True).may_retry for sct, sc in known],
        "unknown": [Status(sct=4, sc=0x5A).meaning.name, Status(sct=7, sc=0xC3).meaning.name],
        "with_phase": refusal(lambda: Status.from_field(1 << 15)),
    }


@status.judge
def _(seen: Seen) -> None:
    wanted = [[f >> 8 & 7, f & 0xFF, f >> 11 & 3, bool(f >> 13 & 1), bool(f >> 14 & 1), f] for f in seen["fields"]]
    seen.equal("nvme.status.phase_excluded", "type, code, delay, more, do-not-retry, field", seen["parts"], wanted)
    seen.equal("nvme.status.phase_excluded", "the same of either phase", seen["same"], [True] * len(wanted))
    seen.refused("nvme.status.phase_excluded", "a field with the phase in it", seen["with_phase"], "NvmeFieldRange")
    names = seen["names"]
    made = [name for name in names if name.startswith(("unknown", "vendor"))]
    seen.holds(
        "nvme.status.named", "each has a name of its own", len(set(names)) == len(names) and not made, names, names
    )
    seen.equal("nvme.status.named", "whether a retry can help", seen["retry"], list(_RETRY.values()))
    seen.equal("nvme.status.named", "whether it can where do-not-retry is set", seen["forbidden"], [False] * len(names))
    numbers = ["4" in seen["unknown"][0] and "5a" in seen["unknown"][0].lower(), "c3" in seen["unknown"][1].lower()]
    seen.equal("nvme.status.named", "unknown ones keep their numbers", numbers, [True, True])


@case("nvme/blocks", level="L5", clauses=("nvme.nlb.zero_based",), per=Per.VENDOR, no_mutant=_NO_MUTANT)
def blocks(run: Run) -> Observations:
    """The number of blocks is encoded one less, and a transfer of none, or of too many, is refused."""
    counts = [1, 2, 255, 256, 65535, 65536, *(int(one) for one in run.random.integers(1, 65537, 8))]

    def make(count: int, slba: int = 5) -> bytes:
        return commands.transfer(NvmOpcode.READ, nsid=1, slba=slba, blocks=count, data=PrpPair(prp1=4096)).encode()

    return {
        "counts": counts,
        "entries": [make(count) for count in counts],
        "none": refusal(lambda: make(0)),
        "many": refusal(lambda: make(65537)),
        "wraps": refusal(lambda: make(2, 2**64 - 1)),
    }


@blocks.judge
def _(seen: Seen) -> None:
    wanted = [oracle.rw(oracle.READ, 5, count, prp1=4096).hex() for count in seen["counts"]]
    seen.equal("nvme.nlb.zero_based", "entries of 1 to 65,536 blocks", seen["entries"], wanted)
    for name in ("none", "many", "wraps"):
        seen.refused("nvme.nlb.zero_based", f"a transfer whose blocks are {name}", seen[name], "NvmeFieldRange")

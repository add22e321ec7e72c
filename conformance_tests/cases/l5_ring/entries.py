"""The words of a submission entry that a command does not use, whatever its place held before."""

from __future__ import annotations

import numpy as np

from tutti_hal.conformance_tests.case import Observations, case
from tutti_hal.conformance_tests.rig import Rig, drive
from tutti_hal.conformance_tests.run import Run
from tutti_hal.conformance_tests.seen import Seen
from tutti_hal.io_uring import Protect
from tutti_hal.nvme.software_config import MemoryNamespace

#: Opcode -> first block and blocks of what is sent to the plain namespace.
_SENT = {0: (0, 0), 1: (0x1_0000_0007, 2), 2: (0x1_0000_0011, 3), 8: (0x1_0000_0020, 70)}


@case(
    "ring/entries",
    level="L5",
    clauses=("nvme.sqe.layout", "nvme.nlb.zero_based"),
    kernels=("ring",),
)
def entries(run: Run) -> Observations:
    """Commands without metadata and protection say nothing of them, and those without data name none."""
    spaces = (
        MemoryNamespace(nsid=1, blocks=1 << 33, lba_shift=9),
        MemoryNamespace(nsid=3, blocks=1 << 12, lba_shift=9, metadata_bytes=8, protection=1),
    )
    with Rig(
        run,
        {"depth": 5, "use_sgl": False},
        drives=[drive(namespaces=spaces)],
        metadata_bytes=4096,
        tags=(0xFFFE, 0xFFFF),
        places={"submission_queue": "host"},
    ) as rig:
        # Every place of the queue holds a command with everything.
        rig.put()
        full = {"lba": np.arange(20), "nbytes": 12 * 512, "offset": 512, "target": rig.ring.target(0, 3)}
        before = rig.submit("write", protect=Protect.ACTION, **full)["state"]
        plain = rig.ring.target(0, 1)
        iocb = rig.ring.get_iocb()
        for verb, opcode in (("write", 1), ("read", 2), ("write_zeroes", 8)):
            first, blocks = _SENT[opcode]
            rig.fill(iocb, verb, target=plain, lba=first, nbytes=512 * blocks)
        iocb.flush(plain)
        rig.ring.issue_io(iocb)
        after = rig.finish(iocb)["state"]
        return {"states": [before, after], "entries": rig.entries()}


@entries.judge
def _(seen: Seen) -> None:
    clause = "nvme.sqe.layout"
    seen.equal(clause, "states", seen["states"], [["COMPLETED"] * 20, ["COMPLETED"] * 4])
    words = {int(e[0]) & 0xFF: [int(w) for w in e] for e in seen["entries"] if int(e[1]) == 1}
    seen.equal(clause, "commands of the plain namespace", sorted(words), sorted(_SENT))
    for opcode, (first, blocks) in _SENT.items():
        e, of = words[opcode], f"opcode {opcode}"
        seen.equal(clause, f"fused and PSDT bits, {of}", e[0] & 0xFF00, 0)
        seen.equal(clause, f"dwords 2 to 5, {of}", e[2:6], [0] * 4)
        seen.equal(clause, f"first block, {of}", e[10] | e[11] << 32, first)
        seen.equal("nvme.nlb.zero_based", f"dword 12, {of}", e[12], max(blocks - 1, 0))
        seen.equal(clause, f"dwords 13 to 15, {of}", e[13:16], [0] * 3)
        if opcode in (1, 2):
            seen.equal(clause, f"second PRP of one page, {of}", e[8:10], [0, 0])
        else:
            seen.equal(clause, f"dwords 6 to 9, {of}", e[6:10], [0] * 4)

"""Who may attach a drive, and what the kernel's own driver notices of it: nothing."""

from __future__ import annotations

import functools
import os
from typing import TYPE_CHECKING, Any

from tutti_hal.conformance_tests.beside import (
    Plain,
    alone,
    attached,
    fill,
    get,
    given,
    plain,
    refused,
    stock_read,
    stock_write,
)
from tutti_hal.conformance_tests.case import Observations, case
from tutti_hal.conformance_tests.cases.l7_p2p.terms import BUDGET_S, NO_MUTANT, real
from tutti_hal.conformance_tests.oracle.nvme import OK, PAGE, WRITE, rw
from tutti_hal.conformance_tests.seen import Seen

if TYPE_CHECKING:
    from tutti_hal.conformance_tests.run import Run

_AT = 16 << 20


@case(
    "beside/attach.same_controller",
    level="L7",
    clauses=("beside.attach.same_controller",),
    budget_s=BUDGET_S,
    only=real,
    no_mutant=NO_MUTANT,
)
def same_controller(run: Run) -> Observations:
    """A file of no controller, and one that may not be written, are refused; the controller's own is taken."""
    from tutti_hal.nvme.kernel_client import KernelClient
    from tutti_hal.nvme.kernel_controller import attach_request

    name = given(run)
    with attached(run) as drive:
        node = drive.name
    tries: dict[str, Any] = {}
    with alone(node), KernelClient() as client:
        for what, path, flags in (
            ("another", "/dev/null", os.O_RDWR),
            ("read_only", f"/dev/{node}", os.O_RDONLY),
            ("own", f"/dev/{node}", os.O_RDWR),
        ):
            fd = os.open(path, flags | os.O_CLOEXEC)
            try:
                request = attach_request(name, fd)
                tries[what] = refused(functools.partial(client.ask, request, "attach"))
            finally:
                os.close(fd)
    return tries


@same_controller.judge
def _(seen: Seen) -> None:
    clause = "beside.attach.same_controller"
    for what in ("another", "read_only"):
        seen.equal(
            clause,
            f"why the file {what} is refused",
            (seen[what]["error"], seen[what]["cause"]),
            ("ModuleRefused", "FD"),
        )
    seen.equal(clause, "what its own file is refused for", seen["own"]["error"], "")


@case(
    "beside/attach.together",
    level="L7",
    clauses=("beside.attach.together",),
    budget_s=BUDGET_S,
    only=real,
    no_mutant=NO_MUTANT,
)
def beside(run: Run) -> Observations:
    """The kernel's driver and a queue pair of ours take turns to write a page that the other then reads."""
    import numpy as np

    with plain(run) as (drive, pair):
        block = drive.namespace(1).lba_bytes
        memory = drive.host_pages.allocate(PAGE)
        run.closing.callback(memory.close)
        slba, rounds = _AT // block, []
        for turn in range(6):
            theirs, ours = (run.random.integers(0, 256, PAGE, np.uint8) for _ in range(2))
            stock_write(drive.name, _AT, theirs)
            fill(run, memory)
            pair.read_pages(memory, slba, 1, block)
            read = _status(pair)
            got = get(run, memory)
            memory.write(0, ours.tobytes())
            pair.send(rw(WRITE, slba, PAGE // block, cid=100 + turn, prp1=memory.runs[0][0]))
            written = _status(pair)
            rounds.append(
                {
                    "theirs": theirs,
                    "got": got,
                    "ours": ours,
                    "stored": stock_read(drive.name, _AT, PAGE),
                    "statuses": [read, written],
                }
            )
        return {"rounds": rounds}


def _status(pair: Plain) -> list[int] | None:
    done = pair.next()
    return None if done is None else list(done.status)


@beside.judge
def _(seen: Seen) -> None:
    clause = "beside.attach.together"
    for one in seen["rounds"]:
        seen.equal(clause, "statuses of our read and write", one["statuses"], [list(OK)] * 2)
        seen.equal(clause, "what we read of theirs", one["got"], one["theirs"])
        seen.equal(clause, "what they read of ours", one["stored"], one["ours"])

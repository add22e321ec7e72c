"""Requests: what is refused and why, what a drive says of those that fail, and what a batch costs."""

from __future__ import annotations

from typing import Any

import numpy as np

from tutti_hal.conformance_tests.case import Observations, case
from tutti_hal.conformance_tests.observation import refusal
from tutti_hal.conformance_tests.rig import BLOCK, SPOILT, Rig, drive
from tutti_hal.conformance_tests.run import Run
from tutti_hal.conformance_tests.seen import Seen
from tutti_hal.io_uring.layout import dtype
from tutti_hal.nvme.software_config import FaultAction, FaultRule

#: Block -> (type, code, do not retry, retry delay) of what the drive answers for it. Even and odd codes, every type.
_ANSWERS = {
    1: (0, 0x04, False, 0),
    2: (0, 0x81, True, 0),
    4: (1, 0x80, True, 0),
    5: (2, 0x81, True, 0),
    6: (0, 0x22, False, 2),
    9: (3, 0x71, False, 1),
    11: (7, 0xC1, True, 3),
}


@case("ring/statuses", level="L5", clauses=("ring.request.status_reported", "ring.cq.by_cid"), kernels=("ring",))
def statuses(run: Run) -> Observations:
    """What a drive says of a command that failed reaches its request, and no other request, unchanged."""
    faults = [
        FaultRule(action=FaultAction.STATUS, lbas=(lba, lba), status=(sct, sc), dnr=dnr, crd=crd)
        for lba, (sct, sc, dnr, crd) in _ANSWERS.items()
    ]
    at = np.arange(14)
    with Rig(run, faults=faults) as rig:
        return {"ended": rig.submit("read", lba=at, offset=at * BLOCK), "counted": rig.counted()}


@statuses.judge
def _(seen: Seen) -> None:
    ended = seen["ended"]
    found = [
        [int(sct), int(sc), bool(dnr), int(crd)]
        for (sct, sc), dnr, crd in zip(ended["status"], ended["dnr"], ended["crd"], strict=True)
    ]
    wanted = [list(_ANSWERS.get(lba, (0, 0, False, 0))) for lba in range(14)]
    seen.equal("ring.request.status_reported", "type, code, do-not-retry and delay of each request", found, wanted)
    seen.equal("ring.cq.by_cid", "states: a failed command has completed", ended["state"], ["COMPLETED"] * 14)
    seen.equal(
        "ring.cq.by_cid", "errors that the drive answered with", seen["counted"]["drives"][0]["errors"], len(_ANSWERS)
    )


#: What is changed of a packed request that is well otherwise, as another kernel might have packed it.
_MISPACKED: dict[str, dict[str, int]] = {
    "no blocks": {"block_count": 0},
    "above the transfer limit": {"block_count": 17},
    "past the end": {"first_lba": 1 << 16},
    "over the end": {"first_lba": (1 << 16) - 1, "block_count": 2},
    "block number that wraps": {"first_lba": (1 << 64) - 1, "block_count": 2},
    "offset that is no double word": {"buffer_offset": 2},
    "over the buffer's end": {"buffer_offset": (1 << 15) - 256},
    "offset that wraps": {"buffer_offset": (1 << 64) - 512},
    "buffer that is not registered": {"buffer": 3},
    "buffer past the table": {"buffer": 1 << 20},
    "class without queues": {"queue_class": 1},
    "class past the table": {"queue_class": 200},
}


@case(
    "ring/limits",
    level="L5",
    clauses=(
        "ring.request.limits_checked",
        "ring.request.refused_not_run",
        "ring.host.batch_limit",
        "ring.host.partial_commit",
    ),
    kernels=("ring",),
)
def limits(run: Run) -> Observations:
    """What does not fit is refused with its own error, by the host before it is packed and by the kernel after."""
    with Rig(run, {"batch_limit": 32}, drives=[drive(mdts=1)]) as rig:
        iocb = rig.ring.get_iocb()

        def ask(**fields: Any) -> dict[str, Any]:
            return refusal(lambda: rig.fill(iocb, "read", **fields))

        size = rig.memory.nbytes
        host = {
            "zero": ask(nbytes=0),
            "uneven": ask(nbytes=BLOCK + 4),
            "past": ask(lba=1 << 16),
            "over": ask(lba=(1 << 16) - 1, nbytes=2 * BLOCK),
            "wraps": ask(lba=(1 << 64) - 1, nbytes=2 * BLOCK),
            "unaligned": ask(offset=2),
            "outside": ask(offset=size - 256),
            "one_of_many": ask(lba=np.array([0, 1, 1 << 16])),
            "too_many": ask(lba=np.arange(33)),
        }
        left = len(iocb)
        # One request above the transfer limit is several commands: it goes through, whole.
        rig.fill(iocb, "read", nbytes=40 * BLOCK)
        parts = iocb.command_count
        rig.fill(iocb, "read", lba=np.arange(len(_MISPACKED)), offset=0)
        rows = iocb.staging.numpy(dtype("ring_request"))
        for row, change in enumerate(_MISPACKED.values()):
            for name, value in change.items():
                rows[parts + row][name] = value
        rig.ring.issue_io(iocb)
        ended = rig.finish(iocb)
        return {"host": host, "left": left, "parts": parts, "ended": ended, "counted": rig.counted()}


@limits.judge
def _(seen: Seen) -> None:
    host, clause = seen["host"], "ring.request.limits_checked"
    for name, error in (
        *(("zero", "RequestInvalid"), ("uneven", "RequestInvalid"), ("unaligned", "RequestInvalid")),
        *(("past", "LbaOutOfRange"), ("over", "LbaOutOfRange"), ("wraps", "LbaOutOfRange")),
        *(("outside", "BufferInvalid"), ("one_of_many", "LbaOutOfRange")),
    ):
        seen.refused(clause, f"a request that is {name}", host[name], error)
    seen.refused("ring.host.batch_limit", "a batch of 33 where 32 is the limit", host["too_many"], "BatchFull")
    seen.holds(
        "ring.host.batch_limit", "the refusal names the limit", "32" in host["too_many"]["found"], host["too_many"]
    )
    seen.equal("ring.host.batch_limit", "requests that were taken of all these", seen["left"], 0)
    # 2^1 pages of 4 KiB are sixteen blocks.
    seen.equal(clause, "commands of forty blocks at sixteen a command", seen["parts"], 3)
    wanted = ["COMPLETED"] + ["REFUSED"] * len(_MISPACKED)
    seen.equal(
        clause, f"states of a request that fits, and of: {', '.join(_MISPACKED)}", seen["ended"]["state"], wanted
    )
    seen.equal(
        "ring.host.partial_commit",
        "whether each was accepted",
        [s == "COMPLETED" for s in seen["ended"]["state"]],
        [s == "COMPLETED" for s in wanted],
    )
    given = seen["counted"]["drives"][0]
    seen.equal("ring.request.refused_not_run", "commands that the drive was given", given["io"], {"2": 3})
    seen.equal("ring.request.refused_not_run", "errors that it answered with", given["errors"], 0)


@case(
    "ring/cost",
    level="L5",
    clauses=("ring.host.one_copy_one_launch", "ring.host.constant_calls"),
    kernels=("ring",),
)
def cost(run: Run) -> Observations:
    """A batch of one and a batch of hundreds cost the same host calls: one copy, one launch, and a few more."""
    costs = []
    with Rig(run, {"batch_limit": 300}, drives=[drive(), drive()]) as rig:
        for count in (1, 40, 300):
            at = np.arange(count)
            iocb = rig.fill(rig.ring.get_iocb(), "read", target=at % 2, lba=at // 2, offset=0)
            before = run.device.host_calls.copy()
            rig.ring.issue_io(iocb)
            issued = run.device.host_calls - before
            rig.finish(iocb)
            costs.append({"issue": dict(issued), "whole": dict(run.device.host_calls - before)})
    return {"costs": costs}


@cost.judge
def _(seen: Seen) -> None:
    one, *more = seen["costs"]
    for other in more:
        # Waiting may look once or many times; handing over never does.
        seen.equal("ring.host.constant_calls", "calls of handing over a larger batch", other["issue"], one["issue"])
        seen.holds(
            "ring.host.constant_calls",
            "calls of the whole batch, by function",
            set(other["whole"]) == set(one["whole"]),
            (other["whole"], one["whole"]),
        )
    for each in seen["costs"]:
        copies = sum(count for name, count in each["whole"].items() if name.startswith("Memcpy"))
        launches = sum(count for name, count in each["whole"].items() if name.startswith("Launch"))
        seen.equal("ring.host.one_copy_one_launch", "copies and launches of a batch", [copies, launches], [1, 1])


@case(
    "ring/not_run_yet",
    level="L5",
    clauses=("ring.request.starts_not_run",),
    kernels=("ring",),
)
def not_run_yet(run: Run) -> Observations:
    """Between the hand-over and its completion a request says that it was not run, whatever was there before."""
    stuck = FaultRule(action=FaultAction.STUCK, opcode=2)
    at = np.arange(6)
    with Rig(run, {"batches": 1, "limit_ns": Rig.short_ns(run)}, faults=[stuck]) as rig:
        before = rig.submit("write", lba=at, offset=0)
        iocb = rig.fill(rig.ring.get_iocb(), "read", lba=at, offset=0)
        rig.ring.issue_io(iocb)
        # No completion can have come: what the host sees is what it wrote itself.
        codes = iocb.results["code"][: len(at)].copy()
        rig.finish(iocb)
        return {"before": before["state"], "codes": codes >> 24}


@not_run_yet.judge
def _(seen: Seen) -> None:
    clause = "ring.request.starts_not_run"
    seen.equal(clause, "states of the batch before, in the same memory", seen["before"], ["COMPLETED"] * 6)
    seen.equal(clause, "states of a batch that was handed over", seen["codes"], np.zeros(6, np.uint32))


@case(
    "ring/commands",
    level="L5",
    clauses=("ring.request.data_exact", "ring.request.status_reported"),
    kernels=("ring",),
)
def commands(run: Run) -> Observations:
    """Compare, write zeroes, flush and forced unit access do what they say, to the blocks that they name."""
    source = run.random.integers(0, 256, 6 * BLOCK, np.uint8)
    with Rig(run) as rig:
        rig.put(source)
        states = [rig.submit("write", nbytes=6 * BLOCK, force_unit_access=True)["status"].tolist()]
        states.append(rig.submit("compare", nbytes=6 * BLOCK)["status"].tolist())
        iocb = rig.fill(rig.ring.get_iocb(), "write_zeroes", lba=2, nbytes=2 * BLOCK)
        iocb.flush(rig.target)
        rig.ring.issue_io(iocb)
        states.append(rig.finish(iocb)["status"].tolist())
        states.append(rig.submit("compare", nbytes=6 * BLOCK)["status"].tolist())
        rig.put()
        states.append(rig.submit("read", nbytes=6 * BLOCK, offset=BLOCK)["status"].tolist())
        return {"source": source, "statuses": states, "memory": rig.get(), "io": rig.counted()["drives"][0]["io"]}


@commands.judge
def _(seen: Seen) -> None:
    fine, differs = [0, 0], [2, 0x85]
    wanted = [[fine], [fine], [fine, fine], [differs], [fine]]
    seen.equal(
        "ring.request.status_reported",
        "statuses of write, compare, zeroes and flush, compare, read",
        seen["statuses"],
        wanted,
    )
    source = seen["source"].copy()
    source[2 * BLOCK : 4 * BLOCK] = 0
    memory = seen["memory"]
    image = np.full(len(memory), SPOILT, np.uint8)
    image[BLOCK : 7 * BLOCK] = source
    seen.equal("ring.request.data_exact", "what came back, and what lies beside it", memory, image)
    seen.equal(
        "ring.request.data_exact",
        "commands that the drive was given",
        seen["io"],
        {"0": 1, "1": 1, "2": 1, "5": 2, "8": 1},
    )


@case(
    "ring/identifiers",
    level="L5",
    clauses=("nvme.cid.reserved", "ring.sq.ticket_never_wraps"),
    kernels=("ring",),
    budget_s=30.0,
    axes={"depth": (2, 9, 200)},
)
def identifiers(run: Run) -> Observations:
    """No command has the identifier of all ones; tickets have as many bits as last."""
    found = []
    with Rig(run, {"depth": int(run.axes["depth"]), "batch_limit": 512, "lanes": 4, "block": 4}) as rig:
        for _ in range(2):
            found.append(rig.submit("read", lba=np.arange(250) % 64, offset=0))
    bits = {
        name: 8 * dtype("ring_queue_state")[name].itemsize for name in ("ticket", "doorbell", "completion", "credits")
    }
    return {
        "identifiers": np.concatenate([one["identifiers"] for one in found]),
        "states": found[1]["state"],
        "bits": bits,
    }


@identifiers.judge
def _(seen: Seen) -> None:
    found = seen["identifiers"]
    seen.holds("nvme.cid.reserved", "no identifier is all ones", not (found == 0xFFFF).any(), found, found)
    seen.holds("nvme.cid.reserved", "identifiers have sixteen bits", int(found.max()) < 0xFFFF, found, found)
    # At a thousand million commands a second, sixty-three bits last for three hundred years.
    seen.holds(
        "ring.sq.ticket_never_wraps",
        "tickets, heads and credits have sixty-four bits",
        all(n >= 64 for n in seen["bits"].values()),
        seen["bits"],
        seen["bits"],
    )
    seen.equal("ring.sq.ticket_never_wraps", "requests that completed", seen["states"], ["COMPLETED"] * 250)

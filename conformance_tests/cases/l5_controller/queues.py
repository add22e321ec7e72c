"""Queues: made, refused, deleted, and rung where they are not."""

from __future__ import annotations

from tutti_hal.conformance_tests.case import Observations, case
from tutti_hal.conformance_tests.cases.l5_controller.answers import answers, judge_answers
from tutti_hal.conformance_tests.oracle.nvme import (
    CQ_INVALID,
    CREATE_CQ,
    CREATE_SQ,
    DELETE_CQ,
    DELETE_SQ,
    INVALID_FIELD,
    OK,
    PAGE,
    PRP_OFFSET,
    QUEUE_DELETION,
    QUEUE_ID,
    QUEUE_SIZE,
    SEQUENCE,
    Status,
    sqe,
)
from tutti_hal.conformance_tests.rig import drive, raw_host
from tutti_hal.conformance_tests.run import Run
from tutti_hal.conformance_tests.seen import Seen

#: What is tried of queues, in this order, in a controller of four queues of 63 entries at most.
_QUEUES: dict[str, Status] = {
    "completion queue before the number is asked for": SEQUENCE,
    "completion queue 0": QUEUE_ID,
    "completion queue 5 of 4": QUEUE_ID,
    "completion queue of one entry": QUEUE_SIZE,
    "completion queue of 64 entries": QUEUE_SIZE,
    "completion queue inside a page": PRP_OFFSET,
    "completion queue in pieces": INVALID_FIELD,
    "completion queue 1": OK,
    "completion queue 1 again": QUEUE_ID,
    "submission queue 0": QUEUE_ID,
    "submission queue 5 of 4": QUEUE_ID,
    "submission queue of one entry": QUEUE_SIZE,
    "submission queue of 64 entries": QUEUE_SIZE,
    "submission queue without its completion queue": CQ_INVALID,
    "submission queue 1": OK,
    "submission queue 1 again": QUEUE_ID,
    "delete completion queue 1 that is in use": QUEUE_DELETION,
    "delete submission queue 2": QUEUE_ID,
    "delete completion queue 2": QUEUE_ID,
    "delete submission queue 1": OK,
    "delete submission queue 1 again": QUEUE_ID,
    "delete completion queue 1": OK,
}


@case("controller/queues_refused", level="L5", clauses=("controller.queue.invalid_refused", "nvme.queues.order"))
def queues_refused(run: Run) -> Observations:
    """Queues that cannot be are refused with the status for it, and those that can be are made and deleted."""
    with raw_host(run, drive(mqes=62, io_queues=4), queues=0) as host:
        page = host.allocate(2 * PAGE, contiguous=True).bus()

        def cq(qid: int, last: int, flags: int = 1, prp1: int = page) -> bytes:
            return sqe(CREATE_CQ, prp1=prp1, dwords={10: last << 16 | qid, 11: flags})

        def sq(qid: int, last: int, cqid: int) -> bytes:
            return sqe(CREATE_SQ, prp1=page + PAGE, dwords={10: last << 16 | qid, 11: cqid << 16 | 1})

        first = answers(host, 0, {"completion queue before the number is asked for": cq(1, 7)})
        granted = host.set_queue_count(4)
        rest = (
            *(
                cq(0, 7),
                cq(5, 7),
                cq(1, 0),
                cq(1, 63),
                cq(1, 7, prp1=page + 64),
                cq(1, 7, flags=0),
                cq(1, 62),
                cq(1, 7),
            ),
            *(sq(0, 7, 1), sq(5, 7, 1), sq(1, 0, 1), sq(1, 63, 1), sq(1, 7, 2), sq(1, 62, 1), sq(1, 7, 1)),
            *(sqe(opcode, dwords={10: qid}) for opcode, qid in ((DELETE_CQ, 1), (DELETE_SQ, 2), (DELETE_CQ, 2))),
            *(sqe(opcode, dwords={10: 1}) for opcode in (DELETE_SQ, DELETE_SQ, DELETE_CQ)),
        )
        names = list(_QUEUES)[1:]
        found = first | answers(host, 0, dict(zip(names, rest, strict=True)))
        return {"found": found, "granted": list(granted)}


@queues_refused.judge
def _(seen: Seen) -> None:
    found, granted = seen["found"], min(seen["granted"])
    # A controller that grants fewer queues has fewer identifiers; five is beyond any of these.
    wanted = dict(_QUEUES)
    if granted < 2:
        wanted["submission queue without its completion queue"] = QUEUE_ID
    order = ("delete completion queue 1 that is in use", "submission queue without its completion queue")
    judge_answers(seen, "controller.queue.invalid_refused", found, wanted)
    for name in order:
        seen.equal("nvme.queues.order", f"status of {name}", found[name], list(wanted[name]))

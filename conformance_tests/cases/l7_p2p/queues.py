"""Queue pairs beside the kernel's own: their ids, and rings that cannot be."""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING, Any

from tutti_hal.conformance_tests.beside import attached, given, refused, until
from tutti_hal.conformance_tests.case import Observations, case
from tutti_hal.conformance_tests.cases.l7_p2p.terms import BUDGET_S, NO_MUTANT, real
from tutti_hal.conformance_tests.oracle.nvme import PAGE
from tutti_hal.conformance_tests.seen import Seen

if TYPE_CHECKING:
    from tutti_hal.conformance_tests.run import Run
    from tutti_hal.nvme.kernel_controller import KernelController

_UNKNOWN = 9999
#: More than a drive of our tests grants; a user's limit ends the case before.
_MOST = 512


def _left(run: Run) -> list[int]:
    """Queue pairs that are left on the drive, and those that are ours, as a fresh client is told."""
    from tutti_hal.nvme.kernel_controller import KernelController

    with KernelController.open(given(run), run.device) as fresh:
        return [fresh.attached.queues_spare, fresh.attached.queues_ours]


def _is_left(run: Run, wanted: list[int]) -> bool:
    return _left(run) == wanted


@case(
    "beside/queues.ids",
    level="L7",
    clauses=("beside.queue.ids_apart", "beside.queue.ids_return"),
    axes={"end": ("deleted", "closed")},
    budget_s=BUDGET_S,
    only=real,
    no_mutant=NO_MUTANT,
)
def ids(run: Run) -> Observations:
    """All queue pairs that are left are made, one more is refused, and all ids come back, twice over."""
    rounds = []
    for _ in range(2):
        with attached(run) as drive:
            before = _left(run)
            made, end = _all(drive)
            during = _left(run)
            if run.axes["end"] == "deleted":
                for pair in drive.pairs:
                    drive.delete_queue_pair(pair)
            else:
                drive.close(abrupt=True)
            returned = until(functools.partial(_is_left, run, before), 5.0)
            rounds.append(
                {
                    "before": before,
                    "made": made,
                    "end": end,
                    "during": during,
                    "returned": returned,
                    "after": _left(run),
                    "stock": drive.attached.queues_stock,
                    "granted": drive.attached.queues_granted,
                }
            )
    return {"rounds": rounds}


def _all(drive: KernelController) -> tuple[list[int], dict[str, Any]]:
    made: list[int] = []
    end: dict[str, Any] = {}
    while not end.get("error") and len(made) < _MOST:
        end = refused(lambda: made.append(drive.create_queue_pair(2).qid))
    return made, end


@ids.judge
def _(seen: Seen) -> None:
    apart, back = "beside.queue.ids_apart", "beside.queue.ids_return"
    for one in seen["rounds"]:
        made = one["made"]
        seen.holds(apart, "no id is given twice", len(set(made)) == len(made), made, made)
        # Ids of the kernel's driver are 1 to its number of queues.
        taken = [qid for qid in made if not one["stock"] < qid <= one["granted"]]
        seen.equal(apart, "ids that are the driver's, or that the drive did not grant", taken, [])
        seen.holds(apart, "some were left", one["before"][0] > 0, one["before"])
        if one["end"]["errno"] != "EDQUOT":
            seen.equal(apart, "class of the refusal of one more", one["end"]["error"], "QueuesRefused")
            seen.equal(apart, "pairs made, of those that were left", len(made), one["before"][0])
        seen.equal(
            apart,
            "left and ours meanwhile",
            one["during"],
            [one["before"][0] - len(made), one["before"][1] + len(made)],
        )
        seen.holds(back, "the ids come back in time", one["returned"], one["after"])
        seen.equal(back, "left and ours afterwards", one["after"], one["before"])


@case(
    "beside/queues.refused",
    level="L7",
    clauses=("beside.queue.refuses", "beside.client.apart"),
    budget_s=BUDGET_S,
    only=real,
    no_mutant=NO_MUTANT,
)
def queues_refused(run: Run) -> Observations:
    """Rings of a wrong size or place, and handles of another client, are refused; no queue id is lost to that."""
    from tutti_hal.nvme import p2p_uapi
    from tutti_hal.nvme.kernel_controller import KernelController

    with attached(run) as drive:
        rings = drive.host_pages.allocate(2 * PAGE)
        run.closing.callback(rings.close)
        before = _left(run)
        good: dict[str, Any] = {
            "controller": drive.controller_handle,
            "sq_pin": rings.pin,
            "cq_pin": rings.pin,
            "cq_offset": PAGE,
            "sq_entries": 16,
            "cq_entries": 16,
        }
        wrong: dict[str, dict[str, Any]] = {
            "no_entries": {"sq_entries": 0},
            "one_entry": {"sq_entries": 1},
            "one_completion": {"cq_entries": 1},
            "too_many": {"sq_entries": drive.limits.max_depth + 1},
            "off_a_page": {"sq_offset": 64},
            "outside": {"cq_offset": 2 * PAGE},
            "longer_than_its_pin": {"cq_offset": PAGE, "cq_entries": 2 * PAGE // 16},
            "far_outside": {"sq_offset": (1 << 64) - PAGE},
            "unknown_pin": {"sq_pin": _UNKNOWN},
            "unknown_drive": {"controller": _UNKNOWN},
        }

        def ask(client: Any, request: p2p_uapi.Request) -> dict[str, Any]:
            return refused(lambda: client.ask(request, "try"))

        tries = {what: ask(drive.client, p2p_uapi.QueueCreate(**good | fields)) for what, fields in wrong.items()}
        after = _left(run)
        pair = drive.create_queue_pair(16)
        with KernelController.open(given(run), run.device) as other:
            foreign = {
                "runs": ask(other.client, p2p_uapi.Runs(pin=rings.pin, controller=other.controller_handle)),
                "queue": ask(other.client, p2p_uapi.QueueDelete(queue=drive.queue_handle(pair))),
                "rings": ask(other.client, p2p_uapi.QueueCreate(**good | {"controller": other.controller_handle})),
                "unpin": ask(other.client, p2p_uapi.Unpin(pin=rings.pin)),
            }
        still = [len(drive.client.runs(rings.pin, drive.controller_handle)), drive.client.generation]
        return {"tries": tries, "left": [before, after], "foreign": foreign, "still": still}


@queues_refused.judge
def _(seen: Seen) -> None:
    for what, one in seen["tries"].items():
        wanted = "ENOENT" if what.startswith("unknown") else "EINVAL"
        # A ring that could be elsewhere has a cause of its own.
        ok = one["errno"] in (wanted, "EOPNOTSUPP" if one["cause"] == "RING" else wanted)
        seen.holds(
            "beside.queue.refuses", f"{what}: refused with {wanted}", one["error"] == "ModuleRefused" and ok, one
        )
    seen.equal("beside.queue.refuses", "ids left after the refusals", seen["left"][1], seen["left"][0])
    for what, one in seen["foreign"].items():
        seen.equal("beside.client.apart", f"{what}: what another client is told", one["errno"], "ENOENT")
    seen.equal("beside.client.apart", "generation of the client whose handles were named", seen["still"][1], 0)
    seen.holds("beside.client.apart", "its memory is still there", seen["still"][0] > 0, seen["still"])

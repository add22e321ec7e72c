"""Random workloads with random faults, judged by the reference model of campaigns."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from tutti_hal.conformance_tests.campaign.executor import execute
from tutti_hal.conformance_tests.campaign.model import CLAUSES, TROUBLE, judge
from tutti_hal.conformance_tests.campaign.steps import Workload
from tutti_hal.conformance_tests.campaign.workload import MIXES, Generator
from tutti_hal.conformance_tests.case import Observations, case
from tutti_hal.conformance_tests.run import Run
from tutti_hal.conformance_tests.seen import Axis, Seen

#: Commands of a workload, and workloads of an instance.
_COMMANDS, _WORKLOADS = 300, 3


def _workloads(axes: Mapping[str, Axis], seed: int, *, simulated: bool) -> list[Workload]:
    return [
        Generator(seed + number, str(axes["mix"]), simulated=simulated).workload(_COMMANDS)
        for number in range(_WORKLOADS)
    ]


def _clauses(axes: Mapping[str, Axis]) -> tuple[str, ...]:
    return CLAUSES + (TROUBLE if axes["mix"] == "recovery" else ())


@case(
    "ring/campaign",
    level="L5",
    clauses=CLAUSES + TROUBLE,
    kernels=("ring",),
    budget_s=60.0,
    axes={"mix": MIXES},
    narrow=_clauses,
    quick=False,
)
def campaign(run: Run) -> Observations:
    """Whatever is asked and whatever fails: each request ends as it may, and blocks hold what they may."""
    seen: list[Any] = []
    for workload in _workloads(run.axes, run.seed, simulated=run.facts.simulated):
        for _ in run.schedules(1):
            seen.append(execute(run, workload))
    return {"workloads": seen}


@campaign.judge
def _(seen: Seen) -> None:
    simulated = seen.facts.simulated
    workloads = _workloads(seen.axes, seen.seed, simulated=simulated)
    for number, (workload, one) in enumerate(zip(workloads, seen["workloads"], strict=True)):
        model = judge(workload, one, simulated=simulated)
        for clause in _clauses(seen.axes):
            wrong = [each for each in model.wrong if each.clause == clause]
            what = f"workload {number} keeps to the model"
            # A clause that a workload did not meet is spoken for by the others, and by nobody if none met it.
            if model.examined[clause]:
                seen.holds(clause, what, not wrong, wrong[:3], model.examined[clause])

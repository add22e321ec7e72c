"""The ring's figures that are counted in the simulated world: what a stuck command costs others, doorbells, CQ loads.

A loaded machine changes none of them: lanes in turn and waves in step are one run each, the same every time.
"""

from __future__ import annotations

import importlib.util
from pathlib import Path
from types import ModuleType

import pytest

from tutti_hal.conformance_tests.subject import Subject, SubjectSpec

pytestmark = pytest.mark.ring


@pytest.fixture(scope="module")
def figures() -> ModuleType:
    """The benchmark itself: what it prints is what is held here."""
    path = Path(__file__).resolve().parents[2] / "benchmarks" / "bench_ring_steps.py"
    spec = importlib.util.spec_from_file_location("bench_ring_steps", path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture(scope="module")
def subject() -> Subject:
    return Subject(SubjectSpec("host", "sim-w32"))


@pytest.mark.parametrize("policy", ["fair", "lockstep"])
def test_a_stuck_command_costs_other_queues_at_most_a_twentieth(
    figures: ModuleType, subject: Subject, policy: str
) -> None:
    """On average over shapes and latencies; a single one is a schedule beside another, which differ by a tenth."""
    costs = {shape: figures.cost(subject, shape, policy, 4)["of_clean"] for shape in figures.SHAPES}
    assert sum(costs.values()) / len(costs) <= 1.05, costs
    assert max(costs.values()) <= 1.15, costs


def test_what_is_counted_is_the_others_and_not_the_stuck_one(figures: ModuleType, subject: Subject) -> None:
    """The stuck command waits for its deadline, far behind everything else: were it counted, the ratio would say so."""
    found = figures.stuck(subject, figures.SHAPES[0], 1, "lockstep")
    assert found["stuck_steps"] < figures._LIMIT_NS / 4


@pytest.mark.parametrize(("policy", "depth"), [("fair", 33), ("fair", 256), ("lockstep", 64), ("lockstep", 256)])
def test_doorbells_and_completion_reads_are_few(figures: ModuleType, subject: Subject, policy: str, depth: int) -> None:
    found = figures.counted(subject, depth, policy)
    assert found["doorbells_per_command"] <= 1 / 8
    assert found["cq_loads_per_command"] <= 4

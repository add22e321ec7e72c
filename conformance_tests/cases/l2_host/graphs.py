"""Captured work that is replayed."""

from __future__ import annotations

from tutti_hal.conformance_tests.case import Observations, case
from tutti_hal.conformance_tests.run import Run
from tutti_hal.conformance_tests.seen import Seen


@case(
    "host/graph.replay",
    level="L2",
    clauses=("host.graph.replay",),
    needs=("graph.capture",),
    no_mutant="The contract has no function that captures or replays, so there is nothing to break.",
)
def replay(run: Run) -> Observations:
    """A claim of graph capture is one that nobody can show while the contract has no function for it."""
    from tutti_hal.spec import load_spec

    del run
    functions = load_spec().host_functions.values()
    return {"functions": [one.name for one in functions if one.capability == "graph.capture"], "replays": 0}


@replay.judge
def _(seen: Seen) -> None:
    clause = "host.graph.replay"
    seen.holds(clause, "the contract has functions to capture and replay with", seen["functions"], seen["functions"])
    seen.holds(clause, "captured work was replayed", seen["replays"] > 0, seen["replays"])

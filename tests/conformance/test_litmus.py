"""The judge of litmus cases: what it lets pass, and what it does not."""

from __future__ import annotations

import os
from dataclasses import replace
from typing import Any

import pytest

from tests.conformance.reports import green, make
from tutti_hal.conformance_tests.case import Case, Instance
from tutti_hal.conformance_tests.cases.l4_memory import engine
from tutti_hal.conformance_tests.cases.l4_memory.playing import spread_threads
from tutti_hal.conformance_tests.cases.l4_memory.scoring import NEEDED, score
from tutti_hal.conformance_tests.cases.l4_memory.shapes import FORMS, MODELS, SHAPES, key
from tutti_hal.conformance_tests.catalogue import catalogue
from tutti_hal.conformance_tests.judgement import Judgement, judge
from tutti_hal.conformance_tests.outcome import End, Outcome
from tutti_hal.conformance_tests.report.html import render
from tutti_hal.conformance_tests.report.litmus import litmus
from tutti_hal.conformance_tests.seen import Facts, Seen
from tutti_hal.conformance_tests.session import Session
from tutti_hal.conformance_tests.terms import Terms
from tutti_hal.conformance_tests.verdict import Verdict
from tutti_hal.spec import load_spec

pytestmark = pytest.mark.suite

_CLAUSE = "prim.fence.publishes"
_KINDS = {"device": ("hardware", False), "cpu": ("host", False), "world": ("host", True)}


def _facts(where: str) -> Facts:
    kind, simulated = _KINDS[where]
    return Facts("acme", kind, "one", 32, 32, simulated, {}, {})


def _tally(histogram: dict[str, int], **more: Any) -> dict[str, Any]:
    return {"histogram": histogram, "instances": sum(histogram.values()), **more}


def _judged(
    where: str,
    shape: str,
    right: dict[str, Any],
    twin: dict[str, Any] | None = None,
    cpu: str = "x86_64",
    twins: dict[str, Any] | None = None,
) -> Judgement:
    """The judgement of a case that observed these tallies."""
    case = Case("litmus/planted", "L4", (_CLAUSE,), lambda _: {}, doc="planted")

    @case.judge
    def _(seen: Seen) -> None:
        score(seen, (_CLAUSE,), shape)

    observed = {"cpu": cpu, "right": right, "twins": twins or {"twin": twin}}
    outcome = Outcome("litmus/planted", 1, End.OBSERVED, {}, observed, (), (), 0.1)
    return judge(Instance(case, {}), outcome, _facts(where), Terms(load_spec(), {}, {}))


_GOOD = {"0,0": 90, "0,1": 5, "1,1": 5}
_NOTICED = {"0,0": 90, "1,1": 5, "1,0": NEEDED}


def test_a_twin_that_was_noticed_often_enough_lets_the_right_form_pass() -> None:
    found = _judged("device", "mp", _tally(_GOOD), _tally(_NOTICED))
    assert found.verdict is Verdict.PASS, found.reason


def test_one_forbidden_outcome_fails() -> None:
    found = _judged("device", "mp", _tally({**_GOOD, "1,0": 1}), _tally(_NOTICED))
    assert found.verdict is Verdict.FAIL
    assert "never: a flag is seen and not its data" in found.reason
    assert "'1,0': 1" in found.reason


@pytest.mark.parametrize("who", ["right", "twin"])
def test_a_histogram_that_leaves_instances_out_fails(who: str) -> None:
    short = {"right": _tally(_GOOD), "twin": _tally(_NOTICED)}
    short[who]["instances"] += 1
    found = _judged("device", "mp", short["right"], short["twin"])
    assert found.verdict is Verdict.FAIL
    assert "instances in the histogram" in found.reason


def test_an_outcome_that_nobody_stored_fails() -> None:
    found = _judged("device", "mp", _tally({**_GOOD, "1,7": 1}), _tally(_NOTICED))
    assert found.verdict is Verdict.FAIL
    assert "is one that was stored" in found.reason


def test_too_few_kills_are_inconclusive_and_block() -> None:
    found = _judged("device", "mp", _tally(_GOOD), _tally({"0,0": 90, "1,1": 5, "1,0": NEEDED - 1}))
    assert found.verdict is Verdict.INCONCLUSIVE
    assert f"twin ended weak in {NEEDED - 1} of {97}" in found.reason
    assert found.blocks


def test_one_of_several_twins_suffices_on_a_device_and_none_may_lack_in_a_world() -> None:
    """A vendor may make an order stronger than it must be; what a world shows is said of each form."""
    twins = {"relaxed": _tally(_NOTICED), "ordered": _tally(_GOOD)}
    assert _judged("device", "mp", _tally(_GOOD), twins=twins).verdict is Verdict.PASS
    assert _judged("world", "mp", _tally(_GOOD, complete=True), twins=twins).verdict is Verdict.FAIL


def test_kills_count_for_no_longer_run_than_the_right_form_had() -> None:
    longer = _tally({"0,0": 397, "1,0": NEEDED})
    found = _judged("device", "mp", _tally(_GOOD), longer)
    assert found.verdict is Verdict.INCONCLUSIVE
    assert "0.8 in the right form's 100" in found.reason


def test_a_forbidden_outcome_is_worse_than_a_twin_that_was_not_noticed() -> None:
    found = _judged("device", "mp", _tally({**_GOOD, "1,0": 1}), _tally({"0,0": 90}))
    assert found.verdict is Verdict.FAIL


def test_a_run_in_which_nobody_saw_anybody_says_nothing() -> None:
    idle = _tally({"0,0": 50, "0,1": 50})
    found = _judged("device", "mp", idle, _tally(_NOTICED))
    assert found.verdict is Verdict.INCONCLUSIVE
    assert "in none of 100 instances" in found.reason
    assert _judged("world", "mp", {**idle, "complete": True}, _tally(_NOTICED)).verdict is Verdict.FAIL


def test_what_a_declared_model_forbids_to_every_form_is_pruned() -> None:
    unseen = _tally({"0,0": 90, "1,1": 10})
    assert _judged("cpu", "mp", _tally(_GOOD), unseen).verdict is Verdict.PASS
    # Not where no model is declared: another CPU, a device of its own.
    assert _judged("cpu", "mp", _tally(_GOOD), unseen, cpu="aarch64").verdict is Verdict.INCONCLUSIVE
    assert _judged("device", "mp", _tally(_GOOD), unseen).verdict is Verdict.INCONCLUSIVE
    # And not what the model allows: a store buffer is seen on this CPU.
    assert _judged("cpu", "sb", _tally({"1,1": 9}), _tally({"1,1": 9})).verdict is Verdict.INCONCLUSIVE


def test_pruning_excuses_no_forbidden_outcome() -> None:
    assert _judged("cpu", "mp", _tally({**_GOOD, "1,0": 1}), _tally(_GOOD)).verdict is Verdict.FAIL


def test_in_a_world_a_twin_must_be_noticed_and_every_run_be_taken() -> None:
    every = _tally(_GOOD, complete=True, cuts=0)
    assert _judged("world", "mp", every, _tally(_NOTICED)).verdict is Verdict.PASS
    assert _judged("world", "mp", every, _tally({"0,0": 4000})).verdict is Verdict.FAIL
    cut_short = _tally(_GOOD, complete=False, cuts=0)
    assert _judged("world", "mp", cut_short, _tally(_NOTICED)).verdict is Verdict.FAIL


def test_runs_that_were_cut_are_accounted_for() -> None:
    every = {**_tally(_GOOD, complete=True, cuts=7), "instances": 107}
    assert _judged("world", "mp", every, _tally(_NOTICED)).verdict is Verdict.PASS
    assert _judged("world", "mp", {**every, "cuts": 6}, _tally(_NOTICED)).verdict is Verdict.FAIL


def test_the_tables_are_sound() -> None:
    for name, shape in SHAPES.items():
        assert not shape.strong & shape.weak, name
        assert {len(one) for one in shape.strong | shape.weak} == {len(shape.noted)}, name
        assert shape.weak <= shape.synchronised | {(0, 0)}, name
    for form, (name, weak) in FORMS.items():
        assert weak <= SHAPES[name].weak, form
    for model in MODELS.values():
        assert model.never <= set(SHAPES)
    assert key((1, 0)) == "1,0"


def test_every_clause_of_the_level_has_a_case() -> None:
    claimed = {clause for case in catalogue().cases for clause in case.clauses}
    assert sorted(one.id for one in load_spec().clauses.values() if one.level == "L4" and one.id not in claimed) == []


def _session_with(observations: dict[str, Any]) -> Session:
    """A whole run in which the cases of one shape on two archs observed this."""
    session = make(green)
    chosen = {f"litmus/barrier:arch={arch}" for arch in ("threads-w32", "sim-w32")}
    outcomes = {
        name: replace(one, observations=observations) if name in chosen else one
        for name, one in session.outcomes.items()
    }
    return replace(session, outcomes=outcomes)


def test_the_report_sums_the_histograms_and_names_what_is_pruned() -> None:
    twin = {"form": "barrier_twin", "histogram": {"1": 5, "0": 2}}
    seen = {"cpu": "x86_64", "shape": "barrier", "right": {"form": "barrier_right", "histogram": {"1": 9}}}
    (found,) = litmus(_session_with({**seen, "twins": {"barrier_twin": twin}}))
    rows = {(one.name, one.exact): (one.right, one.instances, one.weak, one.pruned) for one in found.forms}
    assert rows == {
        ("barrier_right", False): (True, 9, 0, ""),
        ("barrier_right", True): (True, 9, 0, ""),
        ("barrier_twin", False): (False, 7, 2, "x86-TSO"),
        ("barrier_twin", True): (False, 7, 2, ""),
    }
    assert found.forms[1].shown == (("0", 2), ("1", 5))
    page = render(_session_with({**seen, "twins": {"barrier_twin": twin}}))
    assert "pruned: x86-TSO" in page


@pytest.mark.parametrize(
    "strange",
    [
        {"shape": "barrier", "right": [], "twins": []},
        {"shape": "barrier", "right": {"histogram": {"1": "many"}}, "twins": {"a": None}},
        {"shape": {"a": 1}, "right": {"histogram": {"1": 1}}},
        {"shape": "nothing known", "right": {"histogram": {"1": 1}}},
    ],
)
def test_the_report_leaves_out_what_no_case_would_observe(strange: dict[str, Any]) -> None:
    assert litmus(_session_with(strange)) == ()


@pytest.mark.skipif(not hasattr(os, "sched_setaffinity"), reason="this system binds no thread to a CPU")
def test_threads_are_spread_over_the_cpus_and_set_free_again() -> None:
    before = os.sched_getaffinity(0)
    back = spread_threads()
    try:
        assert len(os.sched_getaffinity(0)) == 1
    finally:
        back()
    assert os.sched_getaffinity(0) == before


def _verdict(case: Case, axes: dict[str, Any], observed: dict[str, Any]) -> Verdict:
    """The verdict of one of the suite's own cases over what somebody says was observed in a world."""
    outcome = Outcome("forged", 1, End.OBSERVED, {}, observed, (), (), 0.1)
    facts = replace(_facts("world"), capabilities={"engine.simulation": True, "memory.mapped": True})
    return judge(Instance(case, axes), outcome, facts, Terms(load_spec(), {}, {})).verdict


def _table(**changed: dict[str, Any]) -> dict[str, Any]:
    """What a world shows of SB, as the table wants it."""
    strong = {"0,1": 5, "1,0": 5, "1,1": 5}
    forms = {}
    for form in ("sb_fence", "sb_system", "sb_relaxed", "sb_ordered"):
        weak = form in ("sb_relaxed", "sb_ordered")
        histogram = {**strong, "0,0": 1} if weak else strong
        every = {"histogram": histogram, "instances": sum(histogram.values()), "complete": True}
        seeds = {"histogram": histogram, "instances": 16, "first": dict.fromkeys(histogram, 1)}
        forms[form] = {
            "every": {**every, **changed.get(form, {})},
            "seeds": {**seeds, **changed.get(f"{form}_seeds", {})},
        }
    return {"forms": forms}


@pytest.mark.parametrize(
    ("changed", "verdict"),
    [
        ({}, Verdict.PASS),
        ({"sb_fence": {"histogram": {"0,1": 1, "0,0": 1}}}, Verdict.FAIL),
        ({"sb_system": {"complete": False}}, Verdict.FAIL),
        ({"sb_ordered_seeds": {"first": {"0,1": 1}}}, Verdict.FAIL),
        ({"sb_fence_seeds": {"histogram": {"2,0": 1}}}, Verdict.FAIL),
    ],
    ids=["as it should be", "forbidden", "not all runs", "not seen", "never stored"],
)
def test_the_engines_table_is_held_form_by_form(changed: dict[str, Any], verdict: Verdict) -> None:
    assert _verdict(engine.table, {"shape": "sb"}, _table(**changed)) is verdict


def test_the_engine_may_show_what_is_old_no_longer_than_it_says() -> None:
    def verdict(*looks: int, last: int = 1) -> Verdict:
        found = [[20, 20 + one, last] for one in looks]
        return _verdict(engine.staleness, {"reads": 8}, {"found": found})

    assert verdict(-3, 0, 9) is Verdict.PASS
    assert verdict(-3, 0, 10) is Verdict.FAIL
    assert verdict(-3, 0, 2) is Verdict.FAIL  # it never showed the old value for as long as it may
    assert verdict(9, last=0) is Verdict.FAIL


def test_stores_stay_hidden_exactly_where_they_are_set_to() -> None:
    def verdict(hidden: bool, meanwhile: list[int], after: int = 1, ended: bool = False) -> Verdict:
        one = {"ended": ended, "meanwhile": meanwhile, "after": after}
        return _verdict(engine.invisible, {"hidden": hidden}, {"found": [one]})

    assert verdict(True, [0, 0]) is Verdict.PASS
    assert verdict(False, [0, 1]) is Verdict.PASS
    assert verdict(True, [0, 1]) is Verdict.FAIL
    assert verdict(True, [0, 0], after=0) is Verdict.FAIL
    assert verdict(False, [0, 0]) is Verdict.FAIL
    assert verdict(True, [0, 0], ended=True) is Verdict.FAIL

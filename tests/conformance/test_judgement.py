"""Verdicts, judged: every end, every expectation, every way of being wrong gets exactly one."""

from __future__ import annotations

import datetime
import itertools
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tutti_hal.conformance_tests.case import Case, Instance, case
from tutti_hal.conformance_tests.judgement import Judgement, judge
from tutti_hal.conformance_tests.ladder import Rung, ladder, state_of
from tutti_hal.conformance_tests.observation import ObservationInvalid, decode, encode
from tutti_hal.conformance_tests.outcome import End, Outcome
from tutti_hal.conformance_tests.run import Run
from tutti_hal.conformance_tests.seen import Facts, Seen
from tutti_hal.conformance_tests.terms import ExpectedSkip, Terms, Waiver, plan
from tutti_hal.conformance_tests.verdict import ACCEPTED, OPEN, SkipReason, Verdict, worst
from tutti_hal.spec import load_spec

ONE, TWO = "prim.crc.check_value", "prim.crc.composes"
TODAY = datetime.date(2030, 6, 1)
TERMS = Terms(load_spec(), today=TODAY)
CAPABILITIES = dict.fromkeys(load_spec().capabilities, True)
FACTS = Facts("acme", "hardware", "a1", 32, 32, False, CAPABILITIES, {})


def planted(judging: Callable[[Seen], None] | None, **options: Any) -> Instance:
    """An instance of a case that claims two clauses."""

    @case("plant/one", level="L3", clauses=options.pop("clauses", (ONE, TWO)), **options)
    def observe(run: Run) -> dict[str, Any]:
        """Planted."""
        return {}

    assert isinstance(observe, Case)
    if judging is not None:
        observe.judge(judging)
    return Instance(observe, {}, "a1")


def both(seen: Seen) -> None:
    seen.equal(ONE, "one", seen["one"], 1)
    seen.equal(TWO, "two", seen["two"], 2)


def outcome(end: End = End.OBSERVED, **fields: Any) -> Outcome:
    return Outcome("plant/one:arch=a1", 5, end, **fields)


GOOD = outcome(observations={"one": 1, "two": 2})
BAD = outcome(observations={"one": 1, "two": 3})


def verdict_of(instance: Instance, result: Outcome | None, facts: Facts = FACTS, terms: Terms = TERMS) -> Verdict:
    return judge(instance, result, facts, terms).verdict


def test_a_pass_has_checked_each_clause() -> None:
    found = judge(planted(both), GOOD, FACTS, TERMS)
    assert (found.verdict, found.reason, found.blocks) == (Verdict.PASS, "", False)
    assert found.clauses == {ONE: Verdict.PASS, TWO: Verdict.PASS}
    assert found.examined == 2


def test_a_check_that_does_not_hold_fails_its_clause_and_says_what_was_found() -> None:
    found = judge(planted(both), BAD, FACTS, TERMS)
    assert found.verdict is Verdict.FAIL
    assert found.blocks
    assert found.clauses == {ONE: Verdict.PASS, TWO: Verdict.FAIL}
    assert "found 3, wanted 2" in found.reason


@pytest.mark.parametrize(
    "judging",
    [
        pytest.param(lambda seen: seen.equal(ONE, "one", seen["one"], 1), id="a clause is not checked"),
        pytest.param(lambda seen: None, id="nothing is checked"),
        pytest.param(lambda seen: [seen.equal(c, "x", [], []) for c in (ONE, TWO)], id="nothing is examined"),
        pytest.param(lambda seen: [seen.holds(c, "x", True, examined=[]) for c in (ONE, TWO)], id="of an empty list"),
        pytest.param(lambda seen: seen["absent"], id="an observation is missing"),
        pytest.param(lambda seen: 1 / 0, id="the judge raises"),
        pytest.param(lambda seen: seen.equal("prim.clock.advances", "x", 1, 1), id="another clause"),
        pytest.param(None, id="no judge"),
    ],
)
def test_what_shows_nothing_is_an_error_and_no_pass(judging: Callable[[Seen], None] | None) -> None:
    found = judge(planted(judging), GOOD, FACTS, TERMS)
    assert found.verdict is Verdict.ERROR
    assert found.blocks
    assert found.reason


@pytest.mark.parametrize(
    ("result", "verdict"),
    [
        (outcome(End.TIMED_OUT, detail={"budget_s": 3}), Verdict.TIMEOUT),
        (outcome(End.LOST, detail={"said": "gone"}), Verdict.DEVICE_LOST),
        (outcome(End.CRASHED, detail={"signal": "SIGSEGV"}), Verdict.FAIL),
        (outcome(End.REFUSED, detail={"id": "TT-X", "said": "no"}), Verdict.FAIL),
        (outcome(End.RAISED, detail={"error": "KeyError", "said": "x"}), Verdict.ERROR),
        (outcome(End.NOT_RUN, detail={"why": "time"}), Verdict.NOT_TESTED),
        (None, Verdict.NOT_TESTED),
    ],
)
def test_each_end_has_its_verdict(result: Outcome | None, verdict: Verdict) -> None:
    found = judge(planted(both), result, FACTS, TERMS)
    assert found.verdict is verdict
    assert found.blocks
    assert set(found.clauses.values()) == {verdict}


def test_an_unexpected_line_in_the_log_fails_a_pass_and_a_foreseen_one_does_not() -> None:
    noisy = replace(GOOD, log=("warning: odd", ""))
    assert verdict_of(planted(both), noisy) is Verdict.FAIL
    assert verdict_of(planted(both), replace(noisy, foreseen=("^warning",))) is Verdict.PASS
    assert verdict_of(planted(both), replace(noisy, foreseen=("other",))) is Verdict.FAIL
    assert "kernel: BUG" in judge(planted(both), replace(GOOD, log=("kernel: BUG",)), FACTS, TERMS).reason


def test_doubt_is_inconclusive_unless_something_failed() -> None:
    def doubting(seen: Seen) -> None:
        both(seen)
        seen.inconclusive("too few")

    assert verdict_of(planted(doubting), GOOD) is Verdict.INCONCLUSIVE
    assert verdict_of(planted(doubting), BAD) is Verdict.FAIL


def declared(**answers: bool) -> Facts:
    changed = {name.replace("__", "."): answer for name, answer in answers.items()}
    assert set(changed) <= set(CAPABILITIES)
    return replace(FACTS, capabilities=CAPABILITIES | changed)


def test_a_skip_needs_a_capability_that_is_declared_false_and_optional_at_the_level() -> None:
    optional = planted(both, needs=("wave.ballot",))
    assert plan(optional, FACTS, TERMS).runs
    found = judge(optional, None, declared(wave__ballot=False), TERMS)
    assert (found.verdict, found.code, found.blocks) == (Verdict.SKIP, SkipReason.CAPABILITY, False)
    mandatory = planted(both, needs=("module.load",))
    found = judge(mandatory, None, declared(module__load=False), TERMS)
    assert (found.verdict, found.blocks) == (Verdict.FAIL, True)
    assert "L3 needs module.load" in found.reason


def test_unsupported_for_ever_and_expected_to_fail_for_now_are_two_things() -> None:
    instance = planted(both, needs=("wave.ballot",))
    without = declared(wave__ballot=False)
    forever = replace(TERMS, unsupported={TWO: "It has no mask."})
    found = judge(instance, None, without, forever)
    assert (found.verdict, found.code, found.reason) == (Verdict.SKIP, SkipReason.UNSUPPORTED, "It has no mask.")
    # Declared true, it binds: the list excuses nothing.
    assert verdict_of(instance, BAD, FACTS, forever) is Verdict.FAIL
    for_now = replace(TERMS, expected_failures={TWO: "Not written yet."})
    found = judge(instance, None, without, for_now)
    assert (found.verdict, found.blocks) == (Verdict.XFAIL, False)
    found = judge(instance, None, FACTS, for_now)
    assert (found.verdict, found.blocks) == (Verdict.XFAIL, True)


def test_verified_expected_failures_fail_only_where_they_are_expected() -> None:
    terms = replace(TERMS, expected_failures={TWO: "Not written yet."}, verify_xfail=True)
    assert plan(planted(both), FACTS, terms).runs
    found = judge(planted(both), BAD, FACTS, terms)
    assert (found.verdict, found.clauses[ONE]) == (Verdict.XFAIL, Verdict.PASS)
    found = judge(planted(both), GOOD, FACTS, terms)
    assert (found.verdict, found.clauses[TWO], found.blocks) == (Verdict.XPASS, Verdict.XPASS, True)
    worse = outcome(observations={"one": 0, "two": 3})
    assert verdict_of(planted(both), worse, FACTS, terms) is Verdict.FAIL
    assert verdict_of(planted(both), None, FACTS, terms) is Verdict.NOT_TESTED


def test_a_skip_of_its_own_passes_only_where_the_machine_lists_it() -> None:
    def skipped(reason: str) -> Outcome:
        return outcome(End.SKIPPED, detail={"reason": reason, "why": "one device"})

    listed = replace(TERMS, skips=(ExpectedSkip("plant/*", SkipReason.MACHINE, "Laptops have one."),))
    assert verdict_of(planted(both), skipped("machine")) is Verdict.FAIL
    assert verdict_of(planted(both), skipped("machine"), terms=listed) is Verdict.SKIP
    assert verdict_of(planted(both), skipped("tool"), terms=listed) is Verdict.FAIL
    other = replace(listed, skips=(ExpectedSkip("other/*", SkipReason.MACHINE, "x."),))
    assert verdict_of(planted(both), skipped("machine"), terms=other) is Verdict.FAIL
    for reason in ("capability", "unsupported"):
        every = replace(TERMS, skips=(ExpectedSkip("*", SkipReason(reason), "x."),))
        assert verdict_of(planted(both), skipped(reason), terms=every) is Verdict.FAIL


WAIVER = Waiver("acme", (), ("plant/*",), (), "Known.", "https://example.test/1", "A. Person", TODAY, "w.yaml:3")


@pytest.mark.parametrize(
    ("waiver", "covers"),
    [
        (WAIVER, True),
        (replace(WAIVER, expires=TODAY - datetime.timedelta(days=1)), False),
        (replace(WAIVER, vendor="other"), False),
        (replace(WAIVER, devices=("b*",)), False),
        (replace(WAIVER, devices=("a*",)), True),
        (replace(WAIVER, cases=(), clauses=(TWO,)), True),
        (replace(WAIVER, cases=(), clauses=(ONE,)), False),
        (replace(WAIVER, cases=("plant/two*",)), False),
        (replace(WAIVER, cases=()), False),
    ],
)
def test_a_waiver_covers_its_vendor_device_and_case_until_its_day(waiver: Waiver, covers: bool) -> None:
    found = judge(planted(both), BAD, FACTS, replace(TERMS, waivers=(waiver,)))
    assert (found.verdict is Verdict.WAIVED) is covers
    assert found.blocks is not covers
    if covers:
        assert found.waived is Verdict.FAIL
        assert found.clauses == {ONE: Verdict.PASS, TWO: Verdict.WAIVED}
        assert str(TODAY) in found.reason


def test_a_waiver_leaves_a_pass_alone() -> None:
    assert verdict_of(planted(both), GOOD, terms=replace(TERMS, waivers=(WAIVER,))) is Verdict.PASS


@given(st.lists(st.sampled_from(list(Verdict)), min_size=1))
def test_the_worst_verdict_wins_in_any_order(verdicts: list[Verdict]) -> None:
    order = [
        *("FAIL", "ERROR", "TIMEOUT", "DEVICE_LOST", "XPASS", "INCONCLUSIVE"),
        *("NOT_TESTED", "XFAIL", "SKIP", "WAIVED", "PASS"),
    ]
    assert [verdict.value for verdict in Verdict] == order
    assert worst(verdicts) == min(verdicts, key=lambda one: order.index(one.value))
    assert worst(reversed(verdicts)) == worst(verdicts)


def test_only_three_verdicts_let_a_level_pass() -> None:
    assert {Verdict.PASS, Verdict.WAIVED, Verdict.SKIP} == ACCEPTED


# ---- the ladder


def rungs(*results: tuple[str, Outcome | None], terms: Terms = TERMS) -> dict[str, Any]:
    level = load_spec().clauses
    instances, judgements = [], {}
    for number, (clause, result) in enumerate(results):

        @case(f"plant/n{number}", level=level[clause].level, clauses=(clause,))
        def observe(run: Run) -> dict[str, Any]:
            """Planted."""
            return {}

        observe.judge(lambda seen: seen.equal(seen._clauses[0], "one", seen["one"], 1))
        instance = Instance(observe, {}, "a1")
        instances.append(instance)
        if result is not None:
            judgements[instance.id] = judge(instance, result, FACTS, terms)
    found = ladder(instances, judgements, terms.spec, ("L0", "L1", "L2", "L3"))
    return {"reached": found.reached, "red": found.first_red, **{one.name: one for one in found.levels}}


def clauses_of(level: str) -> list[str]:
    return [clause.id for clause in load_spec().clauses.values() if clause.level == level]


def test_a_level_is_passed_when_every_clause_was_tested_and_nothing_blocks() -> None:
    good = outcome(observations={"one": 1})
    everything = [(clause, good) for level in ("L0", "L1") for clause in clauses_of(level)]
    found = rungs(*everything)
    assert found["reached"] == "L1"
    assert [found[level].state for level in ("L0", "L1", "L2", "L4")] == [
        Rung.PASSED,
        Rung.PASSED,
        Rung.INCOMPLETE,
        Rung.NOT_RUN,
    ]
    without_one = rungs(*everything[1:])
    assert (without_one["reached"], without_one["L0"].state) == ("", Rung.INCOMPLETE)
    assert without_one["L0"].untested == (everything[0][0],)
    one_bad = rungs(*everything[:-1], (everything[-1][0], outcome(observations={"one": 2})))
    assert (one_bad["reached"], one_bad["L1"].state, one_bad["red"].name) == ("L0", Rung.FAILED, "L1")
    skipped = outcome(End.SKIPPED, detail={"reason": "machine", "why": "none is here"})
    terms = replace(TERMS, skips=(ExpectedSkip("plant/*", SkipReason.MACHINE, "None is here."),))
    some = rungs(*everything[:-1], (everything[-1][0], skipped), terms=terms)
    assert (some["reached"], some["L1"].state) == ("L1", Rung.PASSED)
    all_of_it = [(clause, good if clause in clauses_of("L0") else skipped) for clause, _ in everything]
    assert rungs(*all_of_it, terms=terms)["L1"].state is Rung.INCOMPLETE
    not_run = rungs(*everything[:-1], (everything[-1][0], None))
    assert (not_run["reached"], not_run["L1"].state) == ("L0", Rung.INCOMPLETE)


def test_what_is_inconclusive_keeps_a_level_open_and_fails_none() -> None:
    instances, judgements = [], {}
    for name, verdicts in {"doubts": {"L3": Verdict.INCONCLUSIVE}, "both": {"L2": Verdict.INCONCLUSIVE}}.items():
        (level,) = verdicts
        clause = clauses_of(level)[0]
        one = planted(both, clauses=(clause,))
        one = replace(one, case=replace(one.case, name=f"plant/{name}", level=level))
        instances.append(one)
        judgements[one.id] = Judgement(
            one.id, verdicts[level], "no twin", clauses={clause: verdicts[level]}, blocks=True
        )
    found = ladder(instances, judgements, TERMS.spec)
    levels = {one.name: one for one in found.levels}
    assert (levels["L2"].state, levels["L3"].state) == (Rung.INCOMPLETE, Rung.INCOMPLETE)
    assert (found.reached, found.first_red) == ("", None)
    assert found.first_open is levels["L2"]
    assert levels["L2"].waits_for == "1 INCONCLUSIVE"
    assert found.clauses[clauses_of("L2")[0]] is Verdict.INCONCLUSIVE
    assert clauses_of("L2")[0] not in levels["L2"].untested


@given(st.booleans(), st.sets(st.sampled_from([one for one in Verdict if one not in ACCEPTED])), st.booleans())
def test_how_a_level_stands(asked: bool, blocking: set[Verdict], waiting: bool) -> None:
    state = state_of(asked, blocking, waiting)
    assert (state is Rung.NOT_RUN) is not asked
    if asked:
        assert (state is Rung.PASSED) is (not blocking and not waiting)
        assert (state is Rung.FAILED) is bool(blocking - {Verdict.INCONCLUSIVE, Verdict.NOT_TESTED})
    assert not OPEN & ACCEPTED


# ---- observations


@pytest.mark.parametrize(
    "value",
    [None, True, 7, -1, 1.5, "x", [1, [2]], {"a": {"b": []}}, 2**80],
)
def test_plain_values_come_back(value: Any) -> None:
    assert decode(encode(value)) == value


@given(
    st.sampled_from(["<u1", "<u2", "<u4", "<u8", "<i8", "<f8", "|b1", ">u4"]), st.lists(st.integers(0, 3), max_size=3)
)
def test_arrays_come_back_with_dtype_and_shape(dtype: str, shape: list[int]) -> None:
    count = int(np.prod(shape))
    array = np.arange(count).astype(dtype).reshape(shape)
    back = decode(encode({"a": array}))["a"]
    if not shape:
        assert back == array.item()
        return
    assert back.shape == array.shape
    assert back.dtype == array.dtype.newbyteorder("<")
    assert (back == array).all()


def test_bytes_and_enums_and_scalars_are_plain() -> None:
    assert encode(b"\x01\xff") == "01ff"
    assert encode(Verdict.FAIL) == "FAIL"
    assert encode(np.uint64(2**63)) == 2**63
    assert encode((1, 2)) == [1, 2]


@pytest.mark.parametrize("value", [object(), {1: 2}, {"a": {3}}, np.array([object()]), lambda: 0])
def test_what_is_no_data_is_refused_with_its_place(value: object) -> None:
    with pytest.raises(ObservationInvalid, match=r"observations\.x"):
        encode({"x": value})


# ---- the checks


def seen(**observations: Any) -> Seen:
    return Seen(observations, {}, 1, FACTS, (ONE,))


@pytest.mark.parametrize(
    ("found", "wanted", "held"),
    [
        (1, 1, True),
        (1, 2, False),
        (True, 1, False),
        (1, True, False),
        ([1, 2], [1, 2], True),
        ([1, 2], [2, 1], False),
        (np.arange(3), np.arange(3), True),
        (np.arange(3), np.arange(4), False),
        (np.arange(3), [0, 1, 2], True),
        (np.zeros((2, 2)), np.zeros(4), False),
        (np.array([1, 2]), np.array([1, 3]), False),
        ("a", "a", True),
        ({"a": 1}, {"a": 1}, True),
    ],
)
def test_equal_compares_values_shapes_and_truth(found: Any, wanted: Any, held: bool) -> None:
    one = seen()
    one.equal(ONE, "x", found, wanted)
    assert [check.held for check in one.checks] == [held]
    assert all(check.examined > 0 for check in one.checks)


def test_equal_names_the_first_that_differ() -> None:
    one = seen()
    one.equal(ONE, "x", np.array([1, 9, 9]), np.array([1, 2, 3]))
    assert "[1]=9" in one.checks[0].found
    assert "[1]=2" in one.checks[0].wanted


@pytest.mark.parametrize(
    ("found", "held"),
    [
        ({"refused": True, "error": "BadHandle", "canonical": "InvalidResourceHandle"}, True),
        ({"refused": True, "error": "BadHandle", "canonical": "InvalidValue"}, False),
        ({"refused": True, "error": "InvalidArgument", "canonical": "InvalidResourceHandle"}, False),
        ({"refused": False}, False),
        ({}, False),
    ],
)
def test_a_refusal_has_class_and_canonical_name(found: dict[str, Any], held: bool) -> None:
    one = seen()
    one.refused(ONE, "x", found, "BadHandle", "InvalidResourceHandle")
    assert one.checks[0].held is held


# ---- cases and instances


def test_ids_are_queries_with_the_arch_first() -> None:
    @case("plant/axes", level="L3", clauses=(ONE,), axes={"bits": (32, 64), "wait": (True,), "op": ("add", "or")})
    def observe(run: Run) -> dict[str, Any]:
        """Planted."""
        return {}

    ids = [Instance(one.case, one.axes, "a1").id for one in observe.instances()]
    assert ids[0] == "plant/axes:arch=a1,bits=32,wait=true,op=add"
    assert len(set(ids)) == 4
    seeds = [one.seed(base) for one, base in itertools.product(observe.instances(), (1, 2))]
    assert len(set(seeds)) == 8
    assert all(0 <= one < 2**63 for one in seeds)


@pytest.mark.parametrize(
    "wrong",
    [
        {"name": "noslash"},
        {"name": "a/B"},
        {"clauses": ()},
        {"axes": {"arch": (1,)}},
        {"axes": {"a": ()}},
        {"axes": {"a": ("x y",)}},
        {"axes": {"a": ("x,y",)}},
    ],
)
def test_a_case_that_is_not_well_formed_is_refused(wrong: dict[str, Any]) -> None:
    fields: dict[str, Any] = {"name": "plant/x", "level": "L3", "clauses": (ONE,), **wrong}
    with pytest.raises(ValueError, match=r"case|clause|axis"):
        case(fields.pop("name"), **fields)(lambda run: {})


def test_a_case_says_what_it_shows() -> None:
    with pytest.raises(ValueError, match="does not say"):
        case("plant/x", level="L3", clauses=(ONE,))(lambda run: {})

"""From a raw outcome to a verdict: one pure function, used by the run and by whoever verifies it."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from typing import Any

from tutti_hal.conformance_tests.case import Instance
from tutti_hal.conformance_tests.observation import decode
from tutti_hal.conformance_tests.outcome import End, Outcome
from tutti_hal.conformance_tests.seen import Check, Facts, Seen
from tutti_hal.conformance_tests.terms import Plan, Terms, Waiver, plan
from tutti_hal.conformance_tests.verdict import ACCEPTED, DECLARED_REASONS, SkipReason, Verdict, worst

#: Makes the judgement of a whole instance: verdict, reason, skip code, whether it blocks.
Whole = Callable[..., "Judgement"]

#: Where a worker was when it was killed or died, beside the case itself.
_PHASES = {"compile": " before the case began", "exit": " after the case, when the worker was to leave"}


@dataclass(frozen=True)
class Judgement:
    """The verdict of an instance, and how it came about.

    Attributes:
        id: of the instance.
        verdict: worst wins.
        reason: why it is not a pass, in a sentence; empty for a pass.
        code: for a skip, the reason's code.
        clauses: clause -> verdict, for each clause that the instance tests.
        checks: what was judged.
        waived: for WAIVED, the verdict that is waived.
        waiver: where that waiver was read from.
        blocks: whether its level cannot be passed with it.
    """

    id: str
    verdict: Verdict
    reason: str = ""
    code: str = ""
    clauses: Mapping[str, Verdict] = field(default_factory=dict)
    checks: tuple[Check, ...] = ()
    waived: Verdict | None = None
    waiver: str = ""
    blocks: bool = False

    @property
    def examined(self) -> int:
        """How many values were compared."""
        return sum(check.examined for check in self.checks)

    def to_json(self) -> dict[str, Any]:
        """As one line of ``verdicts.jsonl`` holds it."""
        failed = [
            {"clause": c.clause, "what": c.what, "found": c.found, "wanted": c.wanted}
            for c in self.checks
            if not c.held
        ]
        return {
            "id": self.id,
            "verdict": self.verdict.value,
            "reason": self.reason,
            "code": self.code,
            "clauses": {clause: verdict.value for clause, verdict in self.clauses.items()},
            "checks": len(self.checks),
            "examined": self.examined,
            "failed": failed,
            "waived": self.waived.value if self.waived else "",
            "waiver": self.waiver,
            "blocks": self.blocks,
        }


def judge(instance: Instance, outcome: Outcome | None, facts: Facts, terms: Terms) -> Judgement:
    """The verdict of an instance.

    Args:
        instance: what was to be run.
        outcome: how it ended; None where there is no record of it.
        facts: of its arch.
        terms: what is declared, allowed and waived.

    Raises:
        Nothing: whatever a judge raises is the verdict ERROR.
    """
    planned = plan(instance, facts, terms)
    found = _unwaived(instance, outcome, facts, terms, planned)
    if found.verdict in ACCEPTED:
        return found
    failed = [c for c, verdict in found.clauses.items() if verdict not in ACCEPTED]
    waiver = _waiver(instance, failed, facts, terms)
    if waiver is None:
        return found
    clauses = {c: Verdict.WAIVED if v not in ACCEPTED else v for c, v in found.clauses.items()}
    reason = f"{waiver.reason} (waived until {waiver.expires}; was {found.verdict}: {found.reason})"
    return Judgement(
        found.id, Verdict.WAIVED, reason, found.code, clauses, found.checks, found.verdict, waiver.place, False
    )


def _unwaived(instance: Instance, outcome: Outcome | None, facts: Facts, terms: Terms, planned: Plan) -> Judgement:
    def whole(verdict: Verdict, reason: str, code: str = "", blocks: bool = True) -> Judgement:
        return Judgement(instance.id, verdict, reason, code, dict.fromkeys(instance.clauses, verdict), blocks=blocks)

    if planned.lacks:
        return whole(Verdict.FAIL, planned.why)
    if not planned.runs:
        if planned.expected_failure:
            absent = any(not facts.capabilities[name] for name in instance.case.needs)
            return whole(Verdict.XFAIL, planned.why, blocks=not absent)
        assert planned.reason is not None
        return whole(Verdict.SKIP, planned.why, planned.reason, blocks=False)
    if outcome is None or outcome.end is End.NOT_RUN:
        why = str(outcome.detail.get("why", "")) if outcome else ""
        return whole(Verdict.NOT_TESTED, why or "it was not run")
    found = _ended(instance, outcome, facts, terms, whole)
    if planned.expected_failure:
        return _against_expectation(found, terms)
    return found


def _ended(instance: Instance, outcome: Outcome, facts: Facts, terms: Terms, whole: Whole) -> Judgement:
    detail = outcome.detail
    match outcome.end:
        case End.TIMED_OUT:
            limit = f"{detail.get('budget_s', '?')} s{_PHASES.get(str(detail.get('phase')), '')}"
            found = whole(Verdict.TIMEOUT, f"killed after {limit}{_beside(outcome)}")
        case End.LOST:
            found = whole(Verdict.DEVICE_LOST, f"{detail.get('said', 'the device is lost')}{_beside(outcome)}")
        case End.CRASHED:
            how = detail.get("signal") or f"exit code {detail.get('code', '?')}"
            when = _PHASES.get(str(detail.get("phase")), "")
            found = whole(Verdict.FAIL, f"the process died{when}: {how}{_beside(outcome)}")
        case End.REFUSED:
            said = f"{detail.get('id', '')} {detail.get('said', '')}".strip()
            found = whole(Verdict.FAIL, f"an error that the case did not foresee: {said}{_beside(outcome)}")
        case End.RAISED:
            said = f"{detail.get('error', '?')}: {detail.get('said', '')}"
            found = whole(Verdict.ERROR, f"the case raised {said}{_beside(outcome)}")
        case End.SKIPPED:
            found = _skipped(instance, outcome, terms, whole)
        case _:
            found = _observed(instance, outcome, facts)
    strange = _unexpected(outcome)
    if strange and found.verdict in ACCEPTED:
        clauses = dict.fromkeys(found.clauses, Verdict.FAIL)
        reason = f"an unexpected line in the log: {strange[0]}{_beside(outcome)}"
        return Judgement(found.id, Verdict.FAIL, reason, "", clauses, found.checks, blocks=True)
    return found


def _observed(instance: Instance, outcome: Outcome, facts: Facts) -> Judgement:
    clauses = instance.clauses
    judge_of_case = instance.case.judged
    if judge_of_case is None:
        return Judgement(
            instance.id, Verdict.ERROR, "the case has no judge", "", dict.fromkeys(clauses, Verdict.ERROR), blocks=True
        )
    try:
        seen = Seen(decode(dict(outcome.observations), outcome.seed), instance.axes, outcome.seed, facts, clauses)
        judge_of_case(seen)
    except Exception as error:  # whatever a judge does wrong is the suite's fault, and never a pass
        reason = f"the judge raised {type(error).__name__}: {error}"
        return Judgement(instance.id, Verdict.ERROR, reason, "", dict.fromkeys(clauses, Verdict.ERROR), blocks=True)
    per_clause = {clause: _clause_verdict(clause, seen) for clause in clauses}
    verdict = worst(per_clause.values())
    reason = ""
    if verdict is Verdict.FAIL:
        broken = next(check for check in seen.checks if not check.held)
        reason = f"{broken.what}: found {broken.found}, wanted {broken.wanted}{_beside(outcome)}"
    elif verdict is Verdict.ERROR:
        empty = [clause for clause, one in per_clause.items() if one is Verdict.ERROR]
        reason = f"vacuous: nothing was examined for {', '.join(empty)}"
    elif verdict is Verdict.INCONCLUSIVE:
        reason = seen.doubt
    return Judgement(instance.id, verdict, reason, "", per_clause, tuple(seen.checks), blocks=verdict not in ACCEPTED)


def _clause_verdict(clause: str, seen: Seen) -> Verdict:
    checks = [check for check in seen.checks if check.clause == clause]
    if any(not check.held for check in checks):
        return Verdict.FAIL
    if not sum(check.examined for check in checks):
        return Verdict.ERROR
    return Verdict.INCONCLUSIVE if seen.doubt else Verdict.PASS


def _skipped(instance: Instance, outcome: Outcome, terms: Terms, whole: Whole) -> Judgement:
    reason, why = str(outcome.detail.get("reason", "")), str(outcome.detail.get("why", ""))
    if reason in DECLARED_REASONS:
        return whole(Verdict.FAIL, f"it skipped itself for a capability; only the plan may do that ({why})")
    for one in terms.skips:
        if one.reason == reason and fnmatchcase(instance.id, one.cases):
            return whole(Verdict.SKIP, f"{why} ({one.why})", SkipReason(reason), blocks=False)
    return whole(Verdict.FAIL, f"an unexpected skip ({reason}): {why}")


def _unexpected(outcome: Outcome) -> list[str]:
    return [line for line in outcome.log if line.strip() and not any(re.search(p, line) for p in outcome.foreseen)]


def _beside(outcome: Outcome) -> str:
    """What a run alone showed of a failure."""
    alone = outcome.alone
    if not alone or alone.get("failed_alone", True):
        return ""
    if alone.get("failed_again"):
        return f"; ORDER DEPENDENT: it passes alone and fails after {', '.join(alone.get('after', []))}"
    again = ", and when its batch was run again" if alone.get("after") else " again"
    return f"; FLAKY: it passed when it was run alone{again}"


def _against_expectation(found: Judgement, terms: Terms) -> Judgement:
    """An instance that is expected to fail was run: failing only where it was expected is XFAIL, passing is XPASS."""
    listed = terms.expected_failures
    clauses = {
        clause: (Verdict.XPASS if verdict is Verdict.PASS else Verdict.XFAIL) if clause in listed else verdict
        for clause, verdict in found.clauses.items()
    }
    verdict = worst(clauses.values())
    sentence = next(listed[clause] for clause in clauses if clause in listed)
    reasons = {
        Verdict.XPASS: f"it passes; take it off the list of expected failures ({sentence})",
        Verdict.XFAIL: f"{sentence} ({found.reason})",
    }
    return Judgement(found.id, verdict, reasons.get(verdict, found.reason), "", clauses, found.checks, blocks=True)


def _waiver(instance: Instance, failed: Sequence[str], facts: Facts, terms: Terms) -> Waiver | None:
    for waiver in terms.waivers:
        if waiver.expires >= terms.today and waiver.covers(instance, failed, facts.vendor):
            return waiver
    return None

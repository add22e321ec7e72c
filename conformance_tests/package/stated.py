"""What a package of an older product says of itself: whether it agrees with itself, though nobody makes it again."""

from __future__ import annotations

from collections.abc import Mapping
from hashlib import sha256
from typing import Any

from tutti_hal.conformance_tests.ladder import Ladder, Level, Rung, state_of
from tutti_hal.conformance_tests.package import layout
from tutti_hal.conformance_tests.package.findings import Findings, shown
from tutti_hal.conformance_tests.package.parsed import Parsed
from tutti_hal.conformance_tests.package.rederived import line_of
from tutti_hal.conformance_tests.package.staleness import Since
from tutti_hal.conformance_tests.verdict import Verdict, worst
from tutti_hal.spec import Spec
from tutti_hal.spec.tables import LEVELS

Rows = Mapping[str, tuple[int, Mapping[str, Any]]]


def stated_ladder(run: Mapping[str, Any]) -> Ladder:
    """The ladder that ``run.json`` states, without its verdicts."""
    levels = (Level(one["level"], Rung(one["state"]), {}, (), ()) for one in run["ladder"]["levels"])
    return Ladder(tuple(levels), {})


def check_stated(parsed: Parsed, rows: Rows, spec: Spec, since: Since, findings: Findings) -> None:
    """Refuse counts, ladder, sums and lists that do not follow from the package's own verdicts and files.

    Args:
        parsed: its files.
        rows: id -> (line, value) of ``verdicts.jsonl``.
        spec: the contract of today.
        since: what differs from the installed product.
        findings: where refusals go.
    """
    run: dict[str, Any] = parsed.documents[layout.RUN]

    def refuse(key: str, found: Any, wanted: Any) -> None:
        findings.refuse(layout.RUN, line_of(parsed.files[layout.RUN], key), f"{key} {shown(found)}", shown(wanted))

    values = [row for _, row in rows.values()]
    counts = _counts(row["verdict"] for row in values)
    if run["counts"] != counts:
        refuse("counts", run["counts"], counts)
    ladder = run["ladder"]
    if [one["level"] for one in ladder["levels"]] != list(LEVELS):
        refuse("levels", [one["level"] for one in ladder["levels"]], list(LEVELS))
    asked = LEVELS[: LEVELS.index(run["options"]["level"]) + 1]
    for level in ladder["levels"]:
        wanted = _level(level, [row for row in values if row["level"] == level["level"]], asked)
        if _by_the_older_rule(level, wanted, since):
            said = (
                f"{level['level']} was said to have failed, for what is inconclusive; by today's rule it is incomplete"
            )
            findings.remark(f"{layout.RUN}: {said}")
            wanted.pop("state")
        for key, value in wanted.items():
            if level[key] != value:
                refuse(level["level"], f"{key} {shown(level[key])}", value)
    known = stated_ladder(run)
    first = known.first_red.name if known.first_red else ""
    for key, value in (("reached", known.reached), ("first_red", first)):
        if ladder[key] != value:
            refuse(key, ladder[key], value)
    _clauses(parsed, values, spec, since, refuse)
    _raw_files(parsed, refuse)
    _must_pass(parsed, rows, findings)


def _counts(verdicts: Any) -> dict[str, int]:
    found = list(verdicts)
    return {one.value: found.count(one.value) for one in Verdict if one.value in found}


def _level(level: Mapping[str, Any], own: list[Mapping[str, Any]], asked: tuple[str, ...]) -> dict[str, Any]:
    """Counts, blocking instances and state that follow from the verdicts of a level, and from what it left open."""
    blocking = [row for row in own if row["blocks"]]
    counts = _counts(row["verdict"] for row in own)
    shown = sum(counts.get(one.value, 0) for one in (Verdict.PASS, Verdict.WAIVED))
    waiting = bool(level["untested"] or counts.get(Verdict.NOT_TESTED.value) or not shown)
    state = state_of(level["level"] in asked, [Verdict(row["verdict"]) for row in blocking], waiting)
    return {"counts": counts, "blocking": [row["id"] for row in blocking], "state": state.value}


def _by_the_older_rule(level: Mapping[str, Any], wanted: Mapping[str, Any], since: Since) -> bool:
    """Whether a level is said to have failed as was the rule once: what was inconclusive made it *failed*.

    Neither word lets a level pass, so whoever says it falsely gains nothing.
    """
    states = (Rung(level["state"]), Rung(wanted["state"]))
    changed = since.file("conformance_tests/ladder.py")
    return changed and states == (Rung.FAILED, Rung.INCOMPLETE) and Verdict.INCONCLUSIVE.value in wanted["counts"]


def _clauses(parsed: Parsed, values: list[Mapping[str, Any]], spec: Spec, since: Since, refuse: Any) -> None:
    ladder = parsed.documents[layout.RUN]["ladder"]
    found: dict[str, list[Verdict]] = {clause: [] for clause in ladder["clauses"]}
    for row in values:
        for clause, verdict in row["clauses"].items():
            found.setdefault(clause, []).append(Verdict(verdict))
    for clause, verdicts in found.items():
        if ladder["clauses"].get(clause) != (wanted := worst(verdicts).value):
            refuse("clauses", f"{clause} {ladder['clauses'].get(clause)}", wanted)
    open_ = {clause for clause, verdicts in found.items() if worst(verdicts) is Verdict.NOT_TESTED}
    listed = [(level["level"], clause) for level in ladder["levels"] for clause in level["untested"]]
    if sorted(clause for _, clause in listed) != sorted(open_):
        refuse("untested", sorted({clause for _, clause in listed} ^ open_), "the clauses whose verdict is NOT_TESTED")
    for level, clause in listed:
        if clause in spec.clauses and not since.clause(clause) and spec.clauses[clause].level != level:
            refuse("untested", f"{clause} in {level}", f"it is a clause of {spec.clauses[clause].level}")
    if not since.any_of("contract") and {*ladder["clauses"]} != {*spec.clauses}:
        refuse("clauses", sorted({*ladder["clauses"]} ^ {*spec.clauses}), "the clauses of the contract")


def _raw_files(parsed: Parsed, refuse: Any) -> None:
    record = (name for name in parsed.files if name.startswith(f"{layout.RECORD}/"))
    names = [layout.ENVIRONMENT, layout.WAIVERS, layout.PRODUCT, layout.BUILD, *record]
    names += [layout.FIGURES] if layout.FIGURES in parsed.files else []
    stated = parsed.documents[layout.RUN]["raw_files"]
    sums = {name: sha256(parsed.files[name]).hexdigest() for name in names}
    for name in sorted({*stated, *sums}):
        if stated.get(name) != sums.get(name):
            refuse(name, stated.get(name, "nothing"), sums.get(name, "no such file"))


def _must_pass(parsed: Parsed, rows: Rows, findings: Findings) -> None:
    table = parsed.documents.get(layout.MUST_PASS)
    if table is None:
        return

    def refuse(key: str, found: Any, wanted: Any) -> None:
        line = line_of(parsed.files[layout.MUST_PASS], key)
        findings.refuse(layout.MUST_PASS, line, f"{key} {shown(found)}", shown(wanted))

    total = sha256("".join(f"{one}\n" for one in table["expected"]).encode()).hexdigest()
    if table["expected_sha256"] != total:
        refuse("expected_sha256", table["expected_sha256"], total)
    if table["expected"] != list(rows):
        refuse("expected", f"{len(table['expected'])} ids", f"the {len(rows)} of {layout.VERDICTS}, in their order")
    prefix = "conformance_tests/mustpass/"
    files = parsed.documents[layout.PRODUCT]["files"]
    lists = {name.removeprefix(prefix): total for name, total in files.items() if name.startswith(f"{prefix}L")}
    if table["lists"] != lists:
        refuse("lists", table["lists"], f"those of {layout.PRODUCT}")

"""The report: whole, true to its session, self-contained, and safe whatever a run wrote into it."""

from __future__ import annotations

import itertools
import re
from base64 import b64encode
from collections.abc import Callable
from dataclasses import replace
from hashlib import sha256
from pathlib import Path
from typing import Any

import pytest

from tests.conformance.reports import HOSTILE, Element, green, hostile, make, mixed, read
from tutti_hal.conformance_tests.case import Instance
from tutti_hal.conformance_tests.ladder import ladder
from tutti_hal.conformance_tests.outcome import End, Outcome
from tutti_hal.conformance_tests.report import content
from tutti_hal.conformance_tests.report.html import render
from tutti_hal.conformance_tests.report.words import LEVEL_TITLES, NO_CLAUSES, TONES, clean
from tutti_hal.conformance_tests.session import RunOptions, Session, certifies, repro_line
from tutti_hal.conformance_tests.verdict import OPEN, Verdict
from tutti_hal.paths import package_file
from tutti_hal.spec.tables import LEVELS

#: Stands where no case tests a clause.
NONE = "\u2013"


@pytest.fixture(scope="module")
def session() -> Session:
    """A whole run with every verdict in it."""
    return make(mixed)


@pytest.fixture(scope="module")
def page(session: Session) -> Element:
    """Its page."""
    return read(render(session))


@pytest.fixture(scope="module")
def hostile_text() -> str:
    """The page of a hostile run."""
    return render(hostile())


def by_id(page: Element, name: str) -> Element:
    """The element with an id."""
    return page.by_id[name]


def word(verdict: str) -> str:
    """A verdict as the page writes it."""
    return verdict.replace("_", " ")


# ---------------------------------------------------------------- form


SESSIONS: dict[str, Callable[[], Session]] = {
    "green": lambda: make(green),
    "mixed": lambda: make(mixed),
    "hostile": hostile,
    "a shard": lambda: make(green, archs=("sim-w32",), level="L0", shard=(1, 2)),
    "all fail": lambda: make(lambda _: Verdict.FAIL),
    "none run": lambda: make(lambda _: Verdict.NOT_TESTED),
}


@pytest.mark.parametrize("name", SESSIONS)
def test_is_whole_self_contained_and_small(name: str) -> None:
    text = render(SESSIONS[name]())
    # A run in which nothing passed tells of every instance.
    assert len(text.encode()) <= (2_500_000 if name in ("all fail", "none run") else 1_500_000)
    root = read(text)  # every tag balanced, no attribute and no id twice
    assert text.startswith("<!doctype html>")
    ids = set(root.by_id)
    for element in root.all():
        assert element.name not in {"link", "img", "iframe", "object", "embed", "base", "form", "audio", "video"}
        assert not {"src", "srcset", "style", "action", "poster"} & set(element.attributes), element
        assert not [key for key in element.attributes if key.startswith("on")], element
        target = element.attributes.get("href", "")
        assert not target or element.name == "a", element
        assert not target.startswith("#") or target[1:] in ids, f"{target} leads nowhere"
        assert target.startswith(("#", "https://tracker.example/")) or not target, target
        assert "aria-labelledby" not in element.attributes or element.attributes["aria-labelledby"] in ids
    style = root.only("style").text
    assert "url(" not in style
    assert "@import" not in style


def test_landmarks_and_headings_in_order(page: Element) -> None:
    for landmark in ("header", "nav", "main", "footer", "h1", "title"):
        page.only(landmark)
    levels = [int(one.name[1]) for one in page.all() if re.fullmatch("h[1-6]", one.name)]
    assert levels[0] == 1
    assert all(after <= before + 1 for before, after in itertools.pairwise(levels)), levels
    assert page.only("html").attributes["lang"] == "en"
    assert "width=device-width" in page.only("meta", name="viewport").attributes["content"]


def test_tables_say_what_heads_what(page: Element) -> None:
    for table in page.all("table"):
        assert list(table.all("th", scope="col"))
        assert all(one.attributes.get("scope") in {"col", "row"} for one in table.all("th"))
        columns = len(list(table.all("th", scope="col")))
        for row in table.only("tbody").all("tr"):
            assert sum(isinstance(one, Element) for one in row.children) == columns


def test_needs_no_script_and_lets_no_other_run(page: Element) -> None:
    (script,) = page.all("script")
    policy = page.only("meta", **{"http-equiv": "Content-Security-Policy"}).attributes["content"]

    def hashed(text: str) -> str:
        return f"'sha256-{b64encode(sha256(text.encode()).digest()).decode()}'"

    assert "default-src 'none'" in policy
    assert f"script-src {hashed(script.text)}" in policy
    assert f"style-src {hashed(page.only('style').text)}" in policy
    # Controls that do something only with a script are made by it.
    assert not [one for one in page.all() if one.name in {"button", "input", "select"}]
    assert by_id(page, "tools").attributes.get("hidden") == ""


def test_keys_reach_what_a_pointer_reaches(page: Element) -> None:
    """Native elements in the page's order: nothing jumps the queue, nothing is a button without being one."""
    assert {(one.name, one.attributes["tabindex"]) for one in page.all() if "tabindex" in one.attributes} <= {
        ("pre", "0")  # it scrolls
    }
    assert next(page.only("body").all("a")).attributes["href"] == "#ladder"
    for fold in page.all("details"):
        assert next(one for one in fold.children if isinstance(one, Element)).name == "summary"
    assert not [one for one in page.all() if one.attributes.get("role") in {"button", "link", "tab"}]
    style = page.only("style").text
    assert ":focus-visible { outline: 2px solid" in style
    assert "outline: none" not in style


def test_colours_have_contrast() -> None:
    style = package_file("conformance_tests", "report", "style.css").read_text(encoding="utf-8")
    blocks = [
        dict(re.findall(r"--(\w+): (#[0-9a-f]{6})", block)) for block in re.findall(r":root \{(.*?)\}", style, re.S)
    ]
    assert len(blocks) == 2

    def luminance(colour: str) -> float:
        parts = [int(colour[i : i + 2], 16) / 255 for i in (1, 3, 5)]
        r, g, b = (part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4 for part in parts)
        return 0.2126 * r + 0.7152 * g + 0.0722 * b

    for colours in blocks:
        for ink in {"ink", "soft", "link", "focus", *(TONES.values())}:
            for paper in ("paper", "raised"):
                pair = sorted((luminance(colours[ink]), luminance(colours[paper])))
                assert (pair[1] + 0.05) / (pair[0] + 0.05) >= 4.5, (ink, paper, colours[ink])


def test_every_tone_has_a_shape_and_a_colour() -> None:
    style = package_file("conformance_tests", "report", "style.css").read_text(encoding="utf-8")
    shapes = {
        tone: re.search(rf"\.v\.{tone}::before {{ content: \"(.)\" / \"\"", style) for tone in set(TONES.values())
    }
    found = [shape.group(1) for tone, shape in shapes.items() if shape is not None]
    assert {tone for tone, shape in shapes.items() if shape is None} == {"skip"}  # the plain one
    assert len(set(found)) == len(found)
    assert set(TONES) >= set(Verdict)


# ---------------------------------------------------------------- contents


def test_head_says_what_it_is(session: Session, page: Element) -> None:
    header = page.only("header").words
    assert "host" in page.only("h1").words
    assert "emulated" in page.only("h1").words
    assert all(arch in header for arch in session.options.archs)
    assert certifies(session).lower() in header.lower()
    sections = list(page.only("main").all("section"))
    assert sections[0].attributes["id"] == "ladder"


def _skipped(session: Session, clause: str) -> bool:
    """Whether a clause has instances, and none of them was run for a reason that is allowed."""
    own = [one.id for one in session.instances if clause in one.clauses]
    verdicts = {session.judgements[one].verdict.value for one in own}
    return (
        bool(own)
        and verdicts <= {"SKIP", "XFAIL"}
        and not any(session.judgements[one].verdict.value == "XFAIL" and one in session.outcomes for one in own)
    )


def test_a_clause_that_was_skipped_everywhere_is_not_counted_as_tested() -> None:
    told = make(lambda one: Verdict.SKIP if one.case.needs else Verdict.PASS, archs=("sim-w32",))
    page = read(render(told))
    clauses = told.terms.spec.clauses.values()
    skipped = {f"L{n}": sum(_skipped(told, one.id) for one in clauses if one.level == f"L{n}") for n in range(4)}
    assert skipped["L2"] > 0
    for level, number in skipped.items():
        cells = [one for one in by_id(page, f"level-{level}").children if isinstance(one, Element)]
        assert cells[3].words.endswith(f", {number} skipped") is bool(number), (level, cells[3].words)


def test_ladder_counts_are_the_ladders(session: Session, page: Element) -> None:
    for level in session.ladder.levels:
        row = by_id(page, f"level-{level.name}")
        cells = [one for one in row.children if isinstance(one, Element)]
        assert level.name in cells[0].words
        assert cells[1].words.startswith(level.state.value)
        found = dict(reversed(pair) for pair in re.findall(r"(\d+) ([A-Z]+(?: [A-Z]+)?)", cells[2].words))
        assert found == {word(verdict): str(number) for verdict, number in level.counts.items() if number}
        clauses = sum(clause.level == level.name for clause in session.terms.spec.clauses.values())
        skipped = sum(
            _skipped(session, clause.id) for clause in session.terms.spec.clauses.values() if clause.level == level.name
        )
        words = f"{clauses - len(level.untested) - skipped} of {clauses}"
        assert cells[3].words == words + (f", {skipped} skipped" if skipped else "")
    first = session.ladder.first_red
    assert first is not None
    assert [one.attributes["id"] for one in by_id(page, "ladder").all("tr", cls="first")] == [f"level-{first.name}"]
    listed = by_id(page, "ladder").words
    assert all(clause in listed for level in session.ladder.levels for clause in level.untested)


def test_every_blocking_judgement_has_its_repro_line(session: Session, page: Element) -> None:
    sections = {False: by_id(page, "failures"), True: by_id(page, "open")}
    codes = [one.text for section in sections.values() for one in section.all("code")]
    instances = {one.id: one for one in session.instances}
    assert len(session.blocking) > 20
    for number, judgement in enumerate(session.blocking, 1):
        told = by_id(page, f"f-{number}")
        assert told in list(sections[judgement.verdict in OPEN].all()), judgement
        own = [one.text for one in told.all("code")]
        assert judgement.id in own
        assert repro_line(session.options, instances[judgement.id]) in own
        assert word(judgement.verdict) in told.words
        assert judgement.reason in told.words
    assert "=" in "".join(codes)
    told_ids = {
        one.attributes["id"]
        for section in sections.values()
        for one in section.all()
        if re.fullmatch(r"f-\d+", one.attributes.get("id", ""))
    }
    assert len(told_ids) == len(session.blocking)


def test_what_is_inconclusive_is_open_and_no_failure() -> None:
    session = make(lambda one: Verdict.INCONCLUSIVE if one.case.level == "L4" else Verdict.PASS)
    root = read(render(session))
    assert "None: nothing failed." in by_id(root, "failures").words
    number = len(session.blocking)
    assert number > 20
    assert len(list(by_id(root, "open").all("li"))) == number
    assert f"Open {number}" in root.only("nav").words
    assert by_id(root, "level-L4").words.count("incomplete") == 1
    assert not list(root.all("tr", cls="first"))
    told = by_id(root, "ladder").words
    assert "L4 is incomplete" in told
    assert f"{number} cases of L4 are inconclusive." in told


def test_a_failure_tells_checks_log_and_how_it_was_alone(session: Session, page: Element) -> None:
    number, judgement = next((n, one) for n, one in enumerate(session.blocking, 1) if one.verdict is Verdict.FAIL)
    told = by_id(page, f"f-{number}")
    rows = [
        [cell.words for cell in row.children if isinstance(cell, Element)]
        for row in told.only("table").only("tbody").all("tr")
    ]
    failed = [check for check in judgement.checks if not check.held][:8]
    assert rows == [[check.clause, check.what, check.found, check.wanted] for check in failed]
    assert "a line of the log" in told.only("pre").text
    assert "Order dependent: it passes alone, and fails after prim/other." in told.words


def test_every_clause_stands_with_its_verdict(session: Session, page: Element) -> None:
    matrix = by_id(page, "clauses")
    for clause in session.terms.spec.clauses.values():
        row = by_id(page, f"c-{clause.id}")
        assert clause.text in row.words
        verdict = session.ladder.clauses[clause.id]
        assert row.only("td", cls="worst").words == word(verdict)
        own = [one for one in session.instances if clause.id in one.clauses]
        for arch in session.options.archs:
            found = [session.judgements[one.id].clauses[clause.id] for one in own if one.arch == arch]
            wanted = word(min(found, key=list(Verdict).index)) if found else NONE
            assert row.only("td", **{"data-label": arch}).words == wanted
        names = {one.case.name for one in own}
        assert names <= {code.text for code in row.all("code")}
    assert len(list(matrix.all("details", cls="level"))) == len({c.level for c in session.terms.spec.clauses.values()})


def test_coverage_is_summed_up_and_what_was_not_tested_has_its_reason(session: Session, page: Element) -> None:
    clauses = session.terms.spec.clauses
    untested = [one for one, verdict in session.ladder.clauses.items() if verdict is Verdict.NOT_TESTED]
    skipped = sum(_skipped(session, one) for one in clauses)
    told = by_id(page, "clauses").words
    assert untested
    tested = len(clauses) - skipped - len(untested)
    said = f"Of {len(clauses)} clauses of the contract {tested} were tested, {skipped} skipped on every arch"
    assert f"{said}, {len(untested)} not tested." in told
    for clause in clauses:
        why = list(by_id(page, f"c-{clause}").all("span", cls="why"))
        assert len(why) == (clause in untested)
        assert not why or why[0].words == "Not tested: it is NOT_TESTED for a reason"


@pytest.mark.parametrize(
    ("options", "clause", "why"),
    [
        ({"level": "L2"}, "prim.crc.check_value", "the run ended at L2; "),
        ({"level": "L3", "cases": ("prim/none*",)}, "prim.crc.check_value", "the run was a part of the suite; "),
        ({"level": "L3"}, "prim.crc.check_value", "on these archs it has no instance; "),
    ],
)
def test_why_nothing_tested_a_clause(options: dict[str, Any], clause: str, why: str) -> None:
    whole = make(green, archs=("sim-w32",), **options)
    kept = tuple(one for one in whole.instances if clause not in one.clauses)
    judgements = {one.id: whole.judgements[one.id] for one in kept}
    found = ladder(kept, judgements, whole.terms.spec, whole.options.levels)
    page = read(render(replace(whole, instances=kept, judgements=judgements, ladder=found)))
    told = by_id(page, f"c-{clause}").only("span", cls="why").words
    assert told.startswith(f"Not tested: {why}")
    assert "prim/crc32c" in told
    assert told.endswith("would test it")


def test_a_level_without_a_clause_says_why(page: Element) -> None:
    for level, why in NO_CLAUSES.items():
        assert why in by_id(page, f"level-{level}").words


def test_skips_expected_failures_and_waivers_stand_apart(session: Session, page: Element) -> None:
    for section, verdict in (("skips", Verdict.SKIP), ("expected", Verdict.XFAIL)):
        told = by_id(page, section)
        numbers = [int(one.words) for one in told.all("td", **{"data-label": "number"})]
        wanted = [one for one in session.judgements.values() if one.verdict is verdict]
        assert sum(numbers) == len(wanted) > 0
    assert "capability" in by_id(page, "skips").words
    told = by_id(page, "waivers")
    for waiver in session.terms.waivers:
        assert waiver.reason in told.words
        assert str(waiver.expires) in told.words
        assert waiver.approver in told.words
        assert waiver.link in {one.attributes["href"] for one in told.all("a")}
    waived = [one for one in session.judgements.values() if one.verdict is Verdict.WAIVED]
    codes = {one.text for one in told.all("code")}
    assert waived
    assert all(one.id in codes for one in waived)
    assert "expired 2026-02-28" in told.words
    assert "It covers nothing in this run." in told.words


def test_run_and_environment(session: Session, page: Element) -> None:
    run = by_id(page, "run").words
    for name in ("archs", "seed", "quick", "verify_xfail", "machine", "must-pass lists"):
        assert name in run
    assert len(re.findall(r"\b[0-9a-f]{64}\b", run)) == 3
    assert "16.0 GiB" in by_id(page, "environment").words
    slow = [float(one.words) for one in by_id(page, "slowest").all("td", **{"data-label": "seconds"})]
    assert slow == sorted(slow, reverse=True)
    assert slow[0] == round(max(one.seconds for one in session.outcomes.values()), 2)


def test_a_green_run_says_so() -> None:
    session = make(green, level="L2")
    root = read(render(session))
    assert "None: nothing blocks a level." in by_id(root, "failures").words
    assert not list(root.all("tr", cls="first"))
    assert by_id(root, "level-L8").words.find("not run") > 0


@pytest.mark.parametrize(
    ("change", "mark"),
    [
        ({"quick": True}, "quick"),
        ({"cases": ("prim/*",)}, "selection"),
        ({"shard": (2, 3)}, "shard 2 of 3"),
        ({"ablation": "no-ballot"}, "ablated: no-ballot"),
        ({"record": "/some/record"}, "other record"),
        ({"templates": "/some/templates"}, "other templates"),
        ({"controller": "late"}, "mutated: late"),
        ({"verify_xfail": True}, "xfail verified"),
    ],
)
def test_a_run_that_certifies_nothing_is_marked(change: dict[str, object], mark: str) -> None:
    base = make(green, archs=("sim-w32",), level="L0")

    def marked(options: RunOptions) -> list[str]:
        root = read(render(replace(base, options=options)))
        return [one.only("strong").words for one in root.all("ul", cls="marks") for one in one.all("li")]

    own = {key: value for key, value in change.items() if hasattr(base.options, key)}
    subject = replace(base.options.subject, **{k: v for k, v in change.items() if k not in own})  # type: ignore[arg-type]
    assert marked(base.options) == []
    assert marked(replace(base.options, subject=subject, **own)) == [mark]  # type: ignore[arg-type]


def test_flaky_and_not_run_again_are_said() -> None:
    session = make(lambda one: Verdict.FAIL if one.case.name == "identity/device" else Verdict.PASS, level="L0")
    (first, *_) = session.blocking

    def told(alone: dict[str, object] | None) -> str:
        outcome = Outcome(first.id, 1, End.OBSERVED, alone=alone)
        changed = replace(session, outcomes={**session.outcomes, first.id: outcome})
        return by_id(read(render(changed)), "f-1").words

    assert "Flaky: it passed when it was run alone." in told({"failed_alone": False, "after": []})
    assert "and when its batch was run again" in told({"failed_alone": False, "failed_again": False, "after": ["x"]})
    assert "run again alone in a fresh worker, and failed again" in told({"failed_alone": True})
    assert "Not all was run again: too many." in told({"left_out": "too many"})
    assert "run again" not in told(None)


def test_many_failures_are_told_shortly_after_the_first() -> None:
    session = make(lambda _: Verdict.FAIL)
    root = read(render(session))
    assert len(session.blocking) > content.FULL_FAILURES
    assert len(list(root.all("article", cls="failure"))) == content.FULL_FAILURES
    codes = {one.text for one in by_id(root, "failures").all("code")}
    assert all(repro_line(session.options, one) in codes for one in session.instances)


# ---------------------------------------------------------------- safety


def test_hostile_text_stays_text(hostile_text: str) -> None:
    root = read(hostile_text)
    assert len(list(root.all("script"))) == 1
    assert not list(root.all("img"))
    assert "alert(" not in root.only("script").text
    assert not [one for one in root.all("a") if one.attributes["href"].startswith("javascript")]
    for section in ("failures", "waivers", "run", "environment"):
        assert clean(HOSTILE) in by_id(root, section).text, section
    assert not set("\x1b\u202e\ud800") & set(hostile_text)
    assert r"\x1b[31m\u202e\ud800" in hostile_text
    hostile_text.encode("utf-8")


def test_is_a_function_of_the_session(session: Session) -> None:
    assert render(session) == render(replace(session))
    moved = tuple(
        Instance(replace(one.case, source="/elsewhere.py:1"), one.axes, one.arch) for one in session.instances
    )
    assert render(session) == render(replace(session, instances=moved))


def test_every_level_has_a_title() -> None:
    assert tuple(LEVEL_TITLES) == LEVELS
    text = Path(package_file("conformance_tests", "report", "page.html.j2")).read_text(encoding="utf-8")
    assert "|safe" not in text.replace(" ", "")

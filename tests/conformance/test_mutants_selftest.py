"""The self-test on planted mutants and cases: killed, surviving, equivalent, stillborn, hanging, not covered."""

from __future__ import annotations

import hashlib
import shutil
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import yaml

from tutti_hal.conformance_tests.errors import BaselineRed
from tutti_hal.conformance_tests.mutants.mutant import Mutant, Operator, Source
from tutti_hal.conformance_tests.mutants.score import Result, Score, State
from tutti_hal.conformance_tests.mutants.selftest import self_test, sensitive_archs
from tutti_hal.conformance_tests.mutants.tables import load_tables
from tutti_hal.conformance_tests.session import RunOptions
from tutti_hal.conformance_tests.subject import SubjectSpec, facts_of, profile_of
from tutti_hal.conformance_tests.terms import Terms
from tutti_hal.paths import templates_dir
from tutti_hal.spec import load_spec

pytestmark = pytest.mark.suite

KERNEL = """\
{# SPDX-License-Identifier: GPL-2.0-only -#}
{% call kernel("planted", [("out", "tt_word32 *"), ("n", "uint32_t")]) %}
tt_store_relaxed_sys_u32(&out[0], n + 40);
tt_store_relaxed_sys_u32(&out[1], n);
tt_store_relaxed_sys_u32(&out[2], n & 1);
{% endcall %}
"""

CASES = '''
import numpy as np
from tutti_hal.conformance_tests.case import case

KERNELS = ("planted",)

def look(run):
    out = run.buffer(16)
    run.launch(run.kernel("planted", "planted"), 1, 1, out, 3)
    return run.read(out, np.uint32)

@case("planted/sum", level="L3", clauses=("prim.store.single_copy",), kernels=KERNELS)
def planted_sum(run):
    """The kernel adds."""
    return {"sum": int(look(run)[0])}

@planted_sum.judge
def _(seen):
    seen.equal("prim.store.single_copy", "sum", seen["sum"], 43)

@case("planted/waits", level="L3", clauses=("prim.store.single_copy",), kernels=KERNELS, budget_s=3.0)
def planted_waits(run):
    """It waits for a word without a limit, as no case should."""
    while look(run)[2] != 1:
        pass
    return {"word": 1}

@planted_waits.judge
def _(seen):
    seen.equal("prim.store.single_copy", "word", seen["word"], 1)

@case("planted/blind", level="L3", clauses=("prim.store.single_copy",), kernels=KERNELS)
def planted_blind(run):
    """It looks and sees nothing."""
    look(run)
    return {"one": 1}

@planted_blind.judge
def _(seen):
    seen.equal("prim.store.single_copy", "one", seen["one"], 1)

SLOW = []

@case("planted/once", level="L3", clauses=("prim.store.single_copy",), kernels=KERNELS)
def planted_once(run):
    """It fails the first time that the second word is not what it was, and not again."""
    seen = bool(look(run)[1] == 3 or SLOW)
    SLOW.append(1)
    return {"seen": seen}

@planted_once.judge
def _(seen):
    seen.equal("prim.store.single_copy", "seen", seen["seen"], True)

@case("planted/stumbles", level="L3", clauses=("prim.store.single_copy",), kernels=KERNELS)
def planted_stumbles(run):
    """Its judge cannot cope with a second word that is not what it was."""
    return {"left": [1][: int(look(run)[1]) - 2]}

@planted_stumbles.judge
def _(seen):
    seen.equal("prim.store.single_copy", "left", seen["left"][0], 1)

@case("planted/wrong", level="L3", clauses=("prim.store.single_copy",), kernels=KERNELS)
def planted_wrong(run):
    """It fails with the product itself."""
    return {"sum": int(look(run)[0])}

@planted_wrong.judge
def _(seen):
    seen.equal("prim.store.single_copy", "sum", seen["sum"], 44)
'''


#: name -> pattern, what stands there instead, the case that must notice.
HAND_MADE = {
    "seen": ("n \\+ 40", "n + 41", "planted/sum"),
    "unseen": ("out\\[1\\], n", "out[1], n + 1", "planted/blind*"),
    "once": ("out\\[1\\], n", "out[1], n + 2", "planted/once"),
    "hangs": ("n & 1", "n & 2", "planted/waits"),
    "broken": ("&out\\[1\\]", "&no_such_word", "planted/sum"),
    "equal": ("n \\+ 40", "40 + n", "planted/sum"),
    "listed": ("n \\+ 40", "n + 39", "planted/sum"),
    "red": ("n \\+ 40", "n + 42", "planted/wrong"),
    "stumbles": ("out\\[1\\], n", "out[1], n - 1", "planted/stumbles"),
    "open": ("out\\[1\\], n", "out[1], n + 3", "planted/blind*"),
    "closed": ("n \\+ 40", "n + 38", "planted/sum"),
}
EQUIVALENTS = {"hand/equal": "The sum is the same.", "hand/listed": "It is not, and somebody says so."}


SURVIVORS = {"hand/open": "A case for the second word is missing.", "hand/closed": "There is one by now."}


class Planted:
    """A product with one kernel, cases for it, and tables of its own."""

    def __init__(self, folder: Path) -> None:
        self.root = folder / "templates"
        shutil.copytree(templates_dir(), self.root)
        self.kernel = self.root / "kernels" / "planted.cu.j2"
        self.kernel.write_text(KERNEL, encoding="utf-8")
        self.cases = folder / "case_planted.py"
        self.cases.write_text(CASES, encoding="utf-8")
        self.tables = folder / "tables"
        self.tables.mkdir()
        self.write("registry", mutants={name: self.entry(*row) for name, row in HAND_MADE.items()})
        self.write("equivalents", equivalents=EQUIVALENTS)
        self.write("survivors", survivors=SURVIVORS)
        self.aim("planted/sum")

    @staticmethod
    def entry(pattern: str, instead: str, cases: str) -> dict[str, object]:
        """An entry of the registry."""
        file = "kernels/planted.cu.j2"
        return {"file": file, "pattern": pattern, "instead": instead, "about": "It is planted.", "cases": [cases]}

    def write(self, table: str, **content: object) -> None:
        """Write a table."""
        text = yaml.safe_dump({"version": 1, **content})
        (self.tables / f"{table}.yaml").write_text(text, encoding="utf-8")

    def aim(self, *cases: str, awaits: str = "") -> None:
        """Aim the kernel's mutants at cases; at nothing where there are none and no level is awaited."""
        row = {"places": ["kernels/planted*"], "cases": list(cases), "awaits": awaits}
        aimed = [row] if cases or awaits else []
        self.write("targets", templates=["kernels/planted*"], constants={}, tuning={}, targets=aimed)

    def run(self, chosen: Callable[[Mutant], bool], **more: Any) -> Score:
        """The self-test of the chosen mutants."""
        subject = SubjectSpec("host", templates=str(self.root), cases=(str(self.cases),))
        return self_test(
            RunOptions(subject, ("sim-w32",), jobs=2),
            terms=Terms(load_spec()),
            tables=load_tables(self.tables),
            chosen=chosen,
            **more,
        )


@pytest.fixture
def planted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Planted:
    monkeypatch.setenv("TUTTI_CACHE_DIR", str(tmp_path / "cache"))
    return Planted(tmp_path)


@pytest.mark.slow
def test_each_mutant_ends_as_it_should(planted: Planted, tmp_path: Path) -> None:
    product = hashlib.sha256(planted.kernel.read_bytes()).hexdigest()
    heard: list[Result] = []
    score = planted.run(lambda one: one.id.startswith("hand/") and one.id != "hand/red", on_mutant=heard.append)
    found = {one.mutant.id.removeprefix("hand/"): one for one in score.tested}
    assert {name: one.state for name, one in found.items()} == {
        "seen": State.KILLED,
        "unseen": State.SURVIVED,
        "once": State.SURVIVED,
        "stumbles": State.SURVIVED,
        "hangs": State.KILLED,
        "broken": State.STILLBORN,
        "equal": State.EQUIVALENT,
        "listed": State.NOT_EQUIVALENT,
        "open": State.KNOWN,
        "closed": State.NOT_SURVIVOR,
    }
    assert (found["seen"].killer, found["seen"].verdict) == ("planted/sum:arch=sim-w32", "FAIL")
    assert "found 44, wanted 43" in found["seen"].reason
    assert found["hangs"].verdict == "TIMEOUT"
    assert (found["unseen"].killer, found["unseen"].tried) == ("", 1)
    assert "planted/stumbles:arch=sim-w32: ERROR" in found["stumbles"].reason
    assert "no_such_word" in found["broken"].reason
    assert found["equal"].reason == EQUIVALENTS["hand/equal"]
    assert {one.mutant.id for one in heard} == {one.mutant.id for one in score.tested}
    assert not score.ok
    # Three of the nine that are not equivalent: what is listed and should not be counts as not killed.
    assert score.summary.startswith("killed 3 of 9 non-equivalent (33.3 %), 1 equivalent, 1 killed by compilation")
    assert "1 survived, as listed, 3 survived, 1 killed, though listed as equivalent" in score.summary
    assert "1 killed, though listed as a survivor" in score.summary
    assert found["open"].reason == SURVIVORS["hand/open"]
    assert score.kills()["planted/waits"] == ["hand/hangs"]
    assert hashlib.sha256(planted.kernel.read_bytes()).hexdigest() == product
    # What mutants are compiled to is theirs: the user's cache has nothing of it.
    assert not (tmp_path / "cache").exists()


def test_a_mutant_without_a_case_is_not_covered_and_one_of_a_level_to_come_is_told_apart(planted: Planted) -> None:
    def dropped(one: Mutant) -> bool:
        return one.source is Source.TEMPLATE and one.operator is Operator.DROP

    planted.aim()
    score = planted.run(dropped)
    assert [one.state for one in score.tested] == [State.NOT_COVERED] * 3
    assert not score.ok
    planted.aim(awaits="L8")
    later = planted.run(dropped)
    assert [one.state for one in later.tested] == [State.NOT_YET] * 3
    assert "killed 0 of 3 non-equivalent (0.0 %), 0 equivalent, 0 killed by compilation, 3 not covered yet (L8)" in (
        later.summary
    )


@pytest.mark.slow
def test_a_product_that_fails_its_own_cases_is_no_baseline(planted: Planted) -> None:
    with pytest.raises(BaselineRed, match="planted/wrong:arch=sim-w32: FAIL"):
        planted.run(lambda one: one.id == "hand/red")


def test_archs_are_one_for_each_width_simulated_first_and_the_widest_second() -> None:
    profile = profile_of(SubjectSpec("host"))
    facts = {arch: facts_of(profile, arch) for arch in profile.record.archs}
    assert sensitive_archs(facts) == ("sim-w32", "sim-w128", "sim-w64")
    plain = {arch: replace(one, simulated=False) for arch, one in facts.items()}
    assert [plain[arch].wave_width for arch in sensitive_archs(plain)] == [32, 128, 64]
    assert sensitive_archs({"threads-w64": facts["threads-w64"]}) == ("threads-w64",)


def _tested(state: State, number: int, killer: str = "") -> Result:
    mutant = Mutant(f"m{number}", Source.TEMPLATE, Operator.DROP, "f", number, "a", "b", "f:g")
    return Result(mutant, state, killer, awaits="L4" if state is State.NOT_YET else "")


def test_the_score_says_its_denominator_and_never_rounds_up_to_all() -> None:
    tested = [_tested(State.KILLED, number, "a/b:arch=c") for number in range(4999)]
    score = Score((*tested, _tested(State.SURVIVED, 5000)), 6000, 7, True)
    assert score.summary == (
        "killed 4999 of 5000 non-equivalent (99.9 %), 0 equivalent, 0 killed by compilation, 1 survived; "
        "sample 5000 of 6000, seed 7"
    )
    good = Score((*tested, _tested(State.EQUIVALENT, 1), _tested(State.NOT_YET, 2)), 5001, 7, False)
    assert good.ok
    # What is listed fails no self-test, and is not counted as killed.
    known = Score((*tested, _tested(State.KNOWN, 5000)), 5000, 7, False)
    assert known.ok
    assert known.summary.startswith("killed 4999 of 5000 non-equivalent (99.9 %)")
    assert not Score((*tested, _tested(State.NOT_SURVIVOR, 1)), 5000, 7, False).ok
    assert "1 equivalent" in good.summary
    assert "1 not covered yet (L4)" in good.summary
    assert "100" not in good.summary
    assert not Score((), 10, 7, True).ok
    assert score.to_json()["states"]["survived"] == 1
    assert score.table().splitlines()[0].startswith("survived")

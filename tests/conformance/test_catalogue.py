"""The catalogue: cases that contradict the contract or one another are refused, all in one go; what globs choose."""

from __future__ import annotations

from pathlib import Path

import pytest

from tutti_hal.conformance_tests.case import Instance
from tutti_hal.conformance_tests.catalogue import catalogue, select
from tutti_hal.conformance_tests.errors import CasesInvalid, CaseUnknown
from tutti_hal.conformance_tests.report.words import NO_CLAUSES
from tutti_hal.conformance_tests.seen import Facts
from tutti_hal.spec import load_spec
from tutti_hal.spec.tables import LEVELS

HEAD = "from tutti_hal.conformance_tests.case import Per, case\n"
GOOD = {"name": "plant/good", "level": "L3", "clauses": ("prim.crc.check_value",)}


def text_of(judged: bool = True, **changes: object) -> str:
    """A case as a file holds it."""
    fields = {**GOOD, **changes}
    name = fields.pop("name")
    options = ", ".join(f"{key}={value!r}" for key, value in fields.items())
    judge = "@one.judge\ndef _(seen):\n    pass\n" if judged else ""
    return f'@case({name!r}, {options})\ndef one(run):\n    """Planted."""\n    return {{}}\n{judge}'


def load(folder: Path, *texts: str) -> None:
    paths = []
    for number, text in enumerate(texts):
        paths.append(folder / f"case_{number}.py")
        paths[-1].write_text(HEAD + text, encoding="utf-8")
    catalogue(tuple(map(str, paths)))


def test_a_good_one_is_taken(tmp_path: Path) -> None:
    load(tmp_path, text_of())


WRONG = {
    "a level that is not there": (text_of(level="L33"), "no level 'L33'"),
    "a clause that is not there": (text_of(clauses=("prim.crc.check_valeu",)), "did you mean 'prim.crc.check_value'"),
    "a level below that of its clauses": (text_of(level="L2"), "its level is L2, that of its clauses L3"),
    "a level above that of its clauses": (text_of(level="L5"), "its level is L5, that of its clauses L3"),
    "a capability that is not there": (text_of(needs=("wave.balot",)), "did you mean 'wave.ballot'"),
    "a function that is not there": (text_of(calls=("StreamQurey",)), "did you mean 'StreamQuery'"),
    "a primitive that is not there": (text_of(primitives=("crc32c.u31",)), "crc32c.u31"),
    "no judge": (text_of(judged=False), "it has no judge"),
    "a name of the suite's own": (text_of(name="prim/crc32c"), "the name is taken by"),
}


@pytest.mark.parametrize("what", WRONG)
def test_one_that_contradicts_is_refused_with_its_place(what: str, tmp_path: Path) -> None:
    text, said = WRONG[what]
    with pytest.raises(CasesInvalid) as refused:
        load(tmp_path, text)
    assert said in str(refused.value)
    assert f"{tmp_path}/case_0.py:" in str(refused.value) or what == "a name of the suite's own"


def test_all_that_is_wrong_is_told_at_once(tmp_path: Path) -> None:
    texts = [text.replace("plant/good", f"plant/n{number}") for number, (text, _) in enumerate(WRONG.values())]
    with pytest.raises(CasesInvalid) as refused:
        load(tmp_path, *texts)
    assert [said for _, said in WRONG.values() if said not in str(refused.value)] == []


def test_every_capability_clause_and_level_of_the_suite_is_the_contracts() -> None:
    """By another way than the catalogue's own check."""
    spec, cases = load_spec(), catalogue().cases
    assert len({case.name for case in cases}) == len(cases) > 150
    for case in cases:
        assert case.level == max(spec.clauses[clause].level for clause in case.clauses), case.name
        assert set(case.needs) <= set(spec.capabilities), case.name
        assert case.judged is not None, case.name


def test_every_clause_has_a_case_and_a_level_without_one_a_reason() -> None:
    claimed, clauses = catalogue().clauses(), load_spec().clauses
    assert [clause for clause in clauses if clause not in claimed] == []
    assert {level for level in LEVELS if level not in {one.level for one in clauses.values()}} == set(NO_CLAUSES)


FACTS = {
    "": Facts("acme", "hardware", "", 0, 0, False, {}, {}),
    **{
        arch: Facts("acme", "hardware", arch, 64, 64, False, dict.fromkeys(load_spec().capabilities, True), {})
        for arch in ("a1", "a2")
    },
}


@pytest.mark.parametrize(
    ("glob", "number"),
    [
        ("prim/crc32c", 2),
        ("prim/crc32c:arch=a1", 1),
        ("prim/crc32c:*", 2),
        ("identity/record", 1),
        ("prim/wave.sync:threads=w", 2),
        ("prim/wave.sync:arch=a2,threads=w", 1),
    ],
)
def test_globs_choose_by_id_by_id_without_arch_and_by_name(glob: str, number: int) -> None:
    assert len(select(catalogue().instances(FACTS), [glob])) == number


def test_a_glob_that_chooses_nothing_is_refused_with_the_near_miss() -> None:
    instances = catalogue().instances(FACTS)
    with pytest.raises(CaseUnknown, match=r"did you mean 'prim/crc32c'"):
        select(instances, ["prim/crc32"])
    with pytest.raises(CaseUnknown):
        select(instances, ["prim/crc32c", "nothing/*"])


def test_what_is_chosen_twice_comes_once_and_in_order() -> None:
    instances = catalogue().instances(FACTS)
    chosen = select(instances, ["prim/w*", "prim/*"])
    assert list(chosen) == [one for one in instances if one.case.name.startswith("prim/")]
    assert all(isinstance(one, Instance) for one in chosen)

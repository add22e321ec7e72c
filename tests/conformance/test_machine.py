"""Lists of expected skips: read strictly, and none of them speaks of a case that does not exist."""

from __future__ import annotations

from fnmatch import fnmatchcase
from pathlib import Path

import pytest

from tutti_hal.conformance_tests.catalogue import catalogue
from tutti_hal.conformance_tests.errors import MachineUnknown
from tutti_hal.conformance_tests.machine import load_machine, machines
from tutti_hal.conformance_tests.subject import SubjectSpec, facts_of, profile_of
from tutti_hal.conformance_tests.terms import ExpectedSkip
from tutti_hal.conformance_tests.verdict import SkipReason
from tutti_hal.errors import SpecError

GOOD = """\
version: 1
title: a machine without a second moon
skips:
  - {cases: "host/peer*", reason: machine, why: There is one device.}
"""


def listed(folder: Path, text: str) -> tuple[ExpectedSkip, ...]:
    (folder / "moonless.yaml").write_text(text, encoding="utf-8")
    return load_machine("moonless", folder)


def test_a_list_is_read(tmp_path: Path) -> None:
    assert listed(tmp_path, GOOD) == (ExpectedSkip("host/peer*", SkipReason.MACHINE, "There is one device."),)


def test_an_unknown_class_names_the_near_miss() -> None:
    with pytest.raises(MachineUnknown, match="did you mean 'default'"):
        load_machine("defualt")


@pytest.mark.parametrize(
    ("good", "bad", "said"),
    [
        ("skips:", "skip:", "unknown key 'skip'; did you mean 'skips'"),
        ("reason: machine", "reason: machin", "did you mean 'machine'"),
        ("reason: machine", "reason: capability", "no reason 'capability'"),
        ("reason: machine", "reason: unsupported", "no reason 'unsupported'"),
        ("There is one device.", "nothing", "sentence"),
        ("version: 1", "version: 2", "out of range"),
        ('cases: "host/peer*", ', "", "the key 'cases' is missing"),
    ],
)
def test_a_list_that_is_wrong_is_refused_with_its_place(tmp_path: Path, good: str, bad: str, said: str) -> None:
    with pytest.raises(SpecError, match=said) as caught:
        listed(tmp_path, GOOD.replace(good, bad))
    assert "moonless.yaml:" in str(caught.value)


def test_a_machine_of_which_nothing_is_known_skips_what_is_not_silicon_and_what_is_not_there() -> None:
    skips = load_machine("default")
    assert [skip.cases for skip in skips if skip.reason == "tool"] == ["record/numbers"]
    # What can only be lost to somebody's explicit gift is no silicon that the machine must have, either.
    others = [skip for skip in skips if skip.reason != "tool" and skip.cases != "beside/*"]
    assert all("simulated" in skip.why.lower() for skip in others)


@pytest.mark.parametrize("name", machines())
def test_every_glob_of_a_list_names_a_case(name: str) -> None:
    ids: set[str] = set()
    for vendor in ("host", "cuda", "hip"):  # between them they claim every capability
        profile = profile_of(SubjectSpec(vendor))
        facts = {"": facts_of(profile, "")} | {arch: facts_of(profile, arch) for arch in profile.record.archs}
        ids.update(instance.id for instance in catalogue().instances(facts))
    for skip in load_machine(name):
        assert any(fnmatchcase(one, skip.cases) for one in ids), f"{name}: no case matches {skip.cases}"

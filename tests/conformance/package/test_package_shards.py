"""The shards of one run: all of them, of one product, on one machine, or they are refused."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import packages
import pytest

from tutti_hal.conformance_tests.package import layout
from tutti_hal.conformance_tests.package.verification import Verification, verify
from tutti_hal.conformance_tests.package.writer import write_package

pytestmark = pytest.mark.suite

COUNT = 3


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    """The three shards of a run of the planted cases. Leave them alone."""
    folder = tmp_path_factory.mktemp("shards")
    return [
        write_package(folder / f"planted{number}", packages.run_planted(shard=(number, COUNT)))
        for number in range(1, COUNT + 1)
    ]


@pytest.fixture
def shards(whole: list[Path], tmp_path: Path) -> list[Path]:
    """Copies to tamper with."""
    return [packages.copy(package, tmp_path / package.name) for package in whole]


def check(*folders: Path) -> Verification:
    return verify(folders, cases=[packages.PLANTED])


def said(found: Verification) -> list[str]:
    return [str(refusal) for refusal in found.refusals]


def assert_refused(found: Verification, *words: str) -> None:
    assert any(all(word in line for word in words) for line in said(found)), said(found)
    assert found.session is None or found.refusals


def test_all_shards_are_one_run(whole: list[Path], planted_package: Path) -> None:
    found, single = check(*whole), check(planted_package)
    assert said(found) == []
    assert found.session is not None
    assert single.session is not None
    assert found.to_json()["counts"] == single.to_json()["counts"]
    assert set(found.session.judgements) == set(single.session.judgements)
    assert found.session.ladder == single.session.ladder
    assert found.session.options.shard == (1, 1)
    assert said(check(*reversed(whole))) == []


def test_each_repeats_the_identity_case_and_shares_the_others(whole: list[Path]) -> None:
    own = [check(package).session for package in whole]
    assert own == [None] * COUNT  # a shard alone is not a run
    ids = [(package / layout.VERDICTS).read_text() for package in whole]
    assert all("plant/who" in text for text in ids)
    assert sum("plant/fails" in text for text in ids) == 1


@pytest.mark.parametrize("missing", range(COUNT))
def test_a_missing_shard(whole: list[Path], missing: int) -> None:
    rest = [package for number, package in enumerate(whole) if number != missing]
    assert_refused(check(*rest), layout.RUN, f"shard {missing + 1} of {COUNT} is missing")


def test_a_shard_alone_and_one_given_twice(whole: list[Path]) -> None:
    assert_refused(check(whole[0]), "shard 2 of 3 is missing")
    assert_refused(check(whole[0], whole[1], whole[1]), f"{whole[1]}/run.json", "shard 2 of 3 a second time")


def test_whole_runs_are_no_shards(planted_package: Path) -> None:
    assert_refused(check(planted_package, planted_package), "2 packages that are whole runs")


def test_a_damaged_shard_is_named_with_its_folder(shards: list[Path]) -> None:
    packages.edit(shards[1], layout.VERDICTS, lambda row: row.update(reason="x"))
    assert_refused(check(*shards), f"{shards[1]}/{layout.VERDICTS}:1")
    (shards[1] / layout.RUN).write_text("{}")
    assert_refused(check(*shards), f"{shards[1]}/{layout.RUN}")


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"seed": 9}, "seed 9; the first package has 1"),
        ({"level": "L4"}, "level L4"),
        ({"archs": ("threads-w32",)}, "archs ['threads-w32']"),
        ({"verify_xfail": True}, "verify_xfail True"),
        ({"shard": (2, 4)}, "shards 4"),
    ],
)
def test_shards_of_different_runs(whole: list[Path], tmp_path: Path, changes: dict[str, Any], words: str) -> None:
    other = write_package(tmp_path / "planted2", packages.run_planted(**{"shard": (2, COUNT), **changes}))
    assert_refused(check(whole[0], other, whole[2]), f"{other}/{layout.RUN}", words)


def test_how_it_was_run_may_differ(whole: list[Path], tmp_path: Path) -> None:
    session = packages.run_planted(shard=(2, COUNT), jobs=7)
    session = replace(session, environment={**session.environment, "watched": {"stderr": False}})
    assert said(check(whole[0], write_package(tmp_path / "planted2", session), whole[2])) == []


def test_shards_from_two_machines(whole: list[Path], tmp_path: Path) -> None:
    session = packages.run_planted(shard=(2, COUNT))
    session = replace(session, environment={**session.environment, "cpu": {"model": "another"}})
    other = write_package(tmp_path / "planted2", session)
    assert_refused(check(whole[0], other, whole[2]), f"{other}/{layout.ENVIRONMENT}", "another machine: cpu is")


def test_an_identity_case_that_saw_something_else(whole: list[Path], tmp_path: Path) -> None:
    """Each shard is in itself as it must be: only side by side they show that they are not of one machine."""

    def elsewhere(one: Any, found: Any) -> Any:
        return replace(found, observations={**found.observations, "more": 1}) if one.case.identity else found

    session = packages.run(
        packages.planted_options(shard=(2, COUNT)), waivers=packages.run_planted().terms.waivers, change=elsewhere
    )
    other = write_package(tmp_path / "planted2", session)
    assert said(check(other))[0].startswith("refused: run.json: shard 1 of 3 is missing")
    assert_refused(check(whole[0], other, whole[2]), f"{other}/{layout.OBSERVATIONS}:", "identity case plant/who")


def test_waivers_and_products_that_differ(whole: list[Path], tmp_path: Path) -> None:
    session = packages.run(packages.planted_options(shard=(2, COUNT)))
    other = write_package(tmp_path / "planted2", session)
    assert_refused(check(whole[0], other, whole[2]), f"{other}/{layout.WAIVERS}", "another than in the first package")

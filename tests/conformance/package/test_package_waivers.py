"""Waivers: every mistake is named with its line, and none outlives its day."""

from __future__ import annotations

import datetime
from pathlib import Path

import packages
import pytest
import yaml

from tutti_hal.conformance_tests.catalogue import Catalogue, catalogue
from tutti_hal.conformance_tests.errors import WaiverExpired, WaiversInvalid
from tutti_hal.conformance_tests.package.schemas import breaks
from tutti_hal.conformance_tests.package.waivers import NO_WAIVERS, load_waivers, parse_waivers
from tutti_hal.conformance_tests.package.writer import write_package
from tutti_hal.spec import load_spec

pytestmark = pytest.mark.suite

GOOD = """\
version: 1
waivers:
  - vendor: host
    cases: ['prim/crc32c:arch=sim-*']
    reason: The sum is
      wrong on Tuesdays.
    link: https://tracker.example/7
    approver: Somebody
    expires: 2031-12-31
"""

DAY = datetime.date(2031, 1, 1)


@pytest.fixture(scope="module")
def cases() -> Catalogue:
    return catalogue()


def problems(text: str, cases: Catalogue) -> list[str]:
    return [str(problem) for problem in parse_waivers(text.encode(), "w.yaml", load_spec(), cases).problems]


def test_a_good_file(tmp_path: Path, cases: Catalogue) -> None:
    path = tmp_path / "mine.yaml"
    path.write_text(GOOD)
    (found,) = load_waivers(path, load_spec(), cases, DAY)
    assert found.reason == "The sum is wrong on Tuesdays."
    assert found.expires == datetime.date(2031, 12, 31)
    assert found.place == f"{path}:3"
    assert found.devices == found.clauses == ()


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        ("version: 1", "version: 2", "w.yaml:1: version: 2 is out of range"),
        ("vendor: host", "vender: host", "w.yaml:3: waivers[0].vender: unknown key 'vender'; did you mean 'vendor'?"),
        ("prim/crc32c:", "prim/crc23c:", "w.yaml:4: waivers[0].cases[0]: no case matches"),
        (
            "cases: ['prim/crc32c:arch=sim-*']",
            "clauses: [prim.crc.check_valeu]",
            "did you mean 'prim.crc.check_value'?",
        ),
        ("    cases: ['prim/crc32c:arch=sim-*']\n", "", "w.yaml:3: waivers[0]: it waives nothing"),
        ("['prim/crc32c:arch=sim-*']", "prim/*", "expected a list, found text"),
        ("['prim/crc32c:arch=sim-*']", "[prim/*, prim/*]", "already in the list"),
        ("The sum is\n      wrong on Tuesdays.", "flaky", "is not a well-formed sentence"),
        ("The sum is\n      wrong on Tuesdays.", "''", "must not be empty"),
        ("https://tracker.example/7", "ask Bob", "is not a well-formed link"),
        ("2031-12-31", "31.12.2031", "is not a well-formed day"),
        ("2031-12-31", "2031-02-30", "'2031-02-30' is no day"),
        ("    approver: Somebody\n", "", "the key 'approver' is missing"),
        ("    approver: Somebody\n", "    approver: A\n    approver: B\n", "already given on line 8"),
        ("vendor: host", "vendor: &v host", ""),
        ("approver: Somebody", "approver: *v", "alias"),
    ],
)
def test_each_mistake_is_named(cases: Catalogue, old: str, new: str, said: str) -> None:
    assert old in GOOD
    found = problems(GOOD.replace(old, new), cases)
    if said:
        assert any(said in line for line in found), found
    else:
        assert found == []


def test_all_mistakes_are_named_in_one_go(tmp_path: Path, cases: Catalogue) -> None:
    path = tmp_path / "mine.yaml"
    path.write_text(GOOD.replace("prim/crc32c", "prim/nothing").replace("https", "gopher"))
    with pytest.raises(WaiversInvalid) as caught:
        load_waivers(path, load_spec(), cases, DAY)
    assert f"{path}:4" in caught.value.found or f"{path}:7" in caught.value.found
    with pytest.raises(WaiversInvalid, match="No such file"):
        load_waivers(tmp_path / "absent.yaml", load_spec(), cases)


@pytest.mark.parametrize(
    ("glob", "matches"),
    [
        ("prim/crc32c", True),
        ("prim/crc32", False),
        ("prim/crc32c*", True),
        ("prim/crc32c:arch=acme-x9", True),
        ("*", True),
        ("prim/crc32c:arch=acme-x9,bits=*", False),
    ],
)
def test_a_glob_must_match_an_instance_on_some_arch(cases: Catalogue, glob: str, matches: bool) -> None:
    found = problems(GOOD.replace("prim/crc32c:arch=sim-*", glob), cases)
    assert bool(found) is not matches


def test_the_last_day_counts_and_the_next_does_not(tmp_path: Path, cases: Catalogue) -> None:
    path = tmp_path / "mine.yaml"
    path.write_text(GOOD)
    assert load_waivers(path, load_spec(), cases, datetime.date(2031, 12, 31))
    with pytest.raises(WaiverExpired, match="expired on 2031-12-31") as caught:
        load_waivers(path, load_spec(), cases, datetime.date(2032, 1, 1))
    assert f"{path}:3" in str(caught.value)
    assert "Somebody: The sum is wrong on Tuesdays." in str(caught.value)


def test_the_published_schema_agrees(cases: Catalogue) -> None:
    """The loader names lines, the schema is for others: what one takes, the other does too."""

    def breaks_it(text: str) -> bool:
        return bool(list(breaks(yaml.load(text, yaml.BaseLoader) | {"version": 1}, "waivers")))

    assert not breaks_it(GOOD)
    assert not breaks_it(NO_WAIVERS.decode())
    assert parse_waivers(NO_WAIVERS, "w", load_spec(), cases).problems == ()
    for old, new in (
        ("vendor: host", "vender: host"),
        ("https", "gopher"),
        ("2031-12-31", "soon"),
        ("    cases: ['prim/crc32c:arch=sim-*']\n", ""),
    ):
        assert breaks_it(GOOD.replace(old, new))
        assert problems(GOOD.replace(old, new), cases)


def test_a_file_that_changed_during_the_run(tmp_path: Path) -> None:
    path = tmp_path / "mine.yaml"
    path.write_text(packages.WAIVERS.read_text())
    waivers = load_waivers(path, load_spec(), catalogue((packages.PLANTED,)))
    session = packages.run(packages.planted_options(), waivers=waivers)
    path.write_text(path.read_text().replace("2999", "3999"))
    with pytest.raises(WaiversInvalid, match="changed during the run"):
        write_package(tmp_path / "out", session)
    path.unlink()
    with pytest.raises(WaiversInvalid, match="No such file"):
        write_package(tmp_path / "out", session)
    assert not (tmp_path / "out").exists()

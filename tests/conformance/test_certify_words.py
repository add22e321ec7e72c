"""What ``certify`` says of a run that is neither passed nor failed, and what a CI sees of it."""

from __future__ import annotations

import argparse
import json
import xml.etree.ElementTree as ET

import pytest

from tests.conformance.reports import make
from tutti_hal.conformance_tests.case import Instance
from tutti_hal.conformance_tests.cli import certify
from tutti_hal.conformance_tests.package.junit import junit
from tutti_hal.conformance_tests.session import Session
from tutti_hal.conformance_tests.verdict import Verdict

pytestmark = pytest.mark.suite


def doubtful(one: Instance) -> Verdict:
    """All pass but one litmus case."""
    return Verdict.INCONCLUSIVE if one.case.name == "litmus/mp" else Verdict.PASS


def failing(one: Instance) -> Verdict:
    """The same, and another fails."""
    return Verdict.FAIL if one.case.name == "litmus/sb" else doubtful(one)


@pytest.fixture(scope="module")
def session() -> Session:
    return make(doubtful, archs=("sim-w32",), level="L4")


def ran(found: Session, monkeypatch: pytest.MonkeyPatch, *, as_json: bool = False) -> int:
    """The exit code of a ``certify`` that had this session."""
    monkeypatch.setattr(certify, "_options", lambda _: found.options)
    monkeypatch.setattr(certify, "_session", lambda *_: found)
    words = ["--profile", "host:sim-w32", *(["--json"] if as_json else [])]
    parser = argparse.ArgumentParser()
    certify.configure(parser)
    return certify.run(parser.parse_args(words))


def test_an_inconclusive_case_leaves_with_one_and_names_no_red_rung(
    session: Session, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    number = len(session.blocking)
    assert ran(session, monkeypatch) == 1
    lines = capsys.readouterr().out.splitlines()
    assert f"passed up to L3, emulated; L4 is incomplete: {number} INCONCLUSIVE" in lines[-1]
    assert any(line.split()[:2] == ["L4", "incomplete:"] for line in lines)
    assert "red" not in " ".join(lines)


def test_json_has_what_failed_and_what_is_open_apart(
    session: Session, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert ran(session, monkeypatch, as_json=True) == 1
    told = json.loads(capsys.readouterr().out)
    assert told["red"] == []
    assert {one["verdict"] for one in told["open"]} == {"INCONCLUSIVE"}
    assert all(one["repro"].startswith("tutti-hal certify") for one in told["open"])


def test_what_failed_is_told_before_what_is_open(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    found = make(failing, archs=("sim-w32",), level="L4")
    assert ran(found, monkeypatch) == 1
    out = capsys.readouterr().out
    assert out.index("FAIL litmus/sb") < out.index("INCONCLUSIVE litmus/mp")
    assert "the first red rung is L4" in out.splitlines()[-1]


def test_a_ci_sees_an_error_and_no_failure(session: Session) -> None:
    """No check failed, and there is no result: neither red like a regression, nor green like a skip."""
    product = {"package": "x", "version": "1", "sha256": "0" * 64, "source": None}
    root = ET.fromstring(junit(session, product))
    number = len(session.blocking)
    assert (root.get("failures"), root.get("errors")) == ("0", str(number))
    assert {one.get("type") for one in root.iter("error")} == {"INCONCLUSIVE"}

"""A run that was stopped goes on where it stood, on the same product and options only."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path

import pytest

from tutti_hal.cli.main import main
from tutti_hal.conformance_tests.errors import NothingToResume
from tutti_hal.conformance_tests.journal import Journal
from tutti_hal.conformance_tests.outcome import End, Outcome
from tutti_hal.conformance_tests.package.verification import verify
from tutti_hal.conformance_tests.session import RunOptions
from tutti_hal.conformance_tests.subject import SubjectSpec

pytestmark = pytest.mark.suite

OPTIONS = RunOptions(SubjectSpec("host"), ("sim-w32",))
WORDS = ("certify", "--profile", "host:sim-w32", "--case", "record/*", "--case", "alias/*", "--jobs", "1")


def test_outcomes_are_kept_as_they_come(tmp_path: Path) -> None:
    journal = Journal(tmp_path / "package", OPTIONS)
    journal.begin()
    one = Outcome("a/b", 7, End.OBSERVED, observations={"x": 1}, seconds=0.5)
    journal.note(one)
    journal.note(Outcome("a/c", 8, End.NOT_RUN))
    with journal.path.open("a") as file:
        file.write('{"id": "a/d", "se')  # the stop came in the middle of a line
    assert Journal(tmp_path / "package", replace(OPTIONS, jobs=3, time_limit_s=9.0)).kept() == {"a/b": one}
    journal.note(replace(one, id="a/e"))
    assert list(journal.kept()) == ["a/b", "a/e"]
    journal.end()
    with pytest.raises(NothingToResume):
        journal.kept()


def test_another_run_is_not_resumed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    Journal(tmp_path / "package", OPTIONS).begin()
    with pytest.raises(NothingToResume, match="another options"):
        Journal(tmp_path / "package", replace(OPTIONS, seed=2)).kept()
    monkeypatch.setattr("tutti_hal.conformance_tests.journal.file_sums", lambda _: {"x": "0" * 64})
    with pytest.raises(NothingToResume, match="another product"):
        Journal(tmp_path / "package", OPTIONS).kept()


def test_a_run_that_was_stopped_in_the_middle_goes_on(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    """The same verdicts as a run in one piece, each instance run once, and nothing left beside the package."""
    whole, parts = tmp_path / "whole", tmp_path / "parts"
    assert main([*WORDS, "--out", str(whole)]) == 0
    process = subprocess.Popen([sys.executable, "-m", "tutti_hal", *WORDS, "--out", str(parts)], start_new_session=True)
    journal = Journal(parts, OPTIONS).path
    end = time.monotonic() + 100
    while time.monotonic() < end and (not journal.exists() or journal.read_text().count("\n") < 3):
        time.sleep(0.02)
    os.killpg(process.pid, signal.SIGKILL)
    process.wait()
    had = journal.read_text().count("\n") - 1
    assert had >= 2
    assert not parts.exists()
    assert main([*WORDS, "--out", str(parts), "--resume"]) == 0
    capfd.readouterr()
    assert not journal.exists()
    verdicts = [
        {row["id"]: row["verdict"] for row in map(json.loads, (one / "verdicts.jsonl").read_text().splitlines())}
        for one in (whole, parts)
    ]
    assert verdicts[0] == verdicts[1]
    assert len(verdicts[0]) > had
    found = verify([parts])
    assert not found.refusals
    assert found.session is not None
    assert found.session.environment["watched"]["resumed"] in (had, had + 1)
    assert main([*WORDS, "--out", str(parts), "--resume"]) == 2
    assert "NOTHING-TO-RESUME" in capfd.readouterr().err

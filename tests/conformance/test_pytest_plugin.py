"""The pytest plugin, as a vendor's repository uses it: in another process, found by its entry point."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.conformance.runs import PLANTED

TEST = """
import pytest

@pytest.mark.conformance({words})
def test_conformance(conformance_case):
    conformance_case.check()
"""

pytestmark = [pytest.mark.suite, pytest.mark.slow]  # it starts many processes

SETTINGS = """
[pytest]
addopts = --strict-markers
filterwarnings =
    error
    ignore:Module already imported so cannot be rewritten; _editable_skbc:pytest.PytestAssertRewriteWarning
"""

Pytest = Callable[..., tuple[int, str]]


@pytest.fixture
def vendors(tmp_path: Path) -> Pytest:
    """Runs pytest in a folder with one test file; gives its code and what it said."""

    def runs(words: str, *arguments: str, source: str = TEST) -> tuple[int, str]:
        (tmp_path / "test_vendor.py").write_text(source.format(words=words), encoding="utf-8")
        (tmp_path / "pytest.ini").write_text(SETTINGS, encoding="utf-8")
        (tmp_path / "state").mkdir(exist_ok=True)
        command = [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", "-rA", *arguments]
        environment = {**os.environ, "TUTTI_PLANTED": str(tmp_path / "state"), "COLUMNS": "400"}
        done = subprocess.run(command, cwd=tmp_path, env=environment, check=False, capture_output=True, text=True)
        return done.returncode, done.stdout + done.stderr

    return runs


def planted(*globs: str) -> str:
    return f'profile="host:threads-w32", cases={[f"plant/{glob}" for glob in globs]!r}, extra={str(PLANTED)!r}'


def test_verdicts_end_tests_as_they_should(vendors: Pytest) -> None:
    code, said = vendors(planted("passes", "lies", "segfaults", "spoils", "spoiled"))
    assert code == 1, said
    for n in range(4):
        assert f"PASSED test_vendor.py::test_conformance[plant/passes:n={n}]" in said
    assert "ERROR plant/lies: the judge raised KeyError: 'value'" in said
    assert "FAIL plant/segfaults: the process died: SIGSEGV" in said
    assert "log: Fatal Python error: Segmentation fault" in said
    again = "again: tutti-hal certify --profile host --case plant/segfaults --seed 1 --cases"
    assert f"{again} {PLANTED}" in said
    counts = re.search(r"(\d+) failed, (\d+) passed", said)
    assert counts is not None
    # `spoiled` comes before `spoils` by name, so nothing spoils it.
    assert counts.groups() == ("2", "6")


def test_the_last_test_of_a_worker_answers_for_its_end(vendors: Pytest) -> None:
    code, said = vendors(planted("chatters"), "-k", "late")
    assert code == 1, said
    assert "FAILED test_vendor.py::test_conformance[plant/chatters:where=late]" in said
    assert "log: chatter of a thread" in said


def test_a_skip_that_the_vendor_declares_skips_with_its_code(vendors: Pytest) -> None:
    words = f'profile="host:threads-w128", cases=["plant/needs_ballot"], extra={str(PLANTED)!r}'
    code, said = vendors(words)
    assert code == 0, said
    assert "capability: wave.ballot is declared false" in said
    assert "1 skipped" in said


def test_every_arch_is_run_and_tests_are_named_by_instances(vendors: Pytest) -> None:
    words = f'profile="host", cases=["plant/uses_the_device"], extra={str(PLANTED)!r}'
    code, said = vendors(words, "--collect-only", "-q")
    assert code == 0, said
    assert said.count("plant/uses_the_device:arch=") == 6
    code, said = vendors(words, "-k", "threads and w64")
    assert code == 0, said
    assert "PASSED test_vendor.py::test_conformance[plant/uses_the_device:arch=threads-w64]" in said


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ('profile="hots"', "did you mean 'host'"),
        ("", "profile"),
        ('profile="host", lvel="L3"', "lvel"),
        ('profile="host", level="L99"', "no level 'L99'"),
        ('profile="host", cases=["prim/crc32"]', "no case of this run matches it; did you mean 'prim/crc32c'"),
        ('profile="host", machine="defualt"', "did you mean 'default'"),
    ],
)
def test_a_marker_that_cannot_be_followed_is_an_error(vendors: Pytest, words: str, said: str) -> None:
    code, output = vendors(words)
    assert code in (pytest.ExitCode.INTERRUPTED, pytest.ExitCode.USAGE_ERROR)
    assert said in output


def test_the_fixture_without_the_marker_is_an_error(vendors: Pytest) -> None:
    code, said = vendors("", source="def test_it(conformance_case):\n    conformance_case.check()\n")
    assert code in (pytest.ExitCode.INTERRUPTED, pytest.ExitCode.USAGE_ERROR)
    assert "needs the marker conformance(profile=...)" in said


def test_a_repository_without_conformance_tests_pays_nothing(tmp_path: Path) -> None:
    (tmp_path / "test_other.py").write_text(
        "import sys\n\n"
        "def test_other():\n"
        "    heavy = {'numpy', 'cffi', 'yaml', 'jinja2', 'tutti_hal.conformance_tests.case', 'tutti_hal.spec'}\n"
        "    assert not heavy & set(sys.modules)\n"
        "    assert 'tutti_hal.conformance_tests.pytest_plugin' in sys.modules\n",
        encoding="utf-8",
    )
    options = ["-p", "no:cacheprovider", "-p", "no:hypothesispytest", "-p", "no:cov"]
    command = [sys.executable, "-m", "pytest", *options]
    done = subprocess.run(command, cwd=tmp_path, check=False, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout

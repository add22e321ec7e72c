"""``tutti-hal certify`` as people use it: in a process of its own, by its exit code and what it prints."""

from __future__ import annotations

import json
import os
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.slow

PLANTED = '''
from tutti_hal.conformance_tests.case import Per, case

@case("plant/fails", level="L3", clauses=("prim.crc.check_value",))
def fails(run):
    """Planted."""
    return {"value": 1 + run.seed % 2 - run.seed % 2}

@fails.judge
def _(seen):
    seen.equal("prim.crc.check_value", "a planted value", seen["value"], 2)

@case("plant/passes", level="L3", clauses=("prim.crc.composes",), axes={"bits": (32, 64)})
def passes(run):
    """Planted."""
    return {"value": run.axes["bits"]}

@passes.judge
def _(seen):
    seen.equal("prim.crc.composes", "its axis", seen["value"], seen.axes["bits"])
'''


def tutti(*words: str | Path, cwd: Path | None = None, limit_s: float = 110) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "tutti_hal", *map(str, words)]
    env = {**os.environ, "COLUMNS": "200", "NO_COLOR": "1"}
    return subprocess.run(command, check=False, capture_output=True, text=True, cwd=cwd, env=env, timeout=limit_s)


@pytest.fixture
def planted(tmp_path: Path) -> Path:
    folder = tmp_path / "cases"
    folder.mkdir()
    (folder / "case_planted.py").write_text(PLANTED, encoding="utf-8")
    return folder


def test_a_failing_case_prints_a_line_that_fails_the_same_way(planted: Path) -> None:
    first = tutti("certify", "--profile", "host:sim-w32", "--cases", planted, "--case", "plant/*", "--seed", "7")
    assert first.returncode == 1, first.stderr
    assert "FAIL plant/fails:arch=sim-w32" in first.stdout
    assert "found 1, wanted 2" in first.stdout
    assert "first red rung is L3" in first.stdout
    line = next(text.strip() for text in first.stdout.splitlines() if text.strip().startswith("tutti-hal certify"))
    again = tutti(*shlex.split(line)[1:])
    assert again.returncode == 1
    assert "FAIL plant/fails:arch=sim-w32" in again.stdout
    assert "seed 7; 1 cases" in again.stdout


def test_a_passing_selection_certifies_nothing_and_says_so(planted: Path) -> None:
    done = tutti("certify", "--profile", "host:sim-w32", "--cases", planted, "--case", "plant/passes", "--json")
    assert done.returncode == 0, done.stderr
    told = json.loads(done.stdout)
    assert told["red"] == []
    assert told["certifies"] == "a selection of cases: it certifies no level"
    assert told["provenance"] == "emulated"
    level = next(one for one in told["levels"] if one["level"] == "L3")
    assert level["counts"] == {"PASS": 2}
    assert "prim.crc.check_value" in level["untested"]


def test_parts_have_all_of_it_and_nothing_twice(planted: Path) -> None:
    def ids(*words: str) -> list[str]:
        done = tutti("certify", "--profile", "host", "--cases", planted, "--case", "plant/*", "--list", *words)
        assert done.returncode == 0, done.stderr
        return [line.split()[1] for line in done.stdout.splitlines() if line.startswith("L")]

    whole = ids()
    assert len(whole) == 18
    parts = [ids("--shard", f"{number}/4") for number in (1, 2, 3, 4)]
    assert sorted(one for part in parts for one in part) == sorted(whole)


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("--case", "prm/*"), "did you mean 'prim/*'"),
        (("--profile", "hots"), "did you mean 'host'"),
        (("--profile", "host:sim-w33"), "did you mean 'sim-w32'"),
        (("--ablate", "no-balot"), "did you mean 'no-ballot'"),
        (("--machine", "defualt"), "did you mean 'default'"),
        (("--cases", "nowhere"), "no such file"),
        (("--shard", "3/2"), "is not i/n"),
        (("--level", "L9"), "invalid choice"),
        (("--sample", "3"), "belongs to --self-test"),
        (("--self-test", "--case", "prim/*"), "--case does not go with --self-test"),
        (("--self-test", "--shard", "1/2"), "--shard does not go with --self-test"),
        (("--waivers", "nowhere.yaml"), "nowhere.yaml"),
    ],
)
def test_what_cannot_be_run_leaves_with_two_and_a_hint(words: tuple[str, ...], said: str, tmp_path: Path) -> None:
    profile = () if "--profile" in words else ("--profile", "host:sim-w32")
    done = tutti("certify", *profile, *words, cwd=tmp_path)
    assert done.returncode == 2, done.stdout + done.stderr
    assert said in done.stderr
    assert "Traceback" not in done.stderr


def test_a_case_file_that_does_not_load_is_named(tmp_path: Path) -> None:
    broken = tmp_path / "case_broken.py"
    broken.write_text("import nothing_of_that_name\n", encoding="utf-8")
    done = tutti("certify", "--profile", "host:sim-w32", "--cases", broken)
    assert done.returncode == 2
    assert "case_broken.py" in done.stderr
    assert "nothing_of_that_name" in done.stderr


@pytest.mark.timeout(600)
def test_a_quick_run_leaves_evidence_that_verifies(tmp_path: Path) -> None:
    out = tmp_path / "evidence"
    done = tutti("certify", "--profile", "host", "--quick", "--out", out, limit_s=500)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "a quick run: it certifies no level" in done.stdout
    checked = tutti("verify", out)
    assert checked.returncode == 0, checked.stdout + checked.stderr
    assert "certifies no level" in checked.stdout

"""The Promela model of the ring, explored by spin: no error as it stands, and an error with each rule broken."""

from __future__ import annotations

import re
import shutil
import subprocess
from pathlib import Path

import pytest

MODEL = Path(__file__).parents[2] / "docs" / "models" / "ring.pml"

#: Instances of the unbroken model.
GOOD = ("", "-DREPEAT", "-DLOSSY", "-DDEPTH=3 -DCQ_DEPTH=3", "-DSUBMITTERS=3 -DREQUESTS=1")

#: Each broken rule, the instance in which it shows, and what spin says.
BROKEN = {
    "BUG_NO_LOOK_AGAIN": ("", "invalid end state"),
    "BUG_EXTRA_CREDIT": ("", "invalid end state"),
    "BUG_OVERDRAFT_KEPT": ("", "invalid end state"),
    "BUG_NO_CQ_DOORBELL": ("", "invalid end state"),
    "BUG_TWO_REAPERS": ("", ""),
    "BUG_PHASE": ("", "head<posts"),
    "BUG_MARK_FIRST": ("", "entry_ticket"),
    "BUG_CREDIT_FIRST": ("", "cell_ticket"),
    "BUG_PASSES_GAPS": ("-DDEPTH=3", "published"),
    "BUG_TWO_LEADERS": ("-DDEPTH=3", "tail>rung"),
    "BUG_CQ_DOORBELL_AHEAD": ("-DDEPTH=3", "cq_tail-consumed"),
    "BUG_NO_GENERATION": ("-DREPEAT", "drive_id"),
    "BUG_NOT_CLEARED": ("-DREPEAT", ""),
    "BUG_LATE_BELIEVED": ("-DLOSSY", "status"),
    "BUG_DEADLINE_WINS": ("-DLOSSY", "status"),
    "BUG_NO_DEADLINE": ("-DLOSSY", "invalid end state"),
    "BUG_NOT_MARKED": ("-DLOSSY", "invalid end state"),
    "BUG_GIVEN_BACK": ("-DLOSSY", "fetches>"),
}

pytestmark = [
    pytest.mark.suite,
    pytest.mark.ring,
    pytest.mark.skipif(shutil.which("spin") is None, reason="spin is not on this machine"),
    pytest.mark.skipif(shutil.which("gcc") is None, reason="gcc, which compiles spin's verifier, is not here"),
    pytest.mark.timeout(180),
]


def explore(folder: Path, flags: str, kind: str = "-DSAFETY", optimise: str = "-O1") -> str:
    """What the verifier says of one instance; ``kind`` is ``-DNP`` for cycles, else assertions and end states."""
    subprocess.run(["spin", "-a", *flags.split(), str(MODEL)], cwd=folder, check=True, capture_output=True)
    build = ["gcc", optimise, "-w", kind, "-DCOLLAPSE", "-o", "pan", "pan.c"]
    subprocess.run(build, cwd=folder, check=True, capture_output=True)
    run = ["./pan", "-m400000", *(["-l"] if kind == "-DNP" else [])]
    said = subprocess.run(run, cwd=folder, check=False, capture_output=True, text=True, timeout=150).stdout
    assert "errors:" in said, said
    return said


def errors(said: str) -> int:
    found = re.search(r"errors: (\d+)", said)
    assert found, said
    return int(found[1])


@pytest.mark.parametrize("flags", GOOD)
def test_the_protocol_has_no_error(tmp_path: Path, flags: str) -> None:
    said = explore(tmp_path, flags)
    assert errors(said) == 0, said
    assert "max search depth too small" not in said
    assert "Search not completed" not in said
    stored = re.search(r"(\d+) states, stored", said)
    assert stored
    assert int(stored[1]) > 10_000


@pytest.mark.parametrize("flags", ["", "-DLOSSY"])
def test_every_run_ends(tmp_path: Path, flags: str) -> None:
    # No state is marked as progress, so any cycle at all would be an error.
    assert errors(explore(tmp_path, flags, "-DNP")) == 0


@pytest.mark.parametrize("bug", sorted(BROKEN))
def test_a_broken_rule_is_found(tmp_path: Path, bug: str) -> None:
    flags, expected = BROKEN[bug]
    said = explore(tmp_path, f"{flags} -D{bug}", optimise="-O0")
    assert errors(said) == 1
    first = next(line for line in said.splitlines() if line.startswith("pan:1:"))
    assert expected in first


def test_every_broken_rule_of_the_model_is_tried() -> None:
    assert set(re.findall(r"BUG_[A-Z]\w*", MODEL.read_text(encoding="utf-8"))) - {"BUG_"} == set(BROKEN)

"""``bench ring``: real figures with a baseline, and refusals."""

from __future__ import annotations

import json

import pytest

from tutti_hal.cli.main import main

pytestmark = pytest.mark.ring


def test_ring_figures_have_a_baseline_of_the_same_run(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["bench", "ring", "--profile", "host", "--seconds", "0", "--batch", "512", "--json"]) == 0
    result = json.loads(capsys.readouterr().out)
    null, memory, baseline = result["figures"]
    assert (null["name"], memory["name"]) == ("null controller", "software controller, memory")
    assert null["gb_per_s"] == 0.0, "a null controller moves nothing"
    assert null["commands"] % 512 == memory["commands"] % 512 == 0
    assert memory["doorbells_per_command"] <= 1 / 8
    assert baseline["doorbells_per_command"] == 1.0
    assert result["gain_over_baseline"] == pytest.approx(memory["commands_per_s"] / baseline["commands_per_s"])
    assert all(figure["host_calls_per_batch"] < 12 for figure in result["figures"])
    assert result["machine"]["cpus"] >= 1


def test_a_person_gets_lines(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["bench", "ring", "--profile", "host", "--seconds", "0", "--batch", "64"]) == 0
    assert "batches against one at a time" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("options", "code", "said"),
    [
        ([], 2, "WHAT"),
        (["rng"], 2, "invalid choice"),
        (["ring", "--profile", "hots"], 1, "did you mean 'host'"),
        (["ring", "--profile", "host:sim-w32"], 1, "TT-BENCH"),
        (["ring", "--profile", "host", "--batch", "0"], 2, "0 is not between 1"),
        (["ring", "--profile", "host", "--depth", "5000"], 1, "5000"),
    ],
)
def test_bad_options_are_refused(capsys: pytest.CaptureFixture[str], options: list[str], code: int, said: str) -> None:
    try:
        got: object = main(["bench", *options])
    except SystemExit as left:
        got = left.code
    assert got == code
    assert said in capsys.readouterr().err

"""``bench ring``: real figures with a baseline, and refusals."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tutti_hal.bench import naive
from tutti_hal.cli.main import main
from tutti_hal.errors import BenchError
from tutti_hal.machine import benchmark_facts
from tutti_hal.nvme.software import SoftwareController

pytestmark = pytest.mark.ring


QUICK = ["bench", "ring", "--profile", "host", "--time-limit", "0"]


@pytest.mark.parametrize("operation", ["read", "write"])
def test_ring_figures_have_their_baselines_of_the_same_run(
    operation: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    plot = tmp_path / "ring.svg"
    extra = ["--write"] if operation == "write" else []
    assert main([*QUICK, *extra, "--batch", "512", "--json", "--plot", str(plot)]) == 0
    result = json.loads(capsys.readouterr().out)
    figures = {figure["name"]: figure for figure in result["figures"]}
    ring, null = figures["ring"], figures["null controller"]
    naive, single = figures["one doorbell a command"], figures["one command a batch"]
    assert result["operation"] == operation
    assert null["gb_per_s"] == 0.0, "a null controller moves nothing"
    assert ring["commands"] == null["commands"] == naive["commands"] == 3 * 2 * 512, "two batches a round, three rounds"
    assert ring["doorbells_per_command"] <= 1 / 8
    assert naive["doorbells_per_command"] == single["doorbells_per_command"] == 1.0
    assert ring["gb_per_s"] == pytest.approx(ring["commands_per_s"] * 4096 / 1e9)
    for name, ratio in result["ring_over"].items():
        assert ratio == pytest.approx(ring["commands_per_s"] / figures[name]["commands_per_s"])
    assert set(result["ring_over"]) == set(figures) - {"ring"}
    assert all(figure["host_calls_per_batch"] < 12 for figure in result["figures"])
    assert result["machine"]["cpus"] >= 1
    assert "<svg" in plot.read_text(encoding="utf-8")


def test_a_person_gets_lines(capsys: pytest.CaptureFixture[str]) -> None:
    assert main([*QUICK, "--batch", "64"]) == 0
    said = capsys.readouterr().out
    assert "ring over one doorbell a command" in said
    assert benchmark_facts()["cpu"] in said


def test_wrong_data_are_no_figure(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    honest = SoftwareController.write_stored
    monkeypatch.setattr(
        SoftwareController, "write_stored", lambda self, nsid, at, data: honest(self, nsid, at, data[:-1] + b"x")
    )
    assert main([*QUICK, "--batch", "64"]) == 1
    assert "is not its source" in capsys.readouterr().err


def test_a_template_that_changed_makes_no_naive_baseline(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(naive, "CHANGES", (("ring.cu.j2", "no such text", ""),))
    with pytest.raises(BenchError, match="occurs 0 times"):
        naive.naive_templates(tmp_path)


@pytest.mark.parametrize(
    ("options", "code", "said"),
    [
        ([], 2, "WHAT"),
        (["rng"], 2, "invalid choice"),
        (["ring", "--profile", "hots"], 1, "did you mean 'host'"),
        (["ring", "--profile", "host:sim-w32"], 1, "TT-BENCH"),
        (["ring", "--profile", "host", "--batch", "0"], 2, "0 is not between 1"),
        (["ring", "--profile", "host", "--depth", "5000"], 1, "5000"),
        (["ring", "--profile", "host", "--plot", "figure.txt"], 1, "TT-PLOT"),
    ],
)
def test_bad_options_are_refused(capsys: pytest.CaptureFixture[str], options: list[str], code: int, said: str) -> None:
    try:
        got: object = main(["bench", *options])
    except SystemExit as left:
        got = left.code
    assert got == code
    assert said in capsys.readouterr().err


def test_injected_errors_are_measured_beside_the_clean_ring(capsys: pytest.CaptureFixture[str]) -> None:
    assert main([*QUICK, "--batch", "512", "--faults", "0.1", "--json"]) == 0
    result = json.loads(capsys.readouterr().out)
    figures = {figure["name"]: figure["commands_per_s"] for figure in result["figures"]}
    struck = result["faults"]
    assert struck["rate"] == 0.1
    assert 0.05 < struck["errors"] / (3 * 2 * 512) < 0.15
    assert struck["over_clean"] == pytest.approx(figures["ring with injected errors"] / figures["ring"])


def test_a_share_above_one_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        main([*QUICK, "--faults", "2"])
    assert "no share from 0 to 1" in capsys.readouterr().err

"""``bench ring``: real figures with a baseline, and refusals."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tutti_hal.bench import link, naive
from tutti_hal.cli.main import main
from tutti_hal.errors import BenchError
from tutti_hal.machine import benchmark_facts
from tutti_hal.nvme.software import SoftwareController
from tutti_hal.shim.ffi import CRuntime, HostCalls

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


def test_the_link_has_one_large_copy_beside_everything(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    plot = tmp_path / "link.svg"
    quick = ["bench", "link", "--profile", "host", "--mib", "1", "--rounds", "1", "--blocks", "1,3"]
    assert main([*quick, "--json", "--plot", str(plot)]) == 0
    result = json.loads(capsys.readouterr().out)
    large, *others = result["figures"]
    assert large["over_large"] == 1.0
    assert result["left_out"] == []
    assert {(one["object_bytes"], one["blocks"], one["sgl"]) for one in others} == {
        (size, blocks, sgl)
        for size in (4096, 65536, 524288)
        for blocks, sgl in [(0, False), *[(n, sgl) for n in (1, 3) for sgl in (True, False)]]
    }
    for one in others:
        assert one["over_large"] == pytest.approx(one["gb_per_s"] / large["gb_per_s"])
        assert one["commands_per_s"] * one["object_bytes"] == pytest.approx(one["gb_per_s"] * 1e9)
    assert [one for one in result["not_compared"] if one.startswith("batched copies: no call of host")]
    assert all(one["over_batched"] is None for one in result["figures"])
    assert "<svg" in plot.read_text(encoding="utf-8")
    assert main([*quick, "--write", "--time-limit", "0"]) == 0
    said = capsys.readouterr().out
    assert "device to host" in said
    assert "time was over" in said


def test_batched_copies_are_a_baseline_of_the_link(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    calls: list[int] = []

    def batched(
        self: CRuntime, counts: HostCalls, stream: Any, to: np.ndarray, source: np.ndarray, sizes: np.ndarray
    ) -> Callable[[], None]:
        """One copy after the other: HOST has no such call."""
        kind = self.constant("MemcpyKind", "Default")
        one = [
            (self.ffi.cast("void *", int(a)), self.ffi.cast("void *", int(b))) for a, b in zip(to, source, strict=True)
        ]

        def move() -> None:
            calls.append(len(sizes))
            for (a, b), size in zip(one, sizes, strict=True):
                self.call(counts, "MemcpyAsync", a, b, int(size), kind, stream)

        return move

    monkeypatch.setattr(CRuntime, "batched_copy", batched)
    monkeypatch.setattr(link, "BATCH", 100)
    assert main(["bench", "link", "--profile", "host", "--mib", "1", "--rounds", "1", "--blocks", "1", "--json"]) == 0
    result = json.loads(capsys.readouterr().out)
    assert calls[:3] == [100, 100, 56], "256 objects of 4 KiB"
    rates = {one["object_bytes"]: one["gb_per_s"] for one in result["figures"] if one["name"] == "batched copies"}
    assert sorted(rates) == [4096, 65536, 524288]
    for one in result["figures"][1:]:
        assert one["over_batched"] == pytest.approx(one["gb_per_s"] / rates[one["object_bytes"]])


def test_wrong_bytes_are_no_figure_of_the_link(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    from tutti_hal.nvme import device_controller

    # The null kernel under the link's name: it completes everything and moves nothing.
    honest = device_controller.DeviceController.__init__

    def lazy(self: object, device: object, blocks: int, options: object) -> None:
        honest(self, device, blocks, replace(options, null=True))  # type: ignore[arg-type]

    monkeypatch.setattr(device_controller.DeviceController, "__init__", lazy)
    assert main(["bench", "link", "--profile", "host", "--mib", "1", "--rounds", "1"]) == 1
    assert "is not its source" in capsys.readouterr().err


def test_the_grid_counts_what_the_kernels_count(capsys: pytest.CaptureFixture[str]) -> None:
    quick = [
        "bench",
        "grid",
        "--profile",
        "host",
        "--queues",
        "1,2",
        "--lanes",
        "32",
        "--least",
        "512",
        "--rounds",
        "1",
        "--samples",
        "0",
    ]
    assert main([*quick, "--json"]) == 0
    result = json.loads(capsys.readouterr().out)
    assert [(cell["queues"], cell["lanes"], cell["commands"]) for cell in result["cells"]] == [
        (1, 32, 512),
        (2, 32, 512),
    ]
    assert all(0 < cell["doorbells_per_command"] <= 1 / 8 for cell in result["cells"])
    assert all(cell["commands_per_look"] >= 1 for cell in result["cells"])
    assert main([*quick, "--time-limit", "0"]) == 0
    assert "time was over" in capsys.readouterr().out


@pytest.mark.parametrize("what", ["link", "grid"])
def test_mode_sim_is_refused(what: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["bench", what, "--profile", "host:sim-w32"]) == 1
    assert "one thread" in capsys.readouterr().err

"""Figures of benchmarks in a package: carried and shown, of the right form, and nothing rests on them."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import packages
import pytest

from tests.conformance.reports import read
from tutti_hal.cli.main import main
from tutti_hal.conformance_tests.errors import FiguresUnfit
from tutti_hal.conformance_tests.package import layout
from tutti_hal.conformance_tests.package.figures import LIMIT_BYTES, load_figures
from tutti_hal.conformance_tests.package.registry import slim
from tutti_hal.conformance_tests.package.schemas import breaks
from tutti_hal.conformance_tests.package.verification import verify
from tutti_hal.conformance_tests.report.content import _FIGURE_GROUPS
from tutti_hal.conformance_tests.report.html import render
from tutti_hal.conformance_tests.session import Session

pytestmark = pytest.mark.suite

RING = {
    "bench": "ring",
    "machine": {"cpu": "a processor", "cpus": 2},
    "profile": "host:threads-w32",
    "figures": [{"name": "ring", "rate": 12345.5, "seconds": 0.25}, {"name": "one doorbell", "rate": 1e3}],
    "faults": None,
}


@pytest.fixture
def figure(tmp_path: Path) -> Callable[..., Path]:
    """Writes a figure with these changes as a file."""

    def write(name: str = "ring.json", **changes: Any) -> Path:
        path = tmp_path / name
        path.write_text(json.dumps({**RING, **changes}, indent=2))
        return path

    return write


@pytest.fixture
def carrying(good_session: Session, figure: Callable[..., Path], written: Callable[[Session], Path]) -> Path:
    """A package that carries a figure, to tamper with."""
    session = replace(good_session, figures=load_figures([figure()], "host"))
    return packages.copy(written(session), written(session).with_name("carrying"))


def test_carried_shown_and_verified(carrying: Path, good_session: Session, tmp_path: Path) -> None:
    found = verify([carrying])
    assert not found.refusals, [str(one) for one in found.refusals]
    assert found.session is not None
    assert [one["table"] for one in found.session.figures] == [RING]
    assert found.session.ladder == good_session.ladder
    assert json.loads((carrying / layout.RUN).read_text())["raw_files"][layout.FIGURES]
    told = read((carrying / layout.REPORT).read_text(encoding="utf-8")).by_id["figures"].words
    for word in ("ring.json", "bench ring on host:threads-w32", "12345.5", "one doorbell", "Nobody judges it"):
        assert word in told
    slim(carrying, tmp_path / "slim")
    assert (tmp_path / "slim" / layout.FIGURES).is_file()
    assert not verify([tmp_path / "slim"]).refusals


def test_without_figures_there_is_neither_file_nor_part(good_package: Path) -> None:
    assert not (good_package / layout.FIGURES).exists()
    assert "figures" not in read((good_package / layout.REPORT).read_text(encoding="utf-8")).by_id


def refused(package: Path, words: str) -> None:
    said = [str(one) for one in verify([package]).refusals]
    assert any(words in one for one in said), said


def test_another_figure_than_the_run_had_is_refused(carrying: Path) -> None:
    packages.edit(carrying, layout.FIGURES, lambda table: table["figures"][0]["table"]["figures"][0].update(rate=1e9))
    refused(carrying, "run.json:")


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (lambda table: table["figures"][0]["table"].update(bench="best"), "schemas/figures.schema.json"),
        (lambda table: table["figures"][0].pop("sha256"), "schemas/figures.schema.json"),
        (lambda table: table.update(figures=[]), "schemas/figures.schema.json"),
        (lambda table: table["figures"][0]["table"].update(profile="cuda:sm_90"), "measured on cuda"),
        (lambda table: table["figures"][0]["table"].update(profile="::"), "profile '::'"),
    ],
)
def test_a_figure_of_another_form_or_vendor_is_refused(carrying: Path, change: packages.Change, words: str) -> None:
    packages.edit(carrying, layout.FIGURES, change)
    refused(carrying, words)


def test_what_cannot_be_carried_is_named_all_of_it(figure: Callable[..., Path], tmp_path: Path) -> None:
    large = tmp_path / "large.json"
    large.write_text(" " * (LIMIT_BYTES + 1))
    text = tmp_path / "text.json"
    text.write_text("no JSON")
    with pytest.raises(FiguresUnfit) as told:
        load_figures([large, text, tmp_path / "absent.json"], "host")
    assert all(name in str(told.value) for name in ("large.json", "text.json", "absent.json"))
    for paths, words in (
        ([figure("old.json", bench=None)], "bench"),
        ([figure("other.json", profile="cuda:sm_90")], "measured on cuda, and the run is of host"),
        ([figure(), figure()], "given twice"),
        ([figure("a b.json")], "a b.json"),
    ):
        with pytest.raises(FiguresUnfit, match=words):
            load_figures(paths, "host")


def test_a_long_figure_is_cut(good_session: Session, figure: Callable[..., Path]) -> None:
    cells = [{"queues": number} for number in range(_FIGURE_GROUPS + 5)]
    session = replace(good_session, figures=load_figures([figure(bench="grid", cells=cells)], "host"))
    assert "more, in figures.json" in read(render(session)).by_id["figures"].words


def test_certify_reads_them_before_it_runs(
    figure: Callable[..., Path], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    words = ["certify", "--profile", "host:sim-w32", "--case", "prim/crc32c", "--figures"]
    assert main([*words, str(figure())]) == 2
    assert "--figures belongs to --out" in capsys.readouterr().err
    wrong = str(figure("wrong.json", profile="cuda"))
    assert main([*words, wrong, "--out", str(tmp_path / "out")]) == 2
    assert "TT-CONFORMANCE-FIGURES-UNFIT" in capsys.readouterr().err
    assert not (tmp_path / "out").exists()


def test_every_benchmark_says_which_it_is(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    """What the command prints is what can be carried; what it measures is planted."""
    from tutti_hal.bench import grid, link, ring, soak, storage

    measured = {"profile": "host", "complete": True}
    places = {"ring": (ring, "measure_ring"), "link": (link, "measure_link"), "grid": (grid, "measure_grid")}
    places |= {"storage": (storage, "measure_storage"), "soak": (soak, "soak")}
    for name, (module, function) in places.items():
        monkeypatch.setattr(module, function, lambda *_, **__: measured)
        assert main(["bench", name, "--profile", "host", "--json"]) == 0
        table = json.loads(capsys.readouterr().out)
        assert (table["bench"], table["profile"]) == (name, "host")
        assert not list(breaks({"figures": [{"file": "x.json", "sha256": "0" * 64, "table": table}]}, "figures"))

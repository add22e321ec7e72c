"""The plot: every format is drawn from real results; what cannot be drawn is said before the run."""

from __future__ import annotations

import importlib.util
from pathlib import Path

import numpy as np
import pytest

from tests.workload.fakes import FakeTransport
from tutti_hal.workload import plot
from tutti_hal.workload.cache import plan
from tutti_hal.workload.compute import ComputeStandIn
from tutti_hal.workload.generator import generate_trace
from tutti_hal.workload.oracle import Oracle
from tutti_hal.workload.placement import Placement
from tutti_hal.workload.replay import Replay, ReplayResult
from tutti_hal.workload.shapes import KvShape

SHAPE = KvShape("tiny", layers=3, kv_heads=1, head_dim=16, element_bytes=2, tokens_per_block=16, blocks_per_hash=1)


@pytest.fixture(scope="module")
def drawn() -> tuple[ReplayResult, plot.PlotLabels]:
    placement = Placement(SHAPE, 64, 4)
    transport = FakeTransport(4, placement.drive_bytes, 32 * SHAPE.hash_bytes)
    replay = Replay(transport, placement, Oracle(SHAPE, 7), ComputeStandIn(100))
    result = ReplayResult(tuple(replay.run(plan(generate_trace(2, 20), 64, 32))), replay.layers())
    names = [f"drive {i}" for i in range(4)]
    return result, plot.PlotLabels(
        "Title", ["Subtitle", "a second line"], names, transport.read, transport.written, 0.01
    )


@pytest.mark.parametrize(("ending", "magic"), [(".png", b"\x89PNG"), (".svg", b"<?xml"), (".pdf", b"%PDF")])
def test_every_format_is_drawn(
    tmp_path: Path, drawn: tuple[ReplayResult, plot.PlotLabels], ending: str, magic: bytes
) -> None:
    path = tmp_path / f"p{ending}"
    plot.draw(*drawn, path)
    assert path.read_bytes().startswith(magic)
    if ending == ".svg":
        text = path.read_text()
        for word in ("Throughput", "Hit ratio", "Pipeline by layer", "What each drive moved", "drive 3"):
            assert f"<!-- {word}" in text, word


def test_the_picture_is_not_blank(tmp_path: Path, drawn: tuple[ReplayResult, plot.PlotLabels]) -> None:
    from matplotlib.image import imread

    plot.draw(*drawn, tmp_path / "p.png")
    pixels = imread(tmp_path / "p.png")
    assert len(np.unique(pixels.reshape(-1, pixels.shape[2]), axis=0)) > 100


@pytest.mark.parametrize(
    ("name", "found"), [("p.bmp", "unknown ending '.bmp'"), ("p", "unknown ending ''"), ("absent/p.png", "no folder")]
)
def test_what_cannot_be_drawn_is_refused_early(tmp_path: Path, name: str, found: str) -> None:
    with pytest.raises(plot.PlotError, match=found):
        plot.check(tmp_path / name)


def test_absent_matplotlib_is_said_with_the_fix(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    found = importlib.util.find_spec
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None if name == "matplotlib" else found(name))
    with pytest.raises(plot.PlotError, match=r"matplotlib is not installed.*tutti-hal\[report\]"):
        plot.check(tmp_path / "p.png")

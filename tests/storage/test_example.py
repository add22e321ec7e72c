"""The reference workload: its counts are those of its shape, its bytes are right, and wrong ones are told."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.storage

EXAMPLE = Path(__file__).resolve().parents[2] / "examples" / "layerwise_kv_overlap"


def test_it_runs_and_adds_up(tmp_path: Path) -> None:
    options = "--preset small --layers 5 --ctx-tokens 2560 --hit-pct 70 --requests 2 --drives 3 --compute-factor 0.5"
    plot = tmp_path / "line.svg"
    done = subprocess.run(
        [sys.executable, "-W", "error", EXAMPLE, *options.split(), "--json", "--plot", plot],
        capture_output=True,
        text=True,
        timeout=110,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    told = json.loads(done.stdout)
    assert told["shape"] == {"layers": 5, "chunks": 10, "hits": 7, "misses": 3}
    assert told["counts"] == {"submits": 20, "read_tensors": 140, "written_tensors": 60, "right": True}
    assert (told["read_bytes"], told["written_bytes"]) == (140 * 32768, 60 * 32768)
    # Every byte that was read, and every byte of what the last request wrote.
    assert (told["compared_bytes"], told["wrong_bytes"]) == ((140 + 30) * 32768, 0)
    assert told["verified"] is True
    assert told["stall_s"] == pytest.approx(told["wall_s"] - told["compute_s"])
    assert len(told["layers"]) == 5
    assert plot.stat().st_size > 1000

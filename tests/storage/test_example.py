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
    assert told["shape"] == {"layers": 5, "chunks": 10, "hits": 7, "misses": 3, "tensors": 2}
    assert told["counts"] == {"submits": 20, "read_tensors": 140, "written_tensors": 60, "right": True}
    assert (told["read_bytes"], told["written_bytes"]) == (140 * 32768, 60 * 32768)
    # Every byte that was read, and every byte of what the last request wrote.
    assert (told["compared_bytes"], told["wrong_bytes"]) == ((140 + 30) * 32768, 0)
    assert told["verified"] is True
    assert told["stall_s"] == pytest.approx(told["wall_s"] - told["compute_s"])
    assert len(told["layers"]) == 5
    assert plot.stat().st_size > 1000


def test_a_models_preset_sets_what_is_not_given() -> None:
    """MLA: one tensor of 288 KiB of a chunk, which is three commands of 128 KiB at most."""
    options = (
        "--preset deepseek-v3 --layers 3 --ctx-tokens 1024 --hit-pct 50 --requests 1 --drives 2 --compute-factor 0"
    )
    done = subprocess.run(
        [sys.executable, "-W", "error", EXAMPLE, *options.split(), "--json"],
        capture_output=True,
        text=True,
        timeout=110,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    told = json.loads(done.stdout)
    assert (told["shape"]["layers"], told["shape"]["tensors"], told["tensor_bytes"]) == (3, 1, 288 << 10)
    assert told["counts"] == {"submits": 6, "read_tensors": 6, "written_tensors": 6, "right": True}
    assert told["verified"] is True


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ("--preset deepseek-v3 --chunk-tokens 16", "tensors of 18 KiB: use a multiple of 4"),
        ("--preset llama", "invalid choice: 'llama'"),
        ("--ctx-tokens 100", "less than one chunk of 256"),
        ("--drives 0", "--drives 0: use 1 or more"),
    ],
)
def test_a_shape_that_cannot_be_is_told(options: str, words: str) -> None:
    done = subprocess.run(
        [sys.executable, EXAMPLE, *options.split()], capture_output=True, text=True, timeout=60, check=False
    )
    assert done.returncode == 2
    assert words in done.stderr

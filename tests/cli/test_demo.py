"""The demo end to end on small sizes: what it prints, what it proves, and every way in which it must fail."""

from __future__ import annotations

import hashlib
import json
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tutti_hal.cli.main import main
from tutti_hal.workload.generator import generate_trace
from tutti_hal.workload.trace import write_trace

SMALL = ["--profile", "host", "--requests", "8", "--layers", "2", "--cache-mib", "64", "--compute-us", "50"]


def _json(capsys: pytest.CaptureFixture[str], *options: str, code: int = 0) -> dict[str, Any]:
    assert main(["demo", *options, "--json"]) == code
    summary = json.loads(capsys.readouterr().out)
    assert isinstance(summary, dict)
    return summary


def test_replay_verifies_and_says_what_it_used(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    summary = _json(capsys, *SMALL, "--dir", str(tmp_path))
    assert summary["verified"] is True
    assert summary["reasons"] == []
    assert summary["profile"].startswith("host:threads-w")
    assert summary["mode"] == "threads"
    assert summary["emulated"] is True
    assert summary["direct_io"] is (summary["medium"] == "files") is True
    assert "software controller, emulated" in summary["controller"]
    assert summary["hits"] > 0
    tensors = (summary["hits"] + summary["misses"]) * 2 * 2
    assert summary["bytes_read"] == summary["hits"] * 2 * 2 * 32 * 1024 == summary["bytes_verified"]
    assert summary["commands"] == tensors, "one command a tensor, counted by the controllers"
    assert sum(summary["drive_read_bytes"]) == summary["bytes_read"]
    assert sum(summary["drive_written_bytes"]) == summary["bytes_written"]
    shares = np.array(summary["drive_written_bytes"]) / summary["bytes_written"]
    assert abs(shares - 0.25).max() < 0.05, "tensors go round-robin"
    assert 0 < summary["doorbells_per_command"] <= 1
    assert summary["doorbells_seen"] <= summary["doorbells"]
    assert 0 < summary["host_calls_per_batch"] < 12, "O(1) host work a batch"
    assert "2 of 32 layers" in summary["scaled"][0]
    assert list(tmp_path.iterdir()) == [], "the drives' files are gone"


def test_memory_drives_are_said_to_be_memory(capsys: pytest.CaptureFixture[str]) -> None:
    summary = _json(capsys, *SMALL, "--memory", "--drives", "3")
    assert summary["verified"] is True
    assert (summary["medium"], summary["direct_io"], summary["drives"]) == ("memory", False, 3)
    assert summary["ceilings_gb_per_s"]["medium"] is None
    assert summary["ceilings_gb_per_s"]["one_drive"] > 0


def test_plain_lines_on_a_pipe(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["demo", *SMALL, "--memory"]) == 0
    text = capsys.readouterr().out
    assert "\x1b" not in text
    for fact in ("host:threads", "mode threads", "software controller, emulated", "Llama-3-8B", "2 of 32 layers"):
        assert fact in text
    assert "replaying: 8/8 requests" in text
    assert text.splitlines()[-1].startswith("VERIFIED: ")


def test_a_real_trace_file_is_replayed(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    path = tmp_path / "trace.jsonl"
    write_trace(path, generate_trace(9, 12))
    summary = _json(capsys, *SMALL[:2], "--trace", str(path), "--layers", "1", "--memory", "--requests", "500")
    assert summary["verified"] is True
    assert summary["requests"] == 12
    assert "holds 12 of the 500" in summary["trace"]


def test_saved_trace_gives_the_same_run(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    path = tmp_path / "trace.jsonl"
    first = _json(capsys, *SMALL, "--memory", "--save-trace", str(path))
    second = _json(capsys, *SMALL, "--memory", "--trace", str(path))
    same = ("hits", "misses", "evicted", "bytes_read", "drive_read_bytes", "drive_written_bytes", "commands")
    assert [first[k] for k in same] == [second[k] for k in same]


@pytest.mark.parametrize("medium", ["files", "memory"])
def test_corrupt_names_object_drive_and_offset(capsys: pytest.CaptureFixture[str], tmp_path: Path, medium: str) -> None:
    where = ["--memory"] if medium == "memory" else ["--dir", str(tmp_path)]
    summary = _json(capsys, *SMALL, *where, "--corrupt", "3", code=1)
    assert summary["verified"] is False
    assert len(summary["wrong_objects"]) == 3
    for wrong, reason in zip(summary["wrong_objects"], summary["reasons"], strict=True):
        assert wrong["object"].startswith("hash ")
        assert wrong["object"] in reason
        assert f"on drive {wrong['drive']} " in reason
        assert f"byte offset {wrong['drive_offset']}" in reason
        assert wrong["expected_crc32"] != wrong["found_crc32"]
        assert ("drive" in wrong["medium"]) is (medium == "files")


def test_corrupt_speaks_to_a_person(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["demo", *SMALL, "--memory", "--corrupt", "1"]) == 1
    text = capsys.readouterr().out
    assert "NOT VERIFIED" in text
    assert "at byte offset" in text.splitlines()[-1]


def test_a_run_without_a_hit_fails_and_says_so(capsys: pytest.CaptureFixture[str]) -> None:
    summary = _json(capsys, *SMALL, "--memory", "--requests", "1", code=1)
    assert summary["hits"] == 0
    assert "no hash id was hit" in summary["reasons"][0]


@pytest.mark.parametrize("size", [1, 5_000_001])
def test_file_comes_back_with_the_same_sha256(capsys: pytest.CaptureFixture[str], tmp_path: Path, size: int) -> None:
    source = tmp_path / "model.bin"
    source.write_bytes(np.random.default_rng(1).bytes(size))
    summary = _json(capsys, "--profile", "host", "--file", str(source))
    digest = hashlib.sha256(source.read_bytes()).hexdigest()
    assert summary["verified"] is True
    assert summary["source_sha256"] == summary["target_sha256"] == digest
    assert hashlib.sha256((tmp_path / "model.bin.roundtrip").read_bytes()).hexdigest() == digest
    assert sum(summary["drive_read_bytes"]) >= size


def test_corrupt_file_fails_and_leaves_no_copy(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    source = tmp_path / "model.bin"
    source.write_bytes(np.random.default_rng(1).bytes(300_000))
    options = ["--profile", "host", "--memory", "--file", str(source), "--out", str(tmp_path / "copy")]
    summary = _json(capsys, *options, "--corrupt", "2", code=1)
    assert len(summary["wrong_objects"]) == 2
    assert str(source) in summary["reasons"][0]
    assert not (tmp_path / "copy").exists()


def test_plot_is_drawn(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    path = tmp_path / "demo.png"
    _json(capsys, *SMALL, "--memory", "--plot", str(path))
    assert path.read_bytes().startswith(b"\x89PNG")


# ---- what must be refused: before anything runs, with what was found and what to do


@pytest.mark.parametrize(
    ("options", "code", "said"),
    [
        (["--profile", "hots"], 1, "did you mean 'host'"),
        (["--profile", "host:threads-w33"], 1, "threads-w32"),
        (["--profile", "host:sim-w32"], 1, "mode sim"),
        (["--profile", "host", "--plot", "x.bmp"], 1, "TT-PLOT"),
        (["--profile", "host", "--trace", "absent.jsonl"], 1, "opening the trace absent.jsonl"),
        (["--profile", "host", "--file", "absent"], 1, "no such file"),
        (["--profile", "host", "--file", "x", "--trace", "y"], 1, "does not go with --file"),
        (["--profile", "host", "--out", "x"], 1, "Give --file"),
        (["--profile", "host", "--layers", "33"], 1, "Llama-3-8B has 32"),
        (["--profile", "host", "--blocks-per-hash", "33"], 1, "Give 1 to 32"),
        (["--profile", "host", "--cache-mib", "1"], 1, "Raise --cache-mib"),
        (["--profile", "host", "--requests", "1", "--corrupt", "1"], 1, "only 0 are ever read"),
        (["--profile", "host", "--dir", "/absent"], 1, "TT-MEDIUM"),
        (["--profile", "host", "--requests", "0"], 2, "0 is not between 1"),
        (["--profile", "host", "--requests", "many"], 2, "not a whole number"),
        (["--profile", "host", "--drives", "65"], 2, "65 is not between"),
        (["--profile", "host", "--memory", "--dir", "."], 2, "not allowed with"),
    ],
)
def test_bad_options_are_refused(capsys: pytest.CaptureFixture[str], options: list[str], code: int, said: str) -> None:
    try:
        got: object = main(["demo", *options])
    except SystemExit as left:
        got = left.code
    assert got == code
    captured = capsys.readouterr()
    assert said in captured.err
    assert captured.out == ""


def test_misspelt_variable_is_refused_with_the_near_miss(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TUTTI_PROFILE", "hots")
    assert main(["demo"]) == 1
    assert "did you mean 'host'" in capsys.readouterr().err


def test_nothing_named_lists_the_candidates(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("TUTTI_PROFILE", raising=False)
    assert main(["demo"]) == 1
    text = capsys.readouterr().err
    assert "TT-PROFILE-AMBIGUOUS" in text
    assert "host: usable when named" in text


def test_broken_trace_line_is_named(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    path = tmp_path / "trace.jsonl"
    write_trace(path, generate_trace(1, 5))
    lines = path.read_text().splitlines()
    lines[3] = lines[3][:-5]
    path.write_text("\n".join(lines))
    assert main(["demo", *SMALL, "--trace", str(path)]) == 1
    assert f"{path}:4" in capsys.readouterr().err


def test_full_disk_is_refused_before_anything_runs(capsys: pytest.CaptureFixture[str], tiny_disk: Path) -> None:
    assert main(["demo", *SMALL, "--dir", str(tiny_disk)]) == 1
    assert "No space left" in capsys.readouterr().err
    assert [p.name for p in tiny_disk.iterdir()] == ["lost+found"]


# ---- signals


def _threads_and_children(pid: int) -> list[str]:
    done = subprocess.run(["ps", "--ppid", str(pid), "-o", "pid="], check=False, capture_output=True, text=True)
    return done.stdout.split()


@pytest.fixture
def started(tmp_path: Path) -> Iterator[subprocess.Popen[str]]:
    """A long replay over files in ``tmp_path``, once it is in the middle."""
    command = [sys.executable, "-m", "tutti_hal", "demo", "--profile", "host", "--requests", "3000"]
    command += ["--layers", "2", "--cache-mib", "64", "--dir", str(tmp_path), "--seed", "3"]
    child = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, start_new_session=True)
    deadline = time.monotonic() + 60
    while time.monotonic() < deadline and not list(tmp_path.glob("*/drive3.img")) and child.poll() is None:
        time.sleep(0.05)
    time.sleep(1.5)
    assert child.poll() is None, child.communicate()
    yield child
    if child.poll() is None:
        child.kill()
        child.wait()


@pytest.mark.parametrize(("signum", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_a_signal_in_the_middle_leaves_nothing_behind(
    started: subprocess.Popen[str], tmp_path: Path, signum: signal.Signals, code: int
) -> None:
    started.send_signal(signum)
    _, err = started.communicate(timeout=30)
    assert started.returncode == code, err
    assert "Traceback" not in err
    assert list(tmp_path.iterdir()) == []
    assert _threads_and_children(started.pid) == []
    if signum == signal.SIGINT:
        assert "interrupted" in err


def test_ctrl_c_in_a_file_round_trip_leaves_the_source_whole_and_no_part(tmp_path: Path) -> None:
    source = tmp_path / "big.bin"
    source.write_bytes(np.random.default_rng(1).bytes(1 << 20) * 96)
    before = hashlib.sha256(source.read_bytes()).hexdigest()
    command = [sys.executable, "-m", "tutti_hal", "demo", "--profile", "host", "--file", str(source), "--memory"]
    child = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    deadline = time.monotonic() + 60
    while time.monotonic() < deadline and not list(tmp_path.glob(".*part*")) and child.poll() is None:
        time.sleep(0.01)
    child.send_signal(signal.SIGINT)
    _, err = child.communicate(timeout=30)
    assert child.returncode == 130, err
    assert [p.name for p in tmp_path.iterdir()] == ["big.bin"]
    assert hashlib.sha256(source.read_bytes()).hexdigest() == before

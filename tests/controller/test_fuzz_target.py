"""The fuzz target of the software controller, without a fuzzer: its kept corpus passes, and it notices mistakes."""

from __future__ import annotations

import importlib.util
import re
import shutil
import subprocess
import sys
from pathlib import Path
from types import ModuleType

import pytest

ROOT = Path(__file__).resolve().parents[2]
FUZZ = ROOT / "native" / "fuzz"

COMPLETION = "shard_completion.cpp"
TAIL = "tail >= sq.depth || added + sq.waiting() > sq.depth - 1"
ROOM = "(extras ? slots : 1) > cq.depth"
MOVE = "move(segment.bus + offset_, done, bytes)"
#: A mistake in one source of the controller, and what the target says of it.
MISTAKES = {
    "phase": (COMPLETION, "cq.phase = !cq.phase;", ";", "wrong phase"),
    "overrun": (COMPLETION, f"{ROOM} - 1", ROOM, "overrun"),
    "head": (COMPLETION, "sq.fetched - lag);", "sq.fetched - lag + 1);", "SQHD is ahead"),
    "twice": (COMPLETION, "completion.duplicate ? 2 : 1", "true ? 2 : 1", "not outstanding"),
    "refusal": ("shard.cpp", "finish(port, command, status::kCidConflict);", "pool_.give(command);", "never ended"),
    "doorbell": ("shard.cpp", TAIL, "tail >= sq.depth", "never fetched"),
    "fatal": ("shard.cpp", "controller_.fail(true);\n        return true;", "return true;", "unnoticed"),
    "unmapped": ("transfer.cpp", f"&& !{MOVE})\n            return false;", f")\n            {MOVE};", "unnoticed"),
}


@pytest.fixture(scope="module")
def script() -> ModuleType:
    if shutil.which("g++") is None:
        pytest.skip("g++ is not on this machine")
    spec = importlib.util.spec_from_file_location("fuzz_script", ROOT / ".ci" / "fuzz.py")
    assert spec
    assert spec.loader
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.mark.timeout(590)
def test_the_kept_corpus_passes() -> None:
    done = subprocess.run(
        [sys.executable, ROOT / ".ci" / "fuzz.py", "--replay", "--runs", "100"],
        check=False,
        capture_output=True,
        text=True,
        timeout=580,
    )
    assert done.returncode == 0, done.stderr[-3000:]
    kept = len(list((FUZZ / "corpus").iterdir()))
    assert f"{kept} inputs replayed, 100 mutated" in done.stdout


@pytest.mark.timeout(590)
@pytest.mark.parametrize("mistake", sorted(MISTAKES))
def test_a_mistake_is_noticed(script: ModuleType, mistake: str, tmp_path: Path) -> None:
    name, right, wrong, said = MISTAKES[mistake]
    text = (ROOT / "native" / "controller" / name).read_text(encoding="utf-8")
    assert text.count(right) == 1
    planted = tmp_path / name
    planted.write_text(text.replace(right, wrong), encoding="utf-8")
    program = script.replayer({name: planted})
    done = subprocess.run(
        [program, FUZZ / "corpus"],
        check=False,
        capture_output=True,
        text=True,
        timeout=300,
        cwd=tmp_path,
        env=script.ENVIRONMENT,
    )
    assert done.returncode != 0
    assert said in done.stderr


def test_the_corpus_stays_small() -> None:
    sizes = [each.stat().st_size for each in (FUZZ / "corpus").iterdir()]
    assert 20 < len(sizes) < 200
    assert sum(sizes) < 1 << 20


def test_seeds_speak_of_the_steps_that_there_are() -> None:
    session = (FUZZ / "session.cpp").read_text(encoding="utf-8")
    steps = re.search(r"enum class Step : uint8_t \{(.*?)\n\s+count,", session, re.S)
    assert steps
    spec = importlib.util.spec_from_file_location("fuzz_seeds", FUZZ / "seeds.py")
    assert spec
    assert spec.loader
    seeds = importlib.util.module_from_spec(spec)
    sys.modules["fuzz_seeds"] = seeds
    spec.loader.exec_module(seeds)
    assert list(seeds.STEPS) == re.findall(r"\w+", steps[1])
    assert len(seeds.sessions()) > 20

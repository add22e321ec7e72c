"""The engine and its fibres under AddressSanitizer, UndefinedBehaviorSanitizer and ThreadSanitizer.

A gate of its own, because it builds the engine twice: ``pytest tests/simt/check_sanitizers.py``.

ThreadSanitizer does not understand fences, so under it every fence is a read-modify-write of one word: plain races are
found, and no fence is proved. Only kernels are instrumented then, and only mode `threads` is run: in `sim` the engine
does the kernel's atomics, which ThreadSanitizer would not see.
"""

from __future__ import annotations

import os
import subprocess
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

NATIVE = Path(__file__).parents[2] / "native"
KERNELS = Path(__file__).parent / "kernels"
SANITIZERS = ("address,undefined", "thread")

#: mode, module, kernel, grid, block, arguments, outcome
RUNS = [
    (mode, *rest)
    for mode in ("threads", "sim")
    for rest in (
        ("schedule", "barrier_rounds", 3, 70, ("@", "@", "5"), 0),
        ("schedule", "barrier_early_exit", 1, 40, ("@",), 0),
        ("schedule", "barrier_mismatch", 1, 8, (), 2),
        ("schedule", "wait_across_blocks", 4, 8, ("@", "@"), 0),
        ("schedule", "shared_storage", 2, 20, ("@",), 0),
        ("schedule", "trap_one", 1, 40, ("5",), 4),
        ("schedule", "fenced_handover", 1, 4, ("@", "@"), 0),
        ("waves", "shuffle_from_first", 1, 70, ("@",), 0),
        ("waves", "ballot_of_the_gone", 1, 8, (), 4),
    )
]


@pytest.fixture(scope="module", params=SANITIZERS)
def sanitized(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Any:
    """Build the engine, its driver and the modules with one sanitizer; returns (name, run)."""
    folder = tmp_path_factory.mktemp("sanitized")
    compiler = os.environ.get("CXX", "g++")
    flags = ["-std=c++20", "-O1", "-g1", "-fPIC", "-fno-omit-frame-pointer", f"-fsanitize={request.param}"]
    flags += ["-fno-sanitize-recover=all", "-Wno-tsan", "-I", str(NATIVE), "-I", str(NATIVE / "include")]
    machine = os.uname().machine
    sources = [*sorted((NATIVE / "simt").glob("*.cpp")), NATIVE / "simt" / f"switch_{machine}.S"]
    sources += [NATIVE / "controller" / "iommu.cpp", KERNELS / "sanitize_main.cpp"]

    thread = request.param == "thread"
    engine_flags = ["-fno-sanitize=thread", "-DTUTTI_TSAN=1"] if thread else []

    def build(*arguments: str) -> None:
        done = subprocess.run([compiler, *flags, *arguments], capture_output=True, text=True, check=False)
        if done.returncode != 0 and "cannot find" in done.stderr and "san" in done.stderr:
            pytest.skip(f"{compiler} has no runtime for {request.param}")
        assert done.returncode == 0, done.stderr

    def compile_one(source: Path) -> str:
        target = str(folder / f"{source.name}.o")
        build(*engine_flags, "-c", str(source), "-o", target)
        return target

    with ThreadPoolExecutor(os.cpu_count()) as workers:
        objects = list(workers.map(compile_one, sources))
    build(*objects, "-o", str(folder / "main"), "-ldl", "-pthread")
    for name in ("schedule", "waves"):
        for mode, number in (("threads", 0), ("sim", 1)):
            source = str(KERNELS / f"{name}.cpp")
            defines = [f"-DTT_HOST_MODE={number}", "-DTT_WAVE_WIDTH=32"]
            build(*defines, "-shared", source, "-o", str(folder / f"{name}-{mode}.so"))

    def run(mode: str, module: str, kernel: str, grid: int, block: int, arguments: tuple[str, ...]) -> Any:
        command = [str(folder / "main"), mode, str(folder / f"{module}-{mode}.so"), kernel, str(grid), str(block)]
        return subprocess.run([*command, *arguments], capture_output=True, text=True, check=False, timeout=60)

    return request.param, run


@pytest.mark.slow
@pytest.mark.timeout(900)
def test_nothing_is_reported(sanitized: Any) -> None:
    name, run = sanitized
    for *what, outcome in RUNS:
        if name == "thread" and what[0] == "sim":
            continue
        done = run(*what)
        assert done.returncode == 0, (what, done.stdout[-2000:], done.stderr[-4000:])
        assert f"outcome {outcome}" in done.stdout, (what, done.stdout)


@pytest.mark.slow
@pytest.mark.timeout(900)
def test_a_race_between_lanes_of_a_thread_is_found(sanitized: Any) -> None:
    """The control: lanes of one OS thread count as threads, so their plain race is reported."""
    name, run = sanitized
    done = run("threads", "schedule", "plain_race", 1, 2, ("@",))
    assert ("data race" in done.stderr) == (name == "thread"), done.stderr[-4000:]

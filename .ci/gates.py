"""Run the gates of docs/gates.md, each within its budget; all of them, or those named.

A gate passes when its command exits 0 within its budget. A gate whose tool is not on this machine is *not run*, and the
summary says so with the reason: it is never counted as passed.
"""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
PYTHON = str(ROOT / ".venv" / "bin" / "python")


@dataclass(frozen=True)
class Gate:
    """One gate: what runs, how long it may take, and why it may be absent."""

    name: str
    budget_s: int
    command: tuple[str, ...]
    what: str
    absent: Callable[[], str | None] = lambda: None


def _no_device_compiler() -> str | None:
    here = [name for name in ("nvcc", "clang-19") if shutil.which(name)]
    return None if here else "neither nvcc nor clang-19 is on this machine"


def _no_libfuzzer() -> str | None:
    from fuzz import fuzzing_compiler  # beside this file

    return None if fuzzing_compiler() else "no clang++ with libFuzzer is on this machine"


GATES = (
    Gate("lint", 60, ("make", "lint"), "ruff, clang-format"),
    Gate("types", 120, ("make", "types"), "mypy --strict on the package as installed"),
    Gate("test", 1080, ("make", "test"), "unit, property and quick conformance tests"),
    Gate("test-suite", 660, ("make", "test-suite"), "tests of the conformance suite itself"),
    Gate(
        "compile-matrix",
        300,
        ("make", "isa-matrix"),
        "every kernel for every arch that can be compiled here: instructions and resources",
        _no_device_compiler,
    ),
    Gate("conformance", 600, ("make", "certify"), "the suite on HOST, whole, and its evidence judged again"),
    Gate(
        "sims",
        240,
        ("make", "sims"),
        "a slice of the suite on the simulated MUSA, MACA and HIP, its evidence judged again",
    ),
    Gate(
        "campaign",
        180,
        (PYTHON, "-m", "tutti_hal.conformance_tests.campaign", "--commands", "100000"),
        "100,000 commands of random workloads with random faults against the reference model",
    ),
    Gate("mutants", 600, ("make", "self-test"), "20 mutants of the product, each noticed"),
    Gate("sanitizers", 480, (PYTHON, ".ci/sanitizers.py"), "native code under ASan+UBSan and TSan"),
    Gate("fuzz", 120, ("make", "fuzz-quick"), "the software controller under libFuzzer for 30 s", _no_libfuzzer),
    Gate("wheel", 180, (PYTHON, ".ci/wheel.py"), "sdist, wheel from the sdist, the demo in a clean environment"),
    Gate("docs", 120, ("make", "docs"), "the documentation builds without a warning"),
)


def run(gate: Gate) -> tuple[str, float]:
    """Run one gate in a process group of its own; returns its verdict and its seconds."""
    reason = gate.absent()
    if reason:
        print(f"== {gate.name}: not run: {reason}", flush=True)
        return "not run", 0.0
    print(f"== {gate.name}: {gate.what} (budget {gate.budget_s} s)", flush=True)
    start = time.monotonic()
    process = subprocess.Popen(gate.command, cwd=ROOT, start_new_session=True)
    try:
        code = process.wait(timeout=gate.budget_s)
    except subprocess.TimeoutExpired:
        print(f"== {gate.name}: outran its budget of {gate.budget_s} s", flush=True)
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()
        code = 124
    return ("pass" if code == 0 else "FAIL"), time.monotonic() - start


def main(names: list[str]) -> int:
    """Run the named gates, or all; print the summary; 0 when none failed, 2 on an unknown name."""
    known = {gate.name: gate for gate in GATES}
    unknown = [name for name in names if name not in known]
    if unknown:
        print(f"no gate named {', '.join(unknown)}; there are: {', '.join(known)}", file=sys.stderr)
        return 2
    results = [(gate, *run(gate)) for gate in GATES if not names or gate.name in names]
    print("\ngate             verdict   seconds  budget")
    for gate, verdict, seconds in results:
        print(f"{gate.name:<16} {verdict:<8} {seconds:8.1f} {gate.budget_s:7d}")
    counts = {verdict: sum(found == verdict for _, found, _ in results) for verdict in ("pass", "FAIL", "not run")}
    print(f"{counts['pass']} passed, {counts['FAIL']} failed, {counts['not run']} skipped")
    return 1 if counts["FAIL"] else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

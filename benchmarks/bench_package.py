"""What the package costs before it moves a byte: its import, and its HOST kernels cold and warm.

Each figure stands beside its baseline of the same run: an interpreter that imports nothing and one that imports NumPy;
the compiler on an empty unit.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from tutti_hal.machine import benchmark_facts

ROUNDS = 15


def seconds(command: list[str], env: dict[str, str] | None = None) -> float:
    """Wall time of one process."""
    start = time.perf_counter()
    subprocess.run(command, check=True, env=env, stdout=subprocess.DEVNULL)
    return time.perf_counter() - start


def imports() -> dict[str, float]:
    """Median milliseconds of an interpreter that imports nothing, NumPy, and this package; interleaved rounds."""
    statements = {"interpreter": "pass", "numpy": "import numpy", "tutti_hal": "import tutti_hal"}
    times: dict[str, list[float]] = {name: [] for name in statements}
    for _ in range(ROUNDS):
        for name, statement in statements.items():
            times[name].append(seconds([sys.executable, "-c", statement]))
    return {f"{name}_ms": round(1000 * statistics.median(values), 1) for name, values in times.items()}


BUILD = """
import sys, time
from tutti_hal.profile import resolve
from tutti_hal.toolchain import build_all
profile = resolve('host')
start = time.perf_counter()
built = build_all(profile)
print(time.perf_counter() - start, len(built), ','.join(sorted({b.origin for b in built})))
"""


def kernels() -> dict[str, object]:
    """Seconds to build every HOST kernel set of the default arch cold and warm, and the compiler on an empty unit."""
    with tempfile.TemporaryDirectory() as scratch:
        env = {**os.environ, "TUTTI_CACHE_DIR": str(Path(scratch) / "cache")}
        runs = [subprocess.check_output([sys.executable, "-c", BUILD], env=env, text=True).split() for _ in range(6)]
        empty = Path(scratch) / "empty.cpp"
        empty.write_text("", encoding="utf-8")
        compiler = shutil.which(os.environ.get("CXX", "g++")) or "g++"
        baseline = seconds([compiler, "-O2", "-shared", "-fPIC", str(empty), "-o", str(Path(scratch) / "empty.so")])
    assert runs[0][2] == "compiled", runs[0]
    assert all(run[2] == "cached" for run in runs[1:]), runs
    return {
        "kernel_sets": int(runs[0][1]),
        "cold_s": round(float(runs[0][0]), 2),
        "warm_ms": round(1000 * statistics.median(float(run[0]) for run in runs[1:]), 1),
        "empty_unit_s": round(baseline, 2),
    }


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--json", action="store_true", help="one JSON object instead of lines")
    arguments = parser.parse_args()
    figures = {"machine": benchmark_facts(), "import": imports(), "kernels": kernels()}
    print(json.dumps(figures, indent=2) if arguments.json else "\n".join(f"{k}: {v}" for k, v in figures.items()))


if __name__ == "__main__":
    main()

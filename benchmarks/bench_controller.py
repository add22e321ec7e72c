"""Commands per second and core of the software controller: 4 KiB from memory, and the null controller beside it.

`copy` is what the same copies cost without controller and host: the ceiling of a controller that moves data.

    python benchmarks/bench_controller.py [--commands N] [--json]

Host and controller run in one thread of a C++ driver (`controller_driver.cpp`), built here against the installed
library. The figure counts the thread's CPU time, the host's share in it, so it holds on a busy machine too; what a busy
machine still costs is cache and memory bandwidth. It exits 1 when the goal is missed.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
from pathlib import Path

from tutti_hal.machine import benchmark_facts
from tutti_hal.paths import include_dir, native_library

GOAL = 1_000_000

CASES = (
    ("copy", "read", 1, 64),
    ("copy", "read", 16, 64),
    ("null", "read", 1, 64),
    ("null", "read", 16, 64),
    ("software", "read", 1, 64),
    ("software", "read", 16, 64),
    ("software", "read", 16, 1024),
    ("software", "write", 16, 64),
)


def build(folder: Path) -> Path:
    """Compiles the driver; says so and ends the run when that fails."""
    library = native_library()
    driver = folder / "controller_driver"
    source = Path(__file__).with_name("controller_driver.cpp")
    command = ["g++", "-std=c++20", "-O2", "-Wall", "-Wextra", "-Werror", f"-I{include_dir()}", str(source)]
    command += [str(library), f"-Wl,-rpath,{library.parent}", "-o", str(driver)]
    try:
        subprocess.run(command, check=True)
    except (OSError, subprocess.CalledProcessError) as error:
        sys.exit(f"bench_controller: cannot build its driver: {error}")
    return driver


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--commands", type=int, default=2_000_000, help="measured in each case")
    parser.add_argument("--json", action="store_true", help="one JSON object on standard output")
    options = parser.parse_args()
    results = []

    def say(line: str) -> None:
        if not options.json:
            print(line)

    with tempfile.TemporaryDirectory() as folder:
        driver = build(Path(folder))
        say(f"{'controller':<10} {'opcode':<6} {'queues':>6} {'MiB':>5} {'M commands/CPU s':>17} {'SQEs/fetch':>11}")
        for kind, opcode, queues, mib in CASES:
            command = [str(driver), kind, opcode, str(queues), str(options.commands), str(mib)]
            out = json.loads(subprocess.run(command, check=True, capture_output=True, text=True).stdout)
            results.append({"controller": kind, "opcode": opcode, "queues": queues, "namespace_mib": mib, **out})
            rate = out["commands_per_cpu_second"] / 1e6
            say(f"{kind:<10} {opcode:<6} {queues:>6} {mib:>5} {rate:>17.2f} {out.get('sqes_per_fetch', 0):>11.1f}")
    reads = [r for r in results if r["controller"] == "software" and r["opcode"] == "read"]
    best = max(r["commands_per_cpu_second"] for r in reads)
    met = best >= GOAL
    verdict = "met" if met else "MISSED"
    say(f"goal {GOAL / 1e6:.1f} M commands/s a core, 4 KiB from memory: {verdict} ({best / 1e6:.2f} M)")
    if options.json:
        report = {"machine": benchmark_facts(), "block_bytes": 4096, "depth": 256, "goal": GOAL, "met": met}
        print(json.dumps({**report, "results": results}, indent=2))
    return 0 if met else 1


if __name__ == "__main__":
    sys.exit(main())

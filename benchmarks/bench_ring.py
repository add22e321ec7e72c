"""The ring end to end, beside its baselines of the same run: what ``tutti-hal bench ring --profile host`` measures.

python benchmarks/bench_ring.py [--write] [--batch N] [--depth N] [--time-limit S] [--json] [--plot FILE]
"""

from __future__ import annotations

import sys

from tutti_hal.cli.main import main

if __name__ == "__main__":
    sys.exit(main(["bench", "ring", "--profile", "host", *sys.argv[1:]]))

"""The storage runtime's costs beside their baselines: a loop of opens, and the ring alone.

    python benchmarks/bench_storage.py [--files 500,10000] [--profile host] [--json]

Drives are software controllers in memory (emulated). Files are real ones of the temporary folder, of which the drive
has the addresses only. Goals: 500 files in 10 ms, 10,000 in 200 ms, 2 us for a part of memory, 0.9 of the ring.
"""

from __future__ import annotations

import argparse
import json

from tutti_hal.bench.storage import Load, measure_storage
from tutti_hal.machine import benchmark_facts
from tutti_hal.profile import select


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--files", default="500,10000", metavar="N,N", help="opened at once")
    parser.add_argument("--profile", default="host", help="vendor[:arch[@sdk]]")
    parser.add_argument("--json", action="store_true", help="one JSON object on standard output")
    args = parser.parse_args()
    load = Load(files=tuple(int(part) for part in args.files.split(",")))
    result = {"machine": benchmark_facts(), **measure_storage(select(args.profile), load)}
    print(json.dumps(result, indent=2 if args.json else None))
    return 0


if __name__ == "__main__":
    raise SystemExit(main())

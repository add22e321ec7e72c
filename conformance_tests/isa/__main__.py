"""``make isa-matrix``: the compile matrix as a table; 0: nothing failed, 1: something did, 2: nothing ran."""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Sequence

from tutti_hal.conformance_tests.isa.baseline import write
from tutti_hal.conformance_tests.isa.matrix import VendorMatrix, run_vendor, vendors
from tutti_hal.conformance_tests.verdict import Verdict


def main(argv: Sequence[str] | None = None) -> int:
    """Run the matrix and print it."""
    known = vendors()
    parser = argparse.ArgumentParser(prog="python -m tutti_hal.conformance_tests.isa", description=__doc__)
    parser.add_argument("--vendor", action="append", choices=known, help="only this one; may be repeated")
    parser.add_argument("--jobs", type=int, default=len(os.sched_getaffinity(0)), help="compilers at work at once")
    parser.add_argument("--update-baseline", action="store_true", help="write the figures of the kernels anew")
    args = parser.parse_args(argv)
    found = []
    for vendor in args.vendor or known:
        matrix = run_vendor(vendor, args.jobs)
        for line in _lines(matrix):
            print(line, flush=True)
        if args.update_baseline and matrix.built:
            print(f"  wrote {write(vendor, matrix.built)}")
        found.append(matrix)
    if all(one.absent for one in found):
        print("nothing was run")
        return 2
    return 0 if all(one.passed for one in found) else 1


def _lines(matrix: VendorMatrix) -> list[str]:
    if matrix.absent:
        return [f"{matrix.vendor}: not run: {matrix.absent}"]
    if matrix.failed:
        return [f"{matrix.vendor}: FAIL: {matrix.failed}"]
    lines = [f"{matrix.vendor}: {matrix.compiler}, {matrix.seconds:.0f} s; compile-only"]
    for row in matrix.rows:
        passed = sum(one.verdict in (Verdict.PASS, Verdict.XPASS) for one in row.judgements)
        lines.append(
            f"  {row.arch:<10} {row.modules} kernel sets, {row.kernels} kernels compiled; "
            f"{passed} of {len(row.judgements)} cases pass"
        )
        lines += [f"    {one.verdict} {one.id}: {one.reason[:400]}" for one in row.bad]
        known = [one for one in row.expected if one.verdict is Verdict.XFAIL]
        lines += [f"    {one.verdict} {one.id}: {one.reason.partition('. (')[0]}" for one in known]
    lines += [f"  {name} passes on every arch: take it off the expected failures" for name in matrix.outlived]
    if matrix.resources is None:
        lines.append(f"  resources not compared: {matrix.unweighed}")
        return lines
    lines.append(f"  resources: {matrix.resources.compared} figures compared with the baseline")
    lines += [f"    GROWN {one}" for one in matrix.resources.grown]
    lines += [f"    LACKING {one}; run with --update-baseline" for one in matrix.resources.lacking]
    lines += [f"    {one}" for one in matrix.resources.said]
    return lines


if __name__ == "__main__":
    sys.exit(main())

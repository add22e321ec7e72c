"""``python -m tutti_hal.conformance_tests.explore``: all schedules of the ring's pieces, with larger bounds than in CI.

The same observing half and the same judge as of the case ``ring/explored``. Exit status: 0 each piece was gone through
to its end and nothing was wrong, 1 something was wrong, 2 it could not run, or the time was over before all pieces.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass

from tutti_hal.conformance_tests.case import Instance
from tutti_hal.conformance_tests.cases.l5_ring.exploration import BOUNDS, LONG, PIECES, explored
from tutti_hal.conformance_tests.execute import execute, prepare
from tutti_hal.conformance_tests.judgement import judge
from tutti_hal.conformance_tests.subject import Subject, SubjectSpec
from tutti_hal.conformance_tests.terms import Terms
from tutti_hal.conformance_tests.verdict import Verdict
from tutti_hal.errors import TuttiError
from tutti_hal.spec import load_spec

#: Of the arch nothing but the width of a wave matters, and no piece has a wave of more than eight lanes.
ARCH = "sim-w32"


@dataclass(frozen=True)
class Row:
    """How far a piece came.

    Attributes:
        piece: which.
        bounds: pre-emptions and reads of older values.
        schedules: runs that were taken, cut ones among them.
        states: in which they were.
        exhausted: whether there is no other one within the bounds.
        cpu_s: seconds of this process.
        verdict: of the judge.
        reason: why it is not a pass.
    """

    piece: str
    bounds: str
    schedules: int
    states: int
    exhausted: bool
    cpu_s: float
    verdict: str
    reason: str


def plan(pieces: Sequence[str] = (), bounds: Sequence[str] = ()) -> list[tuple[str, str]]:
    """What is gone through: all that the case takes on this arch, then what only the long form takes; or what is named.

    Where both pieces and bounds are named, it is all of their pairs, however long that takes.
    """
    if pieces and bounds:
        return [(piece, bound) for piece in pieces for bound in bounds]
    suite = [(piece, str(bound)) for bound in explored.axes["bounds"] for piece in PIECES]
    every = [*(one for one in suite if one not in LONG), *LONG]
    return [one for one in every if (not pieces or one[0] in pieces) and (not bounds or one[1] in bounds)]


def explore(subject: Subject, piece: str, bounds: str) -> Row:
    """One piece within one pair of bounds, judged."""
    instance = Instance(explored, {"piece": piece, "bounds": bounds}, ARCH)
    prepare(subject, instance)
    began = time.process_time()
    outcome = execute(subject, instance, instance.seed(1))
    seconds = time.process_time() - began
    found = judge(instance, outcome, subject.facts, Terms(load_spec()))
    seen = outcome.observations
    counted = int(seen.get("runs", 0)), int(seen.get("states", 0)), bool(seen.get("complete", False))
    return Row(piece, bounds, *counted, round(seconds, 2), found.verdict.value, found.reason)


def main(argv: Sequence[str] | None = None) -> int:
    """Run it; the exit status."""
    parser = argparse.ArgumentParser(prog="explore", description="All schedules of the ring's pieces, within bounds.")
    parser.add_argument("--piece", action="append", default=[], choices=PIECES, help="only these (all)")
    parser.add_argument("--bounds", action="append", default=[], choices=BOUNDS, help="only these (all)")
    parser.add_argument("--templates", default="", help="another root of kernel templates")
    parser.add_argument(
        "--time-limit", type=float, default=0.0, metavar="SECONDS", help="begin no piece later; 0: none"
    )
    parser.add_argument("--json", action="store_true", help="one JSON object on standard output")
    args = parser.parse_args(argv)
    todo = plan(args.piece, args.bounds)
    if not todo:
        print("none of these pieces is gone through within these bounds; name both", file=sys.stderr)
        return 2
    rows: list[Row] = []
    began = time.monotonic()
    try:
        subject = Subject(SubjectSpec("host", ARCH, templates=args.templates))
        for piece, bounds in todo:
            if args.time_limit and time.monotonic() - began > args.time_limit:
                break
            rows.append(explore(subject, piece, bounds))
            row = rows[-1]
            said = f"{row.schedules} schedules, {row.states} states, {row.cpu_s} s of CPU: {row.verdict} {row.reason}"
            print(f"explore: {piece} {bounds}: {said}".rstrip(), file=sys.stderr)
    except TuttiError as error:
        print(error, file=sys.stderr)
        return 2
    wrong = [row for row in rows if row.verdict != Verdict.PASS or not row.exhausted]
    result = {
        "asked": len(todo),
        "pieces": len(rows),
        "schedules": sum(row.schedules for row in rows),
        "states": sum(row.states for row in rows),
        "exhausted": sum(row.exhausted for row in rows),
        "cpu_s": round(sum(row.cpu_s for row in rows), 1),
        "wrong": [asdict(row) for row in wrong],
        "rows": [asdict(row) for row in rows],
    }
    if args.json:
        json.dump(result, sys.stdout, indent=1)
        print()
    else:
        print(f"{result['pieces']} of {len(todo)} pieces, {result['schedules']} schedules, {len(wrong)} pieces wrong")
    if wrong:
        return 1
    return 0 if len(rows) == len(todo) else 2


if __name__ == "__main__":
    raise SystemExit(main())

"""``tutti-hal port-status``: the first red rung of a port, with the clause and what to do."""

from __future__ import annotations

import argparse
import json
from dataclasses import asdict
from pathlib import Path

from tutti_hal.cli.arguments import whole_number

EPILOG = """\
It runs no case, and takes two seconds at most (--within gives it longer). L0: the record and its expectations are read,
and no fact of a scaffold is left unanswered. L1: nothing is missing, the kernels render. L2: the compiler is found, the
runtime opens and has every function that is claimed. What a package of evidence says (--evidence, else out/NAME) counts
from there on, as long as it was made with the record that is installed.

exit: 0, whatever colour; 1 when there is no such backend or no such evidence.

examples:
  tutti-hal port-status acme
  tutti-hal port-status acme-sim --evidence out/acme-sim --json
"""


def configure(parser: argparse.ArgumentParser) -> None:
    """Declare the verb's options."""
    parser.epilog = EPILOG
    parser.add_argument("name", metavar="NAME", help="an installed backend, or its simulated SDK (NAME-sim)")
    parser.add_argument("--evidence", type=Path, metavar="DIR", help="a package of certify --out (default: out/NAME)")
    parser.add_argument("--within", type=whole_number(1), default=2, metavar="S", help="seconds to look for (2)")
    parser.add_argument("--json", action="store_true", help="print one JSON object")


def run(args: argparse.Namespace) -> int:
    """Look and print.

    Returns:
        0.

    Raises:
        ProfileUnknown: no such backend is installed.
        NotAPackage: ``--evidence`` is none.
    """
    from tutti_hal.conformance_tests.porting import port_status

    kept = Path("out") / args.name
    status = port_status(args.name, args.evidence or (kept if (kept / "run.json").is_file() else None), args.within)
    if args.json:
        print(json.dumps({"schema": 1, **asdict(status)}, indent=1))
        return 0
    if status.red is None:
        print(f"{status.vendor}: nothing that was looked at is red")
    else:
        red = status.red
        print(f"{status.vendor}: the first red rung is {red.level}, {red.clause}")
        print(f"  found: {red.found}")
        print(f"  do:    {red.hint}")
        print(f"  where: {red.where}")
    for level, how in status.looked.items():
        print(f"  {level}: {how}")
    print(f"next: {status.next}")
    return 0

"""``tutti-hal verify``: is a package true? Every verdict is worked out again from what was observed."""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tutti_hal.conformance_tests.package.verification import Verification

_EPILOG = """\
No device is needed, and no code of the package is run: the judges are those of the installed product. Sums, schemas,
record, seeds, expected ids, verdicts, ladder, JUnit and report are worked out again; every difference is named with
file and line. Several folders are the shards of one run.

Where the installed product is not the one that was certified, the package is *stale*: judged again by the cases that
are the same as then; what is not judged again is named, and keeps its level from being passed.

examples:
  tutti-hal verify DIR
  tutti-hal verify shard1 shard2 shard3      all shards of one run
  tutti-hal verify DIR --as hardware         a run on a simulated SDK, or on the CPU's engine, is refused
  tutti-hal verify DIR --fresh               a package of another product than the installed one is refused
  tutti-hal verify --submission host/emulated-2031-12-31     would the registry take it? What is wrong is named
  tutti-hal verify DIR --signer acme.pub.pem     and whoever has that key answers for it
  tutti-hal verify DIR --json

exit: 0 verified, or verified and stale; 1 refused; 2 wrong usage, or no package.
"""

#: Refusals that are printed; the rest is counted.
_TOLD = 50


def configure(parser: argparse.ArgumentParser) -> None:
    """Declare the verb's options."""
    parser.epilog = _EPILOG
    parser.add_argument("folders", nargs="+", type=Path, metavar="DIR", help="a package, or all shards of a run")
    parser.add_argument(
        "--cases",
        action="append",
        default=[],
        metavar="PATH",
        help="extra cases of the run: they are code, so name them",
    )
    parser.add_argument(
        "--as",
        dest="provenances",
        action="append",
        default=[],
        choices=("hardware", "emulated", "simulated"),
        help="refuse a run on anything else; may be repeated",
    )
    parser.add_argument(
        "--fresh", action="store_true", help="refuse a package of another product than the installed one"
    )
    parser.add_argument(
        "--submission", action="store_true", help="check one package as the registry does (docs/submitting.md)"
    )
    parser.add_argument(
        "--signer",
        dest="signers",
        action="append",
        default=[],
        type=Path,
        metavar="FILE",
        help="refuse a package that this public key has not signed (tutti-hal sign); may be repeated: any of them",
    )
    parser.add_argument(
        "--report", type=Path, metavar="FILE", help="write the report as it was worked out again, with what is stale"
    )
    parser.add_argument("--json", action="store_true", help="print one JSON object")


def run(args: argparse.Namespace) -> int:
    """Verify.

    Returns:
        0 when nothing was refused, 1 when something was, 2 when there was nothing to verify.
    """
    from tutti_hal.conformance_tests.errors import ConformanceError
    from tutti_hal.conformance_tests.package.verification import verify

    try:
        if args.submission:
            return _submission(args)
        found = verify(
            args.folders, cases=args.cases, provenances=args.provenances, fresh=args.fresh, signers=args.signers
        )
    except ConformanceError as error:
        print(f"tutti-hal verify: {error}", file=sys.stderr)
        return 2
    if args.report and found.session is not None and not found.refusals:
        from tutti_hal.conformance_tests.report.html import render

        page = render(found.session, [("stale", line) for line in found.how_stale])
        args.report.write_text(page, encoding="utf-8")
    if args.json:
        print(json.dumps(found.to_json(), indent=1))
    else:
        _print(found)
    return 1 if found.refusals else 0


def _submission(args: argparse.Namespace) -> int:
    from tutti_hal.conformance_tests.package.submission import check_submission

    if len(args.folders) != 1 or args.cases:
        print("tutti-hal verify: --submission takes one package, without --cases", file=sys.stderr)
        return 2
    found = check_submission(args.folders[0], signers=args.signers)
    if args.json:
        certificate = found.certificate.to_json() if found.certificate else None
        table = {"schema": 1, "fit": not found.problems, "problems": list(found.problems)}
        print(json.dumps({**table, "certificate": certificate}, indent=1))
    elif (one := found.certificate) is not None:
        print(f"fit for the registry: {one.folder}: {one.level}, {one.provenance}")
    else:
        for problem in found.problems:
            print(f"not fit: {problem}")
    return 1 if found.problems else 0


def _print(found: Verification) -> None:
    from tutti_hal.conformance_tests.package.findings import printable

    for refusal in found.refusals[:_TOLD]:
        print(refusal)
    if len(found.refusals) > _TOLD:
        print(f"... and {len(found.refusals) - _TOLD} more")
    for remark in found.remarks:
        print(f"remark: {printable(remark)}")
    for line in found.how_stale:
        print(f"stale: {line}")
    where = ", ".join(map(printable, found.packages))
    if found.refusals or found.session is None:
        number = len(found.refusals)
        print(f"refused: {where}: {number} finding{'' if number == 1 else 's'}; it certifies nothing")
        return
    session = found.session
    first, waiting = session.ladder.first_red, session.ladder.first_open
    red = f"; {waiting.name} is incomplete: {waiting.waits_for}" if waiting else ""
    red = f"; the first red rung is {first.name}" if first else red
    again = len(session.judgements) - len(found.stale.not_judged if found.stale else ())
    then = f"; by its own verdicts then: {found.stale.certified}; today: " if found.stale else "; "
    print(
        f"{found.word}: {where}: {again} verdicts worked out again from {len(session.outcomes)} "
        f"observations, seed {session.options.seed}{then}{found.certifies}{red}"
    )

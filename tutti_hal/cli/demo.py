"""``tutti-hal demo``: a KV-cache workload, or any file, through the rings to drives and back, every byte judged."""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from tutti_hal.cli.arguments import whole_number
from tutti_hal.errors import DemoError

if TYPE_CHECKING:
    pass

_EXAMPLES = """\
examples:
  tutti-hal demo --profile host                       a generated trace, four drives over files
  tutti-hal demo --profile host --plot demo.png       ... and a picture
  tutti-hal demo --profile host --trace FILE --requests 200 --json
                                                      a real trace in the Mooncake JSONL format
  tutti-hal demo --profile host --file PATH           PATH to the drives and back to PATH.roundtrip
  tutti-hal demo --profile host --corrupt 1           spoil one object behind the controller's back: must fail

exit: 0 every byte verified and at least one hit; 1 not; 2 wrong usage; 130 Ctrl-C (nothing is left behind).
"""


#: Its first 24 requests share prefixes about as much as the published trace does on the whole.
_SEED = 7


def configure(parser: argparse.ArgumentParser) -> None:
    """The verb's options."""
    parser.epilog = _EXAMPLES
    parser.add_argument("--profile", help="vendor[:arch[@sdk]]; outranks TUTTI_PROFILE")
    work = parser.add_argument_group("what is moved")
    work.add_argument(
        "--requests", type=whole_number(1), metavar="N", help="requests to replay (default 24; 200 of a trace file)"
    )
    work.add_argument(
        "--seed", type=whole_number(0, 2**64 - 1), default=_SEED, help=f"of trace, bytes and faults (default {_SEED})"
    )
    work.add_argument("--trace", type=Path, metavar="FILE", help="a trace in the Mooncake JSONL format")
    work.add_argument("--save-trace", type=Path, metavar="FILE", help="write the requests that are replayed")
    work.add_argument("--file", type=Path, metavar="PATH", help="send this file instead of a trace")
    work.add_argument("--out", type=Path, metavar="PATH", help="with --file: where the copy goes (PATH.roundtrip)")
    model = parser.add_argument_group("how much of the model")
    model.add_argument(
        "--layers", type=whole_number(1), metavar="N", help="layers stored (as many of 32 as the budget allows)"
    )
    model.add_argument("--blocks-per-hash", type=whole_number(1), metavar="N", help="of 32 16-token blocks (default 1)")
    model.add_argument(
        "--budget-mib", type=whole_number(1), default=1024, metavar="MIB", help="bytes moved (default 1024)"
    )
    model.add_argument(
        "--compute-us",
        type=whole_number(0, 10**6),
        default=500,
        metavar="US",
        help="compute stand-in a layer (default 500)",
    )
    drives = parser.add_argument_group("drives")
    drives.add_argument(
        "--drives", type=whole_number(1, 64), default=4, metavar="N", help="software drives (default 4)"
    )
    drives.add_argument(
        "--cache-mib", type=whole_number(1), default=512, metavar="MIB", help="of all drives together (default 512)"
    )
    medium = drives.add_mutually_exclusive_group()
    medium.add_argument(
        "--dir", type=Path, metavar="DIR", help="where the drives' files go, for the run (a temporary folder)"
    )
    medium.add_argument("--memory", action="store_true", help="drives in memory, no files")
    out = parser.add_argument_group("what comes out")
    out.add_argument(
        "--corrupt", type=whole_number(0), default=0, metavar="N", help="flip a byte on a drive in N objects"
    )
    out.add_argument("--plot", type=Path, metavar="FILE", help="a picture: .png, .svg or .pdf")
    out.add_argument("--json", action="store_true", help="one JSON object on standard output, nothing else")


def run(args: argparse.Namespace) -> int:
    """Runs the demo.

    Returns:
        0 when verified, else 1.

    Raises:
        TuttiError: no profile, broken input, no room for the drives, a drive that refuses.
    """
    _check_combination(args)
    from tutti_hal.profile import select

    profile = select(args.profile)
    if args.plot is not None:
        from tutti_hal.workload import plot

        plot.check(args.plot)
    if args.file is not None:
        from tutti_hal.cli.demo_file import run_file

        summary = run_file(args, profile)
    else:
        from tutti_hal.cli.demo_replay import run_replay

        summary = run_replay(args, profile)
    if args.json:
        json.dump(summary, sys.stdout, indent=2)
        print()
    return 0 if summary["verified"] else 1


def _check_combination(args: argparse.Namespace) -> None:
    def refuse(option: str, other: str, fix: str) -> DemoError:
        return DemoError(f"demo {option}", f"it does not go with {other}", fix)

    if args.file is not None:
        for option in ("trace", "save_trace", "requests", "layers", "blocks_per_hash", "plot"):
            if getattr(args, option) is not None:
                raise refuse(f"--{option.replace('_', '-')}", "--file", "Leave one of them out.")
    elif args.out is not None:
        raise DemoError("demo --out", "it says where the copy of --file goes, and --file is not given", "Give --file.")

"""``tutti-hal bench``: figures, each beside a baseline of the same run."""

from __future__ import annotations

import argparse
import json
import os
import platform
import sys

from tutti_hal.cli.arguments import whole_number

_EXAMPLES = """\
examples:
  tutti-hal bench ring --profile host           4 KiB reads through the ring, and one at a time as baseline
  tutti-hal bench ring --profile host --json
"""


def configure(parser: argparse.ArgumentParser) -> None:
    """The verb's options."""
    parser.epilog = _EXAMPLES
    what = parser.add_subparsers(dest="what", required=True, metavar="WHAT")
    ring = what.add_parser(
        "ring",
        help="commands a second end to end on HOST",
        epilog=_EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    ring.add_argument("--profile", help="vendor[:arch[@sdk]]; outranks TUTTI_PROFILE")
    ring.add_argument(
        "--batch", type=whole_number(1, 1 << 20), default=4096, metavar="N", help="commands handed over together (4096)"
    )
    ring.add_argument(
        "--depth", type=whole_number(2, 1 << 16), default=1024, metavar="N", help="entries of the queue (1024)"
    )
    ring.add_argument("--seconds", type=whole_number(0, 3600), default=2, metavar="S", help="length of each figure (2)")
    ring.add_argument("--json", action="store_true", help="one JSON object on standard output")


def run(args: argparse.Namespace) -> int:
    """Measures, prints, returns 0.

    Raises:
        TuttiError: no profile, options out of range, or a command that did not end well.
    """
    from tutti_hal.bench.ring import measure_ring
    from tutti_hal.profile import select

    figures = measure_ring(select(args.profile), batch=args.batch, depth=args.depth, seconds=args.seconds)
    figures["machine"] = {"cpus": len(os.sched_getaffinity(0)), "arch": platform.machine()}
    if args.json:
        json.dump(figures, sys.stdout, indent=2)
        print()
        return 0
    from tutti_hal.cli.terminal import Section, Terminal

    terminal = Terminal()
    terminal.title(f"ring on {figures['profile']}: {args.batch} reads of 4 KiB a batch, depth {args.depth}")
    terminal.table(
        [
            Section(
                figure["name"],
                [
                    ("commands/s", f"{figure['commands_per_s']:,.0f}", f"{figure['commands']:,} in all"),
                    ("GB/s", f"{figure['gb_per_s']:.3f}" if figure["gb_per_s"] else "-", "payload"),
                    ("doorbells", f"{figure['doorbells_per_command']:.4f}", "a command"),
                    ("CQ loads", f"{figure['cq_loads_per_command']:.2f}", "a command"),
                    ("host calls", f"{figure['host_calls_per_batch']:.2f}", "a batch"),
                ],
            )
            for figure in figures["figures"]
        ]
    )
    terminal.note(f"batches against one at a time: {figures['gain_over_baseline']:.1f}x")
    return 0

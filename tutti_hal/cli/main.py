"""The ``tutti-hal`` command: parse, dispatch to one verb, turn errors into exit codes."""

from __future__ import annotations

import argparse
import importlib
import sys
from collections.abc import Sequence

from tutti_hal import __version__
from tutti_hal.errors import TuttiError

#: verb -> (module with ``configure(parser)`` and ``run(args) -> int``, one line of help)
VERBS: dict[str, tuple[str, str]] = {}


def build_parser() -> argparse.ArgumentParser:
    """The parser with every verb; a verb's own module is imported only when its help or its run needs it."""
    parser = argparse.ArgumentParser(
        prog="tutti-hal",
        description="GPU-driven storage on every GPU vendor.",
        epilog="Each verb has its own --help.",
    )
    parser.add_argument("--version", action="version", version=f"tutti-hal {__version__}")
    verbs = parser.add_subparsers(dest="verb", metavar="VERB", required=True)
    for name, (module, summary) in VERBS.items():
        sub = verbs.add_parser(name, help=summary, description=summary)
        importlib.import_module(module).configure(sub)
    return parser


def main(argv: Sequence[str] | None = None) -> int:
    """Run one verb.

    Returns:
        The verb's exit code; 1 on a typed error (printed on standard error), 130 on Ctrl-C.
    """
    args = build_parser().parse_args(argv)
    module = importlib.import_module(VERBS[args.verb][0])
    try:
        return int(module.run(args))
    except TuttiError as error:
        print(f"tutti-hal {args.verb}: {error}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        print(f"tutti-hal {args.verb}: interrupted", file=sys.stderr)
        return 130

"""The ``tutti-hal`` command: find the verb, let its module parse and run, turn errors into exit codes."""

from __future__ import annotations

import argparse
import difflib
import importlib
import os
import signal
import sys
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from types import FrameType, ModuleType

from tutti_hal import __version__
from tutti_hal.errors import TuttiError


@dataclass(frozen=True)
class Verb:
    """One row of the verb table.

    Attributes:
        module: has ``configure(parser)`` and ``run(args) -> int``; imported only when the verb is used.
        summary: one line of help.
    """

    module: str
    summary: str


VERBS: dict[str, Verb] = {
    "profiles": Verb("tutti_hal.cli.profiles", "which vendors can be used here, and why the others cannot"),
    "collect": Verb("tutti_hal.cli.collect", "facts about this machine"),
    "doctor": Verb("tutti_hal.cli.doctor", "judge those facts, with a line on how to fix each fault"),
    "generate": Verb("tutti_hal.cli.generate", "render a profile's kernels as source"),
    "build": Verb("tutti_hal.cli.build", "compile a profile's kernels, with resources per arch"),
    "demo": Verb("tutti_hal.cli.demo", "move a KV-cache workload through the rings and verify every byte"),
    "bench": Verb("tutti_hal.cli.bench", "figures, each beside a baseline of the same run"),
    "store": Verb("tutti_hal.cli.store", "look into an object store: ls, stat, fsck"),
    "new-backend": Verb(
        "tutti_hal.cli.new_backend", "a backend package for another vendor: a copy of HOST, each fact marked"
    ),
    "port-status": Verb(
        "tutti_hal.conformance_tests.cli.port_status", "where a port stands: the first red rung, and a hint"
    ),
    "certify": Verb("tutti_hal.conformance_tests.cli.certify", "run the conformance suite, print the ladder of levels"),
    "verify": Verb(
        "tutti_hal.conformance_tests.cli.verify", "judge a package of evidence again, from raw observations"
    ),
    "sign": Verb("tutti_hal.conformance_tests.cli.sign", "answer for a package of evidence with a key of one's own"),
    "compare": Verb("tutti_hal.conformance_tests.cli.compare", "two packages of evidence side by side"),
}

_INTERRUPTED = 130  # 128 + SIGINT, as shells count
_PIPE_CLOSED = 141  # 128 + SIGPIPE


def build_parser() -> argparse.ArgumentParser:
    """The outer parser: verb names and summaries only, so that no verb's module is imported for it."""
    width = max(map(len, VERBS))
    table = "\n".join(f"  {name:<{width}}  {verb.summary}" for name, verb in VERBS.items())
    parser = argparse.ArgumentParser(
        prog="tutti-hal",
        usage="tutti-hal [-h] [--version] VERB ...",
        description="GPU-driven storage on every GPU vendor.",
        epilog=(
            f"verbs:\n{table}\n\n"
            "start here, on any machine:\n"
            "  tutti-hal demo --profile host\n"
            "  tutti-hal profiles\n\n"
            "`tutti-hal VERB --help` explains a verb, with examples. TUTTI_PROFILE=vendor[:arch[@sdk]] names the\n"
            "profile for all of them."
        ),
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--version", action="version", version=f"tutti-hal {__version__}")
    parser.add_argument("verb", metavar="VERB", nargs="?", help=argparse.SUPPRESS)
    parser.add_argument("rest", nargs=argparse.REMAINDER, help=argparse.SUPPRESS)
    return parser


def build_verb_parser(name: str) -> tuple[argparse.ArgumentParser, ModuleType]:
    """One verb's parser and its module."""
    verb = VERBS[name]
    module = importlib.import_module(verb.module)
    parser = argparse.ArgumentParser(
        prog=f"tutti-hal {name}",
        description=f"{verb.summary[0].upper()}{verb.summary[1:]}.",
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    module.configure(parser)
    return parser, module


def main(argv: Sequence[str] | None = None) -> int:
    """Run one verb.

    Returns:
        The verb's exit code; 1 on a typed error (printed on standard error), 130 on Ctrl-C, 141 when the reader of
        standard output went away. Wrong usage leaves with 2, as argparse does; SIGHUP and SIGTERM with 129 and 143.
    """
    outer = build_parser()
    chosen = outer.parse_args(argv)
    if chosen.verb is None:
        outer.error(f"name a verb: {', '.join(VERBS)} (tutti-hal --help)")
    if chosen.verb not in VERBS:
        near = difflib.get_close_matches(chosen.verb, VERBS, n=1)
        hint = f"did you mean {near[0]!r}?" if near else f"there are {', '.join(VERBS)}"
        outer.error(f"no verb {chosen.verb!r}; {hint}")
    try:
        parser, module = build_verb_parser(chosen.verb)
        with _terminated_as_interrupted():
            code = int(module.run(parser.parse_args(chosen.rest)))
            sys.stdout.flush()
    except TuttiError as error:
        print(f"tutti-hal {chosen.verb}: {error}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        print(f"tutti-hal {chosen.verb}: interrupted", file=sys.stderr)
        return _INTERRUPTED
    except BrokenPipeError:
        # Python flushes standard output once more at exit; give it somewhere to go.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return _PIPE_CLOSED
    return code


@contextmanager
def _terminated_as_interrupted() -> Iterator[None]:
    """SIGTERM and SIGHUP unwind as Ctrl-C does, so that files, compilers and threads are gone; the code says which.

    What the caller has ignored, as ``nohup`` does, stays ignored.
    """
    if threading.current_thread() is not threading.main_thread():
        yield  # only the main thread may set handlers; whoever called from another one has its own
        return

    def leave(signum: int, _frame: FrameType | None) -> None:
        raise SystemExit(128 + signum)

    before = {signum: signal.getsignal(signum) for signum in (signal.SIGTERM, signal.SIGHUP)}
    try:
        for signum, handler in before.items():
            if handler is not signal.SIG_IGN:
                signal.signal(signum, leave)
        yield
    finally:
        for signum, handler in before.items():
            signal.signal(signum, handler)

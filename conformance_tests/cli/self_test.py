"""``tutti-hal certify --self-test``: break the product on purpose, print who noticed, and the score."""

from __future__ import annotations

import argparse
import json
import sys
import threading
from collections.abc import Callable, Sequence
from fnmatch import fnmatchcase
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tutti_hal.conformance_tests.mutants.mutant import Mutant
    from tutti_hal.conformance_tests.mutants.score import Result
    from tutti_hal.conformance_tests.session import RunOptions

#: Options of ``certify`` that say nothing here: mutants are of the product as it is, and all cases may be needed.
_FOREIGN = ("out", "ablate", "record", "templates", "globs", "waivers", "verify_xfail", "time_limit")


def chosen_by(globs: Sequence[str]) -> Callable[[Mutant], bool] | None:
    """The predicate of some globs over ids; none where there are none."""
    return (lambda one: any(fnmatchcase(one.id, glob) for glob in globs)) if globs else None


def run(args: argparse.Namespace, options: RunOptions) -> int:
    """Run the self-test.

    Returns:
        0 when every mutant that is not equivalent was noticed, 1 when not, 2 on options that do not go together.

    Raises:
        BaselineRed: the product does not pass its own cases.
        MutantsInvalid: a table of mutants is wrong.
        ProfileError, SpecError: the subject cannot be had.
    """
    from tutti_hal.cli.terminal import Terminal
    from tutti_hal.conformance_tests.certify import terms_for
    from tutti_hal.conformance_tests.mutants.score import BAD, lines_of
    from tutti_hal.conformance_tests.mutants.selftest import self_test
    from tutti_hal.conformance_tests.subject import profile_of

    foreign = [name for name in _FOREIGN if getattr(args, name)]
    if foreign or options.shard != (1, 1):
        name = {"globs": "case"}.get(foreign[0], foreign[0].replace("_", "-")) if foreign else "shard"
        print(f"tutti-hal certify: --{name} does not go with --self-test", file=sys.stderr)
        return 2
    terminal = Terminal(quiet=args.json)
    lock = threading.Lock()
    done = 0

    def noticed(result: Result) -> None:
        nonlocal done
        with lock:  # trials end in several threads
            done += 1
            terminal.note(f"{done:4d}  {lines_of([result])[0]}")

    score = self_test(
        options,
        args.sample,
        args.seed,
        terms=terms_for(options, profile_of(options.subject).record),
        on_mutant=noticed,
        chosen=chosen_by(args.mutants),
        table=args.table,
        changed=args.changed,
        unlisted=args.unlisted,
        on_baseline=lambda count: terminal.note(f"the product itself first, on {count} cases"),
    )
    if args.json:
        print(json.dumps(score.to_json(), indent=1))
        return 0 if score.ok else 1
    alive = [one for one in score.tested if one.state in BAD]
    if alive:
        terminal.title("nobody noticed:")
        for result in alive:
            terminal.note(f"{result.mutant.id}  {result.mutant.shown}")
    for case, why in score.idle.items():
        terminal.note(f"killed none: {case}: {why or 'it does not say why'}")
    terminal.note(f"seed {score.seed}; {len(score.tested)} mutants in {score.seconds:.0f} s")
    terminal.verdict(score.ok, score.summary)
    return 0 if score.ok else 1

"""``tutti-hal certify``: run the suite against a profile, print the ladder, write the evidence."""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tutti_hal.cli.arguments import whole_number
from tutti_hal.errors import ProfileError, SpecError
from tutti_hal.spec.tables import LEVELS

if TYPE_CHECKING:
    from tutti_hal.cli.terminal import Terminal
    from tutti_hal.conformance_tests.case import Instance
    from tutti_hal.conformance_tests.certify import Prepared
    from tutti_hal.conformance_tests.journal import Journal
    from tutti_hal.conformance_tests.judgement import Judgement
    from tutti_hal.conformance_tests.outcome import Outcome
    from tutti_hal.conformance_tests.session import RunOptions, Session

_EPILOG = """\
The ladder: L0 record and claims, L1 generate and compile, L2 host API, L3 primitives, L4 memory model, L5 ring and
faults, L6 storage, L7 P2P, L8 soak. A level is passed when each of its clauses was tested and nothing blocks it.

examples:
  tutti-hal certify --profile host --quick --out DIR      a minute's look, with the evidence; then: tutti-hal verify DIR
  tutti-hal certify --profile host --level L3             everything up to and including L3
  tutti-hal certify --profile host --case 'prim/*' --seed 7
  tutti-hal certify --profile host --out DIR --resume     go on where such a run was stopped
  tutti-hal bench ring --profile host --json > ring.json; tutti-hal certify --profile host --out DIR --figures ring.json
  tutti-hal certify --profile host --ablate no-ballot     the same device without one of its abilities
  tutti-hal certify --profile host --self-test --sample 20   break the product in 20 ways: the suite must notice each

exit: 0 everything that must pass did; 1 something failed, was inconclusive or not run; 2 the run could not be made;
130 Ctrl-C.
"""

#: Shown in full; the rest is counted, and stands in the package.
_FAILURES_SHOWN = 20


def configure(parser: argparse.ArgumentParser) -> None:
    """Declare the verb's options."""
    parser.epilog = _EPILOG
    parser.add_argument(
        "--profile", metavar="VENDOR[:ARCH]", help="what to certify; without ARCH, every arch found here"
    )
    what = parser.add_argument_group("what is run")
    what.add_argument("--level", choices=LEVELS, default=LEVELS[-1], help="up to and including this level (all)")
    what.add_argument(
        "--case", action="append", default=[], metavar="ID", dest="globs", help="id, case name or glob; may be repeated"
    )
    what.add_argument("--quick", action="store_true", help="the quick cases on few archs: a look, it certifies nothing")
    what.add_argument("--seed", type=whole_number(0, 2**63 - 1), default=1, help="of everything random (default 1)")
    what.add_argument("--shard", type=_shard, default=(1, 1), metavar="i/n", help="the i-th of n parts")
    what.add_argument(
        "--verify-xfail", action="store_true", help="run what is expected to fail: a pass is then a finding"
    )
    what.add_argument("--ablate", metavar="NAME", default="", help="run without an ability (--list names them)")
    what.add_argument(
        "--cases", action="append", type=Path, default=[], metavar="PATH", help="more cases: file or folder"
    )
    what.add_argument("--list", action="store_true", help="print the ids that would be run, and the ablations")
    how = parser.add_argument_group("how")
    how.add_argument("--jobs", type=whole_number(1, 1024), default=0, metavar="N", help="workers at once (one a CPU)")
    how.add_argument(
        "--time-limit", type=whole_number(1), default=0, metavar="S", help="start nothing new after so many seconds"
    )
    how.add_argument("--machine", default="default", metavar="CLASS", help="whose expected skips apply (default)")
    how.add_argument("--waivers", type=Path, metavar="FILE", help="failures that somebody answers for, as YAML")
    how.add_argument("--record", type=Path, metavar="DIR", help="another vendor.yaml than the vendor's (development)")
    how.add_argument("--templates", type=Path, metavar="DIR", help="other kernel templates (development)")
    out = parser.add_argument_group("what comes out")
    out.add_argument(
        "--out", type=Path, metavar="DIR", help="write the package: observations, verdicts, report, hashes"
    )
    out.add_argument(
        "--figures",
        action="append",
        type=Path,
        default=[],
        metavar="FILE",
        help="with --out: carry what `tutti-hal bench ... --json` printed, as information; may be repeated",
    )
    out.add_argument("--force", action="store_true", help="with --out: replace an older package")
    out.add_argument(
        "--resume", action="store_true", help="with --out: go on where a run stopped, of the same options and product"
    )
    out.add_argument("--json", action="store_true", help="one JSON object on standard output instead of text")
    test = parser.add_argument_group("the suite's own test")
    test.add_argument(
        "--self-test", action="store_true", help="run mutants of the product instead, and print the score"
    )
    test.add_argument("--sample", type=whole_number(1), metavar="N", help="with --self-test: N mutants, by the seed")
    test.add_argument(
        "--mutants", action="append", default=[], metavar="GLOB", help="with --self-test: those of these ids"
    )
    test.add_argument("--changed", action="store_true", help="with --self-test: only those whose row does not hold")
    test.add_argument("--unlisted", action="store_true", help="with --self-test: none that a list has a reason for")
    test.add_argument("--table", type=Path, metavar="FILE", help="with --self-test: the table of rows to keep")


def _shard(text: str) -> tuple[int, int]:
    number, slash, count = text.partition("/")
    if not slash or not number.isdecimal() or not count.isdecimal() or not 1 <= int(number) <= int(count) <= 1000:
        raise argparse.ArgumentTypeError(f"{text!r} is not i/n with 1 <= i <= n, such as 1/4")
    return int(number), int(count)


def run(args: argparse.Namespace) -> int:
    """Run the suite.

    Returns:
        0 when everything mandatory passed, 1 when not, 2 when the run could not be made.
    """
    from tutti_hal.conformance_tests.errors import ConformanceError

    try:
        return _run(args)
    except (ConformanceError, ProfileError, SpecError) as error:
        print(f"tutti-hal certify: {error}", file=sys.stderr)
        return 2


def _run(args: argparse.Namespace) -> int:
    from tutti_hal.cli.terminal import Terminal

    options = _options(args)
    if args.list:
        return _list(options)
    if args.self_test:
        from tutti_hal.conformance_tests.cli import self_test

        return self_test.run(args, options)
    astray = [name for name in ("sample", "mutants", "changed", "unlisted", "table") if getattr(args, name)]
    if astray:
        print(f"tutti-hal certify: --{astray[0]} belongs to --self-test", file=sys.stderr)
        return 2
    terminal = Terminal(quiet=args.json)
    if args.out is not None:
        from tutti_hal.conformance_tests.journal import Journal
        from tutti_hal.conformance_tests.outcome import End
        from tutti_hal.conformance_tests.package.writer import check_target, write_package

        force = args.force or args.resume
        check_target(args.out, force=force)
        figures = _figures(args, options)
        session = replace(_session(args, options, terminal), figures=figures)
        write_package(args.out, session, force=force)
        if not any(outcome.end is End.NOT_RUN for outcome in session.outcomes.values()):
            Journal(args.out, session.options).end()
    elif args.resume or args.figures:
        print(f"tutti-hal certify: --{'resume' if args.resume else 'figures'} belongs to --out", file=sys.stderr)
        return 2
    else:
        session = _session(args, options, terminal)
    if args.json:
        print(json.dumps(_summary(session), indent=1))
    else:
        _print(session, terminal)
        if args.out is not None:
            terminal.note(f"evidence: {args.out} (judge it again: tutti-hal verify {args.out})")
    return 1 if _red(session) else 0


def _figures(args: argparse.Namespace, options: RunOptions) -> tuple[Mapping[str, Any], ...]:
    """What benchmarks measured; read before the run, so that what is unfit is told at once."""
    if not args.figures:
        return ()
    from tutti_hal.conformance_tests.package.figures import load_figures
    from tutti_hal.profile import parse

    return load_figures(args.figures, parse(options.subject.profile).vendor)


def _options(args: argparse.Namespace) -> RunOptions:
    from tutti_hal.conformance_tests.certify import archs_for, profile_for, subject_for
    from tutti_hal.conformance_tests.session import RunOptions

    profile = profile_for(args.profile, args.level)
    named = profile.named.arch is not None and profile.chosen_by in ("argument", "variable")
    return RunOptions(
        subject=subject_for(
            profile, record=args.record, templates=args.templates, ablation=args.ablate, cases=tuple(args.cases)
        ),
        archs=archs_for(profile, named),
        level=args.level,
        cases=tuple(args.globs),
        quick=args.quick,
        seed=args.seed,
        shard=args.shard,
        verify_xfail=args.verify_xfail,
        machine=args.machine,
        time_limit_s=float(args.time_limit),
        jobs=args.jobs,
    )


def _list(options: RunOptions) -> int:
    from tutti_hal.conformance_tests.ablations import ABLATIONS
    from tutti_hal.conformance_tests.certify import prepare

    for instance in prepare(options).instances:
        print(f"{instance.case.level}  {instance.id}")
    for name, ablation in ABLATIONS.items():
        print(f"--ablate {name}: {ablation.sentence}")
    return 0


def _session(args: argparse.Namespace, options: RunOptions, terminal: Terminal) -> Session:
    from tutti_hal.cli.collect import collect
    from tutti_hal.conformance_tests.catalogue import catalogue
    from tutti_hal.conformance_tests.certify import certify, prepare
    from tutti_hal.conformance_tests.terms import Waiver
    from tutti_hal.conformance_tests.verdict import OPEN
    from tutti_hal.spec import load_spec

    waivers: tuple[Waiver, ...] = ()
    if args.waivers:
        from tutti_hal.conformance_tests.package.waivers import load_waivers

        waivers = load_waivers(args.waivers, load_spec(), catalogue(options.subject.cases))
    prepared = prepare(options)
    journal = _journal(args, prepared)
    kept = journal.kept() if journal and args.resume else {}
    if journal and not args.resume:
        journal.begin()
    left = len(prepared.instances) - len(kept)
    seen = {"red": 0, "open": 0}
    with terminal.progress("certify", left, "cases") as advance:

        def ended(_instance: Instance, outcome: Outcome, judgement: Judgement) -> None:
            if journal:
                journal.note(outcome)
            seen["open" if judgement.verdict in OPEN else "red"] += judgement.blocks
            advance(1, ", ".join(f"{number} {what}" for what, number in seen.items() if number))

        # Only a package keeps the facts, and to ask every compiler for its version takes a while.
        environment = collect() if args.out is not None else {}
        return certify(prepared, waivers=waivers, environment=environment, kept=kept, on_end=ended)


def _journal(args: argparse.Namespace, prepared: Prepared) -> Journal | None:
    from tutti_hal.conformance_tests.journal import Journal

    return Journal(args.out, prepared.options) if args.out is not None else None


def _red(session: Session) -> bool:
    """Whether something that must pass did not, failed or inconclusive. A clause without a case fails no run."""
    return any(judgement.blocks for judgement in session.judgements.values())


def _print(session: Session, terminal: Terminal) -> None:
    from tutti_hal.conformance_tests.session import provenance, repro_line
    from tutti_hal.conformance_tests.verdict import ACCEPTED, OPEN

    options = session.options
    terminal.title(f"{options.subject.profile} on {', '.join(options.archs)}: {provenance(session)}")
    rows = []
    for level in session.ladder.levels:
        if level.name in options.levels and (level.untested or any(level.counts.values())):
            counts = ", ".join(f"{number} {verdict}" for verdict, number in level.counts.items() if number)
            untested = f"; {len(level.untested)} clauses not tested" if level.untested else ""
            rows.append((level.name, f"{level.state}: {counts or 'no cases'}{untested}"))
    terminal.facts(rows)
    by_id = {instance.id: instance for instance in session.instances}
    red = sorted(session.blocking, key=lambda one: one.verdict in OPEN)  # what failed comes first
    for judgement in red[:_FAILURES_SHOWN]:
        terminal.note(f"{judgement.verdict} {judgement.id}")
        terminal.note(f"    {judgement.reason}")
        if judgement.verdict not in ACCEPTED:
            terminal.note(f"    {repro_line(options, by_id[judgement.id])}")
    if len(red) > _FAILURES_SHOWN:
        terminal.note(f"... and {len(red) - _FAILURES_SHOWN} more")
    terminal.note(f"seed {options.seed}; {len(session.instances)} cases in {session.seconds:.1f} s")
    terminal.verdict(not _red(session), _last_line(session))


def _last_line(session: Session) -> str:
    from tutti_hal.conformance_tests.session import certifies

    if (first := session.ladder.first_red) is not None:
        return f"the first red rung is {first.name}"
    waiting = session.ladder.first_open
    more = f"; {waiting.name} is incomplete: {waiting.waits_for}" if waiting else ""
    return f"{certifies(session)}{more}"


def _summary(session: Session) -> dict[str, object]:
    from tutti_hal.conformance_tests.session import certifies, provenance, repro_line
    from tutti_hal.conformance_tests.verdict import OPEN

    def told(judgement: Judgement) -> dict[str, str]:
        return {
            "id": judgement.id,
            "verdict": judgement.verdict.value,
            "reason": judgement.reason,
            "repro": repro_line(session.options, by_id[judgement.id]),
        }

    by_id = {instance.id: instance for instance in session.instances}
    return {
        "profile": session.options.subject.profile,
        "archs": list(session.options.archs),
        "provenance": provenance(session),
        "seed": session.options.seed,
        "seconds": round(session.seconds, 3),
        "certifies": certifies(session),
        "levels": [
            {
                "level": level.name,
                "state": level.state.value,
                "counts": {verdict.value: number for verdict, number in level.counts.items() if number},
                "untested": list(level.untested),
            }
            for level in session.ladder.levels
        ],
        "red": [told(one) for one in session.blocking if one.verdict not in OPEN],
        "open": [told(one) for one in session.blocking if one.verdict in OPEN],
    }

"""``python -m tutti_hal.conformance_tests.campaign``: run a campaign, or replay what one found.

Exit status: 0 nothing was wrong and all commands were run, 1 something was wrong, 2 it could not run, or the time was
over before all commands.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from tutti_hal.conformance_tests.campaign.session import Tally, Trial, attempt, campaign, load, save
from tutti_hal.conformance_tests.campaign.wide import session as wide
from tutti_hal.conformance_tests.campaign.wide.tables import WideTrial
from tutti_hal.conformance_tests.campaign.workload import MIXES
from tutti_hal.conformance_tests.subject import Subject, SubjectSpec, profile_of
from tutti_hal.errors import TuttiError

#: Seconds between two lines of progress.
_PROGRESS_S = 10.0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="campaign", description="Random workloads against a reference model.")
    parser.add_argument("--profile", default="host", help="vendor[:arch[@sdk]] (host)")
    parser.add_argument("--arch", action="append", default=[], help="archs that take turns (all that suit the form)")
    parser.add_argument(
        "--wide",
        action="store_true",
        help="whole batches as arrays, where time is real: fewer kinds of steps, faster",
    )
    parser.add_argument("--commands", type=int, default=100_000, metavar="N", help="at least so many (100000)")
    parser.add_argument("--seed", type=int, default=1, metavar="S", help="of the first workload (1)")
    parser.add_argument("--mix", action="append", default=[], choices=MIXES, help="workloads that take turns (all)")
    parser.add_argument("--time-limit", type=float, default=0.0, metavar="SECONDS", help="0: none")
    parser.add_argument("--save", type=Path, metavar="FILE", help="where a failure goes (out/campaign-SEED.json)")
    parser.add_argument("--replay", type=Path, metavar="FILE", help="run that file's workload, nothing else")
    parser.add_argument("--templates", default="", help="another root of kernel templates")
    parser.add_argument("--controller", default="", help="a controller mutation in force")
    parser.add_argument("--json", action="store_true", help="one JSON object on standard output")
    return parser


def main(argv: Sequence[str] | None = None) -> int:
    """Run it; the exit status."""
    args = _parser().parse_args(argv)
    try:
        return _replay(args) if args.replay else _campaign(args)
    except TuttiError as error:
        print(error, file=sys.stderr)
        return 2


def _subject(args: argparse.Namespace, profile: str, arch: str) -> Subject:
    return Subject(SubjectSpec(profile, arch, templates=args.templates, controller=args.controller))


def _campaign(args: argparse.Namespace) -> int:
    archs = args.arch or list(profile_of(SubjectSpec(args.profile)).record.archs)
    subjects = {arch: _subject(args, args.profile, arch) for arch in archs}
    if args.wide:
        subjects = {arch: subject for arch, subject in subjects.items() if not subject.facts.simulated}
        if not subjects:
            print("a wide campaign needs an arch whose time is real; give another --arch", file=sys.stderr)
            return 2
    said = [time.monotonic()]

    def say(tally: Tally | wide.WideTally) -> None:
        if time.monotonic() - said[0] > _PROGRESS_S:
            said[0] = time.monotonic()
            print(f"campaign: {tally.commands} of {args.commands} commands, {tally.seconds:.0f} s", file=sys.stderr)

    tally = (wide.wide_campaign if args.wide else campaign)(
        subjects,
        commands=args.commands,
        seed=args.seed,
        mixes=args.mix or MIXES,
        time_limit_s=args.time_limit,
        say=say,
    )
    result = {
        "form": "wide" if args.wide else "narrow",
        "profile": args.profile,
        "seed": args.seed,
        "asked": args.commands,
        "commands": tally.commands,
        "trials": tally.trials,
        "seconds": round(tally.seconds, 2),
        "by_arch": dict(tally.by_arch),
        "examined": dict(sorted(tally.examined.items())),
        "wrong": [asdict(one) for one in tally.wrong],
    }
    if isinstance(tally, wide.WideTally):
        result["unexplained"] = tally.unexplained
    if tally.failed is not None:
        path = args.save or Path("out") / f"campaign-{tally.failed.seed}.json"
        if isinstance(tally, wide.WideTally):
            wide.save(path, args.profile, tally)
            result["again"] = list(tally.again)
            result["simulated"] = _simulated(args, tally.failed, path)
        elif isinstance(tally.failed, Trial):
            save(path, args.profile, tally.failed, tally.wrong)
        result["replay"] = str(path)
    _print(args, result)
    if tally.wrong:
        return 1
    return 0 if tally.commands >= args.commands else 2


def _simulated(args: argparse.Namespace, trial: WideTrial, path: Path) -> str | None:
    """A replay file that fails each time: the same requests in a simulated world, where they fail there too."""
    archs = _subject(args, args.profile, trial.arch).profile.record.archs
    width = archs[trial.arch].wave_width
    subjects = {
        arch: _subject(args, args.profile, arch)
        for arch in sorted(archs, key=lambda a: (archs[a].wave_width != width, a))
    }
    found = wide.repeatable({arch: one for arch, one in subjects.items() if one.facts.simulated}, trial)
    if found is None:
        return None
    beside = path.with_name(f"{path.stem}-simulated.json")
    save(beside, args.profile, *found)
    return str(beside)


def _replay(args: argparse.Namespace) -> int:
    trial: Trial | WideTrial
    if wide.is_wide(args.replay):
        profile, trial = wide.load(args.replay)
        wrong = wide.attempt(_subject(args, profile, trial.arch), trial)
    else:
        profile, trial = load(args.replay)
        wrong = attempt(_subject(args, profile, trial.arch), trial)
    _print(
        args,
        {
            "profile": profile,
            "arch": trial.arch,
            "seed": trial.seed,
            "commands": trial.commands,
            "wrong": [asdict(one) for one in wrong],
        },
    )
    return 1 if wrong else 0


def _print(args: argparse.Namespace, result: dict[str, Any]) -> None:
    if args.json:
        json.dump(result, sys.stdout, indent=1)
        print()
        return
    print(f"{result['commands']} commands of {result['profile']}, {len(result['wrong'])} things wrong")
    for one in result["wrong"][:10]:
        print(f"  step {one['step']}: {one['clause']}: {one['what']}: {one['found']}; may be: {one['wanted']}")
    if "replay" in result:
        print(f"replay: python -m tutti_hal.conformance_tests.campaign --replay {result['replay']}")
    if result.get("again"):
        print(f"it failed in {result['again'][0]} of {result['again'][1]} runs; its turns are not the same in each")
    if result.get("simulated"):
        print(f"the same each time: python -m tutti_hal.conformance_tests.campaign --replay {result['simulated']}")


if __name__ == "__main__":
    raise SystemExit(main())

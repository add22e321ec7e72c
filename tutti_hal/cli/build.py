"""``tutti-hal build``: compile a profile's kernels and say what they need of the device."""

from __future__ import annotations

import argparse
import json
import time
from dataclasses import asdict

from tutti_hal.cli.generate import archs_of, sets_of
from tutti_hal.profile import Profile, resolve
from tutti_hal.toolchain import AotState, Built, aot_state, build_all

_COLUMNS = ("kernel set", "arch", "kernel", "registers", "spill B", "shared B", "local B", "from")


def configure(parser: argparse.ArgumentParser) -> None:
    """Declare the options of this verb."""
    parser.add_argument("--profile", metavar="VENDOR[:ARCH]", help="what to compile for (default: as all verbs choose)")
    parser.add_argument(
        "--arch", action="append", metavar="ARCH", help="an arch of the profile's vendor, or `all`; may be repeated"
    )
    parser.add_argument("--set", action="append", metavar="NAME", dest="sets", help="a kernel set; may be repeated")
    parser.add_argument("--jobs", type=int, metavar="N", help="compilers at work at once (default: one for each CPU)")
    parser.add_argument("--json", action="store_true", help="one JSON object on standard output instead of the table")
    parser.epilog = (
        "`from` is aot (built at install), cached, or compiled (just now). A dash: the toolchain cannot tell.\n"
        "The cache is TUTTI_CACHE_DIR, else tutti-hal in the user's cache folder.\n\n"
        "examples:\n"
        "  tutti-hal build --profile host\n"
        "  tutti-hal build --profile host --arch all --json"
    )


def run(args: argparse.Namespace) -> int:
    """Compile what is not there yet and print what came of it.

    Returns:
        0.

    Raises:
        CompilerMissing, BuildError, CacheUnwritable, GenerationError, ProfileError: what kept it from being done.
    """
    profile = resolve(args.profile)
    began = time.perf_counter()
    built = build_all(profile, archs=archs_of(profile, args.arch), sets=sets_of(args.sets), jobs=args.jobs)
    seconds = time.perf_counter() - began
    state = aot_state()
    if args.json:
        print(json.dumps(_table(profile, built, seconds, state), indent=1))
        return 0
    print(f"profile {profile.vendor} (chosen by {profile.chosen_by}); {built[0].compiler if built else 'nothing'}")
    for line in _aligned([_COLUMNS, *_rows(built)]):
        print(line)
    for note in dict.fromkeys(one.note for one in built if one.note):
        print(f"note: {note}")
    print(f"install: {'not pinned, so no AOT' if state is None else f'pinned to {state.profile}; {state.summary}'}")
    print(f"{len(built)} modules in {seconds:.2f} s")
    return 0


def _rows(built: tuple[Built, ...]) -> list[tuple[str, ...]]:
    return [
        (
            one.kernel_set,
            one.arch,
            need.kernel,
            *("-" if value is None else str(value) for value in _figures(need)),
            one.origin,
        )
        for one in built
        for need in one.resources
    ]


def _figures(need: object) -> tuple[int | None, ...]:
    return tuple(getattr(need, name) for name in ("registers", "spill_bytes", "shared_bytes", "local_bytes"))


def _aligned(rows: list[tuple[str, ...]]) -> list[str]:
    widths = [max(len(row[i]) for row in rows) for i in range(len(rows[0]))]
    return [
        "  ".join(
            f"{cell:>{width}}" if 3 <= i <= 6 else f"{cell:<{width}}"
            for i, (cell, width) in enumerate(zip(row, widths, strict=True))
        ).rstrip()
        for row in rows
    ]


def _table(profile: Profile, built: tuple[Built, ...], seconds: float, state: AotState | None) -> dict[str, object]:
    return {
        "profile": profile.vendor,
        "chosen_by": profile.chosen_by,
        "seconds": round(seconds, 6),
        "aot": None if state is None else {**asdict(state), "summary": state.summary},
        "modules": [{**asdict(one), "path": str(one.path)} for one in built],
    }

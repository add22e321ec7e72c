"""``tutti-hal profiles``: every vendor that is installed, whether it can be used here, and what would be selected."""

from __future__ import annotations

import argparse
import json
from typing import TYPE_CHECKING, Any

from tutti_hal.errors import ProfileAmbiguous, TuttiError

if TYPE_CHECKING:
    from tutti_hal.profile import Candidate

EPILOG = """\
The profile is taken from --profile, else TUTTI_PROFILE, else the profile pinned at install, else the only usable
hardware vendor. What is not hardware (host, simulated vendors) is used only when named.

Exit code: 1 when a profile was named or pinned and cannot be selected.

examples:
  tutti-hal profiles
  TUTTI_PROFILE=host:sim-w64 tutti-hal profiles
  tutti-hal profiles --json
"""


def configure(parser: argparse.ArgumentParser) -> None:
    """Declare the verb's options."""
    parser.epilog = EPILOG
    parser.add_argument("--profile", metavar="NAME", help="vendor[:arch[@sdk]]: ask whether this one can be selected")
    parser.add_argument("--json", action="store_true", help="print one JSON object")


def describe(explicit: str | None = None) -> dict[str, Any]:
    """What the verb prints, as plain data (its JSON form)."""
    from tutti_hal import profile

    selected: dict[str, Any] | None = None
    refusal: dict[str, str] | None = None
    try:
        chosen = profile.select(explicit)
        selected = {"profile": str(chosen), "chosen_by": chosen.chosen_by, "sdk": chosen.sdk}
    except TuttiError as error:
        refusal = {"id": error.id, "found": error.found.split("\n")[0], "fix": error.fix, "tried": error.tried}
    return {
        "schema": 1,
        "selected": selected,
        "refusal": refusal,
        "pinned": _pinned(),
        "candidates": [_candidate(candidate) for candidate in profile.candidates()],
    }


def _candidate(candidate: Candidate) -> dict[str, Any]:
    return {
        "vendor": candidate.vendor,
        "kind": candidate.kind or None,
        "usable": candidate.usable,
        "needs_naming": candidate.needs_naming,
        "reason": candidate.reason,
        "archs": list(candidate.archs),
        "devices": list(candidate.found_archs),
        "sdk": candidate.sdk,
        "package": candidate.package,
        "level_passed": _level_passed(candidate.vendor),
    }


def _level_passed(vendor: str) -> dict[str, Any] | None:
    """The vendor's newest certificate: level, on what it was run, when, and whether the product is another since."""
    from tutti_hal.certificates import read_index

    found = read_index().last(vendor)
    if found is None:
        return None
    return {
        "level": found.level,
        "provenance": found.provenance,
        "archs": list(found.archs),
        "date": found.date,
        "suite": found.suite,
        "commit": found.commit,
        "stale": found.is_stale(),
    }


def _pinned() -> dict[str, Any] | None:
    """The pin and the state of what it built, or None for an unpinned install."""
    from tutti_hal import profile

    pin = profile.pinned()
    if pin is None:
        return None
    from tutti_hal.toolchain import aot_state

    try:
        state = aot_state()
    except TuttiError as error:
        return {"profile": pin.profile, "aot": f"not known: {error}", "fresh": [], "stale": []}
    assert state is not None  # there is a pin
    return {
        "profile": pin.profile,
        "aot": state.summary,
        "fresh": list(state.fresh),
        "stale": list(state.stale),
    }


def run(args: argparse.Namespace) -> int:
    """Print the table; 1 when a named or pinned profile cannot be selected, else 0."""
    report = describe(args.profile)
    if args.json:
        print(json.dumps(report, indent=2))
    else:
        _print(report)
    refusal = report["refusal"]
    return 1 if refusal is not None and refusal["id"] != ProfileAmbiguous.id else 0


def _passed(found: dict[str, Any] | None) -> str:
    if found is None:
        return "none yet"
    return f"{found['level']}, {found['provenance']}, {found['date']}{', stale' if found['stale'] else ''}"


def _print(report: dict[str, Any]) -> None:
    from rich.console import Console
    from rich.markup import escape
    from rich.table import Table

    console = Console(highlight=False)
    table = Table()
    for heading in ("vendor", "usable", "kind", "archs", "SDK", "level passed"):
        table.add_column(heading, overflow="fold")
    for row in report["candidates"]:
        usable = "no" if not row["usable"] else "when named" if row["needs_naming"] else "yes"
        archs = "\n".join(f"{arch} (here)" if arch in row["devices"] else arch for arch in row["archs"])
        cells = (
            row["vendor"],
            usable,
            row["kind"] or "-",
            archs or "-",
            row["sdk"] or "-",
            _passed(row["level_passed"]),
        )
        table.add_row(*(escape(cell) for cell in cells), end_section=True)
    console.print(table)
    pin, refusal = report["pinned"], report["refusal"]
    lines = [f"{row['vendor']}: {row['reason']}" for row in report["candidates"]]
    lines.append(f"pinned: {pin['profile']}; {pin['aot']}" if pin else "pinned: nothing")
    if report["selected"]:
        lines.append(f"selected: {report['selected']['profile']} (by {report['selected']['chosen_by']})")
    else:
        lines.append(f"selected: nothing [{refusal['id']}], for {refusal['found'].rstrip(':')}; {refusal['fix']}")
    for line in lines:
        console.print(line, markup=False, soft_wrap=True)

"""``tutti-hal doctor``: judge this machine, with a line on how to mend each fault."""

from __future__ import annotations

import argparse
import json
from dataclasses import asdict
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tutti_hal.checks import Judgement

EPILOG = """\
Every check has a stable id. `fail` stops the main job, `warn` narrows what works.

Exit code: 0 when no check failed, 1 when one did.

examples:
  tutti-hal doctor
  TUTTI_PROFILE=host tutti-hal doctor --json
"""

_STYLES = {"pass": "green", "warn": "yellow", "fail": "bold red"}


def configure(parser: argparse.ArgumentParser) -> None:
    """Declare the verb's options."""
    parser.epilog = EPILOG
    parser.add_argument("--json", action="store_true", help="print one JSON object")


def run(args: argparse.Namespace) -> int:
    """Print every judgement; 1 when a check failed, else 0."""
    from tutti_hal import checks

    judgements = checks.diagnose()
    failed = any(judgement.state == "fail" for judgement in judgements)
    if args.json:
        table = {"schema": 1, "failed": failed, "checks": [asdict(judgement) for judgement in judgements]}
        print(json.dumps(table, indent=2))
    else:
        _print(judgements)
    return 1 if failed else 0


def _print(judgements: tuple[Judgement, ...]) -> None:
    from rich.console import Console
    from rich.markup import escape

    console = Console(highlight=False)
    width = max(len(judgement.id) for judgement in judgements)
    for judgement in judgements:
        style = _STYLES[judgement.state]
        line = f"[{style}]{judgement.state}[/]  {judgement.id:<{width}}  {escape(judgement.found)}"
        console.print(line, soft_wrap=True)
        if judgement.fix:
            console.print(f"{'':{6 + width}}  fix: {judgement.fix}", markup=False, soft_wrap=True)
    counts = ", ".join(f"{sum(j.state == state for j in judgements)} {state}" for state in _STYLES)
    console.print(f"\n{len(judgements)} checks: {counts}", soft_wrap=True)

"""``tutti-hal collect``: facts about this machine, without opinion, in a form that can be hashed."""

from __future__ import annotations

import argparse
import json
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from tutti_hal.record import Toolchain

EPILOG = """\
The facts are the same on every run on an unchanged machine: no times, no free memory, no serial numbers. Their SHA-256,
over canonical JSON, names the machine's state in reports. `tutti-hal doctor` judges them.

examples:
  tutti-hal collect
  tutti-hal collect --json > machine.json
"""


def configure(parser: argparse.ArgumentParser) -> None:
    """Declare the verb's options."""
    parser.epilog = EPILOG
    parser.add_argument("--json", action="store_true", help="print one JSON object")


def collect() -> dict[str, Any]:
    """Every fact, by subject. Asks compilers for their versions (at most seconds); imports no SDK."""
    from tutti_hal import machine, profile

    found = profile.candidates()
    return {
        "python": machine.python_facts(),
        "cpu": machine.cpu_facts(),
        "memory": machine.memory_facts(),
        "kernel": machine.kernel_facts(),
        "limits": machine.limit_facts(),
        "packages": machine.package_facts(),
        "nvme": machine.nvme_facts(),
        "compilers": {
            candidate.vendor: _compilers(candidate.backend.record.toolchain)
            for candidate in found
            if candidate.backend is not None and candidate.kind
        },
        "profiles": {
            candidate.vendor: {
                "package": candidate.package,
                "kind": candidate.kind,
                "archs": list(candidate.archs),
                "devices": list(candidate.found_archs),
                "sdk": candidate.sdk,
                "usable": candidate.usable,
            }
            for candidate in found
        },
        "pinned": pin.profile if (pin := profile.pinned()) else None,
    }


def _compilers(toolchain: Toolchain) -> dict[str, str | None]:
    from tutti_hal import machine

    return {
        name: machine.tool_version((name, toolchain.version_flag), toolchain.version_pattern)
        for name in toolchain.drivers
    }


def run(args: argparse.Namespace) -> int:
    """Print the facts; always 0 unless a typed error stops it."""
    from tutti_hal import machine

    facts = collect()
    sha256 = machine.digest(facts)
    if args.json:
        print(json.dumps({"schema": 1, "sha256": sha256, "facts": facts}, indent=2, sort_keys=True))
        return 0
    from rich.console import Console
    from rich.markup import escape
    from rich.table import Table

    console = Console(highlight=False)
    for subject, value in facts.items():
        table = Table(title=subject, title_justify="left", show_header=False, box=None, padding=(0, 2))
        for name, fact in _rows(value):
            table.add_row(escape(name), escape(fact))
        console.print(table, "")
    console.print(f"sha256 {sha256}", soft_wrap=True)
    return 0


def _rows(value: Any, prefix: str = "") -> list[tuple[str, str]]:
    """Nested facts as (dotted name, text)."""
    if isinstance(value, dict):
        return [row for key, inner in value.items() for row in _rows(inner, f"{prefix}.{key}" if prefix else key)]
    if isinstance(value, list) and value and isinstance(value[0], dict):
        return [row for index, inner in enumerate(value) for row in _rows(inner, f"{prefix}[{index}]")]
    if isinstance(value, list):
        return [(prefix, ", ".join(map(str, value)) or "none")]
    return [(prefix, "none" if value is None else str(value))]

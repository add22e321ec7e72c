"""Sphinx configuration, and the pages that are made from what they describe.

The contract's tables, the root documents and the command line's own help are written into ``docs/generated/`` when a
build starts; git does not track them.
"""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import yaml

project = "tutti-hal"
extensions = ["myst_parser"]
source_suffix = {".md": "markdown"}
exclude_patterns = ["conf.py"]
html_theme = "furo"
html_title = "tutti-hal"
html_show_copyright = False
myst_heading_anchors = 3
nitpicky = True

ROOT = Path(__file__).resolve().parent.parent
SPEC = ROOT / "tutti_hal" / "spec"


def _cell(value: Any) -> str:
    """One table cell: lists joined, line breaks and bars out of the way."""
    if value is None:
        return ""
    if isinstance(value, list):
        value = ", ".join(str(item) for item in value)
    return " ".join(str(value).split()).replace("|", "\\|")


def _table(title: str, intro: str, key: str, rows: dict[str, dict[str, Any]]) -> str:
    """A page with one section per entry: its name as the anchor, its fields as a list."""
    lines = [f"# {title}", "", intro, ""]
    for name, fields in rows.items():
        lines += [f"## {name}", ""]
        if not isinstance(fields, dict):
            lines += [_cell(fields), ""]
            continue
        for field, value in fields.items():
            lines.append(f"* **{field}**: {_cell(value)}")
        lines.append("")
    if len(lines) < 10:
        raise ValueError(f"{title}: no entries under {key}; the page would be empty")
    return "\n".join(lines)


def _load(name: str) -> dict[str, Any]:
    loaded: dict[str, Any] = yaml.safe_load((SPEC / name).read_text(encoding="utf-8"))
    return loaded


def _command_line() -> str:
    """Every verb's help, as the command prints it."""
    from tutti_hal.cli.main import VERBS

    lines = ["# Command line", "", "Printed by the command itself.", ""]
    for verb in ("", *VERBS):
        words = [verb] if verb else []
        done = subprocess.run(
            [sys.executable, "-m", "tutti_hal", *words, "--help"],
            check=True,
            capture_output=True,
            text=True,
            env={"COLUMNS": "100", "NO_COLOR": "1", "PATH": "/usr/bin:/bin"},
        )
        lines += [f"## {'tutti-hal ' + verb if verb else 'tutti-hal'}", "", "```text", done.stdout.rstrip(), "```", ""]
    return "\n".join(lines)


def _coverage() -> str:
    """Every clause with the cases that test it, and each level that has no clause with the reason."""
    from tutti_hal.conformance_tests.catalogue import catalogue
    from tutti_hal.conformance_tests.report.words import LEVEL_TITLES, NO_CLAUSES
    from tutti_hal.spec import load_spec
    from tutti_hal.spec.tables import LEVELS

    claimed, clauses = catalogue().clauses(), load_spec().clauses.values()
    tested = sum(clause.id in claimed for clause in clauses)
    intro = f"{tested} of {len(clauses)} clauses have a case. The others stand as NOT_TESTED."
    intro += " What came of each in a run, on each arch, and why one was not tested there, stands in its"
    lines = ["# Coverage", "", f"{intro} [report](../report.md)."]
    lines += ["", "| level | about | clauses | with a case |", "|---|---|---|---|"]
    of = {level: [clause for clause in clauses if clause.level == level] for level in LEVELS}
    for level, own in of.items():
        with_case = sum(clause.id in claimed for clause in own) if own else NO_CLAUSES[level]
        lines.append(f"| {level} | {LEVEL_TITLES[level]} | {len(own)} | {with_case} |")
    lines.append("")
    for level, own in of.items():
        if own:
            lines += [f"## {level}: {sum(clause.id in claimed for clause in own)} of {len(own)}", ""]
            lines += ["| clause | text | cases |", "|---|---|---|"]
            for clause in own:
                names = ", ".join(f"`{case.name}`" for case in claimed.get(clause.id, [])) or "**NOT_TESTED**: no case"
                lines.append(f"| `{clause.id}` | {_cell(clause.text)} | {names} |")
            lines.append("")
    return "\n".join(lines)


def _mutants() -> str:
    """The kept table of mutants, of the product on HOST."""
    from tutti_hal.conformance_tests.mutants.ledger import kept_table, read_rows
    from tutti_hal.conformance_tests.mutants.sites import all_mutants
    from tutti_hal.conformance_tests.mutants.summary import page
    from tutti_hal.conformance_tests.mutants.tables import load_tables
    from tutti_hal.conformance_tests.subject import SubjectSpec, profile_of
    from tutti_hal.paths import templates_dir
    from tutti_hal.spec import load_spec

    tables = load_tables()
    mutants = all_mutants(profile_of(SubjectSpec("host")).record, templates_dir(), load_spec(), tables)
    return page(mutants, read_rows(kept_table()), {**tables.equivalents, **tables.survivors})


def _certificates() -> str:
    """The registry's index."""
    from tutti_hal.certificates import read_index
    from tutti_hal.conformance_tests.package.registry import page

    return page(read_index())


def pages() -> dict[str, str]:
    """Every generated page: its path under ``docs/generated/`` and its text."""
    return {
        "host_api.md": _table(
            "Host functions", "From `spec/host_api.yaml`.", "functions", _load("host_api.yaml")["functions"]
        ),
        "primitives.md": _table(
            "Device primitives", "From `spec/primitives.yaml`.", "families", _load("primitives.yaml")["families"]
        ),
        "capabilities.md": _table(
            "Capabilities", "From `spec/capabilities.yaml`.", "capabilities", _load("capabilities.yaml")["capabilities"]
        ),
        "clauses.md": _table("Clauses", "From `spec/clauses.yaml`.", "clauses", _load("clauses.yaml")["clauses"]),
        "architecture.md": (ROOT / "ARCHITECTURE.md").read_text(encoding="utf-8"),
        "changelog.md": (ROOT / "CHANGELOG.md").read_text(encoding="utf-8"),
        "cli.md": _command_line(),
        "coverage.md": _coverage(),
        "mutants.md": _mutants(),
        "certificates.md": _certificates(),
    }


def setup(app: Any) -> None:
    """Write the generated pages before Sphinx looks for sources."""
    folder = Path(app.srcdir) / "generated"
    folder.mkdir(exist_ok=True)
    for name, text in pages().items():
        (folder / name).write_text(text, encoding="utf-8")

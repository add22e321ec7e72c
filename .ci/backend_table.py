"""Write the table of backends, their files and lines, into docs/vendors/index.md; with ``--check`` only compare."""

from __future__ import annotations

import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
PAGE = ROOT / "docs" / "vendors" / "index.md"
BEGIN, END = "<!-- made by .ci/backend_table.py -->\n", "<!-- end -->"


def counted(folder: Path) -> dict[str, int]:
    """Name -> lines of each file of a backend that a port is measured by: all but ``__init__.py``."""
    files = sorted(path for path in folder.rglob("*") if path.is_file() and "__pycache__" not in path.parts)
    return {
        str(path.relative_to(folder)): len(path.read_text(encoding="utf-8").splitlines())
        for path in files
        if path.name not in ("__init__.py", ".gitkeep")
    }


def table(backends: Path) -> str:
    """The table, a row a backend in the order of names."""
    lines = ["| backend | files | lines | `vendor.yaml` | Python | `README.md` |", "|---|---|---|---|---|---|"]
    for folder in sorted(path.parent for path in backends.glob("*/vendor.yaml")):
        files = counted(folder)
        python = sum(number for name, number in files.items() if name.endswith(".py"))
        parts = (len(files), sum(files.values()), files["vendor.yaml"], python, files.get("README.md", 0))
        lines.append(f"| `{folder.name}` | " + " | ".join(map(str, parts)) + " |")
    return "\n".join(lines) + "\n"


def page(text: str, made: str) -> str:
    """The page's text with the table in its place.

    Raises:
        ValueError: the page lacks the two marks.
    """
    before, begin, rest = text.partition(BEGIN)
    _, end, after = rest.partition(END)
    if not begin or not end:
        raise ValueError(f"{PAGE.name} needs the marks {BEGIN.strip()} and {END}")
    return before + BEGIN + made + END + after


def main(arguments: list[str]) -> int:
    """0 when the page is, or was made, fresh; 1 when ``--check`` finds it stale."""
    old = PAGE.read_text(encoding="utf-8")
    new = page(old, table(ROOT / "backends"))
    if arguments == ["--check"]:
        if old != new:
            print(f"{PAGE.relative_to(ROOT)} is stale: run .ci/backend_table.py", file=sys.stderr)
        return int(old != new)
    PAGE.write_text(new, encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

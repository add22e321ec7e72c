"""The must-pass lists: what there is to pass at each level, as text under version control, and their hash.

The lists name no vendor: an arch is an axis that a run adds, and a vendor's declared capabilities decide which lines
are skips for it. A case that comes, goes or changes its claim changes a line, so that a reviewer sees it and a package
says which lists it was made with.
"""

from __future__ import annotations

import argparse
import hashlib
from collections.abc import Mapping, Sequence
from pathlib import Path

from tutti_hal.conformance_tests.case import Instance
from tutti_hal.conformance_tests.catalogue import Catalogue, catalogue

#: Where the lists lie, one file a level.
FOLDER = Path(__file__).parent / "mustpass"


def lists(cases: Catalogue) -> dict[str, str]:
    """File name -> text, for each level that has a case."""
    lines: dict[str, list[str]] = {}
    for case in cases.cases:
        for instance in case.instances():
            lines.setdefault(f"{case.level}.txt", []).append(_line(instance))
    return {name: "".join(f"{line}\n" for line in found) for name, found in lines.items()}


def _line(instance: Instance) -> str:
    case = instance.case
    words = [f"per={case.per}"]
    if case.only is not None:
        words.append("where-it-applies")
    if case.needs:
        words.append(f"needs={','.join(case.needs)}")
    return f"{instance.id} {' '.join(words)} tests={','.join(sorted(instance.clauses))}"


def digest(texts: Mapping[str, str]) -> str:
    """SHA-256 over names and texts, in order of name."""
    whole = hashlib.sha256()
    for name, text in sorted(texts.items()):
        whole.update(f"{name}\0{len(text)}\0{text}".encode())
    return whole.hexdigest()


def committed(folder: Path = FOLDER) -> dict[str, str]:
    """The lists as they lie in the package."""
    return {path.name: path.read_text(encoding="utf-8") for path in sorted(folder.glob("L*.txt"))}


def main(argv: Sequence[str] | None = None) -> int:
    """Write the lists into the source tree: ``python -m tutti_hal.conformance_tests.mustpass``."""
    parser = argparse.ArgumentParser(prog="mustpass", description="Write the must-pass lists.")
    parser.add_argument("--folder", type=Path, default=FOLDER)
    folder: Path = parser.parse_args(argv).folder
    folder.mkdir(parents=True, exist_ok=True)
    texts = lists(catalogue())
    for stale in set(committed(folder)) - set(texts):
        (folder / stale).unlink()
    for name, text in texts.items():
        (folder / name).write_text(text, encoding="utf-8")
    print(f"{sum(text.count(chr(10)) for text in texts.values())} lines in {len(texts)} lists, {digest(texts)}")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())

"""``tutti-hal new-backend``: the scaffold of a backend package, and its update when the contract has grown."""

from __future__ import annotations

import argparse
import json
from pathlib import Path

EPILOG = """\
The scaffold is a package of its own that offers the vendor by entry point. It works at once: it is a copy of the
profile that runs on any CPU. A line that ends in `#?` holds a fact that the vendor must answer, with what to find out
and the clause that checks it; take the marker away when it is answered. `tutti-hal port-status NAME` says what is next.

--update writes what the contract has asked for since the scaffold was made, marked; it changes no line that is there.

exit: 0; 1 when the name or the folder is refused.

examples:
  tutti-hal new-backend acme
  tutti-hal new-backend acme --out ../acme --title 'Acme Compute'
  tutti-hal new-backend acme --out ../acme --update
"""


def configure(parser: argparse.ArgumentParser) -> None:
    """Declare the verb's options."""
    parser.epilog = EPILOG
    parser.add_argument("name", metavar="NAME", help="the vendor's name: lower-case letters, digits and _")
    parser.add_argument("--out", type=Path, metavar="DIR", help="the project's folder (default: tutti-hal-NAME)")
    parser.add_argument("--title", default="", help="as reports call the vendor (default: Name)")
    parser.add_argument("--update", action="store_true", help="add what is new to a scaffold; overwrites nothing")
    parser.add_argument("--json", action="store_true", help="print one JSON object")


def run(args: argparse.Namespace) -> int:
    """Make or update a scaffold.

    Returns:
        0.

    Raises:
        ScaffoldError: it was refused.
    """
    from tutti_hal import scaffold

    folder = args.out or Path(f"tutti-hal-{args.name}")
    if args.update:
        return _update(args, folder)
    made = scaffold.create(args.name, folder, args.title)
    names = [str(path.relative_to(folder)) for path in made.files]
    if args.json:
        print(json.dumps({"schema": 1, "folder": str(folder), "files": names, "open": made.open}, indent=1))
        return 0
    print(f"{args.name}: a working copy in {folder}, {len(names)} files, {made.open} lines to answer (marked #?)")
    for name in names:
        print(f"  {name}")
    print(f"next: pip install -e {folder}, then: tutti-hal port-status {args.name}")
    return 0


def _update(args: argparse.Namespace, folder: Path) -> int:
    from tutti_hal import scaffold

    done = scaffold.update(args.name, folder)
    if args.json:
        table = {"added": list(done.added), "known": list(done.known), "gone": list(done.gone), "open": done.open}
        print(json.dumps({"schema": 1, "folder": str(folder), **table}, indent=1))
        return 0
    for sign, places, what in (
        ("+", done.added, "added, marked"),
        ("=", done.known, "new, and you have answered it already"),
        ("-", done.gone, "no longer asked; you may delete it"),
    ):
        for place in places:
            print(f"  {sign} {place}: {what}")
    changed = f"{len(done.added)} facts added" if done.added else "nothing to add"
    print(f"{args.name}: {changed}; {done.open} lines to answer; no answer was changed")
    return 0

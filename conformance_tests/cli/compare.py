"""``tutti-hal compare``: two packages side by side."""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tutti_hal.conformance_tests.package.comparison import Change, Comparison, Difference

_EPILOG = """\
What differs in options, product, record and machine; each case and clause whose verdict got better or worse, came or
went; durations that changed notably. What the packages say is taken as it stands: `tutti-hal verify` tells whether it
is true.

examples:
  tutti-hal compare before after             the same machine, two versions of the product
  tutti-hal compare here there --json        the same product, two machines

exit: 0 no verdict got worse; 1 some did; 2 wrong usage, or no package.
"""

#: Lines of one kind that are printed; the rest is counted.
_TOLD = 20


def configure(parser: argparse.ArgumentParser) -> None:
    """Declare the verb's options."""
    parser.epilog = _EPILOG
    parser.add_argument("before", type=Path, metavar="BEFORE", help="a package")
    parser.add_argument("after", type=Path, metavar="AFTER", help="another")
    parser.add_argument("--json", action="store_true", help="print one JSON object")


def run(args: argparse.Namespace) -> int:
    """Compare.

    Returns:
        0 when no verdict got worse, 1 when one did, 2 when there was nothing to compare.
    """
    from tutti_hal.conformance_tests.errors import ConformanceError
    from tutti_hal.conformance_tests.package.comparison import compare

    try:
        found = compare(args.before, args.after)
    except ConformanceError as error:
        print(f"tutti-hal compare: {error}", file=sys.stderr)
        return 2
    if args.json:
        print(json.dumps(found.to_json(), indent=1))
    else:
        _print(found)
    return 1 if found.worse else 0


def _print(found: Comparison) -> None:
    for what in ("options", "product", "record", "environment", "levels"):
        _tell([_difference(what, one) for one in getattr(found, what)])
    for what, changes in (("case", found.cases), ("clause", found.clauses)):
        for kind in ("worse", "better", "new", "gone"):
            _tell([_change(what, one) for one in changes if one.kind == kind])
    _tell([f"seconds: {one.name}: {one.before:.2f} -> {one.after:.2f}" for one in found.durations])
    every = [one.kind for one in (*found.cases, *found.clauses)]
    print(", ".join(f"{every.count(kind)} {kind}" for kind in ("worse", "better", "new", "gone")))


def _tell(rows: list[str]) -> None:
    from tutti_hal.conformance_tests.package.findings import printable

    for row in rows[:_TOLD]:
        print(printable(row))
    if len(rows) > _TOLD:
        print(f"... and {len(rows) - _TOLD} more")


def _difference(what: str, one: Difference) -> str:
    return f"{what}: {one.name}: {_value(one.before)} -> {_value(one.after)}"


def _value(value: object) -> str:
    text = str(value)
    # A sum is told by its beginning.
    return "nothing" if value is None else f"{text[:12]}..." if len(text) == 64 and text.isalnum() else text


def _change(what: str, one: Change) -> str:
    reason = f" ({one.reason})" if one.reason and one.kind == "worse" else ""
    return f"{one.kind}: {what} {one.name}: {one.before or 'not there'} -> {one.after or 'not there'}{reason}"

"""Argument types that several verbs share."""

from __future__ import annotations

import argparse
from collections.abc import Callable


def whole_number(lowest: int, highest: int = 1 << 40) -> Callable[[str], int]:
    """An argparse type: an integer within bounds, both included."""

    def convert(text: str) -> int:
        try:
            value = int(text)
        except ValueError:
            raise argparse.ArgumentTypeError(f"{text!r} is not a whole number") from None
        if not lowest <= value <= highest:
            raise argparse.ArgumentTypeError(f"{value} is not between {lowest} and {highest}")
        return value

    return convert

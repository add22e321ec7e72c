"""A record as text, a fact a line, each with its marker."""

from __future__ import annotations

import textwrap
from collections.abc import Iterator, Mapping
from typing import Any

from tutti_hal.scaffold.model import ANY_ARCH, Path_
from tutti_hal.scaffold.questions import marker

_WIDTH = 118


def document(table: Mapping[str, Any]) -> str:
    """A record as YAML with markers. Reading it gives ``table`` again."""
    return "\n".join(_block(table, (), 0)) + "\n"


def _block(table: Mapping[str, Any], path: Path_, indent: int) -> Iterator[str]:
    for key, value in table.items():
        here = (*path, ANY_ARCH if path == ("archs",) else str(key))
        yield from entry(str(key), value, here, indent)


def entry(key: str, value: Any, here: Path_, indent: int) -> Iterator[str]:
    """The lines of one key.

    Args:
        key: as it is written.
        value: scalar, list or mapping.
        here: its place, for the marker.
        indent: columns before the key.
    """
    margin = " " * indent
    if not isinstance(value, Mapping) or not value or here[-1] == "identity":
        yield f"{margin}{flow(key)}: {flow(value)}{marker(here)}"
    elif here[-1] == "values":
        yield f"{margin}{flow(key)}: {{{marker(here)}"
        words = [f"{flow(name)}: {flow(number)}," for name, number in value.items()]
        yield from _filled(words, indent + 2)
        yield f"{margin}}}"
    elif here[0] == "primitives" and len(here) == 2:
        yield f"{margin}{flow(key)}: {flow(value)}{marker(here)}"
    else:
        yield f"{margin}{flow(key)}:"
        yield from _block(value, here, indent + 2)


def _filled(words: list[str], indent: int) -> Iterator[str]:
    joined = " ".join(word.replace(" ", "\0") for word in words)
    for line in textwrap.wrap(joined, _WIDTH - indent, break_long_words=False, break_on_hyphens=False):
        yield " " * indent + line.replace("\0", " ")


def flow(value: Any) -> str:
    """A value on one line, as YAML."""
    import yaml

    text: str = yaml.safe_dump(value, default_flow_style=True, width=100_000, sort_keys=False, allow_unicode=True)
    return text.removesuffix("\n").removesuffix("\n...")

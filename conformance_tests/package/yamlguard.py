"""Whether a YAML text of a stranger is small enough to be read: aliases can make a page into gigabytes."""

from __future__ import annotations

from typing import Any

import yaml

_LOADER: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)

DEPTH_LIMIT = 32
NODES_LIMIT = 200_000
BYTES_LIMIT = 4 << 20


def guard(data: bytes, *, aliases: bool) -> tuple[int, str] | None:
    """What makes a text unfit, with its line; None where a loader may have it. Nothing is built.

    Args:
        data: the text.
        aliases: whether it may have anchors that are used again.
    """
    if len(data) > BYTES_LIMIT:
        return 1, f"more than {BYTES_LIMIT} bytes"
    try:
        return _measure(data.decode("utf-8"), aliases)
    except UnicodeDecodeError as error:
        return data.count(b"\n", 0, error.start) + 1, f"byte {error.start} is not UTF-8"
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        return mark.line + 1 if mark else 1, f"not YAML: {error.problem}"
    except (yaml.YAMLError, ValueError) as error:
        return 1, f"not YAML: {error}"


def _measure(text: str, aliases: bool) -> tuple[int, str] | None:
    """Walk the events, which costs nothing but time, and count the nodes that they would become."""
    sizes: dict[str, int] = {}
    open_nodes: list[tuple[str | None, int]] = []
    total = 0
    for event in yaml.parse(text, Loader=_LOADER):
        line = (event.start_mark.line if event.start_mark else 0) + 1
        if isinstance(event, yaml.AliasEvent):
            if not aliases:
                return line, f"*{event.anchor}: an alias has no place here"
            if event.anchor not in sizes:
                return line, f"*{event.anchor} stands for something that is not complete yet"
            total += sizes[event.anchor]
        elif isinstance(event, yaml.CollectionStartEvent):
            open_nodes.append((event.anchor, total))
            total += 1
            if len(open_nodes) > DEPTH_LIMIT:
                return line, f"nested more than {DEPTH_LIMIT} deep"
        elif isinstance(event, yaml.CollectionEndEvent):
            anchor, before = open_nodes.pop()
            if anchor:
                sizes[anchor] = total - before
        elif isinstance(event, yaml.ScalarEvent):
            total += 1
            if event.anchor:
                sizes[event.anchor] = 1
        if total > NODES_LIMIT:
            return line, f"more than {NODES_LIMIT} values"
    return None

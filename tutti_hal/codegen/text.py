"""Laying out C text the way the repository's clang-format settings would, without running clang-format."""

from __future__ import annotations

import re
import textwrap
from collections.abc import Sequence

#: Column limit of the repository's .clang-format.
WIDTH = 120
INDENT = "    "


def comment(text: str, indent: str = "") -> str:
    """``text`` as ``//`` lines within the column limit."""
    lead = f"{indent}// "
    return "\n".join(
        textwrap.wrap(
            " ".join(text.split()),
            WIDTH,
            initial_indent=lead,
            subsequent_indent=lead,
            break_long_words=False,
            break_on_hyphens=False,
        )
    )


def listed(opening: str, items: Sequence[str], closing: str) -> str:
    """``opening item, item closing``, broken so that continued lines begin under the first item."""
    lines = [opening]
    for index, item in enumerate(items):
        last = index == len(items) - 1
        piece = item + (closing if last else ",")
        joint = "" if index == 0 else " "
        if index and len(lines[-1]) + len(joint) + len(piece) > WIDTH:
            lines.append(" " * len(opening) + piece)
        else:
            lines[-1] += joint + piece
    return "\n".join(lines) if items else opening + closing


def kernel_signature(head: str, name: str, items: Sequence[str]) -> str:
    """A kernel's head, with its attributes, name and parameters: what does not fit goes below the attributes."""
    single = f"{head} {name}({', '.join(items)})"
    # The body's brace stands behind it.
    if len(single) + len(" {") <= WIDTH:
        return single
    return f"{head}\n" + listed(f"{INDENT}{name}(", items, ")")


def initializer(declaration: str, items: Sequence[str], remarks: Sequence[str]) -> str:
    """``declaration = {item, item};``, or an item a line, each with its remark behind it."""
    single = f"{declaration} = {{{', '.join(items)}}};"
    if len(single) <= WIDTH:
        return single
    width = max(len(item) for item in items) + 1
    rows = [f"{INDENT}{item + ',':<{width}} // {remark}" for item, remark in zip(items, remarks, strict=True)]
    return "\n".join([f"{declaration} = {{", *rows, "};"])


def function(signature: str, statements: str) -> str:
    """A function's definition: on one line when it has one statement and fits, as clang-format would have it."""
    body = statements.strip("\n")
    lines = [line for line in body.split("\n") if line.strip()]
    if not lines:
        return f"{signature} {{}}"
    single = f"{signature} {{ {lines[0].strip()} }}"
    code = re.sub(r'"(?:\\.|[^"\\])*"', "", lines[0])
    one_statement = len(lines) == 1 and code.count(";") == 1 and not code.lstrip().startswith(("#", "//"))
    if one_statement and len(single) <= WIDTH and "\n" not in signature:
        return single
    return f"{signature} {{\n{textwrap.indent(textwrap.dedent(body), INDENT)}\n}}"


def continued(lines: Sequence[str]) -> str:
    """The lines of a macro: one line as it is; more are joined by backslashes at the column limit."""
    if len(lines) == 1:
        return lines[0]
    head, *rest = lines
    rows = [head, *(f"{INDENT}{line}" for line in rest)]
    return "\n".join([*(f"{row:<{WIDTH - 1}}\\" for row in rows[:-1]), rows[-1]])

"""The tokens of a kernel template, as far as mutation needs them.

Comments, literals of text, preprocessor lines, attributes and everything of Jinja's are kept out: no operator sees
them. What is left is C++ as the house formats it, so that a ``<`` with blanks around it is a comparison and one without
opens a template's arguments.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

_TOKEN = re.compile(
    r"""
      (?P<skip>\{\#.*?\#\} | //[^\n]* | /\*.*?\*/ | "(?:\\.|[^"\\\n])*" | '(?:\\.|[^'\\\n])'
             | \[\[.*?\]\] | \#[ \t]*include[^\n]*)
    | (?P<jinja>\{%.*?%\} | \{\{.*?\}\})
    | (?P<preprocessor>^[ \t]*\#(?:[^\n\\]|\\.|\\\n)*)
    | (?P<number>0[xX][0-9a-fA-F]+[uUlL]* | \d+[uUlL]*)
    | (?P<name>[A-Za-z_]\w*)
    | (?P<mark><<= | >>= | \+\+ | -- | -> | :: | << | >> | <= | >= | == | != | && | \|\| | [-+*/%&|^]= | \S)
    """,
    re.X | re.S | re.M,
)
_GUARD = re.compile(r"#\s*if\s+TT_HAS_(\w+)\s*$")
_KERNEL = re.compile(r"\{%-?\s*call\s+kernel\(\s*\"(\w+)\"")
_END_KERNEL = re.compile(r"\{%-?\s*endcall")
_OPENS_SCOPE = frozenset({"struct", "class", "namespace"})


@dataclass(frozen=True)
class Token:
    """One token of code.

    Attributes:
        kind: ``number``, ``name`` or ``mark``.
        text: as it stands there.
        start: offset in the template.
        line: from 1.
        scope: the function, kernel or record around it; ``-`` outside of any.
        spaced: whether there are blanks or line ends on both sides.
        guard: capabilities that must be declared so for the line to be compiled, by their C name.
    """

    kind: str
    text: str
    start: int
    line: int
    scope: str
    spaced: bool
    guard: tuple[tuple[str, bool], ...] = ()

    @property
    def end(self) -> int:
        """Offset behind it."""
        return self.start + len(self.text)


def tokens_of(text: str) -> tuple[Token, ...]:
    """Every token of code in a template, in order."""
    return tuple(_scan(text))


def _scan(text: str) -> Iterator[Token]:
    guards: list[tuple[str, bool] | None] = []
    scope, depth, pending, callee, previous = "-", 0, "", "", ""
    kernel = ""
    line, counted = 1, 0
    for match in _TOKEN.finditer(text):
        line += text.count("\n", counted, match.start())
        counted = match.start()
        kind, word = match.lastgroup or "", match.group()
        if kind == "skip":
            continue
        if kind == "jinja":
            begins = _KERNEL.match(word)
            kernel = begins[1] if begins else "" if _END_KERNEL.match(word) else kernel
            previous = ""
            continue
        if kind == "preprocessor":
            _guard(word, guards)
            continue
        if word == "}" and depth:
            depth -= 1
        spaced = _blank(text, match.start() - 1) and _blank(text, match.end())
        own = kernel or scope
        at = own if kernel or depth or not pending else pending
        yield Token(kind, word, match.start(), line, at, spaced, tuple(g for g in guards if g is not None))
        if depth == 0 and not kernel:
            if kind == "name" and previous in _OPENS_SCOPE:
                pending = word
            elif word == "(" and not callee:
                pending = callee = previous
            elif word in (";", "}"):
                pending = callee = ""
                scope = "-"
            elif word == "{":
                scope = pending or "-"
                callee = ""
        if word == "{":
            depth += 1
        previous = word


def _guard(word: str, guards: list[tuple[str, bool] | None]) -> None:
    directive = word.lstrip()[1:].lstrip()
    if directive.startswith("if"):
        match = _GUARD.match(word.strip())
        guards.append((match[1], True) if match else None)
    elif directive.startswith("else") and guards:
        known = guards[-1]
        guards[-1] = (known[0], not known[1]) if known else None
    elif directive.startswith("endif") and guards:
        guards.pop()


def _blank(text: str, offset: int) -> bool:
    return not 0 <= offset < len(text) or text[offset].isspace()


def guard_of(token: Token, macros: Mapping[str, str]) -> dict[str, bool]:
    """The guard of a token by capability; ``macros`` is C name (without ``TT_HAS_``) -> capability."""
    return {macros[name]: value for name, value in token.guard if name in macros}

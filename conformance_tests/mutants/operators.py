"""The operators on a template's text: for every site that an operator fits, one fault.

They know the language and the primitives' names, and nothing of what a template does. Numbers in a template's
attributes, static assertions and preprocessor lines are no sites; see :mod:`tokens`.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from tutti_hal.conformance_tests.mutants.mutant import Operator, TextEdit
from tutti_hal.conformance_tests.mutants.tokens import Token, tokens_of

_FLIPPED = {
    "==": ("!=",),
    "!=": ("==",),
    "<": ("<=", ">="),
    "<=": ("<", ">"),
    ">": (">=", "<="),
    ">=": (">", "<"),
    "&&": ("||",),
    "||": ("&&",),
    "true": ("false",),
    "false": ("true",),
}
_COMPARES = frozenset({"==", "!=", "<", "<=", ">", ">=", "&&", "||"})
_NO_CALL = frozenset({"if", "while", "for", "switch", "return", "sizeof", "static_assert", "alignof", "alignas"})
_CLOSES = {"(": ")", "[": "]", "{": "}"}
#: Where the condition of a conditional expression cannot reach back over.
_STOPS = frozenset({"(", "[", "{", ",", ";", "=", "+=", "-=", "|=", "&=", "return", "?", ":"})
_ORDERED = re.compile(r"tt_(load_acquire|store_release)_")
_SYSTEM = re.compile(r"tt_(load|store|atomic)_\w*_sys_")


@dataclass(frozen=True)
class Site:
    """A place and what stands there in a mutant; ``token`` is the one that it is named after."""

    operator: Operator
    token: Token
    edit: TextEdit


def sites_of(text: str, groups: Sequence[Sequence[str]] = ()) -> tuple[Site, ...]:
    """Every site of a template, in order of place.

    Args:
        text: the template's text.
        groups: names of constants that belong together; each one is exchanged for the next of its group.
    """
    tokens = _judged(tokens_of(text))
    following = {name: group[(n + 1) % len(group)] for group in groups for n, name in enumerate(group)}
    finders: tuple[Callable[[Sequence[Token], int], Iterator[Site]], ...] = (_drop, _weaken, _arithmetic, _flip)
    found: dict[TextEdit, Site] = {}
    for index, token in enumerate(tokens):
        sites = [site for find in finders for site in find(tokens, index)]
        if token.kind == "name" and token.text in following and not _is_defined(tokens, index):
            sites.append(_replace(Operator.SWAP_CONSTANT, token, following[token.text]))
        for site in _conditions(text, tokens, index):
            sites.append(site)
        for site in sites:
            found.setdefault(site.edit, site)
    return tuple(sorted(found.values(), key=lambda site: (site.edit.start, site.edit.end, site.edit.instead)))


def _judged(tokens: Sequence[Token]) -> list[Token]:
    """The tokens without static assertions: they decide whether a text compiles, and nothing after that."""
    kept: list[Token] = []
    index = 0
    while index < len(tokens):
        if tokens[index].text == "static_assert":
            index = _closing(tokens, index + 1) + 1
            continue
        kept.append(tokens[index])
        index += 1
    return kept


def _drop(tokens: Sequence[Token], index: int) -> Iterator[Site]:
    token = tokens[index]
    if token.kind != "name" or token.text in _NO_CALL or _text(tokens, index + 1) != "(":
        return
    if index and tokens[index - 1].text not in (";", "{", "}"):
        return
    end = _closing(tokens, index + 1)
    if token.scope != "-" and _text(tokens, end + 1) == ";":
        yield Site(Operator.DROP, token, TextEdit(token.start, tokens[end + 1].start, ""))


def _weaken(tokens: Sequence[Token], index: int) -> Iterator[Site]:
    token = tokens[index]
    if token.kind != "name":
        return
    if _ORDERED.match(token.text):
        weaker = token.text.replace("load_acquire", "load_relaxed").replace("store_release", "store_relaxed")
        yield _replace(Operator.WEAKEN_ORDER, token, weaker)
    if _SYSTEM.match(token.text):
        yield _replace(Operator.WEAKEN_SCOPE, token, token.text.replace("_sys_", "_dev_"))
    narrower = {"tt_fence_system": "tt_fence_device", "tt_fence_device": "tt_fence_block"}
    if token.text in narrower:
        yield _replace(Operator.WEAKEN_SCOPE, token, narrower[token.text])


def _arithmetic(tokens: Sequence[Token], index: int) -> Iterator[Site]:
    token = tokens[index]
    if token.kind == "number":
        value, suffix = _number(token.text)
        hexadecimal = token.text[:2] in ("0x", "0X")
        for operator, other in ((Operator.PLUS_ONE, value + 1), (Operator.MINUS_ONE, value - 1)):
            if other >= 0:
                yield _replace(operator, token, f"{other:#x}{suffix}" if hexadecimal else f"{other}{suffix}")
    elif token.text in ("+", "-") and token.spaced and _is_operand(tokens, index - 1):
        if index + 1 < len(tokens) and tokens[index + 1].kind != "number":
            yield _replace(Operator.PLUS_ONE, token, f"+ 1 {token.text}")
            yield _replace(Operator.MINUS_ONE, token, f"- 1 {token.text}")
    elif token.text in ("+=", "-="):
        more, less = ("1 +", "-1 +") if token.text == "+=" else ("-1 +", "1 +")
        yield _replace(Operator.PLUS_ONE, token, f"{token.text} {more}")
        yield _replace(Operator.MINUS_ONE, token, f"{token.text} {less}")
    elif token.text in ("++", "--"):
        if index and tokens[index - 1].kind == "name" and _text(tokens, index + 1) in (";", ")"):
            yield _replace(Operator.PLUS_ONE, token, f" {token.text[0]}= 2")
            yield _replace(Operator.MINUS_ONE, token, f" {token.text[0]}= 0")
        else:
            yield _replace(Operator.MINUS_ONE, token, "--" if token.text == "++" else "++")


def _flip(tokens: Sequence[Token], index: int) -> Iterator[Site]:
    token = tokens[index]
    if token.text == "!" and not token.spaced:
        yield Site(Operator.FLIP, token, TextEdit(token.start, token.end, ""))
    if token.kind == "mark" and not token.spaced:
        return
    for other in _FLIPPED.get(token.text, ()):
        yield _replace(Operator.FLIP, token, other)


def _conditions(text: str, tokens: Sequence[Token], index: int) -> Iterator[Site]:
    """A condition that is a plain value, with no comparison to flip, is negated as a whole."""
    token = tokens[index]
    if token.text in ("if", "while") and _text(tokens, index + 1) == "(":
        first, last = index + 2, _closing(tokens, index + 1) - 1
    elif token.text == "?":
        first, last = _condition_start(tokens, index), index - 1
    else:
        return
    inside = [one.text for one in tokens[first : last + 1]]
    if inside and inside[0] != "!" and inside not in (["true"], ["false"]) and not _compares(inside):
        start, end = tokens[first].start, tokens[last].end
        yield Site(Operator.FLIP, tokens[first], TextEdit(start, end, f"!({text[start:end]})"))


def _compares(words: Sequence[str]) -> bool:
    depth = 0
    for word in words:
        depth += (word in _CLOSES) - (word in _CLOSES.values())
        if depth == 0 and word in _COMPARES:
            return True
    return False


def _condition_start(tokens: Sequence[Token], index: int) -> int:
    depth = 0
    for at in range(index - 1, -1, -1):
        word = tokens[at].text
        if word in _CLOSES.values():
            depth += 1
        elif depth and word in _CLOSES:
            depth -= 1
        elif not depth and word in _STOPS:
            return at + 1
    return 0


def _closing(tokens: Sequence[Token], index: int) -> int:
    """Index of the bracket that closes the one at ``index``; the last token where none does."""
    depth = 0
    for at in range(index, len(tokens)):
        depth += (tokens[at].text in _CLOSES) - (tokens[at].text in _CLOSES.values())
        if depth == 0:
            return at
    return len(tokens) - 1


def _is_operand(tokens: Sequence[Token], index: int) -> bool:
    return index >= 0 and (tokens[index].kind in ("name", "number") or tokens[index].text in (")", "]", "++", "--"))


def _is_defined(tokens: Sequence[Token], index: int) -> bool:
    return index > 1 and _text(tokens, index + 1) == "=" and "constexpr" in [t.text for t in tokens[index - 3 : index]]


def _text(tokens: Sequence[Token], index: int) -> str:
    return tokens[index].text if 0 <= index < len(tokens) else ""


def _number(text: str) -> tuple[int, str]:
    digits = text.rstrip("uUlL")
    return int(digits, 0) if digits.lower().startswith("0x") else int(digits), text[len(digits) :]


def _replace(operator: Operator, token: Token, instead: str) -> Site:
    return Site(operator, token, TextEdit(token.start, token.end, instead))


def applied(text: str, edit: TextEdit) -> str:
    """The text with one edit made."""
    return text[: edit.start] + edit.instead + text[edit.end :]


def groups_in(table: Mapping[str, Sequence[str]]) -> tuple[tuple[str, ...], ...]:
    """The groups of constants of a table, as :func:`sites_of` wants them."""
    return tuple(tuple(names) for names in table.values())

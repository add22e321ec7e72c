"""Schemas as small objects: each checks one node, notes what is wrong, and gives back a plain Python value.

A checker never raises: what it cannot read becomes a problem and :data:`BAD`, so that one run lists all problems.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from typing import Any, Protocol

from tutti_hal.spec.nodes import Node, Problems, near_miss


class _Bad:
    def __repr__(self) -> str:
        return "BAD"

    def __bool__(self) -> bool:
        return False


#: Stands for a value that was wrong; the problem is already noted.
BAD: Any = _Bad()


class Checker(Protocol):
    """What every schema object can do."""

    def check(self, node: Node, problems: Problems) -> Any:
        """The plain value of ``node``, or :data:`BAD` after noting problems."""


@dataclass(frozen=True)
class Text:
    """A piece of text; ``pattern`` must match it whole, ``known`` lists what it may be, ``noun`` names it in errors."""

    pattern: str | None = None
    known: Collection[str] | None = None
    noun: str = "value"
    empty: bool = False

    def check(self, node: Node, problems: Problems) -> Any:
        """See :class:`Checker`."""
        value = node.scalar()
        if not isinstance(value, str):
            problems.add(node, f"expected text, found {node.kind}")
            return BAD
        if not value.strip() and not self.empty:
            problems.add(node, "must not be empty")
            return BAD
        if self.known is not None and value not in self.known:
            problems.add(node, f"no {self.noun} '{value}'{near_miss(value, self.known) or _listing(self.known)}")
            return BAD
        if self.pattern is not None and not re.fullmatch(self.pattern, value):
            problems.add(node, f"'{value}' is not a well-formed {self.noun} (expected {self.pattern})")
            return BAD
        return value


def _listing(known: Collection[str]) -> str:
    words = sorted(known)
    return f"; known: {', '.join(words)}" if len(words) <= 12 else ""


@dataclass(frozen=True)
class Int:
    """A whole number in ``[low, high]``."""

    low: int | None = None
    high: int | None = None

    def check(self, node: Node, problems: Problems) -> Any:
        """See :class:`Checker`."""
        value = node.scalar()
        if not isinstance(value, int) or isinstance(value, bool):
            problems.add(node, f"expected a whole number, found {node.kind}")
            return BAD
        if (self.low is not None and value < self.low) or (self.high is not None and value > self.high):
            problems.add(node, f"{value} is out of range [{self.low}, {self.high}]")
            return BAD
        return value


@dataclass(frozen=True)
class Flag:
    """true or false."""

    def check(self, node: Node, problems: Problems) -> Any:
        """See :class:`Checker`."""
        value = node.scalar()
        if not isinstance(value, bool):
            problems.add(node, f"expected true or false, found {node.kind}")
            return BAD
        return value


@dataclass(frozen=True)
class Scalar:
    """Text, a whole number, or true/false, each kept as it is."""

    def check(self, node: Node, problems: Problems) -> Any:
        """See :class:`Checker`."""
        value = node.scalar()
        if not isinstance(value, (str, int, bool)):
            problems.add(node, f"expected text, a whole number or true/false, found {node.kind}")
            return BAD
        return value


@dataclass(frozen=True)
class ListOf:
    """A list whose elements all pass ``item``; gives a tuple."""

    item: Checker
    least: int = 0
    unique: bool = False

    def check(self, node: Node, problems: Problems) -> Any:
        """See :class:`Checker`."""
        if not node.is_list:
            problems.add(node, f"expected a list, found {node.kind}")
            return BAD
        values = []
        for element in node.elements():
            value = self.item.check(element, problems)
            if value is BAD:
                continue
            if self.unique and value in values:
                problems.add(element, f"'{value}' is already in the list")
            values.append(value)
        if len(values) < self.least and len(list(node.elements())) < self.least:
            problems.add(node, f"expected at least {self.least} element(s)")
        return tuple(values)


@dataclass(frozen=True)
class MapOf:
    """A mapping with free keys: each key passes ``pattern`` and ``known``, each value ``value``; gives a dict."""

    value: Checker
    pattern: str | None = None
    known: Collection[str] | None = None
    noun: str = "key"

    def check(self, node: Node, problems: Problems) -> Any:
        """See :class:`Checker`."""
        if not node.is_map:
            problems.add(node, f"expected a mapping, found {node.kind}")
            return BAD
        result: dict[str, Any] = {}
        for name, key_node, value_node in node.items(problems):
            if self.known is not None and name not in self.known:
                problems.add(key_node, f"no {self.noun} '{name}'{near_miss(name, self.known) or _listing(self.known)}")
                continue
            if self.pattern is not None and not re.fullmatch(self.pattern, name):
                problems.add(key_node, f"'{name}' is not a well-formed {self.noun} (expected {self.pattern})")
                continue
            value = self.value.check(value_node, problems)
            if value is not BAD:
                result[name] = value
        return result


@dataclass(frozen=True)
class Struct:
    """A mapping with fixed keys. Every missing required key and every unknown key is a problem; gives a dict."""

    required: Mapping[str, Checker]
    optional: Mapping[str, Checker] = field(default_factory=dict)

    def check(self, node: Node, problems: Problems) -> Any:
        """See :class:`Checker`."""
        if not node.is_map:
            problems.add(node, f"expected a mapping, found {node.kind}")
            return BAD
        known = {**self.required, **self.optional}
        result: dict[str, Any] = {}
        seen: set[str] = set()
        for name, key_node, value_node in node.items(problems):
            checker = known.get(name)
            if checker is None:
                problems.add(key_node, f"unknown key '{name}'{near_miss(name, known) or _listing(known)}")
                continue
            seen.add(name)
            value = checker.check(value_node, problems)
            if value is not BAD:
                result[name] = value
        for name in self.required:
            if name not in seen:
                problems.add(node, f"the key '{name}' is missing")
        return result


@dataclass(frozen=True)
class Either:
    """Text where the node is a scalar, ``struct`` where it is a mapping or a list."""

    text: Checker
    struct: Checker

    def check(self, node: Node, problems: Problems) -> Any:
        """See :class:`Checker`."""
        return (self.struct if node.is_map or node.is_list else self.text).check(node, problems)

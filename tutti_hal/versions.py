"""Versions of SDKs, and the comparisons that records make of them."""

from __future__ import annotations

import operator
from collections.abc import Callable, Mapping
from types import MappingProxyType

_COMPARE: Mapping[str, Callable[[list[int], list[int]], bool]] = MappingProxyType(
    {">=": operator.ge, "<=": operator.le, "==": operator.eq, "<": operator.lt, ">": operator.gt}
)


def satisfies(version: str, comparisons: str) -> bool:
    """Whether a version such as ``4.3.3`` meets all comparisons, such as ``>=4.2,<5``.

    Versions compare number by number, and a missing part counts as 0. What breaks the form of either is the schema's to
    refuse, before.
    """
    return all(_holds(_parts(version), term) for term in comparisons.split(","))


def _parts(version: str) -> list[int]:
    """The numbers of a version, without trailing zeros, so that 4.3 and 4.3.0 are one."""
    numbers = [int(part) for part in version.split(".")]
    while numbers and numbers[-1] == 0:
        numbers.pop()
    return numbers


def _holds(version: list[int], term: str) -> bool:
    sign = next(sign for sign in _COMPARE if term.startswith(sign))
    return _COMPARE[sign](version, _parts(term.removeprefix(sign)))

"""The operators on a record's lowerings: a primitive that does less, more, or what its neighbour does.

A mutant replaces the text of one member, through the family's ``exceptions``. The weaker text is that of the record's
own weaker member, so nothing here knows how any vendor writes a primitive.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterator
from dataclasses import dataclass

from tutti_hal.conformance_tests.mutants.mutant import Operator
from tutti_hal.record import Arch, Record
from tutti_hal.spec import Primitive, Spec

_INTEGERS = ("uint32_t", "uint64_t")
_RETURN = re.compile(r"\s*return\s+([^;]*);\s*")
_WEAKER_ORDER = {"acquire": "relaxed", "release": "relaxed"}
_NARROWER_SCOPE = {"system": "device", "device": "block"}


@dataclass(frozen=True)
class LoweringMutant:
    """Another text for one primitive; ``variant`` tells several of one operator apart."""

    primitive: Primitive
    operator: Operator
    variant: str
    before: str
    after: str


def lowering_mutants(record: Record, spec: Spec) -> Iterator[LoweringMutant]:
    """Every mutant of every lowering, in the contract's order; texts are those of the first arch that has them."""
    for primitive in spec.primitives.values():
        for arch in record.archs.values():
            before = record.lower(primitive, arch) if record.lowering_of(primitive, arch) is not None else None
            if before is None:
                continue
            for operator, variant, after in _changes(record, spec, arch, primitive, before):
                if after.strip() != before.strip():
                    yield LoweringMutant(primitive, operator, variant, before, after)
            break


def _changes(
    record: Record, spec: Spec, arch: Arch, primitive: Primitive, before: str
) -> Iterator[tuple[Operator, str, str]]:
    if primitive.kind == "macro":
        if before:
            yield Operator.DROP, "", ""
        return
    yield from _result(primitive, before)
    yield from _weaker(record, spec, arch, primitive)
    yield from _neighbours(record, spec, arch, primitive)
    yield from _parameters(primitive, before)


def _result(primitive: Primitive, before: str) -> Iterator[tuple[Operator, str, str]]:
    """The work left out, or its result changed."""
    unused = " ".join(f"(void){one.name};" for one in primitive.params)
    returns = primitive.returns
    if returns == "void":
        yield Operator.DROP, "", unused or ";"
        return
    match = _RETURN.fullmatch(before)
    value = f"({match[1]})" if match else f"[&]() -> {returns} {{ {before} }}()"
    if returns == "bool":
        yield Operator.FLIP, "", f"return !{value};"
    elif returns in (*_INTEGERS, "tt_mask"):
        yield Operator.PLUS_ONE, "", f"return static_cast<{returns}>({value} + 1u);"
        yield Operator.MINUS_ONE, "", f"return static_cast<{returns}>({value} - 1u);"
    else:
        yield Operator.PLUS_ONE, "", f"{returns} changed = {value};\nchanged.x += 1u;\nreturn changed;"
    if returns == "uint64_t" and "64" in primitive.axes.values():
        yield Operator.SWAP, "half", f"return static_cast<uint32_t>{value};"


def _weaker(record: Record, spec: Spec, arch: Arch, primitive: Primitive) -> Iterator[tuple[Operator, str, str]]:
    for axis, weaker, operator in (
        ("order", _WEAKER_ORDER, Operator.WEAKEN_ORDER),
        ("scope", _NARROWER_SCOPE, Operator.WEAKEN_SCOPE),
    ):
        value = weaker.get(primitive.axes.get(axis, ""))
        if value is not None:
            yield from ((operator, "", text) for text in _of_member(record, spec, arch, primitive, axis, value))


def _neighbours(record: Record, spec: Spec, arch: Arch, primitive: Primitive) -> Iterator[tuple[Operator, str, str]]:
    """What the next member along an axis does that is neither order, nor scope, nor width."""
    for axis in primitive.axes:
        if axis in ("order", "scope", "bits"):
            continue
        values = list(dict.fromkeys(one.axes[axis] for one in spec.families[primitive.family]))
        value = values[(values.index(primitive.axes[axis]) + 1) % len(values)]
        yield from ((Operator.SWAP, value, text) for text in _of_member(record, spec, arch, primitive, axis, value))


def _parameters(primitive: Primitive, before: str) -> Iterator[tuple[Operator, str, str]]:
    """A value that arrives changed, cut to half its width, or in another's place."""
    plain = [one for one in primitive.params if not one.ctype.endswith("*")]
    for first, second in itertools.pairwise(plain):
        if first.ctype == second.ctype:
            exchange = f"const {first.ctype} kept = {first.name};\n{first.name} = {second.name};\n{second.name} = kept;"
            yield Operator.SWAP, f"{first.name}-{second.name}", f"{exchange}\n{before}"
    for one in plain:
        if one.ctype in _INTEGERS and primitive.returns == "void":
            yield Operator.PLUS_ONE, one.name, f"{one.name} += 1u;\n{before}"
        elif one.ctype == "tt_u32x4":
            yield Operator.PLUS_ONE, one.name, f"{one.name}.x += 1u;\n{before}"
        if one.ctype == "uint64_t":
            yield Operator.SWAP, f"half-{one.name}", f"{one.name} = static_cast<uint32_t>({one.name});\n{before}"


def _of_member(record: Record, spec: Spec, arch: Arch, primitive: Primitive, axis: str, value: str) -> Iterator[str]:
    """The text of the member that has another value on one axis, where its signature is the same."""
    wanted = {**primitive.axes, axis: value}
    for other in spec.families[primitive.family]:
        if dict(other.axes) == wanted and (other.returns, other.params) == (primitive.returns, primitive.params):
            text = record.lower(other, arch)
            if text is not None:
                yield text

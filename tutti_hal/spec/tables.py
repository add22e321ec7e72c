"""The contract tables as frozen records, and the loader that reads and cross-checks the four YAML files."""

from __future__ import annotations

import functools
import itertools
import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import Any

from tutti_hal.paths import package_file
from tutti_hal.spec.nodes import Node, Problems, near_miss, read
from tutti_hal.spec.schema import BAD, Flag, Int, ListOf, MapOf, Scalar, Struct, Text

#: Level names of the conformance ladder.
LEVELS = ("L0", "L1", "L2", "L3", "L4", "L5", "L6", "L7", "L8")

#: Words joined by dots. A number has no place in a name: values change, anchors do not.
_ANCHOR = r"[a-z][a-z_]*(\.[a-z][a-z_]*)+"
_SHORT_SCOPE = {"device": "dev", "system": "sys", "block": "block"}


@dataclass(frozen=True)
class Clause:
    """One normative sentence: its anchor, the level at which it binds, the version of the contract it entered."""

    id: str
    text: str
    level: str
    since: str


@dataclass(frozen=True)
class Capability:
    """Something that a vendor or one of its architectures may be able to do.

    Attributes:
        id: its name.
        meaning: what it can do.
        scope: ``vendor`` or ``arch``: which of them answers it.
        required_from: the level from which on it may not be declared false; None: it is optional at every level. Only
            what is optional at a level is a reason to skip a case there.
        unsaid: what a record says of it that does not mention it; None: every record has to mention it.
    """

    id: str
    meaning: str
    scope: str
    required_from: str | None = None
    unsaid: bool | None = None

    def optional_at(self, level: str) -> bool:
        """Whether declaring it false is a reason to skip a case of ``level`` (``L0`` to ``L8``)."""
        return self.required_from is None or LEVELS.index(level) < LEVELS.index(self.required_from)


@dataclass(frozen=True)
class Parameter:
    """One parameter; a macro's has the type ``macro``."""

    ctype: str
    name: str


@dataclass(frozen=True)
class Primitive:
    """One device primitive, fully named.

    Attributes:
        id: contract id, such as ``load.acquire.system.u32``.
        family: the family whose lowering covers it.
        c_name: its name in templates.
        kind: ``function`` or ``macro``.
        returns: C type; empty for a macro.
        params: parameters in order.
        axes: the values that this member takes on its family's axes, as text.
        scope: ``block``, ``device``, ``system`` or empty.
        order: memory order, or empty.
        capability: the capability without which it is absent, or None.
        contract: what it does.
        never: what a lowering must never do.
        clauses: anchors of the clauses that test it.
    """

    id: str
    family: str
    c_name: str
    kind: str
    returns: str
    params: tuple[Parameter, ...]
    axes: Mapping[str, str]
    scope: str
    order: str
    capability: str | None
    contract: str
    never: str
    clauses: tuple[str, ...]

    @property
    def signature(self) -> str:
        """The C prototype, or the macro with its parameters."""
        if self.kind == "macro":
            names = ", ".join(p.name for p in self.params)
            return f"{self.c_name}({names})" if self.params else self.c_name
        params = ", ".join(f"{p.ctype}{'' if p.ctype.endswith('*') else ' '}{p.name}" for p in self.params)
        return f"{self.returns} {self.c_name}({params or 'void'})"


@dataclass(frozen=True)
class HostFunction:
    """One host function of the shim's contract, under its canonical name."""

    name: str
    signature: str
    capability: str | None
    ownership: str
    ordering: str
    blocking: str
    errors: tuple[str, ...]
    clauses: tuple[str, ...]


@dataclass(frozen=True)
class Spec:
    """The whole contract. Every mapping is read-only and in file order."""

    capabilities: Mapping[str, Capability]
    clauses: Mapping[str, Clause]
    primitives: Mapping[str, Primitive]
    host_types: Mapping[str, str]
    host_functions: Mapping[str, HostFunction]

    @functools.cached_property
    def families(self) -> Mapping[str, tuple[Primitive, ...]]:
        """The primitives of each family, in order."""
        grouped: dict[str, list[Primitive]] = {}
        for primitive in self.primitives.values():
            grouped.setdefault(primitive.family, []).append(primitive)
        return MappingProxyType({name: tuple(members) for name, members in grouped.items()})


def load_spec(folder: Path | None = None) -> Spec:
    """Read and cross-check ``capabilities``, ``clauses``, ``primitives`` and ``host_api`` (``.yaml``).

    Args:
        folder: where the four files lie; the installed contract when None (read once, then cached).

    Raises:
        SpecError: one or more entries are wrong; it lists all of them with file, line, key and near miss.
    """
    return _installed() if folder is None else _load(folder)


@functools.cache
def _installed() -> Spec:
    return _load(package_file("spec"))


def _load(folder: Path) -> Spec:
    problems = Problems()
    capabilities = _capabilities(read(folder / "capabilities.yaml"), problems)
    clauses = _clauses(read(folder / "clauses.yaml"), problems)
    primitives = _primitives(read(folder / "primitives.yaml"), capabilities, clauses, problems)
    types, functions = _host_api(read(folder / "host_api.yaml"), capabilities, clauses, problems)
    problems.raise_if_any(f"load the contract in {folder}")
    freeze = MappingProxyType
    return Spec(freeze(capabilities), freeze(clauses), freeze(primitives), freeze(types), freeze(functions))


def _table(node: Node, struct: Struct, problems: Problems) -> dict[str, Any]:
    value = struct.check(node, problems)
    return {} if value is BAD else dict(value)


# An entry that is broken keeps its name here, so that its fault is listed once and not again wherever it is used: the
# problems that are noted stop the load in any case.


def _capabilities(node: Node, problems: Problems) -> dict[str, Capability]:
    entry = Struct(
        {"meaning": Text(), "scope": Text(known=("vendor", "arch"), noun="scope")},
        {"required_from": Text(known=LEVELS, noun="level"), "unsaid": Flag()},
    )
    schema = Struct({"version": Int(1, 1), "capabilities": MapOf(entry, pattern=_ANCHOR, noun="capability")})
    table = _table(node, schema, problems).get("capabilities", {})
    return {
        k: Capability(k, v.get("meaning", ""), v.get("scope", ""), v.get("required_from"), v.get("unsaid"))
        for k, v in table.items()
    }


def _clauses(node: Node, problems: Problems) -> dict[str, Clause]:
    entry = Struct(
        {"level": Text(known=LEVELS, noun="level"), "text": Text(pattern=r"(?s).*\.", noun="sentence")},
        {"since": Text(pattern=r"\d+\.\d+", noun="version")},
    )
    schema = Struct({"version": Int(1, 1), "clauses": MapOf(entry, pattern=_ANCHOR, noun="clause")})
    table = _table(node, schema, problems).get("clauses", {})
    return {
        k: Clause(k, " ".join(v.get("text", "").split()), v.get("level", ""), v.get("since", "0.1"))
        for k, v in table.items()
    }


def _fill(pattern: str, axes: Mapping[str, str]) -> str:
    words = dict(axes)
    if "scope" in axes:
        words["scope_short"] = _SHORT_SCOPE.get(axes["scope"], axes["scope"])
    return re.sub(r"\{(\w+)\}", lambda match: words.get(match.group(1), match.group(0)), pattern)


def _primitives(
    node: Node, capabilities: Mapping[str, Capability], clauses: Mapping[str, Clause], problems: Problems
) -> dict[str, Primitive]:
    entry = Struct(
        {
            "kind": Text(known=("function", "macro"), noun="kind"),
            "id": Text(),
            "c_name": Text(),
            "contract": Text(),
            "never": Text(),
            "clauses": ListOf(Text(known=clauses, noun="clause"), least=1, unique=True),
        },
        {
            "axes": MapOf(
                ListOf(Scalar(), least=1, unique=True),
                known=("dim", "order", "scope", "bits", "op"),
                noun="axis",
            ),
            "returns": Text(),
            "params": ListOf(ListOf(Text())),
            "capability": Text(known=capabilities, noun="capability"),
            "capability_of": MapOf(MapOf(Text(known=capabilities, noun="capability")), noun="axis"),
            "scope": Text(known=("block", "device", "system"), noun="scope"),
            "order": Text(known=("relaxed", "acquire", "release", "acq_rel", "seq_cst"), noun="memory order"),
        },
    )
    schema = Struct({"version": Int(1, 1), "families": MapOf(entry, pattern=r"[a-z0-9_.]+", noun="family")})
    table = _table(node, schema, problems).get("families", {})
    result: dict[str, Primitive] = {}
    names: dict[str, str] = {}
    for family, value in table.items():
        if not set(entry.required) <= value.keys():
            continue
        for axis, items in value.get("capability_of", {}).items():
            known = [str(item) for item in value.get("axes", {}).get(axis, ())]
            for item in items:
                if item not in known:
                    place = node.at("families", family, "capability_of", axis)
                    problems.add(place, f"'{item}' is no {axis} of the family{near_miss(item, known)}")
        for primitive in _members(family, value):
            place = node.at("families", family)
            if "{" in primitive.id + primitive.signature:
                problems.add(place, f"a pattern names an axis that the family lacks: {primitive.signature}")
            if any(not p.name for p in primitive.params):
                problems.add(place, "each parameter is a pair [type, name]")
            if primitive.id in result:
                problems.add(place, f"two primitives are called {primitive.id}: an axis is missing in the pattern")
            if primitive.c_name in names:
                problems.add(place, f"{primitive.c_name} already names {names[primitive.c_name]}")
            if primitive.kind == "function" and not primitive.returns:
                problems.add(place, "a function needs the key 'returns'")
            result[primitive.id] = primitive
            names[primitive.c_name] = primitive.id
    return result


def _members(family: str, value: Mapping[str, Any]) -> list[Primitive]:
    axes: Mapping[str, tuple[object, ...]] = value.get("axes", {})
    members = []
    for choice in itertools.product(*axes.values()):
        taken = {axis: str(item) for axis, item in zip(axes, choice, strict=True)}
        members.append(
            Primitive(
                id=_fill(value["id"], taken),
                family=family,
                c_name=_fill(value["c_name"], taken),
                kind=value["kind"],
                returns=_fill(value.get("returns", ""), taken),
                params=tuple(
                    Parameter(_fill(p[0], taken), p[1]) if len(p) == 2 else Parameter("", "")
                    for p in value.get("params", ())
                ),
                axes=MappingProxyType(taken),
                scope=taken.get("scope", value.get("scope", "")),
                order=taken.get("order", value.get("order", "")),
                capability=value.get("capability") or _capability_of(value, taken),
                contract=" ".join(value["contract"].split()),
                never=" ".join(value["never"].split()),
                clauses=tuple(value["clauses"]),
            )
        )
    return members


def _capability_of(value: Mapping[str, Any], taken: Mapping[str, str]) -> str | None:
    """The capability that one member of a family needs for the values that it takes on the family's axes."""
    table: Mapping[str, Mapping[str, str]] = value.get("capability_of", {})
    return next((items[taken[axis]] for axis, items in table.items() if taken.get(axis) in items), None)


def _host_api(
    node: Node, capabilities: Mapping[str, Capability], clauses: Mapping[str, Clause], problems: Problems
) -> tuple[dict[str, str], dict[str, HostFunction]]:
    entry = Struct(
        {
            "signature": Text(),
            "ownership": Text(),
            "ordering": Text(),
            "blocking": Text(),
            "errors": ListOf(Text(), unique=True),
            "clauses": ListOf(Text(known=clauses, noun="clause"), least=1, unique=True),
        },
        {"capability": Text(known=capabilities, noun="capability")},
    )
    schema = Struct(
        {
            "version": Int(1, 1),
            "types": MapOf(Text()),
            "functions": MapOf(entry, pattern=r"[A-Z]\w*", noun="function"),
        }
    )
    table = _table(node, schema, problems)
    types = table.get("types", {})
    functions = {
        name: HostFunction(name=name, capability=v.get("capability"), **{k: v[k] for k in entry.required})
        for name, v in table.get("functions", {}).items()
        if set(entry.required) <= v.keys()
    }
    for name, function in functions.items():
        for word in re.findall(r"\b[A-Z]\w*", function.signature):
            if word not in types:
                place = node.at("functions", name, "signature")
                problems.add(place, f"no type '{word}'{near_miss(word, types)}")
    return dict(types), functions

"""The schema of a vendor's record, and the step from the checked table to the frozen :class:`Record`."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Any

from tutti_hal.record import (
    WAVE_WIDTHS,
    Arch,
    Detection,
    Device,
    Evidence,
    HostApi,
    Lowering,
    Numbers,
    P2p,
    Quirk,
    Record,
)
from tutti_hal.spec.evidence import PROVEN, proven
from tutti_hal.spec.nodes import Node, Problems, near_miss
from tutti_hal.spec.schema import Either, Flag, Int, ListOf, MapOf, Scalar, Struct, Text
from tutti_hal.spec.sdk_schema import SDK, TOOLCHAIN, build_sdk, build_toolchain
from tutti_hal.spec.tables import Primitive, Spec

#: What lies where by default.
PLACED = ("submission_queue", "completion_queue", "data", "doorbell", "control")

_SDK_RANGE = r"\*|(>=|<=|==|<|>)\d+(\.\d+)*(,(>=|<=|==|<|>)\d+(\.\d+)*)*"
_freeze = MappingProxyType


def record_schema(spec: Spec) -> Struct:
    """The schema of ``vendor.yaml`` against one contract."""
    vendor_caps = {c.id for c in spec.capabilities.values() if c.scope == "vendor"}
    arch_caps = {c.id for c in spec.capabilities.values() if c.scope == "arch"}
    member = {p.id for p in spec.primitives.values()}
    lowering = Struct(
        {},
        {
            "body": Text(empty=True),
            "vars": MapOf(Either(Text(), MapOf(Scalar())), pattern=r"[a-z][a-z0-9_]*", noun="variable"),
            "exceptions": MapOf(Text(), known=member, noun="primitive"),
            **PROVEN,
        },
    )
    lowerings = MapOf(lowering, known=spec.families, noun="primitive family")
    functions = spec.host_functions
    numbers = Struct(
        {"by_name": Flag()},
        {
            "prefix": Text(),
            "names": MapOf(Text(pattern=r"\w+", noun="symbol"), pattern=r"[A-Z]\w*", noun="name"),
            "values": MapOf(Int(), pattern=r"[A-Z]\w*", noun="name"),
            **PROVEN,
        },
    )
    symbol = Text(pattern=r"\w+", noun="symbol")
    arch = proven(
        {
            "wave_width": Int(1, 1024),
            "mask_bits": Int(32, 64),
            "capabilities": MapOf(Flag(), known=arch_caps, noun="capability"),
        },
        {
            "defines": MapOf(Scalar(), pattern=r"[A-Za-z_]\w*", noun="macro name"),
            "limits": MapOf(Int(1), pattern=r"[a-z][a-z0-9_]*", noun="limit"),
            "vars": MapOf(Scalar(), pattern=r"[a-z][a-z0-9_]*", noun="variable"),
            "primitives": lowerings,
            "identity": MapOf(Int(), pattern=r"[A-Z]\w*", noun="attribute"),
        },
    )
    changes = Struct(
        {},
        {
            "capabilities": MapOf(Flag(), known=(*vendor_caps, *arch_caps), noun="capability"),
            "names": MapOf(symbol, known=functions, noun="host function"),
            "absent": MapOf(Text(), known=functions, noun="host function"),
            "constants": MapOf(MapOf(Int(), pattern=r"[A-Z]\w*", noun="name"), pattern=r"[A-Z]\w*", noun="group"),
            "errors": MapOf(Int(), pattern=r"[A-Z]\w*", noun="name"),
            "attributes": MapOf(Int(), pattern=r"[A-Z]\w*", noun="name"),
            "primitives": lowerings,
        },
    )
    return Struct(
        {
            "schema": Int(1, 1),
            "vendor": Text(pattern=r"[a-z][a-z0-9_]*", noun="vendor name"),
            "title": Text(),
            "kind": Text(known=("hardware", "host", "simulated"), noun="kind"),
            "detection": Struct(
                {"rank": Int(0), "macros": ListOf(Text(pattern=r"\w+", noun="macro name"))},
                {
                    "device_pass": ListOf(Text(pattern=r"\w+", noun="macro name")),
                    "excludes": ListOf(Text(pattern=r"\w+", noun="macro name")),
                    **PROVEN,
                },
            ),
            "sdk": SDK,
            "toolchain": TOOLCHAIN,
            "archs": MapOf(arch, pattern=r"[a-z][a-z0-9_-]*", noun="arch name"),
            "device": Struct(
                {"entry": Text(known=("global", "table"), noun="entry form")},
                {"includes": ListOf(Text(pattern=r'"[^"]+"|<[^>]+>', noun="header name")), "prelude": Text()},
            ),
            "host_api": proven(
                {"libraries": ListOf(Text()), "prefix": Text()},
                {
                    "names": MapOf(Either(symbol, ListOf(symbol, least=1)), known=functions, noun="host function"),
                    "absent": MapOf(Text(), known=functions, noun="host function"),
                    "append": MapOf(ListOf(ListOf(Scalar(), least=2), least=1), known=functions, noun="host function"),
                    "init": symbol,
                    "wake": Flag(),
                    "headers": ListOf(Text()),
                    "defines": ListOf(Text(pattern=r"\w+(=\w+)?", noun="definition")),
                },
            ),
            "errors": numbers,
            "attributes": numbers,
            "primitives": lowerings,
            "capabilities": MapOf(Flag(), known=vendor_caps, noun="capability"),
            "placement": proven({name: Text(known=("device", "host"), noun="placement") for name in PLACED}),
            "p2p": proven(
                {"mechanisms": ListOf(Text(), unique=True), "granule_bytes": Int(1), "note": Text()},
            ),
            "quirks": ListOf(
                proven(
                    {
                        "id": Text(pattern=r"[a-z][a-z0-9_]*(\.[a-z0-9_]+)*", noun="quirk id"),
                        "text": Text(),
                        "sdk": Text(pattern=_SDK_RANGE, noun="SDK version range"),
                    },
                    {"set": changes, "refuse": Text()},
                )
            ),
        },
        {
            "default_arch": Text(),
            "constants": MapOf(numbers, pattern=r"[A-Z]\w*", noun="constant group"),
        },
    )


def build_record(table: Mapping[str, Any], folder: Path, spec: Spec) -> Record:
    """Freeze a table that passed the schema and :func:`check_whole`."""
    return Record(
        vendor=table["vendor"],
        title=table["title"],
        kind=table["kind"],
        folder=folder,
        detection=Detection(
            table["detection"]["rank"],
            table["detection"]["macros"],
            table["detection"].get("device_pass", ()),
            table["detection"].get("excludes", ()),
        ),
        sdk=build_sdk(table["sdk"]),
        toolchain=build_toolchain(table["toolchain"]),
        default_arch=table.get("default_arch"),
        archs=_freeze({name: _arch(name, value, spec) for name, value in table["archs"].items()}),
        device=Device(
            table["device"].get("includes", ()), table["device"].get("prelude", ""), table["device"]["entry"]
        ),
        host_api=_host_api(table["host_api"]),
        errors=_numbers(table["errors"]),
        attributes=_numbers(table["attributes"]),
        constants=_freeze({name: _numbers(value) for name, value in table.get("constants", {}).items()}),
        primitives=_lowerings(table["primitives"]),
        capabilities=_answers(table["capabilities"], "vendor", spec),
        placement=_freeze({name: table["placement"][name] for name in PLACED}),
        p2p=P2p(
            table["p2p"]["mechanisms"],
            table["p2p"]["granule_bytes"],
            _flat(table["p2p"]["note"]),
            _evidence(table["p2p"]),
        ),
        quirks=tuple(_quirk(q) for q in table["quirks"]),
        file=folder / "vendor.yaml",
    )


def _flat(text: str) -> str:
    return " ".join(text.split())


def _evidence(value: Mapping[str, Any]) -> Evidence:
    return Evidence(value["source"], value["evidence"])


def _maybe_evidence(value: Mapping[str, Any]) -> Evidence | None:
    return _evidence(value) if "source" in value and "evidence" in value else None


def _quirk(value: Mapping[str, Any]) -> Quirk:
    parts = value.get("set", {})
    changes: dict[str, Mapping[str, Any]] = {k: _freeze(dict(of)) for k, of in parts.items() if k != "primitives"}
    if "primitives" in parts:
        changes["primitives"] = _lowerings(parts["primitives"])
    text, refuse = _flat(value["text"]), _flat(value.get("refuse", ""))
    return Quirk(value["id"], text, value["sdk"], _evidence(value), _freeze(changes), refuse)


def _answers(said: Mapping[str, bool], scope: str, spec: Spec) -> Mapping[str, bool]:
    """What a record says of each capability of a scope, the unsaid ones last."""
    own = (one for one in spec.capabilities.values() if one.scope == scope)
    unsaid = {one.id: one.unsaid for one in own if one.unsaid is not None and one.id not in said}
    return _freeze({**said, **unsaid})


def _check_answered(scope: str, node: Node, spec: Spec, problems: Problems, *path: str) -> None:
    """Note each capability of a scope that a record has to mention and does not."""
    answered = _given(node, *path, "capabilities")
    for one in spec.capabilities.values():
        if one.scope == scope and one.unsaid is None and one.id not in answered:
            problems.add(node.at(*(path or ("capabilities",))), f"the capability '{one.id}' is not answered")


def _arch(name: str, value: Mapping[str, Any], spec: Spec) -> Arch:
    return Arch(
        name=name,
        wave_width=value["wave_width"],
        mask_bits=value["mask_bits"],
        defines=_freeze({k: str(v) for k, v in value.get("defines", {}).items()}),
        limits=_freeze(dict(value.get("limits", {}))),
        capabilities=_answers(value["capabilities"], "arch", spec),
        vars=_freeze({k: str(v) for k, v in value.get("vars", {}).items()}),
        overrides=_lowerings(value.get("primitives", {})),
        evidence=_evidence(value),
        identity=_freeze(dict(value.get("identity", {}))),
    )


def _host_api(value: Mapping[str, Any]) -> HostApi:
    return HostApi(
        libraries=value["libraries"],
        prefix=value["prefix"],
        names=_freeze({k: (v,) if isinstance(v, str) else v for k, v in value.get("names", {}).items()}),
        absent=_freeze(dict(value.get("absent", {}))),
        evidence=_evidence(value),
        append=_freeze({k: tuple((str(t), int(v)) for t, v in more) for k, more in value.get("append", {}).items()}),
        init=value.get("init", ""),
        wake=value.get("wake", False),
        headers=value.get("headers", ()),
        defines=value.get("defines", ()),
    )


def _numbers(value: Mapping[str, Any]) -> Numbers:
    return Numbers(
        by_name=value["by_name"],
        prefix=value.get("prefix", ""),
        names=_freeze(dict(value.get("names", {}))),
        values=_freeze(dict(value.get("values", {}))),
        evidence=_maybe_evidence(value),
    )


def _lowerings(value: Mapping[str, Any]) -> Mapping[str, Lowering]:
    result: dict[str, Lowering] = {}
    for family, entry in value.items():
        words: dict[str, str | tuple[str, Mapping[str, str]]] = {}
        for name, word in entry.get("vars", {}).items():
            if isinstance(word, str):
                words[name] = word
            else:
                axis = str(word["by"])
                words[name] = (axis, _freeze({k: str(v) for k, v in word.items() if k != "by"}))
        result[family] = Lowering(
            body=entry.get("body"),
            vars=_freeze(words),
            exceptions=_freeze(dict(entry.get("exceptions", {}))),
            evidence=_maybe_evidence(entry),
        )
    return _freeze(result)


def check_whole(table: Mapping[str, Any], folder: Path, spec: Spec, node: Node, problems: Problems) -> None:
    """Note what only a whole record can break. The table may have gaps where the schema found a fault: all is listed.

    Args:
        table: what the schema gave.
        folder: where the record lies.
        spec: the contract.
        node: the file's top node.
        problems: where to note them.
    """
    if table.get("vendor", folder.name) != folder.name:
        problems.add(node.at("vendor"), f"the record says '{table['vendor']}', its folder is called '{folder.name}'")
    archs = _part(table, "archs")
    if not _given(node, "archs"):
        problems.add(node.at("archs"), "a record needs at least one arch")
    default = table.get("default_arch")
    if default is not None and default not in _given(node, "archs"):
        problems.add(node.at("default_arch"), f"no arch '{default}' in archs{near_miss(default, archs)}")
    _check_pattern(_part(table, "toolchain").get("version_pattern", "()"), node, problems)
    _check_answered("vendor", node, spec, problems)
    host_api = _part(table, "host_api")
    for name in sorted(set(host_api.get("names", {})) & set(host_api.get("absent", {}))):
        problems.add(node.at("host_api", "absent", name), "the function is mapped under names, too")
    seen: set[str] = set()
    for quirk in table.get("quirks", ()):
        name = quirk.get("id")
        if name is not None and name in seen:
            problems.add(node.at("quirks"), f"two quirks are called '{name}'")
        seen.add(name)
    for group in ("errors", "attributes"):
        _check_numbers(_part(table, group), node, (group,), problems)
    for group, value in _part(table, "constants").items():
        _check_numbers(value, node, ("constants", group), problems)
    _check_lowerings(_part(table, "primitives"), spec, node, ("primitives",), problems)
    for name, arch in archs.items():
        _check_arch(name, arch, table, spec, node, problems)


def _part(table: Mapping[str, Any], name: str) -> Mapping[str, Any]:
    """A part that is a mapping; an empty one where the schema found it missing or wrong."""
    part: Mapping[str, Any] = table.get(name) or {}
    return part


def _given(node: Node, *path: str) -> tuple[str, ...]:
    """The keys of a mapping as they stand in the file, those with wrong values too."""
    here = node
    for name in path:
        found = (
            next((value for word, _, value in here.items(Problems()) if word == name), None) if here.is_map else None
        )
        if found is None:
            return ()
        here = found
    return tuple(name for name, _, _ in here.items(Problems())) if here.is_map else ()


def _check_pattern(pattern: str, node: Node, problems: Problems) -> None:
    try:
        groups = re.compile(pattern).groups
    except re.error as error:
        problems.add(node.at("toolchain", "version_pattern"), f"not a regular expression: {error}")
    else:
        if groups < 1:
            problems.add(node.at("toolchain", "version_pattern"), "needs a group around the version")


def _check_numbers(value: Mapping[str, Any], node: Node, path: tuple[str, ...], problems: Problems) -> None:
    numbers = _given(node, *path, "values")
    if value.get("by_name") is False and not numbers:
        problems.add(node.at(*path), "by_name is false, so 'values' must hold the numbers")
    if numbers and not {"source", "evidence"} <= set(_given(node, *path)):
        problems.add(node.at(*path), "numbers need 'source' and 'evidence'")


def _check_arch(
    name: str, arch: Mapping[str, Any], table: Mapping[str, Any], spec: Spec, node: Node, problems: Problems
) -> None:
    _check_answered("arch", node, spec, problems, "archs", name)
    width, bits = arch.get("wave_width", 32), arch.get("mask_bits", 64)
    if width not in WAVE_WIDTHS:
        problems.add(node.at("archs", name, "wave_width"), f"{width} is neither 32, 64 nor 128")
    if bits not in (32, 64):
        problems.add(node.at("archs", name, "mask_bits"), f"{bits} is neither 32 nor 64")
    if _part(arch, "capabilities").get("wave.ballot") and bits < width:
        problems.add(
            node.at("archs", name, "capabilities"),
            f"wave.ballot is claimed, but a mask of {bits} bits cannot name {width} lanes",
        )
    for flag in _part(table, "toolchain").get("arch_flags", ()):
        for word in re.findall(r"\{(\w+)\}", flag):
            if word not in _given(node, "archs", name, "vars"):
                problems.add(node.at("archs", name), f"toolchain.arch_flags uses {{{word}}}, which vars lacks")
    _check_lowerings(arch.get("primitives", {}), spec, node, ("archs", name, "primitives"), problems)


def _check_lowerings(
    lowerings: Mapping[str, Any], spec: Spec, node: Node, path: tuple[str, ...], problems: Problems
) -> None:
    for family, entry in lowerings.items():
        place = node.at(*path, family)
        members: tuple[Primitive, ...] = spec.families[family]
        if not {"body", "exceptions"} & set(_given(node, *path, family)):
            problems.add(place, "needs 'body' or 'exceptions'")
        for primitive_id in entry.get("exceptions", {}):
            if spec.primitives[primitive_id].family != family:
                problems.add(place, f"'{primitive_id}' is of family '{spec.primitives[primitive_id].family}'")
        for name, word in entry.get("vars", {}).items():
            if isinstance(word, str):
                continue
            axis = word.get("by")
            if axis not in members[0].axes:
                problems.add(place, f"vars.{name} needs 'by', one of: {', '.join(members[0].axes) or 'no axis here'}")
                continue
            for value in sorted({m.axes[axis] for m in members} - set(word)):
                problems.add(place, f"vars.{name} has no word for {axis} '{value}'")
            for value in sorted(set(word) - {"by"} - {m.axes[axis] for m in members}):
                problems.add(place, f"vars.{name} has a word for {axis} '{value}', which no member has")

"""The operators on a vendor's record: wrong numbers, exchanged names, lies about capabilities, weaker lowerings."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from tutti_hal.conformance_tests.mutants.lowerings import LoweringMutant, lowering_mutants
from tutti_hal.conformance_tests.mutants.mutant import Mutant, Operator, RecordEdit, Source
from tutti_hal.record import Record
from tutti_hal.spec import Spec

FILE = "vendor.yaml"

_WIDTHS = (32, 64, 128)
#: A lane mask has 32 or 64 bits; this less the one is the other.
_BOTH_MASKS = 32 + 64

Path_ = tuple[str, ...]


def record_mutants(record: Record, spec: Spec) -> Iterator[Mutant]:
    """Every mutant of a record, in the record's order."""
    text = record.file.read_text(encoding="utf-8")
    table = table_of(text)
    lines = lines_of(text)
    makers = (_numbers, _archs, _capabilities, _host_api, _choices)
    for maker in makers:
        for path, operator, variant, edits, member, archs in maker(table, spec):
            yield _mutant(record.vendor, lines, table, path, operator, variant, edits, member, archs)
    for one in lowering_mutants(record, spec):
        yield _lowered(record.vendor, lines, one)


def table_of(text: str) -> dict[str, Any]:
    """A record's text as a table in which no two places share a value, though the text may use aliases."""
    import yaml

    return dict(_unshared(yaml.safe_load(text)))


def text_of(table: Mapping[str, Any]) -> str:
    """The reverse, in the table's order and without aliases."""
    import yaml

    class Plain(yaml.SafeDumper):
        def ignore_aliases(self, data: Any) -> bool:
            del data
            return True

    return yaml.dump(dict(table), Dumper=Plain, sort_keys=False, width=120, allow_unicode=True)


def edited(table: Mapping[str, Any], edits: Sequence[RecordEdit]) -> dict[str, Any]:
    """A copy of a record's table with the edits made; what a path leads through is made where it is missing."""
    result = dict(_unshared(table))
    for edit in edits:
        at: dict[str, Any] = result
        for key in edit.path[:-1]:
            at = at.setdefault(key, {})
        if edit.remove:
            del at[edit.path[-1]]
        else:
            at[edit.path[-1]] = edit.value
    return result


def lines_of(text: str) -> dict[Path_, int]:
    """Path of keys -> line, from 1, of each entry of a record's text."""
    import yaml

    found: dict[Path_, int] = {}

    def walk(node: yaml.Node, path: Path_) -> None:
        if isinstance(node, yaml.MappingNode):
            for key, value in node.value:
                found[(*path, str(key.value))] = key.start_mark.line + 1
                walk(value, (*path, str(key.value)))

    root = yaml.compose(text, Loader=yaml.SafeLoader)
    if root is not None:
        walk(root, ())
    return found


def value_at(table: Mapping[str, Any], path: Path_) -> Any:
    """What stands at a path; None where nothing does."""
    at: Any = table
    for key in path:
        if not isinstance(at, Mapping) or key not in at:
            return None
        at = at[key]
    return at


def _unshared(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {key: _unshared(one) for key, one in value.items()}
    if isinstance(value, list | tuple):
        return [_unshared(one) for one in value]
    return value


#: Path, operator, variant, edits, member, archs.
_Change = tuple[Path_, Operator, str, tuple[RecordEdit, ...], str, tuple[str, ...]]


def _numbers(table: Mapping[str, Any], spec: Spec) -> Iterator[_Change]:
    """Numbers of errors, attributes and constants: one off, and exchanged with the next of their table."""
    del spec
    places: list[Path_] = [("errors", "values"), ("attributes", "values")]
    places += [("constants", name, "values") for name in table.get("constants", {})]
    for place in places:
        values = value_at(table, place) or {}
        names = list(values)
        for index, name in enumerate(names):
            path = (*place, name)
            yield from _one_off(path, values[name])
            other = names[(index + 1) % len(names)]
            if other != name and not (len(names) == 2 and index):
                edits = (RecordEdit(path, values[other]), RecordEdit((*place, other), values[name]))
                yield path, Operator.SWAP, other, edits, "", ()


def _one_off(path: Path_, number: int, archs: tuple[str, ...] = ()) -> Iterator[_Change]:
    yield path, Operator.PLUS_ONE, "", (RecordEdit(path, number + 1),), "", archs
    yield path, Operator.MINUS_ONE, "", (RecordEdit(path, number - 1),), "", archs


def _archs(table: Mapping[str, Any], spec: Spec) -> Iterator[_Change]:
    """Facts of an arch: limits and defines one off, another width, another mask, lies about capabilities."""
    for name, arch in table["archs"].items():
        for group in ("limits", "defines"):
            for key, value in arch.get(group, {}).items():
                if isinstance(value, int):
                    yield from _one_off(("archs", name, group, key), value, (name,))
        others: dict[str, list[Any]] = {
            "wave_width": [width for width in _WIDTHS if width != arch["wave_width"]],
            "mask_bits": [_BOTH_MASKS - arch["mask_bits"]],
        }
        for key, numbers in others.items():
            path: Path_ = ("archs", name, key)
            for number in numbers:
                yield path, Operator.LIE, str(number), (RecordEdit(path, number),), "", (name,)
        for key, value in _lies(arch["capabilities"], spec):
            path = ("archs", name, "capabilities", key)
            yield path, Operator.LIE, "", (RecordEdit(path, not value),), "", (name,)


def _lies(declared: Mapping[str, bool], spec: Spec) -> Iterator[tuple[str, bool]]:
    """The capabilities that are lied about by declaring them the other way round.

    To deny one that is optional at every level is no lie but another product, which refuses what it denies; the suite's
    own ablations are made so, and must pass.
    """
    for name, value in declared.items():
        if not value or spec.capabilities[name].required_from is not None:
            yield name, value


def _capabilities(table: Mapping[str, Any], spec: Spec) -> Iterator[_Change]:
    for key, value in _lies(table["capabilities"], spec):
        path = ("capabilities", key)
        yield path, Operator.LIE, "", (RecordEdit(path, not value),), "", ()


def _host_api(table: Mapping[str, Any], spec: Spec) -> Iterator[_Change]:
    """Host functions: declared absent, declared present, and reached under the name of one with the same signature."""
    api = table["host_api"]
    path: Path_ = ("host_api", "prefix")
    yield path, Operator.SWAP, "", (RecordEdit(path, f"{api['prefix']}_"),), "", ()
    twins: dict[str, list[str]] = {}
    for function in spec.host_functions.values():
        if function.name not in api.get("absent", {}):
            twins.setdefault(function.signature, []).append(function.name)
    for name, function in spec.host_functions.items():
        path = ("host_api", "absent", name)
        if name in api.get("absent", {}):
            yield path, Operator.ABSENT, "present", (RecordEdit(path, remove=True),), name, ()
            continue
        edits = [RecordEdit(path, "declared absent by a mutant")]
        if name in api.get("names", {}):
            edits.append(RecordEdit(("host_api", "names", name), remove=True))
        yield path, Operator.ABSENT, "", tuple(edits), name, ()
        alike = twins[function.signature]
        if len(alike) > 1:
            other = alike[(alike.index(name) + 1) % len(alike)]
            symbol = api.get("names", {}).get(other, api["prefix"] + other)
            path = ("host_api", "names", name)
            yield path, Operator.SWAP, other, (RecordEdit(path, symbol),), name, ()


def _choices(table: Mapping[str, Any], spec: Spec) -> Iterator[_Change]:
    """Placements, the granule of peer-to-peer, the form of a kernel's entry."""
    del spec
    for key, value in table["placement"].items():
        if value in ("device", "host"):
            path: Path_ = ("placement", key)
            yield path, Operator.SWAP, "", (RecordEdit(path, "host" if value == "device" else "device"),), "", ()
    yield from _one_off(("p2p", "granule_bytes"), table["p2p"]["granule_bytes"])
    path = ("device", "entry")
    other = "global" if table["device"]["entry"] == "table" else "table"
    yield path, Operator.SWAP, "", (RecordEdit(path, other),), "", ()


def _mutant(
    vendor: str,
    lines: Mapping[Path_, int],
    table: Mapping[str, Any],
    path: Path_,
    operator: Operator,
    variant: str,
    edits: tuple[RecordEdit, ...],
    member: str,
    archs: tuple[str, ...],
) -> Mutant:
    place = ".".join(path)
    key = path[-1]
    return Mutant(
        id=_id(vendor, place, operator, variant),
        source=Source.RECORD,
        operator=operator,
        file=FILE,
        line=_line(lines, path),
        before=_said(key, value_at(table, path)),
        after="; ".join(_said(edit.path[-1], None if edit.remove else edit.value) for edit in edits),
        place=place,
        member=member,
        archs=archs,
        record=edits,
    )


def _lowered(vendor: str, lines: Mapping[Path_, int], one: LoweringMutant) -> Mutant:
    family, name = one.primitive.family, one.primitive.id
    path: Path_ = ("primitives", family)
    # A macro may become nothing, which an exception cannot be; its family is it alone.
    at = (*path, "exceptions", name) if one.primitive.kind == "function" else (*path, "body")
    after = f"{{% raw %}}{one.after}{{% endraw %}}" if "{{" in one.after or "{%" in one.after else one.after
    return Mutant(
        id=_id(vendor, f"primitives.{name}", one.operator, one.variant),
        source=Source.RECORD,
        operator=one.operator,
        file=FILE,
        line=_line(lines, path),
        before=f"{name}: {one.before}",
        after=f"{name}: {one.after}",
        place=f"primitives.{family}.{name}" if not name.startswith(family) else f"primitives.{name}",
        member=name,
        record=(RecordEdit(at, after),),
    )


def _id(vendor: str, place: str, operator: Operator, variant: str) -> str:
    return f"record/{vendor}/{place}:{operator}{f'.{variant}' if variant else ''}"


def _line(lines: Mapping[Path_, int], path: Path_) -> int:
    while path and path not in lines:
        path = path[:-1]
    return lines.get(path, 1)


def _said(key: str, value: Any) -> str:
    return f"{key}: {'(absent)' if value is None else value}"


def file_of(folder: Path) -> Path:
    """The record's file in a vendor's folder."""
    return folder / FILE

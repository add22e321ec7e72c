"""A record as it is for one version of the SDK: the quirks of that version put over it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from tutti_hal.record import Arch, Numbers, Record


def at_sdk(record: Record, version: str | None) -> Record:
    """The record with the changes of every quirk that applies to an SDK version, in the record's order.

    Args:
        record: as it was read.
        version: None: not known, and then nothing is changed: the record is written for the newest SDK.

    Returns:
        A record whose ``applied`` names the quirks that changed something; ``record`` itself where none does.
    """
    found = [quirk for quirk in record.quirks if quirk.changes and version is not None and quirk.applies(version)]
    for quirk in found:
        record = _changed(record, quirk.changes)
    return replace(record, applied=tuple(quirk.id for quirk in found)) if found else record


def _changed(record: Record, changes: Mapping[str, Mapping[str, Any]]) -> Record:
    said = changes.get("capabilities", {})
    api, absent = record.host_api, changes.get("absent", {})
    names = _over(api.names, {name: (symbol,) for name, symbol in changes.get("names", {}).items()})
    kept = {name: symbols for name, symbols in names.items() if name not in absent}
    return replace(
        record,
        capabilities=_over(record.capabilities, {k: v for k, v in said.items() if k in record.capabilities}),
        archs=MappingProxyType({name: _arch(arch, said) for name, arch in record.archs.items()}),
        host_api=replace(api, names=MappingProxyType(kept), absent=_over(api.absent, absent)),
        # A group of constants is given whole: a name that is not in it does not exist in that version.
        constants=_over(
            record.constants,
            {
                group: replace(record.constants[group], values=MappingProxyType(dict(values)))
                for group, values in changes.get("constants", {}).items()
            },
        ),
        errors=_numbers(record.errors, changes.get("errors", {})),
        attributes=_numbers(record.attributes, changes.get("attributes", {})),
        primitives=_over(record.primitives, changes.get("primitives", {})),
    )


def _arch(arch: Arch, said: Mapping[str, bool]) -> Arch:
    own = {name: value for name, value in said.items() if name in arch.capabilities}
    return replace(arch, capabilities=_over(arch.capabilities, own)) if own else arch


def _numbers(numbers: Numbers, values: Mapping[str, int]) -> Numbers:
    return replace(numbers, values=_over(numbers.values, values)) if values else numbers


def _over(base: Mapping[str, Any], more: Mapping[str, Any]) -> Mapping[str, Any]:
    return MappingProxyType({**base, **more})

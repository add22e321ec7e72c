"""Any number of a vendor's record changed by one, or exchanged with another: its simulated SDK does not take it.

The numbers of both sides are transcribed apart, so this also says how much of each record its witness covers.
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from types import MappingProxyType
from typing import Any

import pytest

from tutti_hal.conformance_tests.mutants.mutant import Mutant
from tutti_hal.conformance_tests.mutants.records import record_mutants
from tutti_hal.errors import NumbersDiffer
from tutti_hal.profile import Profile, select
from tutti_hal.record import Numbers, Record
from tutti_hal.sdk import Root
from tutti_hal.shim.header_numbers import with_header_numbers
from tutti_hal.spec import load_spec

VENDORS = ("hip", "maca", "musa")
TABLES = ("errors.values", "attributes.values", "constants.")
#: Numbers that a vendor's headers have no name for: nothing to compare with at start. The call itself refuses others.
NAMELESS = {"hip": {"constants.StreamWriteValue.values.Default"}}


def numbers_of(record: Record, group: str) -> Numbers:
    return (
        record.errors if group == "errors" else record.attributes if group == "attributes" else record.constants[group]
    )


def changed(record: Record, mutant: Mutant) -> Record:
    """The record with a mutant's numbers in the place of its own."""
    group = mutant.record[0].path[1] if mutant.record[0].path[0] == "constants" else mutant.record[0].path[0]
    values: dict[str, Any] = dict(numbers_of(record, group).values)
    values |= {edit.path[-1]: edit.value for edit in mutant.record}
    table = replace(numbers_of(record, group), values=MappingProxyType(values))
    if group in ("errors", "attributes"):
        return replace(record, **{group: table})
    return replace(record, constants=MappingProxyType({**record.constants, group: table}))


def group_of(mutant: Mutant) -> str:
    path = mutant.record[0].path
    return path[1] if path[0] == "constants" else path[0]


def root_of(profile: Profile) -> Root:
    assert profile.simulated_root is not None
    return Root(Path(profile.simulated_root), "default", profile.sdk)


@pytest.mark.parametrize("vendor", VENDORS)
def test_every_wrong_number_is_noticed_or_has_no_effect(vendor: str) -> None:
    """A table that the record binds by name takes the header's numbers whatever it says itself."""
    profile = select(f"{vendor}-sim")
    record, root = profile.record, root_of(profile)
    sound = with_header_numbers(record, root)
    mutants = [one for one in record_mutants(record, load_spec()) if one.place.startswith(TABLES)]
    assert len(mutants) > 100
    survivors, noticed = [], 0
    for mutant in mutants:
        try:
            after = with_header_numbers(changed(record, mutant), root)
        except NumbersDiffer:
            noticed += 1
            continue
        group = group_of(mutant)
        if numbers_of(after, group).values != numbers_of(sound, group).values:
            survivors.append(mutant.place)
    assert set(survivors) == NAMELESS.get(vendor, set())
    assert noticed > len(mutants) // 2

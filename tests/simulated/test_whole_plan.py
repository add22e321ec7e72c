"""A simulated vendor can pass each level up to the ring: a whole run of it leaves no clause without a case."""

from __future__ import annotations

import pytest

from tutti_hal.conformance_tests.catalogue import catalogue
from tutti_hal.conformance_tests.subject import SubjectSpec, facts_of, profile_of
from tutti_hal.spec import load_spec

LEVELS = ("L0", "L1", "L2", "L3", "L4", "L5")


@pytest.mark.parametrize("name", ["musa-sim", "musa-sim:mp_22@4.3.3", "maca-sim", "hip-sim"])
def test_a_whole_run_has_a_case_for_each_clause(name: str) -> None:
    profile = profile_of(SubjectSpec(name))
    archs = (profile.named.arch,) if profile.named.arch else tuple(profile.record.archs)
    planned = catalogue().instances({arch: facts_of(profile, arch) for arch in ("", *archs)})
    claimed = {clause for one in planned for clause in one.clauses}
    clauses = [name for name, clause in load_spec().clauses.items() if clause.level in LEVELS]
    assert [name for name in clauses if name not in claimed] == []

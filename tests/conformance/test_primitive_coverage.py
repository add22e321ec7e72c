"""Every primitive of the contract is looked at by a case, and that case's kernels really call it."""

from __future__ import annotations

import re
from fnmatch import fnmatchcase
from functools import cache

import pytest

from tests.codegen.conftest import record_of
from tutti_hal.codegen import render
from tutti_hal.conformance_tests.case import Case
from tutti_hal.conformance_tests.catalogue import catalogue
from tutti_hal.spec import load_spec

CASES = [case for case in catalogue().cases if case.primitives]

#: Archs whose rendered units show every attribute and every optional part: a compiler that marks its kernels, and one
#: that finds them in a table.
ARCHS = (("cuda", "sm_90"), ("host", "sim-w64"))


@cache
def _called(kernel_set: str, vendor: str, arch: str) -> frozenset[str]:
    return frozenset(re.findall(r"\b(?:tt|TT)_\w+", render(record_of(vendor), arch, kernel_set).source))


def _claimed(case: Case) -> set[str]:
    return {one for one in load_spec().primitives if any(fnmatchcase(one, glob) for glob in case.primitives)}


def test_every_primitive_is_claimed_by_a_case() -> None:
    claimed = set().union(*map(_claimed, CASES))
    assert sorted(set(load_spec().primitives) - claimed) == []


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_a_case_launches_kernels_that_call_what_it_claims(case: Case) -> None:
    primitives = load_spec().primitives
    called = set().union(*(_called(one, *arch) for one in case.kernels for arch in ARCHS))
    assert sorted(one for one in _claimed(case) if primitives[one].c_name not in called) == []


def test_what_is_claimed_needs_no_more_than_the_case_does() -> None:
    """A primitive behind a capability is claimed only by cases that are skipped without it."""
    primitives = load_spec().primitives
    wrong = {
        case.name: sorted(missing)
        for case in CASES
        if (missing := {str(primitives[one].capability) for one in _claimed(case)} - {"None", *case.needs})
    }
    assert wrong == {}

"""The lists that the cases of claims and modules keep of their own are those of the contract and of the templates."""

from __future__ import annotations

import pytest

from tutti_hal.conformance_tests.cases.l2_host.claims import CAPABILITIES, PROPERTIES
from tutti_hal.conformance_tests.cases.l2_host.demonstrations import OF_ARCHS
from tutti_hal.conformance_tests.cases.l2_host.demonstrations_host import OF_VENDORS
from tutti_hal.conformance_tests.catalogue import catalogue
from tutti_hal.conformance_tests.subject import SubjectSpec, facts_of, profile_of
from tutti_hal.spec import load_spec


@pytest.mark.parametrize(("scope", "shown"), [("arch", OF_ARCHS), ("vendor", OF_VENDORS)])
def test_every_capability_has_a_demonstration(scope: str, shown: dict[str, object]) -> None:
    declared = [name for name, one in load_spec().capabilities.items() if one.scope == scope]
    assert sorted(shown) == sorted(declared)


def test_only_properties_of_an_arch_cannot_be_refused() -> None:
    # Of a vendor: what the runtime does with a direction or a handle, and what a reset does. None is an operation.
    assert set(PROPERTIES) - set(OF_ARCHS) == {"copy.direction_checked", "handle.checked", "error.recoverable"}


@pytest.mark.parametrize("vendor", ["host", "cuda", "hip", "maca", "musa"])
def test_every_claim_is_tested_one_way_or_the_other(vendor: str) -> None:
    profile = profile_of(SubjectSpec(vendor))
    arch = next(iter(profile.record.archs))
    facts = facts_of(profile, arch)
    instances = catalogue().instances({arch: facts})
    true, false = (
        {str(one.axes["capability"]) for one in instances if one.case.name == f"claims/{name}"}
        for name in ("true_is_shown", "false_is_refused")
    )
    assert not true & false
    assert true | false | set(PROPERTIES) == set(CAPABILITIES)
    assert true == {name for name in CAPABILITIES if facts.capabilities[name]}


def test_the_kernels_that_modules_are_asked_for_are_the_templates() -> None:
    from tutti_hal.codegen import render
    from tutti_hal.conformance_tests.cases.l2_host.module_contents import DECLARED

    record = profile_of(SubjectSpec("host")).record
    kernels = render(record, record.archs[record.default_arch], "kernels/probe_launch.cu.j2").kernels
    assert {one.name: [param.name for param in one.params] for one in kernels} == {
        name: [param for param, _ in params] for name, params in DECLARED.items()
    }

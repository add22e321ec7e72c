"""Every host function of the contract is called by a case, and each of its errors provoked, or it says why not."""

from __future__ import annotations

import pytest

from tutti_hal.conformance_tests.case import Case
from tutti_hal.conformance_tests.cases.l2_host.provocations import (
    DETAIL,
    DEVICES,
    DMABUF,
    IPC,
    LOCKS,
    MANAGED,
    MAPPED,
    MEMORY,
    PCI,
    PEERS,
    PINNED,
    POINTERS,
    POOLS,
    REGISTER,
    REPORT,
)
from tutti_hal.conformance_tests.catalogue import Catalogue, _wrong_calls, catalogue
from tutti_hal.spec import load_spec

SPEC = load_spec()

_NOT_HERE = "whether a vendor lacks it on one device and not on another is nothing that a case can bring about"

#: ``function:error`` or ``function`` -> why no case shows it.
NOT_SHOWN = {
    "GetDeviceCount:NoDevice": "a case runs on a device",
    "DeviceSynchronize:IllegalAddress": "the contract does not say what a wild access does; a vendor may trap it",
    "StreamSynchronize:IllegalAddress": "the contract does not say what a wild access does; a vendor may trap it",
    "HostRegister:NotSupported": _NOT_HERE,
    "MemGetHandleForAddressRange:NotSupported": _NOT_HERE,
    "IpcGetMemHandle:NotSupported": _NOT_HERE,
    "IpcOpenMemHandle:NotSupported": _NOT_HERE,
    "DeviceGetDevResource:NotSupported": _NOT_HERE,
    "GreenCtxCreate:NotSupported": _NOT_HERE,
    "StreamWriteValue32:NotSupported": _NOT_HERE,
    "StreamWaitValue32:NotSupported": _NOT_HERE,
}


@pytest.fixture(scope="module")
def cases() -> Catalogue:
    return catalogue()


@pytest.fixture(scope="module")
def shown(cases: Catalogue) -> set[str]:
    return {call for case in cases.cases for call in case.calls}


@pytest.mark.parametrize("name", list(SPEC.host_functions))
def test_every_function_and_each_of_its_errors_is_shown_or_says_why_not(name: str, shown: set[str]) -> None:
    errors = [f"{name}:{error}" for error in SPEC.host_functions[name].errors]
    missing = [one for one in (name, *errors) if one not in shown and one not in NOT_SHOWN]
    assert not missing, "claim it in a case's `calls`, or say in NOT_SHOWN why it cannot be shown"


def test_what_is_not_shown_is_not_claimed_either(shown: set[str]) -> None:
    """A reason that has become untrue goes."""
    for call in NOT_SHOWN:
        name, _, error = call.partition(":")
        assert call not in shown
        assert not error or error in SPEC.host_functions[name].errors


def test_a_call_that_the_contract_lacks_is_refused(cases: Catalogue) -> None:
    case = cases.cases[0]
    wrong = Case(case.name, case.level, case.clauses, case.observe, calls=("Maloc", "Malloc:InvalidValve", "Free"))
    assert [text.split(";")[0] for text in _wrong_calls(wrong, SPEC)] == [
        "no host function 'Maloc'",
        "Malloc has no error 'InvalidValve'",
    ]


def test_provocations_are_of_the_capability_that_their_case_needs(cases: Catalogue) -> None:
    """A table is run where its capability is claimed: every function of it must be one that the capability brings."""
    tables = {
        "": {**DEVICES, **MEMORY},
        "memory.pinned": PINNED,
        "memory.mapped": MAPPED,
        "memory.managed": MANAGED,
        "memory.pools": POOLS,
        "memory.register": REGISTER,
        "memory.pointer_attributes": POINTERS,
        "memory.lock_state": LOCKS,
        "error.detail": DETAIL,
        "launch.bounded": REPORT,
        "peer.access": PEERS,
        "device.pci_address": PCI,
        "memory.export_dmabuf": DMABUF,
        "ipc.memory": IPC,
    }
    for capability, table in tables.items():
        assert {SPEC.host_functions[name].capability or "" for name in table} == {capability}
    needs = {case.needs for case in cases.cases if case.name.startswith("host/refusal.")}
    assert needs == {(capability,) if capability else () for capability in tables}

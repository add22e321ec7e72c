"""What other projects' compatibility headers get wrong, made in a vendor's record: the simulated SDK or a case notices.

Each trap keeps the product working in most places: a name that means another thing is the only fault.
"""

from __future__ import annotations

import shutil
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from tutti_hal.conformance_tests.catalogue import catalogue, select
from tutti_hal.conformance_tests.execute import execute, prepare
from tutti_hal.conformance_tests.judgement import judge
from tutti_hal.conformance_tests.mutants.mutant import RecordEdit
from tutti_hal.conformance_tests.mutants.records import edited, file_of, table_of, text_of
from tutti_hal.conformance_tests.subject import Subject, SubjectSpec, facts_of, profile_of
from tutti_hal.conformance_tests.terms import Terms
from tutti_hal.errors import NumbersDiffer, SymbolMissing, TuttiError
from tutti_hal.paths import package_file
from tutti_hal.spec import load_spec

ARCHS = {"musa": "mp_31", "maca": "xcore1000", "hip": "gfx942"}


@dataclass(frozen=True)
class Trap:
    """One wrong entry of a record, and what it is refused with or which case fails."""

    path: tuple[str, ...]
    value: Any
    noticed: type[TuttiError] | str
    vendor: str = "musa"


TRAPS = {
    "another vendor's prefix": Trap(("host_api", "prefix"), "cuda", SymbolMissing),
    "a capability asked for by another's attribute": Trap(
        ("attributes", "names", "DmaBufSupported"), "musaDevAttrManagedMemory", NumbersDiffer
    ),
    "a flag that means another": Trap(
        ("constants", "HostAllocFlags", "names"), {"Mapped": "musaHostAllocPortable"}, NumbersDiffer
    ),
    "one ability asked for by another's attribute": Trap(
        ("attributes", "names", "GPUDirectRDMASupported"), "musaDevAttrGPUDirectRDMAWithMUSAVMMSupported", NumbersDiffer
    ),
    "a dma-buf asked for by another handle's attribute": Trap(
        ("attributes", "names", "DmaBufSupported"),
        "mcDeviceAttributeHandleTypePosixFileDescriptorSupported",
        "alias/attributes",
        "maca",
    ),
    "a fabric handle for a dma-buf": Trap(
        ("constants", "MemRangeHandleType", "names", "DmaBufFd"),
        "MU_MEM_HANDLE_TYPE_FABRIC",
        "host/memory.export_dmabuf",
    ),
    "device memory that is pinned host memory": Trap(
        ("host_api", "names", "Malloc"), "musaMallocHost", "alias/memory_kinds"
    ),
    "managed memory that is pinned host memory": Trap(
        ("host_api", "names", "MallocManaged"), "musaHostAlloc", "alias/memory_kinds"
    ),
    "pinned memory that is not": Trap(("host_api", "names", "HostAlloc"), "musaMallocManaged", "alias/memory_kinds"),
    "a claim that nothing is wired to": Trap(
        ("capabilities", "error.detail"), True, "claims/true_is_shown:*capability=error.detail"
    ),
}


def planted(folder: Path, vendor: str, *edits: RecordEdit) -> SubjectSpec:
    """A subject whose record is a vendor's with these edits."""
    copy = folder / vendor
    shutil.copytree(package_file("backends", vendor), copy, ignore=shutil.ignore_patterns("__pycache__"))
    table = edited(table_of(file_of(copy).read_text(encoding="utf-8")), edits)
    file_of(copy).write_text(text_of(table), encoding="utf-8")
    return SubjectSpec(f"{vendor}-sim", ARCHS[vendor], record=str(copy))


def verdict(spec: SubjectSpec, case: str) -> str:
    """The verdict of a case on a subject."""
    profile = profile_of(spec)
    (instance,) = select(catalogue().instances({spec.arch: facts_of(profile, spec.arch)}), [case])
    subject = Subject(spec, profile)
    prepare(subject, instance)
    outcome = execute(subject, instance, instance.seed(1))
    found = judge(instance, outcome, subject.facts, Terms(load_spec(), {}, {}))
    print(found.reason)  # shown where the test fails
    return str(found.verdict)


@pytest.mark.parametrize("name", TRAPS)
def test_a_trap_is_noticed(name: str, tmp_path: Path) -> None:
    trap = TRAPS[name]
    spec = planted(tmp_path, trap.vendor, RecordEdit(trap.path, trap.value))
    if isinstance(trap.noticed, str):
        assert verdict(spec, trap.noticed) == "FAIL"
    else:
        with pytest.raises(trap.noticed):
            _ = Subject(spec).device


@pytest.mark.parametrize("vendor", ARCHS)
def test_the_record_without_a_trap_passes(vendor: str, tmp_path: Path) -> None:
    assert verdict(planted(tmp_path, vendor), "alias/memory_kinds") == "PASS"
    assert verdict(SubjectSpec(f"{vendor}-sim", ARCHS[vendor]), "alias/attributes") == "PASS"

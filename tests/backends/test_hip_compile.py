"""HIP's kernels compile for real, with clang alone: the three archs of the record, without any SDK."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from tutti_hal.codegen import render
from tutti_hal.errors import ArchRefused, BuildError
from tutti_hal.profile import Profile, resolve
from tutti_hal.toolchain import build, toolchain_of
from tutti_hal.toolchain.compiler import compile_unit

ARCHS = ("gfx90a", "gfx942", "gfx1100")
#: The machine of an AMD code object in its ELF header.
EM_AMDGPU = 224


@pytest.fixture
def hip(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Profile:
    if shutil.which("clang++-19") is None or shutil.which("ld.lld-19") is None:
        pytest.skip("needs clang-19 and lld-19: apt-get install clang-19 lld-19")
    monkeypatch.setenv("TUTTI_HIP_CLANG", "clang++-19")
    monkeypatch.setenv("TUTTI_CACHE_DIR", str(tmp_path / "cache"))
    return resolve("hip")


@pytest.mark.parametrize("arch", ARCHS)
def test_the_ring_becomes_a_code_object(hip: Profile, arch: str) -> None:
    built = build(hip, "ring", arch=arch)
    head = built.path.read_bytes()[:20]
    assert head[:4] == b"\x7fELF"
    assert int.from_bytes(head[18:20], "little") == EM_AMDGPU
    (needs,) = built.resources
    assert needs.kernel == "ring_run"
    assert needs.spill_bytes == 0
    assert needs.registers is not None
    assert 0 < needs.registers <= 256
    assert "ring_run" in toolchain_of(hip).listing(built.path)


def test_a_compiler_that_does_not_know_the_arch_says_so(hip: Profile, tmp_path: Path) -> None:
    chain = toolchain_of(hip)
    strange = hip.record.archs["gfx942"]
    arch = type(strange)(**{**vars(strange), "name": "gfx9999", "vars": {"arch": "gfx9999"}})
    with pytest.raises(ArchRefused, match="gfx9999") as refused:
        compile_unit(chain, chain.find(), arch, render(hip.record, arch, "saxpy"), tmp_path)
    assert refused.value.id == "TT-BUILD-ARCH"


def test_every_call_of_the_compiler_names_the_platform(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A hipcc that finds nvcc on PATH would compile for another platform."""
    driver = tmp_path / "hipcc"
    driver.write_text('#!/bin/sh\necho "version 6.3.0 $HIP_PLATFORM" > "$0.said"\ncat "$0.said"\nexit 1\n')
    driver.chmod(0o755)
    monkeypatch.setenv("TUTTI_HIP_CLANG", str(driver))
    monkeypatch.delenv("HIP_PLATFORM", raising=False)
    hip = resolve("hip")
    chain = toolchain_of(hip)
    with pytest.raises(BuildError):
        compile_unit(chain, chain.find(), hip.record.archs["gfx942"], render(hip.record, "gfx942", "saxpy"), tmp_path)
    assert (tmp_path / "hipcc.said").read_text() == "version 6.3.0 amd\n"

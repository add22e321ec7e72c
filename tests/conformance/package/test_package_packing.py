"""Packed files of strangers: unpacked within limits, or refused; plain ones are as good."""

from __future__ import annotations

import lzma
import resource
from pathlib import Path

import packages
import pytest

from tutti_hal.conformance_tests.package import layout, packing
from tutti_hal.conformance_tests.package.findings import Findings
from tutti_hal.conformance_tests.package.packing import packed, unpacked
from tutti_hal.conformance_tests.package.verification import verify

pytestmark = pytest.mark.suite

NAME = f"{layout.OBSERVATIONS}.xz"


def refusals(data: bytes, **more: bytes) -> list[str]:
    findings = Findings()
    unpacked({NAME: data, **more}, findings)
    return [str(one) for one in findings.refusals]


def test_packed_plain_and_without_junit_are_verified(good_package: Path, package: Path) -> None:
    assert (good_package / NAME).is_file()
    assert not (good_package / layout.OBSERVATIONS).exists()
    assert not verify([good_package]).refusals
    assert (package / layout.OBSERVATIONS).is_file()
    (package / layout.JUNIT).unlink()
    for name in layout.PACKED:
        (package / f"{name}.xz").write_bytes(lzma.compress((package / name).read_bytes()))
        (package / name).unlink()
    packages.rebuild(package)
    assert not verify([package]).refusals


def test_both_forms_of_a_file_are_refused(good_package: Path, package: Path) -> None:
    (package / NAME).write_bytes((good_package / NAME).read_bytes())
    packages.rebuild(package)
    assert any("one of the two" in str(one) for one in verify([package]).refusals)


def test_what_is_packed_comes_back() -> None:
    files = {layout.OBSERVATIONS: b"{}\n" * 1000, layout.RUN: b"{}"}
    made = packed(files, (layout.OBSERVATIONS,))
    assert list(made) == [NAME, layout.RUN]
    assert unpacked(made, Findings()) == files


@pytest.mark.parametrize(
    ("data", "words"),
    [
        (b"", "cut off"),
        (b"nonsense" * 8, "not a stream of xz"),
        (lzma.compress(b"x" * 100)[:-9], "cut off"),
        (lzma.compress(b"x") + b"y", "after the end"),
        (lzma.compress(b"x") * 2, "after the end"),
        (lzma.compress(b"x", format=lzma.FORMAT_ALONE), "not a stream of xz"),
        (bytes([*lzma.compress(b"x" * 100)[:-20], *b"\0" * 20]), "not a stream of xz"),
    ],
)
def test_damaged_streams_are_refused(data: bytes, words: str) -> None:
    (found,) = refusals(data)
    assert found.startswith(f"refused: {NAME}: ")
    assert words in found


def test_a_bomb_costs_no_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    bomb = lzma.compress(bytes(64 << 20), preset=1)
    assert len(bomb) < 20_000
    monkeypatch.setattr(packing, "FILE_LIMIT_BYTES", 1 << 20)
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    assert "more than 1048576 bytes when it is unpacked" in refusals(bomb)[0]
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 32 << 10
    monkeypatch.undo()
    monkeypatch.setattr(packing, "TOTAL_LIMIT_BYTES", 2 << 20)
    assert "more than" in refusals(bomb, **{layout.REPORT: bytes(1 << 20)})[0]


def test_a_dictionary_that_is_too_large_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(packing, "_MEMORY_LIMIT_BYTES", 1 << 20)
    assert "not a stream of xz" in refusals(lzma.compress(b"x", preset=6))[0]

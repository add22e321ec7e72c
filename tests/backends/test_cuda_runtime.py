"""What CUDA's runtime layer does on its own account, without a device."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from tutti_hal.backends.cuda.runtime import _cut_off


def test_a_whole_elf_file_is_not_cut_off() -> None:
    assert not _cut_off(Path(sys.executable).resolve())


@pytest.mark.parametrize("part", [0.001, 0.3, 0.9, 0.999])
def test_a_part_of_one_is(tmp_path: Path, part: float) -> None:
    image = Path(sys.executable).resolve().read_bytes()
    file = tmp_path / "part"
    file.write_bytes(image[: int(len(image) * part)])
    assert _cut_off(file)


def test_what_is_no_elf_file_is_left_to_the_driver(tmp_path: Path) -> None:
    file = tmp_path / "text"
    file.write_bytes(b".version 8.0 of something")
    assert not _cut_off(file)
    assert not _cut_off(tmp_path / "none")

"""The drives' media: files that are whole, direct and gone afterwards; refusals that say what to do."""

from __future__ import annotations

import tempfile
from pathlib import Path

import pytest

from tutti_hal.errors import MediumError
from tutti_hal.workload import media
from tutti_hal.workload.media import flip_byte_in_file, open_media

MIB = 1 << 20


def _direct(folder: Path) -> None:
    if why := media._why_no_direct_io(folder):
        pytest.skip(f"no direct I/O in {folder}: {why}")


def test_files_are_allocated_whole_and_removed(tmp_path: Path) -> None:
    _direct(tmp_path)
    with open_media(3, MIB + 1, memory=False, directory=tmp_path) as opened:
        assert len(opened.files) == 3
        assert opened.drive_bytes == 2 * MIB
        for path in opened.files:
            assert path.stat().st_size == 2 * MIB
            assert path.stat().st_blocks * 512 >= 2 * MIB, "all blocks allocated: a later write cannot find a full disk"
        assert opened.name(1) == str(opened.files[1])
    assert list(tmp_path.iterdir()) == []


def test_files_are_removed_after_ctrl_c(tmp_path: Path) -> None:
    _direct(tmp_path)

    def interrupted() -> None:
        with open_media(1, MIB, memory=False, directory=tmp_path):
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        interrupted()
    assert list(tmp_path.iterdir()) == []


def test_memory_makes_no_files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    with open_media(2, MIB, memory=True, directory=None) as opened:
        assert (opened.files, opened.name(0), opened.note) == ((), "memory", "")
        assert list(tmp_path.iterdir()) == []


def test_without_direct_io_the_default_is_memory_and_says_so_and_a_named_folder_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    monkeypatch.setattr(media, "_why_no_direct_io", lambda _folder: "Invalid argument")
    with open_media(2, MIB, memory=False, directory=None) as opened:
        assert opened.files == ()
        assert "no direct I/O (Invalid argument): the drives are memory" in opened.note

    def named() -> None:
        with open_media(2, MIB, memory=False, directory=tmp_path):
            pass

    with pytest.raises(MediumError, match="does no direct I/O"):
        named()
    assert list(tmp_path.iterdir()) == []


def test_a_folder_that_is_not_there_is_refused(tmp_path: Path) -> None:
    def absent() -> None:
        with open_media(1, MIB, memory=False, directory=tmp_path / "absent"):
            pass

    with pytest.raises(MediumError, match=r"No such file.*--dir"):
        absent()


def test_a_full_disk_is_said_before_anything_runs(tiny_disk: Path) -> None:
    def full() -> None:
        with open_media(4, 4 * MIB, memory=False, directory=tiny_disk):
            pass

    with pytest.raises(MediumError, match=r"No space left.*--cache-mib"):
        full()
    assert [p.name for p in tiny_disk.iterdir()] == ["lost+found"]


def test_a_flipped_byte_is_on_the_medium(tmp_path: Path) -> None:
    path = tmp_path / "f"
    path.write_bytes(bytes(range(100)))
    flip_byte_in_file(path, 42)
    changed = path.read_bytes()
    assert changed[42] == 42 ^ 0xFF
    assert changed[:42] + changed[43:] == bytes(range(42)) + bytes(range(43, 100))

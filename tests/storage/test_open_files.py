"""The native call that opens many files: every stage, on whatever file system temporary files lie."""

from __future__ import annotations

import errno
import os
import stat
from pathlib import Path

import pytest

from tutti_hal.native import ffi_and_library
from tutti_hal.storage.open_files import OpenFiles, Stage, file_dtype, read_extents

pytestmark = pytest.mark.storage


def test_rows_are_those_of_the_header() -> None:
    ffi, library = ffi_and_library()
    fields = file_dtype().fields
    assert fields is not None
    declared = ffi.typeof("tt_file").fields
    assert [(name, one.offset) for name, one in declared] == [(name, one[1]) for name, one in fields.items()]
    assert ffi.sizeof("tt_file") == file_dtype().itemsize
    assert {name: int(getattr(library, f"TT_FILE_{name}")) for name in Stage.__members__} == dict(Stage.__members__)


def test_every_file_goes_as_far_as_it_can(tmp_path: Path) -> None:
    regular, image, locked = (tmp_path / name for name in ("regular", "image", "locked"))
    for path in (regular, image, locked):
        path.write_bytes(bytes(8192))
    locked.chmod(0)
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "link").symlink_to(image)
    (tmp_path / "loop").symlink_to("loop")
    known = {(image.stat().st_dev, image.stat().st_ino)}
    paths = {
        str(tmp_path / "absent"): (Stage.LOOK, errno.ENOENT),
        str(regular / "below"): (Stage.LOOK, errno.ENOTDIR),
        str(tmp_path / ("x" * 300)): (Stage.LOOK, errno.ENAMETOOLONG),
        str(tmp_path / "loop"): (Stage.LOOK, errno.ELOOP),
        str(tmp_path): (Stage.OTHER, 0),
        # Nobody has its other end: to open it would wait.
        str(tmp_path / "pipe"): (Stage.OTHER, 0),
        "/dev/null": (Stage.OTHER, 0),
        str(image): (Stage.OTHER, 0),
        str(tmp_path / "link"): (Stage.OTHER, 0),
    }
    if os.geteuid() != 0:
        paths[str(locked)] = (Stage.OPEN, errno.EACCES)
    with OpenFiles() as files:
        files.open([*paths, str(regular)], [True] * (len(paths) + 1), known)
        *others, good = files.rows
        assert [(int(row["stage"]), int(row["error"])) for row in others] == list(paths.values())
        assert (files.rows["fd"][:-1] == -1).all()
        assert stat.S_ISFIFO(int(files.rows["mode"][5]))
        # What a file system without direct I/O or without extents says, in memory for one.
        end = (int(good["stage"]), int(good["error"]))
        assert end in ((Stage.READY, 0), (Stage.EXTENTS, errno.EOPNOTSUPP), (Stage.OPEN, errno.EINVAL))
        if good["fd"] < 0:
            return
        found = regular.stat()
        assert (good["device"], good["inode"], good["size"]) == (found.st_dev, found.st_ino, 8192)
        flags = Path(f"/proc/self/fdinfo/{good['fd']}").read_text(encoding="ascii").split()
        assert int(flags[flags.index("flags:") + 1], 8) & (os.O_DIRECT | os.O_RDWR | os.O_CLOEXEC) == (
            os.O_DIRECT | os.O_RDWR | os.O_CLOEXEC
        )
        kept = files.take(files.rows["fd"].nonzero()[0][-1:])
    os.close(kept[0])  # It was not closed by leaving.


def test_thousands_of_files_by_several_threads(tmp_path: Path) -> None:
    """Each row is its own file's, whoever opened it; every hundredth is not there."""
    paths = [tmp_path / f"{number}" for number in range(2000)]
    for number, path in enumerate(paths):
        if number % 100:
            path.write_bytes(bytes(4096 * (number % 3)))
    with OpenFiles() as files:
        files.open([str(path) for path in paths], [False] * len(paths), ())
        rows = files.rows
        assert (rows["stage"][::100] == Stage.LOOK).all()
        there = rows["stage"] != Stage.LOOK
        assert there.sum() == 1980
        assert [int(inode) for inode in rows["inode"][there]] == [
            path.stat().st_ino for number, path in enumerate(paths) if number % 100
        ]
        assert (rows["first_extent"][1:] == rows["extents"].cumsum()[:-1]).all()
        assert len(files.extents) == rows["extents"].sum()


def test_a_descriptor_that_is_not_open_says_so() -> None:
    rows, extents = read_extents([-1], [4096], sync=False)
    assert (rows["stage"].tolist(), rows["error"].tolist(), len(extents)) == ([Stage.EXTENTS], [errno.EBADF], 0)


def test_none_at_all() -> None:
    rows, extents = read_extents([], [], sync=True)
    assert (len(rows), len(extents)) == (0, 0)

"""The variable that names another build of the native library."""

from __future__ import annotations

from pathlib import Path

import pytest

from tutti_hal import paths
from tutti_hal.errors import NativeError


def test_the_named_library_is_taken(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    library = tmp_path / "other.so"
    library.touch()
    monkeypatch.setenv(paths.LIBRARY_VARIABLE, str(library))
    assert paths.native_library() == library


def test_a_named_library_that_is_not_there_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(paths.LIBRARY_VARIABLE, str(tmp_path / "absent.so"))
    with pytest.raises(NativeError, match=r"absent\.so"):
        paths.native_library()

"""A package names no folder of the machine that made it."""

from __future__ import annotations

from pathlib import Path

import pytest

from tutti_hal.conformance_tests.package.builds import anywhere
from tutti_hal.toolchain import cache


@pytest.mark.parametrize(
    ("word", "kept"),
    [
        ("{cache}/ab/cd/bin/mcc", "$TUTTI_CACHE_DIR/ab/cd/bin/mcc"),
        ("{cache}", "$TUTTI_CACHE_DIR"),
        ("{cache}-not/bin", "{cache}-not/bin"),
        ("{home}/sdk/bin/mcc", "~/sdk/bin/mcc"),
        ("/usr/bin/g++", "/usr/bin/g++"),
        ("g++", "g++"),
        ("-O2", "-O2"),
    ],
)
def test_a_word_of_a_command(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, word: str, kept: str) -> None:
    places = {"cache": tmp_path / "cache", "home": tmp_path / "someone"}
    monkeypatch.setenv(cache.VARIABLE, str(places["cache"]))
    monkeypatch.setenv("HOME", str(places["home"]))
    assert anywhere(word.format(**places)) == kept.format(**places)

"""``tutti-hal profiles``: what it shows and how it leaves."""

from __future__ import annotations

import json

import pytest

from tutti_hal import backend, certificates, profile
from tutti_hal.certificates import Certificate, Index
from tutti_hal.cli.main import main

# Of another product than this, therefore stale.
PASSED = Certificate(
    folder="cuda/board-2026-01-31",
    vendor="cuda",
    provenance="hardware",
    archs=("sm_90",),
    level="L3",
    date="2026-01-31",
    suite="0.1.0",
    commit="c" * 40,
    sources="0" * 64,
    manifest="0" * 64,
    nbytes=1,
)


@pytest.fixture(autouse=True)
def _no_ambient_choice(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(profile.VARIABLE, raising=False)
    monkeypatch.delenv(backend.DISABLE_VARIABLE, raising=False)
    monkeypatch.setattr(profile, "pinned", lambda: None)
    monkeypatch.setattr(certificates, "read_index", lambda: Index((PASSED,), {}))


def report(capsys: pytest.CaptureFixture[str], *words: str) -> tuple[int, dict[str, object]]:
    code = main(["profiles", "--json", *words])
    return code, json.loads(capsys.readouterr().out)


def test_every_installed_vendor_is_listed(capsys: pytest.CaptureFixture[str]) -> None:
    code, table = report(capsys)
    assert code == 0
    rows = {row["vendor"]: row for row in table["candidates"]}
    assert rows["host"]["usable"]
    assert rows["host"]["needs_naming"]
    assert len(rows["host"]["archs"]) == 6
    assert not rows["cuda"]["needs_naming"]
    assert rows["cuda"]["reason"]
    assert {vendor for vendor, row in rows.items() if row["level_passed"]} == {"cuda"}
    assert rows["cuda"]["level_passed"] == {
        "level": "L3",
        "provenance": "hardware",
        "archs": ["sm_90"],
        "date": "2026-01-31",
        "suite": "0.1.0",
        "commit": "c" * 40,
        "stale": True,
    }


def test_a_named_profile_is_selected(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(profile.VARIABLE, "host:sim-w64")
    code, table = report(capsys)
    assert code == 0
    assert table["selected"] == {"profile": "host:sim-w64", "chosen_by": "variable", "sdk": None}
    code, table = report(capsys, "--profile", "host")
    assert (code, table["selected"]["chosen_by"]) == (0, "argument")


def test_a_misspelt_profile_is_refused(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(profile.VARIABLE, "hots")
    code, table = report(capsys)
    assert code == 1
    assert table["selected"] is None
    assert table["refusal"]["id"] == "TT-PROFILE-UNKNOWN"
    assert "did you mean 'host'" in table["refusal"]["found"]


def test_a_broken_plugin_is_a_row(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(backend.DISABLE_VARIABLE, "cuda")
    _, table = report(capsys)
    rows = {row["vendor"]: row for row in table["candidates"]}
    assert rows["cuda"]["reason"] == f"disabled by {backend.DISABLE_VARIABLE}"
    assert rows["host"]["usable"]


def test_the_table_for_people_says_the_same(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["profiles", "--profile", "host:sim-w32"]) == 0
    text = capsys.readouterr().out
    for words in ("threads-w128", "when named", "none yet", "pinned: nothing", "selected: host:sim-w32 (by argument)"):
        assert words in text
    assert "hardware" in text
    assert "stale" in text
    assert main(["profiles", "--profile", "hots"]) == 1
    assert "TT-PROFILE-UNKNOWN" in capsys.readouterr().out


def test_a_pin_without_objects_says_why(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    toolchain = pytest.importorskip("tutti_hal.toolchain")
    if not hasattr(toolchain, "aot_state"):
        pytest.skip("the toolchain does not tell the state of what was built at install yet")
    monkeypatch.setattr(profile, "pinned", lambda: profile.Pin("host", None, "no compiler was found"))
    code, table = report(capsys)
    assert code == 0
    assert table["pinned"]["profile"] == "host"
    assert "no compiler was found" in table["pinned"]["aot"]

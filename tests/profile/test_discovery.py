"""Discovery: a broken plugin is named, with the way to silence it, and breaks nobody else."""

from __future__ import annotations

import json
import subprocess
import sys
from importlib.metadata import EntryPoint
from pathlib import Path

import pytest

from tests.profile.conftest import Plugin, found
from tutti_hal import backend, profile
from tutti_hal.errors import ProfileError, ProfileUnusable


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"before": "raise OSError('libfoo.so is missing')"}, "failed to load"),
        ({"before": "import no_such_sdk"}, "ModuleNotFoundError"),
        ({"api": 99}, "written for backend API 99"),
        ({"called": "other"}, "calls itself 'other'"),
        ({"record": lambda text: text + "\nvendro: x\n"}, "unknown key 'vendro'; did you mean 'vendor'"),
    ],
)
def test_a_broken_plugin_is_named_and_breaks_nobody(plugin: Plugin, options: dict[str, object], said: str) -> None:
    all_of_them = found(plugin("broken", **options), plugin("fine", archs=("sm_80",)))
    assert profile.select("fine", findings=all_of_them, environ={}).vendor == "fine"
    assert profile.select(findings=all_of_them, environ={}).vendor == "fine"
    broken = {c.vendor: c for c in profile.candidates(all_of_them)}["broken"]
    assert not broken.usable
    assert said in broken.reason
    for choose in (profile.select, profile.resolve):
        with pytest.raises(ProfileUnusable) as refused:
            choose("broken", findings=all_of_them, environ={})
        assert said in str(refused.value)
    if "record" not in options:
        assert f"{backend.DISABLE_VARIABLE}=broken" in broken.reason


def test_a_descriptor_with_a_wrong_folder_breaks_nobody(plugin: Plugin) -> None:
    odd = plugin("odd", before="_Path = Path\nPath = lambda text: 7")
    all_of_them = found(odd, plugin("fine", archs=("sm_80",)))
    assert profile.select(findings=all_of_them, environ={}).vendor == "fine"
    assert "its record is broken" in {c.vendor: c.reason for c in profile.candidates(all_of_them)}["odd"]


def test_a_thing_that_is_no_descriptor_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "plain_thing.py").write_text("DESCRIPTOR = 7\n", encoding="utf-8")
    monkeypatch.syspath_prepend(str(tmp_path))
    [finding] = backend.discover([EntryPoint("thing", "plain_thing:DESCRIPTOR", backend.GROUP)], {})
    assert finding.backend is None
    assert "is not a Descriptor but int" in finding.problem


def test_a_disabled_plugin_is_not_loaded(plugin: Plugin) -> None:
    point = plugin("alpha", before="raise SystemError('was loaded')")
    [finding] = backend.discover([point], {backend.DISABLE_VARIABLE: "beta, alpha"})
    assert finding.problem == f"disabled by {backend.DISABLE_VARIABLE}"


def test_a_name_offered_twice_is_refused(plugin: Plugin) -> None:
    [finding] = backend.discover([plugin("alpha"), plugin("alpha")], {})
    assert finding.backend is None
    assert "offered more than once" in finding.problem


def test_the_same_entry_point_seen_twice_is_one(plugin: Plugin) -> None:
    point = plugin("alpha")
    [finding] = backend.discover([point, point], {})
    assert finding.backend is not None


def test_installed_backends_are_light() -> None:
    """Discovery and the probe of every installed vendor import neither NumPy, nor cffi, nor an SDK."""
    code = (
        "import json, sys\n"
        "from tutti_hal import profile\n"
        "names = [c.vendor for c in profile.candidates()]\n"
        "heavy = [m for m in ('numpy', 'cffi', 'cuda', 'jinja2', 'rich') if m in sys.modules]\n"
        "print(json.dumps([names, heavy]))\n"
    )
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    names, heavy = json.loads(run.stdout)
    assert {"cuda", "host"} <= set(names)
    assert heavy == []


def _pin(monkeypatch: pytest.MonkeyPatch, folder: Path, text: str | None) -> None:
    monkeypatch.undo()
    if text is not None:
        (folder / "pinned.json").write_text(text, encoding="utf-8")
    monkeypatch.setattr(profile, "files", lambda _package: folder)


def test_the_pin_is_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    _pin(monkeypatch, tmp_path, '{"profile": "host:sim-w32", "aot": null, "why_no_aot": "no compiler"}')
    assert profile.pinned() == profile.Pin("host:sim-w32", None, "no compiler")
    chosen = profile.select(environ={})
    assert (str(chosen), chosen.chosen_by) == ("host:sim-w32", "pinned")


def test_no_pin_is_no_pin(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    _pin(monkeypatch, tmp_path, None)
    assert profile.pinned() is None


@pytest.mark.parametrize("text", ["", "[]", "{}", "{"])
def test_a_damaged_pin_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, text: str) -> None:
    _pin(monkeypatch, tmp_path, text)
    with pytest.raises(ProfileError, match="damaged"):
        profile.select(environ={})
    assert profile.select("host", environ={}).vendor == "host"

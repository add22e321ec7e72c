"""``port-status``: what each kind of fault is called, where it is, and what a kept run counts for."""

from __future__ import annotations

import json
import os
import re
import time
from pathlib import Path

import pytest

from tutti_hal.backend import API_VERSION, Backend, Descriptor, Finding, Probe
from tutti_hal.cli.main import main
from tutti_hal.conformance_tests import porting
from tutti_hal.conformance_tests.errors import NotAPackage
from tutti_hal.errors import ProfileUnknown
from tutti_hal.scaffold import create

pytestmark = pytest.mark.porting


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A backend's folder in which every fact is answered: the copy of HOST without its markers."""
    backend = create("acme", tmp_path / "acme").backend
    for name in ("vendor.yaml", "conformance.yaml", "runtime.py", "toolchain.py"):
        text = (backend / name).read_text(encoding="utf-8")
        (backend / name).write_text(re.sub(r" +(# )?#\? .*$", "", text, flags=re.M), encoding="utf-8")
    return backend


def finding(folder: Path) -> Finding:
    descriptor = Descriptor("acme", API_VERSION, folder, "tutti_hal_backends.acme", lambda: Probe(True, "planted"))
    return Finding("acme", "acme 1", Backend(descriptor), "")


def look(folder: Path, monkeypatch: pytest.MonkeyPatch) -> porting.Status:
    """The status of a planted backend; its runtime is not opened."""
    monkeypatch.setattr("tutti_hal.backend.discover", lambda: [finding(folder)])
    monkeypatch.setattr(porting, "_opens", lambda _vendor: None)
    return porting.port_status("acme", within_s=60)


def change(folder: Path, old: str, new: str, name: str = "vendor.yaml") -> None:
    text = (folder / name).read_text(encoding="utf-8")
    assert re.search(old, text, flags=re.M)
    (folder / name).write_text(re.sub(old, new, text, count=1, flags=re.M), encoding="utf-8")


def test_an_answered_copy_is_not_red(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    status = look(folder, monkeypatch)
    assert status.red is None
    assert status.to_do == 0
    assert "no gap" in status.looked["L1"]
    assert status.next.startswith("run the cases: tutti-hal certify --profile acme")


@pytest.mark.parametrize(
    ("old", "new", "clause", "key"),
    [
        (r"^  memory.pools: true\n", "", "record.capability.answered", "capabilities"),
        (r"^    wave_width: 32$", "    wave_width: 64", "record.wave.mask_fits", "archs.threads-w32"),
        (r"^    GreenCtxCreate:", "    GreenCtxCreat:", "record.reference.known", "host_api.absent"),
        (r"^kind: host$", "kind: [", "record.schema.valid", ""),
    ],
)
def test_a_broken_record_is_l0_with_line_and_key(
    folder: Path, monkeypatch: pytest.MonkeyPatch, old: str, new: str, clause: str, key: str
) -> None:
    change(folder, old, new)
    red = look(folder, monkeypatch).red
    assert red is not None
    assert (red.level, red.clause) == ("L0", clause)
    assert key in red.where
    assert re.search(r"vendor\.yaml(:\d+)?", red.where)


def test_a_marker_in_any_file_is_l0(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    change(folder, r"^def toolchain", "X = 1  # #? what is it [generate.complete]\n\n\ndef toolchain", "toolchain.py")
    status = look(folder, monkeypatch)
    assert status.red is not None
    assert (status.red.level, status.red.clause, status.to_do) == ("L0", "generate.complete", 1)
    assert "toolchain.py:" in status.red.where
    assert "what is it" in status.red.hint


@pytest.mark.parametrize(
    ("old", "clause"),
    [
        (r"^  barrier.block: .*\n", "generate.complete"),
        (r"(?<=^  time.pause: \{body: )'return tt_host_.*'", "generate.undefined.refused"),
    ],
)
def test_what_cannot_be_generated_is_l1(folder: Path, monkeypatch: pytest.MonkeyPatch, old: str, clause: str) -> None:
    change(folder, old, '"{{ nowhere }};"' if "pause" in old else "")
    red = look(folder, monkeypatch).red
    assert red is not None
    assert (red.level, red.clause) == ("L1", clause)


def test_a_runtime_that_hangs_or_dies_does_not_take_the_look_with_it(monkeypatch: pytest.MonkeyPatch) -> None:
    looked: dict[str, str] = {}
    monkeypatch.setattr(porting, "_opens", lambda _vendor: time.sleep(600))
    assert porting._opens_within("acme", looked, time.monotonic() + 0.3) is None
    assert "not seen in time" in looked["L2"]
    monkeypatch.setattr(porting, "_opens", lambda _vendor: os._exit(3))
    red = porting._opens_within("acme", looked, time.monotonic() + 60)
    assert red is not None
    assert "died" in red.found


def test_who_is_not_installed_is_refused() -> None:
    with pytest.raises(ProfileUnknown, match="tutti-hal new-backend nobody"):
        porting.port_status("nobody")


def test_the_command_prints_json_and_ends_with_0(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["port-status", "host", "--within", "60", "--json"]) == 0
    table = json.loads(capsys.readouterr().out)
    assert (table["vendor"], table["red"]) == ("host", None)
    assert set(table["looked"]) == {"L0", "L1", "L2"}


@pytest.mark.suite
@pytest.mark.timeout(300)
def test_a_kept_run_counts_until_the_record_changes(tmp_path: Path) -> None:
    evidence = tmp_path / "kept"
    run = [
        "certify",
        "--profile",
        "host:threads-w32",
        "--level",
        "L0",
        "--case",
        "record/schema",
        "--out",
        str(evidence),
    ]
    assert main(run) == 0
    status = porting.port_status("host", evidence, within_s=60)
    assert status.red is None
    assert status.looked["L0"].startswith(f"kept in {evidence}")
    record = evidence / "record" / "vendor.yaml"
    record.write_bytes(record.read_bytes() + b"# another\n")
    with pytest.raises(NotAPackage):  # its own sums say so
        porting.port_status("host", evidence, within_s=60)

"""``tutti-hal doctor``: stable ids, and a machine that is broken on purpose in each way that it judges."""

from __future__ import annotations

import json
import os
import tempfile
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace

import pytest

from tutti_hal import backend, checks, expectations, machine, native, profile, spec
from tutti_hal.cli.main import main
from tutti_hal.errors import NativeError, SpecError
from tutti_hal.toolchain import cache

#: The ids that others may rely on: a renamed one is a broken promise.
IDS = {
    "python.packages",
    "native.library",
    "spec.contract",
    "profile.selected",
    "aot.fresh",
    "cache.writable",
    "cpu.count",
    "memory.size",
    "memory.areas",
    "memory.lockable",
    "storage.direct_io",
}

#: The backends of this package, and the simulated SDKs of which only the loading is looked at.
BACKENDS = ("cuda", "hip", "host", "maca", "musa")
SIMULATED = ("hip-sim", "maca-sim", "musa-sim")
IDS |= {f"{what}.{name}" for what in ("record.complete", "expectations", "compiler") for name in BACKENDS}
IDS |= {f"backend.loads.{name}" for name in (*BACKENDS, *SIMULATED)}

Patch = pytest.MonkeyPatch


@pytest.fixture(autouse=True)
def _settled(monkeypatch: Patch) -> None:
    monkeypatch.setenv(profile.VARIABLE, "host")
    monkeypatch.delenv(backend.DISABLE_VARIABLE, raising=False)
    monkeypatch.setattr(profile, "pinned", lambda: None)


def judged() -> dict[str, checks.Judgement]:
    judgements = checks.diagnose()
    table = {judgement.id: judgement for judgement in judgements}
    assert len(table) == len(judgements), "two checks share an id"
    return table


def test_ids_are_stable_and_every_fault_has_a_fix() -> None:
    table = judged()
    assert set(table) == IDS
    for judgement in table.values():
        assert bool(judgement.fix) == (judgement.state != "pass"), judgement
        assert judgement.found
        assert "\n" not in judgement.found


def test_the_verb_leaves_with_one_exactly_when_a_check_failed(
    capsys: pytest.CaptureFixture[str], monkeypatch: Patch
) -> None:
    code = main(["doctor", "--json"])
    table = json.loads(capsys.readouterr().out)
    assert (code == 1) == table["failed"] == any(c["state"] == "fail" for c in table["checks"])
    monkeypatch.setenv(profile.VARIABLE, "hots")
    assert main(["doctor", "--json"]) == 1
    table = json.loads(capsys.readouterr().out)
    [failed] = [c for c in table["checks"] if c["id"] == "profile.selected"]
    assert failed["state"] == "fail"
    assert "did you mean 'host'" in failed["found"]


def test_the_text_form_shows_id_state_and_fix(capsys: pytest.CaptureFixture[str], monkeypatch: Patch) -> None:
    monkeypatch.setenv(profile.VARIABLE, "hots")
    assert main(["doctor"]) == 1
    text = capsys.readouterr().out
    assert "fail  profile.selected" in text
    assert "fix: Name one of:" in text
    assert "1 fail" in text


def _raises(error: Exception) -> Callable[..., object]:
    def raising(*_args: object, **_named: object) -> object:
        raise error

    return raising


def _no_memory(patch: Patch) -> None:
    facts = {**machine.memory_facts(), "total_bytes": 2**40, "cgroup_limit_bytes": 2**20}
    patch.setattr(machine, "memory_facts", lambda: facts)


def _few_areas(patch: Patch) -> None:
    patch.setattr(machine, "kernel_facts", lambda: {"sysctl": {"vm/max_map_count": "1024"}})


def _unknown_areas(patch: Patch) -> None:
    patch.setattr(machine, "kernel_facts", lambda: {"sysctl": {"vm/max_map_count": None}})


def _no_lock(patch: Patch) -> None:
    patch.setattr(machine, "limit_facts", lambda: {"memlock_bytes": 65536})
    patch.setattr(os, "geteuid", lambda: 1000)


def _one_cpu(patch: Patch) -> None:
    patch.setattr(machine, "cpu_facts", lambda: {"usable": 1})


def _no_package(patch: Patch) -> None:
    patch.setattr(machine, "package_facts", lambda: {"tutti-hal": "0", "numpy": None})


def _no_native(patch: Patch) -> None:
    patch.setattr(native, "ffi_and_library", _raises(NativeError("load it", "gone", "Install it.")))


def _bad_spec(patch: Patch) -> None:
    patch.setattr(spec, "load_spec", _raises(SpecError("load", "a line is wrong", "Correct it.")))


def _bad_expectations(patch: Patch) -> None:
    patch.setattr(
        expectations, "load_expectations", _raises(SpecError("load", "no clause 'ring.nonsuch'", "Correct it."))
    )


def _no_compiler(patch: Patch) -> None:
    for name in ("TUTTI_HOST_CXX", "CXX"):
        patch.setenv(name, "/no/such/compiler")


def _disabled(patch: Patch) -> None:
    patch.setenv(backend.DISABLE_VARIABLE, "cuda")


def _unnamed(patch: Patch) -> None:
    patch.delenv(profile.VARIABLE)


def _no_cache(patch: Patch) -> None:
    patch.setattr(tempfile, "TemporaryFile", _raises(OSError(30, "Read-only file system")))


def _no_direct(patch: Patch) -> None:
    # Of the checks alone: others make files where they may.
    patch.setattr(checks, "tempfile", SimpleNamespace(**{**vars(tempfile), "gettempdir": lambda: "/proc"}))


@pytest.mark.parametrize(
    ("break_it", "check", "state"),
    [
        (_no_package, "python.packages", "fail"),
        (_no_native, "native.library", "fail"),
        (_bad_spec, "spec.contract", "fail"),
        (_bad_expectations, "expectations.host", "fail"),
        (_disabled, "backend.loads.cuda", "warn"),
        (_unnamed, "profile.selected", "warn"),
        (_no_compiler, "compiler.host", "fail"),
        (_no_cache, "cache.writable", "warn"),
        (_one_cpu, "cpu.count", "warn"),
        (_no_memory, "memory.size", "warn"),
        (_few_areas, "memory.areas", "warn"),
        (_unknown_areas, "memory.areas", "warn"),
        (_no_lock, "memory.lockable", "warn"),
        (_no_direct, "storage.direct_io", "warn"),
    ],
)
def test_each_check_sees_its_fault(
    monkeypatch: Patch, break_it: Callable[[Patch], None], check: str, state: str
) -> None:
    break_it(monkeypatch)
    judgement = judged()[check]
    assert judgement.state == state
    assert judgement.fix


def test_a_gap_in_a_record_is_seen(monkeypatch: Patch) -> None:
    from tutti_hal.record import Missing, Record

    monkeypatch.setattr(Record, "missing", lambda _self, _arch: Missing(("fence.system",), ()))
    judgement = judged()["record.complete.host"]
    assert judgement.state == "warn"
    assert "fence.system" in judgement.found


def test_the_doctor_creates_nothing(monkeypatch: Patch, tmp_path: Path) -> None:
    monkeypatch.setenv(cache.VARIABLE, str(tmp_path / "not" / "there"))
    assert judged()["cache.writable"].state == "pass"
    assert list(tmp_path.iterdir()) == []

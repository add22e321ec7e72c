"""What CUDA's probe sees of a machine, on machines made up for it."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from tutti_hal.backends.cuda import detect


def smi(monkeypatch: pytest.MonkeyPatch, folder: Path, script: str) -> None:
    tool = folder / "nvidia-smi"
    tool.write_text(f"#!/bin/sh\n{script}\n", encoding="utf-8")
    tool.chmod(0o755)
    monkeypatch.setattr(detect.shutil, "which", lambda _name: str(tool))


def devices(folder: Path, *names: str) -> Path:
    for name in names:
        (folder / name).touch()
    return folder


def test_no_device(tmp_path: Path) -> None:
    probe = detect.look({}, devices(tmp_path, "nvidiactl", "nvidia-uvm", "null"))
    assert (probe.usable, probe.archs) == (False, ())
    assert "no device under" in probe.reason


def test_devices_and_their_archs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    smi(monkeypatch, tmp_path, "printf '9.0\\n9.0\\n8.0\\n'")
    folder = devices(tmp_path, "nvidia0", "nvidia1", "nvidia2", "nvidiactl")
    probe = detect.look({}, folder, lambda: "libcuda.so.1")
    assert probe.archs == ("sm_90", "sm_80")
    assert "3 device(s)" in probe.reason
    assert probe.usable


def test_devices_without_a_drivers_library(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    smi(monkeypatch, tmp_path, "printf '9.0\\n'")
    probe = detect.look({}, devices(tmp_path, "nvidia0"), lambda: None)
    assert (probe.usable, probe.archs) == (False, ("sm_90",))
    assert "libcuda" in probe.reason


@pytest.mark.parametrize("script", ["exit 9", "exec sleep 30"])
def test_a_tool_that_fails_or_hangs_tells_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, script: str) -> None:
    monkeypatch.setattr(detect, "SMI_LIMIT_S", 0.2)
    smi(monkeypatch, tmp_path, script)
    assert detect.device_archs() == ()


def test_without_devices_no_tool_is_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def forbidden(*_args: object, **_named: object) -> object:
        raise AssertionError("a tool was run")

    monkeypatch.setattr(subprocess, "run", forbidden)
    assert detect.look({}, tmp_path).archs == ()


def toolkit(root: Path, text: str) -> Path:
    (root / "include").mkdir(parents=True)
    (root / "include" / "cuda.h").write_text(text, encoding="utf-8")
    return root


def test_the_toolkits_version(tmp_path: Path) -> None:
    thirteen = toolkit(tmp_path / "a", "#define __CUDA_API 1\n#define CUDA_VERSION 13000\n")
    twelve = toolkit(tmp_path / "b", "#define CUDA_VERSION 12060\n")
    broken = toolkit(tmp_path / "c", "nothing\n")
    none = tmp_path / "none"
    assert detect.sdk_version({"CUDA_HOME": str(thirteen), "CUDA_PATH": str(twelve)}, none) == "13.0"
    assert detect.sdk_version({"CUDA_HOME": str(none), "CUDA_PATH": str(twelve)}, none) == "12.6"
    assert detect.sdk_version({"CUDA_HOME": str(broken)}, twelve) == "12.6"
    assert detect.sdk_version({}, none) is None

"""``tutti-hal collect``: facts only, and the same facts every time."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path

import pytest

from tutti_hal import machine
from tutti_hal.cli.main import main


def collected(capsys: pytest.CaptureFixture[str]) -> dict[str, object]:
    assert main(["collect", "--json"]) == 0
    return json.loads(capsys.readouterr().out)


def test_the_hash_is_that_of_the_facts_and_repeats(capsys: pytest.CaptureFixture[str]) -> None:
    table = collected(capsys)
    canonical = json.dumps(table["facts"], sort_keys=True, separators=(",", ":")).encode("ascii")
    assert table["sha256"] == hashlib.sha256(canonical).hexdigest()
    assert collected(capsys) == table


def test_every_subject_is_there(capsys: pytest.CaptureFixture[str]) -> None:
    facts = collected(capsys)["facts"]
    assert set(facts) == {
        "python",
        "cpu",
        "memory",
        "kernel",
        "limits",
        "packages",
        "nvme",
        "compilers",
        "profiles",
        "pinned",
    }
    assert facts["memory"]["total_bytes"] > 2**20
    assert facts["cpu"]["usable"] >= 1
    assert facts["packages"]["tutti-hal"]
    assert {"pyyaml", "numpy", "cffi"} <= set(facts["packages"])
    assert set(facts["compilers"]["host"]) >= {"g++", "clang++"}


def test_one_changed_fact_changes_the_hash() -> None:
    assert machine.digest({"a": 1, "b": None}) != machine.digest({"a": 1, "b": 0})


def test_the_text_form_keeps_brackets(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["collect"]) == 0
    text = capsys.readouterr().out
    assert "sha256 " in text
    choice = machine.memory_facts()["transparent_huge_pages"]
    if choice is not None:
        assert choice in text


def system(root: Path, files: dict[str, str]) -> Path:
    for name, text in files.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
    return root


def test_memory_and_its_control_group(tmp_path: Path) -> None:
    root = system(tmp_path, {"proc/meminfo": "MemFree: 3 kB\nMemTotal:       2048 kB\n"})
    assert machine.memory_facts(root)["total_bytes"] == 2048 * 1024
    assert machine.memory_facts(root)["cgroup_limit_bytes"] is None
    system(tmp_path, {"sys/fs/cgroup/memory.max": "1000000\n"})
    assert machine.memory_facts(root)["cgroup_limit_bytes"] == 1000000
    system(tmp_path, {"sys/fs/cgroup/memory.max": "max\n"})
    assert machine.memory_facts(root)["cgroup_limit_bytes"] is None


def test_nvme_controllers_without_serial_numbers(tmp_path: Path) -> None:
    root = system(
        tmp_path,
        {
            "sys/class/nvme/nvme1/model": "Drive B  \n",
            "sys/class/nvme/nvme0/model": "Drive A\n",
            "sys/class/nvme/nvme0/firmware_rev": "1.2\n",
            "sys/class/nvme/nvme0/transport": "pcie\n",
            "sys/class/nvme/nvme0/serial": "SECRET\n",
        },
    )
    first, second = machine.nvme_facts(root)
    assert first == {"name": "nvme0", "model": "Drive A", "firmware_rev": "1.2", "transport": "pcie", "numa_node": None}
    assert second["model"] == "Drive B"


def test_iommu_parameters(tmp_path: Path) -> None:
    root = system(tmp_path, {"proc/cmdline": "quiet iommu=pt intel_iommu=on root=/dev/x\n"})
    (root / "sys/kernel/iommu_groups/0").mkdir(parents=True)
    facts = machine.kernel_facts(root)
    assert facts["iommu_parameters"] == ["intel_iommu=on", "iommu=pt"]
    assert facts["iommu_groups"] == 1


def test_an_empty_system_is_no_error(tmp_path: Path) -> None:
    assert machine.cpu_facts(tmp_path)["model"] == "unknown"
    assert machine.memory_facts(tmp_path)["total_bytes"] == 0
    assert machine.nvme_facts(tmp_path) == []


@pytest.mark.parametrize(("script", "told"), [("echo tool 4.5", "4.5"), ("echo tool", None), ("exit 3", None)])
def test_a_tools_version(tmp_path: Path, script: str, told: str | None) -> None:
    tool = tmp_path / "tool"
    tool.write_text(f"#!/bin/sh\n{script}\n", encoding="utf-8")
    tool.chmod(0o755)
    assert machine.tool_version((str(tool), "--version"), r"(\d+\.\d+)") == told


def test_a_tool_that_hangs_is_no_version(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(machine, "VERSION_LIMIT_S", 0.2)
    tool = tmp_path / "tool"
    tool.write_text("#!/bin/sh\nexec sleep 30\n", encoding="utf-8")
    tool.chmod(0o755)
    assert machine.tool_version((str(tool),), "(.*)") is None
    assert machine.tool_version(("no-such-tool-at-all",), "(.*)") is None

"""SDKs that are absent, another vendor's, half installed or defective: each is its own error, and says what to do."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from tutti_hal.errors import SdkDefective, SdkForeign, SdkIncomplete, SdkMissing
from tutti_hal.overlay import at_sdk
from tutti_hal.paths import package_file
from tutti_hal.record import Record, load_record
from tutti_hal.sdk import device_archs, find_root, look_for

FOLDER = package_file("backends", "musa")


@pytest.fixture(scope="module")
def musa() -> Record:
    return load_record(FOLDER)


def sdk(root: Path, *, library: bool = True, version: int = 50200) -> Path:
    (root / "include").mkdir(parents=True)
    (root / "include" / "musa_runtime_api.h").touch()
    (root / "include" / "musa.h").write_text(f"#pragma once\n#define MUSA_VERSION {version}\n", encoding="utf-8")
    if library:
        (root / "lib").mkdir()
        (root / "lib" / "libmusart.so.5").touch()
    return root


def test_absent_says_where_it_looked_and_how_to_get_it(musa: Record, tmp_path: Path) -> None:
    with pytest.raises(SdkMissing, match=r"\$MUSA_HOME \(not set\).*/usr/local/musa \(absent\)") as refused:
        find_root(musa, {}, tmp_path)
    assert refused.value.id == "TT-SDK-MISSING"
    assert "install the MUSA SDK" in refused.value.fix


def test_a_variable_that_names_no_folder_is_not_passed_over(musa: Record, tmp_path: Path) -> None:
    sdk(tmp_path / "usr/local/musa")
    with pytest.raises(SdkMissing, match="MUSA_HOME names /nowhere/musa, which is no folder"):
        find_root(musa, {"MUSA_HOME": "/nowhere/musa"}, tmp_path)


def test_another_vendors_is_told_as_what_it_is(musa: Record, tmp_path: Path) -> None:
    (tmp_path / "include" / "mcr").mkdir(parents=True)
    (tmp_path / "include" / "mcr" / "mc_runtime_api.h").touch()
    with pytest.raises(SdkForeign, match=r"has no include/musa_runtime_api\.h; it is the SDK of maca") as refused:
        find_root(musa, {"MUSA_PATH": str(tmp_path)})
    assert refused.value.id == "TT-SDK-FOREIGN"


def test_half_installed(musa: Record, tmp_path: Path) -> None:
    with pytest.raises(SdkIncomplete, match=r"half installed.*libmusart\.so\.5") as refused:
        find_root(musa, {"MUSA_HOME": str(sdk(tmp_path, library=False))})
    assert refused.value.id == "TT-SDK-INCOMPLETE"


def test_the_first_variable_counts_and_the_version_is_read(musa: Record, tmp_path: Path) -> None:
    first, second = sdk(tmp_path / "a", version=40303), sdk(tmp_path / "b")
    environ = {"MUSA_HOME": str(first), "MUSA_PATH": str(second)}
    root = find_root(musa, environ)
    assert (root.path, root.said_by, root.version) == (first, "MUSA_HOME", "4.3.3")
    assert find_root(musa, {"MUSA_PATH": str(second)}).version == "5.2.0"


def test_a_default_root_is_found_without_a_variable(musa: Record, tmp_path: Path) -> None:
    root = find_root(musa, {}, tmp_path) if sdk(tmp_path / "usr/local/musa") else None
    assert root is not None
    assert root.said_by == "default"


def test_a_defect_that_cannot_be_lived_with_refuses_its_versions_alone(musa: Record, tmp_path: Path) -> None:
    (hangs,) = (quirk for quirk in musa.quirks if quirk.sdk == "==4.3.3" and quirk.id.startswith("atomic"))
    strict = replace(musa, quirks=(replace(hangs, refuse="Install 5.2."),))
    with pytest.raises(SdkDefective, match=r"SDK 4\.3\.3 .* atomic\.system_hangs_the_compiler") as refused:
        find_root(strict, {"MUSA_HOME": str(sdk(tmp_path / "a", version=40303))})
    assert (refused.value.id, refused.value.fix) == ("TT-SDK-DEFECTIVE", "Install 5.2.")
    assert find_root(strict, {"MUSA_HOME": str(sdk(tmp_path / "b"))}).version == "5.2.0"


def pci(system: Path, *identities: str) -> None:
    for number, identity in enumerate(identities):
        function = system / "sys/bus/pci/devices" / f"0000:{number:02x}:00.0"
        function.mkdir(parents=True)
        (function / "uevent").write_text(f"DRIVER=x\nPCI_ID={identity}\n", encoding="utf-8")


def test_devices_are_told_by_their_pci_identity(musa: Record, tmp_path: Path) -> None:
    pci(tmp_path, "1ED5:0400", "8086:0300", "1ED5:0323", "1ED5:0400", "1ED5:FFFF")
    assert device_archs(musa, tmp_path) == ("mp_31", "mp_22")


@pytest.mark.parametrize(
    ("with_sdk", "devices", "usable", "said"),
    [
        (False, (), False, "(no device). To get it: install the MUSA SDK"),
        (False, ("1ED5:0323",), False, "(devices: mp_22). To get it"),
        (True, (), False, "SDK 5.2.0 in"),
        (True, ("1ED5:0323",), True, "devices: mp_22"),
    ],
)
def test_the_probe(tmp_path: Path, with_sdk: bool, devices: tuple[str, ...], usable: bool, said: str) -> None:
    pci(tmp_path, *devices)
    if with_sdk:
        sdk(tmp_path / "usr/local/musa")
    probe = look_for(FOLDER, {}, tmp_path)
    assert (probe.usable, probe.sdk) == (usable, "5.2.0" if with_sdk else None)
    assert said in probe.reason


def test_a_device_node_shows_a_device(tmp_path: Path) -> None:
    (tmp_path / "dev").mkdir()
    (tmp_path / "dev" / "mxcd").touch()
    root = tmp_path / "opt/maca"
    for name in ("include/mcr/mc_runtime_api.h", "lib/libmcruntime.so"):
        (root / name).parent.mkdir(parents=True)
        (root / name).touch()
    (root / "Version.txt").write_text("MACA:3.5.3.20\n", encoding="utf-8")
    probe = look_for(package_file("backends", "maca"), {}, tmp_path)
    assert (probe.usable, probe.sdk, probe.archs) == (True, "3.5.3", ())


def test_the_kernels_topology_tells_archs_in_order(tmp_path: Path) -> None:
    for node, version in enumerate((0, 90402, 90010, 90402)):
        file = tmp_path / f"sys/class/kfd/kfd/topology/nodes/{node}/properties"
        file.parent.mkdir(parents=True)
        file.write_text(f"simd_count 8\ngfx_target_version {version}\n", encoding="utf-8")
    assert device_archs(load_record(package_file("backends", "hip")), tmp_path) == ("gfx942", "gfx90a")


def test_vendors_are_looked_for_in_the_order_in_which_their_macros_leak() -> None:
    ranks = {
        v: load_record(package_file("backends", v)).detection.rank for v in ("maca", "musa", "hip", "cuda", "host")
    }
    assert sorted(ranks, key=ranks.__getitem__) == ["maca", "musa", "hip", "cuda", "host"]


# ---- what a version changes


def test_a_record_is_as_its_sdk() -> None:
    hip = load_record(package_file("backends", "hip"))
    old, new = at_sdk(hip, "5.2.3"), at_sdk(hip, "7.0")
    assert new is hip
    assert old.host_api.symbols("GetDeviceProperties") == ("hipGetDeviceProperties",)
    assert hip.host_api.symbols("GetDeviceProperties")[0] == "hipGetDevicePropertiesR0600"
    assert dict(old.constants["MemoryType"].values) == {"Host": 0, "Device": 1}
    assert hip.constants["MemoryType"].values["Host"] == 1
    assert (old.capabilities["memory.export_dmabuf"], hip.capabilities["memory.export_dmabuf"]) == (False, True)
    assert "dmabuf.from_7" in at_sdk(hip, "6.3").applied
    assert at_sdk(hip, None) is hip


def test_a_quirk_may_change_archs_numbers_and_lowerings(musa: Record) -> None:
    from tutti_hal.record import Lowering

    changes = {
        "capabilities": {"debug.print": False, "peer.access": False},
        "absent": {"ModuleLoad": "gone"},
        "errors": {"InvalidValue": 11},
        "attributes": {"WarpSize": 12},
        "primitives": {"time.pause": Lowering("pause();", {}, {}, None)},
    }
    quirk = replace(musa.quirks[0], sdk="<2", changes=changes)
    changed = at_sdk(replace(musa, quirks=(quirk,)), "1.0")
    assert [arch.capabilities["debug.print"] for arch in changed.archs.values()] == [False, False, False]
    assert changed.capabilities["peer.access"] is False
    assert changed.host_api.symbols("ModuleLoad") == ()
    assert (changed.errors.values["InvalidValue"], changed.attributes.values["WarpSize"]) == (11, 12)
    assert changed.primitives["time.pause"].body == "pause();"
    assert changed.applied == (quirk.id,)

"""A machine's description and the command line, initrd and messages made of it."""

from __future__ import annotations

import gzip
import struct
from pathlib import Path

import pytest
from rig import accelerator, initrd, kmod, protocol, qemu
from rig.errors import RigError


def words(machine: qemu.Machine, tmp_path: Path) -> str:
    files = qemu.Files(tmp_path)
    return " ".join(qemu.arguments(machine, files, Path("/k"), Path("/i"), qemu.Accelerator.TCG))


def test_a_plain_machine_has_one_drive_without_shadow_doorbells_as_a_snapshot(tmp_path: Path) -> None:
    text = words(qemu.Machine(), tmp_path)
    assert text.count("-device nvme,") == 1
    assert "dbcs=off" in text
    assert text.count("snapshot=on") == 1
    assert "readonly=on" in text
    assert "intel-iommu" not in text


def test_the_iommu_stands_before_every_other_device(tmp_path: Path) -> None:
    text = words(qemu.Machine(iommu=qemu.Iommu.TRANSLATE), tmp_path)
    assert text.index("intel-iommu") == text.index("-device ") + len("-device ")
    assert "intel_iommu=on" in text
    assert "iommu=pt" not in text
    assert "iommu=pt" in words(qemu.Machine(iommu=qemu.Iommu.PASSTHROUGH), tmp_path)


def test_namespaces_and_limits_of_a_drive_are_passed_on(tmp_path: Path) -> None:
    drive = qemu.Drive((qemu.Namespace(16, 4096), qemu.Namespace(8)), queues=3, mdts=2, entries=17)
    text = words(qemu.Machine(drives=(drive, qemu.Drive())), tmp_path)
    assert "max_ioqpairs=3,mdts=2" in text
    assert "mqes=16" in text
    assert "nsid=2,logical_block_size=512" in text
    assert "nsid=1,logical_block_size=4096" in text
    assert "id=nvme1,bus=port1" in text


def test_images_hold_stamps_that_tell_places_apart(tmp_path: Path) -> None:
    machine = qemu.Machine(drives=(qemu.Drive((qemu.Namespace(2), qemu.Namespace(3))),))
    files = qemu.Files(tmp_path / "run")
    qemu.make_images(machine, files)
    seen = set()
    for place, mib in ((0, 0), (0, 1), (1, 0), (1, 2)):
        data = files.image(0, place).read_bytes()
        found = data[mib << 20 : (mib << 20) + 64]
        assert found == qemu.stamp(0, place, mib)
        seen.add(found)
    assert len(seen) == 4
    assert files.image(0, 1).stat().st_size == 3 << 20


def test_machines_that_are_equal_share_a_boot_and_labels_say_what_differs() -> None:
    assert hash(qemu.Machine()) == hash(qemu.Machine())
    assert qemu.Machine().label() == "plain"
    machine = qemu.Machine((qemu.Drive((qemu.Namespace(8, 4096),), queues=2),), iommu=qemu.Iommu.TRANSLATE)
    assert machine.label() == "iommu translate, 4096 B blocks, 2 queues"


def test_an_accelerator_is_asked_for_by_name() -> None:
    assert accelerator.wanted("tcg") is qemu.Accelerator.TCG
    assert accelerator.wanted(None) is None
    with pytest.raises(RigError, match="set it to kvm or tcg"):
        accelerator.wanted("xen")


def test_a_device_that_is_absent_does_not_open(tmp_path: Path) -> None:
    assert not accelerator.opens(tmp_path / "kvm")


def test_a_probe_that_writes_nothing_does_not_boot(tmp_path: Path) -> None:
    console = tmp_path / "console"
    assert not accelerator.boots(["sleep", "9"], console, 0.3)
    assert not accelerator.boots(["true"], console, 5.0)
    assert accelerator.boots(["sh", "-c", f"echo up > {console}; exec sleep 9"], console, 5.0)


def elf(modinfo: bytes) -> bytes:
    """A 64-bit ELF file with a .modinfo section and the table of names, and nothing else."""
    names = b"\0.modinfo\0.shstrtab\0"
    start = 64
    table = start + len(modinfo) + len(names)
    head = (
        b"\x7fELF\x02\x01\x01" + bytes(9) + struct.pack("<HHIQQQIHHHHHH", 1, 62, 1, 0, 0, table, 0, 64, 0, 0, 64, 3, 2)
    )
    row = struct.Struct("<IIQQQQIIQQ")
    rows = row.pack(*[0] * 10) + row.pack(1, 1, 0, 0, start, len(modinfo), 0, 0, 1, 0)
    rows += row.pack(10, 3, 0, 0, start + len(modinfo), len(names), 0, 0, 1, 0)
    return head + modinfo + names + rows


def module(folder: Path, name: str, *depends: str) -> None:
    path = folder / "kernel" / f"{name}.ko"
    path.parent.mkdir(exist_ok=True)
    path.write_bytes(elf(f"license=GPL\0depends={','.join(depends)}\0".encode()))


def test_modules_come_after_what_they_depend_on_and_once(tmp_path: Path) -> None:
    module(tmp_path, "nvme-core")
    module(tmp_path, "nvme", "nvme-core", "built")
    module(tmp_path, "other", "nvme")
    (tmp_path / "modules.builtin").write_text("kernel/lib/built.ko\n")
    modules = kmod.Modules.of(tmp_path)
    assert [name for name, _ in modules.order(["other", "nvme"], ["absent"])] == ["nvme_core", "nvme", "other"]
    with pytest.raises(RigError, match="none of that name"):
        modules.order(["absent"])


def test_what_is_no_elf_file_is_refused() -> None:
    with pytest.raises(ValueError, match="ELF"):
        kmod.modinfo(b"#!/bin/sh\n")


def test_an_initrd_is_a_cpio_archive_that_ends(tmp_path: Path) -> None:
    data = initrd.archive([("init", 0o755, b"#!x\n")], folders=("dev",))
    assert data.startswith(b"070701")
    assert data.count(b"070701") == 3
    assert b"TRAILER!!!\0" in data
    assert len(data) % 4 == 0
    size = int(data[data.index(b"init\0") - 110 + 54 : data.index(b"init\0") - 110 + 62], 16)
    assert size == 4
    for name in (*initrd.WANTED, *initrd.OPTIONAL):
        module(tmp_path, name)
    (tmp_path / "busybox").write_bytes(b"bb")
    target = initrd.build(
        tmp_path / "out" / "initrd", tmp_path / "busybox", kmod.Modules.of(tmp_path), ("/py", "-m", "a"), ("A=b",)
    )
    whole = gzip.decompress(target.read_bytes())
    assert b"A=b chroot /new /py -m a" in whole
    assert b"modules/nvme.ko\0" in whole


def test_messages_are_cut_from_any_pieces_of_a_stream() -> None:
    data = protocol.encode({"say": "a\nb"}) + protocol.encode({"end": "pass"})
    lines = protocol.Lines()
    found = [message for at in range(len(data)) for message in lines.feed(data[at : at + 1])]
    assert found == [{"say": "a\nb"}, {"end": "pass"}]


@pytest.mark.parametrize("line", [b"[1]\n", b"nonsense\n", b"x" * (protocol.LIMIT + 1)])
def test_a_stream_that_is_no_message_is_refused(line: bytes) -> None:
    with pytest.raises(ValueError, match=r"."):
        protocol.Lines().feed(line)

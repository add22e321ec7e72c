"""Namespaces over files and block devices."""

from __future__ import annotations

import os
import shutil
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from host import pattern, running

from tutti_hal import errors
from tutti_hal.conformance_tests.oracle.nvme import (
    CAPACITY,
    COMPARE_FAILURE,
    OK,
    PAGE,
    UNRECOVERED_READ,
    WRITE_PROTECTED,
    rw,
    sqe,
)
from tutti_hal.nvme.software import (
    ControllerConfig,
    Direct,
    FileNamespace,
    MemoryNamespace,
    SoftwareController,
    VolatileCache,
)

READ, WRITE, COMPARE, ZEROES, DSM, VERIFY = 2, 1, 5, 8, 9, 0x0C
MIB = 1 << 20


def direct_works(folder: Path) -> bool:
    """Whether a file there can be opened with O_DIRECT and says so: found without the code under test."""
    probe = folder / "probe"
    probe.write_bytes(bytes(8192))
    try:
        fd = os.open(probe, os.O_RDONLY | os.O_DIRECT)
    except OSError:
        return False
    os.close(fd)
    kind = subprocess.run(["stat", "-f", "-c", "%T", folder], check=True, capture_output=True, text=True).stdout.strip()
    return kind not in ("tmpfs", "ramfs", "overlayfs")


@pytest.fixture
def disk(tmp_path: Path) -> Path:
    if not direct_works(tmp_path):
        pytest.skip(f"no direct I/O in {tmp_path}")
    return tmp_path


def make(path: Path, nbytes: int, data: bytes = b"") -> Path:
    path.write_bytes(data)
    os.truncate(path, nbytes)
    return path


def one(path: Path, **changes: object) -> ControllerConfig:
    fields = {"nsid": 1, "path": path, **changes}
    return ControllerConfig(namespaces=[FileNamespace(**fields)], mdts=0)  # type: ignore[arg-type]


@pytest.mark.parametrize("direct", [Direct.REQUIRED, Direct.OFF])
@pytest.mark.parametrize("threads", [1, 2])
def test_every_command_on_a_file(disk: Path, direct: Direct, threads: int) -> None:
    data = pattern(4 * MIB, 1)
    path = make(disk / "ns", 4 * MIB, data)
    with running(one(path, direct=direct), threads=threads) as host:
        info = host.drive.namespace_info(1)
        assert info.direct == (direct is Direct.REQUIRED)
        assert info.blocks == 1024
        memory = host.allocate(MIB, contiguous=True)
        bus = memory.bus(0)

        def io(opcode: int, lba: int, blocks: int, offset: int = 0) -> tuple[int, int]:
            sgl = (bus + offset).to_bytes(8, "little") + (blocks * PAGE).to_bytes(4, "little") + bytes(4)
            return host.io(rw(opcode, lba, blocks, psdt=1, sgl=sgl)).status

        assert io(READ, 0, 200) == OK
        assert memory.get(0, 200 * PAGE) == data[: 200 * PAGE]
        assert io(READ, 1000, 24, 1) == OK  # at an address that direct I/O cannot take
        assert memory.get(1, 24 * PAGE) == data[1000 * PAGE :]
        fresh = pattern(100 * PAGE, 2)
        memory.put(3, fresh)
        assert io(WRITE, 7, 100, 3) == OK
        assert io(COMPARE, 7, 100, 3) == OK
        memory.view[3 + 99 * PAGE] ^= 1
        assert io(COMPARE, 7, 100, 3) == COMPARE_FAILURE
        assert host.io(rw(ZEROES, 300, 50)).status == OK
        memory.put(0, (0).to_bytes(4, "little") + (60).to_bytes(4, "little") + (400).to_bytes(8, "little"))
        assert host.io(sqe(DSM, nsid=1, prp1=bus, dwords={10: 0, 11: 4})).status == OK
        assert host.io(rw(VERIFY, 0, 1024)).status == OK
        assert host.io(sqe(0, nsid=1)).status == OK
        assert host.io(sqe(0, nsid=0xFFFFFFFF)).status == OK
        wanted = bytearray(data)
        wanted[7 * PAGE : 107 * PAGE] = fresh
        wanted[300 * PAGE : 350 * PAGE] = bytes(50 * PAGE)
        wanted[400 * PAGE : 460 * PAGE] = bytes(60 * PAGE)
        assert path.read_bytes() == wanted
        assert host.drive.read_stored(1, 7 * PAGE, PAGE) == fresh[:PAGE]
        assert info.allocated_bytes >= host.drive.namespace_info(1).allocated_bytes


def test_metadata_in_a_file(disk: Path) -> None:
    path = make(disk / "ns", MIB)
    config = one(path, blocks=128, metadata_bytes=64, metadata_inline=True)
    with running(config) as host:
        memory = host.allocate(16 * PAGE, contiguous=True)
        data = pattern(10 * (PAGE + 64), 3)
        memory.put(0, data)
        sgl = memory.bus(0).to_bytes(8, "little") + len(data).to_bytes(4, "little") + bytes(4)
        assert host.io(rw(WRITE, 5, 10, psdt=1, sgl=sgl)).status == OK
        memory.put(0, bytes(len(data)))
        assert host.io(rw(READ, 5, 10, psdt=1, sgl=sgl)).status == OK
        assert memory.get(0, len(data)) == data
    raw = path.read_bytes()
    each = PAGE + 64
    for i in range(10):
        assert raw[(5 + i) * PAGE : (6 + i) * PAGE] == data[i * each : i * each + PAGE]
        at = 128 * PAGE + (5 + i) * 64
        assert raw[at : at + 64] == data[i * each + PAGE : (i + 1) * each]


def test_power_cut_on_a_file(disk: Path) -> None:
    path = make(disk / "ns", MIB, b"\x11" * MIB)
    config = one(path).but(volatile_cache=VolatileCache.MODELLED)
    with running(config) as host:
        memory = host.allocate(PAGE)
        memory.put(0, b"\x22" * PAGE)
        assert host.io(rw(WRITE, 0, 1, prp1=memory.bus(0))).status == OK
        assert host.io(sqe(0, nsid=1)).status == OK
        assert host.io(rw(WRITE, 1, 1, prp1=memory.bus(0))).status == OK
        assert host.io(rw(WRITE, 2, 1, flags=1 << 30, prp1=memory.bus(0))).status == OK
        assert path.read_bytes()[PAGE : PAGE + 1] == b"\x22"
        host.drive.power_cut()
        assert [path.read_bytes()[i * PAGE] for i in range(4)] == [0x22, 0x11, 0x22, 0x11]


# ---- what cannot serve ----


def refused(config: ControllerConfig) -> errors.TuttiError:
    with pytest.raises(errors.SoftwareControllerError) as caught:
        SoftwareController(config)
    return caught.value


def test_files_that_cannot_serve(disk: Path) -> None:
    uneven = make(disk / "uneven", MIB + 512)
    short = make(disk / "short", MIB)
    empty = make(disk / "empty", 0)
    cases: list[tuple[ControllerConfig, type[errors.TuttiError], str]] = [
        (one(disk / "absent"), errors.NamespaceFileMissing, "No such file"),
        (one(uneven), errors.NamespaceFileUneven, "not a multiple of 4096"),
        (one(uneven, blocks=256), errors.NamespaceFileUneven, "not a multiple of 4096"),
        (one(short, blocks=257), errors.NamespaceFileShort, "declared are 1052672"),
        (one(short, blocks=2**60), errors.NamespaceFileShort, "more than a file holds"),
        (one(short, blocks=256, metadata_bytes=8), errors.NamespaceFileShort, "declared are"),
        (one(empty), errors.NamespaceFileShort, "empty"),
        (one(disk), errors.NamespaceFileKind, "directory"),
        (one(disk, read_only=True), errors.NamespaceFileKind, "neither"),
        (one(Path("/dev/null"), direct=Direct.OFF), errors.NamespaceFileKind, "neither"),
        (one(short, metadata_bytes=8), errors.ControllerConfigInvalid, "number of blocks"),
        (one(short, lba_shift=8), errors.ControllerConfigInvalid, "lba_shift is 8, and must be 9 to 16"),
        (one(short, nsid=0), errors.ControllerConfigInvalid, "nsid"),
        (one(short, nsid=-1), errors.ControllerConfigInvalid, ""),
        (one(Path()), errors.NamespaceFileKind, "directory"),
    ]
    for config, kind, text in cases:
        error = refused(config)
        assert type(error) is kind, (config, error)
        assert text in error.found
        assert error.fix


def test_a_file_that_cannot_be_written(disk: Path) -> None:
    path = make(disk / "ns", MIB, b"\x66" * MIB)
    if os.geteuid() == 0:
        # Root may write whatever the mode says; a program that runs may be written by nobody.
        program = disk / "program"
        shutil.copy("/bin/sleep", program)
        os.truncate(program, (program.stat().st_size + PAGE - 1) // PAGE * PAGE)
        process = subprocess.Popen([program, "60"])
        try:
            error = refused(one(program))
        finally:
            process.kill()
            process.wait()
    else:
        path.chmod(0o444)
        error = refused(one(path))
    assert type(error) is errors.NamespaceFileReadOnly
    path.chmod(0o444)
    with running(one(path, read_only=True)) as host:
        memory = host.allocate(PAGE)
        assert host.io(rw(READ, 0, 1, prp1=memory.bus(0))).status == OK
        assert memory.get(0, PAGE) == b"\x66" * PAGE
        assert host.io(rw(WRITE, 0, 1, prp1=memory.bus(0))).status == WRITE_PROTECTED


def test_tmpfs_does_no_direct_io() -> None:
    folder = Path("/dev/shm")
    if not folder.is_dir() or not os.access(folder, os.W_OK):
        pytest.skip("no /dev/shm to write to")
    path = folder / f"tutti-test-{os.getpid()}"
    try:
        make(path, MIB, b"\x10" * MIB)
        error = refused(one(path))
        assert type(error) is errors.NamespaceFileNotDirect
        for direct in (Direct.PREFERRED, Direct.OFF):
            with running(one(path, direct=direct)) as host:
                assert not host.drive.namespace_info(1).direct  # and says so
                memory = host.allocate(PAGE)
                assert host.io(rw(READ, 255, 1, prp1=memory.bus(0))).status == OK
                assert memory.get(0, PAGE) == b"\x10" * PAGE
    finally:
        path.unlink(missing_ok=True)


def test_a_file_that_shrinks_gives_read_errors(disk: Path) -> None:
    path = make(disk / "ns", MIB)
    with running(one(path)) as host:
        memory = host.allocate(PAGE)
        os.truncate(path, MIB // 2)
        assert host.io(rw(READ, 0, 1, prp1=memory.bus(0))).status == OK
        assert host.io(rw(READ, 255, 1, prp1=memory.bus(0))).status == UNRECOVERED_READ


# ---- with the help of root ----


def as_root(command: list[str]) -> str:
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        pytest.skip(f"{' '.join(command[:2])}: {done.stderr.strip()[:120]}")
    return done.stdout.strip()


@contextmanager
def loop_device(image: Path) -> Iterator[Path]:
    if os.geteuid() != 0:
        pytest.skip("loop devices need root")
    device = Path(as_root(["losetup", "--find", "--show", str(image)]))
    try:
        yield device
    finally:
        subprocess.run(["losetup", "--detach", str(device)], check=True)


def test_a_block_device(disk: Path) -> None:
    image = make(disk / "image", 4 * MIB)
    with loop_device(image) as device, running(one(device)) as host:
        info = host.drive.namespace_info(1)
        assert info.block_device
        assert info.blocks == 1024
        memory = host.allocate(PAGE)
        memory.put(0, b"\x5a" * PAGE)
        assert host.io(rw(WRITE, 1023, 1, prp1=memory.bus(0))).status == OK
        assert host.io(sqe(0, nsid=1)).status == OK
        assert host.io(rw(ZEROES, 0, 4)).status == OK
        assert image.read_bytes()[-PAGE:] == b"\x5a" * PAGE


def test_a_full_disk_is_a_status(disk: Path) -> None:
    image = make(disk / "image", 8 * MIB)
    if shutil.which("mkfs.ext4") is None:
        pytest.skip("no mkfs.ext4")
    subprocess.run(["mkfs.ext4", "-q", "-O", "^has_journal", str(image)], check=True)
    with loop_device(image) as device:
        mount = disk / "mount"
        mount.mkdir()
        as_root(["mount", str(device), str(mount)])
        try:
            path = make(mount / "ns", 64 * MIB)  # sparse: far more than there is room for
            statuses = []
            with running(one(path)) as host:
                assert host.identify(0, 1)[1][24] & 1 == 1  # NSFEAT: thin provisioning
                memory = host.allocate(MIB, contiguous=True)
                sgl = memory.bus(0).to_bytes(8, "little") + MIB.to_bytes(4, "little") + bytes(4)
                for lba in range(0, 16384, 256):
                    statuses.append(host.io(rw(WRITE, lba, 256, psdt=1, sgl=sgl)).status)
                    if statuses[-1] != OK:
                        break
                assert statuses[0] == OK
                assert statuses[-1] == CAPACITY
                assert host.io(rw(READ, 0, 256, psdt=1, sgl=sgl)).status == OK
                deallocate = (0).to_bytes(4, "little") + (512).to_bytes(4, "little") + (0).to_bytes(8, "little")
                memory.put(0, deallocate)
                assert host.io(sqe(DSM, nsid=1, prp1=memory.bus(0), dwords={10: 0, 11: 4})).status == OK
                assert host.io(rw(WRITE, 8192, 128, psdt=1, sgl=sgl)).status == OK  # there is room again
        finally:
            subprocess.run(["umount", str(mount)], check=True)


def test_a_slow_file_does_not_hold_up_memory(disk: Path) -> None:
    """A FIFO as slow as one likes is no namespace; a file whose page cache is being synced comes near enough."""
    path = make(disk / "ns", 64 * MIB)
    namespaces = [FileNamespace(nsid=1, path=path), MemoryNamespace(nsid=2, blocks=64)]
    config = ControllerConfig(namespaces=namespaces, mdts=0, io_queues=2)
    with running(config, queues=2) as host:
        big = host.allocate(16 * MIB, contiguous=True)
        small = host.allocate(PAGE)
        sgl = big.bus(0).to_bytes(8, "little") + (16 * MIB).to_bytes(4, "little") + bytes(4)
        host.send(1, [rw(WRITE, 4096 * i, 4096, psdt=1, sgl=sgl, flags=1 << 30) for i in range(4)])
        before, waits = 0, []
        while before < 30:
            start = time.monotonic()
            assert host.run(2, rw(READ, 0, 1, nsid=2, prp1=small.bus(0))).status == OK
            waits.append(time.monotonic() - start)
            before += 1
        early = host.poll(1)
        assert len(early) < 4, "the file was not slow enough to tell"
        assert [c.status for c in early + host.collect(1, 4 - len(early))] == [OK] * 4

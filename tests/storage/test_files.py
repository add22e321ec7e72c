"""Files on a real ext4, by their extents, through a drive that has the image of the file system."""

from __future__ import annotations

import ctypes
import fcntl
import os
import struct
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import pytest
from mounts import Mount, mounted
from storage_rig import MIB, Rig, noise

from tutti_hal.errors import (
    DeviceUnserved,
    ExtentRefused,
    FilesystemRefused,
    HandleInvalid,
    StoreClosed,
    StoreDeviceError,
    StripeInvalid,
    TargetDenied,
    TargetKindWrong,
    TargetMissing,
    TargetSizeWrong,
)
from tutti_hal.storage import (
    Operation,
    Reason,
    SoftwareDrive,
    Status,
    make_requests,
    path_uri,
    prepare_file,
)
from tutti_hal.storage.open_files import OpenFiles, Stage, read_extents
from tutti_hal.store import FileDevice, FormatOptions, Store, StoreOptions

pytestmark = pytest.mark.storage


@pytest.fixture(scope="module")
def mount(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Mount]:
    with mounted(tmp_path_factory.mktemp("fs"), 96 * MIB) as one:
        yield one


@pytest.fixture(scope="module")
def rig(mount: Mount) -> Iterator[Rig]:
    with Rig(SoftwareDrive(name="d0", path=mount.image)) as one:
        yield one


def punch(fd: int, offset: int, nbytes: int) -> None:
    """FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE."""
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.fallocate(fd, 3, ctypes.c_int64(offset), ctypes.c_int64(nbytes)):
        raise OSError(ctypes.get_errno(), "fallocate")


def scattered(folder: Path, name: str, blocks: int) -> Path:
    """A file with an extent for every block, on a file system that has no other blocks left."""
    with (folder / "comb").open("wb") as comb:
        os.posix_fallocate(comb.fileno(), 0, 2 * blocks * 4096)
        with (folder / "rest").open("wb") as rest:
            free = os.statvfs(folder)
            # What is left is reserved, and for the records of the extents.
            os.posix_fallocate(rest.fileno(), 0, free.f_bfree * free.f_bsize - 3 * MIB // 2)
        for at in range(blocks):
            punch(comb.fileno(), (2 * at + 1) * 4096, 4096)
        os.fsync(comb.fileno())
    path = folder / name
    with path.open("wb") as file:
        file.write(bytes(blocks * 4096))
        os.fsync(file.fileno())
    return path


def told_one_by_one(fd: int, size: int) -> list[tuple[int, int, int, int]]:
    """The oracle: (logical, physical, length, flags) of a file's extents, each by a FIEMAP call of its own."""
    found, start = [], 0
    while start < size:
        buffer = bytearray(struct.pack("=QQLLLL", start, size - start, 1, 0, 1, 0) + bytes(56))
        fcntl.ioctl(fd, 0xC020660B, buffer)
        if not struct.unpack_from("=L", buffer, 20)[0]:
            break
        logical, physical, length = struct.unpack_from("=QQQ", buffer, 32)
        found.append((logical, physical, length, struct.unpack_from("=L", buffer, 72)[0]))
        start = logical + length
    return found


@pytest.mark.parametrize("seed", range(4))
def test_extents_are_what_the_kernel_tells_one_by_one(mount: Mount, seed: int) -> None:
    """Files of random holes, preallocated and written parts, grown in turns; opened by one call."""
    random = np.random.default_rng(seed)
    folder = mount.folder / f"random{seed}"
    folder.mkdir()
    paths = [folder / f"{number}.bin" for number in range(100)]
    for _ in range(6):
        for path in paths:
            with path.open("ab") as file:
                at = int(random.integers(0, 24)) * 4096
                match random.integers(0, 4):
                    case 0:
                        os.posix_fallocate(file.fileno(), at, 8192)
                    case 1:
                        os.truncate(path, at)
                    case 2:
                        punch(file.fileno(), at, 4096)
                    case _:
                        file.write(bytes(int(random.integers(1, 5)) * 4096))
    with OpenFiles() as files:
        files.open([str(path) for path in paths], [True] * len(paths), [])
        assert (files.rows["stage"] == Stage.READY).all()
        again, told_again = read_extents(files.rows["fd"].tolist(), files.rows["size"].tolist(), sync=False)
        assert told_again.tobytes() == files.extents.tobytes()
        assert (again["extents"] == files.rows["extents"]).all()
        most = 0
        for path, row in zip(paths, files.rows, strict=True):
            assert row["size"] == path.stat().st_size
            first = int(row["first_extent"])
            mine = files.extents[first : first + int(row["extents"])]
            names = ("logical", "physical", "length", "flags")
            found = list(zip(*(mine[name].tolist() for name in names), strict=True))
            assert found == told_one_by_one(int(row["fd"]), int(row["size"]))
            most = max(most, len(found))
    assert most > 2


def test_what_fails_leaves_no_file_open(rig: Rig, mount: Mount) -> None:
    """Refused at every stage, and a set whose last member is refused: no descriptor is left."""
    folder = mount.folder
    prepare_file(folder / "good.bin", 8192)
    (folder / "holed.bin").write_bytes(b"")
    os.truncate(folder / "holed.bin", 8192)
    good, holed = (str(folder / name) for name in ("good.bin", "holed.bin"))
    before = len(list(Path("/proc/self/fd").iterdir()))
    outcome = rig.runtime.open_batch(
        [path_uri(holed), path_uri(f"{good}x"), f"striped://{good},{holed}?unit=4096", f"striped://{good},{good}"]
    )
    assert [type(error) for error in outcome.errors] == [ExtentRefused, TargetMissing, ExtentRefused, StripeInvalid]
    assert len(list(Path("/proc/self/fd").iterdir())) == before
    targets = rig.runtime.open_batch([path_uri(good)] * 3).handles
    assert len(list(Path("/proc/self/fd").iterdir())) == before + 3
    rig.runtime.close_batch(targets)
    assert len(list(Path("/proc/self/fd").iterdir())) == before


def test_a_batch_closes_each_handle_once(rig: Rig) -> None:
    first, second = rig.runtime.open_batch(["raw://d0", "raw://d0"]).handles
    outcome = rig.runtime.close_batch([first, 7, first, second])
    assert [type(error) for error in outcome] == [type(None), HandleInvalid, HandleInvalid, type(None)]
    assert rig.runtime.close_batch([]) == ()


def test_a_files_bytes_are_where_its_extents_say(rig: Rig, mount: Mount) -> None:
    """Written by the drive, read by the file system; and the other way round."""
    path = mount.folder / "a.bin"
    prepare_file(path, 4 * MIB)
    target = rig.runtime.open(path_uri(str(path)))
    assert rig.runtime.target(target).size == 4 * MIB
    memory = rig.runtime.allocate(4 * MIB)
    source = noise(4 * MIB, 3)
    memory.numpy()[:] = source
    done = rig.runtime.submit_all(make_requests(Operation.WRITE, target, nbytes=4 * MIB, memory=memory.handle))
    assert done["status"].tolist() == [Status.OK]
    memory.numpy()[:] = 0
    done = rig.runtime.submit_all(make_requests(Operation.READ, target, nbytes=4 * MIB, memory=memory.handle))
    assert done["status"].tolist() == [Status.OK]
    assert (memory.numpy() == source).all()
    rig.runtime.close(target)
    mount.drop_cache()
    assert path.read_bytes() == source.tobytes()
    rig.runtime.unregister(memory)


def test_more_extents_than_one_call_tells(tmp_path: Path) -> None:
    """Near 1,800 extents: above the 1,364 after which others lost theirs."""
    count = 2000
    with mounted(tmp_path, 32 * MIB) as mount, Rig(SoftwareDrive(name="d0", path=mount.image)) as rig:
        path = scattered(mount.folder, "many.bin", count)
        target = rig.runtime.open(path_uri(str(path)))
        assert rig.runtime.target(target).extents > 1364
        memory = rig.runtime.allocate(count * 4096)
        source = noise(count * 4096, 4)
        memory.numpy()[:] = source
        done = rig.runtime.submit_all(make_requests(Operation.WRITE, target, nbytes=count * 4096, memory=memory.handle))
        assert done["status"].tolist() == [Status.OK]
        assert done["commands"][0] > 1364
        rig.runtime.close(target)
        mount.drop_cache()
        assert path.read_bytes() == source.tobytes()


def test_a_partition_like_offset_is_added(tmp_path: Path) -> None:
    """The loop device begins 8 MiB into the image, as a partition would."""
    with mounted(tmp_path, 32 * MIB, offset=8 * MIB) as mount, Rig(SoftwareDrive(name="d0", path=mount.image)) as rig:
        path = mount.folder / "a.bin"
        prepare_file(path, MIB)
        target = rig.runtime.open(path_uri(str(path)))
        memory = rig.runtime.allocate(MIB)
        memory.numpy()[:] = source = noise(MIB, 5)
        rig.runtime.submit_all(make_requests(Operation.WRITE, target, nbytes=MIB, memory=memory.handle))
        rig.runtime.close(target)
        mount.drop_cache()
        assert path.read_bytes() == source.tobytes()


def refused_write(rig: Rig, target: int) -> tuple[int, int]:
    memory = rig.runtime.allocate(4096)
    said = rig.runtime.submit(make_requests(Operation.WRITE, target, nbytes=4096, memory=memory.handle))
    rig.runtime.unregister(memory)
    assert said.io is None
    return int(said.initial["status"][0]), int(said.initial["reason"][0])


def test_a_truncated_file_is_refused_before_use(rig: Rig, mount: Mount) -> None:
    path = mount.folder / "cut.bin"
    prepare_file(path, MIB)
    target = rig.runtime.open(path_uri(str(path)))
    os.truncate(path, 4096)
    assert refused_write(rig, target) == (Status.STALE, Reason.TARGET_MOVED)
    # Growing again does not bring the old places back.
    os.truncate(path, MIB)
    assert refused_write(rig, target) == (Status.STALE, Reason.TARGET_MOVED)
    rig.runtime.close(target)


def test_a_defragmented_file_is_refused_before_use(rig: Rig, mount: Mount) -> None:
    """EXT4_IOC_MOVE_EXT, by which e4defrag works: the kernel moves the blocks and changes no time of the file."""
    path, donor = mount.folder / "moved.bin", mount.folder / "donor.bin"
    prepare_file(path, MIB)
    prepare_file(donor, MIB)
    target = rig.runtime.open(path_uri(str(path)))
    before = path.stat()
    with path.open("r+b") as mine, donor.open("r+b") as theirs:
        move = bytearray(struct.pack("=LLQQQQ", 0, theirs.fileno(), 0, 0, MIB // 4096, 0))
        try:
            fcntl.ioctl(mine, 3 << 30 | 40 << 16 | ord("f") << 8 | 15, move)
        except OSError as error:
            pytest.skip(f"EXT4_IOC_MOVE_EXT: {error}")
    after = path.stat()
    assert (before.st_ctime_ns, before.st_mtime_ns) == (after.st_ctime_ns, after.st_mtime_ns)
    assert refused_write(rig, target) == (Status.STALE, Reason.TARGET_MOVED)
    rig.runtime.close(target)


def test_a_file_that_grows_or_is_deleted_stays_where_it_is(rig: Rig, mount: Mount) -> None:
    path = mount.folder / "grown.bin"
    prepare_file(path, MIB)
    target = rig.runtime.open(path_uri(str(path)))
    with path.open("ab") as file:
        file.write(bytes(MIB))
        os.fsync(file.fileno())
    path.unlink()
    memory = rig.runtime.allocate(4096)
    done = rig.runtime.submit_all(make_requests(Operation.WRITE, target, nbytes=4096, memory=memory.handle))
    assert done["status"].tolist() == [Status.OK]
    rig.runtime.unregister(memory)
    rig.runtime.close(target)


def test_a_file_that_is_renamed_or_replaced_is_the_one_that_was_opened(rig: Rig, mount: Mount) -> None:
    path, other = mount.folder / "named.bin", mount.folder / "renamed.bin"
    prepare_file(path, MIB)
    target = rig.runtime.open(path_uri(str(path)))
    path.rename(other)
    prepare_file(path, MIB)
    memory = rig.runtime.allocate(4096)
    memory.numpy()[:] = source = noise(4096, 9)
    done = rig.runtime.submit_all(make_requests(Operation.WRITE, target, nbytes=4096, memory=memory.handle))
    assert done["status"].tolist() == [Status.OK]
    rig.runtime.unregister(memory)
    rig.runtime.close(target)
    mount.drop_cache()
    assert other.read_bytes() == source.tobytes() + bytes(MIB - 4096)
    assert path.read_bytes() == bytes(MIB)


def test_what_has_no_place_of_its_own_is_refused(rig: Rig, mount: Mount) -> None:
    folder = mount.folder
    (folder / "sparse").write_bytes(b"")
    os.truncate(folder / "sparse", MIB)
    with (folder / "hole").open("wb") as file:
        file.write(bytes(4096))
        file.seek(64 * 4096)
        file.write(bytes(4096))
    with (folder / "unwritten").open("wb") as file:
        os.posix_fallocate(file.fileno(), 0, MIB)
    (folder / "empty").write_bytes(b"")
    (folder / "uneven").write_bytes(bytes(5000))
    os.mkfifo(folder / "pipe")
    expected = [
        ("sparse", ExtentRefused, "hole"),
        ("hole", ExtentRefused, "hole from byte 4096 to 262144"),
        ("unwritten", ExtentRefused, "FIEMAP_EXTENT_UNWRITTEN"),
        ("empty", TargetSizeWrong, "empty"),
        ("uneven", TargetSizeWrong, "inside a block of 4096"),
        ("pipe", TargetKindWrong, "a pipe"),
        ("", TargetKindWrong, "a directory"),
        ("absent", TargetMissing, "No such file"),
    ]
    outcome = rig.runtime.open_batch([path_uri(str(folder / name)) for name, _, _ in expected])
    for (name, kind, words), error in zip(expected, outcome.errors, strict=True):
        assert type(error) is kind, name
        assert words in str(error)
    assert not outcome.handles.any()


def test_one_bad_item_fails_alone_in_a_large_batch(rig: Rig, mount: Mount) -> None:
    names = [f"batch{number}.bin" for number in range(200)]
    for name in names:
        (mount.folder / name).write_bytes(bytes(8192))
    uris = [path_uri(str(mount.folder / name)) for name in names]
    uris[77] = path_uri(str(mount.folder / "not there"))
    outcome = rig.runtime.open_batch(uris)
    assert outcome.failed == 1
    assert type(outcome.errors[77]) is TargetMissing
    good = outcome.handles[outcome.handles > 0]
    assert len(np.unique(good)) == 199
    memory = rig.runtime.allocate(199 * 4096)
    memory.numpy()[:] = source = noise(199 * 4096, 6)
    done = rig.runtime.submit_all(
        make_requests(
            Operation.WRITE,
            good,
            nbytes=4096,
            target_offset=4096,
            memory=memory.handle,
            memory_offset=np.arange(199) * 4096,
        )
    )
    assert (done["status"] == Status.OK).all()
    assert rig.runtime.close_batch(good) == (None,) * 199
    mount.drop_cache()
    found = b"".join((mount.folder / name).read_bytes()[4096:] for at, name in enumerate(names) if at != 77)
    assert found == source.tobytes()
    rig.runtime.unregister(memory)


def test_a_file_on_a_device_that_no_drive_serves(rig: Rig, tmp_path: Path) -> None:
    path = tmp_path / "elsewhere.bin"
    path.write_bytes(bytes(4096))
    with pytest.raises((DeviceUnserved, FilesystemRefused)):
        rig.runtime.open(path_uri(str(path)))


@pytest.mark.skipif(not Path("/dev/shm").is_dir(), reason="no /dev/shm")
def test_a_file_on_tmpfs_says_why(rig: Rig) -> None:
    path = Path("/dev/shm") / f"tutti-hal-test-{os.getpid()}"
    path.write_bytes(bytes(4096))
    try:
        with pytest.raises(FilesystemRefused, match="tmpfs: the file is memory"):
            rig.runtime.open(path_uri(str(path)))
    finally:
        path.unlink()


def test_journalled_data_are_refused(rig: Rig, mount: Mount) -> None:
    path = mount.folder / "journalled.bin"
    prepare_file(path, MIB)
    with path.open("r+b") as file:
        try:
            fcntl.ioctl(file, 0x40086602, struct.pack("=q", 0x80000 | 0x4000))
        except OSError as error:
            pytest.skip(f"chattr +j: {error}")
    with pytest.raises(FilesystemRefused, match="journal"):
        rig.runtime.open(path_uri(str(path)))


@contextmanager
def unprivileged() -> Iterator[None]:
    """As nobody, where the tests run as root, who may open everything."""
    user = os.geteuid()
    if user == 0:
        os.seteuid(65534)
    try:
        yield
    finally:
        os.seteuid(user)


def test_no_permission(rig: Rig) -> None:
    """Not to the file, not to write it, not to its folder; each fails alone."""
    # Outside the tests' own folder, which nobody else may enter.
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        for one, mode in (("secret.bin", 0o000), ("fixed.bin", 0o444)):
            (folder / one).write_bytes(bytes(4096))
            (folder / one).chmod(mode)
        secret, fixed = (path_uri(str(folder / one)) for one in ("secret.bin", "fixed.bin"))
        for mode, denied in ((0o755, [True, True, False]), (0o000, [True, True, True])):
            folder.chmod(mode)
            with unprivileged():
                outcome = rig.runtime.open_batch([secret, fixed, fixed + "?mode=r"])
            # What may be read lies on no drive of this runtime.
            assert [type(error) is TargetDenied for error in outcome.errors] == denied
            assert outcome.failed == 3
        folder.chmod(0o700)


def test_disk_full_leaves_no_file(mount: Mount) -> None:
    path = mount.folder / "huge.bin"
    with pytest.raises(Exception, match="No space left"):
        prepare_file(path, 1 << 30)
    assert not path.exists()


def test_a_store_whose_file_system_is_full(tmp_path: Path) -> None:
    """Its file is sparse, as ``truncate`` makes it: the store fails by its name, and what it acknowledged stays."""
    with mounted(tmp_path, 16 * MIB) as mount:
        path = mount.folder / "store"
        path.write_bytes(b"")
        os.truncate(path, 64 * MIB)
        with FileDevice(path, block_bytes=4096) as device:
            Store.format(device, FormatOptions(segment_bytes=MIB, objects=1000))
        store = Store.open(FileDevice(path))
        acknowledged: list[int] = []

        def fill() -> None:
            for number in range(64):
                store.put(f"{number}", bytes([number]) * 500_000)
                acknowledged.append(number)

        with pytest.raises(StoreDeviceError, match="No space left") as full:
            fill()
        assert full.value.fix
        assert len(acknowledged) > 8
        with pytest.raises(StoreClosed):
            store.get("0")
        store.close()
        with Store.open(FileDevice(path, read_only=True), StoreOptions(read_only=True)) as found:
            for number in acknowledged:
                assert found.get(f"{number}") == bytes([number]) * 500_000
            assert len(found) == len(acknowledged)

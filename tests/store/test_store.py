"""What a store does with sensible calls, and what it says to others."""

from __future__ import annotations

import contextlib
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from tutti_hal import errors
from tutti_hal.store import FileDevice, FormatOptions, MemoryDevice, Op, Piece, Reason, Store, StoreOptions, Way
from tutti_hal.store.checksum import crc32c
from tutti_hal.store.format import FORMAT_VERSION

pytestmark = pytest.mark.storage

BLOCK = 512
LAYOUT = FormatOptions(segment_bytes=16 * BLOCK, objects=40, key_limit=200)
LRU = StoreOptions(eviction="lru", checkpoint_every=5)


def made(blocks: int = 300, layout: FormatOptions = LAYOUT) -> MemoryDevice:
    device = MemoryDevice(blocks, BLOCK)
    Store.format(device, layout)
    return device


def again(device: MemoryDevice, options: StoreOptions | None = None) -> Store:
    """What somebody else would find on the medium now."""
    return Store.open(MemoryDevice(device.blocks, BLOCK, image=device.image.copy()), options)


def bitwise(data: bytes) -> int:
    """CRC-32C from its definition."""
    crc = 0xFFFFFFFF
    for byte in data:
        crc ^= byte
        for _ in range(8):
            crc = crc >> 1 ^ (0x82F63B78 if crc & 1 else 0)
    return crc ^ 0xFFFFFFFF


@pytest.mark.parametrize("length", [0, 1, 7, 8, 9, 63, 1000])
def test_checksum_is_the_polynomials(length: int) -> None:
    data = np.random.default_rng(length).bytes(length)
    assert crc32c(data) == bitwise(data)
    assert crc32c(data[length // 3 :], crc32c(data[: length // 3])) == bitwise(data)


def test_what_was_put_is_there_after_opening_again() -> None:
    device = made()
    with Store.open(device) as store:
        versions = store.put_many([("a", b"x" * 700), (b"\xff\xfe", b""), ("ключ", np.arange(600, dtype=np.uint16))])
        assert len(set(versions)) == 1
        assert store.put("a", b"new") > versions[0]
    for way in Way:
        store = again(device, StoreOptions(way=way))
        assert store.get("a") == b"new"
        assert store.get(b"\xff\xfe") == b""
        assert store.get("ключ") == np.arange(600, dtype=np.uint16).tobytes()
        assert [entry.key for entry in store.entries()] == [b"a", "ключ".encode(), b"\xff\xfe"]
        assert "b" not in store
        assert store.get_many(["b", "a"])[0] is None


def test_thousand_random_calls_agree_with_a_dict_and_with_both_recoveries() -> None:
    random = np.random.default_rng(3)
    device = made(330)
    store = Store.open(device, LRU)
    model: dict[bytes, bytes] = {}
    compactions = evictions = 0
    for step in range(1000):
        key = f"k{random.integers(12)}".encode()
        if random.random() < 0.25:
            assert store.delete([key]) == (key in model)
            model.pop(key, None)
        else:
            model[key] = random.bytes(int(random.integers(0, 3000)))
            store.put(key, model[key])
        if step % 100 == 99:
            found = {e.key: store.get(e.key) for e in store.entries()}
            assert found == model
            assert again(device).entries() == again(device, StoreOptions(way=Way.SCAN)).entries() == store.entries()
            compactions += store.status.space.compactions
            evictions += store.status.space.evictions
            store = again(device, LRU)
            device = store.device  # type: ignore[assignment]
    assert compactions > 0
    assert evictions == 0


@pytest.mark.parametrize("key", ["", b"", b"x" * 201, b"x" * 65536, "\ud800", 7])
def test_keys_that_cannot_be(key: object) -> None:
    store = Store.open(made())
    with pytest.raises(errors.KeyInvalid):
        store.put(key, b"")  # type: ignore[arg-type]
    with pytest.raises(errors.KeyInvalid):
        store.get(key)  # type: ignore[arg-type]


def test_a_key_twice_in_a_batch() -> None:
    with pytest.raises(errors.KeyInvalid, match="twice"):
        Store.open(made()).put_many([("a", b"1"), (b"a", b"2")])


def test_the_largest_object_and_one_byte_more() -> None:
    store = Store.open(made())
    largest = (16 - 3) * BLOCK  # without the segment's header, its own and the commit
    store.put("k", b"z" * largest)
    assert store.get("k") == b"z" * largest
    with pytest.raises(errors.ObjectTooLarge):
        store.put("k", b"z" * (largest + 1))


def test_quota_and_lru_by_the_log() -> None:
    device = made()
    store = Store.open(device, StoreOptions(quota_bytes=3000, eviction="lru"))
    for key in "abc":
        store.put(key, key.encode() * 1000)
    store.get("a")
    store.put("d", b"d" * 1000)
    assert [e.key for e in store.entries()] == [b"a", b"c", b"d"]
    entry = again(device).entry("b")
    assert entry is not None
    assert (entry.op, entry.reason) == (Op.EVICT, Reason.QUOTA)
    with pytest.raises(errors.ObjectAbsent, match="evicted"):
        store.get("b")
    with store.pin(["c", "a", "d"]):
        with pytest.raises(errors.StoreFull):
            store.put("e", b"e" * 1000)
        with pytest.raises(errors.ObjectPinned):
            store.delete(["a"])
        assert len(store) == 3
    store.put("e", b"e" * 1000)
    assert "c" not in store


def test_segmented_eviction_keeps_what_is_read() -> None:
    for policy, kept in (("lru", False), ("segmented", True)):
        store = Store.open(made(), StoreOptions(quota_bytes=5000, eviction=policy))
        store.put("read often", b"r" * 1000)
        store.get("read often")
        for number in range(8):
            store.put(f"passing {number}", b"p" * 1000)
        assert ("read often" in store) is kept


def test_full_device_without_and_with_eviction() -> None:
    device = made(120)
    store = Store.open(device)
    count = 0
    with contextlib.suppress(errors.StoreFull):
        while count < 1000:
            store.put(f"k{count}", bytes(1500))
            count += 1
    assert len(store) == count < 1000
    # Full is not stuck: deletions go through, and make room.
    assert store.delete(["k0", "k1", "k2"]) == 3
    for number in range(3, count):
        assert store.get(f"k{number}") == bytes(1500)
    store = again(device, StoreOptions(eviction="lru"))
    for number in range(200):
        store.put(f"n{number}", bytes([number]) * 1500)
        assert store.get(f"n{number}") == bytes([number]) * 1500
    assert store.status.space.evictions > 100


def test_more_keys_than_a_checkpoint_holds() -> None:
    store = Store.open(made(1000, FormatOptions(segment_bytes=16 * BLOCK, objects=3, key_limit=200)))
    fitting = 0
    with contextlib.suppress(errors.StoreFull):
        while fitting < 1000:
            store.put(f"{fitting:0200}", b"")
            fitting += 1
    assert 0 < fitting < 1000
    with pytest.raises(errors.StoreFull, match="checkpoint"):
        store.put(f"{fitting:0200}", b"")
    assert store.checkpoint() == 2


def test_damage_is_told() -> None:
    device = made()
    store = Store.open(device)
    store.put("k", b"k" * 900)
    at = device.image.tobytes().index(b"k" * 900)
    device.image[at] ^= 1
    with pytest.raises(errors.ObjectDamaged):
        store.get("k")
    assert store.get_many(["k"], verify=False)[0] is not None


def test_superblocks() -> None:
    device = made()
    Store.open(device).put("k", b"v")
    first = device.image[:BLOCK].copy()
    device.image[:BLOCK] = 0xEE
    store = again(device)
    assert store.get("k") == b"v"
    assert store.status.notes
    device.image[-BLOCK:] = 0xEE
    with pytest.raises(errors.StoreAbsent):
        again(device)
    first[70] ^= 1
    device.image[:BLOCK] = first
    with pytest.raises(errors.StoreDamaged):
        again(device)


def test_a_newer_version_is_refused_by_number() -> None:
    device = made()
    for lba in (0, device.blocks - 1):
        device.image[lba * BLOCK + 8 : lba * BLOCK + 12] = np.frombuffer(
            (FORMAT_VERSION + 1).to_bytes(4, "little"), np.uint8
        )
    before = device.image.copy()
    with pytest.raises(errors.StoreVersionUnknown, match=str(FORMAT_VERSION + 1)):
        Store.open(device)
    assert (device.image == before).all()


def test_both_checkpoints_broken_needs_a_scan() -> None:
    device = made()
    store = Store.open(device)
    store.put("k", b"v")
    superblock = store.superblock
    for slot in range(2):
        device.image[superblock.checkpoint_lba(slot) * BLOCK] ^= 1
    with pytest.raises(errors.StoreDamaged, match="scan"):
        again(device)
    assert again(device, StoreOptions(way=Way.SCAN)).get("k") == b"v"


@pytest.mark.parametrize(
    ("blocks", "layout"),
    [
        (300, FormatOptions(segment_bytes=3 * BLOCK)),
        (30, LAYOUT),
        (300, FormatOptions(segment_bytes=16 * BLOCK, objects=0)),
        (300, FormatOptions(segment_bytes=16 * BLOCK, objects=4, key_limit=1 << 16)),
    ],
)
def test_layouts_that_cannot_be(blocks: int, layout: FormatOptions) -> None:
    with pytest.raises(errors.StoreOptionInvalid):
        Store.format(MemoryDevice(blocks, BLOCK), layout)


def test_options_that_cannot_be() -> None:
    for options in (StoreOptions(eviction="random"), StoreOptions(quota_bytes=-1)):
        with pytest.raises(errors.StoreOptionInvalid):
            Store.open(made(), options)


class Failing(MemoryDevice):
    """Fails from a given write on."""

    left = 10**9
    volatile = True

    def write(self, pieces: list[Piece]) -> None:  # type: ignore[override]
        self.left -= 1
        if self.left < 0:
            raise errors.StoreDeviceError("write", "the medium is gone", "None.")
        super().write(pieces)


@pytest.mark.parametrize("writes", [0, 1])
def test_a_failed_device_ends_the_store_and_not_the_old_version(writes: int) -> None:
    device = Failing(300, BLOCK, image=made().image)
    store = Store.open(device)
    store.put("k", b"old")
    device.left = writes
    with pytest.raises(errors.StoreDeviceError):
        store.put("k", b"new")
    with pytest.raises(errors.StoreClosed):
        store.get("k")
    assert again(device).get("k") == b"old"


def test_closed_and_read_only() -> None:
    device = made()
    store = Store.open(device)
    store.put("k", b"v")
    store.close()
    store.close()
    with pytest.raises(errors.StoreClosed):
        store.get("k")
    looking = again(device, StoreOptions(read_only=True))
    assert looking.get("k") == b"v"
    with pytest.raises(errors.StoreClosed):
        looking.put("k", b"w")


def test_two_processes_on_one_store(tmp_path: Path) -> None:
    """The second one is refused while the first lives, and not longer, however that ends."""
    path = tmp_path / "store"
    path.write_bytes(bytes(300 * BLOCK))
    with FileDevice(path, block_bytes=BLOCK) as device:
        Store.format(device, LAYOUT)
    program = """
import sys, pathlib
from tutti_hal.store import FileDevice, Store
store = Store.open(FileDevice(pathlib.Path(sys.argv[1])))
store.put("theirs", b"t" * 999)
print("put", flush=True)
sys.stdin.read()
"""
    with subprocess.Popen(
        [sys.executable, "-c", program, path], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as other:
        assert other.stdout is not None
        assert other.stdout.readline() == "put\n"
        for read_only in (False, True):
            with pytest.raises(errors.StoreLocked) as refused:
                FileDevice(path, read_only=read_only)
            assert refused.value.fix
        other.kill()
        other.wait(30)
    with Store.open(FileDevice(path)) as store:
        assert store.get("theirs") == b"t" * 999


def test_a_file_is_one_stores(tmp_path: Path) -> None:
    path = tmp_path / "store"
    path.write_bytes(bytes(300 * BLOCK))
    with FileDevice(path, block_bytes=BLOCK) as device:
        Store.format(device, LAYOUT)
    with Store.open(FileDevice(path)) as store:
        store.put("k", b"v" * 777)
        for read_only in (False, True):
            with pytest.raises(errors.StoreLocked):
                FileDevice(path, read_only=read_only)
    with FileDevice(path, read_only=True) as one, FileDevice(path, read_only=True) as two:
        assert one.block_bytes == two.block_bytes == BLOCK
        assert Store.open(one, StoreOptions(read_only=True)).get("k") == b"v" * 777
        with pytest.raises(errors.StoreDeviceError):
            two.write([Piece(0, np.zeros(BLOCK, np.uint8))])
    with pytest.raises(errors.StoreAbsent):
        FileDevice(tmp_path / "none")
    with pytest.raises(errors.StoreOptionInvalid):
        FileDevice(tmp_path, read_only=True)

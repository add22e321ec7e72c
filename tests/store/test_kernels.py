"""The store's kernels by their host half, against NumPy."""

from __future__ import annotations

import numpy as np
import pytest

from tutti_hal import errors
from tutti_hal.shim import Device
from tutti_hal.store.checksum import crc32c
from tutti_hal.store.kernels import PagedCache, StoreKernels, hash_keys, record_dtype

pytestmark = pytest.mark.storage

ARCHS = ["threads-w32", "sim-w64"]


def changes(keys: list[bytes], version: int, present: bool = True) -> np.ndarray:
    hashes = hash_keys(keys)
    rows = np.zeros(len(keys), record_dtype("store_change"))
    rows["low"], rows["high"], rows["version"], rows["present"] = hashes["low"], hashes["high"], version, present
    rows["lba"] = np.arange(len(keys)) * 8 + version
    return rows


@pytest.mark.parametrize("arch", ARCHS)
def test_table_says_what_was_committed(arch: str) -> None:
    keys = [f"block {n}".encode() for n in range(150)]
    with StoreKernels(Device(f"host:{arch}"), 150) as kernels:
        hashes = hash_keys(keys)
        kernels.commit(changes(keys[:100], 5))
        kernels.commit(changes(keys[40:60], 9, present=False))
        kernels.commit(changes(keys[:10], 3))  # older: changes nothing
        places = kernels.lookup(hashes)
        there = [n < 40 or 60 <= n < 100 for n in range(150)]
        assert places["found"].tolist() == there
        assert places["lba"][:40].tolist() == [8 * n + 5 for n in range(40)]
        assert kernels.prefix([hashes, hashes[60:], hashes[:0], hashes[41:]]) == [40, 40, 0, 0]


def test_table_of_one_key_is_full_with_three() -> None:
    with StoreKernels(Device("host:threads-w32"), 1) as kernels, pytest.raises(errors.StoreFull):
        kernels.commit(changes([b"1", b"2", b"3"], 1))


def test_equal_low_halves_are_two_keys() -> None:
    rows = changes([b"1", b"2"], 4)
    rows["low"] = 77
    with StoreKernels(Device("host:sim-w32"), 4) as kernels:
        kernels.commit(rows)
        keys = np.zeros(3, record_dtype("store_key"))
        keys["low"], keys["high"] = 77, [*rows["high"], 1]
        assert kernels.lookup(keys)["lba"].tolist() == [4, 12, 0]


@pytest.mark.parametrize("arch", ARCHS)
def test_sums(arch: str) -> None:
    data = np.random.default_rng(1).integers(0, 256, 70000, np.uint8)
    device = Device(f"host:{arch}")
    with StoreKernels(device, 1) as kernels, device.allocate(len(data)) as memory:
        kernels.stream.copy(memory, data)
        ranges = [(0, 0), (8, 1), (16, 7), (0, 8), (8, 4096), (0, 12345), (800, 65536)]
        expected = [crc32c(data[at : at + n]) for at, n in ranges]
        assert kernels.checksums(memory.address, ranges) == expected
        with pytest.raises(errors.StoreOptionInvalid):
            kernels.checksums(memory.address, [(4, 8)])


@pytest.mark.parametrize("layout", ["NHD", "HND"])
@pytest.mark.parametrize("head_bytes", [20, 32])
def test_paged_caches_and_objects(layout: str, head_bytes: int) -> None:
    random = np.random.default_rng(2)
    device = Device("host:threads-w32")
    cache = PagedCache(0, blocks=7, block_tokens=4, heads=3, head_bytes=head_bytes, layout=layout)
    shape = (2, 7, 4, 3, head_bytes) if layout == "NHD" else (2, 7, 3, 4, head_bytes)
    values = random.integers(0, 256, shape, np.uint8)
    numbers = np.array([6, 0, 3, 5, 9], np.uint32)
    tensors = np.zeros(3, record_dtype("store_tensor"))
    size = 6 * 3 * head_bytes
    tensors["offset"], tensors["tokens"], tensors["block_first"] = [0, size, 2 * size], 6, [0, 2, 3]
    tensors["side"] = [0, 1, 0]
    with (
        StoreKernels(device, 1) as kernels,
        device.allocate(cache.nbytes) as memory,
        device.allocate(3 * size) as staging,
    ):
        placed = PagedCache(memory.address, 7, 4, 3, head_bytes, layout)
        kernels.stream.copy(memory, values.reshape(-1))
        refused = kernels.gather(placed, tensors, numbers, staging.address, 3 * size)
        assert refused == 2 * 3  # block 9 is none of the cache's: two tokens of three heads
        packed = np.zeros(3 * size, np.uint8)
        kernels.stream.copy(packed, staging)
        kernels.stream.synchronize()
        plain = values if layout == "NHD" else values.transpose(0, 1, 3, 2, 4)
        for row, (side, first) in enumerate([(0, 0), (1, 2)]):
            tokens = plain[side, numbers[first : first + 2]].reshape(8, 3, head_bytes)[:6]
            assert (packed[row * size : (row + 1) * size] == tokens.reshape(-1)).all()
        kernels.stream.fill(memory, 0)
        assert kernels.scatter(placed, tensors[:2], numbers, staging.address, 3 * size) == 0
        back = np.zeros(cache.nbytes, np.uint8)
        kernels.stream.copy(back, memory)
        kernels.stream.synchronize()
        expected = np.zeros_like(plain)
        for side, first in ((0, 0), (1, 2)):
            expected[side, numbers[first]] = plain[side, numbers[first]]
            expected[side, numbers[first + 1], :2] = plain[side, numbers[first + 1], :2]
        found = back.reshape(shape)
        assert ((found if layout == "NHD" else found.transpose(0, 1, 3, 2, 4)) == expected).all()
        assert kernels.gather(placed, tensors, numbers, staging.address, size) > 0  # no room for the others

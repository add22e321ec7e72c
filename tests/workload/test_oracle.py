"""The oracle against a plain-integer SplitMix64 and a bitwise CRC-32 written here."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tutti_hal.workload.oracle import Oracle, TensorName
from tutti_hal.workload.shapes import KvShape

SHAPE = KvShape("tiny", layers=3, kv_heads=1, head_dim=16, element_bytes=2, tokens_per_block=16, blocks_per_hash=2)
NAMES = st.builds(TensorName, st.integers(0, 2**63 - 1), st.integers(0, 200), st.integers(0, 63))


def _mix(z: int) -> int:
    z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9 % 2**64
    z = (z ^ (z >> 27)) * 0x94D049BB133111EB % 2**64
    return z ^ (z >> 31)


def _bytes(seed: int, name: TensorName) -> bytes:
    start = seed % 2**64
    for part in (name.hash_id, name.layer, name.index):
        start = _mix(((start + 0x9E3779B97F4A7C15) % 2**64) ^ _mix((part + 1) % 2**64))
    words = [_mix((start + i * 0x9E3779B97F4A7C15) % 2**64) for i in range(1, SHAPE.tensor_bytes // 8 + 1)]
    return b"".join(word.to_bytes(8, "little") for word in words)


def _crc32(data: bytes) -> int:
    crc = 0xFFFFFFFF
    for byte in data:
        crc ^= byte
        for _ in range(8):
            crc = (crc >> 1) ^ (0xEDB88320 if crc & 1 else 0)
    return crc ^ 0xFFFFFFFF


@settings(max_examples=30)
@given(st.integers(0, 2**64 - 1), NAMES)
def test_bytes_and_checksum_follow_from_the_name_alone(seed: int, name: TensorName) -> None:
    oracle = Oracle(SHAPE, seed)
    out = np.zeros(SHAPE.tensor_bytes, np.uint8)
    oracle.fill(name, out)
    assert out.tobytes() == _bytes(seed, name)
    # A second oracle has seen no buffer at all, and knows the checksum.
    assert Oracle(SHAPE, seed).expected_crc32(name) == _crc32(_bytes(seed, name))
    assert oracle.check(name, out) is None


@settings(max_examples=30)
@given(NAMES, st.integers(0, SHAPE.tensor_bytes - 1), st.integers(1, 255))
def test_one_wrong_byte_is_found_where_it_is(name: TensorName, at: int, flip: int) -> None:
    oracle = Oracle(SHAPE, 1)
    out = np.zeros(SHAPE.tensor_bytes, np.uint8)
    oracle.fill(name, out)
    out[at] ^= flip
    mismatch = oracle.check(name, out)
    assert mismatch is not None
    assert (mismatch.name, mismatch.first_byte, mismatch.differing_bytes) == (name, at, 1)
    assert mismatch.found_crc32 == _crc32(out.tobytes())


def test_names_that_differ_anywhere_give_other_bytes() -> None:
    names = [TensorName(h, layer, i) for h in range(6) for layer in range(6) for i in range(6)]
    assert len({_bytes(1, n) for n in names}) == len(names)
    oracle = Oracle(SHAPE, 1)
    assert len({oracle.expected_crc32(n) for n in names}) == len(names)
    assert Oracle(SHAPE, 2).expected_crc32(names[0]) != oracle.expected_crc32(names[0])


def test_words_that_are_not_whole_are_refused() -> None:
    with pytest.raises(ValueError, match="8-byte words"):
        Oracle(KvShape("odd", 1, 1, 3, 1, 1, 1), 0)


def test_a_name_reads_like_a_name() -> None:
    assert str(TensorName(17, 3, 5)) == "hash 17 layer 3 V block 2"

"""What every byte must be: KV bytes from a tensor's name alone, and the checksum a read of it must have.

The bytes of a tensor are a pure function of (seed, hash id, layer, index): SplitMix64 over a counter that begins at a
hash of the name. Nothing here looks at a buffer that was written, so a lost, torn, misplaced or stale write is seen.
"""

from __future__ import annotations

import zlib
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from tutti_hal.workload.shapes import KvShape

_GAMMA = 0x9E3779B97F4A7C15
_MIX_1 = 0xBF58476D1CE4E5B9
_MIX_2 = 0x94D049BB133111EB
_MASK = 2**64 - 1


@dataclass(frozen=True)
class TensorName:
    """A tensor by its meaning: what the bytes depend on."""

    hash_id: int
    layer: int
    index: int

    def __str__(self) -> str:
        return f"hash {self.hash_id} layer {self.layer} {'KV'[self.index % 2]} block {self.index // 2}"


@dataclass(frozen=True)
class Mismatch:
    """A tensor that came back wrong.

    Attributes:
        name: which.
        expected_crc32: of the source data.
        found_crc32: of what was read.
        first_byte: index of the first byte that differs.
        differing_bytes: how many differ.
    """

    name: TensorName
    expected_crc32: int
    found_crc32: int
    first_byte: int
    differing_bytes: int


def _mix(value: int) -> int:
    value = ((value ^ (value >> 30)) * _MIX_1) & _MASK
    value = ((value ^ (value >> 27)) * _MIX_2) & _MASK
    return value ^ (value >> 31)


class Oracle:
    """The source of KV data and the judge of what comes back.

    Expected checksums are worked out again from the name whenever first needed and kept (4 bytes a tensor).

    Args:
        shape: gives the bytes of a tensor.
        seed: any integer; other seeds give other bytes.
    """

    def __init__(self, shape: KvShape, seed: int) -> None:
        if shape.tensor_bytes % 8:
            raise ValueError(f"tensors of {shape.tensor_bytes} bytes are not whole 8-byte words")
        self._shape = shape
        self._seed = seed & _MASK
        words = shape.tensor_bytes // 8
        self._steps = np.arange(1, words + 1, dtype=np.uint64) * np.uint64(_GAMMA)
        self._scratch = np.empty(words, np.uint64)
        self._judged = np.empty(words, np.uint64)
        self._expected: dict[TensorName, int] = {}

    def fill(self, name: TensorName, out: NDArray[np.uint8]) -> None:
        """Writes the bytes of a tensor to ``out``: contiguous, ``tensor_bytes`` long, 8-byte aligned."""
        self._generate(name, out.view(np.uint64))

    def fill_layers(self, hash_id: int, layers: Sequence[int], out: NDArray[np.uint8]) -> None:
        """Fills ``out`` of shape (len(layers), tensors_per_layer, tensor_bytes) for one hash id."""
        for row, layer in enumerate(layers):
            for index in range(self._shape.tensors_per_layer):
                self.fill(TensorName(hash_id, layer, index), out[row, index])

    def expected_crc32(self, name: TensorName) -> int:
        """CRC-32 (zlib's) of the source bytes of a tensor."""
        crc = self._expected.get(name)
        if crc is None:
            self._generate(name, self._judged)
            crc = self._expected[name] = zlib.crc32(self._judged.view(np.uint8).data)
        return crc

    def check(self, name: TensorName, found: NDArray[np.uint8]) -> Mismatch | None:
        """Judges bytes that were read for a tensor; ``None`` when they are the source bytes."""
        expected = self.expected_crc32(name)
        crc = zlib.crc32(found.data)
        if crc == expected:
            return None
        self._generate(name, self._judged)
        wrong = np.flatnonzero(self._judged.view(np.uint8) != found)
        return Mismatch(name, expected, crc, int(wrong[0]), len(wrong))

    def _generate(self, name: TensorName, out: NDArray[np.uint64]) -> None:
        # Chained, so that the order of the parts counts: (1, 0, 0) and (0, 1, 0) begin far apart.
        start = self._seed
        for part in (name.hash_id, name.layer, name.index):
            start = _mix(((start + _GAMMA) & _MASK) ^ _mix((part + 1) & _MASK))
        scratch = self._scratch
        np.add(self._steps, np.uint64(start), out=out)
        np.right_shift(out, np.uint64(30), out=scratch)
        np.bitwise_xor(out, scratch, out=out)
        np.multiply(out, np.uint64(_MIX_1), out=out)
        np.right_shift(out, np.uint64(27), out=scratch)
        np.bitwise_xor(out, scratch, out=out)
        np.multiply(out, np.uint64(_MIX_2), out=out)
        np.right_shift(out, np.uint64(31), out=scratch)
        np.bitwise_xor(out, scratch, out=out)

"""What one request moves: chunks of tokens, each with its tensors for every layer."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray


@dataclass(frozen=True)
class Shape:
    """A request's KV cache.

    Attributes:
        layers: of the model.
        chunks: of the context.
        hits: chunks that lie on the drives already and are read; the others are computed and written.
        tensor_bytes: of one tensor of a chunk and a layer; the stripe unit.
        drives: how many the chunks are spread over.
        tensors: of a chunk and a layer: 2, K and V; 1 for one latent of both (MLA).
    """

    layers: int
    chunks: int
    hits: int
    tensor_bytes: int
    drives: int
    tensors: int = 2

    @property
    def misses(self) -> int:
        """Chunks that are computed and written."""
        return self.chunks - self.hits

    @property
    def part_bytes(self) -> int:
        """Bytes of a chunk on each drive."""
        return -(-self.tensors * self.layers // self.drives) * self.tensor_bytes

    @property
    def drive_bytes(self) -> int:
        """Bytes of all chunks on each drive."""
        return self.chunks * self.part_bytes

    def uri(self, chunk: int) -> str:
        """Where a chunk lies: a range of every drive, turned by its number, so that a layer of all chunks spreads."""
        names = ",".join(f"d{number}" for number in range(self.drives))
        where = f"offset={chunk * self.part_bytes}&size={self.part_bytes}"
        return f"striped://{names}?unit={self.tensor_bytes}&rotation={chunk}&{where}"

    def offset(self, layer: int) -> int:
        """Where in a chunk a layer's first tensor begins; the others follow."""
        return self.tensors * layer * self.tensor_bytes


def tensors(shape: Shape, chunk: int, layer: int, round_number: int) -> NDArray[np.uint64]:
    """All tensors of a chunk and a layer, in one piece: numbers that no other chunk, layer or round has."""
    first = np.uint64((chunk << 40 | layer << 24 | round_number) * 0x9E3779B97F4A7C15 & (1 << 64) - 1)
    return first + np.arange(shape.tensors * shape.tensor_bytes // 8, dtype=np.uint64)

"""Where tensors lie: striped round-robin over the drives, so that one layer of one request uses all of them."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from tutti_hal.workload.shapes import KvShape


@dataclass(frozen=True)
class Placement:
    """A bijection between tensors and places on drives.

    A tensor is (slot, layer, index), ``index`` counting from 0 over keys and values of the slot's blocks in that layer:
    ``2 * block + (0 for keys, 1 for values)``. Layers lie one behind the other; in a layer tensors go round-robin over
    the drives, and each layer begins one drive further, so that no drive sees all first tensors.

    Attributes:
        shape: the KV shape.
        slots: hash ids that the drives hold together.
        drives: how many.
    """

    shape: KvShape
    slots: int
    drives: int

    @property
    def stripes_per_layer(self) -> int:
        """Tensors of one layer that a drive holds, rounded up."""
        return -(-self.slots * self.shape.tensors_per_layer // self.drives)

    @property
    def drive_bytes(self) -> int:
        """Bytes that each drive needs."""
        return self.stripes_per_layer * self.shape.layers * self.shape.tensor_bytes

    def locate(self, slots: NDArray[np.int64], layer: int) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Drive and byte offset of every tensor of some slots in one layer.

        Args:
            slots: shape (n,).
            layer: from 0.

        Returns:
            Two arrays of shape (n, tensors_per_layer): drive, and byte offset on it, a multiple of ``tensor_bytes``.
        """
        tensor = slots[:, None] * self.shape.tensors_per_layer + np.arange(self.shape.tensors_per_layer)
        drive = (tensor + layer) % self.drives
        offset = (layer * self.stripes_per_layer + tensor // self.drives) * self.shape.tensor_bytes
        return drive, offset

"""What resolvers deal in: drives as places, and members of targets with their extents."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from tutti_hal.io_uring import Target
    from tutti_hal.storage.drives import StorageDrive
    from tutti_hal.storage.watch import FileWatch


@dataclass(frozen=True)
class Place:
    """A drive as resolvers see it.

    Attributes:
        drive: the drive.
        target: the ring's target of its namespace.
    """

    drive: StorageDrive
    target: Target

    @property
    def nbytes(self) -> int:
        """Bytes of the namespace."""
        return self.target.blocks * self.target.lba_bytes


@dataclass(frozen=True, slots=True)
class Leaf:
    """One member: its extents, length and block, and what watches over its file."""

    extents: NDArray[np.void]
    nbytes: int
    block: int
    watch: FileWatch | None = None

"""A batch seen three ways: as requests, as the commands they become, and as the blocks that those touch."""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING

from tutti_hal.conformance_tests.campaign.wide.tables import bases, by_space, most_of, parts_of

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from tutti_hal.conformance_tests.campaign.steps import Setting
    from tutti_hal.conformance_tests.campaign.wide.tables import WideBatch


class View:
    """Columns of a batch, worked out from what was asked and from the drives' MDTS.

    Attributes:
        verb, space, queue_class, drive, parts: of each request; `parts` is how many commands it becomes.
        owners, within, places, tags: of each block: its request, its number there, its number among all blocks of all
            spaces, and what a write or compare holds there.
        command_of_block: of each block.
        owner_of_command: of each command, its request.
        first_lba, last_lba: of each command.
    """

    def __init__(self, setting: Setting, batch: WideBatch) -> None:
        import numpy as np

        self.verb, self.space = batch.column("verb"), batch.column("space")
        self.queue_class = batch.column("queue_class")
        self.drive = by_space(setting, "drive")[self.space]
        self.parts = parts_of(setting, batch)
        self.owners, self.within, self.tags = batch.owners, batch.within, batch.tags
        lba, blocks = batch.column("lba"), batch.column("blocks")
        self.places = bases(setting)[self.space[self.owners]] + lba[self.owners] + self.within
        most = most_of(setting)[self.space]
        self._firsts = np.cumsum(self.parts) - self.parts
        self.command_of_block = self._firsts[self.owners] + self.within // most[self.owners]
        self.owner_of_command = np.repeat(np.arange(len(self)), self.parts)
        owner = self.owner_of_command
        skipped = (np.arange(self.commands) - self._firsts[owner]) * most[owner]
        self.first_lba = lba[owner] + skipped
        self.last_lba = self.first_lba + np.minimum(blocks[owner] - skipped, most[owner]) - 1

    def __len__(self) -> int:
        return len(self.verb)

    @cached_property
    def commands(self) -> int:
        """How many commands there are."""
        return int(self.parts.sum())

    def all_of(self, commands: NDArray[np.bool_]) -> NDArray[np.bool_]:
        """Of each request, whether it holds of all of its commands."""
        import numpy as np

        found: NDArray[np.bool_] = np.logical_and.reduceat(commands, self._firsts)
        return found

    def any_of(self, commands: NDArray[np.bool_]) -> NDArray[np.bool_]:
        """Of each request, whether it holds of one of its commands."""
        import numpy as np

        found: NDArray[np.bool_] = np.logical_or.reduceat(commands, self._firsts)
        return found

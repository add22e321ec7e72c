"""Completions taken by the host, from a queue that no kernel uses."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

from tutti_hal.io_uring.layout import CQE_BYTES

if TYPE_CHECKING:
    from tutti_hal.io_uring.device_tables import QueueWords
    from tutti_hal.nvme.drive_handle import DriveHandle
    from tutti_hal.nvme.queues import QueuePair


class CompletionTaker:
    """Takes what lies in a completion queue from where the kernels stopped, and tells the drive so.

    Args:
        handle: of the drive.
        pairs: all that complete there.
        words: of the first of them, at rest: they have the completion queue's.
        waited_for: (queue identifier, command identifier) of each command whose completion is waited for.
    """

    def __init__(
        self,
        handle: DriveHandle,
        pairs: Sequence[QueuePair],
        words: QueueWords,
        waited_for: Iterable[tuple[int, int]],
    ) -> None:
        self._handle, self._pair = handle, pairs[0]
        self._qids = {pair.qid for pair in pairs}
        self._told = int(words.state["cq_rung"])
        #: Completions taken since the queue was made, by kernels and here.
        self.head = int(words.state["completion"]) >> 1
        #: Commands whose completion has not come.
        self.open = set(waited_for)
        #: Completions of such commands, by queue: late, and of no use but to say that their command has ended.
        self.lates: Counter[int] = Counter()
        #: Completions of unknown, repeated or outdated identifiers, by queue: not believed. What names no queue that
        #: completes here counts for the first.
        self.strays: Counter[int] = Counter()

    def take(self) -> None:
        """Takes all that is there, which is at most the queue's depth. Never blocks."""
        pair, memory = self._pair, self._pair.cq_memory
        while True:
            lap, slot = divmod(self.head, pair.cq_depth)
            # Dword 3 first: the drive writes it last. Its phase is 1 on the first lap, then the other way round.
            dword_3 = memory.load32(slot * CQE_BYTES + 12)
            if dword_3 >> 16 & 1 == lap & 1:
                break
            dword_2 = memory.load32(slot * CQE_BYTES + 8)
            command = (dword_2 >> 16, dword_3 & 0xFFFF)
            if command in self.open:
                self.open.remove(command)
                self.lates[command[0]] += 1
            else:
                self.strays[command[0] if command[0] in self._qids else pair.qid] += 1
            self.head += 1
        if self.head != self._told:
            self._handle.write_cq_head(pair, self.head % pair.cq_depth)
            self._told = self.head

"""Completions that the host takes itself: whose are believed, which count as nobody's, and where it stops."""

from __future__ import annotations

import struct
from types import SimpleNamespace
from typing import Any

import pytest

from tutti_hal.io_uring.completion_taker import CompletionTaker

pytestmark = pytest.mark.ring

#: The queue, the one that shares its completion queue, and how many entries that has.
QID, OTHER, DEPTH = 3, 4, 4


class Queue:
    """A completion queue as a drive would fill it, and the doorbell values that it is told."""

    def __init__(self) -> None:
        self.data = bytearray(16 * DEPTH)
        self.told: list[int] = []

    def post(self, position: int, identifier: int, qid: int = QID) -> None:
        """The entry at a position since the queue was made: its phase is 1 on laps of even number."""
        lap, slot = divmod(position, DEPTH)
        dword_3 = (1 - lap % 2) << 16 | identifier
        self.data[16 * slot : 16 * slot + 16] = struct.pack("<IIII", 0, 0, qid << 16, dword_3)

    def taker(self, *waited_for: int, head: int = 0) -> CompletionTaker:
        """One that begins where kernels stopped."""
        memory = SimpleNamespace(load32=lambda at: struct.unpack_from("<I", self.data, at)[0])
        pair: Any = SimpleNamespace(qid=QID, cq_depth=DEPTH, cq_memory=memory)
        other: Any = SimpleNamespace(qid=OTHER)
        handle: Any = SimpleNamespace(write_cq_head=lambda _, head: self.told.append(head))
        words: Any = SimpleNamespace(state={"cq_rung": head, "completion": head << 1})
        return CompletionTaker(handle, [pair, other], words, [(QID, one) for one in waited_for])


def found(taker: CompletionTaker) -> tuple[int, dict[int, int], dict[int, int], set[tuple[int, int]]]:
    """Head, lates and strays by queue, and what is still waited for."""
    return taker.head, dict(taker.lates), dict(taker.strays), taker.open


def test_nothing_is_taken_where_nothing_came() -> None:
    queue = Queue()
    taker = queue.taker(5)
    taker.take()
    assert (*found(taker), queue.told) == (0, {}, {}, {(QID, 5)}, [])


@pytest.mark.parametrize("head", [0, 3, 4, 7, 8])
def test_what_is_waited_for_is_late_and_all_else_is_nobodys(head: int) -> None:
    queue = Queue()
    for at in range(head):  # what kernels took lies there still
        queue.post(at, 9)
    taker = queue.taker(5, 6, head=head)
    queue.post(head, 5)
    queue.post(head + 1, 5)  # once more
    queue.post(head + 2, 77)  # never sent
    taker.take()
    assert found(taker) == (head + 3, {QID: 1}, {QID: 2}, {(QID, 6)})
    queue.post(head + 3, 6, qid=OTHER)  # the same number, of the queue beside
    taker.take()
    assert found(taker) == (head + 4, {QID: 1}, {QID: 2, OTHER: 1}, {(QID, 6)})
    queue.post(head + 4, 6, qid=OTHER + 1)  # of a queue that does not complete here
    taker.take()
    assert found(taker) == (head + 5, {QID: 1}, {QID: 3, OTHER: 1}, {(QID, 6)})
    queue.post(head + 5, 6)
    taker.take()
    taker.take()
    assert found(taker) == (head + 6, {QID: 2}, {QID: 3, OTHER: 1}, set())
    assert queue.told == [(head + taken) % DEPTH for taken in (3, 4, 5, 6)]
